/* kernels/fuse/axes.c: the axes of a stage: split where an index divides by a constant, merged
 * where every index runs through two of them as one. */
#include "lower_int.h"

#include <string.h>

void
stage_each_ex(struct stage *s, void (*fn)(void *self, ex_id *e), void *self)
{
	ex_id *all[] = {&s->body, &s->a, &s->b, &s->init};

	for (uint32_t i = 0; i < COUNT_OF(all); i++)
		if (*all[i] != EX_NONE)
			fn(self, all[i]);
}

struct subst_job {
	struct tx *x;
	const struct tx_subst *sub;
};

static void
subst_one(void *self, ex_id *e)
{
	struct subst_job *j = self;

	*e = ex_subst(j->x, j->sub, *e);
}

void
stage_subst(struct tx *x, struct stage *s, const struct tx_subst *sub)
{
	struct subst_job j = {x, sub};

	stage_each_ex(s, subst_one, &j);
	if (s->target != IX_NONE)
		s->target = ix_subst(x, sub, s->target);
}

static void
subst_axis(struct tx *x, struct stage *s, axis_id a, ix_id by)
{
	struct arena tmp = {0};
	ix_id *to = NEW_ARRAY(&tmp, ix_id, a + 1);

	for (axis_id k = 0; k < a; k++)
		to[k] = IX_NONE;
	to[a] = by;
	stage_subst(x, s, &(struct tx_subst){.to = to, .n = a + 1});
	arena_fini(&tmp);
}

void
stage_split_axis(struct tx *x, struct stage *s, uint32_t k, int64_t f)
{
	struct stage_axis a = s->axis[k];
	uint32_t n = s->n_par + s->n_red;
	enum axis_role role = k < s->n_par ? AXIS_PAR : AXIS_RED;

	if (n == STAGE_AXES || a.extent % f || f <= 1 || f >= a.extent)
		bug("axis of %lld split by %lld", (long long)a.extent, (long long)f);
	memmove(&s->axis[k + 1], &s->axis[k], (n - k) * sizeof(s->axis[0]));
	s->axis[k] = (struct stage_axis){.id = tx_axis(x, role, 0, a.extent / f - 1, IX_NONE),
	    .extent = a.extent / f,
	    .stride = a.stride * f,
	    .outer = a.outer};
	s->axis[k + 1] = (struct stage_axis){
	    .id = tx_axis(x, role, 0, f - 1, IX_NONE), .extent = f, .stride = a.stride, .outer = a.outer};
	if (role == AXIS_RED)
		s->n_red++;
	else
		s->n_par++;
	ix_id hi = ix_mulc(x, ix_axis(x, s->axis[k].id), f);

	subst_axis(x, s, a.id, ix_add(x, hi, ix_axis(x, s->axis[k + 1].id)));
}

/* ---- divisions ------------------------------------------------------------------------------ */
struct division {
	const struct tx *x;
	const struct stage *s;
	uint32_t axis; /* found: split axis[axis] by f */
	int64_t f;
	bool found;
};

static int
find_axis(const struct stage *s, axis_id id)
{
	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		if (s->axis[k].id == id)
			return (int)k;
	return -1;
}

/* A division of coef*axis + ... by c goes away when the axis is split at c / coef. */
static void
consider_term(struct division *d, ix_id atom, int64_t coef, int64_t c)
{
	axis_id id;
	int k = ix_is_axis(d->x, atom, &id) ? find_axis(d->s, id) : -1;

	if (d->found || k < 0 || coef <= 0 || c % coef)
		return;
	int64_t f = c / coef, extent = d->s->axis[k].extent;

	if (f <= 1 || f >= extent || extent % f)
		return;
	d->found = true;
	d->axis = (uint32_t)k;
	d->f = f;
}

static void
consider(void *self, ix_id i)
{
	struct division *d = self;
	const struct ix *n = ix_get(d->x, i);

	if (d->found || (n->kind != IX_DIV && n->kind != IX_MOD))
		return;
	const struct ix *arg = ix_get(d->x, n->a);

	if (arg->kind == IX_AXIS)
		consider_term(d, n->a, 1, n->c);
	for (uint32_t t = 0; arg->kind == IX_LIN && t < arg->n_terms; t++)
		consider_term(d, arg->terms[t].atom, arg->terms[t].coef, n->c);
}

struct division_job {
	struct division *d;
};

static void
consider_ex(void *self, ex_id *e)
{
	struct division *d = self;

	ex_indices(d->x, *e, consider, d);
}

bool
stage_split_for(struct tx *x, struct stage *s, ix_id i)
{
	struct division d = {.x = x, .s = s};

	if (s->n_par + s->n_red == STAGE_AXES)
		return false;
	ex_indices(x, ex_index(x, i), consider, &d);
	if (d.found)
		stage_split_axis(x, s, d.axis, d.f);
	return d.found;
}

void
stage_split_divisions(struct tx *x, struct stage *s)
{
	for (int turn = 0; turn < STAGE_AXES; turn++) {
		struct division d = {.x = x, .s = s};

		if (s->n_par + s->n_red == STAGE_AXES)
			return;
		stage_each_ex(s, consider_ex, &d);
		if (!d.found && s->target != IX_NONE)
			ex_indices(x, ex_index(x, s->target), consider, &d);
		if (!d.found)
			return;
		stage_split_axis(x, s, d.axis, d.f);
	}
}

/* ---- merging --------------------------------------------------------------------------------- */
struct merge_check {
	const struct tx *x;
	axis_id axis;
	uint32_t n; /* index nodes that hold it in anything but a sum */
};

static void
count_uneasy(void *self, ix_id i)
{
	struct merge_check *m = self;
	int64_t coef;

	if (ix_get(m->x, i)->kind != IX_LIN && ix_get(m->x, i)->kind != IX_VALUE &&
	    !ix_coef(m->x, i, m->axis, &coef))
		m->n++;
}

static void
count_uneasy_ex(void *self, ex_id *e)
{
	struct merge_check *m = self;

	ex_indices(m->x, *e, count_uneasy, m);
}

static uint32_t
uneasy(struct tx *x, struct stage *s, axis_id a)
{
	struct merge_check c = {.x = x, .axis = a};

	stage_each_ex(s, count_uneasy_ex, &c);
	if (s->target != IX_NONE)
		ex_indices(x, ex_index(x, s->target), count_uneasy, &c);
	return c.n;
}

bool
stage_merge_axes(struct tx *x, struct stage *s, uint32_t k)
{
	struct stage_axis p = s->axis[k], q = s->axis[k + 1];
	bool red = k >= s->n_par;
	struct stage was = *s;

	if ((k < s->n_par) != (k + 1 < s->n_par) || p.outer != q.outer)
		return false;
	if (!red && p.stride != q.stride * q.extent)
		return false;
	axis_id id = tx_axis(x, red ? AXIS_RED : AXIS_PAR, 0, p.extent * q.extent - 1, IX_NONE);
	ix_id m = ix_axis(x, id);

	subst_axis(x, s, p.id, ix_div(x, m, q.extent));
	subst_axis(x, s, q.id, ix_mod(x, m, q.extent));
	if (uneasy(x, s, id) > 0) {
		*s = was;
		return false;
	}
	s->axis[k] = (struct stage_axis){
	    .id = id, .extent = p.extent * q.extent, .stride = q.stride, .outer = p.outer, .local = q.local};
	uint32_t n = s->n_par + s->n_red;

	memmove(&s->axis[k + 1], &s->axis[k + 2], (n - k - 2) * sizeof(s->axis[0]));
	if (red)
		s->n_red--;
	else
		s->n_par--;
	return true;
}

/* ---- reads ----------------------------------------------------------------------------------- */
struct read_list {
	const struct tile_prog *p;
	const struct stage *s;
	struct arena *a;
	struct stage_read *r;
	uint32_t n, cap;
};

/* What the turn before has left waits for nothing in this one. */
static bool
is_carried_to(const struct tile_prog *p, uint32_t tensor, const struct stage *s)
{
	return p->tensors[tensor].carried && &p->stages[p->tensors[tensor].stage] >= s;
}

static void
note_read(void *self, const struct ex *read)
{
	struct read_list *l = self;

	if (l->p->tensors[read->tensor].stage == UINT32_MAX || is_carried_to(l->p, read->tensor, l->s))
		return;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->r[i].tensor == read->tensor && l->r[i].at == read->ix)
			return;
	GROW(l->a, l->r, l->n, l->cap);
	l->r[l->n++] = (struct stage_read){.tensor = read->tensor, .at = read->ix};
}

static void
note_reads(void *self, ex_id *e)
{
	struct read_list *l = self;

	ex_reads(l->p->tx, *e, note_read, l);
}

uint32_t
stage_reads(const struct tile_prog *p, struct stage *s, struct arena *a, struct stage_read **out)
{
	struct read_list l = {.p = p, .s = s, .a = a};

	stage_each_ex(s, note_reads, &l);
	if (s->target != IX_NONE)
		ex_reads(p->tx, ex_index(p->tx, s->target), note_read, &l);
	*out = l.r;
	return l.n;
}

ix_id
decode_axis(const struct tile_prog *p, const struct stage *maker, uint32_t k, ix_id at)
{
	const struct stage_axis *a = &maker->axis[k];
	int64_t count = p->tensors[maker->tensor].count;
	ix_id i = ix_div(p->tx, at, a->stride);

	return a->stride * a->extent == count ? i : ix_mod(p->tx, i, a->extent);
}

double
stage_work(const struct stage *s)
{
	double n = 1;

	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		n *= (double)s->axis[k].extent;
	if (s->kind == STAGE_SCATTER)
		n = (double)s->count + (double)s->n_update;
	return n;
}
