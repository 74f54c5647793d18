/* tests/opt.h: korch-opt, a program that reads text, runs one pass and prints text, so that most
 * tests are text files.  To add a pass: a row in opt.def, and its function in an opt_*.c file. */
#ifndef KORCH_TEST_OPT_H
#define KORCH_TEST_OPT_H

#include "../kernels/base/base.h"

struct opt_call {
	struct arena *a;
	struct str text;    /* all of FILE or standard input */
	struct strbuf *out; /* printed when the pass has worked */
	const char *file;   /* for messages */
	int n_arg;          /* "--name=value" arguments before FILE */
	char **arg;
	bool *is_asked; /* for each: some pass has looked for it */
};
typedef bool opt_fn(struct opt_call *c, struct err *e);
/* Value of "--name=VALUE", or `none`; "" for a bare "--name". */
const char *opt_arg(const struct opt_call *c, const char *name, const char *none);
/* Likewise of argument i alone; NULL: it is another. */
const char *opt_arg_at(const struct opt_call *c, int i, const char *name);
/* The text of the file that "--name=FILE" names. */
bool opt_file(const struct opt_call *c, const char *name, struct str *out, struct err *e) MUST_CHECK;

/* A graph from text, and back; with --dump in the form of a dump, whose size has no limit. */
struct graph;
bool opt_read_graph(const struct opt_call *c, struct str text, struct graph *g, struct err *e) MUST_CHECK;
void opt_print_graph(const struct opt_call *c, const struct graph *g);

/* The graph of the call's text, taken as one kernel; of several specs (a dump), the one that --only=N or
 * --only=HASH names. */
struct spec;
bool opt_read_spec(struct opt_call *c, struct spec *s, struct err *e) MUST_CHECK;

#define OPT(NAME, FN, HELP) opt_fn FN;
#include "opt.def"
#undef OPT

#endif
