/* deploy/docs/bash.c: completion for bash, a file a program, that stands on bash alone.  What a value may be
 * is read off the ARG column of opt.def: words between bars, or the kind of file that it names. */
#include "docs.h"

#include "rows.h"

#include <string.h>

/* "full|operator|none" -> "full operator none": the parts that can be typed as they are. */
static struct str
choices(struct docs *d, struct str arg)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
	struct strbuf sb;

	sb_init(&sb, d->a);
	if (!memchr(arg.p, '|', arg.n))
		return STR("");
	while (arg.n) {
		struct str word = str_cut(&arg, '|');

		if (word.n && strspn(str_dup(d->a, word), plain) == word.n)
			sb_addf(&sb, "%s%.*s", sb.n ? " " : "", STR_ARG(word));
	}
	return sb_str(&sb);
}

/* "PLAN.korch|MODEL.onnx" -> " .korch .onnx"; "" where a part names no kind of file. */
static struct str
kinds(struct docs *d, struct str arg)
{
	struct strbuf sb;

	sb_init(&sb, d->a);
	while (arg.n) {
		const char *word = str_dup(d->a, str_cut(&arg, '|')), *dot = strrchr(word, '.');

		if (!dot || dot == word || !dot[1] ||
		    strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz") != strlen(dot + 1) || strpbrk(word, "=[ "))
			return STR("");
		sb_addf(&sb, " %s", dot);
	}
	return sb.n ? sb_str(&sb) : STR("");
}

/* The line that answers for a value of that kind: a shell command, or "" for nothing. */
static const char *
values(struct docs *d, struct str arg)
{
	struct str words = choices(d, arg);

	if (str_is(arg, "STAGE,..."))
		return "_korch_list 'all" STAGES(STAGE_IN_HELP) "'";
	if (words.n)
		return arena_printf(d->a, "_korch_words '%.*s'", STR_ARG(words));
	if (str_is(arg, "DIR") || str_is(arg, "FOLDER"))
		return "_korch_files -d";
	if (str_is(arg, "FILE") || str_is(arg, "PATH") || str_is(arg, "ARG"))
		return "_korch_files -f";
	if (kinds(d, arg).n)
		return arena_printf(d->a, "_korch_kinds%.*s", STR_ARG(kinds(d, arg)));
	return "";
}

static void
put_option_values(struct docs *d, struct strbuf *sb, int program)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *o = &option_row[i];

		if (!is_for(o->programs, program) || strcmp(o->type, "FLAG") == 0 || o->arg[0] == '[')
			continue;
		if (o->letter)
			sb_addf(sb, "\t-%c | --%s)\n", o->letter, o->flag);
		else
			sb_addf(sb, "\t--%s)\n", o->flag);
		sb_addf(sb, "\t\t%s\n\t\treturn\n\t\t;;\n",
		    *values(d, str_of(o->arg)) ? values(d, str_of(o->arg)) : ":");
	}
}

/* What is no option: the words and kinds of file of the program's row, in order. */
static void
put_arguments(struct docs *d, struct strbuf *sb, int program)
{
	struct str rest = str_of(program_row[program].args);
	bool is_value = false;
	int n = 0;

	sb_addz(sb, "\tcase $n in\n");
	while (rest.n) {
		struct str word = str_cut(&rest, ' ');
		const char *line;

		if (word.n && word.p[0] == '[')
			word = (struct str){word.p + 1, word.n - 1};
		while (word.n && (word.p[word.n - 1] == ']' || word.p[word.n - 1] == '.'))
			word.n--;
		if (is_value || (word.n && word.p[0] == '-')) {
			is_value = !is_value; /* "-o PLAN.korch" */
			continue;
		}
		line = values(d, word);
		if (*line)
			sb_addf(sb, "\t%d) %s ;;\n", n, line);
		n++;
	}
	sb_addz(sb, "\t*) ;;\n\tesac\n");
}

static void
put_helpers(struct strbuf *sb)
{
	sb_addz(sb,
	    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev='' n=0 i\n"
	    "\t_korch_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
	    "\t_korch_list() {\n"
	    "\t\tlocal before=''\n"
	    "\t\t[[ $cur != *,* ]] || before=${cur%,*},\n"
	    "\t\tmapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$1\" -- \"${cur##*,}\")\n"
	    "\t}\n"
	    "\t_korch_files() {\n"
	    "\t\tcompopt -o filenames 2>/dev/null\n"
	    "\t\tmapfile -t COMPREPLY < <(compgen \"$@\" -- \"$cur\"; [ \"$1\" = -d ] || compgen -d -- "
	    "\"$cur\")\n"
	    "\t\t[ \"$1\" = -d ] || mapfile -t COMPREPLY < <(printf '%s\\n' \"${COMPREPLY[@]}\" | sort -u)\n"
	    "\t}\n"
	    "\t_korch_kinds() {\n"
	    "\t\tlocal kind\n"
	    "\t\tcompopt -o filenames 2>/dev/null\n"
	    "\t\tmapfile -t COMPREPLY < <({ compgen -d -- \"$cur\"; for kind; do compgen -f -X \"!*$kind\" "
	    "-- \"$cur\"; "
	    "done; } | sort -u)\n"
	    "\t}\n"
	    "\tCOMPREPLY=()\n"
	    "\t[ \"$COMP_CWORD\" -gt 0 ] && prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	    "\t# bash takes --name=value apart at the sign\n"
	    "\tif [ \"$cur\" = = ]; then\n\t\tcur=''\n"
	    "\telif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - "
	    "2]}\n\tfi\n");
}

static void
put_flags(struct strbuf *sb, int program)
{
	bool is_first = true;

	sb_addz(sb, "\tif [[ $cur == -* ]]; then\n\t\t_korch_words '");
	for (int i = 0; i < OPT_COUNT; i++)
		if (is_for(option_row[i].programs, program)) {
			sb_addf(sb, "%s--%s", is_first ? "" : " ", option_row[i].flag);
			is_first = false;
		}
	sb_addz(sb, "'\n\t\treturn\n\tfi\n");
}

/* Behind a word all is as behind the name of its program, whose file lies beside this one. */
static void
put_words(struct strbuf *sb)
{
	sb_addz(sb, "\tlocal program=''\n\t[ \"$COMP_CWORD\" -le 1 ] || case ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; i < WORD_COUNT; i++)
		sb_addf(sb, "\t%s) program=%s ;;\n", word_row[i].word, program_row[word_row[i].program].name);
	sb_addz(sb,
	    "\tesac\n\tif [ -n \"$program\" ]; then\n"
	    "\t\tlocal fn=_${program//-/_}\n"
	    "\t\tdeclare -F \"$fn\" >/dev/null || . \"${BASH_SOURCE[0]%/*}/$program\"\n"
	    "\t\tCOMP_WORDS=(\"$program\" \"${COMP_WORDS[@]:2}\") COMP_CWORD=$((COMP_CWORD - 1))\n"
	    "\t\t\"$fn\"\n\t\treturn\n\tfi\n"
	    "\tif [ \"$COMP_CWORD\" = 1 ] && [[ $cur != -* ]]; then\n\t\t_korch_words 'help");
	for (size_t i = 0; i < WORD_COUNT; i++)
		sb_addf(sb, " %s", word_row[i].word);
	sb_addz(sb, "'\n\telif [ \"$prev\" = help ]; then\n\t\t_korch_words '");
	for (size_t i = 0; i < WORD_COUNT; i++)
		sb_addf(sb, "%s%s", i ? " " : "", word_row[i].word);
	sb_addz(sb, "'\n\tfi\n");
}

/* Options that take a value, so that the value is no argument. */
static void
put_count(struct strbuf *sb, int program)
{
	bool is_first = true;

	sb_addz(sb, "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase ${COMP_WORDS[i]} in\n\t\t");
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *o = &option_row[i];

		if (!is_for(o->programs, program) || strcmp(o->type, "FLAG") == 0)
			continue;
		sb_addf(sb, "%s--%s", is_first ? "" : " | ", o->flag);
		if (o->letter)
			sb_addf(sb, " | -%c", o->letter);
		is_first = false;
	}
	sb_addz(sb, is_first ? "--) " : ") ");
	sb_addz(sb,
	    "[ \"${COMP_WORDS[i + 1]}\" = = ] && ((i++)); ((i++)) ;;\n\t\t-*) ;;\n\t\t*) ((n++)) "
	    ";;\n\t\tesac\n\tdone\n");
}

bool
docs_bash(struct docs *d, const char *dir, struct err *e)
{
	for (int p = 0; p < PROG_COUNT; p++) {
		const char *name = program_row[p].name;
		char *fn = str_dup(d->a, str_of(name));
		struct strbuf sb;

		for (char *c = fn; *c; c++)
			*c = *c == '-' ? '_' : *c;
		sb_init(&sb, d->a);
		sb_addf(&sb,
		    "# bash completion for %s; made by korch-docs from kernels/base/opt.def\n_%s()\n{\n",
		    name, fn);
		put_helpers(&sb);
		if (p == PROG_KORCH)
			put_words(&sb);
		sb_addz(&sb, "\tcase $prev in\n");
		put_option_values(d, &sb, p);
		sb_addz(&sb, "\tesac\n");
		put_flags(&sb, p);
		put_count(&sb, p);
		put_arguments(d, &sb, p);
		sb_addf(&sb, "}\ncomplete -F _%s %s\n", fn, name);
		if (!docs_write(d, dir, name, sb_str(&sb), e))
			return false;
	}
	return true;
}
