/* What a budget is: the time of the whole job, from planning's start to the plan, by a clock that the test
 * moves (desk.h); and what comes of one that is too small, or of one more. */
#include "../../kernels/space/space.h"
#include "desk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t MS = 1000000;

static double
two_to_six(const struct hash *spec, int64_t bound_ns)
{
	(void)bound_ns;
	return 2 + (double)spec->b[7] / 64;
}

/* A host: what reading the model, measuring a kernel, building one take, in milliseconds. */
struct host {
	const char *name;
	int64_t reading_ms, measure_ms, build_ms;
};
static const struct host hosts[] = {
    {"quick", 10, 50, 20},
    {"usual", 300, 400, 100},
    {"slow", 2000, 1500, 200},
};

static void
desk_on(struct desk *d, const struct host *h)
{
	desk_open(d, two_to_six);
	desk_by_clock(d);
	d->reading_ns = h->reading_ms * MS;
	d->measure_ns = h->measure_ms * MS;
	d->build_ns = h->build_ms * MS;
	d->compile_ns = 2 * h->build_ms * MS; /* on two cores */
}

/* A tenth more, or three seconds, whichever is more. */
static int64_t
most_of(int64_t budget_ns)
{
	return MAX_OF(budget_ns / 10 * 11, budget_ns + 3 * SECOND);
}

/* "give at least 12 s" */
static int64_t
advice_of(struct str stop)
{
	const char *at = memmem(stop.p, stop.n, "give at least ", 14);
	int64_t n;
	struct str rest;

	if (!at)
		return 0;
	rest = (struct str){at + 14, stop.n - (size_t)(at + 14 - stop.p)};
	return str_to_i64(str_cut(&rest, ' '), &n) ? n : 0;
}

/* Whatever the host, a job takes its budget and hardly more.  Where that leaves nothing for measuring, it
 * says so, and with the budget that it asks for it measures. */
static void
budgets_hold(void **state)
{
	static const int64_t seconds[] = {1, 3, 10, 20, 60};

	(void)state;
	for (size_t h = 0; h < COUNT_OF(hosts); h++)
		for (size_t i = 0; i < COUNT_OF(seconds); i++) {
			struct desk d;
			struct plan plan;
			struct m_progress p;
			int64_t advice;

			desk_on(&d, &hosts[h]);
			p = desk_job(&d, seconds[i] * SECOND, false, &plan);
			advice = advice_of(p.stop);
			if ((advice == 0) != (d.n_measured > 0))
				fail_msg("%s, %d s: measured %u and says '%.*s'", hosts[h].name,
				    (int)seconds[i], d.n_measured, STR_ARG(p.stop));
			if (!advice && d.took_ns > most_of(seconds[i] * SECOND))
				fail_msg("%s, %d s: took %.1f s", hosts[h].name, (int)seconds[i],
				    (double)d.took_ns * 1e-9);
			if (advice) {
				assert_true(advice > seconds[i] && d.n_measured == 0);
				p = desk_job(&d, advice * SECOND, false, &plan);
				if (advice_of(p.stop) || d.n_measured == 0)
					fail_msg("%s: the advised %d s measure %u: %.*s", hosts[h].name,
					    (int)advice, d.n_measured, STR_ARG(p.stop));
				if (d.took_ns > most_of(advice * SECOND))
					fail_msg("%s: the advised %d s took %.1f s", hosts[h].name,
					    (int)advice, (double)d.took_ns * 1e-9);
			}
			desk_close(&d);
		}
}

/* A worker that gives nothing back is not waited for: neither for measurements nor for whole plans' times. */
static void
nobody_is_waited_for(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;

	(void)state;
	desk_on(&d, &hosts[1]);
	d.never_measures = true;
	p = desk_job(&d, 20 * SECOND, false, &plan);
	assert_true(d.n_measured == 0 && d.took_ns <= most_of(20 * SECOND));
	assert_true(str_starts(p.stop, "the budget of 20 s was over before anything was measured"));
	d.never_measures = false;
	d.never_times = true;
	p = desk_job(&d, 60 * SECOND, false, &plan);
	assert_true(d.n_measured > 0 && d.took_ns <= most_of(60 * SECOND));
	assert_int_equal(p.measured_ns, 0);
	desk_close(&d);
}

/* What its budget ended goes on when it is submitted again, from what is known, and says what was spent
 * before; what ended by itself is its own answer. */
static void
goes_on(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;
	double spent = 0;
	int rounds = 0;

	(void)state;
	desk_on(&d, &hosts[1]);
	for (;; rounds++) {
		uint32_t n_before = rounds ? d.n_measured : 0;

		p = desk_job(&d, 20 * SECOND, false, &plan);
		if (rounds) {
			assert_true(d.said_spent > spent - 0.1 && d.said_spent < spent + 0.1);
			assert_true(p.spent_before > spent - 0.1 && p.cached >= n_before);
		}
		assert_true(d.took_ns <= most_of(20 * SECOND) && !d.is_again);
		spent += (double)d.took_ns * 1e-9;
		if (!d.end.is_cut)
			break;
		assert_true(str_starts(p.stop, "the budget is over; the same command goes on"));
		assert_true(d.n_measured > 0 && rounds < 100);
	}
	assert_true(rounds >= 2);
	p = desk_job(&d, 20 * SECOND, false, &plan);
	assert_true(d.is_again && d.n_asks == 0 && d.n_measured == 0 && d.said_spent == 0);
	desk_close(&d);
}

/* Answers that come when the choice stands are for the next job: each kernel of the plan has the schedule
 * that its cost is of. */
static void
late_answers_change_no_plan(void **state)
{
	struct desk d;
	struct plan plan;
	uint32_t n_guessed = 0;

	(void)state;
	desk_on(&d, &hosts[1]);
	d.max_late = 1000;
	(void)desk_job(&d, 10 * SECOND, false, &plan);
	for (uint32_t i = 0; i < plan.n_kernels; i++) {
		const struct plan_kernel *k = &plan.kernels[i];
		struct known *x = desk_look_up(&d, k->spec);

		n_guessed += !k->is_measured;
		if (k->is_measured) {
			assert_int_equal(k->cost_ns, x->cost.median_ns);
			assert_true(str_eq(k->schedule, x->cost.schedule));
		}
	}
	assert_true(n_guessed > 0 && n_guessed < plan.n_kernels);
	desk_close(&d);
}

/* What looks best for it where nothing was measured. */
static struct str
form_of(struct desk *d, struct str text)
{
	struct target t = target_avx2;
	struct spec s;
	struct err e = {0};

	t.winograd = true;
	if (!spec_read(&d->a, text, &s, &e))
		fail_msg("%s", e.msg);
	return space_guess(&d->a, &s, &t);
}

/* Was one measured that computes the same with other extents: in the same form, or in another? */
static bool
has_kin(struct desk *d, struct str text, bool is_alike)
{
	struct known *x = desk_look_up(d, text);

	for (uint32_t i = 0; i < d->n; i++)
		if (d->known[i].is_measured && hash_eq(&d->known[i].structure, &x->structure) &&
		    str_eq(form_of(d, d->known[i].text), form_of(d, text)) == is_alike)
			return true;
	return false;
}

/* As if another model's job had measured them, and this one had never been there: what computes the same as a
 * kernel of the plan with other extents, in another form. */
static void
measure_the_strange(struct desk *d, const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->n_kernels; i++) {
		struct str text = plan->kernels[i].spec;
		const struct known *x = desk_look_up(d, text);

		for (uint32_t q = 0; q < d->n; q++)
			if (hash_eq(&d->known[q].structure, &x->structure) &&
			    !str_eq(form_of(d, d->known[q].text), form_of(d, text)))
				d->known[q].is_measured = true;
	}
	d->end_key = (struct hash){0};
}

/* Kernels that nobody had measured are built as what was measured of their kind and is done in the same form;
 * else in the form that looks best, whatever others of their structure liked: nine by nine without Winograd's
 * form says nothing of three by three. */
static void
guesses_follow_their_kin(void **state)
{
	uint32_t n_forms = 0, n_strange = 0;

	(void)state;
	for (int64_t budget = 1; budget < 8; budget++) {
		struct desk d;
		struct plan plan;

		desk_on(&d, &hosts[1]);
		d.never_times = true; /* the plan is the search's own */
		(void)desk_job(&d, SECOND, false, &plan);
		measure_the_strange(&d, &plan);
		(void)desk_job(&d, budget * SECOND, false, &plan);
		for (uint32_t i = 0; i < plan.n_kernels; i++) {
			const struct plan_kernel *k = &plan.kernels[i];
			struct str form = form_of(&d, k->spec);

			if (k->is_measured || has_kin(&d, k->spec, true))
				continue;
			n_forms += form.n > 0;
			n_strange += has_kin(&d, k->spec, false);
			if (!str_eq(k->schedule, form))
				fail_msg("%d s: '%.*s' where '%.*s' looks best", (int)budget,
				    STR_ARG(k->schedule), STR_ARG(form));
		}
		desk_close(&d);
	}
	assert_true(n_forms > 0 && n_strange > 0);
}

/* Timed whole, a plan of this search takes ten times what its kernels promised; that of before does not. */
static struct hash honest[64];
static uint32_t n_honest;

static int64_t
honest_or_ten_times(const struct hash *spec, int64_t first_ns)
{
	for (uint32_t i = 0; i < n_honest; i++)
		if (hash_eq(&honest[i], spec))
			return first_ns;
	return 10 * first_ns;
}

/* What was had before the search, or by an earlier job, stays where the new plan turns out slower as a whole.
 */
static void
no_worse_than_before(void **state)
{
	struct desk d;
	struct plan before, plan;
	struct m_progress p;

	(void)state;
	desk_on(&d, &hosts[0]);
	(void)desk_job(&d, 3 * SECOND, false, &before);
	assert_true(d.end.is_cut);
	n_honest = 0;
	for (uint32_t i = 0; i < before.n_kernels && n_honest < COUNT_OF(honest); i++)
		honest[n_honest++] = desk_look_up(&d, before.kernels[i].spec)->spec;
	d.truth = honest_or_ten_times;
	p = desk_job(&d, 60 * SECOND, false, &plan);
	assert_true(d.n_timed >= 2);
	assert_true(str_is(p.winner, "what an earlier job ended with"));
	assert_int_equal(plan.n_kernels, before.n_kernels);
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		assert_true(str_eq(plan.kernels[i].spec, before.kernels[i].spec));
	desk_close(&d);
}

/* Where nothing new was found out and nothing could be timed, the plan of before stays, to the byte; and it
 * is said that nothing was measured. */
static void
guesses_replace_no_plan(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;
	struct hash before;
	uint64_t n_guessed;

	(void)state;
	desk_on(&d, &hosts[1]);
	d.never_times = true;
	p = desk_job(&d, 5 * SECOND, false, &plan);
	assert_true(p.guessed > 0 && d.n_measured > 0 && !advice_of(p.stop));
	before = d.end.plan;
	n_guessed = p.guessed;
	d.never_measures = true;
	p = desk_job(&d, 20 * SECOND, false, &plan);
	assert_true(d.is_again && hash_eq(&d.end.plan, &before) && d.n_measured == 0);
	assert_true(d.end.is_cut && p.guessed == n_guessed);
	assert_int_equal(advice_of(p.stop), 40);
	d.never_measures = false;
	for (int round = 0; d.is_again; round++) { /* a few kernels more change nothing either */
		p = desk_job(&d, 5 * SECOND, false, &plan);
		assert_true(d.is_again ? hash_eq(&d.end.plan, &before) : 2 * p.guessed <= n_guessed);
		assert_true(round < 100);
	}
	desk_close(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(budgets_hold),
	    cmocka_unit_test(nobody_is_waited_for), cmocka_unit_test(goes_on),
	    cmocka_unit_test(late_answers_change_no_plan), cmocka_unit_test(guesses_follow_their_kin),
	    cmocka_unit_test(no_worse_than_before), cmocka_unit_test(guesses_replace_no_plan)};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
