/* kernels/schedule/slide.c: slide BLOCK LOOP: what the block has made for one iteration of the loop stays for
 * the next, where windows overlap; an iteration makes the rows that are new to it, the first one all.
 *
 *   for y in 0..9                          alloc %1 fold(0, 3)
 *     alloc %1                             for y in 0..9
 *     for r in 0..3                 ->       for r in min(2, 2*y)..3
 *       t1(y + r)                              t1(y + r)
 *     t2(y)  reads rows y .. y + 2           t2(y)
 *
 * The buffer keeps as many rows as one window has; row k lies where row k - 3 did, which no later window
 * reads (Halide's sliding window and storage folding, with a warm-up that is no loop of its own). */
#include "step_int.h"

#include <string.h>

static bool
is_made_inside(const struct tir *p, st_id loop, buf_id b)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++)
		if (p->st[i].op == ST_alloc && p->st[i].ref == b)
			return true;
	return false;
}

bool
hands_on(const struct tir *p, st_id loop)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct tir_block *b = &p->blk[p->st[i].ref];

		for (uint32_t o = 0; p->st[i].op == ST_block && o < b->n_out; o++)
			for (st_id k = i + 1; k < p->st[loop].end; k++)
				if (p->st[k].op == ST_block && p->buf[b->out[o]].scope == SCOPE_local &&
				    blk_reads_buf(p, &p->blk[p->st[k].ref], b->out[o]) &&
				    !is_made_inside(p, loop, b->out[o]))
					return true;
	}
	return false;
}

struct sliding {
	const struct tir *p;
	const struct step *s;
	blk_id blk;
	buf_id buf;
	st_id loop, alloc, instance;
	st_id moved;          /* the loop over a window's rows */
	int64_t rows, stride; /* of a window; by which one is ahead of that before it */
	uint32_t dim;         /* of the buffer: the rows */
	struct err *e;
};

/* The one instance, under the loop, and the alloc that makes the buffer each iteration's own. */
static bool
find_parts(struct sliding *t)
{
	const struct tir *p = t->p;
	uint32_t n = 0;

	t->alloc = ST_NONE;
	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op == ST_block && blk_stores_buf(&p->blk[p->st[i].ref], t->buf)) {
			t->instance = i;
			n++;
		}
		if (p->st[i].op == ST_alloc && p->st[i].ref == t->buf)
			t->alloc = i;
	}
	if (n != 1 || p->st[t->instance].ref != t->blk)
		return refuse(t->e, t->s, "instances", "the buffer is not stored in one place");
	if (t->alloc == ST_NONE || t->alloc <= t->loop || t->alloc >= p->st[t->loop].end)
		return refuse(t->e, t->s, "alloc", "the buffer is not each iteration's own");
	for (st_id i = t->loop + 1; i < t->alloc; i = p->st[i].end)
		if (p->st[i].end > t->alloc)
			return refuse(t->e, t->s, "alloc", "a loop inside of that one has the buffer");
	if (p->st[t->loop].bind != BIND_serial && p->st[t->loop].bind != BIND_unroll)
		return refuse(t->e, t->s, "serial", "iterations of the loop may run in any order");
	return true;
}

/* The loop around the instance, and inside of that one, over the axis; ST_NONE. */
static st_id
loop_over(const struct sliding *t, axis_id a)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(t->p, t->instance, path);

	for (uint32_t k = 0; k < n; k++)
		if (path[k] > t->loop && t->p->st[path[k]].op == ST_for && t->p->st[path[k]].axis == a)
			return path[k];
	return ST_NONE;
}

/* The loop that counts through the rows in index i of the instance: i is its axis, and something that it is
 * not in. */
static st_id
loop_of_rows(const struct sliding *t, ix_id i)
{
	const struct tir *p = t->p;
	int64_t coef;

	for (st_id k = t->loop + 1; k < t->instance; k++)
		if (p->st[k].op == ST_for && p->st[k].end > t->instance && ix_has(p->tx, i, p->st[k].axis))
			return ix_coef(p->tx, i, p->st[k].axis, &coef) && coef == 1 ? k : ST_NONE;
	return ST_NONE;
}

/* The dimension of the buffer that the iterator counts, alone. */
static bool
find_dim(struct sliding *t, axis_id iterator)
{
	struct ixv at = ixv_get(t->p->tx, t->p->blk[t->blk].at[0]);
	axis_id a;

	for (t->dim = 0; t->dim < at.n; t->dim++)
		if (ix_is_axis(t->p->tx, at.i[t->dim], &a) && a == iterator)
			return true;
	return false;
}

/* Exactly one index of the instance moves with the loop, by the same number of rows each time. */
static bool
find_rows(struct sliding *t)
{
	const struct tir *p = t->p;
	const struct st *s = &p->st[t->instance];
	const struct tir_block *b = &p->blk[t->blk];
	struct ixv at = ixv_get(p->tx, s->at);
	uint32_t n = 0, row = 0;
	int64_t from;

	for (uint32_t k = 0; k < at.n; k++)
		if (ix_has(p->tx, at.i[k], p->st[t->loop].axis)) {
			row = k;
			n++;
		}
	if (n != 1 || p->iter[b->iter0 + row].kind != ITER_SPACE || !find_dim(t, p->iter[b->iter0 + row].id))
		return refuse(t->e, t->s, "moves", "not one dimension of the buffer moves with the loop");
	if (!ix_coef(p->tx, at.i[row], p->st[t->loop].axis, &t->stride) || t->stride < 1)
		return refuse(t->e, t->s, "monotone", "windows do not go ahead by so many rows each");
	t->moved = loop_of_rows(t, at.i[row]);
	if (t->moved == ST_NONE || !const_extent(p, &p->st[t->moved], &from, &t->rows) || from != 0 ||
	    loop_over(t, p->st[t->moved].axis) != t->moved)
		return refuse(t->e, t->s, "rows", "a window's rows are not counted by one loop from 0 on");
	if (p->st[t->moved].bind != BIND_serial)
		return refuse(
		    t->e, t->s, "bound", "the loop over a window's rows is bound: it gets another begin");
	return t->stride < t->rows || refuse(t->e, t->s, "overlap", "windows have no row in common");
}

/* Do the statement's guards ask for no more than the row itself? */
static bool
asks_for_row(const struct sliding *t, const struct st *s)
{
	const struct tir *p = t->p;
	const struct ixv at = ixv_get(p->tx, p->st[t->instance].at);

	for (uint32_t k = 0; k < s->n_guard; k++) {
		const ix_id i = p->guard[s->guard0 + k].i;
		bool is_place =
		    !ix_has(p->tx, i, p->st[t->loop].axis) && !ix_has(p->tx, i, p->st[t->moved].axis);

		for (uint32_t d = 0; d < at.n; d++)
			is_place |= at.i[d] == i;
		if (!is_place)
			return refuse(t->e, t->s, "guard", "a guard asks for more than the row itself");
	}
	return true;
}

/* Do other loops below the loop, or guards, say which rows there are?  Then the rows of before may lack some.
 */
static bool
others_stay(const struct sliding *t)
{
	const struct tir *p = t->p;
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, t->instance, path);
	axis_id a = p->st[t->loop].axis, rows = p->st[t->moved].axis;

	for (uint32_t k = 0; k < n; k++) {
		const struct st *l = &p->st[path[k]];

		if (path[k] <= t->loop || path[k] == t->moved)
			continue;
		if (l->op == ST_if && path[k] > t->moved) {
			if (!asks_for_row(t, l))
				return false;
		} else if (l->op != ST_for || ix_has(p->tx, l->from, a) || ix_has(p->tx, l->to, a) ||
		    ix_has(p->tx, l->from, rows) || ix_has(p->tx, l->to, rows)) {
			return refuse(t->e, t->s, "bounds", "loops inside hang on the loop, or on the rows");
		}
	}
	return asks_for_row(t, &p->st[t->instance]);
}

/* The first iteration makes all rows, later ones what their window has beyond the one before. */
static ix_id
first_row(const struct sliding *t)
{
	struct tx *x = t->p->tx;
	const struct st *l = &t->p->st[t->loop];
	ix_id ahead = ix_add(x, ix_axis(x, l->axis), ix_mulc(x, l->from, -1));
	int64_t old = t->rows - t->stride;

	return ix_min(x, ix_mulc(x, ahead, old), ix_const(x, old));
}

static void slide_body(const struct sliding *t, struct tir *out, struct copy *c, st_id i, st_id end);

static void
slide_loop(const struct sliding *t, struct tir *out, struct copy *c, st_id i)
{
	const struct tir *p = t->p;
	const struct st *s = &p->st[i];
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	ix_id from = i == t->moved ? first_row(t) : s->from;

	c->to[s->axis] = ix_axis(
	    p->tx, tir_for(out, s->name, ix_subst(p->tx, &sub, from), ix_subst(p->tx, &sub, s->to), s->bind));
	out->st[out->n_st - 1].depth = s->depth;
	slide_body(t, out, c, i + 1, s->end);
	tir_close(out);
	c->to[s->axis] = IX_NONE;
}

/* Statements with the alloc left out, and every loop over an axis of its own. */
static void
slide_body(const struct sliding *t, struct tir *out, struct copy *c, st_id i, st_id end)
{
	for (; i < end; i = t->p->st[i].end) {
		if (i == t->alloc)
			continue;
		if (t->p->st[i].op == ST_for)
			slide_loop(t, out, c, i);
		else
			copy_range(c, i, t->p->st[i].end);
	}
}

static bool
slide_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct sliding *t = self;
	struct copy c;

	if (i != t->loop)
		return false;
	c = copy_begin(p, out);
	tir_add(out, p->st[t->alloc]);
	slide_loop(t, out, &c, i);
	copy_end(&c);
	return true;
}

bool
step_slide(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct sliding t = {.p = p, .s = s, .e = e};

	if (!find_blk(p, s, 0, &t.blk, e) || !find_loop(p, s, 1, &t.loop, e))
		return false;
	if (p->blk[t.blk].n_out != 1 || p->buf[p->blk[t.blk].out[0]].fold)
		return refuse(e, s, "ring", "the block has two results, or its buffer is a ring already");
	t.buf = p->blk[t.blk].out[0];
	if (!find_parts(&t) || !find_rows(&t) || !others_stay(&t))
		return false;
	tir_rewrite(out, p, slide_here, &t);
	if (t.rows < out->buf[t.buf].dim[t.dim]) {
		out->buf[t.buf].fold_dim = t.dim;
		out->buf[t.buf].fold = t.rows;
	}
	return true;
}
