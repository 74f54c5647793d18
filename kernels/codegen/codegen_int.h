/* kernels/codegen/codegen_int.h: the folder's own. */
#ifndef KORCH_CODEGEN_INT_H
#define KORCH_CODEGEN_INT_H

#include "codegen.h"

#define PASS(N, WORDS) void codegen_##N(const struct tir *p, struct tir *out);
#include "pass.def"
#undef PASS

/* copy.c: copies of statements whose loops are loops of their own. */
struct copying {
	struct tir *out;
	const struct tir *p;
	ix_id *to; /* of each axis of p: what stands in its place; IX_NONE: itself */
	uint32_t n_to;
};
void copying_begin(struct copying *c, struct tir *out, const struct tir *p);
void copying_end(struct copying *c);
/* Statements first .. end - 1, siblings with their subtrees. */
void copy_fresh(struct copying *c, st_id first, st_id end);
/* Are a and b statements of the same body? */
bool same_body(const struct tir *p, st_id a, st_id b);
/* A name for a copy of a loop that no other loop of the program has, nor one of p that is copied later. */
const char *fresh_name(const struct tir *out, const struct tir *p, const char *like);

/* print_ex.c: expressions as C.  Text lives in `a`. */
struct printing {
	struct arena *a;
	const struct tir *p;
	const char *symbol;
	const char **axis; /* of each axis: its variable */
	struct strbuf sb;
	int depth;
};
const char *print_ix(struct printing *g, ix_id i);
const char *print_ex(struct printing *g, ex_id e);
const char *print_condition(struct printing *g, ix_id i, int64_t lo, int64_t hi);
const char *print_buf(struct printing *g, buf_id b);
const char *print_stored_type(enum dtype t);   /* of an element in memory */
const char *print_computed_type(enum dtype t); /* of a value */

#endif
