/* kernels/fuse/tile.h: the tile program: what fuse makes of a spec for a GPU and emit turns into text.
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
	uint32_t index;
	size_t offset;
	uint32_t stage;   /* that makes it; UINT32_MAX: none */
	const void *data; /* AT_TABLE */
	/* The sweep's turns read, at the maker's place and before it, what the turn before has left; the
	 * first turn finds `first` in each element. */
	bool carried;
	float first;
};

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
	bool at_call;    /* made once per call of the pass's function (small) */
	bool sweeps;     /* made anew in each turn of the program's sweep (online.c) */
	bool adds_parts; /* REDUCE: of a linear stage whose sum is split (split.c) */
};

/* ---- passes ----------------------------------------------------------------------------- */
enum { PASS_OUTER = 8, PASS_STEPS = 96 };
/* The range counts outer[0] x .. x outer[n-1], one value of each a step.  A stage's own axes keep what is
 * left: for AT_LOCAL tensors the part that one step makes. */
struct pass_outer {
	axis_id id; /* AXIS_OUTER */
	int64_t extent;
};
struct tile_pass {
	struct pass_outer outer[PASS_OUTER];
	uint32_t n_outer;
	int64_t range;
	uint32_t call[PASS_STEPS]; /* stages made at the start of a call, in order */
	uint32_t n_call;
	uint32_t row[PASS_STEPS]; /* stages made for each step of the range, in order */
	uint32_t n_row;
};

enum { TILE_PASSES = 16, TILE_MAX_LOCAL = 16 << 20 /* bytes of a thread's scratch */ };
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
	size_t shared_bytes, local_bytes;
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
/* Does it name a library's kernel in place of a generated one? */
bool sched_library(const struct sched *s, enum library *l, int64_t *version);
const char *knob_name(int k);
/* The knob's value, or `otherwise`. */
int64_t sched_get(const struct sched *s, enum knob k, int64_t otherwise);

/* The axis of a stage that most of its reads have along memory, -1: none; *is_red: it is one of reduction. */
int stage_vector_axis(const struct tile_prog *p, const struct stage *s, bool *is_red);
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
void tile_print(struct strbuf *sb, const struct tile_prog *p);
/* The same of a program that is not finished: before TILE_FORMED stages in their order, no passes. */
void tile_print_level(struct strbuf *sb, const struct tile_prog *p, enum tile_form level);
#endif
