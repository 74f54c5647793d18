/* Exports and imports: what a row is known by comes back as it was. */
#include "store_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct str
text(const char *s)
{
	return (struct str){s, strlen(s)};
}

/* Everything of one store into another. */
static void
carry(struct box *from, struct box *to)
{
	struct bytes all;
	struct str report;
	struct err e = {0};

	if (!cache_export(from->db, &from->a, STR(""), &all, &e) ||
	    !cache_import(to->db, &to->a, all, false, &report, &e))
		fail_msg("%s", e.msg);
}

static uint64_t
reused(struct box *b)
{
	struct m_count *counts;
	uint32_t n;
	struct err e = {0};

	assert_true(db_commit(b->db, &e) && db_begin(b->db, &e));
	assert_true(cache_stats(b->db, &b->a, &counts, &n, &e));
	for (uint32_t i = 0; i < n; i++)
		if (str_is(counts[i].name, "reuse_across_models"))
			return counts[i].value;
	return 0;
}

/* box_put's specs came with model 1. */
static void
a_spec_keeps_its_model(void **state)
{
	static const struct hash two = {{2}};
	struct box from, to;
	struct meas_key k;
	struct hash h;
	struct err e = {0};

	(void)state;
	box_open(&from);
	box_open(&to);
	k = box_env(&from, "cpu", "m=1");
	box_put(&from, "A", &k, box_row("s", 100, 10), 5);
	box_put(&from, "B", &k, box_row("s", 100, 10), 5);
	assert_true(spec_put(to.db, text("B"), &two, &h, &e)); /* here it came with another one */
	carry(&from, &to);
	k = box_env(&to, "cpu", "m=1");
	assert_true(box_find(&to, "A", &k, 1).is_cached && box_find(&to, "B", &k, 2).is_cached);
	assert_int_equal(reused(&to), 0);
	assert_true(box_find(&to, "A", &k, 2).is_cached && box_find(&to, "B", &k, 1).is_cached);
	assert_int_equal(reused(&to), 2);
	box_close(&from);
	box_close(&to);
}

/* One schedule under three heats: three rows, of which none speaks for another; what knows no heat is cold.
 */
static void
heats_are_apart(void **state)
{
	static const struct {
		const char *heat;
		int64_t ns;
	} row[] = {{"", 300}, {"hc", 200}, {"hh", 100}};
	struct box from, to;
	struct meas_key k;
	struct hash session = {{3}};
	struct m_count *counts;
	struct err e = {0};
	uint32_t n;

	(void)state;
	box_open(&from);
	box_open(&to);
	k = box_env(&from, "cpu", "m=1");
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		k.heat = str_of(row[i].heat);
		assert_false(box_find(&from, "A", &k, 1).is_cached);
		box_put(&from, "A", &k, box_row("s", row[i].ns, 10), 5);
	}
	box_again(&from, "A", &k, session.b[0], 1, box_row("s", 120, 10));
	carry(&from, &to);
	k = box_env(&to, "cpu", "m=1");
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct m_cost c;

		k.heat = str_of(row[i].heat);
		c = box_find(&to, "A", &k, 1);
		assert_int_equal(c.first_ns, row[i].ns);
		assert_int_equal(c.repeats, i == 2);
		assert_int_equal(c.effort, 4);
	}
	k.heat = STR("ch");
	assert_false(box_find(&to, "A", &k, 1).is_cached);
	k.any_heat = true; /* the cold row will do; no warm one of another word does */
	assert_int_equal(box_find(&to, "A", &k, 1).median_ns, 300);
	assert_true(repeat_session(to.db, &session, &n, &e) && n == 1);
	assert_true(cache_stats(to.db, &to.a, &counts, &n, &e));
	for (uint32_t i = 0; i < n; i++)
		if (str_is(counts[i].name, "measurements_warm") || str_is(counts[i].name, "best_rows"))
			assert_int_equal(counts[i].value, counts[i].name.p[0] == 'm' ? 2 : 3);
	box_close(&from);
	box_close(&to);
}

/* From outside come only words. */
static void
heats_of_strangers(void **state)
{
	static const struct {
		const char *heat;
		bool is_word;
	} row[] = {
	    {"", true}, {"h", true}, {"cn", true}, {"cc", false}, {"x", false}, {"h h", false}, {"c", false}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct box from, to;
		struct meas_key k;
		struct bytes all;
		struct str report;
		struct err e = {0};

		box_open(&from);
		box_open(&to);
		k = box_env(&from, "cpu", "m=1");
		k.heat = str_of(row[i].heat);
		box_put(&from, "A", &k, box_row("s", 10, 10), 5);
		assert_true(cache_export(from.db, &from.a, STR(""), &all, &e));
		if (cache_import(to.db, &to.a, all, false, &report, &e) != row[i].is_word)
			fail_msg("'%s': %s", row[i].heat, e.msg);
		assert_int_equal(e.code, row[i].is_word ? ERR_NONE : ERR_FORMAT);
		box_close(&from);
		box_close(&to);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_spec_keeps_its_model),
	    cmocka_unit_test(heats_are_apart),
	    cmocka_unit_test(heats_of_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
