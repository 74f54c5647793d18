/* proto/range.h: are numbers that a worker says those of a measurement? */
#ifndef KORCH_RANGE_H
#define KORCH_RANGE_H

#include "msg.h"

/* One schedule: timed (least <= p10 <= median <= p90, all finite, samples that somebody could have taken), or
 * failed (a known class, no times).  ERR_PROTO naming the schedule and the number. */
bool row_check(const struct m_row *r, struct err *e) MUST_CHECK;
bool timing_check(const struct m_timing *t, struct err *e) MUST_CHECK;

#endif
