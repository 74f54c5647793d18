/* kernels/predict/interval.c: conformal quantiles by group. */
#include "interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double interval_level[INTERVAL_LEVELS] = {0.01, 0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975, 0.99};
/* Fewer say nothing of a group; where there is no residual at all, a factor of ten either way. */
enum { FEWEST = 20, LEAST_MODELS = 4, TAIL_STEPS = 20 };
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
	const struct residual *a = pa, *b = pb;

	return (a->off > b->off) - (a->off < b->off);
}

/* The conformal quantile of n values: rank ceil((n + 1) * level) from the far side of the middle, so that it
 * covers the next one too; beyond the last one there is nothing but it. */
static uint32_t
rank_of(uint32_t n, double level)
{
	const double rank = level >= 0.5 ? ceil((n + 1) * level) : floor((n + 1) * level);

	return (uint32_t)fmin(fmax(rank, 1), n);
}

/* Residuals in their order, and how many each model has of them. */
struct sample_of {
	const struct residual *r;
	uint32_t n, *of_model, n_models;
};

/* The quantile of all models but one; NO_MODEL: of all. */
enum { NO_MODEL = UINT32_MAX };
static double
quantile(const struct sample_of *s, uint32_t without, double level)
{
	const uint32_t left = s->n - (without == NO_MODEL ? 0 : s->of_model[without]);
	uint32_t rank = rank_of(left, level), i = 0;

	for (;; i++) {
		rank -= s->r[i].model != without;
		if (rank == 0)
			return s->r[i].off;
	}
}

/* The share of residuals that are not above what the other models' quantile says. */
static double
covered(const struct sample_of *s, double level)
{
	uint32_t below = 0;

	for (uint32_t m = 0; m < s->n_models; m++) {
		if (s->of_model[m] == 0)
			continue;
		const double end = quantile(s, m, level);

		for (uint32_t i = 0; i < s->n; i++)
			below += s->r[i].model == m && s->r[i].off <= end;
	}
	return (double)below / s->n;
}

static uint32_t
count_models(const struct sample_of *s)
{
	uint32_t n = 0;

	for (uint32_t m = 0; m < s->n_models; m++)
		n += s->of_model[m] > 0;
	return n;
}

/* The level of the sample at which another model's share is what it should be: that itself, or further out.
 */
static double
level_of_next(const struct sample_of *s, double level)
{
	const bool upper = level > 0.5;
	double tail = upper ? 1 - level : level;

	if (level == 0.5 || count_models(s) < LEAST_MODELS)
		return level;
	for (int step = 0; step < TAIL_STEPS; step++) {
		const double at = tail * (TAIL_STEPS - step) / TAIL_STEPS, l = upper ? 1 - at : at,
			     c = covered(s, l);

		if (upper ? c >= level : c <= level)
			return l;
	}
	return upper ? 1 : 0;
}

static void
fit_group(const struct residual *r, uint32_t n, int group, struct sample_of *s, struct residual *room,
    float off[INTERVAL_LEVELS])
{
	double factor = 1;

	s->n = 0;
	for (uint32_t i = 0; i < n; i++)
		if (r[i].group == (uint32_t)group)
			room[s->n++] = r[i];
	if (s->n < FEWEST) {
		factor = widened;
		s->n = n;
		memcpy(room, r, n * sizeof(*r));
	}
	qsort(room, s->n, sizeof(room[0]), by_size);
	memset(s->of_model, 0, s->n_models * sizeof(*s->of_model));
	for (uint32_t i = 0; i < s->n; i++)
		s->of_model[room[i].model]++;
	for (int i = 0; i < INTERVAL_LEVELS; i++)
		off[i] = (float)(s->n >= FEWEST
			? factor * quantile(s, NO_MODEL, level_of_next(s, interval_level[i]))
			: unknown * (interval_level[i] - 0.5) * 2);
}

void
interval_fit(const struct residual *r, uint32_t n, struct interval *out)
{
	struct arena tmp = {0};
	struct residual *room = NEW_ARRAY(&tmp, struct residual, MAX_OF(n, 1u));
	struct sample_of s = {.r = room};

	for (uint32_t i = 0; i < n; i++)
		s.n_models = MAX_OF(s.n_models, r[i].model + 1);
	s.of_model = NEW_ARRAY(&tmp, uint32_t, MAX_OF(s.n_models, 1u));
	for (int g = 0; g < INTERVAL_GROUPS; g++)
		fit_group(r, n, g, &s, room, out->off[g]);
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
