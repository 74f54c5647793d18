/* daemon/planner/plan_race.c: whole plans against each other (D20).  Beside the choice stand what was there
 * before it, built as it was then: the plan that an earlier job of the kind ended with, and the one that was
 * to be had for nothing (`--budget 0`); so no search leaves a plan that is slower than these.  Then the best
 * plans under other views of the costs: by first measurements, with few kernels, near one kernel an operator.
 * Their runs are interleaved in one session; the fastest by its median is the plan, where it is faster than
 * the choice by more than both medians are off.  The timings are kept by what the plans hold, so that a
 * repeat decides the same without running anything.
 *
 * As many take part as can be built and timed before the budget ends; those that matter most come first. What
 * was there before is seldom compiled for it: its build is in the store from when it was made. */
#include "result_cache.h"
#include "perturb.h"
#include "rivals.h"
#include "whole.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VIEWS = 3, ENTRANTS = VIEWS + RIVALS_MAX + 4 };
/* Entrants with a sum above that are not worth the builds; what a plan of fewer kernels may cost more. */
static const double hopeless = 1.3, for_fewer = 0.03;
/* Of a plan's time: less is no difference between two. */
static const double alike = 0.001;
/* Of plans below that, sums say little (their operands lie in caches), and building them is cheap. */
static const int64_t small_ns = 2000000;
/* Of timing, for each plan. */
static const int64_t enough_ns = 3000000000;

struct entrant {
	const char *how;
	uint32_t *chosen, n;
	int64_t cost;
	bool is_plain;            /* without moves of instructions */
	bool is_before;           /* was there before this job's search */
	struct held *held;        /* built like that; NULL: by what is known now */
	const struct rival *file; /* another job's, and nothing to be built; NULL */
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

/* As which its kernels are built from here on. */
static void
put_on(struct tune *t, const struct entrant *x)
{
	t->is_plain = x->is_plain;
	t->held = x->held;
	t->n_held = x->held ? x->n : 0;
}

static void
take_off(struct tune *t)
{
	put_on(t, &(struct entrant){0});
}

/* One digest of what each kernel is built as, whatever their order. */
static bool
same_schedules(struct tune *t, const struct entrant *a, const struct entrant *b)
{
	uint64_t sum[2] = {0};

	for (int i = 0; i < 2; i++) {
		const struct entrant *x = i ? b : a;

		put_on(t, x);
		for (uint32_t k = 0; k < x->n; k++) {
			uint32_t s = t->program.spec_of[x->chosen[k]];
			struct str schedule = finish_schedule(t, s);

			sum[i] += hash64(schedule.p, schedule.n, 2 * (uint64_t)s + held_is_guess(t, s));
		}
	}
	take_off(t);
	return sum[0] == sum[1];
}

static bool
same_plan(struct tune *t, const struct entrant *a, const struct entrant *b)
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
	return same && same_schedules(t, a, b);
}

/* Does that entrant hold the very kernels of another job's plan? */
static bool
same_kernels(struct tune *t, const struct entrant *x, const struct rival *r)
{
	uint64_t sum = x->file ? x->file->content : 0;

	put_on(t, x);
	for (uint32_t k = 0; k < x->n; k++) {
		uint32_t s = t->program.spec_of[x->chosen[k]];

		if (!cand_is_view(&t->front.cands, s))
			sum += rival_kernel(t->front.cands.specs[s].text, finish_schedule(t, s));
	}
	take_off(t);
	return sum == r->content;
}

static struct hash
digest_of(struct tune *t, const struct entrant *x)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_addf(&sb, "plan 2 %s ", KORCH_VERSION);
	sb_add(&sb, (struct str){(const char *)t->model_digest.b, sizeof(h.b)});
	for (uint32_t i = 0; i < x->n; i++) {
		uint32_t s = t->program.spec_of[x->chosen[i]];

		sb_addf(&sb, " %u%s %.*s ", x->chosen[i], held_is_guess(t, s) ? "?" : "",
		    STR_ARG(finish_schedule(t, s)));
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

/* What a kernel counts in an entrant, on the careful side where it was never measured, as it did where the
 * choice was made.  Of what was there before nothing is certain but that it was built: hopefully. */
static int64_t
entry_cost(const struct tune *t, const struct entrant *x, uint32_t i)
{
	uint32_t s = t->program.spec_of[x->chosen[i]];

	if (x->held && t->cost[s].state != LAZY_FAILED)
		return x->held[i].cost_ns > 0 ? x->held[i].cost_ns : cost_expected(t, &t->cost[s]);
	return incumbent_cost(t, x->chosen[i]);
}

/* Who may take part: any plan, whatever it costs; one that is not hopeless; the same of measured kernels
 * alone; that again, without moves of instructions. */
enum entry { ANY, ANY_GOOD, MEASURED, PLAIN };

/* Sums up its kernels; false where one of them rules it out. */
static bool
add_up(const struct game *g, enum entry who, struct entrant *x)
{
	struct tune *t = g->t;

	for (uint32_t i = 0; i < x->n; i++) {
		int64_t ns = entry_cost(t, x, i);
		bool is_known = cost_is_known(&t->cost[t->program.spec_of[x->chosen[i]]]);

		if (g->n > 0 && (ns == BLP_NEVER || (!is_known && who >= MEASURED)))
			return false;
		x->cost += ns == BLP_NEVER ? 0 : ns;
	}
	if (who == PLAIN)
		make_plain(t, x);
	return true;
}

static void
enter(struct game *g, enum entry who, struct entrant x)
{
	struct tune *t = g->t;

	if ((x.n == 0 && g->n > 0) || !add_up(g, who, &x))
		return;
	x.chosen = arena_dup(t->arena, x.chosen, x.n * sizeof(*x.chosen));
	for (uint32_t i = 0; i < g->n; i++)
		if (g->of[i].file ? same_kernels(t, &x, g->of[i].file) : same_plan(t, &g->of[i], &x)) {
			g->of[i].is_before |= x.is_before;
			return;
		}
	if (g->n > 0 && who != ANY && (double)x.cost > (double)g->of[0].cost * hopeless)
		return;
	put_on(t, &x);
	x.path.plan = digest_of(t, &x);
	take_off(t);
	x.path.floor_ns = floor_of(t, &x);
	x.path.path = str_of(arena_printf(t->arena, "%.*s.%u", STR_ARG(t->start.out_path), g->n));
	g->of[g->n++] = x;
}

/* What another job ended with, as it is. */
static void
enter_file(struct game *g, const struct rival *r)
{
	struct hash id[2] = {hash_bytes("file", 4), r->file};
	struct entrant x = {.how = r->how,
	    .cost = r->cost_ns,
	    .is_before = true,
	    .file = r,
	    .path = {.path = r->path, .floor_ns = r->floor_ns, .plan = hash_bytes(id, sizeof(id))}};

	for (uint32_t i = 0; i < g->n; i++)
		if (same_kernels(g->t, &g->of[i], r)) {
			g->of[i].is_before = true;
			return;
		}
	if (g->n > 0 && g->of[0].cost >= small_ns && (double)x.cost > (double)g->of[0].cost * hopeless)
		return;
	g->of[g->n++] = x;
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
			enter(g, MEASURED,
			    (struct entrant){.how = view[i].how, .chosen = r.chosen, .n = r.n_chosen});
	}
	arena_fini(&tmp);
}

/* What there was before.  A small plan's sum says too little to leave it out. */
static void
enter_earlier(struct game *g)
{
	struct tune *t = g->t;
	struct arena tmp = {0};
	struct entrant past = {.how = "what an earlier job ended with", .is_before = true},
		       start = {.how = "what was known before measuring",
			   .chosen = t->start_plan,
			   .n = t->n_start_plan,
			   .held = t->start_held,
			   .is_before = true};

	past.chosen = cached_choice(t, &tmp, &past.n);
	past.held = cached_held(t, t->arena, past.chosen, past.n);
	enter(g, ANY, past);
	for (uint32_t i = 0; i < t->n_rivals; i++)
		enter_file(g, &t->rivals[i]);
	enter(g, g->of[0].cost < small_ns ? ANY : ANY_GOOD, start);
	arena_fini(&tmp);
}

static void
list_entrants(struct game *g)
{
	struct entrant choice = {
	    .how = "the least sum", .chosen = g->t->choice.chosen, .n = g->t->choice.n_chosen};

	allow_incumbent(g->t);
	enter(g, ANY, choice);
	choice.how = "instructions as compiled";
	choice.is_plain = true;
	if (perturb_is_in(g->t, choice.chosen, choice.n))
		enter(g, PLAIN, choice);
	enter_earlier(g);
	enter_views(g);
}

static void
choose(struct tune *t, const struct entrant *x)
{
	t->choice.chosen = x->chosen;
	t->choice.n_chosen = x->n;
	t->choice.cost = x->cost;
	t->choice.proved = false;
	put_on(t, x);
}

/* For good: what its kernels count is of the code that they have. */
static void
take_incumbent(struct tune *t, const struct entrant *x)
{
	choose(t, x);
	t->is_plain = false; /* undone for good, below */
	for (uint32_t i = 0; i < x->n && x->is_plain; i++)
		(void)perturb_undo(t, t->program.spec_of[x->chosen[i]]);
}

/* Can entrant `i`, built within that time, be timed beside the `n` that are ready before the time for it
 * ends?
 */
static bool
fits(const struct game *g, uint32_t i, uint32_t n, int64_t build_ns)
{
	const struct tune *t = g->t;
	int64_t sum = g->of[i].cost;

	for (uint32_t k = 0; k < n; k++)
		sum += g->of[k].cost;
	return t->os->mono_ns(t->os->self) + build_ns + share_times_ns(t, sum) <= t->plans_until_ns;
}

/* The plan of an entrant as a file.  The choice is built already; of others, too, the store may have the
 * build, which then takes no time. */
static bool
make_one(struct game *g, uint32_t i, uint32_t n, struct err *e)
{
	struct tune *t = g->t;
	const struct entrant *x = &g->of[i];
	struct build_when when = {.until_ns = i ? t->plans_until_ns : 0};

	if (i > 0) {
		when.only_known = !fits(g, i, n, share_build_ns(t, x->chosen, x->n));
		choose(t, x);
	}
	return finish_trial(t, str_dup(t->arena, x->path.path), when, e);
}

/* Builds and saves them, as far as there is time; those that cannot be built leave. */
static bool
make_plans(struct game *g, struct err *e)
{
	const struct blp_result choice = g->t->choice;
	uint32_t n = 0;
	bool ok = true;

	for (uint32_t i = 0; i < g->n && ok && (i == 0 || n > 0); i++) {
		if (!fits(g, i, n, 0))
			continue;
		if (g->of[i].file || make_one(g, i, n, e))
			g->of[n++] = g->of[i];
		else
			ok = i > 0 && e->code != ERR_LINKLOST;
	}
	g->t->choice = choice;
	take_off(g->t);
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

/* Of the median, from what lies between the quartiles of its runs. */
static double
error_of(const struct m_timing *x)
{
	static const double normal = 1.86; /* sqrt(pi / 2) / 0.6745 */

	return x->samples > 1 ? normal * (double)x->spread_ns / sqrt((double)x->samples) : 0;
}

/* A proved choice gives way only to what was there before it. */
static bool
may_win(const struct game *g, uint32_t i)
{
	return !g->t->choice.proved || g->of[i].is_plain || g->of[i].is_before;
}

/* The fastest; the choice where it is as fast, by all that these runs tell.  (Its kernels are measured; what
 * was there before measuring may be as fast to the last hundredth of a microsecond, and is a guess.) */
static uint32_t
fastest(const struct game *g, const struct m_timing *x)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < g->n; i++)
		if (may_win(g, i) && x[i].median_ns < x[best].median_ns)
			best = i;
	return (double)(x[0].median_ns - x[best].median_ns) >
		MAX_OF(hypot(error_of(&x[0]), error_of(&x[best])), alike * (double)x[0].median_ns)
	    ? best
	    : 0;
}

static void
decide(struct game *g, const struct m_time_have *have)
{
	struct tune *t = g->t;
	struct m_progress *p = &t->progress;
	uint32_t best = fastest(g, have->timings), second = UINT32_MAX;

	for (uint32_t i = 0; i < g->n; i++)
		if (i != best &&
		    (second == UINT32_MAX || have->timings[i].median_ns < have->timings[second].median_ns))
			second = i;
	for (uint32_t i = 0; i < g->n; i++)
		if (!g->of[i].is_plain && !g->of[i].held && !g->of[i].file) /* by what is known now */
			whole_note(t, g->of[i].chosen, g->of[i].n, &g->of[i].path.plan, &have->timings[i]);
	p->measured_ns = have->timings[best].median_ns;
	p->clock_ratio = have->timings[best].clock_ratio;
	if (second != UINT32_MAX) {
		p->runner = str_of(g->of[second].how);
		p->runner_ns = g->of[second].cost;
		p->runner_measured_ns = have->timings[second].median_ns;
	}
	if (best > 0) {
		p->winner = str_of(g->of[best].how);
		p->least_measured_ns = have->timings[0].median_ns;
		if (g->of[best].file)
			t->taken = g->of[best].file;
		else
			take_incumbent(t, &g->of[best]);
	}
}

/* In the planner's words (planner.says), a line each: the user is told of the two fastest alone. */
static void
say_times(const struct game *g, const struct m_timing *x)
{
	for (uint32_t i = 0; i < g->n; i++)
		(void)fprintf(stderr, "of %u plans timed in turns: %s, %.1f us\n", g->n, g->of[i].how,
		    (double)x[i].median_ns * 1e-3);
}

static bool
race(struct game *g, struct err *e)
{
	struct tune *t = g->t;
	struct m_time_have have;

	share_time(t);
	if (!ask_times(g, true, &have, e))
		return false;
	if (have.n_timings == 0) {
		if (!progress_say(t, "timing plans", true, e) || !make_plans(g, e))
			return false;
		if (g->n > 0 && !ask_times(g, false, &have, e))
			return false;
	}
	t->has_raced = have.n_timings > 0;
	if (t->has_raced) {
		say_times(g, have.timings);
		decide(g, &have);
	}
	return true;
}

bool
plan_race(struct tune *t, struct err *e)
{
	struct game g = {.t = t};

	if (!rivals_find(t, false, e))
		return false;
	list_entrants(&g);
	return race(&g, e);
}

bool
plan_race_again(struct tune *t, struct err *e)
{
	struct game g = {.t = t};
	struct m_progress was = t->progress;
	struct rival *own = NEW_ARRAY(t->arena, struct rival, 1);
	bool is_here;

	if (t->start.options.offline || t->start.options.budget_ns <= 0)
		return true;
	if (!rivals_find(t, true, e))
		return false;
	if (t->n_rivals == 0)
		return true;
	if (!rivals_own(t, own, &is_here, e))
		return false;
	if (!is_here)
		return true;
	enter_file(&g, own);
	for (uint32_t i = 0; i < t->n_rivals; i++)
		enter_file(&g, &t->rivals[i]);
	t->is_final = true;
	if (g.n > 1 && !race(&g, e))
		return false;
	if (!t->taken)
		t->progress = was;
	return true;
}
