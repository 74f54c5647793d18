/* kernels/predict/kmeans.c: Lloyd's method, k-means++ for its beginning. */
#include "kmeans.h"

#include <math.h>

enum { MOST_ROUNDS = 50 };

struct clusters {
	const float *points;
	uint32_t n, width, k;
	double *centre;    /* [k][width] */
	uint32_t *nearest; /* of each point */
	double *square;    /* ... its distance, squared */
	uint32_t *size;    /* of each cluster */
};

static double
square_to(const struct clusters *c, uint32_t point, uint32_t centre)
{
	const float *p = c->points + (size_t)point * c->width;
	const double *to = c->centre + (size_t)centre * c->width;
	double sum = 0;

	for (uint32_t j = 0; j < c->width; j++)
		sum += (p[j] - to[j]) * (p[j] - to[j]);
	return sum;
}

static void
set_centre(struct clusters *c, uint32_t centre, uint32_t point)
{
	for (uint32_t j = 0; j < c->width; j++)
		c->centre[(size_t)centre * c->width + j] = c->points[(size_t)point * c->width + j];
}

/* A point drawn with the probability of its square; any where all are 0. */
static uint32_t
draw(const struct clusters *c, struct rng *r)
{
	double all = 0, at;

	for (uint32_t i = 0; i < c->n; i++)
		all += c->square[i];
	if (all <= 0)
		return rng_below(r, c->n);
	at = rng_unit(r) * all;
	for (uint32_t i = 0; i < c->n; i++)
		if ((at -= c->square[i]) < 0)
			return i;
	return c->n - 1;
}

static void
seed_centres(struct clusters *c, struct rng *r)
{
	for (uint32_t i = 0; i < c->n; i++)
		c->square[i] = INFINITY;
	for (uint32_t centre = 0; centre < c->k; centre++) {
		set_centre(c, centre, centre == 0 ? rng_below(r, c->n) : draw(c, r));
		for (uint32_t i = 0; i < c->n; i++)
			c->square[i] = fmin(c->square[i], square_to(c, i, centre));
	}
}

/* True where a point changed its cluster. */
static bool
assign(struct clusters *c)
{
	bool changed = false;

	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t best = 0;

		c->square[i] = INFINITY;
		for (uint32_t k = 0; k < c->k; k++) {
			double square = square_to(c, i, k);

			if (square < c->square[i]) {
				c->square[i] = square;
				best = k;
			}
		}
		changed |= best != c->nearest[i];
		c->nearest[i] = best;
	}
	return changed;
}

/* Centres to the means of their points; one without points stays. */
static void
move_centres(struct clusters *c)
{
	for (uint32_t k = 0; k < c->k; k++)
		c->size[k] = 0;
	for (uint32_t i = 0; i < c->n; i++)
		c->size[c->nearest[i]]++;
	for (uint32_t k = 0; k < c->k; k++)
		for (uint32_t j = 0; j < c->width && c->size[k] > 0; j++)
			c->centre[(size_t)k * c->width + j] = 0;
	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t k = c->nearest[i];

		for (uint32_t j = 0; j < c->width; j++)
			c->centre[(size_t)k * c->width + j] +=
			    c->points[(size_t)i * c->width + j] / (double)c->size[k];
	}
}

/* The nearest point to a centre that no other has. */
static uint32_t
take(const struct clusters *c, uint32_t centre, struct bitset *taken)
{
	uint32_t best = 0;
	double least = INFINITY;

	for (uint32_t i = 0; i < c->n; i++) {
		double square = bit_get(taken, i) ? INFINITY : square_to(c, i, centre);

		if (square < least || (isinf(least) && !bit_get(taken, i))) {
			least = square;
			best = i;
		}
	}
	bit_set(taken, best);
	return best;
}

/* The largest cluster that is not done; of equal ones the first. */
static uint32_t
largest(const struct clusters *c, const struct bitset *done)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t k = 0; k < c->k; k++)
		if (!bit_get(done, k) && (best == UINT32_MAX || c->size[k] > c->size[best]))
			best = k;
	return best;
}

double
kmeans_pick(const float *points, uint32_t n, uint32_t width, uint32_t k, uint64_t seed, uint32_t *picks)
{
	struct arena a = {0};
	struct clusters c = {points, n, width, k, NEW_ARRAY(&a, double, ck_mul(k, width)),
	    NEW_ARRAY(&a, uint32_t, n), NEW_ARRAY(&a, double, n), NEW_ARRAY(&a, uint32_t, k)};
	struct bitset taken = bitset_make(&a, n), done = bitset_make(&a, k);
	struct rng r = {mix64(seed)};
	double sum = 0;

	if (k > n)
		bug("%u picks of %u points", k, n);
	if (k > 0) {
		seed_centres(&c, &r);
		assign(&c);
		for (int round = 0; round < MOST_ROUNDS; round++) {
			move_centres(&c);
			if (!assign(&c))
				break;
		}
		move_centres(&c);
	}
	for (uint32_t i = 0; i < k; i++) {
		uint32_t centre = largest(&c, &done);

		bit_set(&done, centre);
		picks[i] = take(&c, centre, &taken);
	}
	for (uint32_t i = 0; i < n && k > 0; i++)
		sum += sqrt(c.square[i]);
	arena_fini(&a);
	return n > 0 ? sum / n : 0;
}
