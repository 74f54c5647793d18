/* kernels/sass/search_anneal.c: simulated annealing, and its limit at temperature 0.  The temperature is of
 * the logarithm of a ratio of prices: the same for short kernels and long ones. */
#include "search_int.h"

#include <math.h>

enum { ROUNDS = 4 };                 /* each begins hot at the best so far */
static const double COLD = 1. / 400; /* of the heat at a round's end */

/* What a schedule may cost to be kept: the dice are thrown first, so that pricing can be given up early. */
static double
bar(struct sass_hunt *h, double cost, double heat)
{
	return cost * exp(-heat * log(1 - rng_unit(&h->rng)));
}

/* A step that changes nothing in price is kept: plateaus are crossed. */
static void
cool(struct sass_hunt *h, double heat, uint64_t tries)
{
	const uint64_t from = h->out->tries;
	double cost = sass_hunt_price(h, INFINITY);

	while (sass_hunt_goes_on(h) && h->out->tries - from < tries) {
		const double part = (double)(h->out->tries - from) / (double)tries;
		const double limit = nextafter(bar(h, cost, heat * pow(COLD, part)), INFINITY);
		const struct sass_attempt step = sass_attempt_any(h);
		const uint32_t mark = sass_sched_mark(h->s);

		if (sass_attempt_count(h, &step) != SASS_LEGAL)
			continue;
		const double price = sass_hunt_price(h, limit);

		if (isinf(price)) {
			sass_sched_undo(h->s, mark);
			continue;
		}
		sass_sched_keep(h->s);
		sass_hunt_take(h);
		cost = price;
	}
}

static void
rounds(struct sass_hunt *h, double heat)
{
	const uint64_t each = MAX_OF(h->how->tries / ROUNDS, (uint64_t)1);

	for (int n = 0; n < ROUNDS && sass_hunt_goes_on(h); n++) {
		sass_hunt_to_best(h);
		cool(h, heat / (1 << n), each);
	}
}

void
sass_hunt_anneal(struct sass_hunt *h)
{
	rounds(h, h->how->heat > 0 ? h->how->heat : .002);
}

void
sass_hunt_greedy(struct sass_hunt *h)
{
	rounds(h, 0);
}
