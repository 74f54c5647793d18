/* kernels/fuse/ring.c: rings of rows: which stages share a pass although a reader needs more rows
 * than one of what another makes.
 *
 * A reader whose row y takes rows step*y + lo .. step*y + hi of a producer (a window, a convolution)
 * may share a pass with it when the producer makes rows ahead of the reader and keeps the last ones:
 * row r lies at place r mod height.  Steps of one range go down the rows, so each row is made once;
 * the first step of a range makes the rows above, which the range before made too.
 *
 * From the last stage backwards each member has an interval of rows that it makes for a row of
 * the pass: scale*y + lo .. scale*y + hi.  Readers add up: a window behind a window has the sum of
 * both.  All readers must agree on the scale, else their windows drift apart.
 *
 * What tells a row from a flat index is a division, and behind a pad the index along the row may be
 * outside of it.  The guards around the read say that it is not: each is put in as an axis of its own
 * range, and taken out after the division. */
#include "form_int.h"
#include "ring.h"

#include <string.h>

enum {
	MOST_STEP = 4,        /* a longer one is two axes seen as one */
	ROW_ELEMENTS = 16,    /* of a row that is worth a place in a ring, at least */
	ENOUGH_ROWS = 4,      /* of the pass */
	RING_BYTES = 4 << 20, /* scratch of one row of the pass, at most */
	STEP_BYTES = 1 << 18, /* of all rows in one step, where no ring is needed */
	MOST_VISITS = 4096,
};

/* ---- reads with their guards ----------------------------------------------------------------- */
struct visit {
	const struct tile_prog *p;
	struct arena *a;
	struct ring_guards guards;
	struct guarded_read *r;
	uint32_t n, cap, n_visits;
};

static void
add_read(struct visit *v, uint32_t tensor, ix_id at, bool is_index)
{
	if (v->p->tensors[tensor].stage == UINT32_MAX)
		return;
	GROW(v->a, v->r, v->n, v->cap);
	v->r[v->n++] =
	    (struct guarded_read){.tensor = tensor, .at = at, .is_index = is_index, .guards = v->guards};
}

static void
add_index_read(void *self, const struct ex *read)
{
	add_read(self, read->tensor, read->ix, true);
}

static void
visit_index(struct visit *v, ix_id i)
{
	struct tx *x = v->p->tx;

	ex_reads(x, ex_index(x, i), add_index_read, v);
}

static void
visit_ex(struct visit *v, ex_id e)
{
	const struct ex n = *ex_get(v->p->tx, e);
	struct ring_guards was = v->guards;

	if (++v->n_visits > MOST_VISITS)
		return;
	if (n.kind == EX_READ || n.kind == EX_GUARD || n.kind == EX_INDEX)
		visit_index(v, n.ix);
	if (n.kind == EX_READ)
		add_read(v, n.tensor, n.ix, false);
	for (uint32_t k = 0; k < n.n_arg; k++) {
		if (n.kind == EX_GUARD && k == 0)
			ring_guard_add(&v->guards, &n);
		visit_ex(v, n.arg[k]);
		v->guards = was;
	}
}

void
ring_guard_add(struct ring_guards *g, const struct ex *guard)
{
	if (g->n < RING_GUARDS && guard->lo < guard->hi)
		g->of[g->n++] = (struct ring_guard){.at = guard->ix, .lo = guard->lo, .hi = guard->hi};
}

/* False: too many to look at. */
static bool
guarded_reads(const struct tile_prog *p, struct arena *a, const struct stage *s, struct visit *v)
{
	const ex_id all[] = {s->body, s->a, s->b, s->init};

	*v = (struct visit){.p = p, .a = a};
	for (uint32_t k = 0; k < COUNT_OF(all); k++)
		if (all[k] != EX_NONE)
			visit_ex(v, all[k]);
	if (s->target != IX_NONE)
		visit_index(v, s->target);
	return v->n_visits <= MOST_VISITS;
}

/* ---- places under guards ---------------------------------------------------------------------- */
static ix_id
put(struct tx *x, struct arena *a, ix_id i, axis_id axis, ix_id by)
{
	ix_id *to = NEW_ARRAY(a, ix_id, axis + 1);

	for (axis_id k = 0; k < axis; k++)
		to[k] = IX_NONE;
	to[axis] = by;
	return ix_subst(x, &(struct tx_subst){.to = to, .n = axis + 1}, i);
}

/* What a guard says of an axis: an axis of a new range, z, for it. */
struct promise {
	axis_id axis, z;
	ix_id by;  /* the axis, over z */
	ix_id was; /* z, over the axis */
};

static bool
promise_of(struct tx *x, const struct ring_guard *g, struct promise *out)
{
	const struct ix n = *ix_get(x, g->at);
	int64_t coef = 1;
	bool found = ix_is_axis(x, g->at, &out->axis);

	if (n.kind == IX_LIN && n.n_terms == 1 && n.terms[0].coef > 0 &&
	    ix_is_axis(x, n.terms[0].atom, &out->axis)) {
		coef = n.terms[0].coef; /* lo <= coef * axis + base < hi */
		out->z = tx_axis(
		    x, AXIS_PAR, -floor_div(n.c - g->lo, coef), floor_div(g->hi - 1 - n.c, coef), IX_NONE);
		out->by = ix_axis(x, out->z);
		out->was = ix_axis(x, out->axis);
		return tx_axis_get(x, out->z)->lo <= tx_axis_get(x, out->z)->hi;
	}
	for (uint32_t k = 0; n.kind == IX_LIN && k < n.n_terms && !found; k++) {
		coef = n.terms[k].coef;
		found = (coef == 1 || coef == -1) && ix_is_axis(x, n.terms[k].atom, &out->axis) &&
		    ix_coef(x, g->at, out->axis, &coef);
	}
	if (!found)
		return false;
	ix_id rest = ix_add(x, g->at, ix_mulc(x, ix_axis(x, out->axis), -coef));

	out->z = tx_axis(x, AXIS_PAR, g->lo, g->hi - 1, IX_NONE);
	out->by = ix_mulc(x, ix_add(x, ix_axis(x, out->z), ix_mulc(x, rest, -1)), coef);
	out->was = g->at;
	return true;
}

ix_id
ring_place(
    struct tx *x, struct arena *a, ix_id at, int64_t stride, int64_t extent, const struct ring_guards *guards)
{
	struct ring_guards g = *guards;
	struct promise p[RING_GUARDS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < g.n; i++) {
		if (!promise_of(x, &g.of[i], &p[n]))
			continue;
		at = put(x, a, at, p[n].axis, p[n].by);
		for (uint32_t k = i + 1; k < g.n; k++)
			g.of[k].at = put(x, a, g.of[k].at, p[n].axis, p[n].by);
		n++;
	}
	at = ix_div(x, at, stride);
	if (extent)
		at = ix_mod(x, at, extent);
	while (n-- > 0)
		at = put(x, a, at, p[n].z, p[n].was);
	return at;
}

/* Index along the maker's axis k. */
static ix_id
place_along(struct form *f, const struct stage *maker, uint32_t k, const struct guarded_read *r)
{
	const struct stage_axis *a = &maker->axis[k];
	bool first = a->stride * a->extent == f->p->tensors[maker->tensor].count;

	return ring_place(f->p->tx, &f->tmp, r->at, a->stride, first ? 0 : a->extent, &r->guards);
}

/* ---- one reader ------------------------------------------------------------------------------- */
struct joining {
	struct form *f;
	struct form_pass *fp;
	uint32_t stage;
	struct guarded_read *r; /* of members */
	uint32_t n;
	int match[PASS_OUTER + STAGE_AXES];
	uint32_t row; /* number of the outer axis that counts rows */
};

static const struct stage *
maker_of(const struct form *f, uint32_t tensor)
{
	return &f->p->stages[f->p->tensors[tensor].stage];
}

static bool
member_reads(struct joining *j, uint32_t q)
{
	struct visit v;

	if (!guarded_reads(j->f->p, &j->f->tmp, &j->f->p->stages[j->stage], &v))
		return false;
	for (uint32_t k = 0; k < v.n; k++)
		if (!maker_of(j->f, v.r[k].tensor)->at_call && maker_of(j->f, v.r[k].tensor)->pass == q)
			v.r[j->n++] = v.r[k];
	j->r = v.r;
	return j->n > 0;
}

static uint32_t
outer_axis(const struct joining *j, uint32_t u, uint32_t tensor)
{
	return j->fp->outer[u].axis[j->f->p->tensors[tensor].stage];
}

/* The stage's axis that is outer axis u in every read; -1: none. */
static int
plain_match(struct joining *j, uint32_t u)
{
	const struct stage *s = &j->f->p->stages[j->stage];
	axis_id id, all = AXIS_NONE;

	for (uint32_t k = 0; k < j->n; k++) {
		const struct stage *m = maker_of(j->f, j->r[k].tensor);
		ix_id i = place_along(j->f, m, outer_axis(j, u, j->r[k].tensor), &j->r[k]);

		if (!ix_is_axis(j->f->p->tx, i, &id) || (all != AXIS_NONE && all != id))
			return -1;
		all = id;
	}
	for (uint32_t k = 0; k < s->n_par; k++)
		if (s->axis[k].id == all && s->axis[k].extent == j->fp->outer[u].extent)
			return (int)k;
	return -1;
}

/* What read r takes of its maker's rows for a row of the stage's axis k. */
static bool
rows_read(struct joining *j, uint32_t k, const struct guarded_read *r, struct form_edge *out)
{
	struct tx *x = j->f->p->tx;
	const struct stage *s = &j->f->p->stages[j->stage];
	ix_id at = place_along(j->f, maker_of(j->f, r->tensor), outer_axis(j, j->row, r->tensor), r);
	int64_t step;

	if (!ix_coef(x, at, s->axis[k].id, &step) || step < 1 || step > MOST_STEP)
		return false;
	ix_id rest = ix_add(x, at, ix_mulc(x, ix_axis(x, s->axis[k].id), -step));

	for (uint32_t i = 0; i < s->n_par; i++)
		if (ix_has(x, rest, s->axis[i].id))
			return false;
	*out = (struct form_edge){.reader = j->stage,
	    .maker = j->f->p->tensors[r->tensor].stage,
	    .step = step,
	    .lo = ix_get(x, rest)->lo,
	    .hi = ix_get(x, rest)->hi};
	return !r->is_index || (step == 1 && out->lo == 0 && out->hi == 0);
}

/* Do neighbouring rows of the reader take the same row of some maker? */
static bool
do_overlap(const struct form_edge *e, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < n; k++)
			if (e[i].maker == e[k].maker && e[i].hi - e[k].lo + 1 > e[i].step)
				return true;
	return false;
}

/* The stage's axis that counts rows in every read, and what the reads take; false: none. */
static bool
row_match(struct joining *j, bool overlap, struct form_edge *edge)
{
	const struct stage *s = &j->f->p->stages[j->stage];

	for (uint32_t k = 0; k < s->n_par; k++) {
		bool ok = true;

		for (uint32_t u = 0; u < j->row; u++)
			ok = ok && j->match[u] != (int)k;
		for (uint32_t i = 0; i < j->n && ok; i++)
			ok = rows_read(j, k, &j->r[i], &edge[i]);
		if (!ok)
			continue;
		j->match[j->row] = (int)k;
		return !overlap || do_overlap(edge, j->n);
	}
	return false;
}

/* Which outer axis counts rows: all before it are the stage's axes as they are. */
static bool
outer_match(struct joining *j)
{
	uint32_t last = j->fp->has_ring ? j->fp->n_outer - 1 : j->fp->n_outer;

	for (uint32_t u = 0; u < j->fp->n_outer; u++)
		j->match[u] = -1;
	for (j->row = 0; j->row < last; j->row++) {
		int k = plain_match(j, j->row);

		for (uint32_t u = 0; u < j->row && k >= 0; u++)
			if (j->match[u] == k)
				k = -1;
		if (k < 0)
			break;
		j->match[j->row] = k;
	}
	return j->row < j->fp->n_outer && (!j->fp->has_ring || j->row == last);
}

/* ---- the pass ----------------------------------------------------------------------------------- */
static void
add_edge(struct form *f, struct form_pass *fp, const struct form_edge *e)
{
	GROW(&f->tmp, fp->edge, fp->n_edge, fp->cap_edge);
	fp->edge[fp->n_edge++] = *e;
}

/* Reads among the members so far: none of them has an overlap. */
static void
plain_edges(struct form *f, struct form_pass *fp, uint32_t q)
{
	for (uint32_t m = 0; m < fp->n_member; m++) {
		struct stage_read *r;
		uint32_t n = stage_reads(f->p, &f->p->stages[fp->member[m]], &f->tmp, &r);

		for (uint32_t k = 0; k < n; k++)
			if (!maker_of(f, r[k].tensor)->at_call && maker_of(f, r[k].tensor)->pass == q)
				add_edge(f, fp,
				    &(struct form_edge){.reader = fp->member[m],
					.maker = f->p->tensors[r[k].tensor].stage,
					.step = 1});
	}
}

static bool
is_own_row(const struct form_rows *r)
{
	return r->scale == 1 && r->lo == 0 && r->hi == 0;
}

/* What the readers of member m need of it; false: they drift apart. */
static bool
need_of(struct form_pass *fp, uint32_t m)
{
	struct form_rows *to = &fp->need[m];
	bool any = false;

	*to = (struct form_rows){.scale = 1};
	for (uint32_t k = m + 1; k < fp->n_member; k++)
		for (uint32_t i = 0; i < fp->n_edge; i++) {
			const struct form_edge *e = &fp->edge[i];
			const struct form_rows *by = &fp->need[k];

			if (e->reader != fp->member[k] || e->maker != fp->member[m])
				continue;
			struct form_rows n = {
			    e->step * by->scale, e->step * by->lo + e->lo, e->step * by->hi + e->hi};

			if (any && n.scale != to->scale)
				return false;
			to->scale = n.scale;
			to->lo = any ? MIN_OF(to->lo, n.lo) : n.lo;
			to->hi = any ? MAX_OF(to->hi, n.hi) : n.hi;
			any = true;
		}
	return true;
}

static const struct stage_axis *
row_axis(const struct form *f, const struct form_pass *fp, uint32_t m)
{
	const struct stage *s = &f->p->stages[fp->member[m]];

	return &s->axis[fp->outer[fp->n_outer - 1].axis[fp->member[m]]];
}

/* May the stage keep its rows in a ring? */
static bool
may_ring(const struct form *f, const struct form_pass *fp, uint32_t m)
{
	uint32_t i = fp->member[m], rows = fp->outer[fp->n_outer - 1].axis[i];
	const struct stage *s = &f->p->stages[i];

	/* Winograd's tiles would begin at another row in each call, and round otherwise. */
	if ((s->kind != STAGE_MAP && s->kind != STAGE_REDUCE && s->kind != STAGE_LINEAR) || s->packs ||
	    s->wino || f->whole[i] || f->p->tensors[s->tensor].at == AT_RESULT ||
	    s->axis[rows].stride < ROW_ELEMENTS)
		return false;
	for (uint32_t k = 0; k < rows; k++) { /* rows are behind each other in what a step keeps */
		bool bound = false;

		for (uint32_t u = 0; u + 1 < fp->n_outer; u++)
			bound |= fp->outer[u].axis[i] == k;
		if (!bound)
			return false;
	}
	return true;
}

/* Bytes of a row of member m. */
static double
row_bytes(const struct form *f, const struct form_pass *fp, uint32_t m)
{
	const struct tile_tensor *t = &f->p->tensors[f->p->stages[fp->member[m]].tensor];
	double n = (double)t->count * (double)dtype_size(t->type) / (double)row_axis(f, fp, m)->extent;

	for (uint32_t u = 0; u + 1 < fp->n_outer; u++)
		n /= (double)fp->outer[u].extent;
	return t->at == AT_RESULT ? 0 : n;
}

/* Every member's rows, from the last reader backwards; do they make a pass? */
static bool
rings_hold(const struct form *f, struct form_pass *fp)
{
	double bytes = 0, rows = 1;

	for (uint32_t u = 0; u < fp->n_outer; u++)
		rows *= (double)fp->outer[u].extent;
	for (uint32_t m = fp->n_member; m-- > 0;) {
		const struct stage *s = &f->p->stages[fp->member[m]];
		bool own;

		if (!need_of(fp, m))
			return false;
		own = is_own_row(&fp->need[m]);
		if (own ? row_axis(f, fp, m)->extent != fp->outer[fp->n_outer - 1].extent
			: !may_ring(f, fp, m))
			return false;
		if (s->kind == STAGE_SCATTER || (s->packed && row_axis(f, fp, m)->stride == 1))
			return false;
		bytes += row_bytes(f, fp, m) * (double)(fp->need[m].hi - fp->need[m].lo + 1);
	}
	return bytes <= RING_BYTES && rows >= ENOUGH_ROWS;
}

static bool
is_on(const struct form *f)
{
	return !f->p->target->is_cuda && sched_get(f->p->sched, KNOB_ring, 1);
}

/* Are the axes before the rows steps enough, and all rows of one small enough for its scratch? */
static bool
needs_no_ring(const struct joining *j)
{
	const struct form *f = j->f;
	double steps = 1, bytes = 0;

	for (uint32_t u = 0; u < j->row; u++)
		steps *= (double)j->fp->outer[u].extent;
	for (uint32_t m = 0; m < j->fp->n_member; m++) {
		const struct tile_tensor *t = &f->p->tensors[f->p->stages[j->fp->member[m]].tensor];

		bytes += t->at == AT_RESULT ? 0 : (double)t->count * (double)dtype_size(t->type) / steps;
	}
	return !j->fp->has_ring && steps >= ENOUGH_ROWS && bytes <= STEP_BYTES;
}

bool
ring_join(struct form *f, uint32_t i, uint32_t q, bool overlap)
{
	struct form_pass *fp = &f->pass[q], was = *fp;
	struct joining j = {.f = f, .fp = fp, .stage = i};

	if (!is_on(f) || fp->n_outer == 0 || !member_reads(&j, q))
		return false;
	struct form_edge *edge = NEW_ARRAY(&f->tmp, struct form_edge, j.n);

	bool ring = outer_match(&j) && row_match(&j, overlap && !fp->has_ring, edge);

	if ((ring || !overlap) && needs_no_ring(&j)) {
		if (ring)
			j.match[j.row] = -1;
		form_join(f, i, q, j.match);
		return true;
	}
	if (!ring)
		return false;
	if (!fp->has_ring)
		plain_edges(f, fp, q);
	for (uint32_t k = 0; k < j.n; k++)
		add_edge(f, fp, &edge[k]);
	fp->has_ring = true;
	form_join(f, i, q, j.match);
	fp->outer[j.row].extent = f->p->stages[i].axis[j.match[j.row]].extent;
	if (rings_hold(f, fp))
		return true;
	*fp = was;
	return false;
}

bool
ring_refine(struct form *f, uint32_t i, uint32_t q)
{
	struct form_pass *fp = &f->pass[q];
	struct joining j = {.f = f, .fp = fp, .stage = i};

	if (!is_on(f) || fp->has_ring || !member_reads(&j, q))
		return false;
	for (uint32_t u = 0; u < fp->n_outer; u++)
		for (uint32_t k = 0; k < j.n; k++) {
			const struct stage *m = maker_of(f, j.r[k].tensor);

			if (f->p->tensors[m->tensor].at == AT_RESULT || f->whole[m - f->p->stages])
				return false;
			if (form_split(f, q, u, place_along(f, m, outer_axis(&j, u, j.r[k].tensor), &j.r[k])))
				return true;
		}
	return false;
}

/* ---- the result ------------------------------------------------------------------------------ */
/* The level of rows of one kind; UINT32_MAX: there is no room for another. */
static uint32_t
level_of(struct tile_pass *tp, const struct form_rows *r, int64_t extent)
{
	for (uint32_t k = 0; k < tp->n_rings; k++) {
		const struct pass_ring *o = &tp->ring[k];

		if (o->scale == r->scale && o->lo == r->lo && o->hi == r->hi && o->extent == extent)
			return k + 1;
	}
	if (tp->n_rings == PASS_RINGS)
		return UINT32_MAX;
	tp->ring[tp->n_rings++] = (struct pass_ring){
	    .at = AXIS_NONE, .n = AXIS_NONE, .extent = extent, .scale = r->scale, .lo = r->lo, .hi = r->hi};
	return tp->n_rings;
}

bool
rings_write(const struct form *f, uint32_t q, struct err *e)
{
	const struct form_pass *fp = &f->pass[q];

	for (uint32_t m = 0; m < fp->n_member && fp->has_ring; m++) {
		struct stage *s = &f->p->stages[fp->member[m]];

		s->level = 0;
		if (!is_own_row(&fp->need[m]))
			s->level = level_of(&f->p->pass[q], &fp->need[m], row_axis(f, fp, m)->extent);
		if (s->level == UINT32_MAX)
			return err_set(
			    e, ERR_INFEASIBLE, "rings: a pass has more than %d kinds of rows", PASS_RINGS);
	}
	return true;
}
