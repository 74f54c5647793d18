/* kernels/cost/cost.h: lower bounds from hardware facts (D16), and later the predictor. */
#ifndef KORCH_COST_H
#define KORCH_COST_H

#include "../base/heat.h"
#include "../ir/ir.h"

/* What calibration found on a device; goes into the measuring environment. */
struct hw {
	double flops_peak;           /* float32 per second, one thread, largest ever seen */
	double tensor_peak;          /* of a GPU's tensor cores, at the precision asked for; 0: not used */
	double linear_flops;         /* of flops_peak what products can reach; 0: all of it */
	double exp_per_s, div_per_s; /* float32 exponentials and divisions, one thread; 0: not known */
	double bytes_per_s[4];       /* streaming: L1, L2, L3, DRAM */
	int64_t level_bytes[3];      /* capacity of L1, L2, L3 as seen by one thread */
	double call_ns;              /* one pass through the kernel ABI */
	double barrier_ns;           /* one barrier at the plan's thread count */
	int simd_bytes;              /* 16, 32, 64 */
	int lanes;                   /* float32 elements of a generated kernel's vectors; 0: not of a CPU */
	int n_threads;               /* the plan's */
	bool winograd; /* the plan may use Winograd's form: a fourth of such a convolution's products */
};
/* How timing rotates operands and results, so that a kernel meets them as a plan does: over as
 * many copies as fill so many L2 caches (a GPU's weights: so many times the last cache), at most so many.
 * The bound counts on it. */
enum { RING_L2_CACHES = 4, RING_LAST_CACHES = 2, RING_MAX_COPIES = 64 };
/* Faster than any CPU (per thread), than any GPU: where nothing was calibrated, or nobody believed. */
extern const struct hw hw_fastest, hw_fastest_gpu;

/* Operations a second at which no product is quicker: what a bound divides by. */
double cost_least_rate(const struct hw *hw);

struct cost_parts {
	double flops, linear_flops, bytes; /* linear_flops: those of flops that tensor cores can do */
	double flop_ns, byte_ns, call_ns;
};
/* Physics alone, counted by peaks and bandwidths.  Never above the bound. */
int64_t cost_analytic_ns(
    const struct spec *s, const struct hw *hw, struct str heat, struct cost_parts *parts);
/* What predictions are relative to: at least the bound, and what it takes where each primitive makes all of
 * its results, whoever needs them, at the rates that the bound counts by.  No bound itself: a schedule may
 * leave out what nobody needs.  parts: as cost_analytic_ns() has them. */
int64_t cost_work_ns(const struct spec *s, const struct hw *hw, struct str heat, struct cost_parts *parts);
/* Never above what any schedule can reach; at least 1 ns.  n_passes >= 1. */
int64_t cost_bound_ns(const struct spec *s, const struct hw *hw, struct cost_parts *parts);
/* The same where operands and results lie so (kernels/base/heat.h): what is hot comes from a core's own
 * caches. */
int64_t cost_bound_heat_ns(
    const struct spec *s, const struct hw *hw, struct str heat, struct cost_parts *parts);
/* No device of that kind takes less for it, whatever it says of itself; and for the arithmetic alone. */
int64_t cost_floor_ns(const struct spec *s, bool is_gpu, int n_threads);
double cost_floor_flop_ns(const struct spec *s, bool is_gpu, int n_threads);

#endif
