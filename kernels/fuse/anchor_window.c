/* kernels/fuse/anchor_window.c: the tile of a linear stage whose row factor has the columns too (a
 * depthwise convolution): few products an element, so what counts is how often each vector of the
 * factor is loaded.  The tile spans two row axes, all of K is written out, and a vector that
 * several of its rows see is loaded once.
 *
 * Borders: the factor may be read under guards that give zero outside.  A tile that lies inside
 * does not ask; one at the border asks for each vector.  So nothing is copied to be padded. */
#include "anchor_int.h"

enum {
	MOST_PRODUCTS = 416, /* written out in one tile */
	SMALL_WINDOW = 16,   /* larger ones share vectors enough along one axis */
};

static void
note_any(void *self, const struct ex *read)
{
	(void)read;
	*(bool *)self = true;
}

static bool
reads_values(struct tx *x, ix_id i)
{
	bool any = false;

	ex_reads(x, ex_index(x, i), note_any, &any);
	return any;
}

/* The read behind guards that give zero outside; EX_NONE where it is anything else. */
static ex_id
behind_guards(struct binding *b, axis_id column)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	ex_id e = b->s->a;

	n->n_guard = 0;
	for (;;) {
		const struct ex g = *ex_get(x, e);

		if (g.kind == EX_READ)
			return e;
		if (g.kind != EX_GUARD || n->n_guard == ANCHOR_GUARDS || ix_has(x, g.ix, column) ||
		    reads_values(x, g.ix))
			return EX_NONE;
		const struct ex *no = ex_get(x, g.arg[1]);

		if (no->kind != EX_CONST || no->real != 0)
			return EX_NONE;
		n->guard[n->n_guard++] = (struct anchor_guard){.at = g.ix, .lo = g.lo, .hi = g.hi};
		e = g.arg[0];
	}
}

static bool
grows(const struct tx *x, ix_id at, axis_id a, int64_t *by)
{
	return ix_coef(x, at, a, by) && *by >= 0;
}

/* Takes the row in a ring out of the read's index; false: the index has more to it than that. */
static bool
take_ring(struct binding *b, struct ex *e)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	int64_t rows = b->p->tensors[e->tensor].ring;
	const struct ix at = *ix_get(x, e->ix);
	int64_t by_row;

	n->ring = 0;
	for (uint32_t i = 0; rows && at.kind == IX_LIN && i < at.n_terms; i++) {
		const struct ix row = *ix_get(x, at.terms[i].atom);

		if (row.kind != IX_MOD)
			continue;
		if (n->ring || row.c != rows || at.terms[i].coef <= 0)
			return false;
		n->ring = rows;
		n->ring_pitch = at.terms[i].coef;
		n->ring_at = (struct anchor_guard){.at = row.a};
		e->ix = ix_add(x, e->ix, ix_mulc(x, at.terms[i].atom, -at.terms[i].coef));
	}
	for (uint32_t i = 0; n->ring && i < n->n_k; i++)
		if (!grows(x, n->ring_at.at, n->k[i].id, &n->ring_at.by_k[i]))
			return false;
	return !n->ring || (ix_coef(x, n->ring_at.at, n->row[0].id, &by_row) && by_row == 0);
}

/* How a guard's index moves inside the tile. */
static bool
bind_guard(struct binding *b, struct anchor_guard *g, const struct anchor_axis *field)
{
	const struct tx *x = b->p->tx;
	const struct anchor *n = b->n;

	for (uint32_t i = 0; i < n->n_k; i++)
		if (!grows(x, g->at, n->k[i].id, &g->by_k[i]))
			return false;
	if (field && !grows(x, g->at, field->id, &g->by_field))
		return false;
	return grows(x, g->at, n->row[0].id, &g->by_row);
}

/* The row axis beside the last one: of b's axes it has none, and a steps evenly along it. */
static const struct anchor_axis *
field_axis(struct binding *b, ix_id at, int64_t *step)
{
	struct anchor *n = b->n;
	const struct anchor_axis *f = n->n_batch ? &n->batch[n->n_batch - 1] : NULL;

	if (!f || f->extent < 2 || ex_has(b->p->tx, b->s->b, f->id) || !grows(b->p->tx, at, f->id, step))
		return NULL;
	if (n->ring && !grows(b->p->tx, n->ring_at.at, f->id, &n->ring_at.by_field))
		return NULL;
	return *step || n->ring_at.by_field ? f : NULL;
}

static bool
is_along_columns(struct binding *b, const struct ex *e, axis_id column)
{
	const struct anchor *n = b->n;
	int64_t coef;

	return ix_coef(b->p->tx, e->ix, column, &coef) && coef == 1 &&
	    (n->n_columns % (n->nv * n->lanes) == 0 || b->p->tensors[e->tensor].at == AT_LOCAL);
}

static bool
fits(struct binding *b, const struct ex *e, axis_id column)
{
	const struct tx *x = b->p->tx;
	const struct anchor *n = b->n;
	int64_t step;

	if (!n->a_vector || e->type != DT_f32 || !is_along_columns(b, e, column))
		return false;
	for (uint32_t i = 0; i < n->n_k; i++)
		if (!grows(x, e->ix, n->k[i].id, &step))
			return false;
	return grows(x, e->ix, n->row[0].id, &step) && step > 0 && n->n_k_total <= MOST_PRODUCTS / 8;
}

static bool
is_window(struct binding *b, axis_id column)
{
	struct tile_prog *p = b->p;
	struct anchor *n = b->n;
	ex_id read = n->a_vector ? behind_guards(b, column) : EX_NONE;

	if (read == EX_NONE)
		return false;
	struct ex e = *ex_get(p->tx, read);

	if (n->n_row != 1 || !take_ring(b, &e) || !fits(b, &e, column))
		return false;
	const struct anchor_axis *f = field_axis(b, e.ix, &n->a_field);

	for (uint32_t i = 0; i < n->n_guard; i++)
		if (!bind_guard(b, &n->guard[i], f))
			return false;
	int64_t rows = MAX_OF(p->target->n_vregs / 2 / n->nv, 1); /* half of the registers hold sums */

	int64_t field = sched_get(p->sched, KNOB_field, n->n_k_total <= SMALL_WINDOW ? 2 : 1);

	n->field = f ? (int)MIN_OF(field, f->extent) : 1;
	n->mr = (int)sched_get(p->sched, KNOB_mr, MAX_OF(rows / n->field, 1));
	while (n->n_k_total * n->mr * n->field > MOST_PRODUCTS && n->mr > 1)
		n->mr--;
	b->s->a = ex_read(p->tx, e.type, e.tensor, e.ix);
	b->s->body = ex_map(p->tx, PRIM_mul, DT_f32, 2, (ex_id[]){b->s->a, b->s->b});
	return true;
}

bool
binding_window(struct binding *b, axis_id column)
{
	b->n->is_window = is_window(b, column);
	if (!b->n->is_window) {
		b->n->n_guard = 0;
		b->n->ring = 0;
	}
	return b->n->is_window;
}

void
binding_guards(struct binding *b, axis_id column)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;

	binding_flatten(b, column);
	for (uint32_t i = 0; i < n->n_k; i++)
		b->to[n->k[i].id] = ix_const(x, 0);
	struct tx_subst s = binding_subst(b);

	for (uint32_t i = 0; i < n->n_guard; i++)
		n->guard[i].at = ix_subst(x, &s, n->guard[i].at);
	if (n->ring)
		n->ring_at.at = ix_subst(x, &s, n->ring_at.at);
}
