/* daemon/planner/share.c: how the time of a job is shared out.
 *
 *   began                   ->until_ns          ->remeasure_until_ns   ->plans_until_ns      ->deadline_ns
 *     | reading, measuring, solving | timing again | whole plans         | build, plan file     |
 *
 * What stands last has to be, and how long it takes is told from experience: what compiling the measured
 * kernels took, what the last solution and the last plan file took.  The two before it have a tenth of the
 * budget each, where that is enough for anything, and nothing where it is not: then their time is better
 * spent on measuring. */
#include "tune.h"

#include <math.h>

/* Of a kernel, where nothing was compiled yet; then by what was. */
static const int64_t usual_compile_ns = 150000000, usual_measure_ns = 400000000;
/* Of one kernel at the most, whatever its worker said. */
static const int64_t most_compile_ns = 60000000000;
/* Of a build beside its kernels: sending, linking, starting.  Of a plan file, by candidate. */
static const int64_t link_ns = 300000000, file_ns = 50000000, candidate_ns = 30000;
/* Runs of each plan that are timed at the least (worker/plan_times.c), and what starting them takes. */
enum { PLAN_RUNS = 8 };
/* A core's worth of kernels: of fewer, one is most of the work. */
enum { KERNELS_A_CORE = 3 };
static const int64_t start_plans_ns = 500000000;
/* A measurement that cannot end in this time is not begun. */
static const int64_t least_ns = 500000000;
static const double caution = 1.25;

/* Does the device compile at all?  A fake one does not. */
static bool
compiles(const struct tune *t)
{
	return !str_is(t->start.env.compiler, "none");
}

static int64_t
now_ns(const struct tune *t)
{
	return t->os->mono_ns(t->os->self);
}

/* What was compiled beside others says how long one takes alone. */
static int64_t
mean_compile_ns(const struct tune *t)
{
	int64_t sum = 0, n = 0;

	for (uint32_t i = 0; i < t->front.cands.n_specs; i++)
		if (t->cost[i].compile_ns > 0) {
			sum += MIN_OF(t->cost[i].compile_ns, most_compile_ns);
			n++;
		}
	return n ? sum / n : usual_compile_ns;
}

/* A worker keeps the machine code of what it has compiled; whether it is the one that will build, only a
 * worker that is alone can tell. */
static bool
is_kept(const struct tune *t, uint32_t spec)
{
	return t->n_workers == 1 && t->cost[spec].state == LAZY_MEASURED && !t->cost[spec].was_cached;
}

int64_t
share_compile_ns(const struct tune *t, uint32_t spec)
{
	return is_kept(t, spec) ? 0 : MIN_OF(t->cost[spec].compile_ns, most_compile_ns);
}

int64_t
share_build_ns(const struct tune *t, const uint32_t *kernels, uint32_t n)
{
	struct arena tmp = {0};
	struct bitset seen = bitset_make(&tmp, MAX_OF(t->front.cands.n_specs, 1u));
	int64_t sum = 0, mean = mean_compile_ns(t);
	int64_t cores = MIN_OF(MAX_OF(t->start.env.hw.n_cores, (int64_t)1), (int64_t)1024), n_specs = 0;
	bool is_empty = true;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t s = t->program.spec_of[kernels[i]];

		if (bit_get(&seen, s) || cand_is_view(&t->front.cands, s))
			continue;
		bit_set(&seen, s);
		is_empty = false;
		if (is_kept(t, s))
			continue;
		n_specs++;
		sum += t->cost[s].compile_ns > 0 ? share_compile_ns(t, s) : mean;
	}
	arena_fini(&tmp);
	if (!compiles(t) || is_empty)
		return 0;
	cores = MIN_OF(cores, MAX_OF((n_specs + KERNELS_A_CORE - 1) / KERNELS_A_CORE, (int64_t)1));
	return (int64_t)(t->build_pace * (double)(sum / cores)) + link_ns;
}

void
share_note_build(struct tune *t, int64_t expected_ns, int64_t took_ns)
{
	/* from the store: nothing was built */
	if (expected_ns <= link_ns || took_ns < expected_ns / 20)
		return;
	t->build_pace = fmin(fmax(t->build_pace * (double)took_ns / (double)expected_ns * caution, 0.5), 8);
}

static int64_t
file_time_ns(const struct tune *t)
{
	return t->file_ns > 0 ? t->file_ns : file_ns + candidate_ns * (int64_t)t->front.cands.n_cands;
}

/* From the choice to the plan: the last solutions, the build, the file.  Once the choice stands, it is built.
 */
static int64_t
finish_ns(const struct tune *t)
{
	if (t->is_final)
		return file_time_ns(t);
	return 2 * t->solve_ns + share_build_ns(t, t->choice.chosen, t->choice.n_chosen) + file_time_ns(t);
}

int64_t
share_times_ns(const struct tune *t, int64_t sum_ns)
{
	return (compiles(t) ? start_plans_ns : 0) + file_time_ns(t) + PLAN_RUNS * sum_ns;
}

/* A tenth of the budget; more where that is not enough for two plans and two tenths are. */
static int64_t
plans_ns(const struct tune *t, int64_t tenth)
{
	int64_t plan = t->best_measured != BLP_NEVER ? t->best_measured : t->choice.cost;
	int64_t pair = share_build_ns(t, t->choice.chosen, t->choice.n_chosen) + file_time_ns(t) +
	    share_times_ns(t, 2 * plan);

	return pair <= 2 * tenth ? MAX_OF(pair, tenth) : 0;
}

void
share_time(struct tune *t)
{
	int64_t tenth = t->start.options.budget_ns / 10;

	t->plans_until_ns = t->deadline_ns - finish_ns(t);
	t->perturb_until_ns = t->plans_until_ns - plans_ns(t, tenth);
	t->remeasure_until_ns =
	    t->perturb_until_ns - MIN_OF(t->start.options.perturb_ns, t->start.options.budget_ns / 3);
	t->until_ns =
	    t->remeasure_until_ns - (t->best_measured != BLP_NEVER ? MIN_OF(tenth, t->remeasure_left_ns) : 0);
}

int64_t
share_incumbent_until_ns(const struct tune *t)
{
	static const int64_t most = 5000000000, least = 50000000;
	int64_t now = now_ns(t), rest = t->deadline_ns - now - finish_ns(t);

	return now + MIN_OF(MAX_OF(rest, MAX_OF(least, t->start.options.budget_ns / 50)), most);
}

bool
share_is_too_small(const struct tune *t)
{
	return t->until_ns - now_ns(t) < (compiles(t) ? least_ns : 0);
}

/* Different kernels of the choice that a search would time. */
static uint32_t
count_open(const struct tune *t)
{
	struct arena tmp = {0};
	struct bitset seen = bitset_make(&tmp, MAX_OF(t->front.cands.n_specs, 1u));
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]];

		n += !bit_get(&seen, s) && t->cost[s].state == LAZY_OPEN;
		bit_set(&seen, s);
	}
	arena_fini(&tmp);
	return n;
}

/* What measuring the kernels of the first plan would take, with all that is before and after it; in seconds.
 */
static double
enough_s(const struct tune *t)
{
	int64_t need = t->measuring_from_ns - t->began_ns + finish_ns(t);
	double seconds = ceil((double)(need + count_open(t) * usual_measure_ns) * 1e-9 * caution);

	return seconds > 20 ? ceil(seconds / 10) * 10 : seconds;
}

void
share_note_open(struct tune *t)
{
	t->measuring_from_ns = now_ns(t);
	t->progress.untimed = count_open(t);
	t->progress.first_seconds = t->progress.untimed ? enough_s(t) : 0;
}

struct str
share_small_words(struct tune *t)
{
	return str_of(arena_printf(t->arena,
	    "the budget of %.3g s left nothing for measuring: plan from bounds and the cache; give at least "
	    "%.0f s",
	    (double)t->start.options.budget_ns * 1e-9, enough_s(t)));
}

struct str
share_nothing_words(struct tune *t)
{
	double budget = (double)t->start.options.budget_ns * 1e-9;

	return str_of(arena_printf(t->arena,
	    "the budget of %.3g s was over before anything was measured: plan from bounds and the cache; "
	    "give at least %.0f s",
	    budget, fmax(enough_s(t), ceil(2 * budget))));
}
