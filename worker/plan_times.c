/* worker/plan_times.c: whole plans timed side by side, in the measuring child.  They take turns.  A turn is
 * as a plan is used: one run after the other, so that one finds in the caches what it left there itself and
 * not what the others did; its first runs only bring that back and do not count.  A last cache takes several
 * to have a plan's weights again (36 MB on a Xeon: 30 ms, and the run behind the first one still took 1.15 of
 * its time).  What it may hold is a small part of a long run: such a plan has turns of one. */
#include "gpu_child.h"

#include "../kernels/run/gpu_plan.h"
#include "../schema/plan_file.h"

enum { PLAN_WARM_UPS = 2, MIN_PLAN_RUNS = 5, MAX_PLAN_RUNS = 4000 };
/* Runs that bring the caches back, at most so many and about so long; of a run so long none. */
enum { BACK_RUNS = 8 };
static const int64_t back_ns = 40000000, long_run_ns = 60000000;
/* Then a turn ends when it has lasted so long, or after that many runs that count. */
static const int64_t turn_ns = 20000000;
enum { TURN_RUNS = 20, FEW_TURNS = 16, EACH_TURNS = 8 };

struct yard { /* what the plans are for */
	const struct dev *dev;
	bool is_fake, is_gpu;
	struct plan_clock *clock; /* of the race */
};

struct plan_run {
	struct plan plan;
	struct plan_exec *exec;
	struct gpu_plan *gpu;
	const void **in;
	void **out;
	int64_t *sample;
	uint32_t n, n_void;
	int64_t last_ns; /* what the last run took, by the clock */
	struct gpu_voids voids;
	struct m_plan_timed t;
	struct arena *arena; /* of its words */
};

static void *
io_buffer(struct arena *a, const struct plan_io *io, size_t *n_bytes)
{
	char *p;

	if (!shape_bytes(&io->shape, io->type, n_bytes))
		bug("a checked plan has an input that does not fit");
	p = arena_alloc(a, *n_bytes + PLAN_ALIGN);
	return p + (-(uintptr_t)p % PLAN_ALIGN);
}

static bool
open_plan(
    const struct yard *c, struct arena *a, const char *path, uint64_t seed, struct plan_run *p, struct err *e)
{
	int64_t ns;
	size_t n;
	bool ok;

	if (!plan_load(a, path, &p->plan, NULL, e))
		return false;
	if (c->is_fake)
		return true;
	p->sample = NEW_ARRAY(a, int64_t, MAX_PLAN_RUNS);
	p->in = NEW_ARRAY(a, const void *, p->plan.n_inputs);
	p->out = NEW_ARRAY(a, void *, p->plan.n_outputs);
	for (uint32_t i = 0; i < p->plan.n_inputs; i++) {
		void *x = io_buffer(a, &p->plan.inputs[i], &n);

		fill_plan_input(&p->plan.inputs[i], x, mix64(seed + i));
		p->in[i] = x;
	}
	for (uint32_t i = 0; i < p->plan.n_outputs; i++)
		p->out[i] = io_buffer(a, &p->plan.outputs[i], &n);
	if (c->is_gpu) /* the runs that count are of the same inputs, in the GPU's memory */
		ok = gpu_plan_open(c->dev, &p->plan, 0, &p->gpu, e) &&
		    gpu_plan_run(p->gpu, p->in, p->out, &ns, e);
	else /* all on the child's own threads: other plans' would spin beside them, on the same cores */
		ok = p->plan.n_threads == c->dev->n_threads
		    ? plan_exec_take(c->dev, &p->plan, &p->exec, e)
		    : err_set(e, ERR_PROTO, "the plan is for %u threads, and it is to be timed on %u",
			  p->plan.n_threads, c->dev->n_threads);
	return ok || err_in(e, "%s", path);
}

static void
fail_plan(struct plan_run *p, const struct err *e)
{
	p->t.fail = (uint64_t)err_wire(e->code == ERR_NONE ? ERR_FAILED : e->code);
	p->t.cause = str_of(str_dup(p->arena, str_of(e->msg)));
}

/* A run counts as a kernel's sample does: by what NVML sees before and after it. */
static void
run_on_gpu(const struct dev *d, struct plan_run *p, bool counts)
{
	struct gpu_state before, after;
	struct err e = {0};
	int64_t ns;

	gpu_state(d, &before);
	if (!gpu_plan_time(p->gpu, &ns, &e)) {
		fail_plan(p, &e);
		return;
	}
	gpu_state(d, &after);
	if (!counts || p->n >= MAX_PLAN_RUNS)
		return;
	if (gpu_is_clean(&before) && gpu_is_clean(&after))
		p->sample[p->n++] = ns;
	else
		gpu_void(&p->voids, gpu_is_clean(&before) ? &after : &before);
}

/* On one thread its own CPU time, as for long kernels: what else runs on the host is not the plan's. is_late:
 * the budget is over, and what comes counts. */
static void
run_plan(const struct yard *c, struct plan_run *p, bool counts, bool is_late)
{
	int64_t (*clock)(void) = c->dev->n_threads <= 1 ? thread_ns : now_ns;
	int64_t from, took;

	if (p->gpu && !p->t.fail)
		run_on_gpu(c->dev, p, counts);
	if (!p->exec)
		return;
	gather_threads(c->dev, p->n_void);
	from = clock();
	plan_exec_run(p->exec, p->in, p->out, NULL);
	took = clock() - from;
	if (counts && p->n < MAX_PLAN_RUNS && (is_late || had_all_threads(c->dev, &p->n_void)))
		p->sample[p->n++] = took;
}

/* Of a fake GPU: a kernel that was never measured is no faster than others are, beside their bounds. */
static int64_t
fake_ns(const struct plan *p)
{
	enum { USUAL = 4 };
	int64_t ns = 0;

	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];

		ns += k->is_measured || plan_kernel_is_view(k) ? k->cost_ns : USUAL * k->cost_ns;
	}
	return MAX_OF(ns, (int64_t)1);
}

static void
sum_up(const struct yard *c, struct plan_run *p)
{
	struct err e = {0};

	if (c->is_fake && !p->t.fail) {
		p->t.timing.median_ns = p->t.timing.min_ns = fake_ns(&p->plan);
		p->t.timing.samples = 1;
	}
	if (!p->t.fail && p->n < MIN_PLAN_RUNS && !gpu_voids_told(&p->voids, p->n, &e))
		fail_plan(p, &e);
	if (!p->n || p->t.fail)
		return;
	p->t.timing.median_ns =
	    MAX_OF(median_ns(p->sample, p->n), (int64_t)1); /* a plan of views takes no time */
	p->t.timing.min_ns = MAX_OF(p->sample[0], (int64_t)1);
	p->t.timing.spread_ns = (p->sample[p->n * 3 / 4] - p->sample[p->n / 4]) / 2;
	p->t.timing.samples = p->n;
}

/* Has each plan, or each on the CPU, so many samples? */
static bool
have_all(const struct plan_run *p, uint32_t n, uint32_t runs, bool is_cpu)
{
	for (uint32_t i = 0; i < n; i++)
		if ((p[i].exec || (!is_cpu && p[i].gpu)) && p[i].n < runs)
			return false;
	return true;
}

/* What runs on the CPU ends when more runs would tell nothing: their budget is for plans of which nobody can
 * say sooner. */
static bool
is_told(const struct plan_run *p, uint32_t n)
{
	struct arena tmp = {0};
	struct pair_stats *s = NEW_ARRAY(&tmp, struct pair_stats, MAX_OF(n, 1u));
	uint32_t n_timed = 0;
	bool ok = true;

	for (uint32_t i = 0; ok && i < n; i++) {
		double *v = NEW_ARRAY(&tmp, double, MAX_OF(p[i].n, 1u));

		if (p[i].t.fail != ERR_NONE)
			continue;
		for (uint32_t k = 0; k < p[i].n; k++)
			v[k] = (double)p[i].sample[k];
		ok = p[i].exec && pair_judge(v, p[i].n, &s[n_timed++]);
	}
	ok = ok && pair_is_told(s, n_timed);
	arena_fini(&tmp);
	return ok;
}

static void
take_turn(const struct yard *c, struct plan_run *p, bool is_late)
{
	int64_t until_ns = now_ns() + back_ns;
	int n_back = is_late || p->last_ns >= long_run_ns ? 0 : BACK_RUNS, n = is_late ? 1 : TURN_RUNS;

	for (int i = 0; i < n_back && (i == 0 || now_ns() < until_ns); i++)
		run_plan(c, p, false, false);
	until_ns = now_ns() + turn_ns;
	for (int i = 0; i < n && (i == 0 || now_ns() < until_ns); i++) {
		int64_t began = now_ns();

		run_plan(c, p, true, is_late);
		p->last_ns = now_ns() - began;
	}
}

/* All have as many turns, the last of them behind the end of the budget at most.  It is looked at now and
 * then whether they are told apart. */
static void
time_plans(const struct yard *c, struct plan_run *p, uint32_t n, int64_t until_ns)
{
	for (int round = 0; round < PLAN_WARM_UPS; round++)
		for (uint32_t i = 0; i < n; i++)
			run_plan(c, &p[i], false, false);
	for (int round = 0; round < MAX_PLAN_RUNS; round++) {
		bool is_late = now_ns() >= until_ns, is_look = round >= FEW_TURNS && round % EACH_TURNS == 0;

		if ((is_look && is_told(p, n)) ||
		    (round >= MIN_PLAN_RUNS && is_late && have_all(p, n, MIN_PLAN_RUNS, true)) ||
		    have_all(p, n, MAX_PLAN_RUNS, false))
			break;
		for (uint32_t i = 0; i < n; i++)
			take_turn(c, &p[i], is_late);
		clock_turn(c->clock);
	}
}

/* Without sane numbers of a calibration nobody knows the clock, and the times are told all the same. */
static void
open_clock(struct arena *a, const struct refs *refs, const struct m_plans_ask *ask, struct plan_clock *out)
{
	struct calibration frozen;
	struct err none = {0};
	bool ok = calibration_unpack_bounds(&ask->calibration, &frozen, &none);

	clock_open(a, ok ? refs : NULL, &frozen, out);
}

static void
tell_clock(const struct yard *c, struct plan_run *p, uint32_t n)
{
	double ratio[REF_COUNT];

	clock_ratios(c->clock, ratio);
	for (uint32_t i = 0; i < n; i++)
		if (p[i].exec && !p[i].t.fail)
			p[i].t.timing.clock_ratio = clock_of_plan(c->clock, &p[i].plan, ratio);
}

void
plans_time(const struct dev *dev, const struct refs *refs, bool is_fake, bool is_gpu, struct arena *a,
    const struct m_plans_ask *ask, struct m_plan_timed said[MEASURE_MAX_PLANS])
{
	struct plan_clock clock;
	const struct yard c = {dev, is_fake, is_gpu, &clock};
	uint32_t n = ask->n_plans;
	struct plan_run *p = NEW_ARRAY(a, struct plan_run, n);
	int64_t until_ns = now_ns() + ask->budget_ns; /* reading the plans is in it */

	for (uint32_t i = 0; i < n; i++) {
		struct err e = {0};

		p[i].arena = a;
		if (!open_plan(&c, a, str_dup(a, ask->plans[i].path), ask->seed, &p[i], &e))
			fail_plan(&p[i], &e);
	}
	open_clock(a, refs, ask, &clock);
	time_plans(&c, p, n, until_ns);
	for (uint32_t i = 0; i < n; i++)
		sum_up(&c, &p[i]);
	tell_clock(&c, p, n);
	for (uint32_t i = 0; i < n; i++) {
		said[i] = p[i].t;
		gpu_plan_close(p[i].gpu);
		plan_exec_close(p[i].exec);
	}
}
