/* kernels/tir/ex_walk.c: what is under an expression or an index: reads, indices, an axis. */
#include "tx_int.h"

typedef void read_fn(void *self, const struct ex *read);
typedef void ix_fn(void *self, ix_id i);

struct walk {
	const struct tx *x;
	struct met ex, ix;
	uint64_t axes; /* looks for these alone: what has none of them is passed by; 0: at all */
	read_fn *on_read;
	ix_fn *on_ix;
	void *self;
};

static void walk_ex(struct walk *w, ex_id e);

/* Notes the number; is it the first time? */
static bool
is_first(struct met *m, uint32_t number)
{
	uint32_t *seen = met_at(m, number);

	return *seen ? false : (*seen = 1);
}

static bool
passes_by(const struct walk *w, uint64_t axes)
{
	return w->axes && !(w->axes & axes);
}

static void
walk_ix(struct walk *w, ix_id i)
{
	const struct ix *n = ix_get(w->x, i);

	if ((!w->on_ix && !n->bufs) || passes_by(w, n->axes) || !is_first(&w->ix, i))
		return;
	for (uint32_t k = 0; k < n->n_terms; k++)
		walk_ix(w, n->terms[k].atom);
	if (n->kind == IX_DIV || n->kind == IX_MOD || n->kind == IX_MIN || n->kind == IX_MAX)
		walk_ix(w, n->a);
	if (n->kind == IX_MIN || n->kind == IX_MAX)
		walk_ix(w, n->b);
	if (n->kind == IX_VALUE)
		walk_ex(w, n->a);
	if (w->on_ix)
		w->on_ix(w->self, i);
}

static void
walk_ex(struct walk *w, ex_id e)
{
	const struct ex *n = ex_get(w->x, e);

	if ((!w->on_ix && !n->bufs) || passes_by(w, n->axes) || !is_first(&w->ex, e))
		return;
	for (uint32_t k = 0; k < n->n_arg; k++)
		walk_ex(w, n->arg[k]);
	if (has_ix(n))
		walk_ix(w, n->ix);
	struct ixv at = ixv_get(w->x, n->at);

	for (uint32_t k = 0; k < at.n; k++)
		walk_ix(w, at.i[k]);
	if (w->on_read && n->kind == EX_READ)
		w->on_read(w->self, n);
}

/* From an expression, or an index.  (What has been met is no zeroes yet.) */
static void
walk(const struct tx *x, ex_id e, ix_id i, uint64_t axes, read_fn *on_read, ix_fn *on_ix, void *self)
{
	struct walk all, *w = &all;

	w->x = x;
	w->axes = axes;
	w->on_read = on_read;
	w->on_ix = on_ix;
	w->self = self;
	met_begin(&w->ex);
	met_begin(&w->ix);
	if (e != EX_NONE)
		walk_ex(w, e);
	else
		walk_ix(w, i);
	met_end(&w->ex);
	met_end(&w->ix);
}

void
ex_reads(const struct tx *x, ex_id e, void (*fn)(void *self, const struct ex *read), void *self)
{
	if (ex_get(x, e)->bufs)
		walk(x, e, IX_NONE, 0, fn, NULL, self);
}

void
ex_indices(const struct tx *x, ex_id e, void (*fn)(void *self, ix_id i), void *self)
{
	walk(x, e, IX_NONE, 0, NULL, fn, self);
}

void
ix_reads(const struct tx *x, ix_id i, void (*fn)(void *self, const struct ex *read), void *self)
{
	if (ix_get(x, i)->bufs)
		walk(x, EX_NONE, i, 0, fn, NULL, self);
}

void
ix_indices(const struct tx *x, ix_id i, void (*fn)(void *self, ix_id i), void *self)
{
	walk(x, EX_NONE, i, 0, NULL, fn, self);
}

struct axis_search {
	const struct tx *x;
	axis_id axis;
	bool found;
};

static void
find_axis(void *self, ix_id i)
{
	struct axis_search *s = self;
	const struct ix *n = ix_get(s->x, i);

	if (n->kind == IX_AXIS && n->a == s->axis)
		s->found = true;
}

bool
ex_has(const struct tx *x, ex_id e, axis_id a)
{
	struct axis_search s = {.x = x, .axis = a};

	if (ex_get(x, e)->axes & axis_bit(a))
		walk(x, e, IX_NONE, axis_bit(a), NULL, find_axis, &s);
	return s.found;
}
