/* kernels/codegen/codegen_int.h: the folder's own. */
#ifndef KORCH_CODEGEN_INT_H
#define KORCH_CODEGEN_INT_H

#include "../tir/pipeline.h"
#include "../tir/tensor.h"
#include "codegen.h"

#define PASS(N, WHERE, WORDS) void codegen_##N(const struct tir *p, struct tir *out);
#include "pass.def"
#undef PASS

/* copy.c: copies of statements whose loops are loops of their own. */
struct copying {
	struct tir *out;
	const struct tir *p;
	ix_id *to; /* of each axis of p: what stands in its place; IX_NONE: itself */
	uint32_t n_to;
	st_id behind; /* statements of p from here on stay */
	struct named {
		const char *like;
		uint32_t n; /* the last that was given: like'N, `like` itself for 0 */
	} named[8];
};
/* Of statement i, which the copies replace: names of loops behind it stay taken. */
void copying_begin(struct copying *c, struct tir *out, const struct tir *p, st_id i);
void copying_end(struct copying *c);
/* Loop i's body once for each of its values from .. to - 1. */
void copy_each(struct tir *out, const struct tir *p, st_id i, int64_t from, int64_t to);
/* tir_rewrite() so often that what fn leaves in place of a nest is asked again; self: a bool that it sets. */
void rewrite_all(struct tir *out, const struct tir *p, tir_fn *fn);
/* Statements first .. end - 1, siblings with their subtrees. */
void copy_fresh(struct copying *c, st_id first, st_id end);
/* Are a and b statements of the same body? */
bool same_body(const struct tir *p, st_id a, st_id b);
/* Behind the last statement of the body that i is of. */
st_id end_of_body(const struct tir *p, st_id i);
/* Is it a loop whose iterations run apart: parallel, or one of a GPU's? */
bool is_range(const struct tir *p, st_id i);
bool is_for_gpu(const struct tir *p);
/* A temp with bytes of its own: in no register. */
bool is_scratch(const struct tir_buf *b);
/* A name for a copy of a loop that no other loop of the program has. */
const char *fresh_name(struct copying *c, const char *like);

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
/* false: the statement touches the buffer nowhere; its body is not asked. */
bool may_touch(const struct tir *p, st_id i, buf_id buf);
/* Does one of statements first .. end - 1 store the buffer, or, where that is asked, read it?  Its alloc
 * counts. */
bool touches(const struct tir *p, st_id first, st_id end, buf_id buf, bool stores_only);
/* Is a statement `op ref` among first .. end - 1? */
bool is_within(const struct tir *p, st_id first, st_id end, enum st_op op, uint32_t ref);

/* narrow.c: by what the store joins an element to what it stores; first: that is the first operand.
 * COMB_NONE: it stores something else. */
enum comb joins(const struct tir *p, const struct st *s, bool *first);

/* skip.c: does what a guard in store i asks hang on the innermost loop around its row, which goes through
 * what the row joins?  Then an if in that loop asks it for all of the tile. */
bool is_asked_of_tile(const struct tir *p, st_id i, ix_id asked);

/* overlap.c: results that may lie on an operand's bytes.  Of the program that is printed. */
struct sharing {
	struct overlap *pair;
	uint32_t n;
	bool *is_shared; /* of each buffer: a pair names it */
};
void find_overlaps(struct arena *a, const struct tir *p, struct sharing *out);
/* Is it an innermost loop no iteration of which touches what another one stores? */
bool is_apart(const struct tir *p, st_id loop, const struct sharing *g);
/* ... and one over such a result? */
bool is_independent(const struct tir *p, st_id loop, const struct sharing *g);

/* wide.c: loops and rows that are printed as vectors.  Of so many floats at most each vector is text. */
enum { LEAST_LANES = 4, WIDE_AS_TEXT = 64 };
struct wide {
	/* Lanes that a statement, a loop, and a buffer go by; 0: none.  The rest: halves, a variable each. */
	uint32_t *loop, *buf;
	bool *var; /* of each let's number: it names a vector */
};
bool lies_along(const struct tir *p, axis_id axis, ix_id at); /* the same for all lanes, or side by side */
bool is_written_out(const struct tir *p, st_id loop);         /* one that moves an array of variables */
/* Is it a choice by the order of two floats?  how: the comparison. */
bool chooses_by_order(const struct tir *p, const struct ex *n, struct ex *how);
uint32_t wide_part(int64_t left, uint32_t lanes); /* lanes of the next vector of what is left */
uint32_t wide_parts(int64_t n, uint32_t lanes);   /* how many vectors and single floats n are */
/* lanes: floats in a register of the target; 0: there are no vectors. */
void find_wide(
    struct arena *a, const struct tir *p, const struct sharing *g, uint32_t lanes, struct wide *out);

/* afresh.c: of a body that `first` is the first statement of, behind whose loop statement i stands: operands
 * that are read through a pointer of the tile's own from there on, in out, one a buffer; false: none is. */
bool find_afresh(struct arena *a, const struct tir *p, const struct wide *w, uint32_t registers, st_id first,
    st_id i, bool *out);

/* bases.c: addresses that statements of one body share but for a constant.  Of the program that is printed.
 */
struct base {
	buf_id buf;
	ix_id at;        /* the index, less what is constant in it */
	int64_t first;   /* that of the first access */
	st_id by;        /* the statement that it stands in */
	uint32_t uses;   /* accesses, as text */
	uint32_t number; /* of its variable, once it has one */
};
struct bases {
	struct base *at;
	uint32_t n, cap;
};
/* Of statements first .. end - 1, siblings; their bodies have bases of their own. */
void find_bases(const struct tir *p, const struct wide *w, st_id first, st_id end, struct bases *out);
/* Of element i of the buffer; NULL: there is none. */
struct base *find_base(const struct bases *l, struct tx *x, buf_id b, ix_id i);

/* fold.c: the instruction that joins so: lanes of an array, or what a team of threads holds. */
bool is_fold(enum prim p, bool team, uint32_t *out);

/* packs.c: sets out->packs.  ERR_INFEASIBLE: a form that no plan maker applies. */
bool codegen_packs(struct arena *a, const struct tir *p, struct codegen_kernel *out, struct err *e);

/* What differs between the languages that a loop program is printed in. */
struct printing;
struct program;
struct dialect {
#define DIALECT_FIELD(TYPE, NAME, MEANING) TYPE NAME;
#include "dialect.def"
#undef DIALECT_FIELD
	/* A statement that the dialect prints itself; false: it does not. NULL: none. */
	bool (*own)(struct printing *g, st_id i);
	/* Statements first .. end - 1 as pass number n. */
	bool (*pass)(struct program *q, st_id first, st_id end, uint32_t n, struct err *e);
	bool is_cuda;  /* which text of an instruction it prints */
	bool declares; /* a pass declares what is no buffer of all passes */
};

/* print_ex.c: expressions.  Text lives in `a`. */
struct printing {
	struct arena *a;
	const struct tir *p;
	const struct dialect *d;
	const char *symbol;
	const char **axis; /* of each axis: its variable */
	uint32_t *number;  /* by which it is named */
	uint32_t n_axes;   /* of this pass, so far */
	struct sharing sharing;
	const struct codegen_form *form;
	struct wide wide;
	struct bases bases;  /* that have a variable where the text is */
	uint32_t n_bases;    /* variables of this pass, so far */
	const bool *written; /* of each buffer: by this pass */
	const char **again;  /* of each buffer: a pointer of the tile's own (find_afresh); NULL */
	axis_id lane;        /* of the loop that is printed as vectors; AXIS_NONE */
	int64_t lane_at;     /* its first value in this vector; where lane_loops, its variable is that */
	bool lane_loops;
	bool is_wide; /* a vector of it, not a single float behind the last one */
	uint32_t vec; /* lanes of the vector */
	struct strbuf sb;
	int depth;
	const struct threads *threads; /* of the pass, on a GPU */
	uint32_t n_threads;            /* loops of threads around */
};
/* Variables are numbered as they come, whatever axes were made on the way to this program. */
const char *print_axis(struct printing *g, axis_id axis);
const char *print_ix(struct printing *g, ix_id i);
const char *print_ex(struct printing *g, ex_id e);
const char *print_element(struct printing *g, buf_id b, ixv_id at); /* as it lies there */
const char *print_place(struct printing *g, buf_id b, ix_id i);     /* ... of an array in memory */
const char *print_condition(struct printing *g, ix_id i, int64_t lo, int64_t hi);
const char *print_stored_type(enum dtype t);   /* of an element in memory */
const char *print_computed_type(enum dtype t); /* of a value */

/* print_st.c: statements. */
void print_line(struct printing *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *print_buf(struct printing *g, buf_id b);
const char *call_text(const struct dialect *d, const struct st *s); /* NULL: it has none */
void print_table(struct printing *g, buf_id b);
void print_store(struct printing *g, const struct st *s);
void print_loop(struct printing *g, st_id i, const char *from, const char *to);
void print_statement(struct printing *g, st_id i);
void print_body(struct printing *g, st_id first, st_id end);
/* A variable of a thread, or several. */
bool in_register(const struct tir_buf *b);
int64_t registers_of(const struct printing *g, const struct tir_buf *b); /* of a thread; 0: in none */

/* print_wide.c: a loop that goes by vectors (find_wide). */
void print_wide(struct printing *g, st_id i);
/* Elements side by side, a vector of them. */
const char *print_lanes(struct printing *g, buf_id b, ix_id i);
void print_vectors(struct printing *g, buf_id b); /* variables of a row */
const char *wide_text(enum prim prim);            /* as prim.def has it */
/* Of a value in such a loop: have its lanes values of their own?  One for all of them as a vector, too. */
bool is_vector(const struct printing *g, ex_id e);
const char *vector_text(struct printing *g, ex_id e);
/* false: it is not `hold` of a row of vectors. */
bool print_held(struct printing *g, const struct st *call);

/* print_pass.c: passes. */
struct program {
	struct printing g;
	struct codegen_kernel *k;
	uint32_t n_operands;
};
struct use { /* of each buffer, by a pass */
	const struct tir *p;
	bool *read, *written;
};
struct use uses(struct program *q, st_id first, st_id end);
/* Parameters of the body (call false), or what it is called with, a line each, with a comma. */
void print_arrays(struct program *q, const struct use *u, bool call);
/* What calls the body of pass n, from its name on; range: the body's lo and hi. */
void print_entry(struct program *q, const struct use *u, uint32_t n, const char *range);
bool print_program(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    const struct dialect *d, const struct codegen_form *form, struct codegen_kernel *out,
    struct err *e) MUST_CHECK;

/* threads.c: a GPU's loops.  Of a pass: as many warps (1: none are told apart) of so many lanes. */
struct threads {
	int64_t warps, lanes;
};
/* Such loops around statement i; *lane: the innermost. */
uint32_t threads_around(const struct tir *p, st_id i, st_id *lane);
struct threads threads_of(const struct tir *p, st_id first, st_id end);
/* work.c: of the pass that statements first .. end - 1 are. */
struct pass_work work_of(const struct tir *p, st_id first, st_id end);
/* Has the program a form that a GPU's printer takes? */
bool threads_check(const struct tir *p, struct err *e) MUST_CHECK;

#endif
