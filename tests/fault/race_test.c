/* Whole plans beside those that were there before: the planner against a desk that says what kernels take in
 * a whole plan (desk.h). */
#include "../../kernels/generate/generate.h"
#include "../harness/sample.h"
#include "desk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double
two_to_six(const struct hash *spec, int64_t bound_ns)
{
	(void)bound_ns;
	return 2 + (double)spec->b[7] / 64;
}

/* Kernels that take in a whole plan what they took alone; others take ten times that. */
static struct hash honest[256];
static uint32_t n_honest;

static int64_t
honest_or_ten_times(const struct hash *spec, int64_t first_ns)
{
	for (uint32_t i = 0; i < n_honest; i++)
		if (hash_eq(&honest[i], spec))
			return first_ns;
	return 10 * first_ns;
}

static void
trust(struct desk *d, const struct plan *p)
{
	n_honest = 0;
	for (uint32_t i = 0; i < p->n_kernels && n_honest < COUNT_OF(honest); i++)
		honest[n_honest++] = desk_look_up(d, p->kernels[i].spec)->spec;
	d->truth = honest_or_ten_times;
}

static void
assert_same(const struct plan *have, const struct plan *want)
{
	assert_int_equal(have->n_kernels, want->n_kernels);
	for (uint32_t i = 0; i < have->n_kernels; i++) {
		assert_true(str_eq(have->kernels[i].spec, want->kernels[i].spec));
		assert_true(str_eq(have->kernels[i].schedule, want->kernels[i].schedule));
	}
}

static void
job_that_gives_way(struct desk *d, int64_t budget_ns, bool prove, const struct plan *before, const char *how)
{
	struct plan plan;
	struct m_progress p = desk_job(d, budget_ns, prove, &plan);

	assert_true(d->n_times == 1 && d->n_timed >= 2);
	if (!str_is(p.winner, how))
		fail_msg("taken: %.*s", STR_ARG(p.winner));
	assert_true(p.least_measured_ns > p.measured_ns && p.measured_ns > 0);
	assert_true(str_is(plan.winner, how) && plan.least_measured_ns == p.least_measured_ns);
	assert_false(plan.proved);
	assert_same(&plan, before);
}

/* The plan that was to be had for nothing, kernels and schedules as they were guessed then, takes part, also
 * beside a search that came to its end, and beside a proof; and as a file where somebody had asked for it. */
static void
what_was_had_for_nothing(void **state)
{
	static const char *const how[] = {
	    "what was known before measuring", "an earlier job with --budget 0"};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct desk d;
		struct plan before;
		struct m_progress p;

		desk_open(&d, two_to_six);
		p = desk_job(&d, 0, false, &before);
		assert_true(p.guessed > 0 && d.n_measured == 0);
		trust(&d, &before);
		if (i / 2 == 0) /* nobody had asked for it */
			d.end_key = (struct hash){0};
		job_that_gives_way(&d, 3600 * SECOND, i % 2, &before, how[i / 2]);
		desk_close(&d);
	}
}

/* Kernels of the plan have another best schedule from here on; how many of them. */
static uint32_t
find_others(struct desk *d, const struct plan *p)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < p->n_kernels; i++) {
		struct known *k = desk_look_up(d, p->kernels[i].spec);
		struct str *list, was = k->cost.schedule;
		struct spec s;
		struct err e = {0};
		uint32_t n;

		if (!spec_read(&d->a, k->text, &s, &e))
			fail_msg("%s", e.msg);
		space_list(&d->a, &s, &target_avx2, 4, text_outcome, &list, &n);
		for (uint32_t j = 0; j < n && str_eq(k->cost.schedule, was); j++)
			k->cost.schedule = list[j];
		found += !str_eq(k->cost.schedule, was);
	}
	return found;
}

/* The plan of an earlier job takes part as it was built then, whatever schedules are the best ones by now. */
static void
what_an_earlier_job_built(void **state)
{
	struct desk d;
	struct plan before;

	(void)state;
	desk_open(&d, two_to_six);
	d.is_sum = true;
	(void)desk_job(&d, 3600 * SECOND, false, &before);
	assert_true(find_others(&d, &before) > 0);
	d.is_sum = false;
	trust(&d, &before);
	/* a kernel of it is found slower, so that there is another least sum */
	desk_look_up(&d, before.kernels[before.steps[0].kernel].spec)->cost.median_ns *= 50;
	job_that_gives_way(&d, 3600 * SECOND, false, &before, "what an earlier job ended with");
	desk_close(&d);
}

/* What is built already takes part where there is no time for building anything. */
static void
builds_of_before_take_no_time(void **state)
{
	struct desk d;
	struct plan before;

	(void)state;
	desk_open(&d, two_to_six);
	desk_by_clock(&d);
	d.is_sum = true;
	(void)desk_job(&d, 3600 * SECOND, false, &before);
	d.is_sum = false;
	trust(&d, &before);
	for (uint32_t i = 0; i < before.n_steps; i += 2) /* so that what is best now was not built */
		desk_look_up(&d, before.kernels[before.steps[i].kernel].spec)->cost.median_ns *= 50;
	for (uint32_t i = 0; i < d.n; i++)
		d.known[i].cost.compile_ns = 100 * SECOND;
	job_that_gives_way(&d, 60 * SECOND, false, &before, "what an earlier job ended with");
	assert_true(d.n_timed == 2 && d.n_unknown > 0);
	desk_close(&d);
}

/* Of a job with fewer freedoms. */
static void
a_baseline_that_is_faster(void **state)
{
	static const char how[] = "an earlier job with --fusion operator";
	struct desk d;
	struct plan before, plan;
	struct m_progress p;

	(void)state;
	desk_open(&d, two_to_six);
	d.is_sum = true;
	d.fusion = STR("operator");
	(void)desk_job(&d, 3600 * SECOND, false, &before);
	desk_put_aside(&d);
	d.fusion = STR("full");
	d.fast_fusion = STR("operator");
	job_that_gives_way(&d, 3600 * SECOND, false, &before, how);
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.is_again && d.n_times == 0 && str_is(p.winner, how) && str_is(plan.fusion, "operator"));
	desk_close(&d);
}

/* It came after the plan that it beats: that is seen when the plan is asked for again, and once. */
static void
a_baseline_that_came_later(void **state)
{
	static const char how[] = "an earlier job with --fusion operator";

	(void)state;
	for (int same = 0; same < 2; same++) {
		struct desk d;
		struct plan slow, fast, plan;

		desk_open(&d, two_to_six);
		d.truth = honest_or_ten_times;
		n_honest = 0;
		(void)desk_job(&d, 3600 * SECOND, false, &slow);
		desk_put_aside(&d);
		d.fusion = STR("operator");
		d.truth = NULL;
		d.is_sum = true;
		(void)desk_job(&d, 3600 * SECOND, false, &fast);
		desk_put_aside(&d);
		d.fusion = STR("full");
		d.is_sum = false;
		d.says_same = same;
		trust(&d, &fast);
		job_that_gives_way(&d, 3600 * SECOND, false, &fast, how);
		assert_true(d.n_timed >= 2 && d.n_measured == 0 && d.n_raced == 0);
		(void)desk_job(&d, 3600 * SECOND, false, &plan);
		assert_true(d.is_again && d.n_times == 0);
		desk_close(&d);
	}
}

/* One that lost is not timed again with each repeat, whatever it took then. */
static void
a_baseline_that_is_slower(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;

	(void)state;
	desk_open(&d, two_to_six);
	d.is_sum = true;
	d.says_same = true;
	d.fusion = STR("operator");
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	desk_put_aside(&d);
	d.aside[0].end.progress.measured_ns = 1;
	d.fusion = STR("full");
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(p.winner.n == 0 && d.n_timed >= 2 && d.end.n_raced == 1);
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.is_again && d.n_times == 0);
	desk_close(&d);
}

/* Who asks for a baseline gets one, however much faster the other plan is. */
static void
a_baseline_stays_one(void **state)
{
	struct desk d;
	struct plan best, plan;
	struct m_progress p;

	(void)state;
	desk_open(&d, two_to_six);
	d.is_sum = true;
	(void)desk_job(&d, 3600 * SECOND, false, &best);
	desk_put_aside(&d);
	d.is_sum = false;
	trust(&d, &best);
	d.fusion = STR("operator");
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(str_is(plan.fusion, "operator") && p.measured_ns > 0);
	assert_false(str_starts(p.winner, "an earlier job") || str_starts(p.runner, "an earlier job"));
	desk_close(&d);
}

/* What is faster by less than the medians are off is not faster. */
static void
as_fast_is_not_faster(void **state)
{
	struct desk d;
	struct plan before, plan;
	struct m_progress p;

	(void)state;
	desk_open(&d, two_to_six);
	(void)desk_job(&d, 0, false, &before);
	trust(&d, &before);
	d.plan_spread_ns = SECOND;
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_timed >= 2 && p.winner.n == 0 && p.least_measured_ns == 0);
	assert_true(plan.winner.n == 0 && plan.runner.n > 0 && plan.runner_measured_ns < plan.measured_ns);
	desk_close(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_had_for_nothing),
	    cmocka_unit_test(what_an_earlier_job_built), cmocka_unit_test(builds_of_before_take_no_time),
	    cmocka_unit_test(a_baseline_that_is_faster), cmocka_unit_test(a_baseline_that_came_later),
	    cmocka_unit_test(a_baseline_that_is_slower), cmocka_unit_test(a_baseline_stays_one),
	    cmocka_unit_test(as_fast_is_not_faster)};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
