/* tests/opt.h: korch-opt, a program that reads text, runs one pass and prints text, so that most
 * tests are text files.  To add a pass: a row in opt.def, and its function in an opt_*.c file. */
#ifndef KORCH_OPT_H
#define KORCH_OPT_H

#include "../kernels/base/base.h"

struct opt_call {
	struct arena *a;
	struct str text;    /* all of FILE or standard input */
	struct strbuf *out; /* printed when the pass has worked */
	const char *file;   /* for messages */
	int n_arg;          /* "--name=value" arguments before FILE */
	char **arg;
};
typedef bool opt_fn(struct opt_call *c, struct err *e);
/* Value of "--name=VALUE", or `none`; "" for a bare "--name". */
const char *opt_arg(const struct opt_call *c, const char *name, const char *none);

/* The graph of the call's text, taken as one kernel. */
struct spec;
bool opt_read_spec(struct opt_call *c, struct spec *s, struct err *e) MUST_CHECK;

#define OPT(NAME, FN, HELP) opt_fn FN;
#include "opt.def"
#undef OPT

#endif
