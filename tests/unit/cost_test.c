/* tests/unit/cost_test.c: bounds count what must be done and no more. */
#include "../../kernels/cost/box.h"
#include "../../kernels/cost/cost.h"
#include "../../kernels/interp/interp.h"
#include "../prop/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static const struct hw simple = {
    .flops_peak = 1e9, /* one a nanosecond */
    .bytes_per_s = {8e9, 4e9, 2e9, 1e9},
    .level_bytes = {1000, 10000, 100000},
    .call_ns = 5,
    .simd_bytes = 32,
    .n_threads = 1,
};

static struct cost_parts
parts_of(const char *text, int64_t *ns)
{
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	struct cost_parts p;

	if (!graph_read(&g, &a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(&a, &g, &s);
	int64_t t = cost_bound_ns(&s, &simple, &p);
	if (ns)
		*ns = t;
	arena_fini(&a);
	return p;
}

static void
a_map_reads_and_writes_each_element_once(void **state)
{
	int64_t ns;
	struct cost_parts p = parts_of("%0 = input f32[1000]\n%1 = relu %0 : f32[1000]\noutput %1\n", &ns);

	(void)state;
	assert_true(p.bytes == 8000 && p.flops == 1000);
	/* 7 copies of 8,000 bytes go round: 1,000 of 56,000 are found in the first level, 9,000 more in
	 * the second, the rest in the third. */
	assert_true(fabs(p.byte_ns - 8000.0 / 56000 * (1000.0 / 8 + 9000.0 / 4 + 46000.0 / 2)) < 1e-6);
	assert_int_equal(ns, 3630);
}

static void
only_what_is_read_counts(void **state)
{
	(void)state;
	struct cost_parts p = parts_of("%0 = input f32[1000]\n"
				       "%1 = slice %0 shape=[10] start=[5] step=[3] : f32[10]\n"
				       "%2 = relu %1 : f32[10]\noutput %2\n",
	    NULL);
	assert_true(p.bytes == 80);
	p = parts_of("%0 = input f32[1,8]\n%1 = bcast %0 shape=[50,8] : f32[50,8]\n"
		     "%2 = exp %1 : f32[50,8]\noutput %2\n",
	    NULL);
	assert_true(p.bytes == 32 + 1600);
	assert_true(p.flops == 12 * 8); /* the same in every row: once */
	p = parts_of("%0 = input f32[10]\n%1 = input f32[10]\n%2 = concat %0 %1 axis=0 : f32[20]\n"
		     "%3 = slice %2 shape=[5] start=[10] step=[1] : f32[5]\noutput %3\n",
	    NULL);
	assert_true(p.bytes == 20 + 20);
	p = parts_of(
	    "%0 = input f32[10]\n%1 = pad %0 lo=[3] hi=[3] mode=1 value=0x0p+0 : f32[16]\noutput %1\n", NULL);
	assert_true(p.bytes == 40 + 64);
}

static void
border_taps_are_left_out(void **state)
{
	(void)state;
	struct cost_parts p = parts_of("%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,4,16]\n"
				       "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] "
				       "ldil=[1,1] group=1 : f32[1,8,8,16]\n"
				       "output %2\n",
	    NULL);
	assert_true(p.flops == 2.0 * 22 * 22 * 4 * 16);
	assert_true(p.bytes == 4.0 * (256 + 576 + 1024));
	p = parts_of("%0 = input f32[1,8,8,4]\n%1 = weight f32[5,5,4,16]\n"
		     "%2 = conv %0 %1 lo=[2,2] hi=[2,2] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : "
		     "f32[1,8,8,16]\n"
		     "output %2\n",
	    NULL);
	assert_true(p.flops == 2.0 * 34 * 34 * 4 * 16);
}

static void
a_strided_convolution_reads_what_it_touches(void **state)
{
	(void)state;
	struct cost_parts p = parts_of("%0 = input f32[1,8,8,4]\n%1 = weight f32[1,1,4,16]\n"
				       "%2 = conv %0 %1 lo=[0,0] hi=[0,0] stride=[2,2] dilation=[1,1] "
				       "ldil=[1,1] group=1 : f32[1,4,4,16]\n"
				       "output %2\n",
	    NULL);
	assert_true(p.bytes == 4.0 * (4 * 4 * 4 + 64 + 256));
	assert_true(p.flops == 2.0 * 16 * 4 * 16);
}

static void
levels_are_chosen_by_size(void **state)
{
	(void)state;
	struct cost_parts p = parts_of("%0 = input f32[100]\n%1 = relu %0 : f32[100]\noutput %1\n", NULL);
	assert_true(fabs(p.byte_ns - 800.0 / 41600 * (1000.0 / 8 + 9000.0 / 4 + 31600.0 / 2)) < 1e-6);
	p = parts_of("%0 = input f32[100000]\n%1 = relu %0 : f32[100000]\noutput %1\n", NULL);
	assert_true(fabs(p.byte_ns - 0.5 * (1000.0 / 8 + 9000.0 / 4 + 90000.0 / 2 + 1500000)) < 1e-3);
}

/* What a chain of views shows is counted, and no more. */
static void
views_are_followed(void **state)
{
	static const struct {
		const char *text;
		double bytes;
	} rows[] = {
	    /* every other row and column, four times: all of it */
	    {"%0 = input f32[8,8]\n%1 = slice %0 shape=[4,4] start=[0,0] step=[2,2]\n%2 = slice %0 "
	     "shape=[4,4] start=[0,1] step=[2,2]\n"
	     "%3 = slice %0 shape=[4,4] start=[1,0] step=[2,2]\n%4 = slice %0 shape=[4,4] start=[1,1] "
	     "step=[2,2]\n"
	     "%5 = concat %1 %2 %3 %4 axis=1\n%6 = relu %5\noutput %6\n",
		4 * 64 + 4 * 64},
	    /* the second part and half of the third, backwards */
	    {"%0 = input f32[10,3]\n%1 = input f32[10,4]\n%2 = input f32[10,6]\n%3 = concat %0 %1 %2 axis=1\n"
	     "%4 = slice %3 shape=[5,7] start=[8,9] step=[-2,-1]\n%5 = exp %4\noutput %5\n",
		4 * 5 * 7 * 2},
	    /* through transpose, reshape and a sum over what is left */
	    {"%0 = input f32[4,6,5]\n%1 = transpose %0 perm=[1,0,2]\n%2 = reshape %1 shape=[2,3,20]\n"
	     "%3 = slice %2 shape=[1,3,20] start=[1,0,0] step=[1,1,1]\n%4 = sum %3 axes=[2]\noutput %4\n",
		4 * (60 + 3)},
	    /* what a pad adds is not read */
	    {"%0 = input f32[10]\n%1 = pad %0 lo=[3] hi=[3] mode=0 value=0x0p+0\n%2 = slice %1 shape=[6] "
	     "start=[0] step=[1]\n"
	     "%3 = exp %2\noutput %3\n",
		4 * (3 + 6)},
	    /* channels of a convolution's result: their weights alone, and rows with their neighbours */
	    {"%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,4,16]\n"
	     "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n"
	     "%3 = slice %2 shape=[1,2,8,5] start=[0,3,0,2] step=[1,1,1,1]\noutput %3\n",
		4 * (4 * 8 * 4 + 9 * 4 * 5 + 2 * 8 * 5)},
	    /* of a product the rows and the columns */
	    {"%0 = input f32[7,9]\n%1 = input f32[9,8]\n%2 = matmul %0 %1\n%3 = slice %2 shape=[2,3] "
	     "start=[1,1] step=[3,2]\n"
	     "output %3\n",
		4 * (2 * 9 + 9 * 3 + 6)},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		double bytes = parts_of(rows[i].text, NULL).bytes;

		if (bytes != rows[i].bytes)
			fail_msg("%g bytes instead of %g:\n%s", bytes, rows[i].bytes, rows[i].text);
	}
}

/* An element whose change reaches a result is needed; counts stay at or under what is. */
static double
needed_bytes(struct arena *a, const struct graph *g)
{
	const void **in = NEW_ARRAY(a, const void *, g->n_inputs);
	void **base = NEW_ARRAY(a, void *, g->n_outputs), **out = NEW_ARRAY(a, void *, g->n_outputs);
	struct rng r = {77};
	struct err e = {0};
	double bytes = 0;

	for (uint32_t i = 0; i < g->n_inputs; i++)
		in[i] = random_values(a, &r, DT_f32, &graph_tensor(g, g->inputs[i])->shape);
	if (!interp_run(a, g, in, NULL, base, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		float *x = (float *)(uintptr_t)in[i];

		for (int64_t k = 0; k < shape_count(&graph_tensor(g, g->inputs[i])->shape); k++) {
			struct arena tmp = {0};
			float was = x[k];
			bool differs = false;

			x[k] = NAN;
			if (!interp_run(&tmp, g, in, NULL, out, &e))
				fail_msg("%s", e.msg);
			for (uint32_t o = 0; o < g->n_outputs && !differs; o++)
				differs =
				    memcmp(base[o], out[o],
					(size_t)shape_count(&graph_tensor(g, g->outputs[o])->shape) * 4) != 0;
			bytes += differs ? 4 : 0;
			x[k] = was;
			arena_fini(&tmp);
		}
	}
	for (uint32_t i = 0; i < g->n_outputs; i++)
		bytes += 4 * (double)shape_count(&graph_tensor(g, g->outputs[i])->shape);
	return bytes;
}

static bool
all_floats(const struct graph *g)
{
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (g->tensors[t].type != DT_f32)
			return false;
	return true;
}

static void
bytes_never_exceed_what_results_depend_on(void **state)
{
	static const uint32_t kinds[] = {RG_LAYOUT | RG_BCAST, RG_LAYOUT | RG_CONV,
	    RG_LAYOUT | RG_MATMUL | RG_REDUCE, RG_LAYOUT | RG_WINDOW};
	double bound = 0, truth = 0;
	uint32_t n = 0, n_equal = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 800; seed++) {
		struct arena a = {0};
		struct random_opts ro = {.n_nodes = 1 + (uint32_t)(seed % 9),
		    .kinds = kinds[seed % COUNT_OF(kinds)],
		    .chain = seed % 3 > 0,
		    .max_extent = 6,
		    .max_elements = 200};
		struct rng r = {seed};
		struct graph g, sorted;
		struct spec s;
		struct cost_parts p;
		double most;

		random_graph(&g, &a, &r, &ro);
		graph_sort(&sorted, &a, &g, NULL);
		if (sorted.n_nodes && sorted.n_nodes <= SPEC_MAX_NODES && all_floats(&sorted)) {
			spec_of_graph(&a, &sorted, &s);
			(void)cost_bound_ns(&s, &simple, &p);
			most = needed_bytes(&a, &s.g);
			if (p.bytes > most)
				fail_msg("seed %llu: %g bytes, and %g are needed\n%.*s",
				    (unsigned long long)seed, p.bytes, most, STR_ARG(s.text));
			bound += p.bytes;
			truth += most;
			n++;
			n_equal += p.bytes >= most;
		}
		arena_fini(&a);
	}
	print_message(
	    "%u graphs, %u counted exactly, %.1f %% of the bytes in all\n", n, n_equal, 100 * bound / truth);
	assert_true(n > 200 && n_equal * 10 > n * 8);
}

static double
all_bytes(const struct spec *s)
{
	double b = 0;

	for (uint32_t t = 0; t < s->g.n_tensors; t++)
		if (s->g.tensors[t].role == ROLE_INPUT || s->g.tensors[t].role == ROLE_WEIGHT)
			b += (double)shape_count(&s->g.tensors[t].shape) *
			    (double)dtype_size(s->g.tensors[t].type);
	for (uint32_t i = 0; i < s->g.n_outputs; i++) {
		const struct tensor *t = graph_tensor(&s->g, s->g.outputs[i]);
		b += (double)shape_count(&t->shape) * (double)dtype_size(t->type);
	}
	return b;
}

/* node_flops spreads the zeros between elements (ldil) evenly; few results may meet fewer. */
static double
most_flops(const struct graph *g, const struct node *n)
{
	double f = node_flops(g, n);

	if (n->prim == PRIM_conv)
		for (int i = 0; i < graph_tensor(g, n->in[0])->shape.rank - 2; i++)
			f *= (double)at_ints(&n->at, ATTR_ldil)[i];
	return f;
}

static void
bounds_never_exceed_the_plain_counts(void **state)
{
	struct random_opts ro = {.n_nodes = 10, .kinds = RG_ALL};

	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, sorted;
		struct spec s;
		struct cost_parts p;
		double flops = 0;

		random_graph(&g, &a, &r, &ro);
		graph_sort(&sorted, &a, &g, NULL);
		if (sorted.n_nodes <= SPEC_MAX_NODES) {
			spec_of_graph(&a, &sorted, &s);
			int64_t ns = cost_bound_ns(&s, &simple, &p);
			for (uint32_t i = 0; i < s.g.n_nodes; i++)
				flops += most_flops(&s.g, &s.g.nodes[i]);
			assert_true(ns >= 1);
			assert_true(p.flops <= flops * (1 + 1e-9) + 1e-9);
			assert_true(p.bytes <= all_bytes(&s));
			assert_true(cost_bound_ns(&s, &hw_fastest, NULL) <= ns + 1);
		}
		arena_fini(&a);
	}
}

/* 36 products of 144, but only where that is allowed, and of convolutions that may have the form. */
static void
winograd_takes_a_fourth(void **state)
{
	static const struct {
		const char *text;
		double direct;
		bool saves;
	} rows[] = {
	    {"%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,4,5]\n"
	     "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %2\n",
		2.0 * 36 * 9 * 4 * 5, true},
	    {"%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,2,6]\n"
	     "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=2\noutput %2\n",
		2.0 * 36 * 9 * 2 * 6, false},
	    {"%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,4,5]\n"
	     "%2 = conv %0 %1 stride=[2,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %2\n",
		2.0 * 18 * 9 * 4 * 5, false},
	    {"%0 = input f32[1,8,8,4]\n%1 = input f32[3,3,4,5]\n"
	     "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %2\n",
		2.0 * 36 * 9 * 4 * 5, false},
	    {"%0 = input f32[1,8,8,4]\n%1 = weight f32[1,3,4,5]\n"
	     "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %2\n",
		2.0 * 48 * 3 * 4 * 5, false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct hw hw = hw_fastest;
		struct cost_parts p;
		struct graph g;
		struct spec s;
		struct err e = {0};

		assert_true(graph_read(&g, &a, str_of(rows[i].text), &e));
		spec_of_graph(&a, &g, &s);
		assert_int_equal(spec_winograd(&s), rows[i].saves);
		(void)cost_bound_ns(&s, &hw, &p);
		assert_true(p.flops == (rows[i].saves ? rows[i].direct / 4 : rows[i].direct));
		hw.winograd = false;
		(void)cost_bound_ns(&s, &hw, &p);
		assert_true(p.flops == rows[i].direct);
		arena_fini(&a);
	}
}

/* What the first hands to the second stays inside; both are computed. */
static void
a_pair_of_anchors_counts_both_and_not_what_is_between(void **state)
{
	struct cost_parts p =
	    parts_of("%0 = input f32[64,16]\n%1 = weight f32[16,128]\n%2 = weight f32[128,8]\n"
		     "%3 = matmul %0 %1\n%4 = matmul %3 %2\noutput %4\n",
		NULL);

	(void)state;
	assert_true(p.flops == 2.0 * 64 * 16 * 128 + 2.0 * 64 * 128 * 8);
	assert_true(p.bytes == 4.0 * (64 * 16 + 16 * 128 + 128 * 8 + 64 * 8));
}

/* Tensor cores take linear primitives, beside the other units; the rest stays with those. */
static void
tensor_cores_lower_linear_bounds(void **state)
{
	static const char text[] =
	    "%0 = input f32[64,64]\n%1 = input f32[64,64]\n%2 = matmul %0 %1 : f32[64,64]\n"
	    "%3 = exp %2 : f32[64,64]\noutput %3\n";
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	struct cost_parts p;
	struct hw hw = simple;

	(void)state;
	assert_true(graph_read(&g, &a, str_of(text), &e));
	spec_of_graph(&a, &g, &s);
	(void)cost_bound_ns(&s, &hw, &p);
	assert_true(p.linear_flops == 2.0 * 64 * 64 * 64 && p.flops == p.linear_flops + 12.0 * 64 * 64);
	assert_true(fabs(p.flop_ns - p.flops) < 1e-6);
	hw.tensor_peak = 3e9;
	(void)cost_bound_ns(&s, &hw, &p);
	assert_true(fabs(p.flop_ns - p.flops / 4) < 1e-6);
	hw.tensor_peak = 1e15; /* the exponentials are left */
	(void)cost_bound_ns(&s, &hw, &p);
	assert_true(fabs(p.flop_ns - 12.0 * 64 * 64) < 1e-6);
	arena_fini(&a);
}

/* Tap by tap. */
static double
taps_one_by_one(const struct window *w, int64_t at, int64_t step, int64_t n, double *touched)
{
	double taps = 0;
	int64_t latest = -1;

	*touched = 0;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < w->k; k++) {
			const int64_t x = (at + i * step) * w->stride + k * w->dilation - w->lo;

			if (x < 0 || x % w->ldil || x / w->ldil >= w->have)
				continue;
			taps++;
			*touched += x / w->ldil > latest;
			latest = MAX_OF(latest, x / w->ldil);
		}
	return taps;
}

static void
taps_of_many_positions_are_those_of_each(void **state)
{
	struct rng r = {7};

	(void)state;
	for (int turn = 0; turn < 200000; turn++) {
		const struct window w = {.have = 1 + (int64_t)rng_below(&r, 30),
		    .k = 1 + (int64_t)rng_below(&r, 9),
		    .stride = 1 + (int64_t)rng_below(&r, 5),
		    .dilation = 1 + (int64_t)rng_below(&r, 4),
		    .lo = (int64_t)rng_below(&r, 12) - 3,
		    .ldil = rng_below(&r, 4) ? 1 : 1 + (int64_t)rng_below(&r, 3)};
		const int64_t at = (int64_t)rng_below(&r, 5), step = 1 + (int64_t)rng_below(&r, 3),
			      n = (int64_t)rng_below(&r, 25);
		double touched, really;

		assert_true(
		    window_taps(&w, at, step, n, &touched) == taps_one_by_one(&w, at, step, n, &really) &&
		    touched == really);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_map_reads_and_writes_each_element_once),
	    cmocka_unit_test(only_what_is_read_counts),
	    cmocka_unit_test(views_are_followed),
	    cmocka_unit_test(bytes_never_exceed_what_results_depend_on),
	    cmocka_unit_test(border_taps_are_left_out),
	    cmocka_unit_test(a_strided_convolution_reads_what_it_touches),
	    cmocka_unit_test(a_pair_of_anchors_counts_both_and_not_what_is_between),
	    cmocka_unit_test(winograd_takes_a_fourth),
	    cmocka_unit_test(levels_are_chosen_by_size),
	    cmocka_unit_test(tensor_cores_lower_linear_bounds),
	    cmocka_unit_test(bounds_never_exceed_the_plain_counts),
	    cmocka_unit_test(taps_of_many_positions_are_those_of_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
