/* daemon/planner/result_cache.h: how this very job ended before (result_cache.c). */
#ifndef KORCH_PLANNER_RESULT_CACHE_H
#define KORCH_PLANNER_RESULT_CACHE_H

#include "held.h"

enum { ENDED_MAX_SPECS = 131072 }; /* more are not listed: such a job searches again */
/* Fills in ->past: how this job ended, by its budget or with no less of it; all zero where it did not. */
bool cached_find(struct tune *t, struct err *e) MUST_CHECK;
/* By which the end of a job with these options is kept; after cached_find. */
bool cached_key(const struct tune *t, const struct m_options *o, struct hash *out, struct err *e) MUST_CHECK;
/* The end of the job with that key, and its plan as a file (->path) where it is here (->has_plan). */
bool cached_plan(struct tune *t, const struct hash *key, struct m_end_have *out, struct err *e) MUST_CHECK;
/* Nothing has changed since: its plan is this job's. */
bool cached_is_answer(const struct tune *t);
/* What this job does first, in words: reading the model, or going on from that end. */
const char *cached_words(struct tune *t);
/* What its choice costs by now; false where it makes no sense any more. */
bool cached_cost(struct tune *t, int64_t *cost);
/* Makes that choice the job's: ->is_repeat. */
void cached_take(struct tune *t, int64_t cost);
/* Its choice, whether or not it makes sense; *n is 0 where there is none. */
uint32_t *cached_choice(const struct tune *t, struct arena *a, uint32_t *n);
/* As each of these was built; NULL: that end does not say. */
struct held *cached_held(const struct tune *t, struct arena *a, const uint32_t *chosen, uint32_t n);
/* Its whole plans' timings. */
void cached_times(struct tune *t);
/* All that was said at its end. */
void cached_progress(struct tune *t);
/* The end of before, of which the choice stands, with another plan (->taken). */
void cached_refill(struct tune *t, struct m_done *done);
/* Adds what a repeat will need; false where this end is none to be repeated. */
bool cached_fill(struct tune *t, struct m_done *done);

#endif
