/* kernels/emit/same.c: which schedules make the same kernel: a knob that says nothing to a spec leaves the
 * text as it is, and what is equal is worth one measurement. */
#include "gen_int.h"

#include <string.h>

uint64_t
emit_hash(const struct kernel_code *k)
{
	uint64_t h = descriptor_hash(&k->desc);

	return hash64(k->text.p + k->head_bytes, k->text.n - k->head_bytes, h);
}

/* A CPU's kernel by way of the loop program is told by its trace alone: no C is printed for it. */
bool
emit_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct kernel_code *k = NEW(tmp, struct kernel_code);
	struct sched sched;
	struct err e;

	if (!sched_read(schedule, &sched, &e))
		return false;
	if (!t->is_cuda)
		return fuse_outcome(tmp, s, schedule, t, out);
	if (!emit_cuda(tmp, s, schedule, t, "k", k, &e))
		return false;
	*out = emit_hash(k);
	return true;
}
