/* kernels/base/clock_ratio.h: a time of the hour beside one of calibration's clock.  The clock of a machine
 * moves by some percent from hour to hour.  Kernels' times are put right by a class reference that is timed
 * beside them (worker/race.c); a whole plan's time is kept as it was, with the ratio that puts it right: the
 * reference's frozen time over its time then.  0: not known, and the time is taken as it is. */
#ifndef KORCH_CLOCK_RATIO_H
#define KORCH_CLOCK_RATIO_H

#include "base.h"

static inline int64_t
calibrated_ns(int64_t ns, double clock_ratio)
{
	double v = (double)ns * clock_ratio;

	return clock_ratio > 0 && v < 9e18 ? (int64_t)(v + 0.5) : ns;
}

/* By so much that it is worth saying. */
static inline bool
is_other_clock(double clock_ratio)
{
	return clock_ratio > 0 && (clock_ratio <= 0.98 || clock_ratio >= 1.02);
}

#endif
