/* tests/prop/blp_test.c: the binary program's solver against exhaustive search over sets of tensors and
 * against lp_solve on the plain form, on random programs: kernels cut from graphs with alternatives
 * (several outputs, any exports, circular waiting among them), and kernels of no graph at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../daemon/orchestrate/blp.h"
#include "../../daemon/plan/choice_check.h"

enum { N_GRAPHS = 1000, N_FREE = 600, N_DIRECT = 150, N_AGAIN = 60, MAX_TENSORS = 12, MAX_NODES = 16 };

/* ---- the truth ---------------------------------------------------------------------------- */
static uint32_t
mask_of(const uint32_t *v, uint32_t n)
{
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++)
		m |= 1u << v[i];
	return m;
}

/* The least cost of every set of tensors that can be made, by running kernels one at a time; sets only
 * grow, so ascending masks are an order.  BLP_NEVER when what is wanted cannot be made. */
static int64_t
exhaustive(const struct blp *p, const int64_t *cost)
{
	uint32_t n_sets = 1u << p->n_tensors, wanted = mask_of(p->wanted, p->n_wanted);
	int64_t *best = malloc(sizeof(*best) * n_sets), least = BLP_NEVER;

	for (uint32_t s = 0; s < n_sets; s++)
		best[s] = BLP_NEVER;
	best[mask_of(p->given, p->n_given)] = 0;
	for (uint32_t s = 0; s < n_sets; s++) {
		if (best[s] == BLP_NEVER)
			continue;
		if ((wanted & ~s) == 0 && best[s] < least)
			least = best[s];
		for (uint32_t k = 0; k < p->n_kernels; k++) {
			uint32_t to = s | mask_of(p->kernels[k].out, p->kernels[k].n_out);

			if (cost[k] == BLP_NEVER || (mask_of(p->kernels[k].in, p->kernels[k].n_in) & ~s))
				continue;
			if (best[s] + cost[k] < best[to])
				best[to] = best[s] + cost[k];
		}
	}
	free(best);
	return least;
}

/* ---- random programs ------------------------------------------------------------------------ */
struct maker {
	struct arena *a;
	struct rng *r;
	struct blp p;
	struct blp_kernel *kernels;
	struct blp_node *nodes;
	uint32_t *given, *wanted, cap_kernels, cap_nodes;
};

static uint32_t *
list_of(struct arena *a, uint32_t mask, uint32_t *n)
{
	uint32_t *v = NEW_ARRAY(a, uint32_t, 32);

	*n = 0;
	for (uint32_t t = 0; t < 32; t++)
		if (mask >> t & 1)
			v[(*n)++] = t;
	return v;
}

static void
add_kernel(struct maker *m, uint32_t in, uint32_t out, int64_t cost)
{
	struct blp_kernel k = {.cost = cost};

	if (!out)
		return;
	k.in = list_of(m->a, in, &k.n_in);
	k.out = list_of(m->a, out, &k.n_out);
	GROW(m->a, m->kernels, m->p.n_kernels, m->cap_kernels);
	m->kernels[m->p.n_kernels++] = k;
	m->p.kernels = m->kernels;
}

static void
add_node(struct maker *m, uint32_t t, uint32_t in)
{
	struct blp_node n = {.tensor = t};

	n.in = list_of(m->a, in, &n.n_in);
	GROW(m->a, m->nodes, m->p.n_nodes, m->cap_nodes);
	m->nodes[m->p.n_nodes++] = n;
	m->p.nodes = m->nodes;
}

static uint32_t
random_subset(struct rng *r, uint32_t mask, uint32_t per_cent)
{
	uint32_t s = 0;

	for (uint32_t t = 0; t < 32; t++)
		if ((mask >> t & 1) && rng_below(r, 100) < per_cent)
			s |= 1u << t;
	return s;
}

/* A kernel of the nodes in `members`: what they read from outside, some of what they make. */
static void
cut_kernel(struct maker *m, uint32_t members)
{
	uint32_t made = 0, read = 0, n = 0, n_before = 0, exports;

	for (uint32_t i = 0; i < m->p.n_nodes; i++)
		if (members >> i & 1) {
			if (made >> m->nodes[i].tensor & 1)
				return; /* two producers of one tensor */
			made |= 1u << m->nodes[i].tensor;
			read |= mask_of(m->nodes[i].in, m->nodes[i].n_in);
			n++;
		}
	exports = random_subset(m->r, made, 60);
	/* The last member always shows: else it would have no use. */
	for (uint32_t i = 0; i < m->p.n_nodes; i++)
		if (members >> i & 1)
			n_before = m->nodes[i].tensor;
	exports |= 1u << n_before;
	add_kernel(m, read & ~made, exports, 3 + (int64_t)rng_below(m->r, 4 + 4 * n));
}

/* Nodes of a graph, some tensors with two producers; every single node and many sets are kernels. */
static void
from_graph(struct maker *m)
{
	uint32_t n = 4 + rng_below(m->r, 6), sinks;

	m->p.n_tensors = n;
	for (uint32_t t = 1; t < n; t++) {
		uint32_t all = (1u << t) - 1, n_makers = 1 + (rng_below(m->r, 4) == 0);

		for (uint32_t i = 0; i < n_makers && m->p.n_nodes < MAX_NODES; i++)
			add_node(m, t, random_subset(m->r, all & (all << (t > 4 ? t - 4 : 0)), 45));
	}
	sinks = (1u << n) - 2;
	for (uint32_t i = 0; i < m->p.n_nodes; i++) {
		sinks &= ~mask_of(m->nodes[i].in, m->nodes[i].n_in);
		cut_kernel(m, 1u << i);
		/* Alone it must show what it makes. */
	}
	for (uint32_t i = 0; i < 60; i++)
		cut_kernel(m, random_subset(m->r, (1u << m->p.n_nodes) - 1, 20 + 10 * (i % 4)));
	m->given = list_of(m->a, 1, &m->p.n_given);
	m->wanted = list_of(m->a, sinks | random_subset(m->r, (1u << n) - 2, 10), &m->p.n_wanted);
}

/* Kernels that read and make anything; what is wanted may be out of reach. */
static void
from_nothing(struct maker *m)
{
	uint32_t n = 3 + rng_below(m->r, 7), all = (1u << n) - 1;

	m->p.n_tensors = n;
	for (uint32_t i = 0; i < 8 + rng_below(m->r, 30); i++) {
		uint32_t out = 1u << rng_below(m->r, n) | random_subset(m->r, all, 12);

		add_kernel(m, random_subset(m->r, all, 20), out, 1 + (int64_t)rng_below(m->r, 20));
	}
	m->given = list_of(m->a, random_subset(m->r, all, 15), &m->p.n_given);
	m->wanted = list_of(m->a, 1u << rng_below(m->r, n) | random_subset(m->r, all, 15), &m->p.n_wanted);
}

static struct blp
random_program(struct arena *a, struct rng *r, bool is_graph)
{
	struct maker m = {.a = a, .r = r};

	if (is_graph)
		from_graph(&m);
	else
		from_nothing(&m);
	m.p.given = m.given;
	m.p.wanted = m.wanted;
	/* Hints are hints: none, and wrong ones, must do. */
	if (rng_below(r, 4) == 0)
		m.p.n_nodes = 0;
	for (uint32_t i = 0; i < m.p.n_nodes && rng_below(r, 8) == 0; i++)
		m.nodes[i].tensor = rng_below(r, m.p.n_tensors);
	return m.p;
}

static int64_t *
costs_of(struct arena *a, const struct blp *p)
{
	int64_t *c = NEW_ARRAY(a, int64_t, p->n_kernels);

	for (uint32_t k = 0; k < p->n_kernels; k++)
		c[k] = p->kernels[k].cost;
	return c;
}

/* ---- checks --------------------------------------------------------------------------------- */
static void
check_result(const struct blp *p, const struct blp_result *r, int64_t truth, uint64_t seed)
{
	struct err e = {0};
	double bound;
	int64_t sum = 0;

	for (uint32_t i = 0; i < r->n_chosen; i++)
		sum += p->kernels[r->chosen[i]].cost;
	if (!blp_check_order(p, r->chosen, r->n_chosen, &e) ||
	    !blp_check_bound(p, r->rows, r->n_rows, &bound, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	if (sum != r->cost || r->cost < truth || r->bound > truth || bound > (double)truth ||
	    (r->proved && r->cost != truth))
		fail_msg("seed %llu: cost %lld (sum %lld) bound %lld duals %.3f%s, the truth is %lld",
		    (unsigned long long)seed, (long long)r->cost, (long long)sum, (long long)r->bound, bound,
		    r->proved ? " proved" : "", (long long)truth);
	for (uint32_t k = 0; k < p->n_kernels; k++)
		if (r->reduced[k] < 0)
			fail_msg("seed %llu: kernel %u has the reduced cost %g", (unsigned long long)seed, k,
			    r->reduced[k]);
}

/* Without hints and without a round of separation, the rows of before give the bound of before; rows that do
 * not hold, put between them, change nothing. */
static void
solve_from_rows(
    struct arena *a, const struct blp *p, const struct blp_result *before, int64_t truth, uint64_t seed)
{
	struct blp q = *p;
	struct blp_row *rows = NEW_ARRAY(a, struct blp_row, 2 * (size_t)before->n_rows + 1);
	struct rng rng = {seed ^ 0xabcd};
	const struct blp_limits one_round = {.max_rounds = 1};
	struct blp_result r;
	struct err e = {0};

	q.n_nodes = q.n_rows = 0;
	q.rows = rows;
	for (uint32_t i = 0; i < before->n_rows; i++) {
		uint32_t *any = NEW_ARRAY(a, uint32_t, 2);

		any[0] = rng_below(&rng, p->n_kernels);
		any[1] = rng_below(&rng, p->n_kernels);
		rows[q.n_rows++] = (struct blp_row){any, 2, 0};
		rows[q.n_rows++] = before->rows[i];
	}
	if (!blp_solve(a, &q, NULL, 0, &one_round, &r, &e))
		fail_msg("seed %llu, from rows: %s", (unsigned long long)seed, e.msg);
	check_result(&q, &r, truth, seed);
	if (r.pi < before->pi - 0.01)
		fail_msg("seed %llu: the rows of before gave %.3f, and now %.3f", (unsigned long long)seed,
		    before->pi, r.pi);
}

static void
solve_and_check(
    uint64_t seed, bool is_graph, const struct blp_limits *lim, uint32_t *n_branched, uint32_t *n_none)
{
	struct arena a = {0};
	struct rng r = {seed};
	struct blp p = random_program(&a, &r, is_graph);
	struct blp_result out;
	struct err e = {0};
	int64_t truth = exhaustive(&p, costs_of(&a, &p));
	bool ok = blp_solve(&a, &p, NULL, 0, lim, &out, &e);

	if (!ok || truth == BLP_NEVER) {
		if (ok || truth != BLP_NEVER || e.code != ERR_MODEL)
			fail_msg("seed %llu: the truth is %lld, the solver says: %s",
			    (unsigned long long)seed, (long long)truth, ok ? "solved" : e.msg);
		(*n_none)++;
	} else {
		check_result(&p, &out, truth, seed);
		if (!lim->max_states && !out.proved)
			fail_msg("seed %llu: not proved", (unsigned long long)seed);
		*n_branched += out.n_branches > 1;
		solve_from_rows(&a, &p, &out, truth, seed);
	}
	arena_fini(&a);
}

static void
agrees_with_exhaustive_search_on_graphs(void **state)
{
	uint32_t n_branched = 0, n_none = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++)
		solve_and_check(seed, true, &(struct blp_limits){0}, &n_branched, &n_none);
	print_message("%d graphs, %u branched on circular waiting\n", N_GRAPHS, n_branched);
	assert_int_equal(n_none, 0);
	assert_true(n_branched > 0);
}

static void
agrees_with_exhaustive_search_on_free_kernels(void **state)
{
	uint32_t n_branched = 0, n_none = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_FREE; seed++)
		solve_and_check(seed * 31, false, &(struct blp_limits){0}, &n_branched, &n_none);
	print_message("%d programs, %u without a plan, %u branched\n", N_FREE, n_none, n_branched);
	assert_true(n_none > 0 && n_none < N_FREE / 2);
}

/* Without separation the search has to do it all. */
static void
agrees_with_coverage_rows_alone(void **state)
{
	uint32_t n_branched = 0, n_none = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS / 4; seed++)
		solve_and_check(seed, true, &(struct blp_limits){.max_rounds = 1}, &n_branched, &n_none);
	print_message("%u branched\n", n_branched);
}

/* Whatever the limits: a valid plan and a true bound, and 'proved' only where it is so. */
static void
limits_never_lie(void **state)
{
	uint32_t n_branched = 0, n_none = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS / 2; seed++) {
		struct blp_limits lim = {.beam_width = 1 + (uint32_t)seed % 3,
		    .max_states = 1 + seed % 40,
		    .max_rounds = 1 + (uint32_t)seed % 2};

		solve_and_check(seed, seed % 2, &lim, &n_branched, &n_none);
	}
}

enum { N_LAYERS = 40, N_MAKERS = 250, N_REACH = 12, N_READS = 4 };

/* Every tensor has many makers that cost nearly the same and read whatever came shortly before. */
static struct blp
many_makers(struct arena *a, struct rng *r)
{
	struct blp_kernel *k = NEW_ARRAY(a, struct blp_kernel, N_LAYERS * N_MAKERS);
	uint32_t *given = NEW_ARRAY(a, uint32_t, 1), *wanted = NEW_ARRAY(a, uint32_t, N_REACH), n = 0;

	for (uint32_t t = 1; t <= N_LAYERS; t++) {
		for (uint32_t m = 0; m < N_MAKERS; m++) {
			uint32_t reach = t < N_REACH ? t : N_REACH, *in = NEW_ARRAY(a, uint32_t, N_READS),
				 *out = NEW_ARRAY(a, uint32_t, 1);

			out[0] = t;
			k[n] = (struct blp_kernel){
			    .in = in, .out = out, .n_out = 1, .cost = 1000 + (int64_t)rng_below(r, 30)};
			for (uint32_t i = 0; i < N_READS; i++) {
				uint32_t u = t - 1 - (uint32_t)rng_below(r, reach), j = 0;

				while (j < k[n].n_in && in[j] != u)
					j++;
				in[j] = u;
				k[n].n_in = j == k[n].n_in ? j + 1 : k[n].n_in;
			}
			n++;
		}
	}
	for (uint32_t i = 0; i < N_REACH; i++)
		wanted[i] = N_LAYERS - 3 * i;
	return (struct blp){.n_tensors = N_LAYERS + 1,
	    .n_kernels = n,
	    .kernels = k,
	    .given = given,
	    .n_given = 1,
	    .wanted = wanted,
	    .n_wanted = N_REACH};
}

/* The limit bounds what is done, not only what is kept of it: a little more than 16 states made for each. */
static void
limits_bound_the_work(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		static const uint64_t max_states = 1000, slack = (uint64_t)256 * (N_MAKERS + 1);
		struct arena a = {0};
		struct rng r = {seed * 3};
		struct blp p = many_makers(&a, &r);
		struct blp_result out;
		struct err e = {0};

		if (!blp_solve(&a, &p, NULL, 0,
			&(struct blp_limits){.max_states = max_states, .max_rounds = 1}, &out, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		assert_true(blp_check_order(&p, out.chosen, out.n_chosen, &e) && !out.proved);
		if (out.n_made > 16 * max_states + slack)
			fail_msg("seed %llu: %llu states made where %llu may be kept",
			    (unsigned long long)seed, (unsigned long long)out.n_made,
			    (unsigned long long)max_states);
		assert_true(out.n_made > 8 * max_states); /* else this program says nothing */
		arena_fini(&a);
	}
}

static double
no_second(void *self)
{
	(void)self;
	return 0;
}

/* Nobody is asked while a linear program is solved: where no second is left it gets one step, and what is
 * said is true without its duals. */
static void
seconds_bound_the_linear_program(void **state)
{
	const struct blp_limits late = {.seconds_left = no_second};
	uint32_t n_branched = 0, n_none = 0;
	struct arena a = {0};
	struct rng r = {7};
	struct blp p = many_makers(&a, &r);
	struct blp_result out;
	struct err e = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++)
		solve_and_check(seed, true, &late, &n_branched, &n_none);
	if (!blp_solve(&a, &p, NULL, 0, &(struct blp_limits){.max_states = 1000}, &out, &e))
		fail_msg("%s", e.msg);
	assert_true(out.n_simplex > 10); /* else this program says nothing */
	if (!blp_solve(&a, &p, NULL, 0, &(struct blp_limits){.max_states = 1000, .seconds_left = no_second},
		&out, &e))
		fail_msg("%s", e.msg);
	assert_true(blp_check_order(&p, out.chosen, out.n_chosen, &e) && !out.proved);
	assert_true(out.n_simplex <= 1);
	arena_fini(&a);
}

static bool
always(void *self)
{
	(void)self;
	return true;
}

static void
a_cancelled_run_still_gives_a_plan(void **state)
{
	uint32_t n_branched = 0, n_none = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++)
		solve_and_check(seed, true, &(struct blp_limits){.stop = always, .max_states = 1000000},
		    &n_branched, &n_none);
}

static void
agrees_with_lp_solve_directly(void **state)
{
	uint32_t n_proved = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_DIRECT; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 7};
		struct blp p = random_program(&a, &r, true);
		struct blp_result out;
		struct err e = {0};
		int64_t direct;
		bool proved;

		if (!blp_solve(&a, &p, NULL, 0, NULL, &out, &e) ||
		    !blp_solve_direct(&a, &p, &direct, &proved, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		if (proved && direct != out.cost)
			fail_msg("seed %llu: lp_solve says %lld, we say %lld", (unsigned long long)seed,
			    (long long)direct, (long long)out.cost);
		n_proved += proved;
		arena_fini(&a);
	}
	print_message("lp_solve proved %u of %d\n", n_proved, N_DIRECT);
	assert_true(n_proved > N_DIRECT * 9 / 10);
}

/* The choice by lp_solve: it runs, it costs the same, and the duals are as good a bound of it. */
static void
lp_solve_chooses_as_well(void **state)
{
	uint32_t n_proved = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_DIRECT; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 11};
		struct blp p = random_program(&a, &r, true);
		const struct blp_limits by_lp_solve = {.solver = BLP_LP_SOLVE};
		struct blp_result ours, theirs;
		struct err e = {0};
		double bound;

		if (!blp_solve(&a, &p, NULL, 0, NULL, &ours, &e) ||
		    !blp_solve(&a, &p, NULL, 0, &by_lp_solve, &theirs, &e) ||
		    !blp_check_order(&p, theirs.chosen, theirs.n_chosen, &e) ||
		    !blp_check_bound(&p, theirs.rows, theirs.n_rows, &bound, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		assert_int_equal(theirs.solver, BLP_LP_SOLVE);
		assert_true(bound <= (double)theirs.cost);
		if (ours.proved && theirs.proved && ours.cost != theirs.cost)
			fail_msg("seed %llu: lp_solve chooses for %lld, we for %lld",
			    (unsigned long long)seed, (long long)theirs.cost, (long long)ours.cost);
		n_proved += ours.proved && theirs.proved;
		arena_fini(&a);
	}
	print_message("both proved %u of %d\n", n_proved, N_DIRECT);
	assert_true(n_proved > N_DIRECT * 9 / 10);
}

/* What is too large for lp_solve is refused in words that say what to do, and leaves nothing behind: the
 * same state goes on with the other solver. */
static void
too_large_for_lp_solve(void **state)
{
	struct arena a = {0};
	struct rng r = {5};
	struct blp p = random_program(&a, &r, true);
	const struct blp_limits little = {.solver = BLP_LP_SOLVE, .max_work = 1};
	struct blp_state *s = blp_state_new(&p, &little);
	int64_t *cost = costs_of(&a, &p);
	struct blp_result out;
	struct err e = {0};

	(void)state;
	assert_false(blp_solve_again(&a, s, cost, NULL, 0, &out, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_non_null(strstr(e.msg, "--solver clp"));
	e = (struct err){0};
	blp_state_limit(s, NULL);
	assert_true(blp_solve_again(&a, s, cost, NULL, 0, &out, &e) && out.proved);
	blp_state_free(s);
	arena_fini(&a);
}

/* Costs rise, as measurements replace bounds, and kernels fail: the kept state forgets nothing
 * that matters and remembers nothing that is wrong. */
static void
solving_again_equals_solving_afresh(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= N_AGAIN; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 13};
		struct blp p = random_program(&a, &r, true);
		struct blp_state *s = blp_state_new(&p, NULL);
		int64_t *cost = costs_of(&a, &p);
		struct blp_kernel *kernels = arena_dup(&a, p.kernels, sizeof(*kernels) * p.n_kernels);

		p.kernels = kernels;
		for (int round = 0; round < 24; round++) {
			struct blp_result out;
			struct err e = {0};
			int64_t truth = exhaustive(&p, cost);
			bool ok = blp_solve_again(&a, s, cost, NULL, 0, &out, &e);

			assert_int_equal(ok, truth != BLP_NEVER);
			if (ok) {
				check_result(&p, &out, truth, seed);
				if (!out.proved)
					fail_msg(
					    "seed %llu round %d: cost %lld bound %lld, the truth is %lld",
					    (unsigned long long)seed, round, (long long)out.cost,
					    (long long)out.bound, (long long)truth);
			}
			for (uint32_t k = 0; k < p.n_kernels; k++) {
				uint32_t what = rng_below(&r, 20);

				if (what == 0)
					cost[k] = BLP_NEVER;
				else if (what < 5)
					cost[k] = 1 + (int64_t)rng_below(&r, 30);
				kernels[k].cost = cost[k];
			}
		}
		blp_state_free(s);
		arena_fini(&a);
	}
}

/* Rows leave the linear program and come back as costs change: what that leaves behind depends on the
 * costs alone. */
static void
equal_chains_end_equal(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= N_AGAIN; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 17};
		struct blp p = random_program(&a, &r, true);
		struct blp_state *s[2] = {blp_state_new(&p, NULL), blp_state_new(&p, NULL)};
		int64_t *cost = costs_of(&a, &p);

		for (int round = 0; round < 20; round++) {
			struct blp_result out[2];
			struct err e = {0};

			for (int i = 0; i < 2; i++)
				assert_true(blp_solve_again(&a, s[i], cost, NULL, 0, &out[i], &e));
			assert_int_equal(out[0].n_chosen, out[1].n_chosen);
			assert_memory_equal(
			    out[0].chosen, out[1].chosen, sizeof(*out[0].chosen) * out[0].n_chosen);
			assert_memory_equal(&out[0].pi, &out[1].pi, sizeof(out[0].pi));
			assert_memory_equal(
			    out[0].reduced, out[1].reduced, sizeof(*out[0].reduced) * p.n_kernels);
			for (uint32_t k = 0; k < p.n_kernels; k++)
				if (rng_below(&r, 3) == 0)
					cost[k] = 1 + (int64_t)rng_below(&r, 40);
		}
		blp_state_free(s[0]);
		blp_state_free(s[1]);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_exhaustive_search_on_graphs),
	    cmocka_unit_test(agrees_with_exhaustive_search_on_free_kernels),
	    cmocka_unit_test(agrees_with_coverage_rows_alone),
	    cmocka_unit_test(limits_never_lie),
	    cmocka_unit_test(limits_bound_the_work),
	    cmocka_unit_test(seconds_bound_the_linear_program),
	    cmocka_unit_test(a_cancelled_run_still_gives_a_plan),
	    cmocka_unit_test(agrees_with_lp_solve_directly),
	    cmocka_unit_test(lp_solve_chooses_as_well),
	    cmocka_unit_test(too_large_for_lp_solve),
	    cmocka_unit_test(solving_again_equals_solving_afresh),
	    cmocka_unit_test(equal_chains_end_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
