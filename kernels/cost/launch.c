/* kernels/cost/launch.c: bound and expectation of launches.
 *
 * The bound counts two things that are certain, and no occupancy:
 *  - every pass is a launch behind the one before it, and an empty launch takes call_ns;
 *  - a warp issues in one quarter of a multiprocessor, so that w warps reach w quarters' peak at most.  Which
 *    pass does what is not known: all arithmetic may be in the one with the most warps.
 *
 * What is expected counts how many warps are there to hide latency, and how even blocks fill the GPU. */
#include "launch.h"

#include "../base/sm.h"

#include <math.h>

/* Warps of a multiprocessor that reach half of what many reach: reads of 500 clocks behind 16 instructions or
 * so a warp; coarse, and only the order of schedules depends on it. */
static const double half_warps = 6;

static double
warps_of(const struct cost_pass *p)
{
	return (p->threads + SM_WARP - 1) / SM_WARP;
}

/* Of all quarters, how many have a warp at least. */
static double
quarters(const struct cost_pass *p, int n_sm)
{
	return fmin(1, p->blocks * warps_of(p) / ((double)SM_QUARTERS * n_sm));
}

/* Times as long as where all multiprocessors are full of warps all the time. */
static double
slowness(const struct cost_pass *p, int n_sm)
{
	const double blocks = fmax(p->blocks, 1),
		     resident = fmin(MAX_OF(p->resident, 1u), ceil(blocks / n_sm));
	const double at_once = resident * n_sm, rounds = ceil(blocks / at_once),
		     busy = blocks / (rounds * at_once);
	const double warps = resident * warps_of(p), hidden = warps / (warps + half_warps);

	return 1 / (busy * hidden);
}

struct cost_launch
cost_launch(const struct cost_parts *parts, const struct hw *hw, int n_sm, const struct cost_pass *pass,
    uint32_t n_passes)
{
	const double calls = MAX_OF(n_passes, 1u) * hw->call_ns;
	double most = 0, slow = 0, weight = 0, bound;

	n_sm = MAX_OF(n_sm, 1);
	for (uint32_t i = 0; i < n_passes; i++) {
		const double w = fmax(pass[i].blocks * pass[i].threads * pass[i].instructions, 1);

		most = fmax(most, quarters(&pass[i], n_sm));
		slow += w * slowness(&pass[i], n_sm);
		weight += w;
	}
	bound = floor(fmax(most > 0 ? parts->flop_ns / most : parts->flop_ns, parts->byte_ns) + calls);
	return (struct cost_launch){.bound_ns = bound < 1 ? 1
		: bound > 1e15                            ? (int64_t)1e15
							  : (int64_t)bound,
	    .expected_ns = fmax(parts->flop_ns, parts->byte_ns) * (weight > 0 ? slow / weight : 1) + calls};
}
