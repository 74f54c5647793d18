/* kernels/cost/launch.c: bound and expectation of launches.
 *
 * The bound counts two things that are certain, and no occupancy:
 *  - every pass is a launch behind the one before it, and an empty launch takes call_ns;
 *  - a warp issues in one quarter of a multiprocessor, so that w warps reach w quarters' peak at most.  Which
 *    pass does what is not known: all arithmetic may be in the one with the most warps.
 *
 * Where the machine code of a pass is known, its issue slots and units are a bound too, and what it is priced
 * at is expected. Else what is expected counts how many warps are there to hide latency, and how even blocks
 * fill the GPU. */
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

struct sums {                      /* over passes, one behind another */
	double most, weight, slow; /* quarters; work, and that times how slow it is */
	double bare;               /* of slow: passes without a price */
	double floor_ns, code_ns;  /* by machine code */
};

static struct sums
sum_up(const struct cost_pass *pass, uint32_t n_passes, int n_sm)
{
	struct sums s = {.most = 0};

	for (uint32_t i = 0; i < n_passes; i++) {
		const struct cost_pass *p = &pass[i];
		const double w = fmax(p->blocks * p->threads * p->instructions, 1),
			     slow = w * slowness(p, n_sm);

		s.most = fmax(s.most, quarters(p, n_sm));
		s.weight += w;
		s.slow += slow;
		s.bare += p->expected_ns > 0 ? 0 : slow;
		s.floor_ns += p->floor_ns;
		s.code_ns += p->expected_ns;
	}
	return s;
}

struct cost_launch
cost_launch(const struct cost_parts *parts, const struct hw *hw, int n_sm, const struct cost_pass *pass,
    uint32_t n_passes)
{
	const double calls = MAX_OF(n_passes, 1u) * hw->call_ns, least = fmax(parts->flop_ns, parts->byte_ns);
	const struct sums s = sum_up(pass, n_passes, MAX_OF(n_sm, 1));
	const double reached = fmax(s.most > 0 ? parts->flop_ns / s.most : parts->flop_ns, parts->byte_ns),
		     bound = floor(fmax(reached, s.floor_ns) + calls),
		     plain = s.weight > 0 ? least * s.slow / s.weight : least,
		     /* passes without a price have their share of what launches say */
	    priced = s.weight > 0 ? s.code_ns + least * s.bare / s.weight : least;
	struct cost_launch l = {.plain_ns = plain + calls,
	    .is_priced = s.bare == 0 && s.code_ns > 0,
	    .expected_ns = plain + calls};

	if (s.code_ns > 0)
		l.expected_ns = fmax(fmax(priced, reached), s.floor_ns) + calls;
	l.bound_ns = bound < 1 ? 1 : bound > 1e15 ? (int64_t)1e15 : (int64_t)bound;
	return l;
}
