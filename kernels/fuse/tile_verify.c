/* kernels/fuse/tile_verify.c: what holds of a tile program, by level.  Rules, as their refusals name them:
 *
 *   maker    a tensor and the stage that makes it name each other
 *   axes     a stage's axes are distinct, its ranges begin at 0; parallel ones, in order, count every element
 *            of the result once
 *   scope    an expression uses the stage's axes and those bound around it, no other
 *   type     a read has the type of its tensor
 *   place    what is read lives somewhere
 *   member   (formed) each stage is a step of one pass, or made at calls
 *   outer    (formed) every step has one parallel axis, of the same extent, for each outer axis
 *   order    (formed) what is read was made before: an earlier step, the call's start, or behind a barrier
 *   range    (bound) a pass's range counts its outer axes
 *   scratch  (bound) scratch lies inside its block, no two tensors share bytes, and none leaves its pass
 * That no element outside a tensor is touched is proved apart (tile_bounds.c). */
#include "tile.h"
#include "lower_int.h"

struct check {
	const struct tile_prog *p;
	enum tile_form level;
	struct err *e;
	struct arena tmp;
	bool *in_scope;        /* of each axis */
	uint32_t *place;       /* of each stage: its step in its pass */
	const struct stage *s; /* whose expressions are walked */
	uint32_t reader;       /* its number */
	bool ok;
};

static bool
refuse(struct check *c, const char *rule, const char *what, uint32_t tensor)
{
	c->ok = false;
	return err_set(c->e, ERR_WRONG, "%s: the stage of t%u %s", rule, tensor, what);
}

/* ---- a stage --------------------------------------------------------------------------------------- */
static bool
makers_hold(struct check *c, uint32_t i)
{
	const struct tile_prog *p = c->p;
	const struct stage *s = &p->stages[i];

	if (s->tensor >= p->n_tensors || p->tensors[s->tensor].stage != i)
		return refuse(c, "maker", "is not the maker that its tensor names", s->tensor);
	if (s->tensor2 != UINT32_MAX && (s->tensor2 >= p->n_tensors || p->tensors[s->tensor2].stage != i))
		return refuse(c, "maker", "is not the maker that its second tensor names", s->tensor);
	return true;
}

/* Element by element in the order of their strides? */
static bool
counts_elements(const struct stage *s)
{
	return s->kind == STAGE_MAP || s->kind == STAGE_REDUCE || s->kind == STAGE_ARG ||
	    s->kind == STAGE_LINEAR;
}

static bool
axes_hold(struct check *c, const struct stage *s)
{
	const uint32_t n = s->n_par + s->n_red;
	int64_t below = 1;

	if (n > STAGE_AXES)
		return refuse(c, "axes", "has too many", s->tensor);
	for (uint32_t k = 0; k < n; k++) {
		const struct stage_axis *a = &s->axis[k];

		if (a->id >= tx_n_axes(c->p->tx) || a->extent < 1)
			return refuse(c, "axes", "counts over an axis that is none", s->tensor);
		for (uint32_t j = 0; j < k; j++)
			if (s->axis[j].id == a->id)
				return refuse(c, "axes", "has one twice", s->tensor);
		const struct axis *t = tx_axis_get(c->p->tx, a->id);

		if (c->level < TILE_BOUND && (t->lo != 0 || t->hi != a->extent - 1))
			return refuse(c, "axes", "has an extent that is not its axis' range", s->tensor);
	}
	if (c->level == TILE_BOUND || !counts_elements(s))
		return true;
	for (uint32_t k = s->n_par; k-- > 0; below *= s->axis[k].extent)
		if (s->axis[k].stride != below)
			return refuse(c, "axes", "does not count its result's elements in order", s->tensor);
	return below == c->p->tensors[s->tensor].count ||
	    refuse(c, "axes", "does not count all of its result's elements", s->tensor);
}

/* ---- expressions ----------------------------------------------------------------------------------- */
static void
check_index(void *self, ix_id i)
{
	struct check *c = self;
	const struct ix *n = ix_get(c->p->tx, i);

	if (c->ok && n->kind == IX_AXIS && !c->in_scope[n->a])
		(void)refuse(c, "scope", "uses an axis that nothing around it counts", c->s->tensor);
}

/* The axes of the place that is written; nothing may be added to the pool for it. */
static void
place_in_scope(struct check *c, ix_id i)
{
	const struct ix *n = ix_get(c->p->tx, i);

	check_index(c, i);
	for (uint32_t k = 0; n->kind == IX_LIN && k < n->n_terms; k++)
		place_in_scope(c, n->terms[k].atom);
	if (n->kind == IX_DIV || n->kind == IX_MOD || n->kind == IX_MIN || n->kind == IX_MAX)
		place_in_scope(c, n->a);
	if (n->kind == IX_MIN || n->kind == IX_MAX)
		place_in_scope(c, n->b);
	if (n->kind == IX_VALUE)
		ex_indices(c->p->tx, n->a, check_index, c);
}

static bool
has_place(const struct tile_prog *p, const struct ex *read)
{
	return read->tensor < p->n_tensors &&
	    (p->tensors[read->tensor].at != AT_NOWHERE || p->tensors[read->tensor].stage != UINT32_MAX);
}

static bool
is_made_at_call(const struct tile_pass *tp, uint32_t stage, uint32_t before)
{
	for (uint32_t i = 0; i < tp->n_call && tp->call[i] != before; i++)
		if (tp->call[i] == stage)
			return true;
	return false;
}

/* Has step `maker` run when step `reader`, of pass q or at the start of its calls, does? */
static bool
is_before(const struct check *c, uint32_t maker, uint32_t reader, uint32_t q)
{
	const struct tile_prog *p = c->p;
	const struct stage *m = &p->stages[maker], *r = &p->stages[reader];

	if (m->at_call)
		return is_made_at_call(&p->pass[q], maker, reader);
	if (m->pass != q)
		return m->pass < q;
	return !r->at_call && c->place[maker] < c->place[reader];
}

/* What is read in pass q is in its scratch, or lies behind a barrier. */
static bool
is_in_reach(const struct check *c, uint32_t maker, uint32_t q)
{
	const struct stage *m = &c->p->stages[maker];

	return c->level < TILE_BOUND || c->p->tensors[m->tensor].at != AT_LOCAL || m->at_call || m->pass == q;
}

static bool
order_holds(struct check *c, uint32_t maker, uint32_t q)
{
	const uint32_t tensor = c->p->stages[maker].tensor;

	if (c->p->tensors[tensor].carried && maker >= c->reader)
		return true; /* the turn before has left it */
	if (!is_before(c, maker, c->reader, q))
		return refuse(c, "order", "reads what is made later", c->s->tensor);
	return is_in_reach(c, maker, q) || refuse(c, "scratch", "reads another pass's scratch", c->s->tensor);
}

static void
check_read(void *self, const struct ex *read)
{
	struct check *c = self;
	const struct tile_prog *p = c->p;

	if (!c->ok)
		return;
	if (!has_place(p, read)) {
		(void)refuse(c, "place", "reads what lives nowhere", c->s->tensor);
		return;
	}
	if (read->type != p->tensors[read->tensor].type) {
		(void)refuse(c, "type", "reads a tensor as another type", c->s->tensor);
		return;
	}
	const uint32_t maker = p->tensors[read->tensor].stage;

	if (c->level == TILE_STAGES || maker == UINT32_MAX)
		return;
	for (uint32_t q = 0; q < p->n_passes; q++)
		if (c->s->at_call ? is_made_at_call(&p->pass[q], c->reader, UINT32_MAX) : c->s->pass == q)
			if (!order_holds(c, maker, q))
				return;
}

/* Axes around the stage's loops. */
static void
open_scope(struct check *c, const struct stage *s, bool open)
{
	const struct tile_prog *p = c->p;

	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		c->in_scope[s->axis[k].id] = open;
	if (s->kind == STAGE_SCATTER)
		c->in_scope[s->init_axis] = open;
	if (p->n_turns)
		c->in_scope[p->turn] = open && s->sweeps;
	if (c->level < TILE_BOUND || s->at_call)
		return;
	const struct tile_pass *tp = &p->pass[s->pass];

	for (uint32_t u = 0; u < tp->n_outer; u++)
		c->in_scope[tp->outer[u].id] = open;
}

static bool
expressions_hold(struct check *c, uint32_t i)
{
	const struct stage *s = &c->p->stages[i];
	const ex_id all[] = {s->body, s->a, s->b, s->init};
	struct tx *x = c->p->tx;

	c->s = s;
	c->reader = i;
	open_scope(c, s, true);
	for (uint32_t k = 0; k < COUNT_OF(all) && c->ok; k++) {
		if (all[k] == EX_NONE)
			continue;
		ex_indices(x, all[k], check_index, c);
		ex_reads(x, all[k], check_read, c);
	}
	if (c->level == TILE_BOUND && s->out != IX_NONE && c->ok)
		place_in_scope(c, s->out);
	open_scope(c, s, false);
	return c->ok;
}

/* ---- passes ---------------------------------------------------------------------------------------- */
static bool
take_step(struct check *c, uint32_t stage, uint32_t q, uint32_t place, uint8_t *times)
{
	const struct stage *s = &c->p->stages[stage];

	if (times[stage]++ || s->at_call || s->pass != q)
		return refuse(c, "member", "is a step twice, or in a pass that it does not name", s->tensor);
	c->place[stage] = place;
	return true;
}

static bool
members_hold(struct check *c)
{
	const struct tile_prog *p = c->p;
	uint8_t *times = NEW_ARRAY(&c->tmp, uint8_t, p->n_stages + 1);

	for (uint32_t q = 0; q < p->n_passes; q++) {
		const struct tile_pass *tp = &p->pass[q];

		for (uint32_t i = 0; i < tp->n_call; i++)
			if (tp->call[i] >= p->n_stages || !p->stages[tp->call[i]].at_call)
				return err_set(c->e, ERR_WRONG,
				    "member: pass %u begins with a stage that is no call's", q);
		for (uint32_t i = 0; i < tp->n_row; i++)
			if (tp->row[i] >= p->n_stages || !take_step(c, tp->row[i], q, i, times))
				return false;
	}
	for (uint32_t i = 0; i < p->n_stages; i++)
		if (!times[i] && !p->stages[i].at_call)
			return refuse(c, "member", "is in no pass", p->stages[i].tensor);
	return true;
}

static bool
outer_holds(struct check *c, const struct tile_pass *tp, const struct stage *s)
{
	for (uint32_t u = 0; u < tp->n_outer; u++) {
		uint32_t n = 0;

		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].outer == (int)u) {
				n++;
				if (s->axis[k].extent != tp->outer[u].extent)
					return refuse(
					    c, "outer", "has another extent than its pass counts", s->tensor);
			}
		if (n != 1)
			return refuse(c, "outer", "does not step with its pass", s->tensor);
	}
	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		if (s->axis[k].outer >= (int)tp->n_outer || (k >= s->n_par && s->axis[k].outer >= 0))
			return refuse(c, "outer", "binds an axis that its pass cannot count", s->tensor);
	return true;
}

static bool
range_holds(struct check *c, uint32_t q)
{
	const struct tile_pass *tp = &c->p->pass[q];
	int64_t n = 1;

	for (uint32_t u = 0; u < tp->n_outer; u++) {
		const struct axis *t = tx_axis_get(c->p->tx, tp->outer[u].id);

		if (tp->outer[u].extent < 1 || t->lo != 0 || t->hi != tp->outer[u].extent - 1)
			return err_set(
			    c->e, ERR_WRONG, "range: pass %u does not count axis %u", q, tp->outer[u].id);
		n *= tp->outer[u].extent;
	}
	return n == tp->range ||
	    err_set(c->e, ERR_WRONG, "range: pass %u has %lld steps, not %lld", q, (long long)n,
		(long long)tp->range);
}

/* ---- scratch ----------------------------------------------------------------------------- */
static bool
scratch_of(const struct tile_prog *p, uint32_t t, size_t *end)
{
	const struct tile_tensor *x = &p->tensors[t];
	int64_t n = x->at == AT_LOCAL ? x->n_local : x->count;

	*end = x->offset + (size_t)n * dtype_size(x->type);
	return (x->at == AT_LOCAL || x->at == AT_SHARED) && n > 0;
}

static bool
scratch_holds(struct check *c)
{
	const struct tile_prog *p = c->p;
	size_t end, other;

	for (uint32_t t = 0; t < p->n_tensors; t++) {
		const struct tile_tensor *x = &p->tensors[t];

		if (!scratch_of(p, t, &end))
			continue;
		if (end > (x->at == AT_LOCAL ? p->local_bytes : p->shared_bytes))
			return err_set(c->e, ERR_WRONG, "scratch: t%u lies outside its block", t);
		for (uint32_t u = 0; u < t; u++)
			if (p->tensors[u].at == x->at && scratch_of(p, u, &other) &&
			    p->tensors[u].offset < end && x->offset < other)
				return err_set(c->e, ERR_WRONG, "scratch: t%u and t%u share bytes", u, t);
	}
	return true;
}

static bool
passes_hold(struct check *c)
{
	const struct tile_prog *p = c->p;

	if (!members_hold(c))
		return false;
	for (uint32_t i = 0; i < p->n_stages && c->level == TILE_FORMED; i++)
		if (!p->stages[i].at_call && !outer_holds(c, &p->pass[p->stages[i].pass], &p->stages[i]))
			return false;
	if (c->level < TILE_BOUND)
		return true;
	for (uint32_t q = 0; q < p->n_passes; q++)
		if (!range_holds(c, q))
			return false;
	return scratch_holds(c);
}

bool
tile_verify(const struct tile_prog *p, enum tile_form level, struct err *e)
{
	struct check c = {.p = p, .level = level, .e = e, .ok = true};
	bool ok = true;

	c.in_scope = NEW_ARRAY(&c.tmp, bool, tx_n_axes(p->tx) + 1);
	c.place = NEW_ARRAY(&c.tmp, uint32_t, p->n_stages + 1);
	for (uint32_t i = 0; i < p->n_stages && ok; i++)
		ok = makers_hold(&c, i) && axes_hold(&c, &p->stages[i]);
	if (ok && level > TILE_STAGES)
		ok = passes_hold(&c);
	for (uint32_t i = 0; i < p->n_stages && ok; i++)
		ok = expressions_hold(&c, i);
	arena_fini(&c.tmp);
	return ok;
}
