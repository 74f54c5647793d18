/* deploy/docs/man.c: a man page a program, in groff's man macros. */
#include "docs.h"

#include "rows.h"

#include <string.h>

static const struct {
	int program, section;
} section_row[] = {
#define SECTION(PROGRAM, N) {PROG_##PROGRAM, N},
#include "man.def"
};
static const struct words_row {
	uint32_t programs;
	const char *name, *words;
} para_row[] =
    {
#define PARA(PROGRAMS, TEXT) {PROGRAMS, NULL, TEXT},
#include "man.def"
},
  env_row[] =
      {
#define ENV(PROGRAMS, NAME, WORDS) {PROGRAMS, NAME, WORDS},
#include "man.def"
},
  file_row[] =
      {
#define FILE_ROW(PROGRAMS, PATH, WORDS) {PROGRAMS, PATH, WORDS},
#include "man.def"
},
  example_row[] = {
#define EXAMPLE(PROGRAM, COMMAND, WORDS) {P(PROGRAM), COMMAND, WORDS},
#include "man.def"
};

/* Text as it stands: no macro at the beginning of a line, no escapes, hyphens as they are typed. */
static void
put(struct strbuf *sb, const char *text)
{
	for (const char *c = text; *c; c++) {
		if ((*c == '.' || *c == '\'') && (c == text || c[-1] == '\n'))
			sb_addz(sb, "\\&");
		if (*c == '\\')
			sb_addz(sb, "\\e");
		else if (*c == '-')
			sb_addz(sb, "\\-");
		else if (*c == '~')
			sb_addz(sb, "\\(ti");
		else if (*c == '^')
			sb_addz(sb, "\\(ha");
		else
			sb_addc(sb, *c);
	}
}

static int
section_of(int program)
{
	for (size_t i = 0; i < COUNT_OF(section_row); i++)
		if (section_row[i].program == program)
			return section_row[i].section;
	return 1;
}

/* A term in bold, then what it is. */
static void
put_term(struct strbuf *sb, const char *term, const char *argument, const char *words)
{
	sb_addz(sb, ".TP\n\\fB");
	put(sb, term);
	sb_addz(sb, "\\fR");
	if (*argument) {
		sb_addz(sb, *argument == '[' ? "\\fI" : " \\fI"); /* "--perturb[=SECONDS]" */
		put(sb, argument);
		sb_addz(sb, "\\fR");
	}
	sb_addc(sb, '\n');
	put(sb, words);
	sb_addc(sb, '\n');
}

static void
put_options(struct docs *d, struct strbuf *sb, int program)
{
	sb_addz(sb, ".SH OPTIONS\n");
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *o = &option_row[i];
		const char *letter = o->letter ? arena_printf(d->a, "-%c, ", o->letter) : "";
		const char *more =
		    strcmp(o->type, "FLAG") == 0 || !o->def[0] ? "" : arena_printf(d->a, " [%s]", o->def);

		if (is_for(o->programs, program))
			put_term(sb, arena_printf(d->a, "%s--%s", letter, o->flag), o->arg,
			    arena_printf(d->a, "%s%s", o->help, more));
	}
}

static void
put_words(struct docs *d, struct strbuf *sb)
{
	sb_addz(sb, ".SH WORDS\n");
	for (size_t i = 0; i < WORD_COUNT; i++) {
		const struct program_word *w = &word_row[i];
		const char *flag = *w->flag ? arena_printf(d->a, " %s", w->flag) : "";

		put_term(sb, w->word, "",
		    arena_printf(d->a, "%s%s: %s", program_row[w->program].name, flag, w->text));
	}
}

/* The classes of each exit status; finer ones share that of "failed". */
static void
put_exits(struct docs *d, struct strbuf *sb)
{
	bool seen[256] = {false};

	sb_addz(sb, ".SH EXIT STATUS\n");
	for (int i = 0; i < ERR_COUNT; i++) {
		int status = err_exit_status((enum err_code)i);

		if (seen[status & 255])
			continue;
		seen[status & 255] = true;
		put_term(sb, arena_printf(d->a, "%d", status), "", err_text((enum err_code)i));
	}
}

static void
put_rows(struct strbuf *sb, const char *heading, const struct words_row *row, size_t n, int program)
{
	bool has_heading = false;

	for (size_t i = 0; i < n; i++) {
		if (!is_for(row[i].programs, program))
			continue;
		if (!has_heading)
			sb_addf(sb, ".SH %s\n", heading);
		has_heading = true;
		put_term(sb, row[i].name, "", row[i].words);
	}
}

static void
put_environment(struct strbuf *sb, int program)
{
	sb_addz(sb, ".SH ENVIRONMENT\n");
	put(sb,
	    "Each option but --help, --version and --show-config is also a variable: --some-name is "
	    "KORCH_SOME_NAME.");
	sb_addc(sb, '\n');
	for (size_t i = 0; i < COUNT_OF(env_row); i++)
		if (is_for(env_row[i].programs, program))
			put_term(sb, env_row[i].name, "", env_row[i].words);
}

static void
put_examples(struct strbuf *sb, int program)
{
	bool has_heading = false;

	for (size_t i = 0; i < COUNT_OF(example_row); i++) {
		if (!is_for(example_row[i].programs, program))
			continue;
		if (!has_heading)
			sb_addz(sb, ".SH EXAMPLES\n");
		has_heading = true;
		sb_addz(sb, ".PP\n.EX\n");
		put(sb, example_row[i].name);
		sb_addz(sb, "\n.EE\n.RS\n");
		put(sb, example_row[i].words);
		sb_addz(sb, "\n.RE\n");
	}
}

static void
put_see_also(struct strbuf *sb, int program)
{
	bool is_first = true;

	sb_addz(sb, ".SH SEE ALSO\n");
	for (int i = 0; i < PROG_COUNT; i++) {
		if (i == program)
			continue;
		sb_addz(sb, is_first ? ".BR " : ",\n.BR ");
		is_first = false;
		put(sb, program_row[i].name);
		sb_addf(sb, " (%d)", section_of(i));
	}
	sb_addc(sb, '\n');
}

static void
put_head(struct docs *d, struct strbuf *sb, int program)
{
	const struct program_row *p = &program_row[program];
	struct str rest = str_of(p->text), first = str_cut(&rest, '.');
	char *title = str_dup(d->a, str_of(p->name));

	for (char *c = title; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	sb_addz(
	    sb, ".\\\" Made by korch-docs from kernels/base/opt.def, err.def and deploy/docs/man.def.\n.TH ");
	put(sb, title);
	sb_addf(sb, " %d \"\" \"korch %s\" \"Korch\"\n.nh\n.ad l\n.SH NAME\n", section_of(program),
	    KORCH_VERSION);
	put(sb, p->name);
	sb_addz(sb, " \\- ");
	put(sb, str_dup(d->a, first));
	sb_addz(sb, "\n.SH SYNOPSIS\n.B ");
	put(sb, p->name);
	sb_addz(sb, "\n[\\fIOPTION\\fR]...");
	if (*p->args) {
		sb_addz(sb, "\n\\fI");
		put(sb, p->args);
		sb_addz(sb, "\\fR");
	}
	sb_addz(sb, "\n.SH DESCRIPTION\n.B ");
	put(sb, p->name);
	sb_addc(sb, '\n');
	put(sb, arena_printf(d->a, "%s%s", p->text, p->text[strlen(p->text) - 1] == '.' ? "" : "."));
	sb_addc(sb, '\n');
}

bool
docs_man(struct docs *d, const char *dir, struct err *e)
{
	for (int p = 0; p < PROG_COUNT; p++) {
		int section = section_of(p);
		struct strbuf sb;

		sb_init(&sb, d->a);
		put_head(d, &sb, p);
		for (size_t i = 0; i < COUNT_OF(para_row); i++)
			if (is_for(para_row[i].programs, p)) {
				sb_addz(&sb, ".PP\n");
				put(&sb, para_row[i].words);
				sb_addc(&sb, '\n');
			}
		if (p == PROG_KORCH)
			put_words(d, &sb);
		put_options(d, &sb, p);
		put_exits(d, &sb);
		put_environment(&sb, p);
		put_rows(&sb, "FILES", file_row, COUNT_OF(file_row), p);
		put_examples(&sb, p);
		put_see_also(&sb, p);
		if (!docs_write(d, dir,
			arena_printf(d->a, "man%d/%s.%d", section, program_row[p].name, section), sb_str(&sb),
			e))
			return false;
	}
	return true;
}
