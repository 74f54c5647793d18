/* kernels/tir/text_int.h: the text of a loop program, for its reader. */
#ifndef KORCH_TIR_TEXT_INT_H
#define KORCH_TIR_TEXT_INT_H

#include "tir.h"

/* A line being read.  A failed step sets *e once; what follows does nothing. */
struct cursor {
	struct str s; /* what is left */
	uint32_t line;
	bool failed;
	struct err *e;
};
enum { NAME_MAX_BYTES = 200 };
void cur_fail(struct cursor *c, const char *what);
void cur_space(struct cursor *c);
/* Takes the word where it is next (after spaces). */
bool cur_take(struct cursor *c, const char *word);
void cur_want(struct cursor *c, const char *word);
struct str cur_name(struct cursor *c); /* letters, digits, . _ ' ~; not empty */
int64_t cur_int(struct cursor *c);

/* Names that an expression may use. */
struct axis_name {
	struct str name;
	axis_id axis;
};
struct names {
	struct tir *p;
	struct axis_name *axis; /* open ones, inner last */
	uint32_t n_axis, cap_axis;
	enum dtype *var; /* types of values named so far, by number */
	bool *var_known;
	uint32_t n_var, cap_var;
	uint32_t n_nodes; /* of expressions read so far */
};
/* Errors are the cursor's. */
ix_id read_ix(struct cursor *c, struct names *n);
ex_id read_ex(struct cursor *c, struct names *n);
/* "i, j" up to `close`, which is taken. */
ixv_id read_tuple(struct cursor *c, struct names *n, const char *close);
struct tir_guard read_guard(struct cursor *c, struct names *n);
buf_id read_buf(struct cursor *c, const struct names *n);
enum { READ_MAX_VALUE = 1 << 30 }; /* of a number in an index */

#endif
