/* tests/main_korch_opt.c: korch-opt PASS [--name=value]... [FILE].  Standard input without FILE.
 * Exit status by err.def. */
#include "opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	opt_fn *run;
	const char *help;
} passes[] = {
#define OPT(NAME, FN, HELP) {#NAME, FN, HELP},
#include "opt.def"
#undef OPT
};

enum { MAX_BYTES = 1 << 30 };

static bool
read_stdin(struct arena *a, struct str *out, struct err *e)
{
	struct strbuf sb;
	char buf[1 << 16];
	ssize_t n;

	sb_init(&sb, a);
	while ((n = read(0, buf, sizeof(buf))) > 0) {
		if (sb.n > MAX_BYTES)
			return err_set(e, ERR_LIMIT, "standard input: more than %d bytes", MAX_BYTES);
		sb_add(&sb, (struct str){buf, (size_t)n});
	}
	*out = sb_str(&sb);
	return n == 0 ? true : err_set(e, ERR_IO, "standard input cannot be read");
}

const char *
opt_arg_at(const struct opt_call *c, int i, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(c->arg[i], name, n) != 0 || (c->arg[i][n] != '=' && c->arg[i][n]))
		return NULL;
	c->is_asked[i] = true;
	return c->arg[i][n] ? c->arg[i] + n + 1 : "";
}

const char *
opt_arg(const struct opt_call *c, const char *name, const char *none)
{
	const char *value = NULL;

	for (int i = 0; i < c->n_arg && !value; i++)
		value = opt_arg_at(c, i, name);
	return value ? value : none;
}

/* What no pass has looked for is misspelt, or of another. */
static bool
are_known(const struct opt_call *c, const char *pass, struct err *e)
{
	for (int i = 0; i < c->n_arg; i++)
		if (!c->is_asked[i])
			return err_set(e, ERR_USAGE, "%s has no option '%s' here: see korch-opt --help", pass,
			    c->arg[i]);
	return true;
}

bool
opt_file(const struct opt_call *c, const char *name, struct str *out, struct err *e)
{
	const char *path = opt_arg(c, name, NULL);
	struct bytes b;

	if (!path)
		return err_set(e, ERR_USAGE, "%s=FILE is missing", name);
	if (!os_read_file(os_real(), c->a, path, MAX_BYTES, &b, e))
		return false;
	*out = (struct str){(const char *)b.p, b.n};
	return true;
}

static bool
read_text(struct opt_call *c, struct err *e)
{
	struct bytes b;

	if (strcmp(c->file, "-") == 0)
		return read_stdin(c->a, &c->text, e);
	if (!os_read_file(os_real(), c->a, c->file, MAX_BYTES, &b, e))
		return false;
	c->text = (struct str){(const char *)b.p, b.n};
	return true;
}

static void
usage(FILE *to)
{
	fprintf(to, "usage: korch-opt PASS [--name=value]... [FILE]\npasses:\n");
	for (size_t i = 0; i < COUNT_OF(passes); i++)
		fprintf(to, "  %-12s %s\n", passes[i].name, passes[i].help);
	fprintf(to, "--dump: graphs are read and printed in the form of korch-submit --dump\n");
}

static opt_fn *
pass_of(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(passes); i++)
		if (strcmp(passes[i].name, name) == 0)
			return passes[i].run;
	return NULL;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct strbuf out;
	struct err e = {0};
	struct opt_call c = {.a = &a, .out = &out, .file = "-", .arg = argv + 2};
	opt_fn *run = argc > 1 ? pass_of(argv[1]) : NULL;
	int status = 0;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		usage(stdout);
		return 0;
	}
	if (!run) {
		if (argc > 1)
			fprintf(stderr, "korch-opt: '%s' is no pass\n", argv[1]);
		usage(stderr);
		return err_exit_status(ERR_USAGE);
	}
	for (int i = 2; i < argc; i++) {
		char *arg = argv[i];

		if (strncmp(arg, "--", 2) == 0) {
			memmove(argv + 3 + c.n_arg, argv + 2 + c.n_arg,
			    (size_t)(i - 2 - c.n_arg) * sizeof(*argv));
			argv[2 + c.n_arg++] = arg;
		}
	}
	if (argc > 3 + c.n_arg) {
		fprintf(stderr, "korch-opt: %s, %s: one file is read (see --help)\n", argv[2 + c.n_arg],
		    argv[3 + c.n_arg]);
		return err_exit_status(ERR_USAGE);
	}
	if (argc == 3 + c.n_arg)
		c.file = argv[argc - 1];
	sb_init(&out, &a);
	c.is_asked = NEW_ARRAY(&a, bool, (size_t)c.n_arg + 1);
	if (!read_text(&c, &e) || !run(&c, &e) || !are_known(&c, argv[1], &e)) {
		fprintf(stderr, "korch-opt: %s\n", e.msg);
		status = err_exit_status(e.code);
	} else {
		(void)fwrite(out.p, 1, out.n, stdout);
	}
	arena_fini(&a);
	return status;
}
