/* How a search ends, by a desk that answers from a table of costs (desk.h). */
#include "desk.h"

#include "../../kernels/base/clock_ratio.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static double
always_three(const struct hash *spec, int64_t bound_ns)
{
	(void)spec;
	(void)bound_ns;
	return 3;
}

static double
two_to_six(const struct hash *spec, int64_t bound_ns)
{
	(void)bound_ns;
	return 2 + (double)spec->b[7] / 64;
}

/* ---- the tests ----------------------------------------------------------------------- */
/* Where all kernels take three times their bound that is soon learned, and what is left unmeasured is
 * expected at what it costs: the plan is the optimum, found with few measurements, but not proved. */
static void
ends_by_expectation(void **state)
{
	struct desk d;
	struct plan plan, best;
	struct m_progress p, q;
	uint32_t by_expectation;

	(void)state;
	desk_open(&d, always_three);
	d.is_sum = true;
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	by_expectation = d.n_measured;
	assert_true(
	    str_is(p.stop, "no kernel without a measurement is expected to gain 1 % (--prove goes on)"));
	assert_true(by_expectation == p.measured && by_expectation > plan.n_kernels &&
	    by_expectation < p.distinct * 3 / 4);
	assert_true(!plan.proved && plan.bound_ns < plan.latency_ns);
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		assert_true(plan.kernels[i].is_measured);
	q = desk_job(&d, 3600 * SECOND, true, &best);
	assert_true(best.proved && d.n_measured > 0);
	assert_true(str_is(q.stop, "no candidate can beat the plan"));
	assert_true((double)p.latency_ns * 0.99 <= (double)best.latency_ns || p.winner.n);
	desk_close(&d);
}

/* A repeat asks for nothing and has the same plan; what two desks prove of the same table is the same. */
static void
repeats_measure_nothing(void **state)
{
	struct desk d, other;
	struct plan plan[3];

	(void)state;
	desk_open(&d, two_to_six);
	d.is_sum = true;
	(void)desk_job(&d, 3600 * SECOND, false, &plan[0]);
	assert_true(d.n_measured > 0 && d.n_raced > 0);
	assert_false(d.is_again);
	(void)desk_job(&d, 3600 * SECOND, false, &plan[1]);
	assert_int_equal(d.n_measured + d.n_raced + d.n_times + d.n_asks, 0);
	assert_true(d.is_again);
	assert_int_equal(plan[1].latency_ns, plan[0].latency_ns);
	desk_open(&other, two_to_six);
	other.is_sum = true;
	(void)desk_job(&other, 3600 * SECOND, true, &plan[1]);
	(void)desk_job(&d, 3600 * SECOND, true, &plan[2]);
	assert_true(plan[1].proved && plan[2].proved);
	assert_int_equal(plan[1].latency_ns, plan[2].latency_ns);
	desk_close(&other);
	desk_close(&d);
}

/* Results that came when the job was over make a repeat look again; unless they make a clearly better plan it
 * is the same file as before, with nothing measured, raced or timed. */
static void
late_results(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p, q;
	struct known *k;
	uint32_t n_late = 0;

	(void)state;
	desk_open(&d, two_to_six);
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_times == 1 && plan.n_kernels > 0);
	for (k = d.known; k < d.known + d.n; k++) {
		if (k->is_measured || k->cost.fail || n_late == 20)
			continue;
		k->is_measured = true;
		k->cost.median_ns *= 4; /* no plan is better for it */
		n_late++;
	}
	assert_int_equal(n_late, 20);
	q = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_asks > 0 && d.is_again);
	assert_int_equal(d.n_measured + d.n_raced + d.n_times, 0);
	assert_int_equal(q.cached, p.measured + p.cached + n_late);
	assert_int_equal(q.measured, 0);
	assert_true(
	    q.latency_ns == p.latency_ns && q.measured_ns == p.measured_ns && str_eq(q.winner, p.winner));
	(void)desk_job(&d, 3600 * SECOND, false, &plan); /* and that was kept */
	assert_true(d.n_asks == 0 && d.is_again);
	k = desk_look_up(
	    &d, plan.kernels[plan.steps[0].kernel].spec); /* a kernel of the plan is not what it was */
	k->cost.median_ns *= 50;
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_asks > 0 && !d.is_again);
	desk_close(&d);
}

/* A search that ended by itself is its own answer, for that budget or a smaller one; only a larger one looks
 * again. */
static void
budgets(void **state)
{
	struct desk d;
	struct plan plan;

	(void)state;
	desk_open(&d, two_to_six);
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_measured > 0 && !d.end.is_cut);
	(void)desk_job(&d, 60 * SECOND, false, &plan);
	assert_true(d.is_again && d.n_asks == 0);
	(void)desk_job(&d, 7200 * SECOND, false, &plan);
	assert_true(d.n_asks > 0 && d.n_measured == 0);
	desk_close(&d);
}

/* What a race finds counts, and whole plans are told apart by their whole time, unless one is proved. */
static void
races_and_playoffs(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;
	int64_t sum = 0;

	(void)state;
	desk_open(&d, two_to_six);
	d.drift = 1.25;
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_races >= 1 && d.n_races <= 3 && p.remeasured > 0 && d.n_times == 1);
	for (uint32_t i = 0; i < plan.n_steps; i++) {
		struct known *k = desk_look_up(&d, plan.kernels[plan.steps[i].kernel].spec);

		const struct plan_kernel *in = &plan.kernels[plan.steps[i].kernel];

		if (in->is_measured)
			assert_int_equal(in->cost_ns, k->cost.median_ns);
		sum += in->cost_ns;
	}
	assert_int_equal(sum, plan.latency_ns);
	assert_true(plan.measured_ns > 0 && plan.stop.n > 0);
	if (p.runner.n) { /* the last of them was the fastest */
		assert_true(p.winner.n && plan.runner_measured_ns > plan.measured_ns);
		assert_true(str_eq(plan.runner, p.runner));
	}
	d.is_sum = true;
	p = desk_job(&d, 3600 * SECOND, true, &plan);
	assert_true(plan.proved && p.winner.n == 0);
	desk_close(&d);
}

/* Twenty plans of ten models on such a device took a third more than their kernels; each kernel of theirs is
 * a row that says so. */
static void
tell_of_slow_plans(struct desk *d, int64_t sum_ns)
{
	d->n_wholes = 20;
	d->wholes = NEW_ARRAY(&d->a, struct m_whole, d->n_wholes);
	for (uint32_t i = 0; i < d->n_wholes; i++)
		d->wholes[i] = (struct m_whole){.plan = hash_bytes(&i, sizeof(i)),
		    .model = {{(uint8_t)(i / 2)}},
		    .sum_ns = sum_ns + i,
		    .measured_ns = sum_ns / 3 * 4,
		    .kernels = 20,
		    .hot_bytes = 1000,
		    .cold_bytes = 1000};
}

/* What a plan takes as a whole is expected by plans that were timed before; a plan of measured kernels that
 * this job times is told for the next ones, with the sum that its kernels had then. */
static void
wholes_are_expected(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;
	bool is_told = false;

	(void)state;
	desk_open(&d, two_to_six);
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_int_equal(p.expected_of, 0);
	assert_int_equal(p.expected_ns, plan.latency_ns);
	assert_true(p.expected_low_ns < p.expected_ns && p.expected_ns < p.expected_high_ns);
	assert_true(d.n_timed_whole > 0);
	for (uint32_t i = 0; i < d.n_timed_whole; i++)
		is_told |= d.timed[i].measured_ns == plan.measured_ns &&
		    d.timed[i].sum_ns == plan.latency_ns && d.timed[i].kernels == plan.n_steps;
	assert_true(is_told);
	tell_of_slow_plans(&d, plan.latency_ns);
	p = desk_job(&d, 3600 * SECOND, true, &plan); /* another job: it proves */
	assert_int_equal(p.expected_of, 20);
	assert_true((double)p.expected_ns > 1.15 * (double)plan.latency_ns);
	assert_true((double)p.expected_ns < 1.4 * (double)plan.latency_ns);
	assert_int_equal(plan.expected_ns, p.expected_ns);
	assert_int_equal(plan.expected_of, 20);
	desk_close(&d);
}

/* Nine plans, each of a model of its own, that took what their kernels do at that clock. */
static void
tell_of_a_clock(struct desk *d, int64_t sum_ns, double took, double clock_ratio)
{
	tell_of_slow_plans(d, sum_ns);
	d->n_wholes = 9;
	for (uint32_t i = 0; i < d->n_wholes; i++) {
		d->wholes[i].model.b[0] = (uint8_t)i;
		d->wholes[i].measured_ns = (int64_t)(took * (double)sum_ns);
		d->wholes[i].clock_ratio = clock_ratio;
	}
}

/* Sums are of calibration's clock.  Plans that run at a slower one take longer by that; it is said of them,
 * and what later jobs expect has nothing of it. */
static void
another_clock_is_taken_out(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;
	bool is_told = false;

	(void)state;
	desk_open(&d, two_to_six);
	d.is_sum = true;
	d.clock_ratio = 0.8;
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(p.measured_ns > plan.latency_ns * 6 / 5);
	assert_true(p.clock_ratio == 0.8 && plan.clock_ratio == 0.8);
	assert_true(llabs(calibrated_ns(p.measured_ns, p.clock_ratio) - plan.latency_ns) <= 1);
	for (uint32_t i = 0; i < d.n_timed_whole; i++)
		is_told |= d.timed[i].measured_ns == p.measured_ns && d.timed[i].clock_ratio == 0.8;
	assert_true(is_told);
	p = desk_job(&d, 3600 * SECOND, false, &plan); /* again: as it was said then */
	assert_true(p.clock_ratio == 0.8 && plan.clock_ratio == 0.8);
	tell_of_a_clock(&d, plan.latency_ns, 1.25, 0.8);
	p = desk_job(&d, 3600 * SECOND, true, &plan); /* another job: it proves */
	assert_int_equal(p.expected_of, 9);
	assert_true(llabs(p.expected_ns - plan.latency_ns) <= plan.latency_ns / 100);
	desk_close(&d);
}

/* What was timed before there was a clock to it counts as it is. */
static void
an_unknown_clock_is_calibrations(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;

	(void)state;
	desk_open(&d, two_to_six);
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(p.clock_ratio == 0 && plan.clock_ratio == 0);
	tell_of_a_clock(&d, plan.latency_ns, 1.25, 0);
	p = desk_job(&d, 3600 * SECOND, true, &plan);
	assert_true((double)p.expected_ns > 1.1 * (double)plan.latency_ns);
	desk_close(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ends_by_expectation),
	    cmocka_unit_test(repeats_measure_nothing), cmocka_unit_test(late_results),
	    cmocka_unit_test(budgets), cmocka_unit_test(races_and_playoffs),
	    cmocka_unit_test(wholes_are_expected), cmocka_unit_test(another_clock_is_taken_out),
	    cmocka_unit_test(an_unknown_clock_is_calibrations)};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
