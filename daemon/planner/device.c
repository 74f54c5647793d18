/* daemon/planner/device.c: a device as bounds, lowering and predictions see it. */
#include "device.h"

#include <string.h>

struct hw
device_hw(const struct m_env *env, uint64_t threads, bool winograd)
{
	const struct m_hw *h = &env->hw;
	struct hw hw = hw_fastest;

	if (h->flops_peak > 0)
		hw = (struct hw){
		    .flops_peak = h->flops_peak,
		    .bytes_per_s = {h->l1_bytes_per_s, h->l2_bytes_per_s, h->l3_bytes_per_s,
			h->dram_bytes_per_s},
		    .level_bytes = {h->l1_bytes, h->l2_bytes, h->l3_bytes},
		    .call_ns = h->call_ns,
		    .barrier_ns = h->barrier_ns,
		    .simd_bytes = (int)h->simd_bytes,
		};
	hw.n_threads = (int)MAX_OF(threads, 1u);
	hw.winograd = winograd;
	return hw;
}

struct target
device_target(const struct m_env *env, bool strict, bool winograd, enum precision precision)
{
	const struct m_hw *h = &env->hw;
	struct target t = target_sse42;

	if (h->sm > 0) {
		t = target_cuda;
		t.sm = (int)MIN_OF(h->sm, (int64_t)9999);
	} else if (h->simd_bytes > 0) {
		t.simd_bytes = (int)h->simd_bytes;
		t.n_vregs = (int)h->n_vregs;
		target_caches(&t, (double)h->l1_bytes, (double)h->l2_bytes, (double)h->l3_bytes);
	}
	t.strict = strict;
	t.winograd = winograd;
	t.precision = precision;
	return t;
}

/* "library=onednn-2.6.3", a word of the key among others; the key's words are parted by blanks or lines. */
void
device_libraries(const struct m_env *env, struct target *t)
{
	static const char name[] = "library=";
	const char *at = memmem(env->key.p, env->key.n, name, sizeof(name) - 1);
	struct str rest;

	if (!at)
		return;
	at += sizeof(name) - 1;
	rest = (struct str){at, (size_t)(env->key.p + env->key.n - at)};
	rest = str_cut(&rest, '\n');
	while (rest.n) {
		struct str word = str_cut(&rest, ' ');
		enum library l;
		int64_t version;

		if (!library_read(word, &l, &version))
			return;
		t->library[l] = version;
	}
}
