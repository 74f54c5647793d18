/* tests/bench/main_program.c: the binary program of real models, alternatives included: candidates from
 * the front half of a job, costs from bounds and from made-up measurements (1 to 3 times the bound, the
 * same for equal specs), then the solver; plan and bound are checked without its code.
 *
 *   bench-program [--seed=N] [--data=FOLDER] [--lazy [--peaks]] [--text] MODEL.onnx...
 *
 * --lazy plays a job's search with --prove: specs enter at what is expected of them, then at their bounds;
 * what is chosen is "measured" at once, until all that is chosen is.  --text prints the program with its
 * costs.
 * --data: bounds by the calibration of a store's CPU (no daemon may hold the folder), and its best times for
 * costs; what it lacks is made up around what is expected.  --peaks: with it, bounds are those of peaks and
 * bandwidths alone, and all that is chosen is asked for at once. */
#include "../../daemon/identify/heat.h"
#include "../../daemon/orchestrate/lazy.h"
#include "../../daemon/plan/choice_check.h"
#include "../../daemon/plan/plan_make.h"
#include "../../daemon/planner/device.h"
#include "../../daemon/planner/front.h"
#include "../../kernels/cost/cost.h"
#include "../../kernels/cost/predict.h"
#include "../../kernels/predict/predict.h"
#include "../../schema/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_FILE = 1 << 30, MAX_LAZY = 10000, EFFORT = 4 /* as TUNE_EFFORT */ };

struct job {
	struct arena a;
	struct front f;
	struct program p;
	int64_t *bound, *expected, *truth; /* of a spec */
	uint64_t seed;
	bool by_peaks; /* bounds by peaks and bandwidths alone, and all that is chosen is asked for at once */
	bool is_foreseen;   /* a predictor knows the kernels */
	uint32_t n_made_up; /* of truth, where a store's were asked for */
};

/* What a store knows of its CPU: the environment, and the best time of each spec and heat. */
struct timed {
	struct hash spec;
	struct str heat;
	int64_t ns;
};
struct data {
	struct arena a;
	struct m_env env;
	struct predictor predictor;
	struct timed *v; /* by spec */
	uint32_t n, cap;
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

	for (uint32_t s = 0; s < c->n_specs; s++) {
		struct rng r = {hash64(c->specs[s].hash.b, 32, j->seed)};

		j->bound[s] = MAX_OF(cost_bound_ns(&c->specs[s], &hw_fastest, NULL), (int64_t)1);
		j->expected[s] = (int64_t)((double)j->bound[s] * 1.5) + 200;
		j->truth[s] = (int64_t)((double)j->bound[s] * (1 + 2 * rng_unit(&r) * rng_unit(&r))) + 200;
	}
}

/* ---- a store's costs ----------------------------------------------------------------------------- */
static bool
read_rows(struct data *d, struct db *db, struct err *e)
{
	struct hash after = {{0}};

	for (bool more = true; more;) {
		struct m_measurement *m;
		uint32_t n;

		if (!cache_list(db, &d->a, &after, STR("cpu"), 1000, &m, &n, &more, e))
			return false;
		for (uint32_t i = 0; i < n; i++) {
			after = m[i].spec;
			if (!m[i].is_best || m[i].row.fail || !str_eq(m[i].env, d->env.key) ||
			    m[i].threads != 1 || !str_is(m[i].precision, "f32"))
				continue;
			GROW(&d->a, d->v, d->n, d->cap);
			d->v[d->n++] = (struct timed){m[i].spec, m[i].heat, m[i].row.median_ns};
		}
		more = more && n;
	}
	return true;
}

static bool
read_data(const char *dir, struct data *d, struct err *e)
{
	struct store_conf conf = {.os = os_real(), .dir = dir};
	struct db *db;
	int64_t id;
	bool ok;

	if (!db_open(&db, &conf, e))
		return false;
	ok = env_of_class(db, &d->a, STR("cpu"), &id, &d->env, e) && read_rows(d, db, e) &&
	    predictor_read(&d->a, predictor_shipped(), &d->predictor, e);
	db_close(db);
	return ok;
}

static const double guess_off = 0.1; /* standard deviation of the logarithm */

static int64_t
time_of(const struct data *d, const struct hash *spec, struct str heat)
{
	uint32_t lo = 0, hi = d->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (hash_cmp(&d->v[mid].spec, spec) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < d->n && hash_eq(&d->v[lo].spec, spec); lo++)
		if (str_eq(d->v[lo].heat, heat))
			return d->v[lo].ns;
	return 0;
}

/* As costs_open() of daemon/planner/costs.c. */
static void
cost_of_data(struct job *j, const struct data *d, uint32_t s, const struct hw *hw, struct str heat)
{
	const struct target t = env_target(&d->env, false, true, PRECISION_F32);
	const struct spec *spec = &j->f.cands.specs[s];
	struct rng r = {hash64(spec->hash.b, 32, j->seed)};
	struct prediction p;
	struct arena tmp = {0};
	struct sample plain;
	double off = guess_off * sqrt(-2 * log(fmax(rng_unit(&r), 1e-9))) * cos(6.2831853 * rng_unit(&r)), ns;
	int64_t analytic = cost_analytic_ns(spec, hw, heat, NULL),
		bound = device_space_ns(spec, &t, hw, heat, EFFORT);

	sample_plain(&tmp, spec, &t, hw, heat, &plain);
	predict_kernel(&d->predictor, &plain, &p);
	arena_fini(&tmp);
	ns = (double)cost_work_ns(spec, hw, heat, NULL) * exp(p.is_far ? predict_usual : p.log_ratio);
	j->truth[s] = time_of(d, &spec->hash, heat);
	j->n_made_up += j->truth[s] == 0;
	if (j->truth[s] == 0)
		j->truth[s] = MAX_OF((int64_t)(ns * exp(off)), bound);
	j->bound[s] = MIN_OF(j->by_peaks ? analytic : bound, j->truth[s]);
	j->expected[s] = MAX_OF((int64_t)ns, j->bound[s]);
}

static void
costs_of_data(struct job *j, const struct data *d)
{
	const struct cand_set *c = &j->f.cands;
	const struct hw hw = env_hw(&d->env, 1, true);
	const struct heat_caches caches = {(size_t)hw.level_bytes[1], (size_t)hw.level_bytes[2], 1};
	struct str *heat = heats_decide(&j->a, &j->f.graph, c, &caches);

	j->is_foreseen = true;
	for (uint32_t s = 0; s < c->n_specs; s++) {
		if (s + c->n_views < c->n_specs)
			cost_of_data(j, d, s, &hw, heat[s]);
		else
			j->bound[s] = j->expected[s] = j->truth[s] = PLAN_VIEW_NS;
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
	bool is_proving; /* else specs enter at what is expected */
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
		    : x->is_proving                    ? j->bound[s]
						       : j->expected[s];
		if (cost[k] != BLP_NEVER && n > 1)
			cost[k] += (int64_t)((double)cost[k] * lean * (n - 1));
	}
	return cost;
}

/* What is measured first: the plan that is expected to be best, and where nothing foresees it one of nearly
 * one kernel per operator (wanted_incumbent() of daemon/planner/wanted.c). */
static bool
measure_first(struct job *j, struct lazy_run *x, struct err *e)
{
	struct blp_result r;
	int64_t *cost = kernel_costs(j, x, false, j->is_foreseen ? 0 : 4);

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
	    .measured_cost = x->best,
	    .expected = x->is_proving && !j->by_peaks ? j->expected : NULL};

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
	*done = want.done && x->is_proving;
	if (want.done ||
	    (!x->is_proving && x->best != BLP_NEVER && (double)x->choice.cost >= 0.99 * (double)x->best))
		x->is_proving = true;
	else
		measure(x, want.measure, want.n_measure);
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
	uint32_t n_views = j->f.cands.n_views, n_asked = j->f.cands.n_specs - n_views;
	bool done = false, ok;
	struct rusage u;

	for (uint32_t s = n_asked; s < j->f.cands.n_specs; s++)
		x.state[s] = LAZY_MEASURED; /* a view costs what it costs */
	ok = measure_first(j, &x, e);
	while (ok && !done && x.rounds < MAX_LAZY)
		ok = lazy_round(j, &x, &done, e);
	ok = ok && check(j, &x.choice, e);
	getrusage(RUSAGE_SELF, &u);
	if (ok)
		printf("  lazy: %u rounds, %.2f s solving (longest %.2f), %u of %u specs measured (%.1f %%), "
		       "cost "
		       "%lld bound %lld %s, peak %ld MiB\n",
		    x.rounds, x.seconds, x.most, x.n_measured, n_asked, 100.0 * x.n_measured / n_asked,
		    (long long)x.choice.cost, (long long)x.choice.bound, x.choice.proved ? "proved" : "gap",
		    u.ru_maxrss / 1024);
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
bench(const char *file, enum mode mode, uint64_t seed, const struct data *data, bool by_peaks, struct err *e)
{
	struct job j = {.seed = seed, .by_peaks = by_peaks};
	const struct dump none = {0};
	struct front_opts o = {.file = file, .mode = IDENTIFY_FULL, .tolerance = 1e-3, .dump = &none};
	struct bytes onnx;
	bool ok =
	    os_read_file(os_real(), &j.a, file, MAX_FILE, &onnx, e) && front_run(&j.a, onnx, &o, &j.f, e);

	if (ok) {
		program_make(&j.a, &j.f.graph, &j.f.cands, &j.p);
		j.bound = NEW_ARRAY(&j.a, int64_t, j.f.cands.n_specs);
		j.expected = NEW_ARRAY(&j.a, int64_t, j.f.cands.n_specs);
		j.truth = NEW_ARRAY(&j.a, int64_t, j.f.cands.n_specs);
		if (data)
			costs_of_data(&j, data);
		else
			make_up_costs(&j);
		if (mode != TEXT)
			printf("%s: %u nodes, %u classes, %u candidates, %u specs\n", file, j.f.graph.n_nodes,
			    j.p.blp.n_tensors, j.p.n_kernels, j.f.cands.n_specs);
		if (mode != TEXT && data)
			printf("  %u of the specs have no time in the store\n", j.n_made_up);
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
	struct data data = {.n = 0};
	const char *dir = NULL;
	uint64_t seed = 1;
	bool by_peaks = false;
	int n_models = 0;
	struct err e = {0};

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--lazy") == 0)
			mode = LAZY;
		else if (strcmp(argv[i], "--peaks") == 0)
			by_peaks = true;
		else if (strcmp(argv[i], "--text") == 0)
			mode = TEXT;
		else if (strncmp(argv[i], "--seed=", 7) == 0)
			seed = strtoull(argv[i] + 7, NULL, 10);
		else if (strncmp(argv[i], "--data=", 7) == 0) {
			dir = argv[i] + 7;
			if (!read_data(dir, &data, &e)) {
				fprintf(stderr, "bench-program: %s: %s\n", dir, e.msg);
				return 1;
			}
		} else if (n_models++, !bench(argv[i], mode, seed, dir ? &data : NULL, by_peaks, &e)) {
			fprintf(stderr, "bench-program: %s: %s\n", argv[i], e.msg);
			return 1;
		}
	}
	arena_fini(&data.a);
	if (n_models)
		return 0;
	fprintf(stderr,
	    "usage: bench-program [--seed=N] [--data=FOLDER] [--lazy [--peaks] | --text] MODEL.onnx...\n");
	return 2;
}
