/* kernels/generate/same.c: which kernels are the same: what is equal is worth one measurement. */
#include "generate.h"

uint64_t
kernel_code_hash(const struct kernel_code *k)
{
	uint64_t h = descriptor_hash(&k->desc);

	return hash64(k->text.p + k->head_bytes, k->text.n - k->head_bytes, h);
}

bool
text_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct kernel_code *k = NEW(tmp, struct kernel_code);
	struct err e;

	if (!t->is_cuda)
		return trace_outcome(tmp, s, schedule, t, out);
	if (!generate_kernel(tmp, s, schedule, t, "k", k, &e))
		return false;
	*out = k->desc.is_library ? hash64(schedule.p, schedule.n, 2) : kernel_code_hash(k);
	return true;
}
