/* kernels/sass/search_genetic.c: a population of lists of steps.  A child has the first steps of one parent,
 * the last ones of another and a few of its own; what is not legal in its place is left out of it. */
#include "search_int.h"

#include <math.h>
#include <string.h>

enum { PEOPLE = 24, STEPS = 96, OWN = 4 };

struct person {
	struct sass_attempt step[STEPS];
	uint32_t n;
	double price;
};

static struct person *
stronger(struct sass_hunt *h, struct person *people)
{
	struct person *a = &people[rng_below(&h->rng, PEOPLE)], *b = &people[rng_below(&h->rng, PEOPLE)];

	return a->price <= b->price ? a : b;
}

static uint32_t
worst_of(const struct person *people)
{
	uint32_t worst = 0;

	for (uint32_t n = 1; n < PEOPLE; n++)
		if (people[n].price > people[worst].price)
			worst = n;
	return worst;
}

static void
add(struct person *p, const struct sass_attempt *step)
{
	if (p->n < STEPS)
		p->step[p->n++] = *step;
}

static void
mate(struct sass_hunt *h, struct person *people, struct person *child)
{
	const struct person *a = stronger(h, people), *b = stronger(h, people);
	const uint32_t cut = rng_below(&h->rng, a->n + 1), from = rng_below(&h->rng, b->n + 1);

	child->n = 0;
	for (uint32_t n = 0; n < cut; n++)
		add(child, &a->step[n]);
	for (uint32_t n = from; n < b->n && a != b; n++)
		add(child, &b->step[n]);
	for (uint32_t n = cut; n < a->n && a == b; n++)
		add(child, &a->step[n]);
}

/* The schedule becomes the child's: its inherited steps, then its own. */
static void
raise(struct sass_hunt *h, struct person *child)
{
	const uint32_t n_old = child->n, own = 1 + rng_below(&h->rng, OWN);

	child->n = 0;
	sass_sched_reset(h->s);
	for (uint32_t n = 0; n < n_old; n++)
		if (sass_attempt_do(h, &child->step[n]) == SASS_LEGAL)
			child->step[child->n++] = child->step[n];
	for (uint32_t n = 0; n < own && child->n < STEPS && sass_hunt_goes_on(h); n++) {
		const struct sass_attempt step = sass_attempt_any(h);

		if (sass_attempt_count(h, &step) == SASS_LEGAL)
			child->step[child->n++] = step;
	}
}

void
sass_hunt_genetic(struct sass_hunt *h)
{
	struct person *people = NEW_ARRAY(&h->tmp, struct person, PEOPLE),
		      *child = NEW(&h->tmp, struct person);

	for (uint32_t n = 0; n < PEOPLE; n++)
		people[n].price = h->base_price;
	while (sass_hunt_goes_on(h)) {
		struct person *weakest = &people[worst_of(people)];

		mate(h, people, child);
		raise(h, child);
		child->price = sass_hunt_price(h, nextafter(weakest->price, INFINITY));
		if (child->price <= weakest->price) {
			sass_hunt_take(h);
			*weakest = *child;
		}
	}
}
