/* kernels/device/streams.h: which of several steps must wait for which, and on which of a few streams each of
 * them runs.  Pure: steps and the bytes that they touch in, an order for every device out. */
#ifndef KORCH_STREAMS_H
#define KORCH_STREAMS_H

#include "../base/base.h"

enum {
	STREAMS_MAX = 8,
	/* The branches of the usual networks: three projections of an attention, four arms of a cell. */
	STREAMS_DEFAULT = 4,
	/* Beyond these a plan runs on one stream: every pair of steps is looked at. */
	STREAMS_MAX_STEPS = 4096,
	STREAMS_MAX_USES = 16384
};

/* Bytes that a step touches; ranges of different regions never meet. */
struct step_use {
	uint32_t region;
	size_t from, to;
	bool is_written;
};
struct step_uses {
	struct step_use *use;
	uint32_t *first; /* of each step; n_steps + 1 */
	uint32_t n_steps;
};
/* Of each step, others: item[first[i]] up to item[first[i + 1]]. */
struct step_links {
	uint32_t *first, *item;
};

/* An order: steps of one stream run as they are numbered, and each behind those that it waits for. */
struct streams {
	uint32_t n_steps;
	uint32_t n_streams; /* in use; 1: the plan's own order */
	uint32_t *stream;   /* of each step */
	struct step_links
	    waits; /* steps on other streams that each step waits for; none is implied by the rest */
	uint32_t n_waits;
	bool *is_awaited; /* step: somebody waits for it */
};

/* Two steps that touch the same bytes, one of them writing, run in their order: to each step the earlier
 * ones, the latest first, without those that an item already comes behind. */
void streams_depend(struct arena *a, const struct step_uses *u, struct step_links *out);
/* At most n_streams (1 to STREAMS_MAX).  cost_ns: what each step takes, which guides the choice and nothing
 * else. */
void streams_assign(struct arena *a, const struct step_links *deps, const int64_t *cost_ns, uint32_t n_steps,
    uint32_t n_streams, struct streams *out);
/* One behind the other, on one stream. */
void streams_one(struct arena *a, uint32_t n_steps, struct streams *out);

#endif
