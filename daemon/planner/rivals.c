/* daemon/planner/rivals.c: see rivals.h. */
#include "rivals.h"
#include "result_cache.h"

#include "../../kernels/base/clock_ratio.h"

enum { MOST_RACED = 16 /* msg.def */ };
_Static_assert((int)RIVALS_MAX <= (int)MOST_RACED, "all that raced are told");
/* Two sessions differ by that for all kernels alike, where no reference takes it out. */
static const double sessions = 1.1;

/* ---- who they are: this job with fewer freedoms; false: it has not more itself ------------- */
static bool
by_operators(struct m_options *o)
{
	bool is_freer = str_is(o->fusion, "full");

	o->fusion = STR("operator");
	return is_freer;
}

static bool
unfused(struct m_options *o)
{
	bool is_freer = str_is(o->fusion, "full");

	o->fusion = STR("none");
	return is_freer;
}

static bool
as_written(struct m_options *o)
{
	bool is_freer = !o->only_form;

	o->only_form = true;
	return is_freer;
}

static bool
for_nothing(struct m_options *o)
{
	bool is_freer = o->budget_ns > 0;

	o->budget_ns = 0;
	return is_freer;
}

static bool
the_same(struct m_options *o)
{
	(void)o;
	return true;
}

static const struct other {
	const char *how;
	bool (*vary)(struct m_options *o);
} other[] = {{"an earlier job with --fusion operator", by_operators},
    {"an earlier job with --fusion none", unfused}, {"an earlier job with --rewrites off", as_written},
    {"an earlier job with --budget 0", for_nothing}, {NULL, the_same}};

/* Each with and without --prove, which allow the same plans; false: that is this very job, or one with more
 * freedoms. */
static bool
other_job(const struct tune *t, uint32_t i, bool other_proof, struct rival *r, struct m_options *o)
{
	const struct other *x = &other[i];

	*o = t->start.options;
	if (!x->vary(o) || (!x->how && !other_proof))
		return false;
	*r = (struct rival){.how = x->how ? x->how
		: o->prove                ? "an earlier job without --prove"
					  : "an earlier job with --prove"};
	o->prove ^= other_proof;
	return true;
}

/* ---- what they are ------------------------------------------------------------------------- */
uint64_t
rival_kernel(struct str spec, struct str schedule)
{
	return hash64(schedule.p, schedule.n, hash64(spec.p, spec.n, 0));
}

/* One that cannot be read is no rival. */
static bool
read_plan(const struct tune *t, struct rival *r)
{
	struct arena tmp = {0};
	struct err why = {0};
	struct plan p;
	double floor_ns = 0;
	bool ok = plan_load(&tmp, str_dup(&tmp, r->path), &p, NULL, &why);

	for (uint32_t i = 0; ok && i < p.n_steps; i++) {
		const struct plan_kernel *k = &p.kernels[p.steps[i].kernel];
		struct spec s;

		if (plan_kernel_is_view(k))
			continue;
		ok = spec_read(&tmp, k->spec, &s, &why);
		if (ok)
			floor_ns += cost_floor_flop_ns(&s, t->target.is_cuda, t->hw.n_threads);
		r->content += rival_kernel(k->spec, k->schedule);
	}
	if (ok) {
		r->cost_ns = p.latency_ns;
		r->floor_ns = (int64_t)floor_ns;
	}
	arena_fini(&tmp);
	return ok;
}

static bool
was_raced(const struct tune *t, const struct hash *file)
{
	for (uint32_t i = 0; i < t->past.end.n_raced; i++)
		if (hash_eq(&t->past.end.raced[i].hash, file))
			return true;
	return false;
}

static int64_t
measured_of(const struct m_job_end *end)
{
	return calibrated_ns(end->progress.measured_ns, end->progress.clock_ratio);
}

static bool
is_news(const struct tune *t, const struct m_job_end *end)
{
	int64_t own = measured_of(&t->past.end), its = measured_of(end);

	return !was_raced(t, &end->plan) && its > 0 && (own <= 0 || (double)its < sessions * (double)own);
}

/* The plan of the job with these options, where there is one, it is here, and it is wanted. */
static bool
look_for(struct tune *t, const struct m_options *o, bool only_news, struct rival r, struct err *e)
{
	struct m_end_have have;
	struct hash key;

	if (!cached_key(t, o, &key, e) || !cached_plan(t, &key, &have, e))
		return false;
	r.path = have.path;
	r.file = have.end.plan;
	if (have.has_plan && !hash_eq(&r.file, &t->past.end.plan) && (!only_news || is_news(t, &have.end)) &&
	    read_plan(t, &r))
		t->rivals[t->n_rivals++] = r;
	return true;
}

bool
rivals_find(struct tune *t, bool only_news, struct err *e)
{
	t->rivals = NEW_ARRAY(t->arena, struct rival, RIVALS_MAX);
	t->n_rivals = 0;
	for (uint32_t i = 0; i < 2 * COUNT_OF(other); i++) {
		struct rival r;
		struct m_options o;

		if (other_job(t, i / 2, i % 2, &r, &o) && !look_for(t, &o, only_news, r, e))
			return false;
	}
	return true;
}

bool
rivals_own(struct tune *t, struct rival *out, bool *is_here, struct err *e)
{
	struct m_end_have have;

	if (!cached_plan(t, &t->end_key, &have, e))
		return false;
	*out = (struct rival){.how = "what this job ended with before", .path = have.path};
	out->file = have.end.plan;
	*is_here = have.has_plan && hash_eq(&out->file, &t->past.end.plan) && read_plan(t, out);
	return true;
}

struct m_digest *
rivals_raced(const struct tune *t, uint32_t *n)
{
	struct m_digest *out = NEW_ARRAY(t->arena, struct m_digest, MOST_RACED);

	*n = 0;
	for (uint32_t i = 0; t->has_raced && i < t->n_rivals; i++)
		out[(*n)++] = (struct m_digest){.hash = t->rivals[i].file, .heat = STR("")};
	for (uint32_t i = 0; t->is_repeat && i < t->past.end.n_raced && *n < MOST_RACED; i++)
		out[(*n)++] = t->past.end.raced[i];
	return out;
}
