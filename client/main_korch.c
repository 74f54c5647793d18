/* client/main_korch.c: korch WORD: starts the program of the word (opt.def), in this process, so that
 * signals, exit status and the standard files are the program's own. */
#include "../kernels/base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first of PATH's folders that has it; NULL. */
static char *
on_path(struct arena *a, const char *program)
{
	const char *path = getenv("PATH");
	struct str rest = str_of(path ? path : "");

	while (rest.n) {
		struct str dir = str_cut(&rest, ':');
		char *at = arena_printf(a, "%.*s/%s", STR_ARG(dir), program);

		if (dir.n && access(at, X_OK) == 0)
			return at;
	}
	return NULL;
}

/* How the program is to call itself and its like in what it says: as this one was called, where it lies
 * there. */
static char *
own_name(struct arena *a, const char *self, const char *program, char *path)
{
	const char *slash = strrchr(self, '/');
	char *same = arena_printf(a, "%.*s/%s", slash ? (int)(slash - self) : 0, self, program);

	if (slash)
		return access(same, X_OK) == 0 ? same : path;
	return on_path(a, program) ? same + 1 : path;
}

static bool
start(struct arena *a, char **argv, const struct program_word *w, char **rest, struct err *e)
{
	const char *name = program_name(w->program);
	char *path = program_beside(a, name), **call;
	int n = 0;

	if (!path)
		path = on_path(a, name);
	if (!path)
		return err_set(
		    e, ERR_HOST, "%s is neither beside this program nor on PATH; install it", name);
	while (rest[n])
		n++;
	call = NEW_ARRAY(a, char *, n + 3);
	n = 0;
	call[n++] = own_name(a, argv[0], name, path);
	if (*w->flag)
		call[n++] = (char *)(uintptr_t)w->flag;
	while (*rest)
		call[n++] = *rest++;
	(void)execv(path, call);
	return err_set(e, ERR_HOST, "%s: cannot start: %s", path, strerror(errno));
}

static bool
no_word(const char *given, struct err *e)
{
	const struct program_word *near = word_near(str_of(given));

	if (near)
		return err_set(
		    e, ERR_USAGE, "'%.200s' is no word of korch; did you mean: korch %s", given, near->word);
	if (access(given, F_OK) == 0)
		return err_set(e, ERR_USAGE,
		    "'%.200s' is a file; say what to do with it, as in: korch run %.200s", given, given);
	return err_set(e, ERR_USAGE, "'%.200s' is no word of korch; korch --help lists them", given);
}

/* korch help WORD is korch WORD --help. */
static bool
help(struct arena *a, char **argv, struct err *e)
{
	static char flag[] = "--help";
	char *rest[] = {flag, NULL};
	const struct program_word *w = word_find(str_of(argv[2]));

	return w ? start(a, argv, w, rest, e) : no_word(argv[2], e);
}

static bool
run(struct arena *a, char **argv, struct err *e)
{
	const struct program_word *w = word_find(str_of(argv[1]));

	if (strcmp(argv[1], "help") == 0)
		return help(a, argv, e);
	return w ? start(a, argv, w, argv + 2, e) : no_word(argv[1], e);
}

/* The program's own arguments are its own; but --json is for what is said here too. */
static int
with_word(struct arena *a, char **argv)
{
	static char json[] = "--json";
	char *said[] = {argv[0], json};
	bool is_json = false;
	struct opts o;
	struct err e = {0}, none = {0};

	for (int i = 2; argv[i]; i++)
		is_json |= strcmp(argv[i], json) == 0;
	if (run(a, argv, &e))
		bug("a program was started and came back");
	/* a broken file of settings is for a word's program to tell */
	if (!opts_read(a, PROG_KORCH, is_json ? 2 : 1, said, &o, &none))
		o = (struct opts){.program = PROG_KORCH};
	return opts_fail(&o, &e);
}

/* Alone, korch says what it can do; with options, what they ask for: --version, --show-config. */
static int
without_word(struct arena *a, int argc, char **argv)
{
	static char help_flag[] = "--help";
	char *alone[] = {argv[0], help_flag, NULL};
	bool is_option = argc >= 2 && argv[1][0] == '-';
	struct opts o;
	struct err e = {0};
	int rc = opts_main(a, PROG_KORCH, is_option ? argc : 2, is_option ? argv : alone, &o);

	if (rc >= 0)
		return rc;
	if (o.n_args)
		err_set(&e, ERR_USAGE, "options stand behind the word: korch %.200s ...; see korch --help",
		    o.args[0]);
	else
		err_set(&e, ERR_USAGE, "wanted a word; see korch --help");
	return opts_fail(&o, &e);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	bool is_word = argc >= 2 && argv[1][0] != '-' && (argc > 2 || strcmp(argv[1], "help") != 0);
	int rc = is_word ? with_word(&a, argv) : without_word(&a, argc, argv);

	arena_fini(&a);
	return rc;
}
