/* worker/pair.c: is one kernel faster than another?  Both are timed in turn, A B B A, so that what drifts in
 * one direction is in both alike; each such four gives one ratio.  The interval is that of a median by order
 * statistics: it needs no shape of the distribution, and 95 % is what it holds at least. */
#include "measure_int.h"

#include <math.h>
#include <stdlib.h>

static int
compare(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* The most values that may be left out at each end: P(at most so many of n lie below the median) <= 2.5 %.
 * UINT32_MAX: n is too small. */
static uint32_t
left_out(uint32_t n)
{
	double term = exp2(-(double)n), sum = 0;
	uint32_t k = 0;

	for (; sum + term <= 0.025; k++) {
		sum += term;
		term *= (double)(n - k) / (double)(k + 1);
	}
	return k == 0 ? UINT32_MAX : k - 1;
}

bool
pair_judge(double *ratio, uint32_t n, struct pair_stats *out)
{
	uint32_t cut = n <= 1000 ? left_out(n) : (uint32_t)((double)n / 2 - 0.98 * sqrt(n) - 1);

	*out = (struct pair_stats){.n = n};
	if (cut == UINT32_MAX || 2 * cut >= n)
		return false;
	qsort(ratio, n, sizeof(*ratio), compare);
	out->ratio = (ratio[(n - 1) / 2] + ratio[n / 2]) / 2;
	out->low = ratio[cut];
	out->high = ratio[n - 1 - cut];
	return true;
}

bool
pair_is_gain(const struct pair_stats *p)
{
	return p->n > 0 && p->low > 0 && p->high < 1;
}

static bool
is_known_to(const struct pair_stats *p, double share)
{
	return p->high - p->low <= share * p->ratio;
}

bool
pair_is_told(const struct pair_stats *p, uint32_t n)
{
	static const double known_to = 0.004, at_least_to = 0.01; /* of its median, the whole interval */
	uint32_t best = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (p[i].n == 0)
			return false;
		best = p[i].ratio < p[best].ratio ? i : best;
	}
	for (uint32_t i = 0; i < n; i++) {
		double room = p[best].high - p[best].low; /* once more: it was looked at several times */

		if (i == best || p[i].low > p[best].high + room)
			continue;
		if (!is_known_to(&p[i], known_to) || !is_known_to(&p[best], known_to))
			return false;
	}
	return n == 0 || is_known_to(&p[best], at_least_to);
}
