/* kernels/cost/launch.h: what the way a kernel is launched on a GPU says beyond its spec. */
#ifndef KORCH_LAUNCH_H
#define KORCH_LAUNCH_H

#include "cost.h"

struct cost_pass {
	double blocks;
	uint32_t threads;    /* of a block */
	uint32_t resident;   /* blocks that a multiprocessor holds at once, at least 1 */
	double instructions; /* of its text */
	double tile_ns;      /* by cost_tile_ns(): known without machine code; 0: not known */
	double expected_ns;  /* by its machine code (kernels/sass/price.h), the whole GPU's; 0: not known */
	double floor_ns;     /* no run of its machine code is shorter; 0: not known */
};
struct cost_launch {
	int64_t bound_ns;   /* no run of these launches is shorter; at least the spec's bound */
	double expected_ns; /* to order schedules of one spec by; no bound */
	double plain_ns;    /* the same without machine code */
	bool is_priced;     /* all that is expected stands on machine code */
};
/* What tiles take beside their arithmetic: so many instructions of warps and so many bytes copied to shared
 * memory, of all blocks.  Small tiles load more for the same products. */
double cost_tile_ns(double instructions, double bytes, int n_sm, int mhz);
/* parts: what cost_bound_ns found of the spec by the same hw. */
struct cost_launch cost_launch(const struct cost_parts *parts, const struct hw *hw, int n_sm,
    const struct cost_pass *pass, uint32_t n_passes);

#endif
