/* tests/unit/pack_test.c: constant operands in packed form. */
#include "../../kernels/generate/generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* [K=2][N=5] in blocks of four columns: [2][K][4], zeros behind the last column. */
static void
test_columns_in_blocks(void **state)
{
	const float w[2][5] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
	const float want[2][2][4] = {{{1, 2, 3, 4}, {6, 7, 8, 9}}, {{5, 0, 0, 0}, {10, 0, 0, 0}}};
	const struct pack p = {
	    .rank = 3, .dim = {2, 2, 4}, .coef = {4, 5, 1}, .column = {4, 0, 1}, .n_columns = 5};
	struct tensor t = {.role = ROLE_WEIGHT, .type = DT_f32, .shape = {.rank = 2, .dim = {2, 5}}};
	float out[2][2][4];

	(void)state;
	assert_int_equal(pack_bytes(&p, DT_f32), sizeof out);
	memset(out, 0xff, sizeof out);
	pack_apply(&p, &t, w, out);
	assert_memory_equal(out, want, sizeof out);
}

/* A transposed operand: the same destination from [N][K]. */
static void
test_transposed(void **state)
{
	const float w[3][2] = {{1, 4}, {2, 5}, {3, 6}};
	const float want[2][4] = {{1, 2, 3, 0}, {4, 5, 6, 0}};
	const struct pack p = {
	    .rank = 3, .dim = {1, 2, 4}, .coef = {8, 1, 2}, .column = {4, 0, 1}, .n_columns = 3};
	struct tensor t = {.role = ROLE_WEIGHT, .type = DT_f32, .shape = {.rank = 2, .dim = {3, 2}}};
	float out[2][4];

	(void)state;
	pack_apply(&p, &t, w, out);
	assert_memory_equal(out, want, sizeof out);
}

/* Two dimensions through a map of two taps each: [1][K=1][2][2][lane=2] from [2][2][N=2]. */
static const struct pack mapped = {.rank = 4,
    .dim = {1, 3, 3, 4},
    .coef = {4, 0, 0, 1},
    .column = {4, 0, 0, 1},
    .n_columns = 3,
    .n_maps = 2,
    .map = {{.dim = 1, .n_taps = 2, .step = 6, .w = {{1}, {0.5, 0.5}, {0, 1}}},
	{.dim = 2, .n_taps = 2, .step = 3, .w = {{1}, {0.5, -0.5}, {0, 1}}}}};

static void
test_mapped(void **state)
{
	const float w[2][2][3] = {{{1, 2, 3}, {4, 8, 12}}, {{16, 32, 48}, {64, 128, 192}}};
	struct tensor t = {.role = ROLE_WEIGHT, .type = DT_f32, .shape = {.rank = 3, .dim = {2, 2, 3}}};
	float out[3][3][4];

	(void)state;
	pack_apply(&mapped, &t, w, out);
	for (int i = 0; i < 3; i++) {
		float k = (float)(i + 1);

		if (i == 2)
			k = 3;
		assert_float_equal(out[0][0][i], w[0][0][i], 0);
		assert_float_equal(out[0][1][i], (1 - 4) * k / 2, 0);
		assert_float_equal(out[1][0][i], (1 + 16) * k / 2, 0);
		assert_float_equal(out[1][1][i], (1 - 4 + 16 - 64) * k / 4, 0);
		assert_float_equal(out[1][2][i], (4 + 64) * k / 2, 0);
		assert_float_equal(out[2][2][i], w[1][1][i], 0);
	}
	for (int i = 0; i < 9; i++)
		assert_float_equal(out[i / 3][i % 3][3], 0, 0);
}

/* Forms from outside: each of these reads or writes where it must not. */
static void
test_refuses(void **state)
{
	struct err e = {0};
	struct pack p = mapped;

	(void)state;
	assert_true(pack_check(&p, 12, &e));
	assert_true(pack_same_form(&p, &mapped));
	assert_false(pack_same_form(&p, NULL));
	p.n_columns = 4; /* the fourth column's elements are not there */
	assert_false(pack_check(&p, 12, &e));
#define BROKEN(...)                                                                                          \
	p = mapped;                                                                                          \
	__VA_ARGS__;                                                                                         \
	assert_false(pack_same_form(&p, &mapped));                                                           \
	assert_false(pack_check(&p, 12, &e))
	BROKEN(p.rank = 9);
	BROKEN(p.rank = -1);
	BROKEN(p.n_maps = 3);
	BROKEN(p.map[1].dim = 4);
	BROKEN(p.map[1].dim = 3; p.coef[3] = 0; p.dim[3] = 3);
	BROKEN(p.column[0] = -1);
	BROKEN(p.map[1].dim = -1);
	BROKEN(p.map[0].n_taps = 4);
	BROKEN(p.map[0].n_taps = 0);
	BROKEN(p.dim[1] = 7);
	BROKEN(p.dim[3] = 0);
	BROKEN(p.dim[3] = INT64_MAX / 4);
	BROKEN(p.coef[1] = 1);
	BROKEN(p.base = -1);
	BROKEN(p.map[0].step = -1);
	BROKEN(p.n_columns = 5; p.base = 1);
	BROKEN(p.coef[0] = INT64_MAX; p.dim[0] = 3);
#undef BROKEN
	p = mapped;
	p.map[1].w[2][1] = 2;
	assert_false(pack_same_form(&p, &mapped));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns_in_blocks),
	    cmocka_unit_test(test_transposed), cmocka_unit_test(test_mapped), cmocka_unit_test(test_refuses)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
