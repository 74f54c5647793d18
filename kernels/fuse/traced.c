/* kernels/fuse/traced.c: which kernels the loop program makes (kernels/schedule), beside the tile program: of
 * a CPU all, of a GPU some. */
#include "tile.h"

#include "../schedule/schedule.h"

static bool
is_row_sum(enum prim p)
{
	return p == PRIM_sum || p == PRIM_rmax || p == PRIM_rmin || p == PRIM_prod;
}

static bool
is_f32(const struct spec *s)
{
	for (uint32_t i = 0; i < s->g.n_tensors; i++)
		if (graph_tensor(&s->g, (tensor_id){i})->type != DT_f32)
			return false;
	return true;
}

/* Sums over whole axes: of a GPU's kernels what alone issues fewer instructions throughout. */
static bool
is_taken_on_gpu(const struct spec *s)
{
	bool any = false;

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		if (prim_info[s->g.nodes[i].prim].class == CLASS_LINEAR)
			return false;
		any |= is_row_sum(s->g.nodes[i].prim);
	}
	return any && is_f32(s);
}

bool
fuse_is_traced(const struct spec *s, const struct target *t)
{
	return !t->is_cuda || is_taken_on_gpu(s);
}

bool
fuse_by_trace(const struct sched *s, const struct target *t)
{
	return !t->is_cuda || sched_get(s, KNOB_trace, 0) > 0;
}

/* ---- what stands beside trace=1 ------------------------------------------------------------------------ */
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
	    e, ERR_INFEASIBLE, "schedule: beside trace=1 may stand %s: leave out %s", sb.p, knob_name(k));
	arena_fini(&tmp);
	return false;
}

bool
fuse_choices(
    const struct spec *s, struct str schedule, const struct target *t, struct choices *out, struct err *e)
{
	struct sched sched;

	if (!sched_read(schedule, &sched, e))
		return false;
	for (int k = 0; k < KNOB_COUNT; k++)
		if (sched.v[k] != INT64_MIN && !is_heard(k))
			return refuse_knob(k, e);
	if (sched_get(&sched, KNOB_trace, 1) == 0)
		return err_set(e, ERR_INFEASIBLE,
		    "schedule: trace=0 is for GPUs: all of a CPU's kernels are made by way of the loop "
		    "program");
	if (!fuse_is_traced(s, t))
		return err_set(e, ERR_INFEASIBLE,
		    "schedule: trace=1 is on a GPU for what has no product, but sums over whole axes, in "
		    "f32");
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

struct schedule_target
fuse_schedule_target(const struct target *t)
{
	if (t->is_cuda)
		return (struct schedule_target){.threads = POINT_THREADS,
		    .warp = WARP,
		    .has_mma = t->sm >= 80,
		    .shared_bytes = SHARED_MOST};
	return (struct schedule_target){
	    .lanes = t->simd_bytes / (int)sizeof(float), .n_vregs = t->n_vregs, .l1_bytes = t->l1_bytes};
}

bool
fuse_by_rules(const struct tir *nest, const struct choices *chosen, const struct target *t,
    struct strbuf *trace, struct tir *out, struct err *e)
{
	struct schedule_target st = fuse_schedule_target(t);

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

	if (!fuse_choices(s, schedule, t, &chosen, e))
		return false;
	schedule_lower(tmp, s, t->strict, &nest);
	if (!fuse_by_rules(&nest, &chosen, t, sb, &bound, e))
		return false;
	sb_addc(sb, '\n');
	tir_print(sb, &bound);
	return true;
}

bool
fuse_print(
    struct strbuf *sb, const struct spec *s, struct str schedule, const struct target *t, struct err *e)
{
	struct arena tmp = {0};
	struct sched sched;
	struct tile_prog *p = NEW(&tmp, struct tile_prog);
	bool ok = sched_read(schedule, &sched, e);

	if (ok && fuse_by_trace(&sched, t)) {
		ok = print_loops(&tmp, sb, s, schedule, t, e);
	} else if (ok) {
		ok = tile_make(&tmp, s, &sched, t, p, e);
		if (ok)
			tile_print(sb, p);
	}
	arena_fini(&tmp);
	return ok;
}
