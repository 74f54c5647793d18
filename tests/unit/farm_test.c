/* The farm against its promises, on a virtual clock: first one promise at a time, then ten
 * thousand random histories with lost, late and repeated messages. */
#include "../../daemon/farm/farm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t S = 1000000000;

static struct farm_want
want_of(uint32_t n)
{
	return (struct farm_want){
	    .key = hash_bytes(&n, sizeof(n)), .kind = TASK_MEASURE, .env = 1, .expect_ns = S / 10};
}

static struct farm_task *
add(struct farm *f, uint32_t n, uint64_t waiter)
{
	struct farm_want w = want_of(n);
	bool is_new;

	return farm_add(f, &w, waiter, NULL, 0, &is_new);
}

static void
old_generation(void **state)
{
	struct farm *f = farm_new(3);
	struct farm_task *t = add(f, 1, 9), *out;
	struct hash key = t->want.key;
	struct farm_grant g, h;

	(void)state;
	farm_join(f, 7, 1);
	farm_join(f, 8, 1);
	assert_int_equal(farm_lease(f, 7, 64, 0, &g), 1);
	assert_true(g.gen > (uint64_t)3 << 32 && g.lease_ns == 15 * S);
	assert_true(farm_touch(f, 7, &key, g.gen, 14 * S));
	assert_false(farm_touch(f, 8, &key, g.gen, 14 * S));
	assert_null(farm_tick(f, 28 * S));
	assert_true(farm_touch(f, 7, &key, g.gen, 28 * S)); /* renewed: still its */
	assert_null(farm_tick(f, 43 * S));
	assert_false(farm_touch(f, 7, &key, g.gen, 43 * S));
	assert_int_equal(farm_lease(f, 7, 64, 43 * S, &h), 0); /* another device first */
	assert_int_equal(farm_lease(f, 8, 64, 43 * S, &h), 1);
	assert_int_equal(farm_finish(f, 7, &key, g.gen, ERR_NONE, 44 * S, &out), FARM_LATE);
	assert_int_equal(farm_finish(f, 7, &key, h.gen, ERR_NONE, 44 * S, &out), FARM_LATE);
	assert_int_equal(farm_finish(f, 8, &key, h.gen, ERR_NONE, 44 * S, &out), FARM_DONE);
	assert_ptr_equal(out, t);
	assert_int_equal(farm_finish(f, 8, &key, h.gen, ERR_NONE, 44 * S, &out), FARM_LATE);
	farm_end(f, t);
	assert_int_equal(farm_counts(f)->late, 3);
	farm_free(f, NULL);
}

/* Time in which its owner stood still is nobody's silence; it is given once. */
static void
held_up(void **state)
{
	struct farm *f = farm_new(3);
	struct farm_task *t = add(f, 1, 9);
	struct hash key = t->want.key;
	struct farm_grant g;

	(void)state;
	farm_join(f, 7, 1);
	assert_int_equal(farm_lease(f, 7, 64, 0, &g), 1);
	assert_true(farm_touch(f, 7, &key, g.gen, 5 * S));
	farm_late(f, 60 * S);
	assert_null(farm_tick(f, 70 * S));
	assert_true(farm_touch(f, 7, &key, g.gen, 79 * S)); /* the renewal that had waited */
	assert_null(farm_tick(f, 93 * S));
	assert_int_equal(farm_counts(f)->expired, 0);
	assert_null(farm_tick(f, 95 * S));
	assert_int_equal(farm_counts(f)->expired, 1);
	assert_false(farm_touch(f, 7, &key, g.gen, 95 * S));
	farm_free(f, NULL);
}

static void
budgets(void **state)
{
	static const struct {
		enum err_code fail;
		int attempts;
	} row[] = {{ERR_DEVLOST, 3}, {ERR_TIMEOUT, 2}, {ERR_INFEASIBLE, 1}, {ERR_COMPILE, 1}, {ERR_CRASH, 2}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct farm *f = farm_new(1);
		struct farm_task *t = add(f, 1, 9), *out;
		struct farm_grant g;

		for (int k = 1; k <= row[i].attempts; k++) {
			farm_join(f, (uint64_t)k, 1);
			assert_int_equal(farm_lease(f, (uint64_t)k, 64, 0, &g), 1);
			assert_int_equal(
			    farm_finish(f, (uint64_t)k, &t->want.key, g.gen, row[i].fail, 0, &out),
			    k < row[i].attempts ? FARM_RETRY : FARM_FAILED);
			farm_verify(f);
		}
		assert_int_equal(t->last_fail, row[i].fail);
		farm_free(f, NULL);
	}
}

static void
quarantine(void **state)
{
	struct farm *f = farm_new(1);
	struct farm_grant g[64];
	struct farm_task *out;
	struct hash none = {{0}};
	uint32_t given = 0;

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		add(f, i, 9);
	farm_join(f, 1, 1);
	farm_join(f, 2, 1); /* takes nothing: the other one must be stopped all the same */
	for (int k = 0; k < 10; k++) {
		uint32_t n = farm_lease(f, 1, 64, 0, g);

		given += n;
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(
			    farm_finish(f, 1, &g[i].task->want.key, g[i].gen, ERR_DEVLOST, 0, &out),
			    FARM_RETRY);
	}
	assert_true(given <= 5);
	assert_int_equal(farm_device(f, 1)->state, DEVICE_QUARANTINED);
	assert_int_equal(farm_lease(f, 1, 64, 29 * S, g), 0);
	assert_int_equal(farm_lease(f, 1, 64, 31 * S, g), 1);
	assert_null(g[0].task); /* a canary */
	assert_int_equal(farm_finish(f, 1, &none, g[0].gen, ERR_WRONG, 32 * S, &out), FARM_CANARY);
	assert_int_equal(farm_lease(f, 1, 64, 90 * S, g), 0); /* the back-off has doubled */
	assert_int_equal(farm_lease(f, 1, 64, 300 * S, g), 1);
	assert_int_equal(farm_finish(f, 1, &none, g[0].gen, ERR_NONE, 301 * S, &out), FARM_CANARY);
	assert_int_equal(farm_device(f, 1)->state, DEVICE_OK);
	assert_int_equal(farm_lease(f, 1, 64, 301 * S, g), 4); /* carefully at first */
	for (int i = 0; i < 4; i++)
		(void)farm_finish(f, 1, &g[i].task->want.key, g[i].gen, ERR_NONE, 301 * S, &out);
	assert_int_equal(farm_lease(f, 1, 64, 301 * S, g), 64);
	farm_verify(f);
	farm_free(f, NULL);
}

static void
merge_and_drop(void **state)
{
	struct farm *f = farm_new(1);
	struct farm_task *a = add(f, 1, 10);
	struct hash key = a->want.key;
	struct farm_grant g;

	(void)state;
	assert_ptr_equal(add(f, 1, 11), a);
	assert_int_equal(a->n_waiters, 2);
	farm_join(f, 1, 1);
	assert_int_equal(farm_lease(f, 1, 64, 0, &g), 1);
	farm_drop(f, 10, NULL, NULL);
	assert_true(farm_touch(f, 1, &g.task->want.key, g.gen, 1));
	farm_drop(f, 11, NULL, NULL);
	assert_int_equal(farm_n_tasks(f, FARM_LEASED), 0);
	assert_false(farm_touch(f, 1, &key, g.gen, 1)); /* revoked */
	farm_verify(f);
	farm_free(f, NULL);
}

/* Nobody waits any more, and the device has not heard of it: what it has found out counts; not once it was
 * told. */
static void
orphans(void **state)
{
	struct farm *f = farm_new(1);
	struct hash k1 = want_of(1).key, k2 = want_of(2).key;
	struct farm_grant g[2];
	struct farm_task *t;

	(void)state;
	(void)add(f, 1, 10);
	(void)add(f, 2, 10);
	farm_join(f, 1, 1);
	assert_int_equal(farm_lease(f, 1, 64, 0, g), 2);
	assert_int_equal(farm_holds(f, 1, &k1, g[0].gen, 0, &t), FARM_HOLDS_LEASE);
	farm_drop(f, 10, NULL, NULL);
	assert_int_equal(farm_holds(f, 1, &k1, g[0].gen, 1, &t), FARM_HOLDS_PROMISE);
	assert_null(t);
	assert_int_equal(farm_finish(f, 1, &k1, g[0].gen, ERR_NONE, 1, &t), FARM_LATE);
	assert_int_equal(farm_holds(f, 1, &k1, g[0].gen, 1, &t), FARM_HOLDS_NOT);
	assert_false(farm_touch(f, 1, &k2, g[1].gen, 1));
	assert_int_equal(farm_holds(f, 1, &k2, g[1].gen, 1, &t), FARM_HOLDS_NOT);
	farm_verify(f);
	farm_free(f, NULL);
}

/* Done, and once more: whoever gets it, nobody is to blame. */
static void
once_more(void **state)
{
	struct farm *f = farm_new(1);
	struct farm_task *t = add(f, 1, 10), *out;
	struct hash key = t->want.key;
	struct farm_grant g;

	(void)state;
	farm_join(f, 1, 1);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(farm_lease(f, 1, 64, 0, &g), 1);
		assert_false(farm_again(f, 1, &key, g.gen + 1));
		assert_true(farm_again(f, 1, &key, g.gen));
		assert_int_equal(farm_holds(f, 1, &key, g.gen, 0, &out), FARM_HOLDS_NOT);
		farm_verify(f);
	}
	assert_int_equal(farm_device(f, 1)->all_faults, 0);
	/* where there is another device, its word is asked for */
	farm_join(f, 2, 1);
	assert_int_equal(farm_lease(f, 1, 64, 0, &g), 0);
	assert_int_equal(farm_lease(f, 2, 64, 0, &g), 1);
	assert_int_equal(farm_finish(f, 2, &key, g.gen, ERR_NONE, 0, &out), FARM_DONE);
	farm_free(f, NULL);
}

static void
adoption(void **state)
{
	struct farm *f = farm_new(2);
	struct hash k1 = want_of(1).key, k2 = want_of(2).key;
	struct farm_task *t;
	struct farm_grant g[8];

	(void)state;
	farm_join(f, 1, 1);
	farm_join(f, 2, 1);
	t = add(f, 1, 10);
	assert_true(farm_adopt(f, 1, &k1, 77, 0));
	assert_int_equal(t->gen, 77);
	assert_false(farm_adopt(f, 2, &k1, 78, 0)); /* the other one has it */
	assert_true(farm_adopt(f, 2, &k2, 79, 0));  /* not asked for yet: promised */
	assert_true(farm_touch(f, 2, &k2, 79, 10 * S));
	t = add(f, 2, 10);
	assert_int_equal(t->state, FARM_LEASED);
	assert_int_equal(t->device, 2);
	assert_int_equal(farm_lease(f, 1, 8, 0, g), 0);
	assert_int_equal(farm_counts(f)->adopted, 2);
	farm_verify(f);
	farm_free(f, NULL);
}

static void
link_and_leave(void **state)
{
	struct farm *f = farm_new(2);
	struct farm_task *t = add(f, 1, 10);
	struct farm_grant g;

	(void)state;
	farm_join(f, 1, 1);
	assert_int_equal(farm_lease(f, 1, 8, 0, &g), 1);
	farm_gone(f, 1, S);
	assert_int_equal(farm_able(f, 1), 0);
	assert_null(farm_tick(f, 5 * S));
	assert_int_equal(t->state, FARM_LEASED); /* a blip costs nothing */
	assert_true(farm_touch(f, 1, &t->want.key, g.gen, 5 * S));
	assert_int_equal(farm_able(f, 1), 1);
	farm_gone(f, 1, 6 * S);
	assert_null(farm_tick(f, 11 * S));
	assert_int_equal(t->state, FARM_READY);
	assert_int_equal(farm_lease(f, 1, 8, 12 * S, &g), 1);
	farm_leave(f, 1);
	assert_int_equal(t->state, FARM_READY);
	assert_int_equal(t->failures[ERR_WORKERLOST], 1);
	farm_verify(f);
	farm_free(f, NULL);
}

static void
priorities_and_kinds(void **state)
{
	struct farm *f = farm_new(2);
	struct farm_want w = want_of(50);
	struct farm_grant g[64];
	bool is_new;

	(void)state;
	farm_join(f, 1, 1);
	for (uint32_t i = 0; i < 6; i++) {
		w = want_of(i);
		w.priority = i % 3;
		farm_add(f, &w, 1, NULL, 0, &is_new);
	}
	w = want_of(60);
	w.kind = TASK_BUILD;
	w.priority = 2;
	farm_add(f, &w, 1, NULL, 0, &is_new);
	w = want_of(61);
	w.env = 2;
	farm_add(f, &w, 1, NULL, 0, &is_new);
	assert_int_equal(farm_lease(f, 1, 64, 0, g), 2); /* those before the build, of priority 2 */
	assert_true(g[0].task->want.priority == 2 && g[1].task->want.priority == 2);
	assert_int_equal(farm_lease(f, 1, 64, 0, g), 1);
	assert_int_equal(g[0].task->want.kind, TASK_BUILD);
	assert_int_equal(farm_lease(f, 1, 3, 0, g), 3);
	assert_true(
	    g[0].task->want.priority == 1 && g[1].task->want.priority == 1 && g[2].task->want.priority == 0);
	farm_verify(f);
	farm_free(f, NULL);
}

/* ---- random histories ---- */
struct letter { /* a result under way */
	uint64_t device, gen;
	struct hash key;
	enum err_code fail;
};
struct world {
	struct farm *f;
	struct rng rng;
	int64_t now;
	uint64_t next_device;
	uint64_t device[8];
	uint32_t n_devices;
	struct letter letters[64];
	uint32_t n_letters;
	uint32_t n_over;
};

static void
over(struct world *w, struct farm_task *t)
{
	w->n_over++;
	farm_end(w->f, t);
}

static void
deliver(struct world *w, uint32_t i)
{
	struct letter l = w->letters[i];
	struct farm_task *before = farm_find(w->f, &l.key), *t;
	uint64_t live = before ? before->gen : 0;
	enum farm_verdict v = farm_finish(w->f, l.device, &l.key, l.gen, l.fail, w->now, &t);

	if (v == FARM_DONE || v == FARM_FAILED) {
		assert_true(live == l.gen); /* only the live generation ends a task */
		over(w, t);
	} else if (before)
		assert_ptr_equal(farm_find(w->f, &l.key), before);
	if (rng_below(&w->rng, 4)) /* else the same letter comes again */
		w->letters[i] = w->letters[--w->n_letters];
}

static void
lease_some(struct world *w, uint64_t device)
{
	static const enum err_code ends[] = {
	    ERR_NONE, ERR_NONE, ERR_NONE, ERR_NONE, ERR_DEVLOST, ERR_CRASH, ERR_COMPILE};
	struct farm_grant g[4];
	uint32_t n = farm_lease(w->f, device, 4, w->now, g);

	for (uint32_t i = 0; i < n && w->n_letters < 64; i++) {
		struct letter *l = &w->letters[w->n_letters];

		if (rng_below(&w->rng, 8) == 0)
			continue; /* lost for ever */
		*l = (struct letter){.device = device, .gen = g[i].gen, .fail = ends[rng_below(&w->rng, 7)]};
		if (g[i].task)
			l->key = g[i].task->want.key;
		w->n_letters++;
	}
}

static void
one_step(struct world *w)
{
	uint32_t d = w->n_devices ? rng_below(&w->rng, w->n_devices) : 0;
	struct farm_task *t;

	switch (rng_below(&w->rng, 12)) {
	case 0:
		if (w->n_devices < 8) {
			w->device[w->n_devices++] = ++w->next_device;
			farm_join(w->f, w->next_device, 1);
		}
		break;
	case 1:
		if (w->n_devices && rng_below(&w->rng, 3) == 0) {
			farm_leave(w->f, w->device[d]);
			w->device[d] = w->device[--w->n_devices];
		}
		break;
	case 2:
		if (w->n_devices)
			farm_gone(w->f, w->device[d], w->now);
		break;
	case 3:
	case 4:
	case 5:
		w->now += (int64_t)rng_below(&w->rng, 10) * S;
		while ((t = farm_tick(w->f, w->now)) != NULL)
			over(w, t);
		break;
	case 6:
	case 7:
	case 8:
		if (w->n_devices)
			lease_some(w, w->device[d]);
		break;
	default:
		if (w->n_letters)
			deliver(w, rng_below(&w->rng, w->n_letters));
	}
}

static void
random_histories(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10000; seed++) {
		struct world w = {.f = farm_new(seed), .rng = {seed}};
		struct farm_task *t;

		for (uint32_t i = 0; i < 20; i++)
			add(w.f, i, 1 + i % 3);
		for (int step = 0; step < 60; step++) {
			one_step(&w);
			if (step % 8 == 0)
				farm_verify(w.f);
		}
		/* then one good device ends all that is left */
		w.n_letters = 0;
		while (w.n_devices)
			farm_leave(w.f, w.device[--w.n_devices]);
		farm_join(w.f, 1000, 1);
		for (int k = 0; k < 100 && (farm_n_tasks(w.f, FARM_READY) || farm_n_tasks(w.f, FARM_LEASED));
		     k++) {
			struct farm_grant g[64];
			uint32_t n = farm_lease(w.f, 1000, 64, w.now, g);

			for (uint32_t i = 0; i < n; i++)
				if (farm_finish(w.f, 1000, &g[i].task->want.key, g[i].gen, ERR_NONE, w.now,
					&t) == FARM_DONE)
					over(&w, t);
		}
		assert_int_equal(farm_n_tasks(w.f, FARM_READY) + farm_n_tasks(w.f, FARM_LEASED), 0);
		assert_int_equal(w.n_over, 20); /* each ended exactly once */
		farm_free(w.f, NULL);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(old_generation),
	    cmocka_unit_test(held_up),
	    cmocka_unit_test(budgets),
	    cmocka_unit_test(quarantine),
	    cmocka_unit_test(merge_and_drop),
	    cmocka_unit_test(orphans),
	    cmocka_unit_test(once_more),
	    cmocka_unit_test(adoption),
	    cmocka_unit_test(link_and_leave),
	    cmocka_unit_test(priorities_and_kinds),
	    cmocka_unit_test(random_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
