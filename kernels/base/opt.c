/* kernels/base/opt.c: flag > KORCH_* variable > file of settings > default.  The file is
 * $KORCH_CONFIG or korch/config in the XDG folder: lines "key = value", '#' comments; a key
 * that no program knows is an error, one of another program is passed over. */
#include "opt.h"
#include "json.h"
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum opt_type { TYPE_FLAG, TYPE_INT, TYPE_REAL, TYPE_TEXT, TYPE_LIST };

static const struct {
	const char *name, *args, *text;
} prog_row[PROG_COUNT] = {
#define PROGRAM(ID, NAME, ARGS, TEXT) [PROG_##ID] = {NAME, ARGS, TEXT},
#include "opt.def"
};

#define P(ID) (1u << PROG_##ID)
enum { PROG_ALL = 31 }; /* P(ALL) is made right below */
static const struct opt_row {
	const char *flag, *def, *arg, *help;
	uint32_t programs;
	enum opt_type type;
	char letter;
} opt_row[OPT_COUNT] = {
#define OPT(ID, PROGRAMS, FLAG, LETTER, TYPE, DEFAULT, ARG, HELP)                                            \
	[OPT_##ID] = {FLAG, DEFAULT, ARG, HELP, PROGRAMS, TYPE_##TYPE, LETTER},
#include "opt.def"
};

/* What an option means without a value; NULL: it wants one. */
static const char *const alone[OPT_COUNT] = {
#define ALONE(ID, VALUE) [OPT_##ID] = VALUE,
#include "opt.def"
};

static bool
row_is_for(const struct opt_row *r, enum program p)
{
	return (r->programs >> p & 1) || (r->programs >> PROG_ALL & 1);
}

static bool
value_is_good(const struct opt_row *r, const char *v)
{
	int64_t i;
	double f;

	switch (r->type) {
	case TYPE_INT:
		return str_to_i64(str_of(v), &i);
	case TYPE_REAL:
		return str_to_f64(str_of(v), &f) && isfinite(f);
	case TYPE_FLAG:
		return strcmp(v, "0") == 0 || strcmp(v, "1") == 0;
	case TYPE_TEXT:
	case TYPE_LIST:
		return true;
	}
	bug("option type %d", (int)r->type);
}

/* A value from a stronger source replaces all of a weaker one; a LIST grows within a source. */
static bool
set_value(struct arena *a, struct opts *o, int id, const char *v, enum opt_source source, struct err *e)
{
	const struct opt_row *r = &opt_row[id];
	const char **more;
	uint32_t n = o->value[id].n;

	if (!value_is_good(r, v))
		return err_set(e, ERR_USAGE, "'%s' is not a value for %s; %s is wanted", v, r->flag,
		    r->type == TYPE_INT        ? "a whole number"
			: r->type == TYPE_REAL ? "a number"
					       : "0 or 1");
	if (r->type != TYPE_LIST || o->value[id].source != source)
		n = 0;
	more = NEW_ARRAY(a, const char *, n + 1);
	for (uint32_t i = 0; i < n; i++)
		more[i] = o->value[id].v[i];
	more[n] = v;
	o->value[id].v = more;
	o->value[id].n = n + 1;
	o->value[id].source = source;
	return true;
}

static char *
env_name(struct arena *a, const char *flag)
{
	char *name = arena_printf(a, "KORCH_%s", flag);

	for (char *c = name + 6; *c; c++)
		*c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	return name;
}

/* -1: no program has it; -2: only others have it. */
static int
find_flag(enum program p, struct str flag)
{
	int found = -1;

	for (int i = 0; i < OPT_COUNT; i++) {
		if (!str_is(flag, opt_row[i].flag))
			continue;
		if (row_is_for(&opt_row[i], p))
			return i;
		found = -2;
	}
	return found;
}

static bool
read_file_line(struct arena *a, struct opts *o, struct str line, struct err *e)
{
	struct str value = line, key = str_trim(str_cut(&value, '='));
	int id;

	if (key.n == 0)
		return err_set(e, ERR_USAGE, "a line must read 'key = value'");
	id = find_flag(o->program, key);
	if (id == -1)
		return err_set(e, ERR_USAGE, "'%.*s' is not a setting of any Korch program", STR_ARG(key));
	if (id < 0)
		return true;
	return set_value(a, o, id, str_dup(a, str_trim(value)), FROM_FILE, e);
}

static bool
read_settings_file(struct arena *a, struct opts *o, struct err *e)
{
	const char *named = getenv("KORCH_CONFIG");
	char *path =
	    named ? arena_printf(a, "%s", named) : arena_printf(a, "%s/config", xdg_dir(a, XDG_CONFIG));
	struct bytes data;
	struct str rest;

	if (!named && access(path, F_OK) != 0)
		return true;
	if (!os_read_file(os_real(), a, path, 1 << 20, &data, e))
		return false;
	rest = (struct str){(const char *)data.p, data.n};
	for (int n = 1; rest.n; n++) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n == 0 || line.p[0] == '#')
			continue;
		if (!read_file_line(a, o, line, e))
			return err_in(e, "%s:%d", path, n);
	}
	return true;
}

static bool
read_env(struct arena *a, struct opts *o, struct err *e)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const char *name, *v;

		if (!row_is_for(&opt_row[i], o->program))
			continue;
		name = env_name(a, opt_row[i].flag);
		v = getenv(name);
		if (v && *v && !set_value(a, o, i, v, FROM_ENV, e))
			return err_in(e, "%s", name);
	}
	return true;
}

static int
find_letter(enum program p, char c)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (opt_row[i].letter == c && row_is_for(&opt_row[i], p))
			return i;
	return -1;
}

/* One argument that starts with '-'; *i moves on when it takes the next word as its value. */
static bool
read_flag(struct arena *a, struct opts *o, int argc, char **argv, int *i, struct err *e)
{
	struct str value, name;
	const char *word = argv[*i];
	bool is_long = word[1] == '-', has_value = is_long && strchr(word, '=');
	int id;

	value = str_of(word + (is_long ? 2 : 1));
	name = is_long ? str_cut(&value, '=') : value;
	id = is_long ? find_flag(o->program, name) : find_letter(o->program, word[1]);
	if (id < 0)
		return err_set(
		    e, ERR_USAGE, "%s is not an option of %s; see --help", word, prog_row[o->program].name);
	if (!is_long && word[2]) {
		value = str_of(word + 2);
		has_value = true;
	}
	if (opt_row[id].type == TYPE_FLAG) {
		if (has_value)
			return err_set(e, ERR_USAGE, "--%s takes no value", opt_row[id].flag);
		return set_value(a, o, id, "1", FROM_FLAG, e);
	}
	if (!has_value && alone[id])
		value = str_of(alone[id]);
	else if (!has_value) {
		if (*i + 1 >= argc)
			return err_set(
			    e, ERR_USAGE, "--%s wants a value: %s", opt_row[id].flag, opt_row[id].arg);
		value = str_of(argv[++*i]);
	}
	return set_value(a, o, id, str_dup(a, value), FROM_FLAG, e);
}

static bool
read_flags(struct arena *a, struct opts *o, int argc, char **argv, struct err *e)
{
	bool only_args = false;

	o->args = NEW_ARRAY(a, const char *, argc + 1);
	for (int i = 1; i < argc; i++) {
		if (!only_args && strcmp(argv[i], "--") == 0)
			only_args = true;
		else if (!only_args && argv[i][0] == '-' && argv[i][1]) {
			if (!read_flag(a, o, argc, argv, &i, e))
				return false;
		} else
			o->args[o->n_args++] = argv[i];
	}
	return true;
}

static void
set_defaults(struct arena *a, enum program p, struct opts *o)
{
	struct err e = {0};

	memset(o, 0, sizeof(*o));
	o->program = p;
	for (int i = 0; i < OPT_COUNT; i++)
		if (opt_row[i].def[0] && row_is_for(&opt_row[i], p) &&
		    !set_value(a, o, i, opt_row[i].def, FROM_DEFAULT, &e))
			bug("the default of %s is no value for it", opt_row[i].flag);
}

bool
opts_read(struct arena *a, enum program p, int argc, char **argv, struct opts *o, struct err *e)
{
	/* The flags alone first: a broken file of settings must not hide the help. */
	set_defaults(a, p, o);
	if (!read_flags(a, o, argc, argv, e))
		return false;
	if (opt_flag(o, OPT_help) || opt_flag(o, OPT_version))
		return true;
	set_defaults(a, p, o);
	return read_settings_file(a, o, e) && read_env(a, o, e) && read_flags(a, o, argc, argv, e);
}

/* Lines of at most 80 columns, each behind `indent` blanks. */
static void
print_words(const char *text, int indent)
{
	enum { COLUMNS = 80 };
	int column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column && column + 1 + (int)n > COLUMNS) {
			printf("\n");
			column = 0;
		}
		column += printf("%*s%.*s", column ? 1 : indent, "", (int)n, text);
		text += n + strspn(text + n, " ");
	}
	printf("\n");
}

/* The class of each exit status: finer ones share that of "failed". */
static void
print_exits(char *text, size_t cap)
{
	bool seen[256] = {false};
	size_t n = (size_t)snprintf(text, cap, "Exit status:");

	for (int i = 0; i < ERR_COUNT; i++) {
		int status = err_exit_status((enum err_code)i);

		if (!seen[status & 255] && n < cap)
			n += (size_t)snprintf(text + n, cap - n, "%s %d %s", seen[0] ? "," : "", status,
			    err_text((enum err_code)i));
		seen[status & 255] = true;
	}
	(void)snprintf(text + MIN_OF(n, cap - 2), 2, ".");
	print_words(text, 0);
}

static void
print_row_words(void)
{
	printf("\n");
	for (size_t i = 0; i < WORD_COUNT; i++)
		printf("  %-8s %s\n", word_row[i].word, word_row[i].text);
}

static void
print_help(enum program p)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "Usage: %s [OPTION]... %s", prog_row[p].name, prog_row[p].args);
	print_words(text, 0);
	(void)snprintf(text, sizeof(text), "%c%s.", prog_row[p].text[0] - 'a' + 'A', prog_row[p].text + 1);
	print_words(text, 0);
	if (p == PROG_KORCH)
		print_row_words();
	printf("\n");
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct opt_row *r = &opt_row[i];
		char left[80], letter[8] = "";

		if (!row_is_for(r, p))
			continue;
		if (r->letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", r->letter);
		(void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, r->flag,
		    r->arg[0] && !alone[i] ? " " : "", r->arg);
		printf("  %s\n", left);
		(void)snprintf(text, sizeof(text), r->def[0] ? "%s [%s]" : "%s", r->help, r->def);
		print_words(text, 6);
	}
	printf("\n");
	print_words("Each option but --help and --version is also a variable (--some-name: KORCH_SOME_NAME) "
		    "and a key of the file "
		    "of settings; --show-config tells which one holds.",
	    0);
	print_exits(text, sizeof(text));
}

static void
say_setting(struct strbuf *sb, const char *flag, const char *value, enum opt_source from, bool json)
{
	static const char *const source[] = {"default", "file", "variable", "flag"};

	if (!json) {
		sb_addf(sb, "%s =%s%s (%s)\n", flag, *value ? " " : "", value, source[from]);
		return;
	}
	sb_addf(sb, "{\"setting\":\"%s\",\"value\":", flag);
	json_text(sb, str_of(value));
	sb_addf(sb, ",\"source\":\"%s\"}\n", source[from]);
}

void
opts_settings(struct strbuf *sb, const struct opts *o, bool json)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct opt_row *r = &opt_row[i];

		if (!row_is_for(r, o->program) || i == OPT_help || i == OPT_version || i == OPT_show_config)
			continue;
		if (r->type == TYPE_FLAG)
			say_setting(
			    sb, r->flag, opt_flag(o, (enum opt_id)i) ? "1" : "0", o->value[i].source, json);
		else if (o->value[i].n == 0)
			say_setting(sb, r->flag, "", FROM_DEFAULT, json);
		for (uint32_t k = 0; r->type != TYPE_FLAG && k < o->value[i].n; k++)
			say_setting(sb, r->flag, o->value[i].v[k], o->value[i].source, json);
	}
}

char **
opts_pass(struct arena *a, const struct opts *o, enum program to, int *n)
{
	char **argv = NULL;
	uint32_t n_words = 0, cap = 0;

	for (int i = 0; i < OPT_COUNT; i++) {
		const struct opt_row *r = &opt_row[i];

		if (o->value[i].source != FROM_FLAG || !row_is_for(r, to) || i == OPT_json)
			continue;
		for (uint32_t k = 0; k < o->value[i].n; k++) {
			GROW(a, argv, n_words, cap);
			argv[n_words++] = r->type == TYPE_FLAG
			    ? arena_printf(a, "--%s", r->flag)
			    : arena_printf(a, "--%s=%s", r->flag, o->value[i].v[k]);
		}
	}
	*n = (int)n_words;
	return argv;
}

static void
print_settings(const struct opts *o)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	opts_settings(&sb, o, opt_flag(o, OPT_json));
	(void)fputs(sb.p, stdout);
	arena_fini(&tmp);
}

/* A program whose stdin, stdout or stderr is closed would find its first files there, and print into them. */
static void
keep_standard_files(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd >= 0)
		(void)close(fd);
}

/* A reader that has left needs no words. */
int
opts_close(int status)
{
	struct err e = {0};

	if (out_close_stdout(&e))
		return status;
	if (errno != EPIPE)
		(void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, e.msg);
	return status ? status : err_exit_status(e.code);
}

static void
at_exit(int status, void *none)
{
	int now = opts_close(status);

	(void)none;
	if (now != status)
		_exit(now);
}

int
opts_main(struct arena *a, enum program p, int argc, char **argv, struct opts *o)
{
	struct err e = {0};

	keep_standard_files();
	if (on_exit(at_exit, NULL) != 0)
		bug("no room for an exit handler");
	if (!opts_read(a, p, argc, argv, o, &e))
		return opts_fail(o, &e);
	if (opt_flag(o, OPT_help)) {
		print_help(p);
		return 0;
	}
	if (opt_flag(o, OPT_version)) {
		printf(opt_flag(o, OPT_json) ? "{\"program\":\"%s\",\"version\":\"%s\"}\n" : "%s %s\n",
		    prog_row[p].name, KORCH_VERSION);
		return 0;
	}
	if (opt_flag(o, OPT_show_config)) {
		print_settings(o);
		return 0;
	}
	return -1;
}

bool
opt_flag(const struct opts *o, enum opt_id id)
{
	return o->value[id].n && strcmp(o->value[id].v[0], "1") == 0;
}

const char *
opt_text(const struct opts *o, enum opt_id id)
{
	return o->value[id].n ? o->value[id].v[o->value[id].n - 1] : "";
}

int64_t
opt_int(const struct opts *o, enum opt_id id)
{
	int64_t v = 0;

	if (!str_to_i64(str_of(opt_text(o, id)), &v))
		bug("option %s is not a whole number", opt_row[id].flag);
	return v;
}

bool
opt_memory(const struct opts *o, uint64_t *mib, struct err *e)
{
	enum { LEAST = 512, MOST = 1 << 30 };
	int64_t v = opt_int(o, OPT_memory);

	if (v != 0 && (v < LEAST || v > MOST))
		return err_set(e, ERR_USAGE,
		    "--memory %s: it is MiB, %d to %d, or 0 for what this host can spare",
		    opt_text(o, OPT_memory), LEAST, MOST);
	*mib = (uint64_t)v;
	return true;
}

double
opt_real(const struct opts *o, enum opt_id id)
{
	double v = 0;

	if (!str_to_f64(str_of(opt_text(o, id)), &v))
		bug("option %s is not a number", opt_row[id].flag);
	return v;
}

uint32_t
opt_n(const struct opts *o, enum opt_id id)
{
	return o->value[id].n;
}

const char *
opt_at(const struct opts *o, enum opt_id id, uint32_t i)
{
	return o->value[id].v[i];
}

bool
opt_given(const struct opts *o, enum opt_id id)
{
	return o->value[id].source != FROM_DEFAULT;
}

const char *
program_name(enum program p)
{
	return prog_row[p].name;
}

int
opts_fail(const struct opts *o, const struct err *e)
{
	int status = err_exit_status(e->code);
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	for (const char *c = e->msg; *c; c++) /* names of a stranger's file are in it */
		sb_addc(&sb, (unsigned char)*c < 32 || *c == 127 ? '?' : *c);
	(void)fprintf(stderr, "%s: %s\n", prog_row[o->program].name, sb.n ? sb.p : "");
	if (opt_flag(o, OPT_json)) {
		sb_init(&sb, &tmp);
		sb_addz(&sb, "{\"error\":");
		json_text(&sb, str_of(e->msg));
		sb_addz(&sb, ",\"class\":");
		json_text(&sb, str_of(err_text(e->code)));
		printf("%s,\"status\":%d}\n", sb.p, status);
	}
	arena_fini(&tmp);
	return status;
}

char *
program_beside(struct arena *a, const char *program)
{
	char self[4096], *path, *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	path = arena_printf(a, "%s/%s", self, program);
	if (access(path, X_OK) == 0)
		return path;
	path = arena_printf(a, "%s/../libexec/korch/%s", self, program);
	return access(path, X_OK) == 0 ? path : NULL;
}

char *
helper_path(struct arena *a, const char *program)
{
	const char *set = getenv("KORCH_LIBEXEC");
	char *path;

	if (!set || !*set)
		return program_beside(a, program);
	path = arena_printf(a, "%s/%s", set, program);
	return access(path, X_OK) == 0 ? path : NULL;
}
