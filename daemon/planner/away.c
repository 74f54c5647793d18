/* daemon/planner/away.c: a plan for a device that is not here (--predict): chosen by what was measured on its
 * class and what is expected of the rest.  It says how far off that may be: all kernels may err alike (one
 * device, one model), so the ends of their intervals add up. */
#include "away.h"
#include "expect.h"
#include "perturb.h"

#include "../../kernels/predict/kmeans.h"

#include <math.h>

bool
away_has_no_builder(const struct tune *t)
{
	return t->start.options.predict && !t->n_workers;
}

/* ---- samples ------------------------------------------------------------------------------ */
/* Kernels as points: what is known of each before it is lowered, every number of deviation 1. */
static float *
points_of(struct arena *a, const struct tune *t, const uint32_t *specs, uint32_t n)
{
	float *x = NEW_ARRAY(a, float, (size_t)n *PREDICT_FEATURES);

	for (uint32_t k = 0; k < PREDICT_FEATURES; k++) {
		double sum = 0, square = 0, mean, deviation;

		for (uint32_t i = 0; i < n; i++) {
			double v = t->cost[specs[i]].features[k];

			sum += v;
			square += v * v;
		}
		mean = sum / n;
		deviation = sqrt(fmax(square / n - mean * mean, 0));
		for (uint32_t i = 0; i < n; i++)
			x[(size_t)i * PREDICT_FEATURES + k] =
			    (float)((t->cost[specs[i]].features[k] - mean) / fmax(deviation, 1e-6));
	}
	return x;
}

/* Those that nobody has measured; of very many every few-th, so that picking stays short. */
static uint32_t *
open_specs(struct arena *a, const struct tune *t, uint32_t *n)
{
	enum { MOST = 4096 };
	uint32_t all = t->front.cands.n_specs - t->front.cands.n_views, step = 1 + all / MOST;
	uint32_t *specs = NEW_ARRAY(a, uint32_t, MAX_OF(all, 1u));

	*n = 0;
	for (uint32_t s = 0; s < all; s += step)
		if (t->cost[s].state == LAZY_OPEN)
			specs[(*n)++] = s;
	return specs;
}

/* As unlike as can be: where all is new, a few kernels of one kind tell little of the rest. */
static uint32_t *
pick_samples(struct arena *a, const struct tune *t, uint32_t *n)
{
	uint32_t n_open, *specs = open_specs(a, t, &n_open);
	uint32_t *picks;

	*n = (uint32_t)MIN_OF(t->start.options.samples, (uint64_t)n_open);
	picks = NEW_ARRAY(a, uint32_t, MAX_OF(*n, 1u));
	if (*n > 0)
		(void)kmeans_pick(points_of(a, t, specs, n_open), n_open, PREDICT_FEATURES, *n, 1, picks);
	for (uint32_t i = 0; i < *n; i++)
		picks[i] = specs[picks[i]];
	return picks;
}

/* A few at a time: what a kernel's schedules are expected to take is worked out before it is asked for, and
 * of thousands that would take longer than the time there is. */
static bool
measure_samples(struct tune *t, struct err *e)
{
	enum { WAIT_MS = 200, AT_ONCE = 32 };
	struct arena tmp = {0};
	uint32_t n, *picks = pick_samples(&tmp, t, &n), at = 0;
	bool ok = true;

	while (ok && (at < n || t->n_waiting > 0) && !search_is_over(t)) {
		const uint32_t next = t->n_waiting < AT_ONCE ? MIN_OF(n - at, (uint32_t)AT_ONCE) : 0;

		ok = (next == 0 || costs_measure(t, RANK_SEARCH, picks + at, next, e)) &&
		    costs_take(t, WAIT_MS, e) && progress_say(t, "measuring samples", false, e);
		at += next;
	}
	arena_fini(&tmp);
	return ok && costs_drop(t, e);
}

bool
away_search(struct tune *t, struct err *e)
{
	expect_learn(t);
	if (!search_bound(t, e))
		return false;
	t->measuring_from_ns = t->os->mono_ns(t->os->self);
	share_time(t);
	return measure_samples(t, e) && (expect_learn(t), search_incumbent(t, e));
}

/* ---- what is said of it --------------------------------------------------------------------- */
/* Sum over the steps of the choice. */
static struct expect_range
range_of_choice(const struct tune *t)
{
	struct expect_range sum = {0};

	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]];
		struct expect_range r = expect_range(t, &t->cost[s]);

		if (cand_is_view(&t->front.cands, s))
			continue;
		sum.ns += r.ns;
		sum.low_ns += r.low_ns;
		sum.high_ns += r.high_ns;
	}
	return sum;
}

void
away_note(struct tune *t)
{
	struct expect_range r;
	struct m_progress *p = &t->progress;

	if (!t->start.options.predict)
		return;
	expect_learn(t);
	r = range_of_choice(t);
	p->predicted_ns = (int64_t)r.ns;
	p->predicted_low_ns = (int64_t)r.low_ns;
	p->predicted_high_ns = (int64_t)r.high_ns;
	p->stop = str_of(arena_printf(t->arena, "predicted for %.*s, %s", STR_ARG(t->start.env.class),
	    away_has_no_builder(t) ? "nothing built or checked on it" : "built and checked there"));
}

void
away_tell(const struct tune *t, struct plan *plan)
{
	if (!t->start.options.predict)
		return;
	plan->expected = NEW_ARRAY(t->arena, struct plan_expected, MAX_OF(plan->n_kernels, 1u));
	for (uint32_t i = 0; i < plan->n_kernels; i++) {
		struct hash spec = hash_bytes(plan->kernels[i].spec.p, plan->kernels[i].spec.n);
		struct expect_range r;
		uint32_t s;

		if (plan_kernel_is_view(&plan->kernels[i]) || plan->kernels[i].is_measured ||
		    !cost_find(t, &spec, &s))
			continue;
		r = expect_range(t, &t->cost[s]);
		plan->expected[plan->n_expected++] =
		    (struct plan_expected){i, (int64_t)r.ns, (int64_t)r.low_ns, (int64_t)r.high_ns};
	}
}
