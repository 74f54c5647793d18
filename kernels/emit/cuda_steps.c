/* kernels/emit/cuda_steps.c: a pass whose tile has inner axes (a row or a column of the tile's result
 * stays within a block): which axis of each step is which axis of the linear stage, so that its elements
 * are points, rows or columns of the tile, and in which order they are made. */
#include "cuda_int.h"

struct matcher {
	const struct gen *g;
	struct tile *t;
	const struct stage *s;
	ix_id to[STAGE_AXES];        /* each axis of s over the linear stage's; IX_NONE: unknown */
	uint32_t covers[STAGE_AXES]; /* which of those: a bit each */
	uint32_t taken;
	bool fits;
};

/* ---- which axis is which ------------------------------------------------------------------------------ */
static const struct tile_step *
maker_of(const struct tile *t, uint32_t tensor)
{
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].s->tensor == tensor)
			return &t->step[i];
	return NULL;
}

static bool
take_axis(struct matcher *x, uint32_t k, uint32_t inner, int64_t times)
{
	const struct stage_axis *a = &x->t->s->axis[inner];
	ix_id i = ix_mulc(x->g->tx, ix_axis(x->g->tx, a->id), times);

	x->to[k] = x->to[k] == IX_NONE ? i : ix_add(x->g->tx, x->to[k], i);
	x->covers[k] |= 1u << inner;
	x->taken |= 1u << inner;
	return times * a->extent == x->s->axis[k].extent;
}

/* An inner axis, at most so long, that steps through the maker's result by `coef`; -1: none that is free. */
static int
inner_axis(const struct matcher *x, int64_t most, int64_t coef, ix_id out)
{
	const struct stage *l = x->t->s;
	int64_t c;

	for (uint32_t k = 0; k < l->n_par; k++)
		if (!(x->taken >> k & 1) && most % l->axis[k].extent == 0 &&
		    ix_coef(x->g->tx, out, l->axis[k].id, &c) && c == coef)
			return (int)k;
	return -1;
}

/* Axis k of the step runs through the result by `coef`: that is an inner axis, or several merged. */
static bool
match_axis(struct matcher *x, uint32_t k, int64_t coef, ix_id out)
{
	int64_t extent = x->s->axis[k].extent, done = 1;

	while (done < extent) {
		int inner = inner_axis(x, extent / done, coef * done, out);

		if (inner < 0 || extent % done)
			return false;
		take_axis(x, k, (uint32_t)inner, done);
		done *= x->t->s->axis[inner].extent;
	}
	return true;
}

static void
match_read(void *self, const struct ex *read)
{
	struct matcher *x = self;
	const struct tile_step *m = maker_of(x->t, read->tensor);

	for (uint32_t k = 0; m && k < x->s->n_par + x->s->n_red; k++) {
		int64_t coef;

		if (x->to[k] == IX_NONE && ix_coef(x->g->tx, read->ix, x->s->axis[k].id, &coef) && coef != 0)
			x->fits &= match_axis(x, k, coef, m->out);
	}
}

/* The first free axis of the same extent: the step reads nothing of the pass along axis k. */
static bool
match_extent(struct matcher *x, uint32_t k)
{
	const struct stage *l = x->t->s;

	for (uint32_t j = 0; j < l->n_par; j++)
		if (!(x->taken >> j & 1) && l->axis[j].extent == x->s->axis[k].extent)
			return take_axis(x, k, j, 1);
	return false;
}

static struct tx_subst
subst_of(const struct matcher *x)
{
	uint32_t n = tx_n_axes(x->g->tx);
	ix_id *to = NEW_ARRAY(x->g->a, ix_id, n);

	for (uint32_t a = 0; a < n; a++)
		to[a] = IX_NONE;
	for (uint32_t k = 0; k < x->s->n_par + x->s->n_red; k++)
		to[x->s->axis[k].id] = x->to[k];
	return (struct tx_subst){.to = to, .n = n};
}

/* Are the inner axes of factor i among those that the step's first `n` cover?  -1: some of them. */
static int
has_all(const struct matcher *x, int i, uint32_t n)
{
	const struct tile_axes *f = &x->t->f[i].axes;
	uint32_t covers = 0, found = 0;

	for (uint32_t k = 0; k < n; k++)
		covers |= x->covers[k];
	for (uint32_t k = 0; k < x->t->s->n_par; k++)
		for (uint32_t j = 0; j < f->n; j++)
			found += f->id[j] == x->t->s->axis[k].id && covers >> k & 1;
	return found == f->n ? 1 : found == 0 ? 0 : -1;
}

/* Which elements the first n axes of the step count. */
static bool
level_of(const struct matcher *x, uint32_t n, enum tile_level *level)
{
	int all = 0;

	for (int i = 0; i < 2; i++) {
		int has = x->t->f[i].inner ? has_all(x, i, n) : 1;

		if (has < 0)
			return false;
		all |= has << i;
	}
	*level = (enum tile_level)all;
	return true;
}

/* ---- what a step reads ------------------------------------------------------------------------------------
 */
struct reader {
	struct tile *t;
	enum tile_level level; /* where it reads */
	uint32_t phase;
	bool is_point, fits;
};

static void
check_read(void *self, const struct ex *read)
{
	struct reader *r = self;
	const struct tile_step *m = maker_of(r->t, read->tensor);
	bool lower;

	if (!m)
		return;
	lower = m->joins || m->level != LEVEL_POINT;
	r->fits &= read->ix == m->out && (m->level & ~r->level) == 0;
	r->phase = MAX_OF(r->phase, m->phase + (lower && r->is_point));
}

static void
mark_read(void *self, const struct ex *read)
{
	struct tile *t = self;

	for (uint32_t i = 0; i < t->n_steps; i++)
		t->step[i].is_read |= t->step[i].s->tensor == read->tensor;
}

static bool
add_step(const struct gen *g, struct tile *t, const struct stage *s)
{
	struct matcher x = {.g = g, .t = t, .s = s, .fits = true};
	struct tile_step *step = &t->step[t->n_steps];
	struct reader r = {.t = t, .fits = true};
	enum tile_level result;

	if (s->kind != STAGE_MAP && s->kind != STAGE_REDUCE)
		return false;
	for (uint32_t k = 0; k < STAGE_AXES; k++)
		x.to[k] = IX_NONE;
	ex_reads(g->tx, s->body, match_read, &x);
	for (uint32_t k = 0; k < s->n_par + s->n_red && x.fits; k++)
		x.fits = x.to[k] != IX_NONE || (k < s->n_par && match_extent(&x, k));
	if (!x.fits || !level_of(&x, s->n_par + s->n_red, &r.level) || !level_of(&x, s->n_par, &result))
		return false;
	r.is_point = r.level == LEVEL_POINT;
	if (s->kind == STAGE_REDUCE && (!r.is_point || s->n_red == 0))
		return false;
	struct tx_subst sub = subst_of(&x);

	*step = (struct tile_step){.s = s,
	    .level = result,
	    .joins = s->kind == STAGE_REDUCE,
	    .body = ex_subst(g->tx, &sub, s->body),
	    .out = ix_subst(g->tx, &sub, s->out)};
	ex_reads(g->tx, step->body, check_read, &r);
	step->phase = r.phase;
	if (!r.fits || (t->turns && !s->sweeps && !t->is_handed))
		return false;
	if (t->turns && !s->sweeps)
		step->phase = MAX_OF(r.phase, t->sweep_phases);
	else
		t->sweep_phases = MAX_OF(t->sweep_phases, r.phase + 1);
	ex_reads(g->tx, step->body, mark_read, t);
	t->n_steps++;
	return true;
}

/* The linear stage first: others are told by it what their axes are. */
bool
cuda_steps(const struct gen *g, const struct tile_pass *tp, struct tile *t, uint32_t from, uint32_t to)
{
	t->step = NEW_ARRAY(g->a, struct tile_step, tp->n_row);
	t->step[0] = (struct tile_step){.s = t->s, .level = LEVEL_POINT, .body = EX_NONE, .out = t->s->out};
	t->n_steps = 1;
	t->sweep_phases = 1;
	for (uint32_t i = from; i < to; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];

		t->no.culprit = s;
		if (s != t->s && !add_step(g, t, s))
			return false;
	}
	t->no.culprit = NULL;
	for (uint32_t i = 0; i < t->n_steps; i++)
		t->n_phases = MAX_OF(t->n_phases, t->step[i].phase + 1);
	return true;
}

/* ---- a sweep --------------------------------------------------------------------------------------------
 */
struct carrying {
	const struct gen *g;
	struct tile *t;
	uint32_t step;
	bool fits;
};

static uint32_t
step_of(const struct tile *t, uint32_t tensor)
{
	uint32_t i = 0;

	while (i < t->n_steps && t->step[i].s->tensor != tensor)
		i++;
	return i;
}

/* A step's own place in what it or a later one made the turn before; a row of the first tile. */
static void
check_carried(void *self, const struct ex *read)
{
	struct carrying *c = self;
	const struct tile_step *reader = &c->t->step[c->step];
	uint32_t own = step_of(c->t, read->tensor);
	struct tile *from = own < c->t->n_steps ? c->t : c->t->before;
	uint32_t i = from ? step_of(from, read->tensor) : 0;

	if (!from || i == from->n_steps) {
		c->fits &= !c->g->p->tensors[read->tensor].carried;
		return;
	}
	struct tile_step *m = &from->step[i];
	const bool turn_before = from == c->t && i >= c->step;

	c->fits &= m->out == read->ix;
	if (from != c->t)
		c->fits &= m->level == LEVEL_ROW;
	else if (turn_before)
		c->fits &= !reader->joins && m->level == reader->level && reader->phase <= m->phase &&
		    (m->level != LEVEL_POINT || i == c->step);
	m->is_read = true;
}

bool
cuda_carries(const struct gen *g, struct tile *first)
{
	struct carrying c = {.g = g, .fits = true};

	for (c.t = first; c.t; c.t = c.t->next)
		for (c.step = 1; c.step < c.t->n_steps; c.step++)
			ex_reads(g->tx, c.t->step[c.step].body, check_carried, &c);
	return c.fits;
}

bool
cuda_hands_on(const struct gen *g, struct tile *t, const struct stage *second, ex_id factor)
{
	struct matcher x = {.g = g, .t = t, .s = second, .fits = true};
	struct reader r = {.t = t, .level = LEVEL_POINT, .is_point = true, .fits = true};
	const struct tile_axes *columns = &t->f[1].axes;

	for (uint32_t k = 0; k < STAGE_AXES; k++)
		x.to[k] = IX_NONE;
	ex_reads(g->tx, factor, match_read, &x);
	for (uint32_t k = 0; k < second->n_par; k++)
		if (ex_has(g->tx, factor, second->axis[k].id))
			return false;
	if (!x.fits || second->n_red != 1 || columns->n != 1 ||
	    x.to[second->n_par] != ix_axis(g->tx, columns->id[0]))
		return false;
	uint32_t n = tx_n_axes(g->tx);
	ix_id *to = NEW_ARRAY(g->a, ix_id, n);
	struct tx_subst sub = {.to = to, .n = n};

	for (uint32_t a = 0; a < n; a++)
		to[a] = a == second->axis[second->n_par].id ? x.to[second->n_par] : IX_NONE;
	t->hand = ex_subst(g->tx, &sub, factor);
	ex_reads(g->tx, t->hand, check_read, &r);
	ex_reads(g->tx, t->hand, mark_read, t);
	t->hand_phase = r.phase;
	t->n_phases = MAX_OF(t->n_phases, r.phase + 1);
	return r.fits;
}
