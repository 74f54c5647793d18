/* The leaves of a loop program say the loops that run. */
#include "../../kernels/generate/generate.h"
#include "../../kernels/predict/leaf.h"
#include "../prop/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static const struct choices nothing_chosen;

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
read_loops(struct arena *a, const char *text, struct program *out)
{
	struct spec s;
	struct err e = {0};

	read_spec(a, text, &s);
	if (!program_of_loops(a, &s, &nothing_chosen, &target_avx512, out, &e))
		fail_msg("%s", e.msg);
}

static double
turns(const struct program_leaf *l)
{
	double n = 1;

	for (uint32_t i = 0; i < l->n_loops; i++)
		n *= l->loop[i].extent;
	return n;
}

static void
add_up(const struct program *p, double sum[LEAF_WORKS])
{
	memset(sum, 0, LEAF_WORKS * sizeof(sum[0]));
	for (uint32_t i = 0; i < p->n_leaves; i++) {
		struct sample_leaf l;

		leaf_features(&p->leaf[i], &target_avx512, &l);
		for (int k = 0; k < LEAF_WORKS; k++)
			sum[k] += expm1((double)l.x[k]);
	}
}

static void
assert_near(double x, double y, double apart)
{
	if (fabs(x - y) > apart * fmax(x, y) + 1)
		fail_msg("%.0f and %.0f", x, y);
}

/* Rows of 256 in 32 lanes, eight rounds each: what is added up stays in registers, and is stored once a row.
 */
static void
a_row_is_in_lanes(void **state)
{
	struct arena a = {0};
	struct program p;
	const struct program_leaf *l;

	(void)state;
	read_loops(&a, "%0 = input f32[64,256]\n%1 = sum %0 axes=[1]\noutput %1\n", &p);
	assert_int_equal(p.n_leaves, 2);
	l = &p.leaf[0];
	assert_true(l->kind == LEAF_REDUCE && l->n_loops == 3 && l->n_accesses == 1);
	assert_true(fabs(l->loop[0].extent - 64) < 1 && !l->loop[0].reduces);
	assert_true(fabs(l->loop[1].extent - 8) < 1 && l->loop[1].reduces);
	assert_true(
	    fabs(l->loop[2].extent - 32) < 1 && l->loop[2].bind == BIND_VECTOR && !l->loop[2].reduces);
	assert_true(fabsf(l->access[0].stride[0] - 256) < 1 && fabsf(l->access[0].stride[1] - 32) < 1);
	l = &p.leaf[1];
	assert_true(l->n_loops == 1 && l->n_accesses == 1 && l->access[0].writes);
	assert_true(l->access[0].home == HOME_RESULT);
	arena_fini(&a);
}

static double
chained_of(const char *text, bool strict)
{
	struct target t = target_avx512;
	struct arena a = {0};
	struct program p;
	struct spec s;
	struct err e = {0};
	double n[LEAF_WORKS];

	t.strict = strict;
	read_spec(&a, text, &s);
	assert_true(program_of_loops(&a, &s, &nothing_chosen, &t, &p, &e));
	add_up(&p, n);
	arena_fini(&a);
	return n[LEAF_chained];
}

/* Columns are in lanes, few of them with parts of their sums; in strict mode one addition stands behind the
 * other. */
static void
a_sum_without_lanes_is_a_chain(void **state)
{
	static const char columns[] =
	    "%0 = input f32[1,14,14,32]\n%1 = sum %0 axes=[1,2]\n%2 = bcast %1 shape=[1,14,14,32]\n%3 = sub "
	    "%0 %2\n"
	    "%4 = mul %3 %3\n%5 = sum %4 axes=[1,2]\n%6 = sqrt %5\noutput %6\n";
	static const char few[] = "%0 = input f32[1,14,14,3]\n%1 = sum %0 axes=[1,2]\noutput %1\n";

	(void)state;
	assert_near(chained_of(columns, false), 0, 0);
	assert_near(chained_of(few, false), 0, 0);
	assert_near(chained_of(few, true), 14 * 14 * 3, 0);
}

static void
rows_that_are_written_out_are_a_loop(void **state)
{
	struct arena a = {0};
	struct program p;
	const struct program_leaf *l;
	double rows = 1;

	(void)state;
	read_loops(&a, "%0 = input f32[64,128]\n%1 = weight f32[128,48]\n%2 = matmul %0 %1\noutput %2\n", &p);
	l = &p.leaf[0];
	for (uint32_t i = 0; i < l->n_loops; i++)
		rows *= l->loop[i].bind == BIND_UNROLLED ? l->loop[i].extent : 1;
	assert_true(l->kind == LEAF_LINEAR && l->is_tiled && rows > 1.5);
	assert_true(fabs(l->tile.rows - rows) < 0.1 && fabs(l->tile.vectors - 3) < 0.1);
	assert_true(fabs(l->tile.depth - 128) < 0.1 && fabs(l->tile.waste - 1) < 0.01);
	assert_true(fabs(turns(l) * l->op[OP_PRODUCT] - 64 * 128 * 48) < 1);
	arena_fini(&a);
}

/* A padded plane is cut into its borders and the inside: together they make each point once. */
static void
pieces_count_by_their_share(void **state)
{
	struct arena a = {0};
	struct program p;
	double n = 0;

	(void)state;
	read_loops(&a,
	    "%0 = input f32[1,56,56,64]\n%1 = wmax %0 kernel=[1,3,3,1] stride=[1,2,2,1] dilation=[1,1,1,1] "
	    "lo=[0,1,1,0] hi=[0,1,1,0]\noutput %1\n",
	    &p);
	assert_true(p.n_leaves > 1);
	for (uint32_t i = 0; i < p.n_leaves; i++) {
		assert_true(p.leaf[i].access[0].writes && p.leaf[i].op[OP_GUARD] <= 0);
		n += turns(&p.leaf[i]);
	}
	assert_true(fabs(n - 28 * 28 * 64) < 1);
	arena_fini(&a);
}

static void
passes_and_scratch_are_those_of_the_text(void **state)
{
	static const char *const text[] = {
	    "%0 = input f32[64,256]\n%1 = rmax %0 axes=[1]\n%2 = bcast %1 shape=[64,256]\n%3 = sub %0 %2\n"
	    "%4 = exp %3\n%5 = sum %4 axes=[1]\n%6 = bcast %5 shape=[64,256]\n%7 = div %4 %6\n"
	    "%8 = transpose %7 perm=[1,0]\noutput %8\n",
	    "%0 = input f32[64,192]\n%1 = sum %0 axes=[1]\n%2 = bcast %1 shape=[64,192]\n%3 = sub %0 %2\n"
	    "%4 = mul %3 %3\n%5 = sum %4 axes=[1]\n%6 = sqrt %5\n%7 = bcast %6 shape=[64,192]\n%8 = div %3 "
	    "%7\n"
	    "output %8\n"};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(text); i++) {
		struct arena a = {0};
		struct spec s;
		struct program p;
		struct kernel_code code;
		struct err e = {0};

		read_spec(&a, text[i], &s);
		assert_true(program_of_schedule(&a, &s, STR(TRACED), &target_avx512, &p, &e));
		assert_true(generate_kernel(&a, &s, STR(TRACED), &target_avx512, "k", &code, &e));
		assert_int_equal((int)p.n_passes, code.desc.n_passes);
		assert_int_equal((int)p.shared_bytes, code.desc.shared_bytes);
		assert_int_equal((int)p.local_bytes, code.desc.local_bytes);
		arena_fini(&a);
	}
}

/* A schedule that the generator refuses is no program either. */
static void
what_no_rule_hears_is_refused(void **state)
{
	struct arena a = {0};
	struct spec s;
	struct program p;
	struct err e = {0};

	(void)state;
	read_spec(&a, "%0 = input f32[64,128]\n%1 = sum %0 axes=[1]\noutput %1\n", &s);
	assert_true(program_of_schedule(&a, &s, STR(TRACED), &target_avx512, &p, &e));
	assert_false(program_of_schedule(&a, &s, STR("online=64 trace=1"), &target_avx512, &p, &e));
	read_spec(&a, "%0 = input f32[64,128]\n%1 = exp %0\noutput %1\n", &s);
	assert_true(program_of_schedule(&a, &s, STR(TRACED), &target_avx512, &p, &e));
	assert_true(program_of_schedule(&a, &s, STR("vector=4 trace=1"), &target_cuda, &p, &e));
	assert_false(program_of_schedule(&a, &s, STR("algo=1 trace=1"), &target_cuda, &p, &e));
	assert_int_equal(e.code, ERR_INFEASIBLE);
	arena_fini(&a);
}

/* Before any schedule each primitive has a nest; what it computes is the same. */
static void
a_spec_is_a_nest_for_each_primitive(void **state)
{
	struct arena a = {0};
	struct spec s;
	struct program p;
	double n[LEAF_WORKS];

	(void)state;
	read_spec(&a,
	    "%0 = input f32[64,128]\n%1 = weight f32[128,48]\n%2 = matmul %0 %1\n%3 = sigmoid %2\noutput "
	    "%3\n",
	    &s);
	program_of_spec(&a, &s, &target_avx512, &p);
	add_up(&p, n);
	assert_true(p.n_leaves >= 2);
	assert_near(n[LEAF_products], 64 * 128 * 48, 0.01);
	assert_near(n[LEAF_dear], 64 * 48, 0.01);
	assert_true(p.shared_bytes >= 64 * 48 * 4);
	arena_fini(&a);
}

static void
random_kernels_have_finite_leaves(void **state)
{
	enum { KERNELS = 100 };
	uint32_t n_made = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= KERNELS; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g;
		struct spec s;
		struct program p;
		struct err e = {0};
		double sum[LEAF_WORKS];

		random_graph(&g, &a, &r, &(struct random_opts){.n_nodes = 6, .kinds = RG_ALL});
		spec_of_graph(&a, &g, &s);
		program_of_spec(&a, &s, &target_avx2, &p);
		add_up(&p, sum);
		for (int k = 0; k < LEAF_WORKS; k++)
			assert_true(isfinite(sum[k]) && sum[k] >= 0);
		if (program_of_loops(&a, &s, &nothing_chosen, &target_avx2, &p, &e)) {
			n_made++;
			assert_true(p.n_leaves > 0);
			add_up(&p, sum);
			for (int k = 0; k < LEAF_WORKS; k++)
				assert_true(isfinite(sum[k]) && sum[k] >= 0);
		}
		arena_fini(&a);
	}
	assert_true(n_made > KERNELS / 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_row_is_in_lanes),
	    cmocka_unit_test(a_sum_without_lanes_is_a_chain),
	    cmocka_unit_test(rows_that_are_written_out_are_a_loop),
	    cmocka_unit_test(pieces_count_by_their_share),
	    cmocka_unit_test(passes_and_scratch_are_those_of_the_text),
	    cmocka_unit_test(what_no_rule_hears_is_refused),
	    cmocka_unit_test(a_spec_is_a_nest_for_each_primitive),
	    cmocka_unit_test(random_kernels_have_finite_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
