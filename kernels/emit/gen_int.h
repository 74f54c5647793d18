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
struct array_use {
	struct gen *g;
	bool *read, *written; /* of each tile tensor */
};
/* A pass on a GPU (emit_cuda.c). */
enum cuda_kind {
	CUDA_POINT, /* a thread takes a step of the range: one point of every stage */
	CUDA_TEAM,  /* a block takes a step, its threads share the stages' loops */
	CUDA_TILE,  /* a block takes a tile of a linear stage; steps behind it are its epilogue */
};
struct cuda_pass {
	enum cuda_kind kind;
	int threads;                /* of a block */
	bool team;                  /* now: the block's threads are at the same stage together */
	const char **home;          /* of each tile tensor: its array's name where it is no parameter */
	struct cuda_vector *vector; /* POINT: several neighbours a thread; NULL: one */
	const char **held; /* of each tile tensor: where its element goes until all neighbours are there;
	                      NULL: to its array */
};
struct gen {
	struct arena *a;
	struct strbuf sb;
	const struct tile_prog *p;
	struct tx *tx;
	const struct dialect *d;
	const char *symbol;
	const char *index;      /* type of loop counters and of flat indices */
	struct cuda_pass *cuda; /* NULL: a CPU */
	int depth;              /* of indentation */
	uint32_t n_temp, n_loop;
	const char **axis_name; /* of bound axes; NULL: not bound */
	uint32_t cap_axis;
	const char **ex_name, **ix_name; /* of what has a temporary */
	uint32_t cap_ex, cap_ix;
	struct gen_name *undo;
	uint32_t n_undo, cap_undo;
	const char *scratch[GEN_SCRATCH]; /* names behind EX_SCRATCH */
	uint32_t lazy;                    /* inside an arm that may not be evaluated: nothing moves out */
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
/* What a guard asks. */
const char *gen_condition(struct gen *g, const struct ex *guard);
/* tensor[at] = value, in the tensor's stored form. */
void gen_store(struct gen *g, uint32_t tensor, ix_id at, const char *value);
/* From here on, to the end of the scope, tensor[at] is what `name` holds. */
void gen_name_read(struct gen *g, enum dtype t, uint32_t tensor, ix_id at, const char *name);
const char *gen_tensor(struct gen *g, uint32_t tensor);         /* its array's name */
const char *gen_type(const struct gen *g, enum dtype t);        /* of a value */
const char *gen_stored_type(const struct gen *g, enum dtype t); /* of an array's element */
/* The primitive's text over operand texts. */
const char *gen_map_text(
    struct gen *g, enum prim p, enum dtype out, enum dtype in, enum dtype in1, const char *const *arg);
const char *gen_const(struct gen *g, const struct ex *c);

/* loops.c: `then` emits what stands inside. */
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
struct nest nest_of(const struct gen *g, const struct stage *s);
const char *loop_from(struct gen *g, axis_id a);
const char *loop_to(struct gen *g, axis_id a);
/* Extent when it is the same in every step; else -1. */
int64_t loop_extent(const struct gen *g, axis_id a);

/* The stage's loops over what it makes, all of n->axis; a block's threads share them out. */
void gen_par(struct gen *g, struct nest *n, nest_fn *then, void *self);

/* emit_c.c: what kernels of both dialects are put together from. */
void gen_note_stage(struct array_use *u, const struct stage *s);
/* The comment that names spec and schedule. */
void gen_head(struct gen *g, const struct spec *s, struct str schedule);
/* A kernel by way of the loop program: traced.c. */
bool emit_traced(struct gen *g, const struct spec *s, struct str schedule, const struct target *t,
    struct kernel_code *out, struct err *e) MUST_CHECK;
const char *gen_stage_words(struct gen *g, const struct stage *s);
void gen_bind_outer(struct gen *g, const struct tile_pass *tp);

/* What a reduction joins by, what it begins with, and values on the way. */
const char *gen_identity(struct gen *g, enum prim join, enum dtype t);
const char *gen_cast(struct gen *g, enum dtype from, enum dtype to, const char *v);

/* emit_cuda.c, cuda_team.c, cuda_tile.c: passes on a GPU. */
void cuda_pass(struct gen *g, uint32_t q, struct kernel_code *out);
/* Names for the axes: the digits of `flat`, the last axis fastest. */
void cuda_digits(struct gen *g, const axis_id *axis, const int64_t *extent, uint32_t n, const char *flat);
/* What the lane `mask` away has in v. */
const char *cuda_shuffled(struct gen *g, enum dtype t, const char *v, const char *mask);
/* A reduction of which several threads take parts; false: each thread can do its own. */
bool cuda_reduce(struct gen *g, const struct stage *s);
struct cuda_no_tile {
	const char *why;             /* NULL: there is a tile, or nothing to multiply */
	const struct stage *culprit; /* what should be in another pass; NULL: that would not help */
};
/* The pass's linear stages in tiles: how many; 0: none can be. */
uint32_t cuda_tiles(struct gen *g, const struct tile_pass *tp, struct cuda_no_tile *no);
/* cuda_apart.c: the tile program in which as many linear stages as can be are in tiles, by itself or by
 * parting them from what stands against it. */
const struct tile_prog *cuda_part(struct gen *g, const struct tile_prog *p);
void cuda_tile(struct gen *g, const struct tile_pass *tp);
/* Has it inner axes?  Then it keeps what its steps make itself. */
bool cuda_tile_keeps(struct gen *g, const struct tile_pass *tp);
/* Tiles of the pass. */
int64_t cuda_tile_range(struct gen *g, const struct tile_pass *tp);
struct tile_work cuda_tile_work(struct gen *g, const struct tile_pass *tp);

/* cuda_vector.c: neighbours along memory that a thread takes at once, and moves in words; NULL: none can be.
 */
struct cuda_vector *cuda_vector(struct gen *g, const struct tile_pass *tp, const struct array_use *use);
int64_t cuda_vector_n(const struct cuda_vector *v); /* NULL: 1 */
/* With the pass's axes at the first neighbour: loads; then each neighbour's scope, and its end, with the last
 * axis' name at the first; stores. */
void cuda_vector_load(struct cuda_vector *v);
void cuda_vector_open(struct cuda_vector *v, int64_t u);
void cuda_vector_close(struct cuda_vector *v, const char *first);
void cuda_vector_store(struct cuda_vector *v);

/* One stage at its place. */
void gen_stage(struct gen *g, const struct stage *s);
void gen_reduce(struct gen *g, const struct stage *s);
void gen_arg(struct gen *g, const struct stage *s);
void gen_scan(struct gen *g, const struct stage *s);
void gen_topk(struct gen *g, const struct stage *s);
void gen_scatter(struct gen *g, const struct stage *s);

#endif
