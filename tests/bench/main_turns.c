/* tests/bench/main_turns.c: whole plans as a search times them (worker/plan_times.c): each alone, then all
 * side by side.  What plans take must not depend on which others are timed with them.
 *
 *   bench-turns [--threads=N] [--rounds=N] PLAN PLAN...
 *
 * Of each plan the medians of the rounds in ms, and their ratio. */
#include "../../worker/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 15, MOST_PLANS = 8 };
static const int64_t budget_ns = 3000000000;

struct timing { /* of a plan, ms a round */
	double alone[MOST_ROUNDS], beside[MOST_ROUNDS];
};

static int
by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static double
median_of(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

static bool
time_all(struct measure_child *c, const struct calibration *cal, const char *const *paths, uint32_t n,
    double *ms[MOST_PLANS], struct err *e)
{
	struct arena tmp = {0};
	struct m_plan_timed t[MOST_PLANS];
	bool ok = measure_plans(c, &tmp, cal, paths, n, budget_ns * n, 1, t, e);

	for (uint32_t i = 0; ok && i < n; i++) {
		ok = t[i].fail == 0 || err_set(e, err_of_wire(t[i].fail), "%.*s", STR_ARG(t[i].cause));
		*ms[i] = (double)t[i].timing.median_ns * 1e-6;
	}
	arena_fini(&tmp);
	return ok;
}

static bool
run(struct measure_child *c, const char *const *paths, uint32_t n, int rounds, struct timing *t,
    struct err *e)
{
	struct calibration cal;

	if (!measure_calibrate(c, true, &cal, e))
		return false;
	for (int r = 0; r < rounds; r++) {
		double *ms[MOST_PLANS];

		for (uint32_t i = 0; i < n; i++) {
			double *one[MOST_PLANS] = {&t[i].alone[r]};

			ms[i] = &t[i].beside[r];
			if (!time_all(c, &cal, &paths[i], 1, one, e))
				return false;
		}
		if (!time_all(c, &cal, paths, n, ms, e))
			return false;
	}
	return true;
}

int
main(int argc, char **argv)
{
	struct measure_opts o = {.device = "cpu", .n_threads = 1};
	static struct timing t[MOST_PLANS];
	const char *paths[MOST_PLANS];
	struct measure_child *c = NULL;
	int rounds = 3;
	uint32_t n = 0;
	struct err e = {0};
	bool ok = true;

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--rounds=", 9) == 0)
			rounds = atoi(argv[i] + 9);
		else if (strncmp(argv[i], "--threads=", 10) == 0)
			o.n_threads = (uint32_t)atoi(argv[i] + 10);
		else if (n < MOST_PLANS && argv[i][0] != '-')
			paths[n++] = argv[i];
		else
			ok = false;
	}
	if (!ok || n < 2 || rounds < 1 || rounds > MOST_ROUNDS || o.n_threads < 1 || o.n_threads > 1024) {
		fprintf(stderr,
		    "usage: bench-turns [--threads=N] [--rounds=1..%d] PLAN PLAN... (at most %d)\n",
		    MOST_ROUNDS, MOST_PLANS);
		return 2;
	}
	ok = measure_open(&o, &c, &e) && run(c, paths, n, rounds, t, &e);
	measure_close(c);
	if (!ok) {
		fprintf(stderr, "bench-turns: %s\n", e.msg);
		return 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		double alone = median_of(t[i].alone, rounds), beside = median_of(t[i].beside, rounds);

		printf("%s: alone %.3f ms, beside %.3f ms, %.3f\n", paths[i], alone, beside, beside / alone);
	}
	return 0;
}
