/* kernels/target/device.c: targets by name, and whether the generator can work with one. */
#include "target.h"

#define ISA(name, bytes, regs, needs, ...)                                                                   \
	const struct target target_##name = {.isa = ISA_##name,                                              \
	    .simd_bytes = bytes,                                                                             \
	    .n_vregs = regs,                                                                                 \
	    .l1_bytes = 32 << 10,                                                                            \
	    .l2_bytes = 512 << 10,                                                                           \
	    .l3_bytes = 32 << 20};
#include "../base/isa.def"
#undef ISA

const struct target *
target_of_isa(enum isa isa)
{
	static const struct target *const target[ISA_COUNT] = {
#define ISA(name, bytes, regs, needs, ...) &target_##name,
#include "../base/isa.def"
#undef ISA
	};

	return target[isa];
}

bool
target_check(const struct target *t, struct err *e)
{
	if (t->simd_bytes != 16 && t->simd_bytes != 32 && t->simd_bytes != 64)
		return err_set(e, ERR_DEVICE, "vectors of %d bytes; they have 16, 32 or 64", t->simd_bytes);
	if (t->n_vregs < 8 || t->n_vregs > 1024)
		return err_set(e, ERR_DEVICE, "%d vector registers; there are 8 to 1024", t->n_vregs);
	if (t->l1_bytes < 1024 || t->l2_bytes < 1024 || t->l3_bytes < 1024)
		return err_set(e, ERR_DEVICE, "caches of %lld, %lld and %lld bytes; each has 1024 at least",
		    (long long)t->l1_bytes, (long long)t->l2_bytes, (long long)t->l3_bytes);
	return true;
}

void
target_caches(struct target *t, double l1, double l2, double l3)
{
	t->l1_bytes = l1 > 0 ? (int64_t)l1 : t->l1_bytes;
	t->l2_bytes = l2 > 0 ? (int64_t)l2 : t->l2_bytes;
	t->l3_bytes = l3 > 0 ? (int64_t)l3 : t->l3_bytes;
}

const struct target target_cuda = {.simd_bytes = 16,
    .n_vregs = 16,
    .l1_bytes = 32 << 10,
    .l2_bytes = 512 << 10,
    .l3_bytes = 32 << 20,
    .is_cuda = true,
    .sm = 80};
