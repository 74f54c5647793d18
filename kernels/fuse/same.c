/* kernels/fuse/same.c: which schedules make the same kernel, as far as that shows without its text: who only
 * compares schedules (a planner that puts them into an order) prints none. */
#include "tile.h"

#include "../schedule/schedule.h"

/* ---- which axis is innermost -------------------------------------------------------------------------- */
struct votes {
	const struct tile_prog *p;
	axis_id axis;
	double n;
};

static void
vote(void *self, const struct ex *read)
{
	struct votes *v = self;
	int64_t coef;

	if (!ix_coef(v->p->tx, read->ix, v->axis, &coef))
		v->n -= 1;
	else if (coef == 1)
		v->n += 1;
	else if (coef != 0)
		v->n -= 0.25;
}

static double
votes_for(const struct tile_prog *p, const struct stage *s, axis_id a)
{
	struct votes v = {.p = p, .axis = a};
	int64_t coef;

	ex_reads(p->tx, s->body, vote, &v);
	if (s->out != IX_NONE && ix_coef(p->tx, s->out, a, &coef) && coef == 1)
		v.n += s->n_red ? 0.5 : 1.5; /* results of a reduction are few */
	return v.n;
}

int
stage_vector_axis(const struct tile_prog *p, const struct stage *s, bool *is_red)
{
	int best = -1;
	double most = 0;

	for (uint32_t k = 0; k < s->n_par + s->n_red; k++) {
		double v = votes_for(p, s, s->axis[k].id);
		if (s->axis[k].extent < 4)
			v /= 4;
		if (v > most) {
			most = v;
			best = (int)k;
		}
	}
	*is_red = best >= (int)s->n_par;
	return best;
}

/* ---- as a number -------------------------------------------------------------------------------------- */
/* On a GPU printers decide by the schedule's own knobs. */
static void
put_knobs(struct strbuf *sb, const struct sched *s)
{
	for (int k = 0; k < KNOB_COUNT; k++)
		if (s->v[k] != INT64_MIN)
			sb_addf(sb, "%d=%lld ", k, (long long)s->v[k]);
}

/* What rules make of a NEST program is said by their trace. */
static bool
outcome_of_trace(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct choices chosen;
	struct strbuf trace;
	struct tir nest, bound;
	struct err e;

	if (!fuse_choices(s, schedule, t, &chosen, &e))
		return false;
	schedule_lower(tmp, s, t->strict, &nest);
	sb_init(&trace, tmp);
	if (!fuse_by_rules(&nest, &chosen, t, &trace, &bound, &e))
		return false;
	*out = hash64(trace.p, trace.n, 4);
	return true;
}

bool
fuse_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct sched *sched = NEW(tmp, struct sched);
	struct tile_prog *p = NEW(tmp, struct tile_prog);
	struct strbuf sb;
	enum library library;
	int64_t version;
	struct err e;

	if (!sched_read(schedule, sched, &e))
		return false;
	if (sched_library(sched, &library, &version)) {
		*out = hash64(schedule.p, schedule.n, 2);
		return true;
	}
	if (fuse_by_trace(sched, t))
		return outcome_of_trace(tmp, s, schedule, t, out);
	if (!tile_make(tmp, s, sched, t, p, &e))
		return false;
	sb_init(&sb, tmp);
	tile_print(&sb, p);
	put_knobs(&sb, sched);
	*out = hash64(sb.p, sb.n, 3);
	return true;
}
