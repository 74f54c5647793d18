/* tests/unit/parallel_test.c: the same for each of many things, on several cores. threads: yes */
#include "../../kernels/base/parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N = 1000, HANDS = 8 };

struct seen {
	atomic_uint times[N], by[HANDS], n_wrong;
};

static void
see(void *self, uint32_t hand, uint32_t i)
{
	struct seen *s = self;

	if (hand >= HANDS || i >= N) {
		atomic_fetch_add(&s->n_wrong, 1);
		return;
	}
	atomic_fetch_add(&s->times[i], 1);
	atomic_fetch_add(&s->by[hand], 1);
}

static void
each_is_done_once(void **state)
{
	(void)state;
	for (uint32_t hands = 1; hands <= HANDS; hands++) {
		static struct seen s;
		uint32_t all = 0;

		s = (struct seen){0};
		parallel_for(N, hands, see, &s);
		assert_int_equal(s.n_wrong, 0);
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(s.times[i], 1);
		for (uint32_t i = 0; i < HANDS; i++) {
			assert_true(i < hands || s.by[i] == 0);
			all += s.by[i];
		}
		assert_int_equal(all, N);
	}
}

static void
few_and_none(void **state)
{
	static struct seen s;

	(void)state;
	parallel_for(0, HANDS, see, &s);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(s.times[i], 0);
	parallel_for(2, HANDS, see, &s);
	assert_int_equal(s.times[0] + s.times[1], 2);
	for (uint32_t i = 2; i < HANDS; i++)
		assert_int_equal(s.by[i], 0); /* no more hands than things */
}

struct order {
	atomic_uint begun[HANDS];
	uint32_t n_late;
};

static void
note_order(void *self, uint32_t hand, uint32_t i)
{
	struct order *o = self;

	if (atomic_load(&o->begun[hand]) > i + 1)
		o->n_late++;
	atomic_store(&o->begun[hand], i + 1);
}

static void
one_hand_goes_in_order(void **state)
{
	struct order o = {.n_late = 0};

	(void)state;
	parallel_for(N, 1, note_order, &o);
	assert_int_equal(o.n_late, 0);
	assert_int_equal(o.begun[0], N);
}

static void
hands_are_cores_at_most(void **state)
{
	(void)state;
	assert_int_equal(parallel_hands(1), 1);
	assert_int_equal(parallel_hands(0), 1);
	assert_in_range(parallel_hands(1000), 1, 64);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_is_done_once),
	    cmocka_unit_test(few_and_none),
	    cmocka_unit_test(one_hand_goes_in_order),
	    cmocka_unit_test(hands_are_cores_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
