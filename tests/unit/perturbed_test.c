/* tests/unit/perturbed_test.c: what is kept of orders of machine instructions: beside the base's measurement,
 * gone with it, carried by an export; a better one stays.  A schedule's moves are its last word. */
#include "../../proto/range.h"
#include "../../schema/perturbed.h"
#include "store_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOVES "0123456789abcdef:k_p0.m40>37"

static struct m_perturbed
record(const char *spec, const char *schedule, double ratio, int64_t asked_ns)
{
	return (struct m_perturbed){.spec = hash_bytes(spec, strlen(spec)),
	    .base = STR("s"),
	    .schedule = str_of(schedule),
	    .ratio = ratio,
	    .low = ratio - .01,
	    .high = ratio + .01,
	    .pairs = 96,
	    .compared = 1000,
	    .tried = 3,
	    .failed = 1,
	    .n_moves = 1,
	    .asked_ns = asked_ns,
	    .threads = 1,
	    .epoch = 1,
	    .precision = STR("f32"),
	    .worker = STR("w")};
}

static void
put(struct box *b, const struct meas_key *k, struct m_perturbed p)
{
	struct err e = {0};

	p.env_hash = k->env_hash;
	if (!perturbed_put(b->db, k, &p, &e))
		fail_msg("%s", e.msg);
}

static struct m_perturbed
find(struct box *b, const struct meas_key *k, const char *spec)
{
	struct m_perturbed p;
	struct hash h = hash_bytes(spec, strlen(spec));
	struct err e = {0};

	if (!perturbed_find(b->db, &b->a, &h, k, STR("s"), &p, &e))
		fail_msg("%s", e.msg);
	return p;
}

static void
kept(void **state)
{
	struct box b;
	struct meas_key k;
	struct m_perturbed p;

	(void)state;
	box_open(&b);
	k = box_env(&b, "fake", "device=x");
	/* of a base that was never measured here: nothing */
	put(&b, &k, record("spec a", "", 0, 5));
	assert_int_equal(find(&b, &k, "spec a").asked_ns, 0);
	box_put(&b, "spec a", &k, box_row("s", 100, 10), 0);
	put(&b, &k, record("spec a", "", 0, 5));
	p = find(&b, &k, "spec a");
	assert_int_equal(p.asked_ns, 5);
	assert_int_equal(p.schedule.n, 0);
	/* more is found; less, or nothing, later leaves it */
	put(&b, &k, record("spec a", "s sip=" MOVES, .95, 4));
	p = find(&b, &k, "spec a");
	assert_true(str_is(p.schedule, "s sip=" MOVES) && p.asked_ns == 5);
	put(&b, &k, record("spec a", "s sip=" MOVES ".s1=2", .97, 9));
	put(&b, &k, record("spec a", "", 0, 10));
	p = find(&b, &k, "spec a");
	assert_true(str_is(p.schedule, "s sip=" MOVES) && p.ratio == .95 && p.asked_ns == 10);
	put(&b, &k, record("spec a", "s sip=" MOVES ".s1=3", .9, 1));
	assert_true(find(&b, &k, "spec a").ratio == .9);
	box_close(&b);
}

/* The row with moves is the best one, and what is known of them goes with it. */
static void
with_the_cost(void **state)
{
	struct box b;
	struct meas_key k;
	struct m_perturbed p;
	struct m_cost c;
	struct m_kv *known;
	struct hash spec = hash_bytes("spec a", 6);
	uint32_t n;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "fake", "device=x");
	box_put(&b, "spec a", &k, box_row("s", 100, 10), 0);
	box_put(&b, "spec a", &k, box_row("s sip=" MOVES, 95, 10), 0);
	put(&b, &k, record("spec a", "s sip=" MOVES, .95, 5));
	c = box_find(&b, "spec a", &k, 1);
	assert_true(str_is(c.schedule, "s sip=" MOVES));
	assert_true(rec_unpack(&b.a, "perturbed", c.perturbed, &p, &e) && p.ratio == .95);
	/* nobody is told to skip it: no space lists it */
	assert_true(meas_known(b.db, &b.a, &spec, &k, &known, &n, &e));
	assert_int_equal(n, 1);
	assert_true(str_is(known[0].name, "s"));
	box_close(&b);
}

/* Two searches found as much by other moves, and rows of equal time count by their schedules: what is known
 * is of the row that counts, whichever was found first. */
static void
as_much_twice(void **state)
{
	static const char *const schedule[] = {"s sip=" MOVES ".m2>1", "s sip=" MOVES ".m3>1"};

	(void)state;
	for (int first = 0; first < 2; first++) {
		struct box b;
		struct meas_key k;
		struct m_perturbed p;
		struct m_cost c;
		struct err e = {0};

		box_open(&b);
		k = box_env(&b, "fake", "device=x");
		box_put(&b, "spec a", &k, box_row("s", 100, 10), 0);
		for (int i = 0; i < 2; i++) {
			const char *found = schedule[first ^ i];

			box_put(&b, "spec a", &k, box_row(found, 95, 10), 0);
			put(&b, &k, record("spec a", found, .95, 5));
		}
		c = box_find(&b, "spec a", &k, 1);
		assert_true(rec_unpack(&b.a, "perturbed", c.perturbed, &p, &e));
		assert_true(str_eq(p.schedule, c.schedule));
		box_close(&b);
	}
}

/* Moves that do not fit the code are gone from what is chosen by, and stay so when they are told of again;
 * other findings, and what was never measured, are left alone. */
static void
refuted(void **state)
{
	struct box b;
	struct meas_key k;
	struct m_perturbed p;
	struct m_row row = {.schedule = STR("s sip=" MOVES),
	    .fail = (uint64_t)err_wire(ERR_COMPILE),
	    .cause = STR("they do not fit"),
	    .stop = STR(""),
	    .state = STR("")};
	const struct meas_origin from = {.worker = STR("w")};
	struct hash spec = hash_bytes("spec a", 6);
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "fake", "device=x");
	assert_true(perturbed_refute(b.db, &spec, &k, &row, &from, &e));
	box_put(&b, "spec a", &k, box_row("s", 100, 10), 0);
	assert_true(str_is(box_find(&b, "spec a", &k, 1).schedule, "s"));
	box_put(&b, "spec a", &k, box_row("s sip=" MOVES, 95, 10), 0);
	put(&b, &k, record("spec a", "s sip=" MOVES, .95, 5));
	row.schedule = STR("s sip=" MOVES ".s3=2"); /* not the one that was found */
	assert_true(perturbed_refute(b.db, &spec, &k, &row, &from, &e));
	assert_true(str_is(box_find(&b, "spec a", &k, 1).schedule, "s sip=" MOVES));
	row.schedule = STR("s sip=" MOVES);
	for (int twice = 0; twice < 2; twice++) {
		assert_true(perturbed_refute(b.db, &spec, &k, &row, &from, &e));
		assert_true(str_is(box_find(&b, "spec a", &k, 1).schedule, "s"));
		p = find(&b, &k, "spec a");
		assert_int_equal(p.schedule.n, 0);
		assert_true(p.asked_ns == 5 && p.ratio == 0 && p.failed == 3);
	}
	box_close(&b);
}

static void
carried(void **state)
{
	struct box b, to;
	struct meas_key k;
	struct bytes file;
	struct str report;
	struct gc_ask gc = {.older_ns = 0, .measurements = true};
	struct gc_done done;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "fake", "device=x");
	box_put(&b, "spec a", &k, box_row("s", 100, 10), 7);
	box_put(&b, "spec a", &k, box_row("s sip=" MOVES, 95, 10), 7);
	put(&b, &k, record("spec a", "s sip=" MOVES, .95, 5));
	assert_true(cache_export(b.db, &b.a, STR(""), &file, &e));
	box_open(&to);
	k = box_env(&to, "fake", "device=x");
	if (!cache_import(to.db, &to.a, file, false, &report, &e))
		fail_msg("%s", e.msg);
	assert_true(find(&to, &k, "spec a").ratio == .95);
	assert_true(find(&to, &k, "spec a").asked_ns == 5);
	box_close(&b);
	/* it goes with its base */
	box_clock_ns += 1000;
	if (!cache_gc(to.db, &gc, &done, &e))
		fail_msg("%s", e.msg);
	box_put(&to, "spec a", &k, box_row("s", 100, 10), 0);
	assert_int_equal(find(&to, &k, "spec a").asked_ns, 0);
	box_close(&to);
}

static void
words(void **state)
{
	static const struct {
		const char *schedule, *base, *moves;
	} row[] = {{"", "", ""}, {"tile=8", "tile=8", ""}, {"sip=x", "", "x"},
	    {"tile=8 sip=x:y.m1>2", "tile=8", "x:y.m1>2"}, {"sip=x tile=8", "sip=x tile=8", ""},
	    {"tile=8 sip=", "tile=8 sip=", ""}, {"tile=8 asip=x", "tile=8 asip=x", ""},
	    {"a=1 b=2 sip=q", "a=1 b=2", "q"}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct str base, moves;
		bool has = sip_split(str_of(row[i].schedule), &base, &moves);

		if (!str_is(base, row[i].base) || !str_is(moves, row[i].moves) ||
		    has != (row[i].moves[0] != 0))
			fail_msg("'%s': '%.*s' and '%.*s'", row[i].schedule, STR_ARG(base), STR_ARG(moves));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(kept), cmocka_unit_test(with_the_cost),
	    cmocka_unit_test(as_much_twice), cmocka_unit_test(refuted), cmocka_unit_test(carried),
	    cmocka_unit_test(words)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
