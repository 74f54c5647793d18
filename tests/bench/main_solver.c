/* tests/bench/main_solver.c: the binary program's solver on instance files: value of the covering
 * program, optimum, seconds of CPU, states.  bench-solver FILE... (text form; see tests/solver) */
#include "../../daemon/orchestrate/blp.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_FILE = 1 << 28, N_AGAIN = 5 };

static double
cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long
peak_mib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss / 1024;
}

/* Mean seconds of solving again after one kernel in fifty rose by up to a half. */
static bool
time_again(struct arena *a, const struct blp *p, double *seconds, struct err *e)
{
	struct blp_state *s = blp_state_new(p, NULL);
	int64_t *cost = NEW_ARRAY(a, int64_t, p->n_kernels);
	struct rng r = {1};
	bool ok = true;

	*seconds = 0;
	for (uint32_t k = 0; k < p->n_kernels; k++)
		cost[k] = p->kernels[k].cost;
	for (int i = 0; i <= N_AGAIN && ok; i++) {
		struct blp_result out;
		double t = cpu_seconds();

		ok = blp_solve_again(a, s, cost, NULL, 0, &out, e);
		*seconds += i ? (cpu_seconds() - t) / N_AGAIN : 0;
		for (uint32_t k = 0; k < p->n_kernels; k++)
			if (rng_below(&r, 50) == 0)
				cost[k] += cost[k] * (int64_t)rng_below(&r, 50) / 100;
	}
	blp_state_free(s);
	return ok;
}

static bool
bench(const char *path, struct err *e)
{
	struct arena a = {0};
	struct bytes text;
	struct blp p;
	struct blp_result r;
	const char *name = strrchr(path, '/');
	double t, again;

	if (!os_read_file(os_real(), &a, path, MAX_FILE, &text, e) ||
	    !blp_read(&a, (struct str){(const char *)text.p, text.n}, &p, e))
		return false;
	t = cpu_seconds();
	if (!blp_solve(&a, &p, NULL, 0, NULL, &r, e))
		return false;
	t = cpu_seconds() - t;
	if (!time_again(&a, &p, &again, e))
		return false;
	printf("| %s | %u | %u | %.1f | %lld | %s | %.3f | %.3f | %llu | %llu | %ld |\n",
	    name ? name + 1 : path, p.n_tensors, p.n_kernels, r.pi, (long long)r.cost,
	    r.proved ? "proved" : "gap", t, again, (unsigned long long)r.n_states,
	    (unsigned long long)r.n_simplex, peak_mib());
	fflush(stdout);
	arena_fini(&a);
	return true;
}

int
main(int argc, char **argv)
{
	struct err e = {0};

	printf("| instance | tensors | candidates | LP ns | cost ns | | s | s again | states | simplex steps "
	       "| peak MiB |\n"
	       "|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (int i = 1; i < argc; i++)
		if (!bench(argv[i], &e)) {
			fprintf(stderr, "bench-solver: %s: %s\n", argv[i], e.msg);
			return 1;
		}
	return 0;
}
