/* worker/check_ahead.c: see check_ahead.h. */
#include "check_ahead.h"

#include "../kernels/base/parallel.h"

#include <pthread.h>

/* Input sets with their results, as doubles in the interpreter's hands; about. */
enum { COPIES = 6 };

static size_t
bytes_of(const struct spec *s)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < s->g.n_tensors; i++) {
		size_t n;

		if (!shape_bytes(&s->g.tensors[i].shape, s->g.tensors[i].type, &n))
			return SIZE_MAX;
		sum += MIN_OF(n, (SIZE_MAX - sum) / COPIES) * COPIES;
	}
	return sum;
}

uint32_t
check_ahead_fits(const struct check_ready *list, uint32_t n, size_t most_bytes)
{
	size_t left = most_bytes;

	for (uint32_t i = 0; i < n; i++) {
		size_t need = list[i].spec ? bytes_of(list[i].spec) : 0;

		if (need > left)
			return MAX_OF(i, 1u);
		left -= need;
	}
	return n;
}

struct work {
	struct check_ready *list;
	const cpu_set_t *cores;
};

static void
open_nth(void *self, uint32_t hand, uint32_t i)
{
	const struct work *w = self;
	struct check_ready *r = &w->list[i];

	if (hand) /* it has the cores of who started it, which may be one; refused, it is only slower */
		(void)pthread_setaffinity_np(pthread_self(), sizeof(*w->cores), w->cores);
	if (r->spec && !check_open(r->spec, &r->opts, &r->check, &r->why))
		r->check = NULL;
}

void
check_ahead(struct check_ready *list, uint32_t n, const cpu_set_t *cores)
{
	enum { MOST_HANDS = 8 };
	struct work w = {list, cores};

	parallel_for(n, (uint32_t)MAX_OF(MIN_OF(CPU_COUNT(cores), (int)MOST_HANDS), 1), open_nth, &w);
}
