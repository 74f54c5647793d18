/* tests/unit/pack_test.c: constant operands in packed form. */
#include "../../kernels/emit/emit.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_columns_in_blocks), cmocka_unit_test(test_transposed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
