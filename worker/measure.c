/* worker/measure.c: small things that both ends of measuring use. */
#include "measure_int.h"

#include <stdlib.h>
#include <time.h>

int64_t
now_ns(void)
{
	const struct os *os = os_real();

	return os->mono_ns(os->self);
}

int64_t
thread_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
		bug("the thread's clock cannot be read");
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
gather_threads(const struct dev *d, uint32_t n_void)
{
	if (d->gather && n_void < MOST_VOID)
		d->gather(d->self);
}

bool
had_all_threads(const struct dev *d, uint32_t *n_void)
{
	return !d->is_short || !d->is_short(d->self) || (*n_void)++ >= MOST_VOID;
}

static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int64_t
median_ns(int64_t *v, uint32_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : v[n / 2 - 1] + (v[n / 2] - v[n / 2 - 1]) / 2;
}

const char *
measure_stop_name(enum measure_stop s)
{
	static const char *const names[STOP_COUNT] = {[STOP_NONE] = "",
	    [STOP_CONVERGED] = "converged",
	    [STOP_BUDGET] = "timeout",
	    [STOP_RACE] = "race",
	    [STOP_THROTTLED] = "throttled",
	    [STOP_DISTURBED] = "disturbed"};

	if (s < 0 || s >= STOP_COUNT)
		bug("no stop %d", (int)s);
	return names[s];
}

void
measure_fail(struct arena *a, struct m_row *row, enum err_code code, const char *why)
{
	row->fail = (uint64_t)err_wire(code == ERR_NONE ? ERR_FAILED : code);
	row->cause = str_of(str_dup(a, str_of(why)));
}
