/* tests/prop/emit_beside_test.c: two random graphs as one kernel.
 * KORCH_EMIT_GRAPHS=N tries N random graphs (default 320), half as many pairs, KORCH_EMIT_SEED=N from there.
 */
#include "../harness/setting.h"
#include "random_graph.h"
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bool
is_input_of(const struct graph *g, uint32_t t)
{
	for (uint32_t i = 0; i < g->n_inputs; i++)
		if (g->inputs[i].i == t)
			return true;
	return false;
}

/* An input of `to` that may serve as the other graph's input as well; false: none. */
static bool
shared_input(const struct graph *to, const struct tensor *x, tensor_id *out)
{
	for (uint32_t i = 0; i < to->n_inputs; i++) {
		const struct tensor *y = graph_tensor(to, to->inputs[i]);

		*out = to->inputs[i];
		if (y->role == x->role && y->type == x->type && shape_eq(&y->shape, &x->shape))
			return true;
	}
	return false;
}

/* All of `from`, beside what is in `to`; `share`: inputs of the same shape are one. */
static void
append(struct graph *to, const struct graph *from, bool share)
{
	tensor_id *map = NEW_ARRAY(to->arena, tensor_id, from->n_tensors), in[8], out[2];
	struct err e = {0};

	for (uint32_t t = 0; t < from->n_tensors; t++) {
		const struct tensor *x = graph_tensor(from, (tensor_id){t});

		if (x->role == ROLE_INNER)
			continue;
		if (x->role == ROLE_INPUT && is_input_of(from, t)) {
			if (!share || !shared_input(to, x, &map[t]))
				map[t] = graph_input(to, x->type, &x->shape, NULL);
		} else {
			map[t] = graph_const(to, x->role, x->type, &x->shape, x->data, NULL);
		}
	}
	for (uint32_t i = 0; i < from->n_nodes; i++) {
		const struct node *n = &from->nodes[i];

		assert_true(n->n_in <= COUNT_OF(in));
		for (uint32_t k = 0; k < n->n_in; k++)
			in[k] = map[n->in[k].i];
		if (!graph_add(to, n->prim, in, n->n_in, &n->at, NO_NODE, out, &e))
			fail_msg("%s", e.msg);
		for (uint32_t k = 0; k < n->n_out; k++)
			map[n->out[k].i] = out[k];
	}
	for (uint32_t i = 0; i < from->n_outputs; i++)
		graph_output(to, map[from->outputs[i].i], NULL);
}

static void
beside_one(struct arena *a, struct trial *o, uint64_t seed)
{
	static const uint32_t kinds[] = {RG_MAP | RG_CONV, RG_MATMUL | RG_MAP | RG_BCAST,
	    RG_MAP | RG_REDUCE | RG_BCAST, RG_WINDOW | RG_MAP | RG_LAYOUT, RG_ALL & ~(uint32_t)RG_OPAQUE};
	static const char *const by[] = {"", "", "block=1", "block=3", "mr=4 nv=1"};
	struct rng r = {seed};
	struct graph part, both, sorted;

	graph_init(&both, a);
	for (uint32_t i = 0; i < 2; i++) {
		struct random_opts opts = {.n_nodes = 1 + rng_below(&r, 6),
		    .kinds = kinds[rng_below(&r, COUNT_OF(kinds))],
		    .chain = rng_below(&r, 2),
		    .max_extent = rng_below(&r, 2) ? 9 : 40,
		    .max_elements = 20000};

		random_graph(&part, a, &r, &opts);
		append(&both, &part, rng_below(&r, 2));
	}
	graph_sort(&sorted, a, &both, NULL);
	*o = (struct trial){.seed = seed, .schedule = by[rng_below(&r, COUNT_OF(by))]};
	spec_of_graph(a, &sorted, &o->spec);
}

static void
test_side_by_side(void **state)
{
	uint64_t n = setting("KORCH_EMIT_GRAPHS", 320) / 2, seed = setting("KORCH_EMIT_SEED", 1) + 5000000;
	uint32_t bad = 0, refused = 0;

	(void)state;
	for (uint64_t from = 0; from < n && bad < 5; from += TRIAL_BATCH) {
		struct arena a = {0};
		struct trial *list = NEW_ARRAY(&a, struct trial, TRIAL_BATCH);

		for (uint32_t i = 0; i < TRIAL_BATCH; i++) {
			beside_one(&a, &list[i], seed + from + i);
			trial_make(&a, &list[i], i, &target_avx2);
			refused += list[i].infeasible;
		}
		bad += trials_check(&a, list, TRIAL_BATCH, &target_avx2);
		arena_fini(&a);
	}
	print_message("%llu pairs of graphs, %u refused\n", (unsigned long long)n, refused);
	assert_int_equal(refused, 0);
	assert_int_equal(bad, 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_side_by_side),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
