/* kernels/space/choices.c: what a schedule says to the rules of the loop program (kernels/schedule), and what
 * these may know of the device. */
#include "sched.h"

#include "../schedule/schedule.h"

/* ---- what rules hear ------------------------------------------------------------------------ */
static const enum knob heard[] = {
#define CHOICE(KNOB, WORDS) KNOB_##KNOB,
#include "../schedule/choice.def"
#undef CHOICE
};

static bool
is_heard(int k)
{
	for (size_t i = 0; i < COUNT_OF(heard); i++)
		if ((int)heard[i] == k)
			return true;
	return k == KNOB_trace;
}

static bool
refuse_knob(int k, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	for (size_t i = 0; i < COUNT_OF(heard); i++)
		sb_addf(&sb, "%s%s", i ? ", " : "", knob_name((int)heard[i]));
	(void)err_set(
	    e, ERR_INFEASIBLE, "schedule: the loop program hears %s: leave out %s", sb.p, knob_name(k));
	arena_fini(&tmp);
	return false;
}

bool
space_choices(
    const struct spec *s, struct str schedule, const struct target *t, struct choices *out, struct err *e)
{
	struct sched sched;

	if (!sched_read(schedule, &sched, e))
		return false;
	for (int k = 0; k < KNOB_COUNT; k++)
		if (sched.v[k] != INT64_MIN && !is_heard(k))
			return refuse_knob(k, e);
	*out = (struct choices){
#define CHOICE(KNOB, WORDS) .KNOB = sched_get(&sched, KNOB_##KNOB, 0),
#include "../schedule/choice.def"
#undef CHOICE
	};
	return out->wino == 0 || winograd_suits(s, t, out->wino) ||
	    err_set(e, ERR_INFEASIBLE,
		"wino: no convolution of 3 x 3 that tiles of %lld x %lld results are worth it for",
		(long long)out->wino, (long long)out->wino);
}

/* ---- what rules make of it
 * --------------------------------------------------------------------------------- */
/* Bytes: half of what a block may have without asking. */
enum { POINT_THREADS = 128, WARP = 32, SHARED_MOST = 40 << 10 };

/* What products of f32 are made by where the target's precision allows factors to be rounded. */
static enum intrin
rounded_mma(const struct target *t)
{
	static const struct {
		enum precision precision;
		int sm; /* and later ones */
		enum intrin by;
	} rows[] = {{PRECISION_F16, 80, INTRIN_mma_f16}, {PRECISION_F16, 75, INTRIN_mma_f16_k8},
	    {PRECISION_BF16, 80, INTRIN_mma_bf16}, {PRECISION_TF32, 80, INTRIN_mma_tf32}};

	for (size_t k = 0; k < COUNT_OF(rows); k++)
		if (rows[k].precision == t->precision && t->sm >= rows[k].sm)
			return rows[k].by;
	return INTRIN_COUNT;
}

struct schedule_target
space_schedule_target(const struct target *t)
{
	if (t->is_cuda)
		return (struct schedule_target){.threads = POINT_THREADS,
		    .warp = WARP,
		    .has_mma = t->sm >= 80,
		    .rounded_mma = rounded_mma(t),
		    .shared_bytes = SHARED_MOST};
	return (struct schedule_target){
	    .lanes = t->simd_bytes / (int)sizeof(float), .n_vregs = t->n_vregs, .l1_bytes = t->l1_bytes};
}

bool
space_by_rules(const struct tir *nest, const struct choices *chosen, const struct target *t,
    struct strbuf *trace, struct tir *out, struct err *e)
{
	struct schedule_target st = space_schedule_target(t);

	st.chosen = *chosen;
	schedule_propose(nest, &st, trace, out);
	return chosen->wino == 0 || trace_has(sb_str(trace), STEP_winograd) ||
	    err_set(e, ERR_INFEASIBLE, "wino: the loop program's rule finds no convolution for it");
}

static bool
print_loops(struct arena *tmp, struct strbuf *sb, const struct spec *s, struct str schedule,
    const struct target *t, struct err *e)
{
	struct choices chosen;
	struct tir nest, bound;

	if (!space_choices(s, schedule, t, &chosen, e))
		return false;
	schedule_lower(tmp, s, t->strict, &nest);
	if (!space_by_rules(&nest, &chosen, t, sb, &bound, e))
		return false;
	sb_addc(sb, '\n');
	tir_print(sb, &bound);
	return true;
}

bool
space_print(
    struct strbuf *sb, const struct spec *s, struct str schedule, const struct target *t, struct err *e)
{
	struct arena tmp = {0};
	bool ok = print_loops(&tmp, sb, s, schedule, t, e);

	arena_fini(&tmp);
	return ok;
}
