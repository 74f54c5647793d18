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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_spec_keeps_its_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
