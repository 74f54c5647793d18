/* tests/unit/work_test.c: the work thread takes about as many measurements at a time as a few seconds will
 * do. threads: yes */
#include "../../worker/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

enum { MOST = 16, SLOW_MS = 700 };
struct bench {
	struct device device;
	struct work work;
	atomic_bool is_slow;
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

static void
batches_follow_the_speed(void **state)
{
	static const struct worker_conf conf = {.url = ""};
	static struct bench b;

	(void)state;
	b.device = (struct device){.self = &b, .batch = MOST, .measure = measure};
	work_start(&b.work, &b.device, &conf, no_wake, NULL);
	assert_int_equal(work_batch(&b.work), MOST);
	atomic_store(&b.is_slow, true);
	one_task(&b);
	assert_in_range(work_batch(&b.work), 2, 5000 / SLOW_MS); /* five seconds, and never one by one */
	atomic_store(&b.is_slow, false);
	while (work_batch(&b.work) < MOST)
		one_task(&b);
	work_stop(&b.work, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(batches_follow_the_speed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
