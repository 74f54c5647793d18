/* proto/range.h: are numbers that a worker says those of a measurement? */
#ifndef KORCH_RANGE_H
#define KORCH_RANGE_H

#include "msg.h"

/* One schedule: timed (least <= p10 <= median <= p90, all finite, samples that somebody could have taken), or
 * failed (a known class, no times).  ERR_PROTO naming the schedule and the number. */
bool row_check(const struct m_row *r, struct err *e) MUST_CHECK;
/* A gain or none, with an interval around it, and a schedule that is its base with moves.  ERR_PROTO. */
bool perturbed_check(const struct m_perturbed *p, struct err *e) MUST_CHECK;
/* A schedule's text is words; `sip=...`, the last one, is moves of instructions in the machine code of what
 * stands before it.  moves: what stands behind "sip=", "" where there is no such word. */
bool sip_split(struct str schedule, struct str *base, struct str *moves);
bool timing_check(const struct m_timing *t, struct err *e) MUST_CHECK;

#endif
