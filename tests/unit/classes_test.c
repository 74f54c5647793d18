/* Classes of devices in the store: found by name, pattern or start, renamed by what their workers say,
 * calibrated once. */
#include "../../kernels/base/epoch.h"
#include "../../schema/env.h"
#include "store_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint32_t
rows_of(struct box *b, const char *class)
{
	struct hash zero = {{0}};
	struct m_measurement *rows;
	uint32_t n;
	bool more;
	struct err e = {0};

	assert_true(cache_list(b->db, &b->a, &zero, str_of(class), 10, &rows, &n, &more, &e));
	return n;
}

static const char *
class_seen(struct box *b, const char *pattern)
{
	struct m_env env;
	int64_t id;
	struct err e = {0};

	return env_of_class(b->db, &b->a, str_of(pattern), &id, &env, &e) ? str_dup(&b->a, env.class) : "";
}

/* The class that a prediction is for, or what the error says. */
static const char *
class_known(struct box *b, const char *pattern, uint64_t *epoch)
{
	struct m_env env;
	int64_t id;
	struct err e = {0};
	bool ok = env_known(b->db, &b->a, str_of(pattern), &id, &env, &e);

	if (ok)
		*epoch = env.epoch;
	return ok ? str_dup(&b->a, env.class) : arena_printf(&b->a, "%d %s", (int)e.code, e.msg);
}

/* By its name before a pattern before its start; with a calibration; of this epoch where there is one. */
static void
classes_known(void **state)
{
	struct m_env env = {.run_compat = STR("x"), .compiler = STR("")};
	struct box b;
	int64_t id;
	uint64_t epoch = 0;
	struct err e = {0};
	static const struct {
		const char *class, *key;
		double flops;
		uint64_t epoch;
	} row[] = {{"fake", "a", 1e9, GENERATOR_EPOCH}, {"fake2", "b", 1e9, GENERATOR_EPOCH},
	    {"cpu:raw", "c", 0, GENERATOR_EPOCH}, {"cpu:old", "d", 1e9, 1}};

	(void)state;
	box_open(&b);
	assert_non_null(strstr(class_known(&b, "fake", &epoch), "it knows: none"));
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		env.class = str_of(row[i].class);
		env.key = str_of(row[i].key);
		env.epoch = row[i].epoch;
		env.hw = (struct m_hw){.flops_peak = row[i].flops};
		assert_true(env_put(b.db, &env, false, &id, &e));
	}
	assert_string_equal(class_known(&b, "fake", &epoch), "fake");
	assert_string_equal(class_known(&b, "fake2", &epoch), "fake2");
	assert_string_equal(class_known(&b, "f*2", &epoch), "fake2");
	assert_string_equal(class_known(&b, "cpu:o", &epoch), "cpu:old");
	assert_int_equal(epoch, GENERATOR_EPOCH); /* none of its rows counts */
	assert_non_null(strstr(class_known(&b, "fak", &epoch), "2 classes of this cache fit"));
	assert_non_null(strstr(class_known(&b, "cpu", &epoch), "2 classes of this cache fit"));
	assert_non_null(strstr(class_known(&b, "cpu:raw", &epoch), "was never calibrated"));
	assert_non_null(strstr(class_known(&b, "gpu", &epoch), "this cache knows no such class (it knows: "));
	box_close(&b);
}

/* What was measured when every CPU was "cpu" counts on: its environment takes the name that its worker says
 * now, and keeps it, whoever else says another. */
static void
classes(void **state)
{
	static const char FULL[] = "cpu:AMD-EPYC-9B14-avx512";
	struct m_env env = {.key = STR("cpu=AMD EPYC 9B14"), .run_compat = STR("x"), .compiler = STR("")};
	struct box b;
	struct meas_key k, now;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "cpu=AMD EPYC 9B14");
	box_put(&b, "A", &k, box_row("s1", 100, 10), 5);
	assert_string_equal(class_seen(&b, "cpu"), "cpu");
	assert_string_equal(class_seen(&b, "cpu:*"), "");
	now = k;
	env.class = str_of(FULL);
	assert_true(env_put(b.db, &env, false, &now.env, &e));
	assert_int_equal(now.env, k.env);
	assert_true(box_find(&b, "A", &now, 1).is_cached);
	env.class = STR("cpu:another-avx2");
	assert_true(env_put(b.db, &env, false, &now.env, &e));
	env.class = STR("cpu"); /* an old export */
	assert_true(env_put(b.db, &env, false, &now.env, &e));
	assert_string_equal(class_seen(&b, "cpu"), FULL);
	assert_string_equal(class_seen(&b, "cpu:amd-*"), FULL);
	assert_string_equal(class_seen(&b, "cpu:another*"), "");
	assert_int_equal(rows_of(&b, ""), 1);
	assert_int_equal(rows_of(&b, "cpu"), 1);
	assert_int_equal(rows_of(&b, "cpu:*avx512"), 1);
	assert_int_equal(rows_of(&b, "cpu:*avx2"), 0);
	box_close(&b);
}

/* Numbers that the first worker did not look for are taken from the next one, whoever it is; what it found
 * stays. */
static void
rates_are_added(void **state)
{
	struct m_env env = {.class = STR("cpu:some"),
			 .key = STR("cpu=some"),
			 .run_compat = STR("x"),
			 .compiler = STR("")},
		     kept;
	struct box b;
	struct err e = {0};
	int64_t id;

	(void)state;
	box_open(&b);
	env.hw = (struct m_hw){.flops_peak = 1e11,
	    .l1_bytes_per_s = 4e11,
	    .l2_bytes_per_s = 3e11,
	    .l3_bytes_per_s = 2e11,
	    .dram_bytes_per_s = 1e11};
	assert_true(env_put(b.db, &env, false, &id, &e));
	env.hw.flops_peak = 2e11;
	env.hw.linear_flops = 9e10;
	env.hw.exp_per_s = 5e9;
	env.hw.div_per_s = 7e9;
	assert_true(env_put(b.db, &env, false, &id, &e));
	env.hw.exp_per_s = 6e9;
	assert_true(env_put(b.db, &env, false, &id, &e));
	assert_true(env_get(b.db, &b.a, id, &kept, &e));
	assert_true(fabs(kept.hw.flops_peak - 1e11) < 1 && fabs(kept.hw.linear_flops - 9e10) < 1);
	assert_true(fabs(kept.hw.exp_per_s - 5e9) < 1 && fabs(kept.hw.div_per_s - 7e9) < 1);
	box_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(classes),
	    cmocka_unit_test(classes_known),
	    cmocka_unit_test(rates_are_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
