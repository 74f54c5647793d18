/* tests/prop/beside_test.c: pairs of candidates side by side, by brute force over random graphs with
 * alternatives: each is two candidates, siblings, without a path between them; none that may be made is
 * missing; and the union computes what the graph does. */
#include "cand_values.h"
#include "random_graph.h"

#include "../../daemon/identify/identify.h"
#include "../../daemon/identify/identify_int.h"
#include "../../kernels/cost/cost.h"

#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

/* ---- the truth ------------------------------------------------------------------------------------ */
/* Is there a way from node x to node y, whoever makes what is read? */
static bool
leads_to(const struct graph *g, uint32_t x, uint32_t y, bool *seen)
{
	if (seen[x])
		return false;
	seen[x] = true;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_in; k++)
			for (uint32_t o = 0; o < g->nodes[x].n_out; o++)
				if (g->nodes[i].in[k].i == g->nodes[x].out[o].i &&
				    (i == y || leads_to(g, i, y, seen)))
					return true;
	return false;
}

/* Nodes of the set but views and inlined broadcasts, which may stand in both. */
static bool
is_own(const struct groups *u, uint32_t node)
{
	return u->group_of[node] != NO_NODE;
}

static bool
sets_are_apart(struct arena *a, const struct graph *g, const struct groups *u, const struct bitset *x,
    const struct bitset *y)
{
	BITSET_EACH(i, x)
	BITSET_EACH(k, y)
	{
		if (!is_own(u, i) || !is_own(u, k))
			continue;
		if (i == k || leads_to(g, i, k, NEW_ARRAY(a, bool, g->n_nodes)) ||
		    leads_to(g, k, i, NEW_ARRAY(a, bool, g->n_nodes)))
			return false;
	}
	return true;
}

static bool
have_common(const tensor_id *x, uint32_t n_x, const tensor_id *y, uint32_t n_y)
{
	for (uint32_t i = 0; i < n_x; i++)
		for (uint32_t k = 0; k < n_y; k++)
			if (x[i].i == y[k].i)
				return true;
	return false;
}

static bool
are_read_together(const struct groups *u, uint32_t x, uint32_t y)
{
	const struct tensor_id_pair {
		tensor_id a, b;
	} p = {{x}, {y}};

	for (uint32_t i = 0; i < u->n_groups; i++)
		if (have_common(u->groups[i].in, u->groups[i].n_in, &p.a, 1) &&
		    have_common(u->groups[i].in, u->groups[i].n_in, &p.b, 1))
			return true;
	return u->is_output[x] && u->is_output[y];
}

/* The one group with a linear primitive or a reduction, if all others are maps and layouts; and how many. */
static uint32_t
seed_of(const struct groups *u, const struct cand *c, uint32_t *size)
{
	uint32_t seed = NO_NODE, own = 0;

	*size = 0;
	for (uint32_t i = 0; i < u->n_groups; i++) {
		uint32_t inside = 0;

		for (uint32_t k = 0; k < u->groups[i].n_nodes; k++)
			inside += bit_get(&c->members, u->groups[i].nodes[k]);
		if (!inside)
			continue;
		own += inside;
		if (inside != u->groups[i].n_nodes)
			return NO_NODE;
		++*size;
		if (u->groups[i].alone || u->groups[i].n_anchors + u->groups[i].n_reductions == 0)
			continue;
		if (seed != NO_NODE)
			return NO_NODE;
		seed = i;
	}
	return own ? seed : NO_NODE;
}

static uint32_t
depth_of(const struct groups *u, uint32_t group)
{
	uint32_t most = 0;

	for (uint32_t k = 0; k < u->groups[group].n_in; k++)
		for (uint32_t i = 0; i < group; i++)
			if (have_common(&u->groups[group].in[k], 1, u->groups[i].out, u->groups[i].n_out))
				most = MAX_OF(most, depth_of(u, i) + 1);
	return most;
}

static bool
are_siblings(
    const struct groups *u, const struct cand *x, const struct cand *y, uint32_t seed_x, uint32_t seed_y)
{
	return have_common(x->in, x->n_in, y->in, y->n_in) ||
	    are_read_together(u, x->out[0].i, y->out[0].i) ||
	    (x->spec == y->spec && depth_of(u, seed_x) == depth_of(u, seed_y));
}

static bool
may_stand(const struct cand_set *cs, const struct cand *c, const struct identify_limits *lim)
{
	struct cost_parts p;

	(void)cost_bound_ns(&cs->specs[c->spec], &hw_fastest, &p);
	return c->n_out == 1 && p.flops <= (double)lim->beside_flops && p.bytes <= (double)lim->beside_bytes;
}

/* ---- each pair is one ------------------------------------------------------------------------------ */
/* Two candidates before the pairs whose members and results the pair has. */
static bool
is_a_pair(struct arena *a, const struct graph *g, const struct groups *u, const struct cand_set *cs,
    const struct cand *pair, const struct identify_limits *lim)
{
	uint32_t n_old = cs->n_cands - cs->n_beside, size_x, size_y;

	for (uint32_t i = 0; i < n_old; i++)
		for (uint32_t k = 0; k < n_old; k++) {
			const struct cand *x = &cs->cands[i], *y = &cs->cands[k];
			struct bitset both = bitset_make(a, g->n_nodes);

			if (!may_stand(cs, x, lim) || !may_stand(cs, y, lim) ||
			    x->out[0].i != pair->out[0].i || y->out[0].i != pair->out[1].i)
				continue;
			bitset_copy(&both, &x->members);
			bitset_or(&both, &y->members);
			if (!bitset_within(
				&both, &pair->members)) /* views of what both read may have been added */
				continue;
			uint32_t sx = seed_of(u, x, &size_x), sy = seed_of(u, y, &size_y);

			if (sx != NO_NODE && sy != NO_NODE && size_x == size_y &&
			    sets_are_apart(a, g, u, &x->members, &y->members) &&
			    are_siblings(u, x, y, sx, sy))
				return true;
		}
	return false;
}

static void
fail_with(struct arena *a, const struct graph *g, uint64_t seed, const char *what)
{
	struct strbuf sb;

	sb_init(&sb, a);
	graph_print(&sb, g);
	fail_msg("seed %llu: %s\n%.*s", (unsigned long long)seed, what, STR_ARG(sb_str(&sb)));
}

/* Lone seeds are there in any graph: of two such candidates that are apart and siblings there is a pair. */
static bool
pair_exists(const struct cand_set *cs, const struct cand *x, const struct cand *y)
{
	for (uint32_t i = cs->n_cands - cs->n_beside; i < cs->n_cands; i++) {
		const struct cand *p = &cs->cands[i];

		if (have_common(p->out, 2, x->out, 1) && have_common(p->out, 2, y->out, 1) &&
		    bitset_within(&x->members, &p->members) && bitset_within(&y->members, &p->members))
			return true;
	}
	return false;
}

static bool
make_one_tensor(const struct graph *g, const struct cand *x, const struct cand *y)
{
	BITSET_EACH(i, &x->members)
	BITSET_EACH(k, &y->members)
	if (i != k && have_common(g->nodes[i].out, g->nodes[i].n_out, g->nodes[k].out, g->nodes[k].n_out))
		return true;
	return false;
}

static uint32_t
check_none_is_missing(struct arena *a, const struct graph *g, const struct groups *u,
    const struct cand_set *cs, const struct identify_limits *lim, uint64_t seed)
{
	uint32_t n_old = cs->n_cands - cs->n_beside, n = 0, size_x, size_y;

	for (uint32_t i = 0; i < n_old; i++)
		for (uint32_t k = 0; k < i; k++) {
			const struct cand *x = &cs->cands[i], *y = &cs->cands[k];
			uint32_t sx = seed_of(u, x, &size_x), sy = seed_of(u, y, &size_y);

			if (sx == NO_NODE || sy == NO_NODE || sx == sy || size_x != 1 || size_y != 1 ||
			    !may_stand(cs, x, lim) || !may_stand(cs, y, lim) ||
			    x->n_in + y->n_in > lim->max_in || make_one_tensor(g, x, y) ||
			    !are_siblings(u, x, y, sx, sy) ||
			    !sets_are_apart(a, g, u, &x->members, &y->members))
				continue;
			n++;
			if (!pair_exists(cs, x, y) && !cs->n_infeasible)
				fail_with(
				    a, g, seed, arena_printf(a, "candidates %u and %u are no pair", k, i));
		}
	return n;
}

/* ---- tests ----------------------------------------------------------------------------------------- */
static void
add_alternatives(struct graph *g, struct rng *r)
{
	static const struct attrs none = {0};
	uint32_t n = g->n_nodes;

	for (uint32_t k = 0; k < 3 && n > 1; k++) {
		const struct node *at = &g->nodes[rng_below(r, n)];
		tensor_id in[2] = {g->nodes[rng_below(r, n)].out[0], g->nodes[rng_below(r, n)].out[0]};
		struct err e = {0};
		uint32_t n_in = 1 + rng_below(r, 2);

		(void)!graph_add_alt(
		    g, n_in == 1 ? PRIM_abs : PRIM_max, in, n_in, &none, NO_NODE, NUM_EXACT, at->out[0], &e);
	}
}

static void
random_case(struct arena *a, uint64_t seed, bool alternatives, struct graph *sorted, struct rng *r)
{
	struct graph g;

	*r = (struct rng){seed};
	struct random_opts ro = {.n_nodes = 4 + rng_below(r, 8),
	    .max_elements = 200,
	    .max_extent = 5,
	    .kinds = RG_MAP | RG_REDUCE | (rng_below(r, 2) ? RG_MATMUL | RG_BCAST : RG_CONV | RG_WINDOW)};

	random_graph(&g, a, r, &ro);
	if (alternatives)
		add_alternatives(&g, r);
	graph_sort(sorted, a, &g, NULL);
}

static void
run_cases(uint64_t from, uint32_t n, bool alternatives)
{
	uint32_t pairs = 0, wanted = 0;

	for (uint64_t seed = from; seed < from + n; seed++) {
		struct arena a = {0};
		struct identify_limits lim = identify_limits_default;
		struct graph g;
		struct cand_set cs;
		struct groups u;
		struct rng r;
		struct err e = {0};

		random_case(&a, seed, alternatives, &g, &r);
		lim.max_beside = 100000;
		lim.beside_flops = rng_below(&r, 3) ? 1000000 : 300;
		if (!identify_run(&a, &g, IDENTIFY_FULL, &lim, &cs, &e))
			fail_with(&a, &g, seed, e.msg);
		fusion_groups_make(&a, &g, MERGE_ALL, &u);
		void **value = alternatives ? NULL : values_of_all(&a, &g, random_inputs(&a, &r, &g));

		for (uint32_t i = cs.n_cands - cs.n_beside; i < cs.n_cands; i++) {
			assert_int_equal(cs.cands[i].n_out, 2);
			if (!is_a_pair(&a, &g, &u, &cs, &cs.cands[i], &lim))
				fail_with(&a, &g, seed, arena_printf(&a, "candidate %u is no pair", i));
			if (value)
				candidate_computes(&a, &g, &cs, &cs.cands[i], value);
		}
		wanted += check_none_is_missing(&a, &g, &u, &cs, &lim, seed);
		pairs += cs.n_beside;
		arena_fini(&a);
	}
	print_message("%u pairs, %u of lone seeds wanted\n", pairs, wanted);
	assert_true(pairs > 100 && wanted > 50);
}

static void
pairs_are_independent_siblings(void **state)
{
	(void)state;
	run_cases(1, 400, false);
}

static void
pairs_are_independent_siblings_with_alternatives(void **state)
{
	(void)state;
	run_cases(500000, 400, true);
}

/* One thread has none; a limit leaves out, and tells how many. */
static void
limits_bound_their_number(void **state)
{
	uint32_t n_over = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct arena a = {0};
		struct identify_limits none = identify_limits_default, all = none, two = none;
		struct cand_set without, with, few;
		struct graph g;
		struct rng r;
		struct err e = {0};

		all.max_beside = 100000;
		two.max_beside = 2;
		random_case(&a, seed, false, &g, &r);
		assert_true(identify_run(&a, &g, IDENTIFY_FULL, &none, &without, &e));
		assert_true(identify_run(&a, &g, IDENTIFY_FULL, &all, &with, &e));
		assert_true(identify_run(&a, &g, IDENTIFY_FULL, &two, &few, &e));
		assert_int_equal(without.n_beside, 0);
		assert_int_equal(with.n_cands, without.n_cands + with.n_beside);
		assert_int_equal(few.n_beside, MIN_OF(with.n_beside, 2u));
		assert_int_equal(with.n_dropped, without.n_dropped);
		assert_true(few.n_dropped - without.n_dropped >= with.n_beside - few.n_beside);
		n_over += with.n_beside > 2;
		assert_true(identify_run(&a, &g, IDENTIFY_OPERATOR, &all, &with, &e));
		assert_int_equal(with.n_beside, 0);
		arena_fini(&a);
	}
	assert_true(n_over > 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pairs_are_independent_siblings),
	    cmocka_unit_test(pairs_are_independent_siblings_with_alternatives),
	    cmocka_unit_test(limits_bound_their_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
