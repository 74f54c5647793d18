/* kernels/fuse/tile.h: the tile program: what fuse makes of a spec and emit turns into text.
 *
 *   stage   what makes one tensor that is kept somewhere: axes, and a scalar expression over
 *           reads.  Layouts, broadcasts and cheap maps are no stages: they live in expressions.
 *   pass    stages that run over one outer range without a barrier in between.
 *   step    a stage at its place in a pass.
 *
 * Expressions are kernels/tir's (expr.h); here a read has one index, flat. */
#ifndef KORCH_TILE_H
#define KORCH_TILE_H

#include "../tir/expr.h"
#include "fuse.h"

/* ---- tensors and stages --------------------------------------------------------------- */
enum place_at {
	AT_NOWHERE, /* lives in its readers' expressions */
	AT_OPERAND, /* operand `index` of the kernel */
	AT_RESULT,  /* result `index` */
	AT_TABLE,   /* constants inside the text */
	AT_SHARED,  /* shared scratch at `offset`; whole */
	AT_LOCAL,   /* per-thread scratch at `offset`; the part of one step of the outer range */
};
/* Tensors 0..spec.g.n_tensors-1 are the spec's; behind them come partial sums. */
struct tile_tensor {
	enum place_at at;
	enum dtype type;
	int64_t count;   /* elements, whole */
	int64_t n_local; /* AT_LOCAL: elements kept */
	int64_t ring;    /* AT_LOCAL: rows kept, row r at r modulo that; 0: the rows of one step */
	uint32_t index;
	size_t offset;
	uint32_t stage;               /* that makes it; UINT32_MAX: none */
	const void *data;             /* AT_TABLE */
	const struct tile_pack *pack; /* AT_OPERAND: the form it comes in; NULL: dense (anchor.h) */
	/* The sweep's turns read, at the maker's place and before it, what the turn before has left; the
	 * first turn finds `first` in each element. */
	bool carried;
	float first;
	bool shares; /* AT_OPERAND, AT_RESULT: one of `overlaps` names it */
};

struct winograd;
enum stage_kind {
	STAGE_MAP,     /* result = body */
	STAGE_REDUCE,  /* result = body joined over the reduction axes by `prim` */
	STAGE_ARG,     /* argmax, argmin: position along the one reduction axis */
	STAGE_LINEAR,  /* result = sum over the reduction axes of a * b */
	STAGE_SCAN,    /* cumsum along the one reduction axis; result at the same index */
	STAGE_TOPK,    /* body's k extremes along the reduction axis; second tensor: positions */
	STAGE_SCATTER, /* copy, then updates in order; alone in its pass */
};
enum { STAGE_AXES = 24 };
struct stage_axis {
	axis_id id;
	int64_t extent;
	int64_t stride; /* PAR: in the whole result's flat index; RED: 0 */
	int outer;      /* number of the pass's outer axis that it is bound to; -1: a loop of the stage */
	int64_t local;  /* PAR: stride in the local part */
};
struct stage {
	enum stage_kind kind;
	enum prim prim;                     /* REDUCE: what joins; ARG, SCAN..: the primitive */
	uint32_t tensor;                    /* made */
	uint32_t tensor2;                   /* TOPK: positions; else UINT32_MAX */
	uint32_t node;                      /* of the spec; for comments */
	struct stage_axis axis[STAGE_AXES]; /* PAR first, in order of falling stride, then RED */
	uint32_t n_par, n_red;
	ex_id body;     /* LINEAR: a * b */
	ex_id a, b;     /* LINEAR: the factors, with their prologues */
	enum dtype acc; /* type of the accumulator: f32, f64 or the integer */
	const struct attrs *at;
	int64_t k, k_stride; /* TOPK: how many; between them in the result, the first at `target` */
	/* SCATTER: updates run in order over the RED axes; the copy before them over init_axis */
	ix_id target; /* SCATTER, SCAN, TOPK: flat place in the result */
	ex_id init;   /* the copy's element */
	axis_id init_axis;
	int64_t count, n_update;
	/* set by placement */
	ix_id out; /* where the element goes: in the result, shared or local part */
	uint32_t pass;
	uint32_t level;  /* whose rows a step makes: 0: the pass's block, else those of ring level - 1 */
	bool at_call;    /* made once per call of the pass's function (small) */
	bool packs;      /* makes a packed factor */
	bool sweeps;     /* made anew in each turn of the program's sweep (online.c) */
	bool adds_parts; /* REDUCE: of a linear stage whose sum is split (split.c) */
	bool packed;     /* LINEAR: b is packed by columns; its axes stay as they are */
	bool by_columns; /* LINEAR: the range is to count blocks of columns (columns.c): axis `blocks` */
	axis_id blocks;
	const struct winograd *wino; /* LINEAR: b is packed for Winograd's form (winograd.c); else NULL */
	axis_id slide[2];            /* wino: the K axes of the window */
	axis_id slides[2];           /* and the row axes that they slide along, until the pass is bound */
	struct anchor *anchor;       /* LINEAR: how the micro-kernel computes it; NULL: loop nest */
};

/* ---- passes ----------------------------------------------------------------------------- */
enum { PASS_OUTER = 8, PASS_STEPS = 96 };
/* The range counts outer[0] x .. x outer[n-2] x ceil(outer[n-1] / block).  One step of it binds
 * the outer axes but the last, and for the last a block: with block == 1 one value, else each stage
 * has a loop of its own: over [block * o, block * o + block), or in a pass with an anchor over
 * r = 0 .. block - 1 with the axis at block * o + r.
 * A stage's own axes keep what is left: for AT_LOCAL tensors the part that one step makes. */
struct pass_outer {
	axis_id id;     /* AXIS_OUTER; the last one counts blocks */
	int64_t extent; /* of the axis; the last one's in elements, not blocks */
};
/* Rows of a stage whose readers, in the same pass, need more of them than their own.  For row y of the
 * pass, counted by its last outer axis, they need rows scale * y + lo .. scale * y + hi.  A step makes
 * those that no step before it in the same call has made: n rows from `at` on; n may be none, then
 * the level's stages do nothing. */
enum { PASS_RINGS = 6 };
struct pass_ring {
	axis_id at, n;  /* AXIS_OUTER */
	int64_t extent; /* rows there are */
	int64_t scale, lo, hi;
	int64_t most; /* that a step needs, and so that are kept */
};
struct tile_pass {
	struct pass_outer outer[PASS_OUTER];
	uint32_t n_outer;
	int64_t block;
	int64_t range;
	uint32_t call[PASS_STEPS]; /* stages made at the start of a call, in order */
	uint32_t n_call;
	uint32_t row[PASS_STEPS]; /* stages made for each step of the range, in order */
	uint32_t n_row;
	struct pass_ring ring[PASS_RINGS];
	uint32_t n_rings;
	bool by_columns; /* its last outer axis counts blocks of a linear stage's columns */
};

enum { TILE_PASSES = 16, TILE_MAX_LOCAL = 16 << 20 /* bytes of a thread's scratch */ };
/* Passes without a barrier in between (beside.c).  One alone keeps its own range; of several, each has
 * `units` of the joined range, in this order. */
struct tile_group {
	uint32_t pass[TILE_PASSES];
	int64_t units[TILE_PASSES];
	uint32_t n;
};
struct tile_prog {
	struct arena *arena;
	const struct spec *spec;
	const struct target *target;
	const struct sched *sched;
	const bool *apart; /* of each stage: it joins no pass that others have begun; NULL: none is so */
	struct tx *tx;
	struct tile_tensor *tensors;
	uint32_t n_tensors, cap_tensors;
	struct stage *stages;
	uint32_t n_stages, cap_stages;
	struct tile_pass pass[TILE_PASSES];
	uint32_t n_passes;
	/* A step of the pass that has them goes n_turns times through its stages that sweep; `turn`, an outer
	 * axis, counts.  0: no sweep. */
	axis_id turn;
	int64_t n_turns;
	struct tile_group group[TILE_PASSES]; /* what runs between two barriers, in order */
	uint32_t n_groups,
	    n_levels;            /* n_levels: groups that there would be with all that can go side by side */
	uint32_t *side, n_sides; /* of each stage but panels: which part of the spec that hangs together */
	uint32_t n_busy_sides;   /* of those with more than maps */
	size_t shared_bytes, local_bytes;
	struct overlap *overlaps; /* results that may lie on an operand's bytes (overlap.c) */
	uint32_t n_overlaps;
};

/* A schedule as numbers (space.def). */
enum knob {
#define KNOB(N, ...) KNOB_##N,
#include "space.def"
#undef KNOB
	KNOB_COUNT
};
struct sched {
	int64_t v[KNOB_COUNT]; /* INT64_MIN: the default */
};
bool sched_read(struct str text, struct sched *out, struct err *e) MUST_CHECK;
void sched_print(struct strbuf *sb, const struct sched *s);
/* The knob's value, or `otherwise`. */
/* Does it name a library's kernel in place of a generated one? */
bool sched_library(const struct sched *s, enum library *l, int64_t *version);
const char *knob_name(int k);
int64_t sched_get(const struct sched *s, enum knob k, int64_t otherwise);

/* The axis of a stage that most of its reads have along memory, -1: none; *is_red: it is one of reduction. */
int stage_vector_axis(const struct tile_prog *p, const struct stage *s, bool *is_red);
/* Partial sums of a reduction along an axis of `extent` elements: a power of two. */
enum { SUM_LANES = 32 };
int64_t stage_lanes(const struct tile_prog *p, const struct stage *s, int64_t extent);
/* The map that joins two elements of a reduction. */
enum prim reduce_joiner(enum prim p);
/* ERR_INFEASIBLE: "rule: why". */
bool tile_make(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    struct tile_prog *out, struct err *e) MUST_CHECK;
/* The same program, but for the stages that are to be apart (by their numbers in it; NULL: none). */
bool tile_make_apart(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    const bool *apart, struct tile_prog *out, struct err *e) MUST_CHECK;
/* How far a tile program is: what holds of it grows by level (tile_verify.c). */
enum tile_form {
	TILE_STAGES, /* stages over axes of their own */
	TILE_FORMED, /* and each has its place in a pass */
	TILE_BOUND,  /* and indices count what loops count, in scratch that is laid out */
};
/* Does all that readers of the program take for granted hold?  ERR_WRONG: "rule: what breaks it". */
bool tile_verify(const struct tile_prog *p, enum tile_form level, struct err *e) MUST_CHECK;
/* Is it proved that no stage reads or writes outside a tensor?  ERR_WRONG: "bounds: ...", not proved. */
bool tile_bounds(const struct tile_prog *p, enum tile_form level, struct err *e) MUST_CHECK;
/* Called after each pass over the program with its name; what it refuses ends tile_make_watched. */
struct tile_watch {
	bool (*after)(
	    void *self, const char *pass, enum tile_form level, const struct tile_prog *p, struct err *e);
	void *self;
};
/* tile_make_apart, watched; debug builds verify between passes whoever watches (NULL: nobody). */
bool tile_make_watched(struct arena *a, const struct spec *s, const struct sched *sched,
    const struct target *t, const bool *apart, const struct tile_watch *w, struct tile_prog *out,
    struct err *e) MUST_CHECK;
/* Steps of the group's range. */
int64_t group_range(const struct tile_prog *p, const struct tile_group *g);
void tile_print(struct strbuf *sb, const struct tile_prog *p);
/* The same of a program that is not finished: before TILE_FORMED stages in their order, no passes. */
void tile_print_level(struct strbuf *sb, const struct tile_prog *p, enum tile_form level);
#endif
