/* kernels/emit/gen_int.h: the walker's state, for the folder alone. */
#ifndef KORCH_GEN_INT_H
#define KORCH_GEN_INT_H

#include "../fuse/tile.h"
#include "emit.h"

/* How a language says things; dialect.def. */
struct dialect {
#define DIALECT_FIELD(N, MEANING) const char *N;
#include "dialect.def"
#undef DIALECT_FIELD
};
extern const struct dialect dialect_c, dialect_cuda;

/* A name given to an expression, valid until the scope that it was made in ends. */
struct gen_name {
	uint32_t id;
	bool is_ix;
	const char *was;
};
enum { GEN_SCRATCH = 16 };
struct gen {
	struct arena *a;
	struct strbuf sb;
	const struct tile_prog *p;
	struct tx *tx;
	const struct dialect *d;
	const char *symbol;
	int depth; /* of indentation */
	uint32_t n_temp, n_loop;
	const char **axis_name; /* of bound axes; NULL: not bound */
	uint32_t cap_axis;
	const char **ex_name, **ix_name; /* of what has a temporary */
	uint32_t cap_ex, cap_ix;
	struct gen_name *undo;
	uint32_t n_undo, cap_undo;
	const char *scratch[GEN_SCRATCH]; /* names behind EX_SCRATCH */
	int copies; /* of the innermost text, by splitting loops at borders */
	uint32_t lazy; /* inside an arm that may not be evaluated: nothing moves out */
};

/* text.c: lines and scopes. */
void gen_line(struct gen *g, const char *fmt, ...) PRINTF_LIKE(2, 3);
void gen_open(struct gen *g, const char *fmt, ...) PRINTF_LIKE(2, 3); /* "... {" and a scope */
void gen_close(struct gen *g);
uint32_t gen_mark(const struct gen *g);
void gen_forget(struct gen *g, uint32_t mark); /* names made since */
void gen_bind(struct gen *g, axis_id a, const char *name);
bool gen_is_bound(const struct gen *g, axis_id a);

/* expr.c: expressions as text; lines for temporaries go out first. */
const char *gen_ix(struct gen *g, ix_id i);
const char *gen_ex(struct gen *g, ex_id e);
/* Temporaries for all parts of e that depend on bound axes only: what a loop need not repeat. */
void gen_hoist(struct gen *g, ex_id e);
void gen_hoist_ix(struct gen *g, ix_id i);
/* tensor[at] = value, in the tensor's stored form. */
void gen_store(struct gen *g, uint32_t tensor, ix_id at, const char *value);
/* From here on, to the end of the scope, tensor[at] is what `name` holds. */
void gen_name_read(struct gen *g, enum dtype t, uint32_t tensor, ix_id at, const char *name);
const char *gen_tensor(struct gen *g, uint32_t tensor); /* its array's name */
const char *gen_type(const struct gen *g, enum dtype t);        /* of a value */
const char *gen_stored_type(const struct gen *g, enum dtype t); /* of an array's element */
/* The primitive's text over operand texts. */
const char *gen_map_text(struct gen *g, enum prim p, enum dtype out, enum dtype in, enum dtype in1,
    const char *const *arg);
const char *gen_const(struct gen *g, const struct ex *c);

/* loops.c: loops with borders cut off.  `then` emits what stands inside, for the expressions as
 * they are in that part of the loops' range. */
enum { NEST_AXES = STAGE_AXES + PASS_OUTER, NEST_EX = 6 };
struct nest {
	axis_id axis[NEST_AXES];
	uint32_t n;
	ex_id ex[NEST_EX]; /* what the inside evaluates; EX_NONE: unused */
	ix_id ix[2];       /* and where it goes */
	const struct stage *s;
};
typedef void nest_fn(struct gen *g, struct nest *n, void *self);
void gen_loops(struct gen *g, struct nest *n, uint32_t level, uint32_t end, nest_fn *then, void *self);
/* Cuts of the axis' range where a border guard changes its answer: cut[0] = lo .. cut[n] = hi + 1;
 * returns n, 1 where there is none or the text has been copied often enough. */
enum { NEST_CUTS = 8 };
int nest_cuts(struct gen *g, const struct nest *n, axis_id a, int64_t cut[NEST_CUTS + 1]);
/* The nest with axis a limited to [lo, hi); *part is the new axis. */
struct nest nest_part(struct gen *g, const struct nest *n, axis_id a, int64_t lo, int64_t hi, axis_id *part);
/* Outer axes of the pass are bound already: an if for each part of their range. */
void gen_outer_parts(struct gen *g, struct nest *n, nest_fn *then, void *self);
struct nest nest_of(const struct gen *g, const struct stage *s);
/* Replaces axis `a` in all of the nest's expressions. */
void nest_subst(struct gen *g, struct nest *n, axis_id a, ix_id by);
/* Which axis of the list the reads run through contiguously: its place, -1 if none. */
int nest_vector_axis(struct gen *g, const struct stage *s, bool *is_red);
const char *loop_from(struct gen *g, axis_id a);
const char *loop_to(struct gen *g, axis_id a);
/* Extent when it is the same in every step; else -1. */
int64_t loop_extent(const struct gen *g, axis_id a);

/* One stage at its place. */
void gen_stage(struct gen *g, const struct stage *s);
void gen_reduce(struct gen *g, const struct stage *s);
/* A map and the reduction along it in one loop; false: they are no such pair, nothing was emitted. */
bool gen_map_reduce(struct gen *g, const struct stage *map, const struct stage *s);
void gen_arg(struct gen *g, const struct stage *s);
void gen_scan(struct gen *g, const struct stage *s);
void gen_topk(struct gen *g, const struct stage *s);
void gen_scatter(struct gen *g, const struct stage *s);
/* A map whose operands run through memory along another axis than its result; false: it is none. */
bool gen_transposed(struct gen *g, const struct stage *s);

#endif
