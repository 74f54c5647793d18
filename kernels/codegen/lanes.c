/* kernels/codegen/lanes.c: a row of elements that a loop joins again and again, and nothing else in the loop
 * touches, is kept in an array of registers:
 *
 *   for c in 0..16                               for c in 0..16
 *     store %1[c] = 0                              store %1'r[c] = 0
 *   for k in 0..33                               for k in 0..33
 *     for c in 0..16 vector                ->      for c in 0..16 vector
 *       store %1[c] = add(%1[c], %0[k, c])           store %1'r[c] = add(%1'r[c], %0[k, c])
 *                                                for c in 0..16 vector
 *                                                  store %1[c] = %1'r[c]
 *
 * As accumulate.c does with a single element.  Of several rows, so many further on each, every one has an
 * array of its own: that is a tile of registers. */
#include "row.h"

#include <string.h>

enum { MOST_LANES = 64, MOST_ROWS = 64 }; /* of a row, of a loop */

struct kept {
	struct row r;
	st_id start; /* the loop before it that stores the row; ST_NONE */
	buf_id reg;
};
struct rows {
	const struct tir *p;
	const struct kept *at; /* n rows whose arrays stand for them now */
	uint32_t n;
	bool changed;
	struct answer {
		bool is_known;
		uint32_t n, cap;
		struct kept *row;
	} * of; /* of each axis: rows that its loop, as it is, joins */
	uint32_t n_of;
};

/* Does the loop touch the row as a whole alone, and join it? */
static bool
is_alone(const struct tir *p, st_id loop, const struct row *r)
{
	struct accesses l = {.n = 0};
	bool read = false;

	for (st_id i = loop; i < p->st[loop].end; i++) {
		if (p->st[i].op == ST_alloc && p->st[i].ref == r->buf)
			return false;
		if (!may_touch(p, i, r->buf))
			continue;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++) {
			if (row_leaves(p, r, &l.at[k]))
				continue;
			if (l.at[k].goes_on || ixv_has(p->tx, l.at[k].place, p->st[loop].axis) ||
			    !row_has(p, r, loop, i, l.at[k].place))
				return false;
			read |= !l.at[k].stores;
		}
	}
	return read;
}

/* The element is in a row of the list. */
static bool
is_listed(const struct tir *p, const struct answer *a, buf_id buf, ixv_id place)
{
	const struct access x = {.buf = buf, .place = place};

	for (uint32_t k = 0; k < a->n; k++)
		if (!row_leaves(p, &a->row[k].r, &x))
			return true;
	return false;
}

static void
look_for_rows(const struct tir *p, st_id loop, struct answer *a)
{
	a->n = 0;
	if (p->st[loop].bind == BIND_parallel)
		return;
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];
		st_id l = s->op == ST_store ? row_loop(p, loop, i, s->at) : ST_NONE;
		int64_t from, to;

		if (l == ST_NONE || l == loop || p->buf[s->ref].scope == SCOPE_reg ||
		    !ix_is_const(p->tx, p->st[l].from, &from) || from != 0 ||
		    !ix_is_const(p->tx, p->st[l].to, &to) || to > MOST_LANES || a->n == MOST_ROWS ||
		    is_listed(p, a, s->ref, s->at))
			continue;
		struct kept k = {
		    .r = {.buf = s->ref, .at = s->at, .lane = p->st[l].axis, .count = to}, .start = ST_NONE};

		if (!row_find_dim(p, &k.r) || !row_is_inside(p, loop, s->ref, s->at) ||
		    !is_alone(p, loop, &k.r))
			continue;
		GROW(p->arena, a->row, a->n, a->cap);
		a->row[a->n++] = k;
	}
}

/* Asked in each turn, and by each row before the loop: what nothing has changed since has its answer. */
static struct answer *
find_rows(const struct rows *q, st_id loop)
{
	struct answer *a = &q->of[q->p->st[loop].axis];

	if (!a->is_known)
		look_for_rows(q->p, loop, a);
	a->is_known = true;
	return a;
}

/* The array goes into statement i: loops there, and around it, are others. */
static void
forget(const struct rows *q, st_id i)
{
	for (st_id k = i; k < q->p->st[i].end; k++)
		if (q->p->st[k].op == ST_for)
			q->of[q->p->st[k].axis].is_known = false;
	for (st_id k = q->p->st[i].up; k != ST_NONE; k = q->p->st[k].up)
		if (q->p->st[k].op == ST_for)
			q->of[q->p->st[k].axis].is_known = false;
}

/* A loop around one store. */
static bool
is_plain_row(const struct tir *p, st_id i)
{
	return p->st[i].op == ST_for && p->st[i].end == i + 2 && p->st[i + 1].op == ST_store;
}

/* Do the statements leave the row alone? */
static bool
leave(const struct tir *p, st_id first, st_id end, const struct row *r)
{
	struct accesses l = {.n = 0};

	for (st_id i = first; i < end; i++) {
		if (!may_touch(p, i, r->buf))
			continue;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			if (!row_leaves(p, r, &l.at[k]))
				return false;
	}
	return true;
}

/* Does the statement read of the row?  Then what it stores is no start of it. */
static bool
reads_row(const struct tir *p, st_id i, const struct row *r)
{
	struct accesses l = {.n = 0};

	list_accesses(p, i, &l);
	for (uint32_t k = 0; k < l.n; k++)
		if (!l.at[k].stores && !row_leaves(p, r, &l.at[k]))
			return true;
	return false;
}

/* Is it the row that statement i, a loop around one store, stores, and loop `next` is the next to touch? */
static bool
starts(const struct tir *p, st_id i, st_id next, const struct row *r)
{
	const struct st *s = &p->st[i];

	return p->st[i + 1].ref == r->buf && ixv_has(p->tx, p->st[i + 1].at, s->axis) &&
	    row_has(p, r, i, i + 1, p->st[i + 1].at) && ix_get(p->tx, s->to)->hi == r->count &&
	    ix_get(p->tx, s->from)->hi == 0 && !reads_row(p, i + 1, r) && leave(p, s->end, next, r);
}

/* Does statement i store a row and nothing else, which a loop behind it then joins?  It is noted there. */
static bool
is_start(const struct rows *q, st_id i)
{
	const struct tir *p = q->p;

	for (st_id next = p->st[i].end; is_plain_row(p, i) && next < p->n_st && same_body(p, i, next);
	     next = p->st[next].end) {
		const struct answer *a = p->st[next].op == ST_for ? find_rows(q, next) : NULL;

		for (uint32_t k = 0; a && k < a->n; k++)
			if (starts(p, i, next, &a->row[k].r)) {
				a->row[k].start = i;
				return true;
			}
	}
	return false;
}

/* ---- the array ------------------------------------------------------------------------------------------
 */
static const struct kept *
kept_at(const struct rows *q, buf_id buf, ixv_id at)
{
	for (uint32_t k = 0; k < q->n; k++)
		if (q->at[k].r.buf == buf && !row_is_apart(q->p, &q->at[k].r, at))
			return &q->at[k];
	return NULL;
}

static ex_id
load_row(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct rows *q = self;
	const struct kept *k = kept_at(q, read->tensor, at);

	return k ? ex_load(x, read->type, k->reg, row_lane(q->p, &k->r, at))
		 : ex_load(x, read->type, read->tensor, at);
}

/* Statement i, with the arrays in the rows' place. */
static void
add_on_arrays(struct rows *q, const struct kept *at, uint32_t n, struct tir *out, st_id i)
{
	struct tx_subst sub = {.load = load_row, .self = q};
	const st_id from = out->n_st;

	q->at = at;
	q->n = n;
	for (uint32_t k = 0; k < n; k++)
		sub.bufs |= buf_bit(at[k].r.buf);
	tir_copy(out, q->p, i, &sub);
	for (st_id k = from; k < out->n_st; k++) {
		const struct kept *to =
		    out->st[k].op == ST_store ? kept_at(q, out->st[k].ref, out->st[k].at) : NULL;

		if (!to)
			continue;
		out->st[k].ref = to->reg;
		out->st[k].at = row_lane(q->p, &to->r, out->st[k].at);
	}
}

/* A loop that brings the row into the array, or back. */
static void
add_move(const struct tir *p, const struct kept *k, struct tir *out, st_id loop, bool back)
{
	struct tx *x = p->tx;
	const enum dtype t = p->buf[k->r.buf].type;
	const ix_id to = ix_axis(x,
	    tir_for(out, arena_printf(p->arena, "%s'%s%u", p->st[loop].name, back ? "out" : "in", k->reg),
		ix_const(x, 0), ix_const(x, k->r.count), BIND_vector));
	const struct tx_subst sub = {.to = &to, .first = k->r.lane, .n = 1};
	const ixv_id lane = ixv_make(x, 1, &to), at = ixv_subst(x, &sub, k->r.at);

	tir_add(out,
	    (struct st){.op = ST_store,
		.ref = back ? k->r.buf : k->reg,
		.at = back ? at : lane,
		.value = back ? ex_load(x, t, k->reg, lane) : ex_load(x, t, k->r.buf, at)});
	tir_close(out);
}

static void
add_array(struct rows *q, struct kept *k, struct tir *out, st_id loop)
{
	const struct tir *p = q->p;
	const struct tir_buf reg =
	    tir_buf_make(arena_printf(p->arena, "%s'r%u", p->buf[k->r.buf].name, out->n_buf),
		p->buf[k->r.buf].type, BUF_TEMP, SCOPE_reg, 1, &k->r.count);

	k->reg = tir_add_buf(out, &reg);
	tir_add(out, (struct st){.op = ST_alloc, .ref = k->reg});
	if (k->start == ST_NONE) {
		add_move(p, k, out, loop, false);
		return;
	}
	forget(q, k->start);
	add_on_arrays(q, k, 1, out, k->start);
}

static bool
keep(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct rows *q = self;
	struct answer a;

	if (is_start(q, i))
		return true; /* goes into the array */
	if (p->st[i].op != ST_for)
		return false;
	a = *find_rows(q, i);
	if (a.n == 0)
		return false;
	q->changed = true;
	forget(q, i);
	for (uint32_t k = 0; k < a.n; k++)
		add_array(q, &a.row[k], out, i);
	add_on_arrays(q, a.row, a.n, out, i);
	for (uint32_t k = a.n; k > 0; k--)
		add_move(p, &a.row[k - 1], out, i, true);
	return true;
}

/* Loops that bring rows have axes of their own. */
static void
make_room(struct rows *q)
{
	const uint32_t n = tx_n_axes(q->p->tx);
	const struct answer *was = q->of;

	if (n <= q->n_of)
		return;
	q->of = NEW_ARRAY(q->p->arena, struct answer, 2 * (size_t)n);
	if (was)
		memcpy(q->of, was, q->n_of * sizeof(*was));
	q->n_of = 2 * n;
}

/* Outer loops of all of the program, then those within. */
void
codegen_lanes(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	struct rows q = {.p = &was, .changed = true};

	for (int n = 0; n < TIR_DEPTH && q.changed; n++) {
		q.changed = false;
		make_room(&q);
		tir_rewrite(out, &was, keep, &q);
		was = *out;
	}
}
