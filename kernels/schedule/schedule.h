/* kernels/schedule/schedule.h: a spec becomes a loop program, and a schedule changes how it runs, never what
 * it computes. */
#ifndef KORCH_SCHEDULE_H
#define KORCH_SCHEDULE_H

#include "../tir/tir.h"
#include "choices.h"

/* ---- lowering --------------------------------------------------------------------------------- */
/* The naive program, NEST: a block for each primitive that computes, in a nest of its own, in the spec's
 * order.  Layouts and broadcasts are index expressions in their readers.  strict: sums in double and in
 * row-major order, as the interpreter's; else f32 (f64 for f64).  Lives in `a`; the spec's constants stay
 * its. */
void schedule_lower(struct arena *a, const struct spec *s, bool strict, struct tir *out);
/* Bindings and guards put into the blocks, together: FLAT.  What a reduction starts from is stored before
 * its outermost loop. */
void schedule_flat(const struct tir *p, struct tir *out);

/* ---- traces --------------------------------------------------------------------------------------- */
enum step_op {
#define STEP(N, OPERANDS, HELP) STEP_##N,
#include "step.def"
#undef STEP
	STEP_OPS
};
/* What becomes of the iterations that a split's factor leaves over.  guard: a last tile that is not full, by
 * a guard at each instance; cut: a loop of its own; balanced: two sizes of tiles, one apart; shift: the last
 * tile begins earlier, and makes some points again. */
#define STEP_TAILS(X) X(guard) X(cut) X(balanced) X(shift)
enum step_tail {
#define X(N) TAIL_##N,
	STEP_TAILS(X)
#undef X
	    TAIL_COUNT
};
enum {
	STEP_NAMES = IXV_MAX + 2, /* all loops of a nest, two of them in tiles */
	STEP_NUMBERS = 3
};
struct step {
	enum step_op op;
	struct str name[STEP_NAMES]; /* loops, blocks and buffers, as operands have them */
	uint32_t n_name;
	int64_t number[STEP_NUMBERS]; /* as operands have them */
	uint32_t n_number;
	struct step_run {
		int first, last;
	} run[MAX_RANK]; /* dimensions of a buffer that become one of its copy, in the copy's order */
	uint32_t n_run;
	enum step_tail tail;
	enum tir_bind bind;
	enum intrin intrin;
	enum dtype type;
};
/* "split t1.k0 8 cut".  ERR_FORMAT; names point into the text. */
bool step_read(struct str line, struct step *out, struct err *e) MUST_CHECK;
void step_print(struct strbuf *sb, const struct step *s);
/* One primitive on a verified NEST program.  ERR_INFEASIBLE: "PRIMITIVE: RULE: why". */
bool step_apply(const struct tir *p, const struct step *s, struct tir *out, struct err *e) MUST_CHECK;
/* All lines (or what ';' parts) of a trace; an error names the line. */
bool trace_apply(const struct tir *p, struct str trace, struct tir *out, struct err *e) MUST_CHECK;

/* Has the trace such a step? */
bool trace_has(struct str trace, enum step_op op);

/* What rules may know of the device. */
struct schedule_target {
	int lanes; /* f32 in a vector */
	int n_vregs;
	int64_t l1_bytes;
	struct choices chosen;
	/* A GPU: threads of a block where nothing speaks for another number (0: it is none), of a warp; bytes
	 * that a block's threads share. */
	int threads, warp;
	/* By what a warp multiplies matrices: factors of the instruction's types; and what are f32 where
	 * these may be rounded to them.  INTRIN_COUNT: by nothing. */
	bool has_mma;
	enum intrin rounded_mma;
	int64_t shared_bytes;
};
/* The trace that the rules (rule.def) make of a verified NEST program, appended to `trace`, and what it makes
 * of the program. */
void schedule_propose(
    const struct tir *nest, const struct schedule_target *t, struct strbuf *trace, struct tir *out);

/* ---- may they share a kernel? --------------------------------------------------------------------- */
/* Are these primitives, of a graph or of candidates, worth one kernel?  ERR_INFEASIBLE with "rule: why".
 * Cheap with fewer than two heavy linear primitives; with two, a trace is proposed. */
bool schedule_feasible(struct arena *tmp, const struct spec *s, struct err *e) MUST_CHECK;

#endif
