/* tests/prop/plan_test.c: random graphs, also rewritten ones with alternatives, become plans that the
 * checker accepts and that compute what the graph means, step by step in the plan's own memory,
 * results on operands' bytes where the generator allows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "../../daemon/rewrite/rewrite.h"
#include "../../kernels/interp/interp.h"
#include "../../kernels/run/certify.h"
#include "../../kernels/run/exec.h"
#include "../harness/plan_path.h"
#include "plan_outputs.h"
#include "random_graph.h"

enum { N_GRAPHS = 150 };

/* Results that lie on the bytes of one of their step's operands. */
static uint32_t
count_in_place(const struct plan *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];
		uint32_t first = p->kernels[s->kernel].n_operands;

		for (uint32_t r = first; r < s->n_places; r++)
			for (uint32_t j = 0; j < first; j++) {
				const struct place *to = &p->places[s->places[r]],
						   *from = &p->places[s->places[j]];

				n += to->kind == PLACE_WORK && from->kind == PLACE_WORK && to->n_bytes &&
				    from->n_bytes && to->offset == from->offset;
			}
	}
	return n;
}

struct counts {
	uint32_t n_steps, n_in_place;
};

static void
check_graph(const struct graph *g, uint64_t seed, struct counts *n)
{
	struct arena a = {0};
	struct plan_path path;
	struct certificate c;
	struct rng r = {seed};
	struct err e = {0};

	if (!plan_path_make(&a, g, seed, &path, &e) || !plan_check(&path.plan, &e) ||
	    !plan_certify(&path.plan, &c, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	assert_true(path.plan.proved);
	assert_int_equal(c.n_chosen, path.plan.n_steps);
	n->n_steps += path.plan.n_steps;
	n->n_in_place += count_in_place(&path.plan);
	plan_makes_outputs(&a, g, &path.plan, &r, 1e-3, seed);
	arena_fini(&a);
}

static void
plans_compute_their_graph(void **state)
{
	struct counts n = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct random_opts o = {.n_nodes = 2 + (uint32_t)(seed % 14),
		    .kinds = RG_ALL & ~(uint32_t)RG_PROD,
		    .max_elements = 256,
		    .chain = seed % 3 == 0};
		struct graph g, sorted;

		random_graph(&g, &a, &r, &o);
		graph_sort(&sorted, &a, &g, NULL);
		check_graph(&sorted, seed, &n);
		arena_fini(&a);
	}
	print_message("%d graphs, %u steps, %u results in place\n", N_GRAPHS, n.n_steps, n.n_in_place);
	assert_true(n.n_in_place > 0);
}

static void
plans_of_rewritten_graphs(void **state)
{
	uint32_t n_alternatives = 0;
	struct counts n = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 977};
		struct random_opts o = {.n_nodes = 2 + (uint32_t)(seed % 10),
		    .kinds = RG_MAP | RG_BCAST | RG_REDUCE | RG_LAYOUT | RG_MATMUL,
		    .max_elements = 256,
		    .chain = seed % 2 == 0};
		struct rewrite_opts rules = {
		    .normalize = true, .alternatives = true, .worst = NUM_REASSOC, .max_nodes = 4096};
		struct rewrite_stats stats;
		struct graph g, sorted, to;
		struct err e = {0};

		random_graph(&g, &a, &r, &o);
		graph_sort(&sorted, &a, &g, NULL);
		if (!rewrite_run(&a, &sorted, &rules, &to, &stats, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		for (uint32_t i = 0; i < to.n_nodes; i++)
			for (uint32_t j = 0; j < i; j++)
				n_alternatives += to.nodes[i].out[0].i == to.nodes[j].out[0].i;
		check_graph(&to, seed, &n);
		arena_fini(&a);
	}
	print_message("%d graphs, %u alternatives, %u steps, %u results in place\n", N_GRAPHS, n_alternatives,
	    n.n_steps, n.n_in_place);
	assert_true(n.n_in_place > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plans_compute_their_graph),
	    cmocka_unit_test(plans_of_rewritten_graphs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
