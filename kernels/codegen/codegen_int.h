/* kernels/codegen/codegen_int.h: the folder's own. */
#ifndef KORCH_CODEGEN_INT_H
#define KORCH_CODEGEN_INT_H

#include "../tir/pipeline.h"
#include "../tir/tensor.h"
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
	st_id behind; /* statements of p from here on stay */
};
/* Of statement i, which the copies replace: names of loops behind it stay taken. */
void copying_begin(struct copying *c, struct tir *out, const struct tir *p, st_id i);
void copying_end(struct copying *c);
/* Statements first .. end - 1, siblings with their subtrees. */
void copy_fresh(struct copying *c, st_id first, st_id end);
/* Are a and b statements of the same body? */
bool same_body(const struct tir *p, st_id a, st_id b);
/* The statements of a pass from i on: a parallel loop, or all that stands until the next one. */
st_id end_of_pass(const struct tir *p, st_id i);
/* A temp with bytes of its own: in no register. */
bool is_scratch(const struct tir_buf *b);
/* A name for a copy of a loop that no other loop of the program has. */
const char *fresh_name(const struct copying *c, const char *like);

/* access.c: what statement i reads and stores; the list is used again. */
struct access {
	buf_id buf;
	ixv_id place;
	bool stores;
	bool goes_on; /* an instruction's: of elements from the place on */
	bool corners; /* ... whose first and last, by dimensions, are in the list */
};
struct accesses {
	struct access *at;
	uint32_t n, cap;
};
void list_accesses(const struct tir *p, st_id i, struct accesses *out);
/* Is a statement `op ref` among first .. end - 1? */
bool is_within(const struct tir *p, st_id first, st_id end, enum st_op op, uint32_t ref);

/* row.c: elements of a buffer that a loop goes through one by one. */
struct row {
	buf_id buf;
	ixv_id at;     /* over `lane` */
	axis_id lane;  /* the first loop's over the row */
	int64_t count; /* elements: 0 .. count - 1 */
	int dim;       /* of the place: base + lane */
	ix_id base;
};
/* The one loop between `loop` and statement i that the place hangs on; ST_NONE: none, or several, or a test
 * stands between, so that not all of the row is there. */
st_id row_loop(const struct tir *p, st_id loop, st_id i, ixv_id at);
/* Sets dim and base by the rest: the dimension that counts the row's elements. */
bool row_find_dim(const struct tir *p, struct row *r);
/* Is the access, in statement i below `loop`, one of the row's, by a loop over all of it or a part? */
bool row_has(const struct tir *p, const struct row *r, st_id loop, st_id i, ixv_id at);
/* Is the place always in another row: so many rows, or planes, further on? */
bool row_is_apart(const struct tir *p, const struct row *r, ixv_id place);
/* Does the access touch another buffer, or another row? */
bool row_leaves(const struct tir *p, const struct row *r, const struct access *a);
/* Which of the row's elements the place is: an index of an array. */
ixv_id row_lane(const struct tir *p, const struct row *r, ixv_id at);

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
const char *print_element(struct printing *g, buf_id b, ixv_id at); /* as it lies there */
const char *print_condition(struct printing *g, ix_id i, int64_t lo, int64_t hi);
const char *print_buf(struct printing *g, buf_id b);
/* In registers: a variable, or an array where it has several elements. */
bool is_array(const struct tir_buf *b);
const char *print_stored_type(enum dtype t);   /* of an element in memory */
const char *print_computed_type(enum dtype t); /* of a value */

#endif
