/* tests/bench/main_program.c: the binary program of real models, alternatives included: candidates from
 * the front half of a job, costs from bounds and from made-up measurements (1 to 3 times the bound, the
 * same for equal specs), then the solver; plan and bound are checked without its code.
 *
 *   bench-program [--seed=N] [--lazy] [--text] MODEL.onnx...
 *
 * --lazy plays a job's search: specs enter at their bounds, what is chosen is "measured" (by made-up
 * costs) at once, until all that is chosen is.  --text prints the program with its made-up costs. */
#include "../../daemon/orchestrate/lazy.h"
#include "../../daemon/orchestrate/plan_make.h"
#include "../../daemon/planner/front.h"
#include "../../kernels/cost/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_FILE = 1 << 30, MAX_LAZY = 10000 };

struct job {
	struct arena a;
	struct front f;
	struct program p;
	int64_t *bound, *truth; /* of a spec */
	uint64_t seed;
};

static double
seconds(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static void
make_up_costs(struct job *j)
{
	const struct cand_set *c = &j->f.cands;

	j->bound = NEW_ARRAY(&j->a, int64_t, c->n_specs);
	j->truth = NEW_ARRAY(&j->a, int64_t, c->n_specs);
	for (uint32_t s = 0; s < c->n_specs; s++) {
		struct cost_parts parts;
		struct rng r = {hash64(c->specs[s].hash.b, 32, j->seed)};

		j->bound[s] = MAX_OF(cost_bound_ns(&c->specs[s], &hw_fastest, &parts), (int64_t)1);
		j->truth[s] = (int64_t)((double)j->bound[s] * (1 + 2 * rng_unit(&r) * rng_unit(&r))) + 200;
	}
}

static bool
check(struct job *j, const struct blp_result *r, struct err *e)
{
	double bound;

	return blp_check_order(&j->p.blp, r->chosen, r->n_chosen, e) &&
	    blp_check_bound(&j->p.blp, r->rows, r->n_rows, &bound, e);
}

static bool
solve(struct job *j, const int64_t *spec_cost, const char *what, struct err *e)
{
	struct blp_result r;
	double t = seconds();

	program_set_costs(&j->p, spec_cost);
	if (!blp_solve(&j->a, &j->p.blp, NULL, 0, NULL, &r, e))
		return false;
	t = seconds() - t;
	printf(
	    "  %-12s %8.3f s  cost %lld bound %lld %s  LP %.1f  kernels %u  states %llu  columns %u rows %u "
	    "branches %u\n",
	    what, t, (long long)r.cost, (long long)r.bound, r.proved ? "proved" : "gap", r.pi, r.n_chosen,
	    (unsigned long long)r.n_states, r.n_columns, r.n_rows_made, r.n_branches);
	fflush(stdout);
	return check(j, &r, e);
}

/* ---- a search without a farm ------------------------------------------------------------------ */
struct lazy_run {
	struct blp_state *solver;
	enum lazy_state *state; /* of a spec */
	struct arena arena;     /* of choice */
	struct blp_result choice;
	uint32_t *plan, n_plan; /* the best of measured kernels */
	int64_t best;
	double seconds, most; /* of solving: in all, and the longest */
	uint32_t rounds, n_measured;
};

/* As limit_solver() of daemon/planner/search.c. */
static const struct blp_limits between = {.beam_width = 100, .max_rounds = 10, .max_states = 300000};

static void
measure(struct lazy_run *x, const uint32_t *specs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (x->state[specs[i]] == LAZY_OPEN) {
			x->state[specs[i]] = LAZY_MEASURED;
			x->n_measured++;
		}
}

/* Per kernel: what is measured, else the bound (NEVER where only measured ones may take part), with
 * `lean` of it more for each member above the first. */
static int64_t *
kernel_costs(struct job *j, const struct lazy_run *x, bool is_measured_only, double lean)
{
	int64_t *cost = NEW_ARRAY(&j->a, int64_t, j->p.n_kernels);

	for (uint32_t k = 0; k < j->p.n_kernels; k++) {
		uint32_t s = j->p.spec_of[k], n = 0;

		BITSET_EACH(i, &j->f.cands.cands[k].members)
		n += !node_is_view(&j->f.graph, &j->f.graph.nodes[i]);
		cost[k] = x->state[s] == LAZY_MEASURED ? j->truth[s]
		    : is_measured_only                 ? BLP_NEVER
						       : j->bound[s];
		if (cost[k] != BLP_NEVER && n > 1)
			cost[k] += (int64_t)((double)cost[k] * lean * (n - 1));
	}
	return cost;
}

/* The plan of nearly one kernel per operator is measured first. */
static bool
measure_first(struct job *j, struct lazy_run *x, struct err *e)
{
	struct blp_result r;
	int64_t *cost = kernel_costs(j, x, false, 4);

	if (!blp_solve_again(&j->a, x->solver, cost, NULL, 0, &r, e))
		return false;
	for (uint32_t i = 0; i < r.n_chosen; i++)
		measure(x, &j->p.spec_of[r.chosen[i]], 1);
	return true;
}

static bool
solve_optimistic(struct job *j, struct lazy_run *x, struct err *e)
{
	struct arena old = x->arena;
	int64_t *cost = kernel_costs(j, x, false, 0);
	double t = seconds();
	bool ok;

	for (uint32_t k = 0; k < j->p.n_kernels; k++)
		j->p.kernels[k].cost = cost[k];
	x->arena = (struct arena){0};
	ok = blp_solve_again(&x->arena, x->solver, cost, x->choice.chosen, x->choice.n_chosen, &x->choice, e);
	arena_fini(&old);
	x->most = MAX_OF(x->most, seconds() - t);
	return ok;
}

static void
note_measured_plan(struct job *j, struct lazy_run *x)
{
	struct err none = {0};
	struct blp_result r;
	int64_t *cost = kernel_costs(j, x, true, 0);

	if (!blp_plan_again(&j->a, x->solver, cost, x->plan, x->n_plan, &r, &none))
		return;
	x->best = r.cost;
	x->n_plan = r.n_chosen;
	memcpy(x->plan, r.chosen, sizeof(*r.chosen) * r.n_chosen);
}

static struct lazy_out
next_wanted(struct job *j, struct lazy_run *x)
{
	struct lazy_out out;
	struct lazy_in in = {.blp = &j->p.blp,
	    .choice = &x->choice,
	    .spec_of = j->p.spec_of,
	    .state = x->state,
	    .n_specs = j->f.cands.n_specs,
	    .measured_cost = x->best};

	lazy_next(&j->a, &in, &out);
	return out;
}

static bool
lazy_round(struct job *j, struct lazy_run *x, bool *done, struct err *e)
{
	struct arena_mark mark = arena_mark(&j->a);
	struct lazy_out want;
	double t = seconds();

	x->rounds++;
	if (!solve_optimistic(j, x, e))
		return false;
	note_measured_plan(j, x);
	want = next_wanted(j, x);
	if (want.done && !x->choice.proved) {
		blp_state_limit(x->solver, NULL);
		if (!solve_optimistic(j, x, e))
			return false;
		blp_state_limit(x->solver, &between);
		want = next_wanted(j, x);
	}
	x->seconds += seconds() - t;
	measure(x, want.measure, want.n_measure);
	*done = want.done;
	if (getenv("LAZY_TRACE"))
		printf("    %3u: %.3f s, cost %lld bound %lld measured plan %lld, %u chosen open of %u, rows "
		       "%u columns %u measured %u useless %u\n",
		    x->rounds, seconds() - t, (long long)x->choice.cost, (long long)x->choice.bound,
		    (long long)x->best, want.n_chosen_open, x->choice.n_chosen, x->choice.n_rows_made,
		    x->choice.n_columns, x->n_measured, want.n_useless);
	arena_reset(&j->a, mark);
	return true;
}

static bool
play(struct job *j, struct err *e)
{
	struct lazy_run x = {.solver = blp_state_new(&j->p.blp, &between),
	    .state = NEW_ARRAY(&j->a, enum lazy_state, j->f.cands.n_specs),
	    .plan = NEW_ARRAY(&j->a, uint32_t, j->p.n_kernels),
	    .best = BLP_NEVER};
	bool done = false, ok = measure_first(j, &x, e);
	struct rusage u;

	while (ok && !done && x.rounds < MAX_LAZY)
		ok = lazy_round(j, &x, &done, e);
	ok = ok && check(j, &x.choice, e);
	getrusage(RUSAGE_SELF, &u);
	if (ok)
		printf("  lazy: %u rounds, %.2f s solving (longest %.2f), %u of %u specs measured (%.1f %%), "
		       "cost "
		       "%lld bound %lld %s, peak %ld MiB\n",
		    x.rounds, x.seconds, x.most, x.n_measured, j->f.cands.n_specs,
		    100.0 * x.n_measured / j->f.cands.n_specs, (long long)x.choice.cost,
		    (long long)x.choice.bound, x.choice.proved ? "proved" : "gap", u.ru_maxrss / 1024);
	fflush(stdout);
	blp_state_free(x.solver);
	arena_fini(&x.arena);
	return ok;
}

/* ---- models ------------------------------------------------------------------------------------- */
enum mode { SOLVE, LAZY, TEXT };

static bool
print_program(struct job *j)
{
	struct strbuf sb;

	program_set_costs(&j->p, j->truth);
	sb_init(&sb, &j->a);
	blp_print(&sb, &j->p.blp);
	return fwrite(sb.p, 1, sb.n, stdout) == sb.n;
}

static bool
bench(const char *file, enum mode mode, uint64_t seed, struct err *e)
{
	struct job j = {.seed = seed};
	struct front_opts o = {.file = file, .mode = IDENTIFY_FULL, .tolerance = 1e-3};
	struct bytes onnx;
	bool ok =
	    os_read_file(os_real(), &j.a, file, MAX_FILE, &onnx, e) && front_run(&j.a, onnx, &o, &j.f, e);

	if (ok) {
		program_make(&j.a, &j.f.graph, &j.f.cands, &j.p);
		make_up_costs(&j);
		if (mode != TEXT)
			printf("%s: %u nodes, %u classes, %u candidates, %u specs\n", file, j.f.graph.n_nodes,
			    j.p.blp.n_tensors, j.p.n_kernels, j.f.cands.n_specs);
		if (mode == SOLVE)
			ok = solve(&j, j.bound, "bounds", e) && solve(&j, j.truth, "measurements", e);
		else
			ok = mode == LAZY ? play(&j, e) : print_program(&j);
	}
	arena_fini(&j.a);
	return ok;
}

int
main(int argc, char **argv)
{
	enum mode mode = SOLVE;
	uint64_t seed = 1;
	int n_models = 0;

	for (int i = 1; i < argc; i++) {
		struct err e = {0};

		if (strcmp(argv[i], "--lazy") == 0)
			mode = LAZY;
		else if (strcmp(argv[i], "--text") == 0)
			mode = TEXT;
		else if (strncmp(argv[i], "--seed=", 7) == 0)
			seed = strtoull(argv[i] + 7, NULL, 10);
		else if (n_models++, !bench(argv[i], mode, seed, &e)) {
			fprintf(stderr, "bench-program: %s: %s\n", argv[i], e.msg);
			return 1;
		}
	}
	if (n_models)
		return 0;
	fprintf(stderr, "usage: bench-program [--seed=N] [--lazy | --text] MODEL.onnx...\n");
	return 2;
}
