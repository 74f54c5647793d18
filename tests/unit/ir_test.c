/* Graphs: alternatives and circles, sorting, indexing, what is known of a node, hostile text. */
#include "../../kernels/ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tensor_id
map1(struct graph *g, enum prim p, tensor_id x)
{
	struct err e = {0};
	tensor_id out;

	assert_true(graph_add(g, p, &x, 1, NULL, NO_NODE, &out, &e));
	return out;
}

static bool
alt1(struct graph *g, enum prim p, tensor_id x, tensor_id out, struct err *e)
{
	return graph_add_alt(g, p, &x, 1, NULL, NO_NODE, NUM_REASSOC, out, e);
}

static void
alternatives_never_close_a_circle(void **state)
{
	struct arena a = {0};
	struct graph g, s;
	struct shape sh = shape_make(1, (int64_t[]){4});
	struct err e = {0};
	tensor_id x, y, z, w, map[8];

	(void)state;
	graph_init(&g, &a);
	x = graph_input(&g, DT_f32, &sh, "x");
	y = map1(&g, PRIM_exp, x);
	z = map1(&g, PRIM_neg, x);
	assert_true(alt1(&g, PRIM_abs, z, y, &e));  /* y = exp x or abs z */
	assert_false(alt1(&g, PRIM_abs, y, z, &e)); /* z from y from z */
	assert_int_equal(e.code, ERR_MODEL);
	assert_false(alt1(&g, PRIM_abs, y, y, &e));
	w = map1(&g, PRIM_sqrt, y);
	assert_false(alt1(&g, PRIM_abs, w, z, &e)); /* through the alternative */
	assert_false(alt1(&g, PRIM_abs, z, x, &e)); /* x is given */
	graph_output(&g, w, NULL);
	graph_sort(&s, &a, &g, map);
	graph_verify(&s);
	assert_int_equal(s.n_nodes, 4);
	assert_int_equal(s.nodes[2].num + s.nodes[1].num, NUM_REASSOC);
	assert_int_equal(graph_tensor(&s, map[w.i])->shape.dim[0], 4);
	arena_fini(&a);
}

static void
an_alternative_has_the_type_and_shape(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct shape sh = shape_make(2, (int64_t[]){4, 2}), other = shape_make(2, (int64_t[]){2, 4});
	struct err e = {0};
	tensor_id x, y, z;

	(void)state;
	graph_init(&g, &a);
	x = graph_input(&g, DT_f32, &sh, NULL);
	y = map1(&g, PRIM_exp, x);
	z = graph_input(&g, DT_f32, &other, NULL);
	assert_false(alt1(&g, PRIM_exp, z, y, &e));
	z = graph_input(&g, DT_f64, &sh, NULL);
	assert_false(alt1(&g, PRIM_exp, z, y, &e));
	arena_fini(&a);
}

/* Random alternatives: whatever is accepted sorts and verifies. */
static void
random_alternatives_sort(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, s, again;
		struct shape sh = shape_make(1, (int64_t[]){3});
		struct err e = {0};
		struct strbuf p, q;

		graph_init(&g, &a);
		(void)graph_input(&g, DT_f32, &sh, NULL);
		for (int i = 0; i < 12; i++)
			(void)map1(&g, PRIM_exp, (tensor_id){rng_below(&r, g.n_tensors)});
		for (int i = 0; i < 30; i++) {
			tensor_id from = {rng_below(&r, g.n_tensors)}, to = {rng_below(&r, g.n_tensors)};

			(void)alt1(&g, PRIM_neg, from, to, &e);
		}
		graph_output(&g, (tensor_id){g.n_tensors - 1}, NULL);
		graph_output(&g, (tensor_id){rng_below(&r, g.n_tensors)}, NULL);
		graph_sort(&s, &a, &g, NULL);
		graph_verify(&s);
		graph_sort(&again, &a, &s, NULL);
		sb_init(&p, &a);
		sb_init(&q, &a);
		graph_print(&p, &s);
		graph_print(&q, &again);
		assert_string_equal(p.p, q.p);
		arena_fini(&a);
	}
}

static void
read_text(struct graph *g, struct arena *a, const char *text)
{
	struct err e = {0};

	if (!graph_read(g, a, str_of(text), &e))
		fail_msg("%s", e.msg);
}

static void
makers_and_readers(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct graph_index x;

	(void)state;
	read_text(
	    &g, &a, "%0 = input f32[2]\n%1 = exp %0\n%2 = mul %1 %1\n%3 = add %2 %1\n%1 = abs %0 !reassoc\n");
	x = graph_index_make(&a, &g);
	assert_int_equal(x.maker_first[1] - x.maker_first[0], 0);
	assert_int_equal(x.maker_first[2] - x.maker_first[1], 2);
	assert_int_equal(x.maker[x.maker_first[1]], 0);
	assert_int_equal(x.maker[x.maker_first[1] + 1], 3);
	assert_int_equal(x.reader_first[2] - x.reader_first[1], 2); /* mul once, add */
	assert_int_equal(x.reader[x.reader_first[1]], 1);
	assert_int_equal(x.reader[x.reader_first[1] + 1], 2);
	assert_int_equal(x.reader_first[4] - x.reader_first[3], 0);
	arena_fini(&a);
}

static void
anchors_have_arithmetic(void **state)
{
	static const struct {
		const char *text;
		bool anchor;
		double flops;
	} rows[] = {
	    {"%0 = input f32[64,64]\n%1 = input f32[64,64]\n%2 = matmul %0 %1\n", true, 524288},
	    {"%0 = input f32[1,64]\n%1 = input f32[64,64]\n%2 = matmul %0 %1\n", false, 8192},
	    {"%0 = input f32[4,4]\n%1 = input f32[4,4]\n%2 = matmul %0 %1\n", false, 128},
	    {"%0 = input f32[1,9,9,8]\n%1 = weight f32[3,3,8,16]\n%2 = conv %0 %1 stride=[1,1] "
	     "dilation=[1,1] "
	     "ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n",
		true, 2.0 * 81 * 16 * 72},
	    {"%0 = input f32[1,9,9,8]\n%1 = weight f32[3,3,1,8]\n%2 = conv %0 %1 stride=[1,1] dilation=[1,1] "
	     "ldil=[1,1] lo=[1,1] hi=[1,1] group=8\n",
		false, 2.0 * 81 * 8 * 9},
	    {"%0 = input f32[8,8]\n%2 = sum %0 axes=[1]\n", false, 64},
	    {"%0 = input f32[8,8]\n%2 = transpose %0 perm=[1,0]\n", false, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct graph g;

		read_text(&g, &a, rows[i].text);
		assert_int_equal(node_is_anchor(&g, &g.nodes[0]), rows[i].anchor);
		assert_true(node_flops(&g, &g.nodes[0]) == rows[i].flops);
		arena_fini(&a);
	}
}

/* Lines cut, doubled and with a byte changed: an error or a valid graph, never anything else. */
static void
broken_text_is_refused(void **state)
{
	static const char text[] =
	    "%0 = input f32[1,4,4,3] \"x\"\n%1 = weight f32[3,3,3,8] \"w\"\n"
	    "%2 = const f32[2,1] 0x1p-1 -inf\n%3 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] "
	    "lo=[1,1] "
	    "hi=[1,1] group=1 : f32[1,4,4,8]\n%4 = exp %3 : f32[1,4,4,8]\n%5 %6 = topk %4 axis=3 k=2 "
	    "largest=1\n"
	    "%4 = mul %3 %3 !precision\n%7 = cast %6 to=f16\noutput %7 \"y\"\noutput %5\n";
	uint32_t n_good = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 5000; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, s;
		struct err e = {0};
		char *copy = arena_dup(&a, text, sizeof(text));
		struct str t = {copy, sizeof(text) - 1};

		for (uint32_t k = 1 + rng_below(&r, 3); k > 0; k--)
			copy[rng_below(&r, (uint32_t)t.n)] =
			    (char)(rng_below(&r, 3) ? text[rng_below(&r, sizeof(text) - 1)]
						    : (char)rng_next(&r));
		if (rng_below(&r, 4) == 0)
			t.n = rng_below(&r, (uint32_t)t.n);
		if (graph_read(&g, &a, t, &e)) {
			graph_sort(&s, &a, &g, NULL);
			graph_verify(&s);
			n_good++;
		} else {
			assert_true(str_starts(str_of(e.msg), "line "));
		}
		arena_fini(&a);
	}
	assert_true(n_good > 50 && n_good < 4000);
}

static void
specs_from_outside_are_checked(void **state)
{
	static const char *const bad[] = {
	    "", "spec 1\n", "spec 2\n%0 = input f32[2]\n%1 = exp %0 : f32[2]\noutput %1\n",
	    "spec 1\n%0 = input f32[2] \"x\"\n%1 = exp %0 : f32[2]\noutput %1\n", /* a name */
	    "spec 1\n%0 = input f32[2]\n%1 = exp %0\noutput %1\n",                /* no type */
	    "spec 1\n%1 = input f32[2]\n%0 = exp %1 : f32[2]\noutput %0\n",       /* numbers */
	    "spec 1\n%0 = input f32[2]\n%1 = exp %0 : f32[2]\n%2 = neg %0 : f32[2]\noutput %1\n", /* dead */
	    "spec 1\n%0 = input f32[2]\n%1 = exp %0 : f32[2]\noutput %1\noutput %0\n",
	    "spec 1\n%0 = input f32[2]\n%1 = exp %0 : f32[2]\n%1 = neg %0 : f32[2]\noutput %1\n",
	    "spec 1\n%0 = input f32[2]\n%1 = exp %0 : f32[2]\noutput %1", /* no line end */
	};
	struct arena a = {0};
	struct spec s;
	struct err e = {0};

	(void)state;
	assert_true(
	    spec_read(&a, STR("spec 1\n%0 = input f32[2]\n%1 = exp %0 : f32[2]\noutput %1\n"), &s, &e));
	assert_int_equal(s.g.n_inputs, 1);
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		if (spec_read(&a, str_of(bad[i]), &s, &e))
			fail_msg("accepted: %s", bad[i]);
		assert_true(str_starts(str_of(e.msg), "reading a kernel spec: "));
	}
	arena_fini(&a);
}

static void
weights_are_operands_without_data(void **state)
{
	static const float big[5000];
	struct arena a = {0};
	struct graph g;
	struct shape sh = shape_make(1, (int64_t[]){5000});
	struct bitset all;
	struct spec s;
	struct spec_binding b;
	struct err e = {0};
	tensor_id in[2], out;

	(void)state;
	graph_init(&g, &a);
	in[0] = graph_input(&g, DT_f32, &sh, "x");
	in[1] = graph_const(&g, ROLE_CONST, DT_f32, &sh, big, NULL); /* too large to travel */
	assert_true(graph_add(&g, PRIM_sub, in, 2, NULL, 3, &out, &e));
	all = bitset_make(&a, 1);
	bit_set(&all, 0);
	spec_make(&a, &g, &all, &out, 1, &s, &b);
	assert_string_equal(s.text.p,
	    "spec 1\n%0 = input f32[5000]\n%1 = weight f32[5000]\n%2 = sub %0 %1 : f32[5000]\noutput %2\n");
	assert_int_equal(b.n_operands, 2);
	assert_int_equal(b.operands[1].i, in[1].i);
	assert_int_equal(s.g.n_inputs, 2);
	arena_fini(&a);
}

static void
attributes_keep_the_order_of_keys(void **state)
{
	struct attrs x = {0}, y = {0};

	(void)state;
	at_int(&x, ATTR_group, 2);
	at_list(&x, ATTR_stride, 2, (int64_t[]){1, 2});
	at_list(&y, ATTR_stride, 2, (int64_t[]){9, 9});
	at_list(&y, ATTR_stride, 2, (int64_t[]){1, 2});
	assert_false(attrs_eq(&x, &y));
	at_int(&y, ATTR_group, 2);
	assert_true(attrs_eq(&x, &y));
	assert_int_equal(x.n, 2);
	assert_true(x.a[0].key < x.a[1].key);
	assert_null(at_find(&x, ATTR_axis));
	at_real(&x, ATTR_value, -0.0);
	at_real(&y, ATTR_value, 0.0);
	assert_false(attrs_eq(&x, &y));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(alternatives_never_close_a_circle),
	    cmocka_unit_test(an_alternative_has_the_type_and_shape),
	    cmocka_unit_test(random_alternatives_sort),
	    cmocka_unit_test(makers_and_readers),
	    cmocka_unit_test(anchors_have_arithmetic),
	    cmocka_unit_test(broken_text_is_refused),
	    cmocka_unit_test(specs_from_outside_are_checked),
	    cmocka_unit_test(weights_are_operands_without_data),
	    cmocka_unit_test(attributes_keep_the_order_of_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
