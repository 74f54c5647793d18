/* tests/unit/work_test.c: the work thread takes about as many measurements at a time as a few seconds will
 * do, and gives up what nobody waits for. threads: yes */
#include "../../worker/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

enum { MOST = 16, SLOW_MS = 700, MOST_CALLS = 32 };
static const struct worker_conf conf = {.url = ""};
struct bench {
	struct device device;
	struct work work;
	atomic_bool is_slow;
	uint32_t call[MOST_CALLS], n_calls; /* tasks of each call; the work thread's until it has ended */
};

static void
measure(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct bench *b = self;
	struct timespec t = {.tv_nsec = SLOW_MS * 1000000L};

	(void)a;
	(void)tasks;
	(void)out;
	for (uint32_t i = 0; i < n && atomic_load(&b->is_slow); i++)
		(void)nanosleep(&t, NULL);
}

static void
count_calls(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct bench *b = self;

	(void)a;
	(void)tasks;
	(void)out;
	if (b->n_calls < MOST_CALLS)
		b->call[b->n_calls++] = n;
}

/* Until it is told that nobody wants it. */
static void
never_ends(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct bench *b = self;
	struct timespec ms = {.tv_nsec = 1000000};

	count_calls(self, a, tasks, n, out);
	while (!b->work.cancel)
		(void)nanosleep(&ms, NULL);
	for (uint32_t i = 0; i < n; i++)
		out[i].fail = (uint64_t)err_wire(ERR_LINKLOST);
}

static void
no_wake(void *self)
{
	(void)self;
}

/* One task there and back. */
static void
one_task(struct bench *b)
{
	struct batch *batch = heap_alloc(sizeof(*batch));
	struct timespec ms = {.tv_nsec = 1000000};
	struct result *r;

	*batch = (struct batch){.n = 1};
	batch->tasks = NEW(&batch->arena, struct m_task);
	*batch->tasks = (struct m_task){.kind = TASK_MEASURE, .spec = STR("spec"), .precision = STR("f32")};
	work_post(&b->work, batch);
	while ((r = work_take(&b->work)) == NULL)
		(void)nanosleep(&ms, NULL);
	arena_fini(&r->arena);
	free(r);
}

static struct result *
await_result(struct bench *b)
{
	struct timespec ms = {.tv_nsec = 1000000};
	struct result *r;

	while ((r = work_take(&b->work)) == NULL)
		(void)nanosleep(&ms, NULL);
	return r;
}

/* n measurements, numbered from `gen` on, for which somebody waits so long; 0: for ever. */
static void
post(struct bench *b, uint32_t n, uint64_t gen, int64_t limit_ns)
{
	struct batch *batch = heap_alloc(sizeof(*batch));

	*batch = (struct batch){.n = n};
	batch->tasks = NEW_ARRAY(&batch->arena, struct m_task, n);
	for (uint32_t i = 0; i < n; i++)
		batch->tasks[i] = (struct m_task){.kind = TASK_MEASURE,
		    .key = {{(uint8_t)(gen + i)}},
		    .gen = gen + i,
		    .limit_ns = limit_ns,
		    .spec = STR("spec"),
		    .precision = STR("f32")};
	work_post(&b->work, batch);
}

static void
drop(struct bench *b, uint64_t gen)
{
	struct hash key = {{(uint8_t)gen}};

	work_drop(&b->work, &key, gen);
}

/* What is under way goes on while somebody wants any of it, and is given up when nobody does; what waits is
 * not even begun. Each task has its outcome. */
static void
unwanted_work_is_given_up(void **state)
{
	static struct bench b;
	bool is_given_up[8] = {false};

	(void)state;
	b.device = (struct device){.self = &b, .batch = 4, .measure = never_ends};
	work_start(&b.work, &b.device, &conf, no_wake, NULL);
	post(&b, 4, 1, 0);
	post(&b, 2, 5, 0);
	post(&b, 1, 7, 0);
	drop(&b, 5);
	drop(&b, 6);
	for (uint64_t gen = 1; gen <= 4; gen++) {
		assert_null(work_take(&b.work));
		drop(&b, gen);
	}
	drop(&b, 7);
	for (int i = 0; i < 7; i++) {
		struct result *r = await_result(&b);

		assert_in_range(r->outcome.gen, 1, 7);
		is_given_up[r->outcome.gen] = r->outcome.fail == (uint64_t)err_wire(ERR_LINKLOST);
		arena_fini(&r->arena);
		free(r);
	}
	work_stop(&b.work, false);
	for (int gen = 1; gen <= 7; gen++)
		assert_true(is_given_up[gen]);
	assert_true(b.n_calls <= 1 && (b.n_calls == 0 || b.call[0] == 4));
}

/* Near the moment at which nobody waits any more fewer are begun together: what is not done by then is in
 * vain. */
static void
pieces_fit_the_time(void **state)
{
	static const struct {
		int64_t limit_ns;
		uint32_t want;
	} row[] = {{0, 8}, {(int64_t)3600 * 1000000000, 8}, {(int64_t)10 * 1000000000, 4}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct bench b = {.device = {.batch = 8, .measure = count_calls}};

		b.device.self = &b;
		work_start(&b.work, &b.device, &conf, no_wake, NULL);
		post(&b, 8, 1, row[i].limit_ns);
		for (int n = 0; n < 8; n++) {
			struct result *r = await_result(&b);

			arena_fini(&r->arena);
			free(r);
		}
		work_stop(&b.work, false);
		assert_int_equal(b.call[0], row[i].want);
	}
}

static void
batches_follow_the_speed(void **state)
{
	static struct bench b;

	(void)state;
	b.device = (struct device){.self = &b, .batch = MOST, .measure = measure};
	work_start(&b.work, &b.device, &conf, no_wake, NULL);
	assert_int_equal(work_batch(&b.work), MOST);
	atomic_store(&b.is_slow, true);
	one_task(&b);
	assert_in_range(work_batch(&b.work), 4,
	    5000 / SLOW_MS); /* five seconds, and never fewer than two compilers share well */
	atomic_store(&b.is_slow, false);
	while (work_batch(&b.work) < MOST)
		one_task(&b);
	work_stop(&b.work, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(batches_follow_the_speed),
	    cmocka_unit_test(unwanted_work_is_given_up), cmocka_unit_test(pieces_fit_the_time)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
