/* daemon/planner/playoff.c: whole plans against each other (D20).  Beside the choice stand the best plans
 * under other views of the costs: by first measurements, with few kernels, near one kernel an operator; and
 * what there was before this job measured anything, so that no search leaves a plan that is slower than what
 * was had for nothing.  Their runs are interleaved in one session; the fastest by its median is the plan. The
 * timings are kept by what the plans hold, so that a repeat decides the same without running anything.
 *
 * As many take part as can be built and timed before the budget ends; those that matter most come first. */
#include "perturb.h"
#include "whole.h"

#include <stdlib.h>
#include <string.h>

enum { VIEWS = 3, ENTRANTS = VIEWS + 4 };
/* Entrants with a sum above that are not worth the builds; what a plan of fewer kernels may cost more. */
static const double hopeless = 1.3, for_fewer = 0.03;
/* Of timing, for each plan. */
static const int64_t enough_ns = 3000000000;

struct entrant {
	const char *how;
	uint32_t *chosen, n;
	int64_t cost;
	bool is_plain; /* without moves of instructions */
	struct m_path path;
};
struct game {
	struct tune *t;
	struct entrant of[ENTRANTS];
	uint32_t n;
};

static int
by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

static bool
same_kernels(const struct entrant *a, const struct entrant *b)
{
	struct arena tmp = {0};
	uint32_t *x, *y;
	bool same = a->n == b->n && a->is_plain == b->is_plain;

	if (same) {
		x = arena_dup(&tmp, a->chosen, a->n * sizeof(*x));
		y = arena_dup(&tmp, b->chosen, a->n * sizeof(*y));
		qsort(x, a->n, sizeof(*x), by_number);
		qsort(y, a->n, sizeof(*y), by_number);
		same = memcmp(x, y, a->n * sizeof(*x)) == 0;
	}
	arena_fini(&tmp);
	return same;
}

static struct hash
digest_of(struct tune *t, const struct entrant *x)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_addf(&sb, "plan %s ", KORCH_VERSION);
	sb_add(&sb, (struct str){(const char *)t->model_digest.b, sizeof(h.b)});
	for (uint32_t i = 0; i < x->n; i++) {
		uint32_t s = t->program.spec_of[x->chosen[i]];

		sb_addf(&sb, " %u %.*s ", x->chosen[i], STR_ARG(finish_schedule(t, s)));
		sb_add(&sb, (struct str){(const char *)t->front.cands.specs[s].hash.b, sizeof(h.b)});
	}
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

/* What is computed takes that long on any device; where its operands lie, nobody knows. */
static int64_t
floor_of(const struct tune *t, const struct entrant *x)
{
	double ns = 0;

	for (uint32_t i = 0; i < x->n; i++)
		ns += cost_floor_flop_ns(&t->front.cands.specs[t->program.spec_of[x->chosen[i]]],
		    t->target.is_cuda, t->hw.n_threads);
	return (int64_t)ns;
}

/* With its kernels' instructions as the compiler had them. */
static void
make_plain(const struct tune *t, struct entrant *x)
{
	x->is_plain = true;
	for (uint32_t i = 0; i < x->n; i++) {
		uint32_t s = t->program.spec_of[x->chosen[i]];

		x->cost += perturb_plain_ns(t, s) - t->cost[s].measured_ns;
	}
}

/* Who may take part: any plan, whatever it costs; one that is not hopeless; the same of measured kernels
 * alone; that again, without moves of instructions.  Kernels that were never measured count at a careful
 * guess, as they did where the choice was made. */
enum entry { ANY, ANY_GOOD, MEASURED, PLAIN };
static void
enter(struct game *g, enum entry who, const char *how, const uint32_t *chosen, uint32_t n)
{
	struct tune *t = g->t;
	struct entrant *x = &g->of[g->n];

	if (n == 0 && g->n > 0)
		return;
	*x = (struct entrant){.how = how, .chosen = arena_dup(t->arena, chosen, n * sizeof(*chosen)), .n = n};
	for (uint32_t i = 0; i < n; i++) {
		int64_t ns = settle_cost(t, x->chosen[i]);
		bool is_known = cost_is_known(&t->cost[t->program.spec_of[x->chosen[i]]]);

		if (g->n > 0 && (ns == BLP_NEVER || (!is_known && who >= MEASURED)))
			return;
		x->cost += ns == BLP_NEVER ? 0 : ns;
	}
	if (who == PLAIN)
		make_plain(t, x);
	for (uint32_t i = 0; i < g->n; i++)
		if (same_kernels(&g->of[i], x))
			return;
	if (g->n > 0 && who != ANY && (double)x->cost > (double)g->of[0].cost * hopeless)
		return;
	t->is_plain = x->is_plain;
	x->path.plan = digest_of(t, x);
	t->is_plain = false;
	x->path.floor_ns = floor_of(t, x);
	x->path.path = str_of(arena_printf(t->arena, "%.*s.%u", STR_ARG(t->start.out_path), g->n));
	g->n++;
}

static int64_t
cost_first(const struct tune *t, uint32_t s)
{
	return cost_measured(t, s) == BLP_NEVER ? BLP_NEVER : t->cost[s].first_ns;
}

/* What each kernel costs more, so that a plan with fewer wins where it loses at most `for_fewer`. */
static int64_t *
costs_for_few(struct tune *t, struct arena *a)
{
	int64_t *cost = kernel_costs(t, a, cost_measured);
	int64_t more = (int64_t)(for_fewer * (double)t->choice.cost / MAX_OF(t->choice.n_chosen, 1u));

	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		if (cost[k] != BLP_NEVER)
			cost[k] += more;
	return cost;
}

/* Other views of the costs, of measured kernels alone. */
static void
enter_views(struct game *g)
{
	static const double lean = 4;
	struct tune *t = g->t;
	struct arena tmp = {0};
	const struct {
		const char *how;
		int64_t *cost;
	} view[VIEWS] = {{"few kernels", costs_for_few(t, &tmp)},
	    {"nearly one kernel an operator", leaning_costs(t, &tmp, cost_measured, lean)},
	    {"by first measurements", kernel_costs(t, &tmp, cost_first)}};

	for (int i = 0; i < VIEWS; i++) {
		struct blp_result r;
		struct err none = {0};

		if (blp_solve_again(
			&tmp, t->solver, view[i].cost, t->choice.chosen, t->choice.n_chosen, &r, &none))
			enter(g, MEASURED, view[i].how, r.chosen, r.n_chosen);
	}
	arena_fini(&tmp);
}

/* What there was before: the plan that an earlier job of this kind ended with, and the one that was to be had
 * for nothing.  A search that came to its end leaves nothing to guesses. */
static void
enter_earlier(struct game *g)
{
	struct tune *t = g->t;
	struct arena tmp = {0};
	uint32_t n, *past = ended_choice(t, &tmp, &n);

	enter(g, ANY, "what an earlier job ended with", past, n);
	enter(g, t->is_cut ? ANY_GOOD : MEASURED, "what was known before measuring", t->start_plan,
	    t->n_start_plan);
	arena_fini(&tmp);
}

/* A search that was cut rests on guesses: what was there comes first, then. */
static void
list_entrants(struct game *g)
{
	may_settle(g->t);
	enter(g, ANY, "the least sum", g->t->choice.chosen, g->t->choice.n_chosen);
	if (perturb_is_in(g->t, g->t->choice.chosen, g->t->choice.n_chosen))
		enter(g, PLAIN, "instructions as compiled", g->t->choice.chosen, g->t->choice.n_chosen);
	if (g->t->is_cut)
		enter_earlier(g);
	enter_views(g);
	if (!g->t->is_cut)
		enter_earlier(g);
}

static void
choose(struct tune *t, const struct entrant *x)
{
	t->choice.chosen = x->chosen;
	t->choice.n_chosen = x->n;
	t->choice.cost = x->cost;
	t->choice.proved = false;
	t->is_plain = x->is_plain;
}

/* For good: what its kernels count is of the code that they have. */
static void
settle_on(struct tune *t, const struct entrant *x)
{
	choose(t, x);
	t->is_plain = false;
	for (uint32_t i = 0; i < x->n && x->is_plain; i++)
		(void)perturb_undo(t, t->program.spec_of[x->chosen[i]]);
}

/* Can entrant `i` be built, and timed beside the `n` that are ready, before the time for it ends? */
static bool
fits(const struct game *g, uint32_t i, uint32_t n)
{
	const struct tune *t = g->t;
	int64_t sum = g->of[i].cost, build = i ? share_build_ns(t, g->of[i].chosen, g->of[i].n) : 0;

	for (uint32_t k = 0; k < n; k++)
		sum += g->of[k].cost;
	return t->os->mono_ns(t->os->self) + build + share_times_ns(t, sum) <= t->plans_until_ns;
}

/* Builds and saves them, as far as there is time; those that cannot be built leave. */
static bool
make_plans(struct game *g, struct err *e)
{
	const struct blp_result choice = g->t->choice;
	uint32_t n = 0;
	bool ok = true;

	for (uint32_t i = 0; i < g->n && ok && fits(g, i, n); i++) {
		if (i > 0)
			choose(g->t, &g->of[i]);
		if (finish_trial(
			g->t, str_dup(g->t->arena, g->of[i].path.path), i ? g->t->plans_until_ns : 0, e))
			g->of[n++] = g->of[i];
		else
			ok = i > 0 && e->code != ERR_LINKLOST;
	}
	g->t->choice = choice;
	g->t->is_plain = false;
	g->n = n;
	return ok;
}

/* Timings of all entrants; none where no worker can tell them now, or where only_known and they are not. */
static bool
ask_times(struct game *g, bool only_known, struct m_time_have *out, struct err *e)
{
	struct tune *t = g->t;
	struct m_path plans[ENTRANTS];
	struct msg ask = {.type = MSG_time_ask}, m;
	int64_t left = t->plans_until_ns - t->os->mono_ns(t->os->self);

	for (uint32_t i = 0; i < g->n; i++)
		plans[i] = g->of[i].path;
	ask.time_ask = (struct m_time_ask){.threads = t->start.options.threads,
	    .plans = plans,
	    .n_plans = g->n,
	    .only_known = only_known,
	    .budget_ns = MAX_OF(MIN_OF(left / 4 * 3, g->n * enough_ns), (int64_t)1)};
	if (!pipe_send(t->pipe, &ask, e) ||
	    !costs_await(t, MSG_time_have, only_known ? 0 : t->deadline_ns, &m, e))
		return false;
	*out = m.type == MSG_time_have ? m.time_have : (struct m_time_have){.cause = STR("")};
	if (!only_known)
		costs_trouble(t, err_of_wire(out->fail), out->cause);
	if (out->fail || out->n_timings != g->n)
		out->n_timings = 0;
	return true;
}

static void
decide(struct game *g, const struct m_time_have *have)
{
	struct tune *t = g->t;
	struct m_progress *p = &t->progress;
	uint32_t best = 0, second = UINT32_MAX;

	for (uint32_t i = 1; i < g->n; i++)
		if ((!t->choice.proved || g->of[i].is_plain) &&
		    have->timings[i].median_ns < have->timings[best].median_ns)
			best = i;
	for (uint32_t i = 0; i < g->n; i++)
		if (i != best &&
		    (second == UINT32_MAX || have->timings[i].median_ns < have->timings[second].median_ns))
			second = i;
	for (uint32_t i = 0; i < g->n; i++)
		if (!g->of[i].is_plain)
			whole_note(
			    t, g->of[i].chosen, g->of[i].n, &g->of[i].path.plan, have->timings[i].median_ns);
	p->measured_ns = have->timings[best].median_ns;
	if (second != UINT32_MAX) {
		p->runner = str_of(g->of[second].how);
		p->runner_ns = g->of[second].cost;
		p->runner_measured_ns = have->timings[second].median_ns;
	}
	if (best > 0) {
		p->winner = str_of(g->of[best].how);
		settle_on(t, &g->of[best]);
	}
}

bool
playoff(struct tune *t, struct err *e)
{
	struct game g = {.t = t};
	struct m_time_have have;

	share_time(t);
	list_entrants(&g);
	if (!ask_times(&g, true, &have, e))
		return false;
	if (have.n_timings == 0) {
		if (!progress_say(t, "timing plans", true, e) || !make_plans(&g, e))
			return false;
		if (g.n > 0 && !ask_times(&g, false, &have, e))
			return false;
	}
	if (have.n_timings > 0)
		decide(&g, &have);
	return true;
}
