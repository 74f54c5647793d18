/* worker/child.h: the measuring child from inside: what it has open, and how it speaks.  For korch-measure
 * alone. */
#ifndef KORCH_CHILD_H
#define KORCH_CHILD_H

#include "gpu_child.h"

#include <sched.h>

struct child {
	struct pipe pipe; /* to and from its parent */
	struct dev dev;
	struct refs refs;
	bool is_fake;
	size_t memory_bytes;  /* what there is for kernels and their operands */
	cpu_set_t cores;      /* before a pool pinned its opener; none where the system does not say */
	struct gpu_child gpu; /* open: a GPU's child, or a compiler for them */
	struct gpu_refs gpu_refs;
	uint64_t fake_seed;
	struct fake_rates fake_rates;
};

/* False where the parent is gone; a message that is too large is answered with an error. */
bool child_say(struct child *c, const struct msg *m);
bool child_say_error(struct child *c, const struct err *e);
/* Checks and times a batch, rows and all. */
bool child_batch_run(struct child *c, struct arena *a, const struct m_batch_ask *q);

#endif
