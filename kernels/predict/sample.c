/* kernels/predict/sample.c: a kernel as numbers, and the same at a fixed length. */
#include "leaf.h"

#include "../space/sched.h"

#include <math.h>
#include <string.h>

static void
add_knobs(const struct sched *s, float x[WAY_FEATURES])
{
	static const struct {
		enum way_feature to;
		enum knob knob;
		bool is_log;
	} all[] = {
	    {WAY_block, KNOB_block, true},
	    {WAY_mr, KNOB_mr, false},
	    {WAY_nv, KNOB_nv, false},
	    {WAY_wino, KNOB_wino, false},
	    {WAY_field, KNOB_field, false},
	};

	x[WAY_online] = x[WAY_split] = -1; /* of rows of before: no schedule says it any more */
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		double v = (double)sched_get(s, all[i].knob, -1);

		x[all[i].to] = (float)(all[i].is_log && v >= 0 ? log1p(v) : v);
	}
}

static void
add_way(const struct sched *s, bool is_default, const struct program *p, const struct target *t,
    float x[WAY_FEATURES])
{
	enum library lib;
	int64_t version;

	x[WAY_is_default] = is_default;
	x[WAY_is_library] = sched_library(s, &lib, &version);
	x[WAY_traced] = (float)sched_get(s, KNOB_trace, 0);
	x[WAY_algo] = (float)sched_get(s, KNOB_algo, -1);
	x[WAY_passes] = (float)p->n_passes;
	x[WAY_barriers] = (float)p->n_barriers;
	x[WAY_leaves] = (float)p->n_leaves;
	x[WAY_shared] = (float)log1p(p->shared_bytes);
	x[WAY_local] = (float)log1p(p->local_bytes);
	x[WAY_shared_fits] = (float)log((p->shared_bytes + 1) / ((double)t->l2_bytes + 1));
	x[WAY_local_fits] = (float)log((p->local_bytes + 1) / ((double)t->l1_bytes + 1));
	add_knobs(s, x);
}

/* Seconds of a leaf at the device's rates: what it computes, or what it fetches from beyond the first cache
 * and the second. */
struct leaf_time {
	double flops, bytes;
};

static struct leaf_time
time_of(const struct sample_leaf *l, const struct target *t, const struct hw *hw)
{
	/* In operations: a polynomial, a call of the C library, an index. */
	static const double some = 4, dear = 14, called = 700, index = 16;
	const double wait = t->simd_bytes; /* ... an addition's four cycles */
	const float *x = l->x;
	bool has_lanes = x[LEAF_is_tiled] > 0 || x[LEAF_reduces_lanes] > 0 || x[LEAF_vector] > 1;
	double slow = has_lanes ? 1 : t->simd_bytes / 8.0,
	       products = fmax(expm1((double)x[LEAF_products]), expm1((double)x[LEAF_issued])),
	       operations = expm1((double)x[LEAF_cheap]) + some * expm1((double)x[LEAF_some]) +
	    dear * expm1((double)x[LEAF_dear]) + 2 * expm1((double)x[LEAF_guards]);

	return (struct leaf_time){
	    .flops = 2 *
		((products + operations) * slow + called * expm1((double)x[LEAF_calls]) +
		    index * expm1((double)x[LEAF_index]) + wait * expm1((double)x[LEAF_chained])) /
		hw->flops_peak,
	    .bytes = expm1((double)x[LEAF_beyond_1]) / hw->bytes_per_s[1] +
		expm1((double)x[LEAF_beyond_2]) / hw->bytes_per_s[2],
	};
}

static void
add_times(const struct sample *s, const struct target *t, const struct hw *hw, float x[WAY_FEATURES])
{
	static const double least = 5; /* ns */
	double all = 0, flops = 0, bytes = 0;

	for (uint32_t i = 0; i < s->n_leaves; i++) {
		struct leaf_time one = time_of(&s->leaf[i], t, hw);

		all += fmax(one.flops, one.bytes) * 1e9;
		flops += one.flops * 1e9;
		bytes += one.bytes * 1e9;
	}
	x[WAY_program] = (float)log((all + least) / s->work_ns);
	x[WAY_program_flops] = (float)log((flops + least) / s->work_ns);
	x[WAY_program_bytes] = (float)log((bytes + least) / s->work_ns);
}

static void
add_spec(
    const struct spec *s, const struct target *t, const struct hw *hw, struct str heat, struct sample *out)
{
	struct cost_parts parts;
	const int64_t bound = cost_work_ns(s, hw, heat, &parts);

	*out = (struct sample){.work_ns = (double)bound};
	sample_of_spec(s, t, hw, heat, &parts, bound, out->spec);
}

static void
add_leaves(
    struct arena *a, const struct program *p, const struct target *t, const struct hw *hw, struct sample *out)
{
	out->leaf = NEW_ARRAY(a, struct sample_leaf, MAX_OF(p->n_leaves, 1u));
	out->n_leaves = p->n_leaves;
	for (uint32_t i = 0; i < p->n_leaves; i++)
		leaf_features(&p->leaf[i], t, &out->leaf[i]);
	add_times(out, t, hw, out->way);
}

bool
sample_make(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const struct hw *hw, struct str heat, struct sample *out, struct err *e)
{
	struct arena tmp = {0};
	struct program p;
	struct sched sched;
	bool ok;

	*out = (struct sample){0};
	if (!sched_read(schedule, &sched, e))
		return false;
	add_spec(s, t, hw, heat, out);
	ok = program_of_schedule(&tmp, s, schedule, t, &p, e);
	add_way(&sched, schedule.n == 0, &p, t, out->way);
	if (ok)
		add_leaves(a, &p, t, hw, out);
	arena_fini(&tmp);
	return ok || out->way[WAY_is_library] > 0; /* a call needs no program of ours */
}

void
sample_plain(struct arena *a, const struct spec *s, const struct target *t, const struct hw *hw,
    struct str heat, struct sample *out)
{
	struct arena tmp = {0};
	struct program p;
	struct sched nothing;
	struct err none = {0};

	add_spec(s, t, hw, heat, out);
	if (!sched_read(STR(""), &nothing, &none))
		bug("the empty schedule is refused");
	program_of_spec(&tmp, s, t, &p);
	add_way(&nothing, true, &p, t, out->way);
	add_leaves(a, &p, t, hw, out);
	arena_fini(&tmp);
}

void
sample_flat(const struct sample *s, float out[SAMPLE_FLAT])
{
	float *work = out + SPEC_FEATURES + WAY_FEATURES, *heaviest = work + LEAF_WORKS,
	      *greatest = heaviest + LEAF_FORMS;
	double sum[LEAF_WORKS] = {0}, most = -1, all = 0;

	memset(out, 0, SAMPLE_FLAT * sizeof(out[0]));
	memcpy(out, s->spec, sizeof(s->spec));
	memcpy(out + SPEC_FEATURES, s->way, sizeof(s->way));
	for (uint32_t i = 0; i < s->n_leaves; i++) {
		const float *x = s->leaf[i].x;
		double weight = leaf_weight(&s->leaf[i]);

		all += weight;
		for (int k = 0; k < LEAF_WORKS; k++)
			sum[k] += expm1((double)x[k]);
		if (weight > most)
			memcpy(heaviest, x + LEAF_WORKS, LEAF_FORMS * sizeof(x[0]));
		most = fmax(most, weight);
		for (int k = 0; k < LEAF_FORMS; k++)
			greatest[k] = fmaxf(greatest[k], x[LEAF_WORKS + k]);
	}
	for (int k = 0; k < LEAF_WORKS; k++)
		work[k] = (float)log1p(sum[k] / s->work_ns);
	out[SAMPLE_FLAT - 1] = all > 0 ? (float)(most / all) : 0;
}

static const char *const spec_names[] = {
#define SPEC(N, ...) "spec." #N,
#define DEVICE(N, ...) "device." #N,
#include "kernel.def"
};
static const char *const way_names[] = {
#define WAY(N, ...) "way." #N,
#include "kernel.def"
};
static const char *const leaf_names[] = {
#define WORK(N, ...) #N,
#include "leaf.def"
#define FORM(N, ...) #N,
#include "leaf.def"
};

void
sample_flat_name(uint32_t i, struct strbuf *sb)
{
	uint32_t k = i - SPEC_FEATURES - WAY_FEATURES;

	if (i < SPEC_FEATURES)
		sb_addz(sb, spec_names[i]);
	else if (i < SPEC_FEATURES + WAY_FEATURES)
		sb_addz(sb, way_names[i - SPEC_FEATURES]);
	else if (k < LEAF_WORKS)
		sb_addf(sb, "all.%s", leaf_names[k]);
	else if (k < LEAF_WORKS + LEAF_FORMS)
		sb_addf(sb, "heaviest.%s", leaf_names[k]);
	else if (k < LEAF_WORKS + 2 * LEAF_FORMS)
		sb_addf(sb, "greatest.%s", leaf_names[k - LEAF_FORMS]);
	else
		sb_addz(sb, "heaviest.share");
}
