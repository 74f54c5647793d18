/* daemon/planner/device.c: a device as bounds, lowering and predictions see it. */
#include "device.h"

#include "../../kernels/predict/least.h"

struct hw
env_hw(const struct m_env *env, uint64_t threads, bool winograd)
{
	const struct m_hw *h = &env->hw;
	struct hw hw = hw_fastest;

	if (h->flops_peak > 0)
		hw = (struct hw){
		    .flops_peak = h->flops_peak,
		    .linear_flops = h->linear_flops,
		    .exp_per_s = h->exp_per_s,
		    .div_per_s = h->div_per_s,
		    .bytes_per_s = {h->l1_bytes_per_s, h->l2_bytes_per_s, h->l3_bytes_per_s,
			h->dram_bytes_per_s},
		    .level_bytes = {h->l1_bytes, h->l2_bytes, h->l3_bytes},
		    .call_ns = h->call_ns,
		    .barrier_ns = h->barrier_ns,
		    .simd_bytes = (int)h->simd_bytes,
		    .lanes = h->sm > 0 ? 0 : (int)h->simd_bytes / (int)sizeof(float),
		};
	hw.n_threads = (int)MAX_OF(threads, 1u);
	hw.winograd = winograd;
	return hw;
}

int64_t
device_bound_ns(const struct spec *s, const struct target *t, const struct hw *hw, struct str heat)
{
	struct hw its = *hw;

	its.winograd = hw->winograd && (t->is_cuda || space_winograd(s, t));
	return cost_bound_heat_ns(s, &its, heat, NULL);
}

int64_t
device_space_ns(
    const struct spec *s, const struct target *t, const struct hw *hw, struct str heat, uint64_t effort)
{
	struct arena tmp = {0};
	struct str *list;
	uint32_t n = 0;
	int64_t bound = device_bound_ns(s, t, hw, heat), least = INT64_MAX;

	if (hw->lanes > 0)
		space_list(&tmp, s, t, (uint32_t)effort, trace_outcome, &list, &n);
	for (uint32_t i = 0; i < n && least > bound; i++)
		least = MIN_OF(least, schedule_least_ns(s, list[i], t, hw, heat, bound));
	arena_fini(&tmp);
	return n ? least : bound;
}

/* Those that the environment's key lists. */
static void
find_libraries(struct str key, struct target *t)
{
	while (key.n) {
		struct str text = str_cut(&key, '\n');
		const struct str name = str_cut(&text, '=');
		enum library l;
		int64_t version;

		if (str_is(name, "library") && library_read(text, &l, &version))
			t->library[l] = version;
	}
}

struct target
env_target(const struct m_env *env, bool strict, bool winograd, enum precision precision)
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
	find_libraries(env->key, &t);
	t.strict = strict;
	t.winograd = winograd;
	t.precision = precision;
	return t;
}
