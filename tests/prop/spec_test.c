/* Specs depend on the computation alone: renaming, reordering nodes, renumbering tensors and
 * swapping operands of commutative primitives leave every hash unchanged; a changed computation
 * changes it; a spec computes what its members computed. */
#include "../../kernels/interp/interp.h"
#include "random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N_GRAPHS = 400 };

/* The same graph, its nodes in another topological order, its tensors renumbered, operands of
 * commutative primitives swapped at random.  map[old tensor] is the new one. */
static void
shuffle(struct graph *to, struct arena *a, struct rng *r, const struct graph *g, tensor_id *map)
{
	uint32_t placed = 0;
	bool *done = NEW_ARRAY(a, bool, g->n_nodes);
	struct err e = {0};

	graph_init(to, a);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		map[t] = NO_TENSOR;
	for (uint32_t i = g->n_inputs; i-- > 0;) {
		const struct tensor *x = graph_tensor(g, g->inputs[i]);

		map[g->inputs[i].i] = graph_input(to, x->type, &x->shape, "renamed");
	}
	while (placed < g->n_nodes) {
		uint32_t i = rng_below(r, g->n_nodes);
		const struct node *n = &g->nodes[i];
		tensor_id in[16], out[2];
		bool ready = !done[i];

		for (uint32_t k = 0; k < n->n_in; k++) {
			const struct tensor *x = graph_tensor(g, n->in[k]);

			if (map[n->in[k].i].i == UINT32_MAX && x->role != ROLE_INNER)
				map[n->in[k].i] = graph_const(to, x->role, x->type, &x->shape, x->data, "c");
			in[k] = map[n->in[k].i];
			ready = ready && in[k].i != UINT32_MAX;
		}
		if (!ready)
			continue;
		if (prim_is_commutative(n->prim) && rng_below(r, 2)) {
			tensor_id t = in[0];

			in[0] = in[1];
			in[1] = t;
		}
		assert_true(graph_add(to, n->prim, in, n->n_in, &n->at, 77, out, &e));
		for (uint32_t k = 0; k < n->n_out; k++)
			map[n->out[k].i] = out[k];
		done[i] = true;
		placed++;
	}
	for (uint32_t i = g->n_outputs; i-- > 0;)
		if (map[g->outputs[i].i].i != UINT32_MAX)
			graph_output(to, map[g->outputs[i].i], NULL);
}

/* A random member set: nodes, and the results that are outputs or read outside. */
static uint32_t
choose(struct arena *a, struct rng *r, const struct graph *g, struct bitset *members, tensor_id *exports)
{
	struct graph_index x = graph_index_make(a, g);
	uint32_t n = 0;

	*members = bitset_make(a, g->n_nodes);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (rng_below(r, 3))
			bit_set(members, i);
	BITSET_EACH(i, members)
	{
		uint32_t t = g->nodes[i].out[0].i;
		bool outside = false;

		for (uint32_t k = 0; k < g->n_outputs; k++)
			outside |= g->outputs[k].i == t;
		for (uint32_t k = x.reader_first[t]; k < x.reader_first[t + 1]; k++)
			outside |= !bit_get(members, x.reader[k]);
		if (outside)
			exports[n++] = (tensor_id){t};
	}
	return n;
}

/* Which node of `to` makes map[what node i of g makes]. */
static void
map_members(const struct graph *g, const struct bitset *members, const struct graph *to, const tensor_id *map,
    struct bitset *out)
{
	for (uint32_t j = 0; j < to->n_nodes; j++)
		BITSET_EACH(i, members)
	if (map[g->nodes[i].out[0].i].i == to->nodes[j].out[0].i)
		bit_set(out, j);
}

static void
make_graph(struct graph *g, struct arena *a, struct rng *r)
{
	struct random_opts o = {.n_nodes = 2 + rng_below(r, 12), .kinds = RG_ALL, .max_extent = 5};
	struct graph raw;

	random_graph(&raw, a, r, &o);
	graph_sort(g, a, &raw, NULL);
	graph_verify(g);
}

static void
order_and_names_do_not_matter(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, h;
		struct bitset members, moved;
		struct spec s, t, again;
		struct err e = {0};
		tensor_id *exports, *map;
		uint32_t n;

		make_graph(&g, &a, &r);
		exports = NEW_ARRAY(&a, tensor_id, g.n_nodes);
		map = NEW_ARRAY(&a, tensor_id, g.n_tensors);
		n = choose(&a, &r, &g, &members, exports);
		if (n == 0) {
			arena_fini(&a);
			continue;
		}
		spec_make(&a, &g, &members, exports, n, &s, NULL);
		graph_verify(&s.g);
		shuffle(&h, &a, &r, &g, map);
		moved = bitset_make(&a, h.n_nodes);
		map_members(&g, &members, &h, map, &moved);
		for (uint32_t i = 0; i < n; i++)
			exports[i] = map[exports[i].i];
		for (uint32_t i = n; i > 1; i--) {
			uint32_t k = rng_below(&r, i);
			tensor_id x = exports[k];

			exports[k] = exports[i - 1];
			exports[i - 1] = x;
		}
		spec_make(&a, &h, &moved, exports, n, &t, NULL);
		if (!str_eq(s.text, t.text))
			print_error("seed %llu:\n%s\n---\n%s", (unsigned long long)seed, s.text.p, t.text.p);
		assert_true(str_eq(s.text, t.text));
		assert_true(hash_eq(&s.hash, &t.hash));
		assert_true(hash_eq(&s.structure, &t.structure));
		if (s.g.n_nodes <= SPEC_MAX_NODES && !spec_read(&a, s.text, &again, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		arena_fini(&a);
	}
}

/* All tensors of g by value, computed one by one. */
static void **
all_values(struct arena *a, const struct graph *g, const void *const *inputs)
{
	struct graph h = *g;
	void **out = NEW_ARRAY(a, void *, g->n_tensors);
	struct err e = {0};

	h.outputs = NEW_ARRAY(a, tensor_id, g->n_tensors);
	h.output_names = NEW_ARRAY(a, const char *, g->n_tensors);
	h.n_outputs = g->n_tensors;
	for (uint32_t t = 0; t < g->n_tensors; t++)
		h.outputs[t] = (tensor_id){t};
	assert_true(interp_run(a, &h, inputs, NULL, out, &e));
	return out;
}

static void
a_spec_computes_what_its_members_did(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 7919};
		struct graph g;
		struct bitset members;
		struct spec s;
		struct spec_binding b;
		struct err e = {0};
		tensor_id *exports;
		const void **operands;
		void **values, **results;
		uint32_t n;

		make_graph(&g, &a, &r);
		exports = NEW_ARRAY(&a, tensor_id, g.n_nodes);
		n = choose(&a, &r, &g, &members, exports);
		if (n) {
			values = all_values(&a, &g, random_inputs(&a, &r, &g));
			spec_make(&a, &g, &members, exports, n, &s, &b);
			assert_int_equal(b.n_operands, s.g.n_inputs);
			assert_int_equal(b.n_results, n);
			operands = NEW_ARRAY(&a, const void *, b.n_operands + 1);
			results = NEW_ARRAY(&a, void *, n);
			for (uint32_t i = 0; i < b.n_operands; i++) {
				assert_int_equal(s.g.inputs[i].i, i);
				operands[i] = values[b.operands[i].i];
			}
			assert_true(interp_run(&a, &s.g, operands, NULL, results, &e));
			for (uint32_t i = 0; i < n; i++) {
				const struct tensor *x = graph_tensor(&g, b.results[i]);
				double d = values_distance(
				    x->type, &x->shape, results[i], values[b.results[i].i], 1e-30);

				if (!(d == 0))
					fail_msg("seed %llu: result %u is off by %g",
					    (unsigned long long)seed, i, d);
			}
		}
		arena_fini(&a);
	}
}

static void
hash_of_text(const char *text, struct hash *full, struct hash *form)
{
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};

	if (!graph_read(&g, &a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(&a, &g, &s);
	*full = s.hash;
	*form = s.structure;
	arena_fini(&a);
}

#define PAIR(A, B)                                                                                           \
	"%0 = input f32[4,6]\n%1 = input f32[4,6]\n%2 = const f32[4,6] "                                     \
	"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24\n" A "\n" B "\noutput %4\n"

static void
different_computations_differ(void **state)
{
	static const char *const texts[] = {
	    PAIR("%3 = sub %0 %1", "%4 = exp %3"),
	    PAIR("%3 = sub %0 %0", "%4 = exp %3"),
	    PAIR("%3 = sub %0 %1", "%4 = neg %3"),
	    PAIR("%3 = add %0 %1", "%4 = exp %3"),
	    PAIR("%3 = sub %0 %1", "%4 = sub %3 %0"),
	    PAIR("%3 = sub %0 %1", "%4 = sub %0 %3"),
	    PAIR("%3 = sub %0 %1", "%4 = sub %3 %1"),
	    PAIR("%3 = sub %0 %2", "%4 = exp %3"),
	    PAIR("%3 = sub %0 %1", "%4 = sum %3 axes=[0]"),
	    PAIR("%3 = sub %0 %1", "%4 = sum %3 axes=[1]"),
	    PAIR("%3 = sub %0 %1", "%4 = exp %3\noutput %3"),
	    "%0 = input f32[4,7]\n%1 = input f32[4,7]\n%3 = sub %0 %1\n%4 = exp %3\noutput %4\n",
	    "%0 = weight f32[4,6]\n%1 = input f32[4,6]\n%3 = sub %0 %1\n%4 = exp %3\noutput %4\n",
	    "%0 = input f64[4,6]\n%1 = input f64[4,6]\n%3 = sub %0 %1\n%4 = exp %3\noutput %4\n",
	};
	struct hash full[COUNT_OF(texts)], form[COUNT_OF(texts)];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		hash_of_text(texts[i], &full[i], &form[i]);
		for (size_t k = 0; k < i; k++)
			assert_false(hash_eq(&full[i], &full[k]));
	}
	assert_true(hash_eq(&form[0], &form[11])); /* extents only */
	assert_false(hash_eq(&form[0], &form[1]));
	assert_false(hash_eq(&form[0], &form[12]));
}

/* Colours alone do not tell a cycle of six shared operands from two cycles of three: here only
 * making one special and refining again decides.  The least text wins whatever came first. */
static void
symmetric_sums_are_canonical(void **state)
{
	static const int cycles[2][6][2] = {
	    {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}},
	    {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5}, {5, 3}},
	};
	struct hash seen[2], form;

	(void)state;
	for (int c = 0; c < 2; c++)
		for (uint64_t seed = 1; seed <= 20; seed++) {
			struct arena a = {0};
			struct rng r = {seed};
			struct strbuf sb;
			int order[6] = {0, 1, 2, 3, 4, 5};
			struct hash h;

			sb_init(&sb, &a);
			for (int i = 5; i > 0; i--) {
				int k = (int)rng_below(&r, (uint32_t)i + 1), t = order[i];

				order[i] = order[k];
				order[k] = t;
			}
			for (int i = 0; i < 6; i++)
				sb_addf(&sb, "%%%d = input f32[3]\n", i);
			for (int i = 0; i < 6; i++)
				sb_addf(&sb, "%%%d = mul %%%d %%%d\noutput %%%d\n", 6 + i,
				    order[cycles[c][order[i]][0]], order[cycles[c][order[i]][1]], 6 + i);
			hash_of_text(sb.p, &h, &form);
			if (seed == 1)
				seen[c] = h;
			assert_true(hash_eq(&h, &seen[c]));
			arena_fini(&a);
		}
	assert_false(hash_eq(&seen[0], &seen[1]));
}

static void
text_survives_reading(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct rng r = {seed * 31};
		struct graph g, h, k;
		struct strbuf x, y;
		struct err e = {0};

		make_graph(&g, &a, &r);
		sb_init(&x, &a);
		sb_init(&y, &a);
		graph_print(&x, &g);
		if (!graph_read(&h, &a, sb_str(&x), &e))
			fail_msg("%s", e.msg);
		graph_print(&y, &h);
		assert_string_equal(x.p, y.p);
		graph_sort(&k, &a, &h, NULL);
		sb_init(&y, &a);
		graph_print(&y, &k);
		assert_string_equal(x.p, y.p);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(order_and_names_do_not_matter),
	    cmocka_unit_test(a_spec_computes_what_its_members_did),
	    cmocka_unit_test(different_computations_differ),
	    cmocka_unit_test(symmetric_sums_are_canonical),
	    cmocka_unit_test(text_survives_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
