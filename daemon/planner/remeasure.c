/* daemon/planner/remeasure.c: what the choice rests on is timed again.
 *
 * Kernels are measured at different minutes of a machine that drifts by a fifth; those that were
 * measured in a good one win, and the plan is slower than the sum of its kernels.  So before the last
 * choice the chosen kernels and their rivals race again, all in one session, and what is known of a
 * kernel after that is the median of its repeats.  Rivals are the measured kernels whose entering
 * the plan would cost little: by reduced cost, a share of their own time.
 *
 * It is over when every chosen kernel has a repeat: then nothing holds its place by a lucky moment, and
 * another job with this store has nothing to time again either. */
#include "tune.h"

#include <stdlib.h>

enum { MAX_RACE = 512, CALLS = 36 };
static const double margin = 0.1;
static const int64_t least_ns = 25000000, worth_ns = 200000000;

struct rival {
	double slack; /* what the plan would lose by it, as a share of its own time */
	uint32_t spec;
};
struct session {
	struct arena arena;
	bool *is_in;        /* per spec */
	uint32_t n, n_open; /* n_open: chosen and never timed again */
	int64_t expect_ns, limit_ns;
};

static int
closest_first(const void *x, const void *y)
{
	const struct rival *a = x, *b = y;

	if (a->slack < b->slack || b->slack < a->slack)
		return a->slack < b->slack ? -1 : 1;
	return (a->spec > b->spec) - (a->spec < b->spec);
}

static bool
add(struct session *s, const struct tune *t, uint32_t spec)
{
	/* built for it, then timed */
	int64_t ns = MAX_OF(CALLS * t->cost[spec].measured_ns, least_ns) +
	    share_compile_ns(t, spec) / MAX_OF(t->start.env.hw.n_cores, (int64_t)1);

	if (cand_is_view(&t->front.cands, spec) || s->is_in[spec] || t->cost[spec].state != LAZY_MEASURED)
		return true;
	if (s->n == MAX_RACE || s->expect_ns + ns > s->limit_ns)
		return false;
	s->is_in[spec] = true;
	s->n++;
	s->expect_ns += ns;
	return true;
}

static void
add_rivals(struct session *s, const struct tune *t, const struct blp_result *r)
{
	struct rival *list = NEW_ARRAY(&s->arena, struct rival, t->program.n_kernels);
	uint32_t n = 0;

	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		uint32_t spec = t->program.spec_of[k];
		const struct spec_cost *c = &t->cost[spec];
		double over = r->pi + r->reduced[k] - (double)r->cost;

		if (c->state == LAZY_MEASURED && over <= margin * (double)c->measured_ns)
			list[n++] = (struct rival){over / (double)c->measured_ns, spec};
	}
	qsort(list, n, sizeof(*list), closest_first);
	for (uint32_t i = 0; i < n && add(s, t, list[i].spec); i++)
		;
}

/* Kernels of the same place in the graph come one after another: a race in several heats has rivals in
 * the same one. */
static uint32_t *
in_order(struct session *s, const struct tune *t)
{
	uint32_t *out = NEW_ARRAY(&s->arena, uint32_t, MAX_OF(s->n, 1u)), n = 0;

	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		uint32_t spec = t->program.spec_of[k];

		if (!s->is_in[spec])
			continue;
		s->is_in[spec] = false;
		out[n++] = spec;
	}
	return out;
}

/* The program of measured kernels alone: its reduced costs tell how near each one is to its best plan. */
static bool
choose_session(struct tune *t, struct session *s, struct err *e)
{
	struct blp_result r;
	int64_t *cost = kernel_costs(t, &s->arena, cost_measured);

	s->is_in = NEW_ARRAY(&s->arena, bool, MAX_OF(t->front.cands.n_specs, 1u));
	if (!blp_solve_again(&s->arena, t->solver, cost, t->measured_plan, t->n_measured_plan, &r, e))
		return err_in(e, "choosing what to time again");
	for (uint32_t i = 0; i < r.n_chosen; i++) {
		(void)add(s, t, t->program.spec_of[r.chosen[i]]);
		s->n_open += t->cost[t->program.spec_of[r.chosen[i]]].repeats == 0;
	}
	if (s->n_open > 0)
		add_rivals(s, t, &r);
	return true;
}

/* ---- side by side, once more ------------------------------------------------------------------ */
/* `turn` makes a session of the same kernels another one, once they have been timed again. */
static bool
ask_race(struct tune *t, const uint32_t *specs, uint32_t n, int64_t budget_ns, struct err *e)
{
	struct arena tmp = {0};
	struct m_kernel *k = NEW_ARRAY(&tmp, struct m_kernel, MAX_OF(n, 1u));
	struct m_bound *bounds = NEW_ARRAY(&tmp, struct m_bound, MAX_OF(n, 1u));
	struct msg ask = {.type = MSG_race_ask};
	uint64_t turn = 0;
	bool ok;

	for (uint32_t i = 0; i < n; i++) {
		k[i] = (struct m_kernel){.spec = t->front.cands.specs[specs[i]].text,
		    .schedule = t->cost[specs[i]].schedule,
		    .symbol = STR(""),
		    .heat = t->cost[specs[i]].heat};
		bounds[i] = cost_bound(t, specs[i]);
		turn += t->cost[specs[i]].repeats;
	}
	ask.race_ask = (struct m_race_ask){.threads = t->start.options.threads,
	    .precision = t->precision,
	    .kernels = k,
	    .n_kernels = n,
	    .bounds = bounds,
	    .n_bounds = n,
	    .budget_ns = budget_ns,
	    .turn = turn};
	ok = pipe_send(t->pipe, &ask, e);
	t->is_racing = ok;
	arena_fini(&tmp);
	return ok;
}

/* Asks for all of them to be timed again side by side, and waits for the end of it, or until_ns. */
static bool
time_again(
    struct tune *t, const uint32_t *specs, uint32_t n, int64_t budget_ns, int64_t until_ns, struct err *e)
{
	enum { WAIT_MS = 200 };

	/* what is still out would be measured before it */
	if (!costs_drop(t, e) || !ask_race(t, specs, n, budget_ns, e))
		return false;
	while (t->is_racing && !t->finish_asked && t->os->mono_ns(t->os->self) < until_ns)
		if (!costs_take(t, WAIT_MS, e) || !progress_say(t, "timing again", false, e))
			return false;
	return costs_drop(t, e);
}

bool
remeasure(struct tune *t, bool *changed, struct err *e)
{
	int64_t from = t->os->mono_ns(t->os->self),
		until = MIN_OF(t->remeasure_until_ns, from + t->remeasure_left_ns);
	struct session s = {.limit_ns = (until - from) / 5 * 3};
	uint64_t before = t->progress.remeasured;
	bool ok = true;

	*changed = false;
	if (!t->n_workers || t->finish_asked || t->n_measured_plan == 0 || s.limit_ns < worth_ns)
		return true;
	t->solve_until_ns = until;
	ok = choose_session(t, &s, e);
	if (ok && s.n_open > 0) {
		ok = progress_say(t, "timing again", true, e) &&
		    time_again(t, in_order(&s, t), s.n, s.expect_ns, until, e);
		*changed = t->progress.remeasured > before;
	}
	t->solve_until_ns = t->until_ns;
	t->remeasure_left_ns -= t->os->mono_ns(t->os->self) - from;
	arena_fini(&s.arena);
	return ok;
}
