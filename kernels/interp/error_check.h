/* kernels/interp/error_check.h: does a computed result agree with the reference?  Within the tolerance of the
 * largest magnitude it does.  What is further off may be an element that rounding alone moves that far: a
 * quotient whose divisor nearly cancels, a comparison that a last bit crosses.  So the reference is evaluated
 * again, its operands and what it rounds on the way shaken by last places: an element may be off by a
 * multiple of the largest move seen. Only elements that are off are shaken, so a result within the tolerance
 * costs nothing more. */
#ifndef KORCH_ERROR_CHECK_H
#define KORCH_ERROR_CHECK_H

#include "interp.h"

struct wanted {            /* what an output should be */
	const void *dense; /* all elements, or NULL */
	int64_t *at;       /* else these */
	double *value;
	uint32_t n;
	double scale; /* what errors are measured against: wanted_scale() */
	/* check_error()'s own */
	float *moved;    /* largest move of each element so far */
	uint8_t *shakes; /* how often each of `at` was shaken */
};
/* The largest magnitude, or where few stand far above the rest (a divisor that nearly cancels) less: such
 * elements are measured against their own. */
double wanted_scale(const struct tensor *t, const struct wanted *w);

struct error_check { /* a graph on certain inputs */
	struct arena *arena;
	const struct graph *g;
	const void *const *inputs;
	struct wanted *want; /* per output */
	uint64_t seed;
	uint64_t
	    max_cone;   /* elements are shaken by their cones of so many evaluations; 0: the graph in full */
	uint32_t grain; /* last places that a shake's step has: for products of a coarser precision; 0: 1 */
	bool may_be_wild;  /* else nearly all elements must be right to a hundredth of the largest, whatever
	                      moves them */
	uint32_t n_shakes; /* check_error()'s own: of the graph in full */
};
struct verdict {
	double worst;  /* error over scale, of elements that rounding does not excuse */
	int64_t n_off; /* elements that are wrong */
	int64_t at;    /* the worst of them */
	double have, want;
	int64_t n_excused; /* elements outside the tolerance that rounding moves as far */
};
/* `tolerance` is a share of the scale; integers must be equal. */
struct verdict check_error(struct error_check *j, uint32_t output, double tolerance, const void *have);
/* 0 where equal; infinite where one is finite and the other not.  Values beyond 1e30 are as good as infinite:
 * there the order of operations decides. */
double error_of(double have, double want);

#endif
