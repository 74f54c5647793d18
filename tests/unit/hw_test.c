/* tests/unit/hw_test.c: a hardware vector that is none is told by the field, each field by its row. */
#include "../../kernels/target/target.h"
#include "../../proto/hw.h"
#include "../harness/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* A GPU's numbers among them: each field is there. */
static struct m_hw
good(void)
{
	struct m_hw hw = sample_env("", "").hw;

	hw.sm = 80;
	hw.half_flops = hw.tf32_flops = 1e12;
	return hw;
}

static void
refuses(const struct m_hw *hw, const char *field)
{
	struct err e = {0};

	if (hw_check(hw, &e))
		fail_msg("hw.%s passed", field);
	assert_int_equal(e.code, ERR_PROTO);
	if (!strstr(e.msg, field))
		fail_msg("of hw.%s it says: %s", field, e.msg);
}

/* Every row of the table: out of range on both sides, and what is no number. */
static void
each_field(void **state)
{
	(void)state;
#define WILD_REAL(F)                                                                                         \
	h.F = (double)NAN;                                                                                   \
	refuses(&h, #F);                                                                                     \
	h.F = (double)INFINITY;                                                                              \
	refuses(&h, #F);
#define WILD_WHOLE(F)                                                                                        \
	h.F = INT64_MIN;                                                                                     \
	refuses(&h, #F);                                                                                     \
	h.F = INT64_MAX;                                                                                     \
	refuses(&h, #F);
#define WILD_VECTOR(F)                                                                                       \
	WILD_WHOLE(F)                                                                                        \
	h.F = 24;                                                                                            \
	refuses(&h, #F);
#define TYPE_REAL double
#define TYPE_WHOLE int64_t
#define TYPE_VECTOR int64_t
#define HW(KIND, FIELD, LEAST, MOST, WITH)                                                                   \
	{                                                                                                    \
		struct m_hw h = good();                                                                      \
                                                                                                             \
		h.FIELD = -1;                                                                                \
		refuses(&h, #FIELD);                                                                         \
		h.FIELD = (TYPE_##KIND)((double)(MOST)*2);                                                   \
		refuses(&h, #FIELD);                                                                         \
		WILD_##KIND(FIELD)                                                                           \
	}
#include "../../proto/hw.def"
}

/* What the reader divides by must be there when the rest is. */
static void
half_a_vector(void **state)
{
	struct m_hw h = good(), none = {0};
	struct err e = {0};

	(void)state;
	assert_true(hw_check(&h, &e));
	assert_true(hw_check(&none, &e)); /* not calibrated at all */
	h.l3_bytes_per_s = 0;
	refuses(&h, "l3_bytes_per_s");
	h = good();
	h.n_vregs = 0;
	refuses(&h, "n_vregs");
}

/* The generator does not divide by a target's numbers before it has looked at them. */
static void
bad_targets(void **state)
{
	static const struct target bad[] = {{.simd_bytes = 0},
	    {.simd_bytes = 1 << 20, .n_vregs = 16, .l1_bytes = 4096, .l2_bytes = 4096, .l3_bytes = 4096},
	    {.simd_bytes = 32, .n_vregs = 0, .l1_bytes = 4096, .l2_bytes = 4096, .l3_bytes = 4096},
	    {.simd_bytes = 32, .n_vregs = 16, .l1_bytes = -1, .l2_bytes = 4096, .l3_bytes = 4096}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct err e = {0};

		assert_false(target_check(&bad[i], &e));
		assert_int_equal(e.code, ERR_DEVICE);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_field), cmocka_unit_test(half_a_vector), cmocka_unit_test(bad_targets)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
