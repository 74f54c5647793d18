/* What a plan keeps for explain: on random graphs with random costs, every exchange is a plan again and the
 * cheapest one under its condition, by a solver that knows nothing of it; reasons fit the candidates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../daemon/plan/account.h"
#include "../../kernels/run/certify.h"
#include "../../kernels/run/exec.h"
#include "../harness/plan_path.h"
#include "random_graph.h"

enum { N_GRAPHS = 150 };

struct sample {
	struct arena *a;
	struct graph g;
	struct plan_path path;
	struct account_cost *cost;
	struct account_node *nodes;
	uint32_t *kernel_of; /* candidate of the plan -> kernel */
};

/* All candidates are usable here, so that candidate and kernel have one number. */
static void
make_sample(struct arena *a, uint64_t seed, struct sample *s)
{
	struct rng r = {seed};
	struct random_opts o = {.n_nodes = 3 + (uint32_t)(seed % 10),
	    .kinds = RG_ALL & ~(uint32_t)RG_PROD,
	    .max_elements = 256,
	    .chain = seed % 3 == 0};
	struct graph g;
	struct err e = {0};

	*s = (struct sample){.a = a};
	random_graph(&g, a, &r, &o);
	graph_sort(&s->g, a, &g, NULL);
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		s->g.nodes[i].origin = i / 2;
	if (!plan_path_make(a, &s->g, seed, &s->path, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	s->cost = NEW_ARRAY(a, struct account_cost, s->path.cands.n_specs);
	for (uint32_t k = 0; k < s->path.program.n_kernels; k++) {
		struct account_cost *c = &s->cost[s->path.program.spec_of[k]];

		c->bound_ns = 1;
		if (c->measured_ns || c->expected_ns)
			continue;
		if (rng_below(&r, 10) < 8)
			c->measured_ns = s->path.program.kernels[k].cost;
		else
			c->expected_ns = s->path.program.kernels[k].cost;
	}
	for (uint32_t i = 0; i < s->path.choice.n_chosen; i++) {
		uint32_t k = s->path.choice.chosen[i];

		s->cost[s->path.program.spec_of[k]].measured_ns = s->path.program.kernels[k].cost;
	}
	s->nodes = NEW_ARRAY(a, struct account_node, (s->g.n_nodes + 1) / 2 + 1);
	for (uint32_t i = 0; i < (s->g.n_nodes + 1) / 2; i++)
		s->nodes[i] = (struct account_node){.name = arena_printf(a, "n%u", i),
		    .op = "Op",
		    .reads = NEW_ARRAY(a, uint32_t, 1),
		    .n_reads = i > 0,
		    .lost = FATE_FOLDED};
	for (uint32_t i = 1; i < (s->g.n_nodes + 1) / 2; i++)
		s->nodes[i].reads[0] = i - 1;
}

static void
account(struct sample *s)
{
	struct account_in in = {.graph = &s->g,
	    .cands = &s->path.cands,
	    .program = &s->path.program,
	    .choice = &s->path.choice,
	    .mode = IDENTIFY_FULL,
	    .limits = &identify_limits_default,
	    .cost = s->cost,
	    .nodes = s->nodes,
	    .n_nodes = (s->g.n_nodes + 1) / 2};
	struct certificate c;
	struct err e = {0};

	account_make(s->a, &in, &s->path.plan);
	if (!plan_check(&s->path.plan, &e) || !plan_certify(&s->path.plan, &c, &e))
		fail_msg("%s", e.msg);
}

static int64_t
margin_of(const struct plan *p, const struct plan_exchange *x)
{
	int64_t m = 0;

	for (uint32_t i = 0; i < x->n_rivals; i++)
		m += p->rivals[x->rivals[i]].cost_ns;
	for (uint32_t i = 0; i < x->n_steps; i++)
		m -= p->kernels[p->steps[x->steps[i]].kernel].cost_ns;
	return m;
}

/* The optimum over measured kernels but `without`; false: there is none. */
static bool
optimum(const struct sample *s, uint32_t without, int64_t *out)
{
	const struct program *p = &s->path.program;
	struct blp b = p->blp;
	struct blp_kernel *k = arena_dup(s->a, p->kernels, sizeof(*k) * p->n_kernels);
	struct blp_result r;
	struct err none = {0};

	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (i == without || !s->cost[p->spec_of[i]].measured_ns)
			k[i].cost = BLP_NEVER;
	b.kernels = k;
	if (!blp_solve(s->a, &b, NULL, 0, NULL, &r, &none))
		return false;
	assert_true(r.proved);
	*out = r.cost;
	return true;
}

static void
exchanges_are_the_optimum_without(void **state)
{
	uint32_t n_found = 0, n_none = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct sample s;
		const struct plan *p = &s.path.plan;

		make_sample(&a, seed, &s);
		account(&s);
		assert_int_equal(p->n_exchanges >= p->n_steps, true);
		for (uint32_t i = 0; i < p->n_steps; i++) {
			const struct plan_exchange *x = &p->exchanges[i];
			int64_t want = 0;
			bool exists = optimum(&s, p->steps[i].candidate, &want);

			if (exists != (x->n_rivals > 0))
				fail_msg("seed %llu step %u: %s", (unsigned long long)seed, i,
				    exists ? "one is missing" : "from nowhere");
			n_found += exists;
			n_none += !exists;
			if (exists && margin_of(p, x) != want - p->latency_ns)
				fail_msg("seed %llu step %u: margin %lld, not %lld", (unsigned long long)seed,
				    i, (long long)margin_of(p, x), (long long)(want - p->latency_ns));
		}
		arena_fini(&a);
	}
	print_message("%u exchanges, %u steps without any\n", n_found, n_none);
	assert_true(n_found > 100 && n_none > 0);
}

static bool
is_measured(const struct sample *s, const struct plan_rival *r)
{
	return s->cost[s->path.program.spec_of[r->candidate]].measured_ns > 0;
}

static void
reasons_fit_the_candidates(void **state)
{
	uint32_t n_measured = 0, n_open = 0, n_rules = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct sample s;
		const struct plan *p = &s.path.plan;

		make_sample(&a, seed, &s);
		account(&s);
		for (uint32_t i = 0; i < p->n_aparts; i++) {
			const struct plan_apart *x = &p->aparts[i];
			bool has = x->measured != PLAN_NONE || x->open != PLAN_NONE;

			if (has == (x->rule.n > 0))
				fail_msg("seed %llu: %s %u and %u: %s", (unsigned long long)seed,
				    x->of_steps ? "steps" : "nodes", x->a, x->b,
				    has ? "a reason too many" : "no reason");
			if (x->measured != PLAN_NONE)
				assert_true(p->rivals[x->measured].is_measured &&
				    is_measured(&s, &p->rivals[x->measured]));
			if (x->open != PLAN_NONE)
				assert_false(
				    p->rivals[x->open].is_measured || is_measured(&s, &p->rivals[x->open]));
			if (x->exchange != PLAN_NONE)
				assert_true(margin_of(p, &p->exchanges[x->exchange]) >= 0);
			n_measured += x->measured != PLAN_NONE;
			n_open += x->open != PLAN_NONE;
			n_rules += x->rule.n > 0;
		}
		arena_fini(&a);
	}
	print_message("%u measured, %u open, %u by a rule\n", n_measured, n_open, n_rules);
	assert_true(n_measured > 20 && n_open > 5 && n_rules > 20);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exchanges_are_the_optimum_without),
	    cmocka_unit_test(reasons_fit_the_candidates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
