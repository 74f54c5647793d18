/* A kernel as numbers: counts of known kernels, no name or order in them, finite whatever the kernel. */
#include "../../kernels/predict/program.h"
#include "../../kernels/predict/sample.h"
#include "../prop/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static const struct hw host = {
    .flops_peak = 1e11,
    .bytes_per_s = {1e11, 5e10, 2e10, 1e10},
    .level_bytes = {32768, 524288, 16777216},
    .call_ns = 20,
    .simd_bytes = 64,
    .n_threads = 1,
};

static void
read_spec(struct arena *a, const char *text, struct spec *s)
{
	struct graph g;
	struct err e = {0};

	if (!graph_read(&g, a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(a, &g, s);
}

static void
make(struct arena *a, const char *text, const char *schedule, struct sample *out)
{
	struct spec s;
	struct err e = {0};

	read_spec(a, text, &s);
	if (!sample_make(a, &s, str_of(schedule), &target_avx512, &host, STR(""), out, &e))
		fail_msg("%s", e.msg);
}

static const char product[] = "%0 = input f32[8,64,32] \"x\"\n"
			      "%1 = weight f32[8,32,48] \"w\"\n"
			      "%2 = matmul %0 %1 : f32[8,64,48]\n"
			      "%3 = exp %2 : f32[8,64,48]\noutput %3 \"y\"\n";

static void
leaves_of_a_product_are_counted(void **state)
{
	struct arena a = {0};
	struct spec s;
	struct program p;
	struct err e = {0};
	double products = 0, dear = 0;
	uint32_t n_writes = 0;

	(void)state;
	read_spec(&a, product, &s);
	assert_true(program_of_schedule(&a, &s, STR(""), &target_avx512, &p, &e));
	assert_true(p.n_leaves >= 1 && p.n_passes == 1);
	for (uint32_t i = 0; i < p.n_leaves; i++) {
		double n = 1;

		for (uint32_t k = 0; k < p.leaf[i].n_loops; k++)
			n *= p.leaf[i].loop[k].extent;
		products += n * p.leaf[i].op[OP_PRODUCT];
		dear += n * p.leaf[i].op[OP_DEAR];
		for (uint32_t k = 0; k < p.leaf[i].n_accesses; k++)
			n_writes += p.leaf[i].access[k].writes;
	}
	assert_int_equal(n_writes, 2); /* sums are in registers; results wait for the exponential */
	assert_true(fabs(products - 8 * 64 * 48 * 32) < 1);
	assert_true(fabs(dear - 8 * 64 * 48) < 1);
	arena_fini(&a);
}

static void
a_transpose_strides(void **state)
{
	struct arena a = {0};
	struct sample plain, turned;

	(void)state;
	make(&a, "%0 = input f32[512,512]\n%1 = relu %0\noutput %1\n", "", &plain);
	make(&a, "%0 = input f32[512,512]\n%1 = transpose %0 perm=[1,0]\noutput %1\n", "", &turned);
	assert_true(plain.n_leaves == 1 && turned.n_leaves == 1);
	assert_true(plain.leaf[0].x[LEAF_strided] <= 0);
	assert_true(turned.leaf[0].x[LEAF_strided] > 0 || turned.leaf[0].x[LEAF_write_stride] > logf(5));
	assert_true(turned.spec[SPEC_turned] > 0);
	arena_fini(&a);
}

/* 20 columns are a vector of 16 and one of 4, in which 12 lanes are idle. */
static void
idle_lanes_are_counted(void **state)
{
	struct arena a = {0};
	struct sample s;
	double issued = 0, products = 0, waste = 0;

	(void)state;
	make(&a, "%0 = input f32[64,128]\n%1 = weight f32[128,20]\n%2 = matmul %0 %1\noutput %2\n", "", &s);
	for (uint32_t i = 0; i < s.n_leaves; i++) {
		const float *x = s.leaf[i].x;

		products += expm1((double)x[LEAF_products]);
		if (!(x[LEAF_is_tiled] > 0))
			continue;
		issued += expm1((double)x[LEAF_issued]);
		waste = fmax(waste, expm1((double)x[LEAF_tile_waste]));
		assert_true(fabs(expm1((double)x[LEAF_tile_depth]) - 128) < 0.1);
		assert_true(x[LEAF_tile_rows] > logf(2) && x[LEAF_tile_vectors] > 0 && x[LEAF_index] <= 0);
	}
	assert_true(fabs(products / (64 * 128 * 20) - 1) < 0.01);
	assert_true(fabs(issued / (64 * 128 * 32) - 1) < 0.01);
	assert_true(fabs(waste - 4) < 0.01);
	assert_true(fabs((double)s.spec[SPEC_lin_waste] - 1) < 0.01); /* `host` knows no lanes */
	assert_true(fabs(expm1((double)s.spec[SPEC_lin_group]) - 20) < 0.1);
	arena_fini(&a);
}

/* Neighbours share a line, which comes once, whatever loop goes along it; rows that lie 64 KB apart have
 * lines of their own, and blocks of 16 by 16 take all of each. */
static void
lines_that_come_again_are_counted(void **state)
{
	struct arena a = {0};
	struct sample plain, turned, across;
	double bytes = 2048.0 * 512 * 4;

	(void)state;
	make(&a, "%0 = input f32[2048,512]\n%1 = relu %0\noutput %1\n", "", &plain);
	make(&a, "%0 = input f32[2048,512]\n%1 = transpose %0 perm=[1,0]\noutput %1\n", "", &turned);
	make(&a,
	    "%0 = input f32[16384,256]\n%1 = slice %0 shape=[16384,1] start=[0,7] step=[1,1]\n%2 = relu "
	    "%1\noutput %2\n",
	    "", &across);
	assert_true(fabs(expm1((double)plain.leaf[0].x[LEAF_beyond_1]) / (2 * bytes) - 1) < 0.01);
	assert_true(fabs(expm1((double)turned.leaf[0].x[LEAF_beyond_1]) / (2 * bytes) - 1) < 0.01);
	assert_true(expm1((double)across.leaf[0].x[LEAF_beyond_1]) > 16384 * 64);
	arena_fini(&a);
}

static void
calls_of_the_c_library_are_no_polynomials(void **state)
{
	struct arena a = {0};
	struct sample s;

	(void)state;
	make(&a, "%0 = input f32[1000]\n%1 = sin %0\noutput %1\n", "", &s);
	assert_true(fabs(expm1((double)s.leaf[0].x[LEAF_calls]) - 1000) < 1);
	assert_true(s.leaf[0].x[LEAF_dear] <= 0);
	make(&a, "%0 = input f32[1000]\n%1 = input f32[1000]\n%2 = pow %0 %1\noutput %2\n", "", &s);
	assert_true(s.leaf[0].x[LEAF_calls] <= 0 && fabs(expm1((double)s.leaf[0].x[LEAF_dear]) - 1000) < 1);
	arena_fini(&a);
}

/* Another order of nodes and operands, other names: the same numbers, all of them. */
static void
names_and_order_are_not_in_it(void **state)
{
	static const char other[] = "%0 = weight f32[8,32,48] \"renamed\"\n"
				    "%5 = input f32[8,64,32] \"too\"\n"
				    "%7 = matmul %5 %0 : f32[8,64,48]\n"
				    "%9 = exp %7 : f32[8,64,48]\noutput %9 \"z\"\n";
	struct arena a = {0};
	struct sample x, y;
	float flat_x[SAMPLE_FLAT], flat_y[SAMPLE_FLAT];

	(void)state;
	make(&a, product, "", &x);
	make(&a, other, "", &y);
	sample_flat(&x, flat_x);
	sample_flat(&y, flat_y);
	assert_memory_equal(flat_x, flat_y, sizeof(flat_x));
	assert_int_equal(x.n_leaves, y.n_leaves);
	assert_memory_equal(x.leaf, y.leaf, x.n_leaves * sizeof(x.leaf[0]));
	arena_fini(&a);
}

/* The activation hot, the weight near, the result hot: the bound is lower, and the sample says why. */
static void
heat_is_in_it(void **state)
{
	struct arena a = {0};
	struct spec s;
	struct sample cold, hot;
	struct err e = {0};

	(void)state;
	read_spec(&a, product, &s);
	assert_true(sample_make(&a, &s, STR(""), &target_avx512, &host, STR(""), &cold, &e));
	assert_true(sample_make(&a, &s, STR(""), &target_avx512, &host, STR("hnh"), &hot, &e));
	assert_true(hot.work_ns <= cold.work_ns);
	assert_true(hot.spec[SPEC_byte_share] < cold.spec[SPEC_byte_share]);
	assert_true(cold.spec[SPEC_hot] <= 0 && cold.spec[SPEC_near] <= 0);
	assert_true(hot.spec[SPEC_hot] > 0.5F && hot.spec[SPEC_near] > 0.2F);
	arena_fini(&a);
}

static void
a_schedule_is_in_it(void **state)
{
	struct arena a = {0};
	struct sample x, y;
	float flat_x[SAMPLE_FLAT], flat_y[SAMPLE_FLAT];

	(void)state;
	make(&a, product, "", &x);
	make(&a, product, "mr=4", &y);
	sample_flat(&x, flat_x);
	sample_flat(&y, flat_y);
	assert_memory_equal(x.spec, y.spec, sizeof(x.spec));
	assert_true(memcmp(flat_x, flat_y, sizeof(flat_x)) != 0);
	arena_fini(&a);
}

static void
a_library_call_needs_no_program(void **state)
{
	struct arena a = {0};
	struct sample x;
	struct spec s;
	struct err e = {0};

	(void)state;
	make(&a, product, "lib=onednn-2.6.3", &x);
	assert_true(x.way[WAY_is_library] > 0 && x.n_leaves > 0);
	read_spec(&a, product, &s);
	assert_false(sample_make(&a, &s, STR("mr=999"), &target_avx512, &host, STR(""), &x, &e));
	assert_non_null(strstr(e.msg, "mr"));
	arena_fini(&a);
}

static void
random_kernels_have_finite_numbers(void **state)
{
	enum { KERNELS = 200 };
	uint32_t n_made = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= KERNELS; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g;
		struct spec s;
		struct sample x;
		struct err e = {0};
		float flat[SAMPLE_FLAT];

		random_graph(&g, &a, &r, &(struct random_opts){.n_nodes = 8, .kinds = RG_ALL});
		spec_of_graph(&a, &g, &s);
		if (sample_make(&a, &s, STR(""), &target_avx2, &host, STR(""), &x, &e)) {
			n_made++;
			sample_flat(&x, flat);
			assert_true(x.work_ns >= 1);
			for (uint32_t i = 0; i < SAMPLE_FLAT; i++)
				assert_true(isfinite(flat[i]));
		}
		arena_fini(&a);
	}
	assert_true(n_made > KERNELS / 2);
}

static void
each_place_has_a_name(void **state)
{
	struct arena a = {0};
	struct strbuf sb;

	(void)state;
	sb_init(&sb, &a);
	for (uint32_t i = 0; i < SAMPLE_FLAT; i++) {
		sample_flat_name(i, &sb);
		sb_addc(&sb, '\n');
	}
	assert_non_null(strstr(sb.p, "spec.bound\n"));
	assert_non_null(strstr(sb.p, "device.threads\n"));
	assert_non_null(strstr(sb.p, "all.products\n"));
	assert_non_null(strstr(sb.p, "greatest.tile_waste\nheaviest.share\n"));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(leaves_of_a_product_are_counted),
	    cmocka_unit_test(a_transpose_strides),
	    cmocka_unit_test(idle_lanes_are_counted),
	    cmocka_unit_test(lines_that_come_again_are_counted),
	    cmocka_unit_test(calls_of_the_c_library_are_no_polynomials),
	    cmocka_unit_test(names_and_order_are_not_in_it),
	    cmocka_unit_test(heat_is_in_it),
	    cmocka_unit_test(a_schedule_is_in_it),
	    cmocka_unit_test(a_library_call_needs_no_program),
	    cmocka_unit_test(random_kernels_have_finite_numbers),
	    cmocka_unit_test(each_place_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
