/* kernels/base/parallel.c: threads that share one counter. */
#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/sysinfo.h>

struct work {
	parallel_fn *one;
	void *self;
	uint32_t n;
	atomic_uint next; /* that nobody has begun */
};
struct hand {
	struct work *work;
	uint32_t number;
};

static void *
take_some(void *arg)
{
	const struct hand *h = arg;
	struct work *w = h->work;

	for (uint32_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
		w->one(w->self, h->number, i);
	return NULL;
}

uint32_t
parallel_hands(uint32_t most)
{
	return MAX_OF(MIN_OF((uint32_t)get_nprocs(), MIN_OF(most, (uint32_t)PARALLEL_MOST)), 1u);
}

void
parallel_for(uint32_t n, uint32_t n_hands, parallel_fn *one, void *self)
{
	struct work w = {.one = one, .self = self, .n = n};
	struct hand hand[PARALLEL_MOST];
	pthread_t thread[PARALLEL_MOST];
	bool threaded[PARALLEL_MOST] = {false};
	uint32_t n_used = MIN_OF(n, n_hands);

	if (n_hands > PARALLEL_MOST || n > UINT32_MAX - PARALLEL_MOST)
		bug("%u things for %u hands", n, n_hands);
	for (uint32_t i = 0; i < MAX_OF(n_used, 1u); i++)
		hand[i] = (struct hand){&w, i};
	for (uint32_t i = 1; i < n_used; i++)
		threaded[i] = pthread_create(&thread[i], NULL, take_some, &hand[i]) == 0;
	(void)take_some(&hand[0]);
	for (uint32_t i = 1; i < n_used; i++)
		if (threaded[i])
			(void)pthread_join(thread[i], NULL);
}
