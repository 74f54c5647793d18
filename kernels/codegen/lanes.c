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
#include "codegen_int.h"

enum { MOST_LANES = 64, MOST_ROWS = 64 };

struct rows {
	const struct tir *p;
	struct row r;
	buf_id reg;
	st_id start; /* the loop before it that stores the row; ST_NONE */
	bool changed;
	struct answer {
		bool is_known, joins;
		struct row r;
	} * of; /* of each axis: does its loop, as it is, join a row? */
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

static bool
look_for_row(const struct tir *p, st_id loop, struct row *out)
{
	if (p->st[loop].op != ST_for || p->st[loop].bind == BIND_parallel)
		return false;
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];
		st_id l = s->op == ST_store ? row_loop(p, loop, i, s->at) : ST_NONE;
		int64_t from, to;

		if (l == ST_NONE || l == loop || p->buf[s->ref].scope == SCOPE_reg ||
		    !ix_is_const(p->tx, p->st[l].from, &from) || from != 0 ||
		    !ix_is_const(p->tx, p->st[l].to, &to) || to > MOST_LANES)
			continue;
		*out = (struct row){.buf = s->ref, .at = s->at, .lane = p->st[l].axis, .count = to};
		if (row_find_dim(p, out) && is_alone(p, loop, out))
			return true;
	}
	return false;
}

/* Asked in each turn, and by each row before the loop: what nothing has changed since has its answer. */
static bool
find_row(const struct rows *q, st_id loop, struct row *out)
{
	const struct st *s = &q->p->st[loop];
	struct answer *a = s->op == ST_for ? &q->of[s->axis] : NULL;

	if (!a)
		return false;
	if (!a->is_known)
		a->joins = look_for_row(q->p, loop, &a->r);
	a->is_known = true;
	if (a->joins)
		*out = a->r;
	return a->joins;
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

/* The next loop of the same body that joins a row; ST_NONE. */
static st_id
next_join(const struct rows *q, st_id i, struct row *r)
{
	const struct tir *p = q->p;

	for (st_id next = p->st[i].end; next < p->n_st && same_body(p, i, next); next = p->st[next].end)
		if (find_row(q, next, r))
			return next;
	return ST_NONE;
}

/* Do the statements leave the row alone? */
static bool
leave(const struct tir *p, st_id first, st_id end, const struct row *r)
{
	struct accesses l = {.n = 0};

	for (st_id i = first; i < end; i++) {
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			if (!row_leaves(p, r, &l.at[k]))
				return false;
	}
	return true;
}

/* Is statement i a loop that stores the row and nothing else, which a loop behind it then joins? */
static bool
is_start(const struct rows *q, st_id i)
{
	const struct tir *p = q->p;
	const struct st *s = &p->st[i];
	struct row r;
	st_id next = is_plain_row(p, i) ? next_join(q, i, &r) : ST_NONE;

	return next != ST_NONE && p->st[i + 1].ref == r.buf && ixv_has(p->tx, p->st[i + 1].at, s->axis) &&
	    row_has(p, &r, i, i + 1, p->st[i + 1].at) && ix_get(p->tx, s->to)->hi == r.count &&
	    ix_get(p->tx, s->from)->hi == 0 && leave(p, s->end, next, &r);
}

/* ---- the array ------------------------------------------------------------------------------------------
 */
static ex_id
load_row(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct rows *q = self;

	if (read->tensor != q->r.buf || row_is_apart(q->p, &q->r, at))
		return ex_load(x, read->type, read->tensor, at);
	return ex_load(x, read->type, q->reg, row_lane(q->p, &q->r, at));
}

/* Statement i, with the array in the row's place. */
static void
add_on_array(struct rows *q, struct tir *out, st_id i)
{
	struct tx_subst sub = {.load = load_row, .self = q, .bufs = buf_bit(q->r.buf)};
	const st_id from = out->n_st;

	tir_copy(out, q->p, i, &sub);
	for (st_id k = from; k < out->n_st; k++)
		if (out->st[k].op == ST_store && out->st[k].ref == q->r.buf &&
		    !row_is_apart(q->p, &q->r, out->st[k].at)) {
			out->st[k].ref = q->reg;
			out->st[k].at = row_lane(q->p, &q->r, out->st[k].at);
		}
}

/* A loop that brings the row into the array, or back. */
static void
add_move(struct rows *q, struct tir *out, st_id loop, bool back)
{
	struct tx *x = q->p->tx;
	const enum dtype t = q->p->buf[q->r.buf].type;
	ix_id *to = NEW_ARRAY(q->p->arena, ix_id, q->r.lane + 1);
	struct tx_subst sub = {.to = to, .n = q->r.lane + 1};

	for (axis_id k = 0; k < q->r.lane; k++)
		to[k] = IX_NONE;
	to[q->r.lane] = ix_axis(x,
	    tir_for(out,
		arena_printf(q->p->arena, "%s'%s%u", q->p->st[loop].name, back ? "out" : "in", q->reg),
		ix_const(x, 0), ix_const(x, q->r.count), BIND_vector));
	ixv_id lane = ixv_make(x, 1, &to[q->r.lane]), at = ixv_subst(x, &sub, q->r.at);

	tir_add(out,
	    (struct st){.op = ST_store,
		.ref = back ? q->r.buf : q->reg,
		.at = back ? at : lane,
		.value = back ? ex_load(x, t, q->reg, lane) : ex_load(x, t, q->r.buf, at)});
	tir_close(out);
}

static bool
keep(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct rows *q = self;
	struct tir_buf reg;

	if (q->changed)
		return false;
	if (is_start(q, i)) {
		q->start = i; /* goes into the array */
		return true;
	}
	if (!find_row(q, i, &q->r))
		return false;
	q->changed = true;
	forget(q, i);
	if (q->start != ST_NONE)
		forget(q, q->start);
	reg = tir_buf_make(arena_printf(p->arena, "%s'r%u", p->buf[q->r.buf].name, out->n_buf),
	    p->buf[q->r.buf].type, BUF_TEMP, SCOPE_reg, 1, &q->r.count);
	q->reg = tir_add_buf(out, &reg);
	tir_add(out, (struct st){.op = ST_alloc, .ref = q->reg});
	if (q->start != ST_NONE)
		add_on_array(q, out, q->start);
	else
		add_move(q, out, i, false);
	add_on_array(q, out, i);
	add_move(q, out, i, true);
	return true;
}

void
codegen_lanes(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	const uint32_t most = tx_n_axes(p->tx) + 2 * MOST_ROWS; /* with those of moves */
	struct rows q = {.p = &was, .changed = true, .of = NEW_ARRAY(p->arena, struct answer, most)};

	for (int n = 0; n < MOST_ROWS && q.changed; n++) {
		q.changed = false;
		q.start = ST_NONE;
		tir_rewrite(out, &was, keep, &q);
		was = *out;
	}
}
