/* kernels/predict/interval.c: conformal quantiles by group. */
#include "interval.h"

#include <math.h>
#include <stdlib.h>

const double interval_level[INTERVAL_LEVELS] = {0.01, 0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975, 0.99};
/* Fewer say nothing of a group; where there is no residual at all, a factor of ten either way. */
enum { FEWEST = 20 };
static const double unknown = 2.3, widened = 1.25;

uint32_t
interval_group(double bound_ns, bool is_linear, bool is_parallel)
{
	uint32_t size = bound_ns < 1e3 ? 0 : bound_ns < 1e4 ? 1 : bound_ns < 1e5 ? 2 : 3;

	return size + (is_linear ? INTERVAL_SIZES : 0) + (is_parallel ? INTERVAL_OF_ALIKE : 0);
}

static int
by_size(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

/* The conformal quantile: of n values, rank ceil((n + 1) * level) from the far side of the middle, so that it
 * covers the next one too; beyond the last one there is nothing but it. */
static double
quantile(const double *sorted, uint32_t n, double level)
{
	double rank = level >= 0.5 ? ceil((n + 1) * level) : floor((n + 1) * level);

	return sorted[(uint32_t)fmin(fmax(rank, 1), n) - 1];
}

static void
fit_group(const struct residual *r, uint32_t n, int group, double *room, float off[INTERVAL_LEVELS])
{
	uint32_t k = 0;
	double factor = 1;

	for (uint32_t i = 0; i < n; i++)
		if (r[i].group == (uint32_t)group)
			room[k++] = r[i].off;
	if (k < FEWEST) {
		factor = widened;
		for (k = 0; k < n; k++)
			room[k] = r[k].off;
	}
	qsort(room, k, sizeof(room[0]), by_size);
	for (int i = 0; i < INTERVAL_LEVELS; i++)
		off[i] = (float)(k >= FEWEST ? factor * quantile(room, k, interval_level[i])
					     : unknown * (interval_level[i] - 0.5) * 2);
}

void
interval_fit(const struct residual *r, uint32_t n, struct interval *out)
{
	struct arena tmp = {0};
	double *room = NEW_ARRAY(&tmp, double, MAX_OF(n, 1u));

	for (int g = 0; g < INTERVAL_GROUPS; g++)
		fit_group(r, n, g, room, out->off[g]);
	arena_fini(&tmp);
}

double
interval_at(const struct interval *v, uint32_t group, double level)
{
	const float *off = v->off[group];
	uint32_t i = 1;

	while (i + 1 < INTERVAL_LEVELS && interval_level[i] < level)
		i++;
	double t = (level - interval_level[i - 1]) / (interval_level[i] - interval_level[i - 1]);
	t = fmin(fmax(t, 0), 1);
	return (double)off[i - 1] + t * ((double)off[i] - (double)off[i - 1]);
}

double
interval_low(const struct interval *v, uint32_t group, double factor)
{
	const float *off = v->off[group];

	return fmin(factor * ((double)off[LEVEL_05] - (double)off[LEVEL_50]), 0);
}
