/* kernels/cost/launch.c: bound and expectation of launches.
 *
 * The bound counts two things that are certain, and no occupancy:
 *  - every pass is a launch behind the one before it, and an empty launch takes call_ns;
 *  - a warp issues in one quarter of a multiprocessor, so that w warps reach w quarters' peak at most.  Which
 *    pass does what is not known: all arithmetic may be in the one with the most warps.
 *
 * Where the machine code of a pass is known, its issue slots and units are a bound too, and what it is priced
 * at is expected. Else what is expected counts how many warps are there to hide latency, how even blocks
 * fill the GPU, and what tiles load and issue for their products. */
#include "launch.h"

#include "../base/sm.h"

#include <math.h>

/* Warps of a multiprocessor that reach half of what many reach: reads of 500 clocks behind 16 instructions or
 * so a warp; coarse, and only the order of schedules depends on it. */
static const double half_warps = 6;

/* Bytes that a multiprocessor has from the cache of all in a clock, at best. */
static const double copied_a_clock = 64;

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

double
cost_tile_ns(double instructions, double bytes, int n_sm, int mhz)
{
	const double clocks = fmax(instructions / SM_QUARTERS, bytes / copied_a_clock) / MAX_OF(n_sm, 1);

	return mhz > 0 ? clocks * 1e3 / mhz : 0;
}

static double
work_of(const struct cost_pass *p)
{
	return fmax(p->blocks * p->threads * p->instructions, 1);
}

struct sums {         /* over passes, one behind another */
	double most;  /* quarters */
	double plain; /* what their share of the least takes, or their tiles, by how slow they are */
	double bare;  /* of plain: passes without a price */
	double floor_ns, code_ns; /* by machine code */
};

static struct sums
sum_up(const struct cost_pass *pass, uint32_t n_passes, double least, int n_sm)
{
	struct sums s = {.most = 0};
	double weight = 0;

	for (uint32_t i = 0; i < n_passes; i++)
		weight += work_of(&pass[i]);

	for (uint32_t i = 0; i < n_passes; i++) {
		const struct cost_pass *p = &pass[i];
		const double plain = fmax(least * work_of(p) / weight, p->tile_ns) * slowness(p, n_sm);

		s.most = fmax(s.most, quarters(p, n_sm));
		s.plain += plain;
		s.bare += p->expected_ns > 0 ? 0 : plain;
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
	const struct sums s = sum_up(pass, n_passes, least, MAX_OF(n_sm, 1));
	const double reached = fmax(s.most > 0 ? parts->flop_ns / s.most : parts->flop_ns, parts->byte_ns),
		     bound = floor(fmax(reached, s.floor_ns) + calls), plain = n_passes ? s.plain : least,
		     /* passes without a price have their share of what launches say */
	    priced = n_passes ? s.code_ns + s.bare : least;
	struct cost_launch l = {.plain_ns = plain + calls,
	    .is_priced = s.bare == 0 && s.code_ns > 0,
	    .expected_ns = plain + calls};

	if (s.code_ns > 0)
		l.expected_ns = fmax(fmax(priced, reached), s.floor_ns) + calls;
	l.bound_ns = bound < 1 ? 1 : bound > 1e15 ? (int64_t)1e15 : (int64_t)bound;
	return l;
}
