/* tests/bench/main_program.c: the binary program of real models, alternatives included: candidates from
 * the front half of a job, costs from bounds and from made-up measurements (1 to 3 times the bound, the
 * same for equal specs), then the solver; plan and bound are checked without its code.
 *
 *   bench-program MODEL.onnx... */
#include "../../daemon/orchestrate/plan_make.h"
#include "../../daemon/planner/front.h"
#include "../../kernels/cost/cost.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_FILE = 1 << 30 };

static double
seconds(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static void
set_costs(struct arena *a, struct front *f, struct program *p, bool is_measured)
{
	int64_t *cost = NEW_ARRAY(a, int64_t, f->cands.n_specs);

	for (uint32_t s = 0; s < f->cands.n_specs; s++) {
		struct cost_parts parts;
		struct rng r = {hash64(f->cands.specs[s].hash.b, 32, 1)};

		cost[s] = cost_bound_ns(&f->cands.specs[s], &hw_fastest, &parts);
		if (is_measured)
			cost[s] = (int64_t)((double)cost[s] * (1 + 2 * rng_unit(&r) * rng_unit(&r))) + 200;
	}
	program_set_costs(p, cost);
}

static bool
solve(struct arena *a, const struct program *p, const char *what, struct err *e)
{
	struct blp_result r;
	double t = seconds(), bound;

	if (!blp_solve(a, &p->blp, NULL, 0, NULL, &r, e))
		return false;
	t = seconds() - t;
	printf(
	    "  %-12s %8.3f s  cost %lld bound %lld %s  LP %.1f  kernels %u  states %llu  columns %u rows %u "
	    "branches %u\n",
	    what, t, (long long)r.cost, (long long)r.bound, r.proved ? "proved" : "gap", r.pi, r.n_chosen,
	    (unsigned long long)r.n_states, r.n_columns, r.n_rows_made, r.n_branches);
	fflush(stdout);
	return blp_check_order(&p->blp, r.chosen, r.n_chosen, e) &&
	       blp_check_bound(&p->blp, r.rows, r.n_rows, &bound, e);
}

static bool
bench(const char *file, struct err *e)
{
	struct arena a = {0};
	struct front_opts o = {.file = file, .mode = IDENTIFY_FULL, .tolerance = 1e-3};
	struct front f;
	struct program p;
	struct bytes onnx;
	bool ok = os_read_file(os_real(), &a, file, MAX_FILE, &onnx, e) && front_run(&a, onnx, &o, &f, e);

	if (ok) {
		program_make(&a, &f.graph, &f.cands, &p);
		printf("%s: %u nodes, %u classes, %u candidates, %u specs\n", file, f.graph.n_nodes,
		    p.blp.n_tensors, p.n_kernels, f.cands.n_specs);
		set_costs(&a, &f, &p, false);
		ok = solve(&a, &p, "bounds", e);
		set_costs(&a, &f, &p, true);
		ok = ok && solve(&a, &p, "measurements", e);
	}
	arena_fini(&a);
	return ok;
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct err e = {0};

		if (!bench(argv[i], &e)) {
			fprintf(stderr, "bench-program: %s: %s\n", argv[i], e.msg);
			return 1;
		}
	}
	return 0;
}
