/* tests/prop/identify_test.c: enumeration equals brute force over all subsets, with alternatives
 * too; and every candidate, computed by its spec from its operands, gives its results. */
#include "cand_values.h"
#include "random_graph.h"

#include "../../daemon/identify/identify.h"
#include "../../daemon/identify/identify_int.h"
#include "../../daemon/rewrite/rewrite.h"

#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

enum { MAX_BRUTE = 13 };

/* ---- brute force ---------------------------------------------------------------------------- */
/* Groups that can run when group `without` never does: a bit each. */
static uint32_t
runnable(const struct groups *u, uint32_t without)
{
	uint32_t done = 0, before = 1;

	while (done != before) {
		before = done;
		for (uint32_t i = 0; i < u->n_groups; i++) {
			bool ready = i != without;
			for (uint32_t k = 0; k < u->groups[i].n_in; k++) {
				uint32_t t = u->groups[i].in[k].i, first = u->maker_first[t];
				bool made = first == u->maker_first[t + 1]; /* an input */
				for (uint32_t m = first; m < u->maker_first[t + 1]; m++)
					made |= done >> u->maker[m] & 1;
				ready &= made;
			}
			if (ready)
				done |= 1u << i;
		}
	}
	return done;
}

struct truth {
	uint32_t before[MAX_BRUTE]; /* groups without which this one never runs */
	uint32_t near[MAX_BRUTE];
	uint32_t rival[MAX_BRUTE]; /* groups that make a tensor which this one makes */
};

static void
find_truth(const struct groups *u, struct truth *t)
{
	memset(t, 0, sizeof(*t));
	for (uint32_t i = 0; i < u->n_groups; i++) {
		uint32_t runs = runnable(u, i);
		for (uint32_t v = 0; v < u->n_groups; v++)
			if (v != i && !(runs >> v & 1))
				t->before[v] |= 1u << i;
		for (uint32_t k = 0; k < u->groups[i].n_in; k++) {
			uint32_t s = u->groups[i].in[k].i;
			for (uint32_t m = u->maker_first[s]; m < u->maker_first[s + 1]; m++) {
				t->near[i] |= 1u << u->maker[m];
				t->near[u->maker[m]] |= 1u << i;
			}
		}
		for (uint32_t k = 0; k < u->groups[i].n_out; k++) {
			uint32_t s = u->groups[i].out[k].i;
			for (uint32_t m = u->maker_first[s]; m < u->maker_first[s + 1]; m++)
				if (u->maker[m] != i)
					t->rival[i] |= 1u << u->maker[m];
		}
	}
}

static bool
is_connected(const struct truth *t, uint32_t set)
{
	uint32_t seen = set & -set, before = 0;

	while (seen != before) {
		before = seen;
		for (uint32_t i = 0; i < MAX_BRUTE; i++)
			if (seen >> i & 1)
				seen |= t->near[i] & set;
	}
	return seen == set;
}

static bool
is_convex(const struct groups *u, const struct truth *t, uint32_t set)
{
	for (uint32_t w = 0; w < u->n_groups; w++) {
		bool leaves = false;
		if (set >> w & 1 || !(t->before[w] & set))
			continue;
		for (uint32_t v = 0; v < u->n_groups; v++)
			leaves |= (set >> v & 1) && (t->before[v] >> w & 1);
		if (leaves)
			return false;
	}
	return true;
}

static bool
is_wanted(const struct groups *u, const struct truth *t, const struct identify_limits *lim, uint32_t set)
{
	uint32_t n = 0, anchors = 0, reductions = 0, rivals = 0;
	bool alone = false;

	for (uint32_t i = 0; i < u->n_groups; i++)
		if (set >> i & 1) {
			n++;
			anchors += u->groups[i].n_anchors;
			reductions += u->groups[i].n_reductions;
			alone |= u->groups[i].alone;
			rivals |= t->rival[i];
		}
	if (alone)
		return n == 1;
	return n && n <= lim->max_nodes && anchors <= lim->max_anchors && reductions <= lim->max_reductions &&
	    !(rivals & set) && is_connected(t, set) && is_convex(u, t, set);
}

static uint32_t
compare_with_brute_force(
    struct arena *a, const struct graph *g, enum groups_merge merge, const struct identify_limits *lim)
{
	struct groups u;
	struct truth t;
	struct enum_result r;
	bool *found;
	uint32_t n = 0;

	fusion_groups_make(a, g, merge, &u);
	if (u.n_groups > MAX_BRUTE || !u.n_groups)
		return 0;
	find_truth(&u, &t);
	enum_sets(a, &u, lim, NULL, &r);
	found = NEW_ARRAY(a, bool, (size_t)1 << u.n_groups);
	for (uint32_t i = 0; i < r.n_sets; i++) {
		uint32_t set = 0;
		for (uint32_t k = 0; k < r.sets[i].n; k++)
			set |= 1u << r.sets[i].groups[k];
		assert_false(found[set]); /* each once */
		found[set] = true;
	}
	for (uint32_t set = 1; set < 1u << u.n_groups; set++) {
		bool want = is_wanted(&u, &t, lim, set);
		if (want != found[set]) {
			struct strbuf sb;
			sb_init(&sb, a);
			graph_print(&sb, g);
			fail_msg(
			    "set %x: %s\n%.*s", set, want ? "missing" : "too much", STR_ARG(sb_str(&sb)));
		}
		n += want;
	}
	return n;
}

/* ---- graphs with alternatives ----------------------------------------------------------------- */
/* Some tensors get a second producer with the same value or another one: identification does not
 * look at values, only at who makes what from what. */
static void
add_alternatives(struct graph *g, struct rng *r)
{
	static const struct attrs none = {0};
	uint32_t n = g->n_nodes;

	for (uint32_t k = 0; k < 4 && n > 1; k++) {
		const struct node *at = &g->nodes[rng_below(r, n)];
		struct err e = {0};
		tensor_id in[2] = {g->nodes[rng_below(r, n)].out[0], g->nodes[rng_below(r, n)].out[0]};
		uint32_t n_in = 1 + rng_below(r, 2);
		if (!graph_add_alt(g, n_in == 1 ? PRIM_abs : PRIM_max, in, n_in, &none, NO_NODE, NUM_EXACT,
			at->out[0], &e))
			continue; /* shapes differ, or a circle */
	}
}

static uint64_t
brute(uint32_t n_graphs, bool alternatives, uint64_t seed0)
{
	uint64_t n_sets = 0;

	for (uint64_t seed = seed0; seed < seed0 + n_graphs; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, sorted;
		struct identify_limits lim = identify_limits_default;
		struct random_opts ro = {.n_nodes = 3 + rng_below(&r, 8),
		    .max_elements = 64,
		    .max_extent = 4,
		    .kinds = RG_MAP | (rng_below(&r, 2) ? RG_ALL : RG_REDUCE | RG_BCAST)};

		random_graph(&g, &a, &r, &ro);
		if (alternatives)
			add_alternatives(&g, &r);
		graph_sort(&sorted, &a, &g, NULL);
		lim.max_nodes = 2 + rng_below(&r, 12);
		lim.max_reductions = 1 + rng_below(&r, 4);
		lim.max_candidates = 1000000;
		n_sets +=
		    compare_with_brute_force(&a, &sorted, rng_below(&r, 2) ? MERGE_ALL : MERGE_NONE, &lim);
		arena_fini(&a);
	}
	return n_sets;
}

static void
sets_equal_brute_force(void **state)
{
	(void)state;
	assert_true(brute(1500, false, 1) > 10000);
}

static void
sets_equal_brute_force_with_alternatives(void **state)
{
	(void)state;
	assert_true(brute(1500, true, 100000) > 10000);
}

/* ---- candidates compute what the graph does ----------------------------------------------------- */
/* External tensors, as the candidate states them, are those that the spec binds. */
static void
check_borders(const struct graph *g, const struct cand *c)
{
	assert_int_equal(c->n_out, c->bind.n_results);
	for (uint32_t i = 0; i < c->bind.n_operands; i++) {
		tensor_id t = c->bind.operands[i];
		bool found = tensor_is_const(g, t);
		for (uint32_t k = 0; k < c->n_in; k++) /* the same memory: equal, or a view of it */
			found |= shape_count(&graph_tensor(g, c->in[k])->shape) ==
			    shape_count(&graph_tensor(g, t)->shape);
		assert_true(found);
	}
}

static void
candidates_compute_their_results(void **state)
{
	uint32_t n = 0, shared = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 250; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, to;
		struct cand_set cs;
		struct err e = {0};
		struct random_opts ro = {.n_nodes = 4 + rng_below(&r, 12),
		    .max_elements = 300,
		    .kinds = RG_ALL & ~(uint32_t)RG_PROD};
		const struct rewrite_opts o = {
		    .normalize = true, .alternatives = true, .worst = NUM_PRECISION, .max_nodes = 1000};

		random_graph(&g, &a, &r, &ro);
		assert_true(rewrite_run(&a, &g, &o, &to, NULL, &e));
		enum identify_mode mode = (enum identify_mode)(seed % 3);
		if (!identify_run(&a, &to, mode, NULL, &cs, &e)) {
			assert_int_equal(e.code, ERR_INFEASIBLE);
			arena_fini(&a);
			continue;
		}
		void **value = values_of_all(&a, &to, random_inputs(&a, &r, &to));
		for (uint32_t i = 0; i < cs.n_cands; i++) {
			check_borders(&to, &cs.cands[i]);
			candidate_computes(&a, &to, &cs, &cs.cands[i], value);
		}
		n += cs.n_cands;
		shared += cs.n_cands - cs.n_specs;
		arena_fini(&a);
	}
	print_message("%u candidates, %u of them share a spec\n", n, shared);
	assert_true(n > 2000);
}

/* ---- a plan always exists ------------------------------------------------------------------------ */
static void
every_node_is_made_by_a_candidate_of_its_own(void **state)
{
	struct random_opts ro = {.n_nodes = 20, .kinds = RG_ALL & ~(uint32_t)RG_PROD};

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, to;
		struct cand_set cs;
		struct groups u;
		struct err e = {0};

		random_graph(&g, &a, &r, &ro);
		graph_sort(&to, &a, &g, NULL);
		fusion_groups_make(&a, &to, MERGE_NONE, &u);
		for (int mode = 0; mode < 3; mode++) {
			if (!identify_run(&a, &to, (enum identify_mode)mode, NULL, &cs, &e)) {
				assert_int_equal(e.code, ERR_INFEASIBLE);
				break;
			}
			bool *made = NEW_ARRAY(&a, bool, to.n_nodes + 1);
			for (uint32_t i = 0; i < cs.n_cands; i++) {
				uint32_t own = 0, last = 0;
				BITSET_EACH(k, &cs.cands[i].members)
				if (!u.is_view[k] && !u.is_inlined[k])
					own++, last = k;
				if (own == 1)
					made[last] = true;
			}
			for (uint32_t i = 0; i < to.n_nodes; i++)
				assert_true(made[i] || u.is_view[i] || u.is_inlined[i]);
		}
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sets_equal_brute_force),
	    cmocka_unit_test(sets_equal_brute_force_with_alternatives),
	    cmocka_unit_test(candidates_compute_their_results),
	    cmocka_unit_test(every_node_is_made_by_a_candidate_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
