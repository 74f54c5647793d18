/* kernels/codegen/spread.c: a matrix that a warp multiplies into lies in registers of its lanes, as the
 * instruction has it: of each 16 x 8 elements four in a lane.  What stores and reads it one by one does so in
 * lanes:
 *
 *   for i in 0..16                            for l in 0..32 lane
 *     for j in 0..8                             for r in 0..4
 *       store %1[i, j] = relu(%c[i, j])  ->       store %1[8*(r div 2) + (l div 4), 2*(l mod 4) + (r mod 2)]
 * = relu(%c[0, 0, r, l]) */
#include "codegen_int.h"

#include <string.h>

enum { LANES = 32, ROWS = 16, COLUMNS = 8, HELD = ROWS * COLUMNS / LANES };

struct spreading {
	const struct tir *p;
	bool *is_spread; /* of each buffer */
	/* Of the statement that is dealt out: the buffer and its place, and the loops that count rows and
	 * columns. */
	buf_id buf;
	ixv_id at;
	st_id row, column;
	bool several; /* places */
};

/* ---- which ----------------------------------------------------------------------------------------------
 */
static bool
is_warp(const struct tir *p)
{
	for (st_id i = 0; i < p->n_st; i++) {
		const struct st *s = &p->st[i];
		int64_t from, to;

		if (s->op == ST_for && s->bind == BIND_warp)
			return false;
		if (s->op == ST_for && s->bind == BIND_lane &&
		    (!ix_is_const(p->tx, s->from, &from) || !ix_is_const(p->tx, s->to, &to) || from != 0 ||
			to != LANES))
			return false;
	}
	return true;
}

static bool
is_multiple(const struct tir *p, ix_id i, int64_t of)
{
	int64_t rest;

	return ix_is_const(p->tx, ix_mod(p->tx, i, of), &rest) && rest == 0;
}

/* An instruction's result: %c[row, column], at the begin of a tile. */
static bool
is_result(const struct tir *p, const struct st *s, struct ex *result)
{
	const struct tensor_row *t = s->op == ST_call ? tensor_row_of(s->ref) : NULL;

	if (!t || t->team != BIND_warp)
		return false;
	*result = *ex_get(p->tx, p->arg[s->arg0]);
	return p->buf[result->tensor].scope == SCOPE_spread;
}

static void
note_place(struct spreading *q, buf_id b, ixv_id at)
{
	if (q->p->buf[b].scope != SCOPE_spread)
		return;
	q->several |= q->buf != BUF_NONE && (q->buf != b || q->at != at);
	q->buf = b;
	q->at = at;
}

static void
note_read(void *self, const struct ex *read)
{
	note_place(self, read->tensor, read->at);
}

/* The loop of the nest first .. leaf that counts the index one by one, in tiles of `size`; ST_NONE. */
static st_id
loop_of(const struct tir *p, st_id leaf, ix_id i, int64_t size)
{
	st_id path[TIR_DEPTH];
	int64_t from, to, coef;

	for (uint32_t k = tir_path(p, leaf, path); k-- > 0;) {
		const struct st *s = &p->st[path[k]];

		if (s->op != ST_for || s->end != leaf + 1)
			return ST_NONE;
		if (!ix_coef(p->tx, i, s->axis, &coef) || coef != 1)
			continue;
		const ix_id base = ix_add(p->tx, i, ix_mulc(p->tx, ix_axis(p->tx, s->axis), -1));

		return ix_is_const(p->tx, s->from, &from) && from == 0 && ix_is_const(p->tx, s->to, &to) &&
			to % size == 0 && is_multiple(p, base, size) && s->bind != BIND_lane
		    ? path[k]
		    : ST_NONE;
	}
	return ST_NONE;
}

/* Does the store touch one place of such a matrix, by loops over whole tiles?  Sets what is dealt out. */
static bool
find_nest(struct spreading *q, st_id leaf)
{
	const struct tir *p = q->p;
	const struct st *s = &p->st[leaf];

	q->buf = BUF_NONE;
	q->several = false;
	if (s->op != ST_store)
		return false;
	ex_reads(p->tx, s->value, note_read, q);
	note_place(q, s->ref, s->at);
	if (q->buf == BUF_NONE || q->several)
		return false;
	struct ixv at = ixv_get(p->tx, q->at);

	q->row = loop_of(p, leaf, at.i[at.n - 2], ROWS);
	q->column = loop_of(p, leaf, at.i[at.n - 1], COLUMNS);
	return q->row != ST_NONE && q->column != ST_NONE && q->row != q->column &&
	    !ix_has(p->tx, at.i[at.n - 2], p->st[q->column].axis) &&
	    !ix_has(p->tx, at.i[at.n - 1], p->st[q->row].axis);
}

static bool
may_spread(struct spreading *q, buf_id b)
{
	const struct tir *p = q->p;
	const struct tir_buf *f = &p->buf[b];
	bool called = false;
	struct ex c;

	if (f->scope != SCOPE_spread || f->rank < 2 || f->rank + 2 > MAX_RANK || f->dim[f->rank - 2] % ROWS ||
	    f->dim[f->rank - 1] % COLUMNS)
		return false;
	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op == ST_alloc || !touches(p, i, i + 1, b, false))
			continue;
		if (!is_result(p, &p->st[i], &c)) {
			if (!find_nest(q, i))
				return false;
			continue;
		}
		struct ixv at = ixv_get(p->tx, c.at);

		called = true;
		if (!is_multiple(p, at.i[at.n - 2], ROWS) || !is_multiple(p, at.i[at.n - 1], COLUMNS))
			return false;
	}
	return called;
}

/* ---- dealing out ------------------------------------------------------------------------------------------
 */
/* Element `held` of a lane, of the tile that the place is in. */
static ixv_id
place_in(struct tx *x, ixv_id at, ix_id held, ix_id lane)
{
	struct ixv v = ixv_get(x, at);
	ix_id i[MAX_RANK];

	for (uint32_t d = 0; d < v.n; d++)
		i[d] = v.i[d];
	i[v.n - 2] = ix_div(x, v.i[v.n - 2], ROWS);
	i[v.n - 1] = ix_div(x, v.i[v.n - 1], COLUMNS);
	i[v.n] = held;
	i[v.n + 1] = lane;
	return ixv_make(x, v.n + 2, i);
}

struct dealt {
	const struct spreading *q;
	ixv_id place;
};

static ex_id
load_dealt(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct dealt *d = self;

	return ex_load(x, read->type, read->tensor, read->tensor == d->q->buf ? d->place : at);
}

static ix_id
add_loop(struct tir *out, const char *name, int64_t n, enum tir_bind bind)
{
	return ix_axis(out->tx, tir_for(out, name, ix_const(out->tx, 0), ix_const(out->tx, n), bind));
}

/* The loops of the nest, those over rows and columns over tiles of them; how many are open. */
static uint32_t
add_tiles(const struct spreading *q, struct copying *y, st_id first, st_id leaf)
{
	struct tx *x = q->p->tx;
	struct tx_subst sub = {.to = y->to, .n = y->n_to};

	for (st_id i = first; i < leaf; i++) {
		const struct st *s = &q->p->st[i];
		const int64_t size = i == q->row ? ROWS : i == q->column ? COLUMNS : 1;
		const ix_id from = ix_subst(x, &sub, s->from), to = ix_subst(x, &sub, s->to);

		if (size == 1)
			y->to[s->axis] =
			    ix_axis(x, tir_for(y->out, fresh_name(y, s->name), from, to, s->bind));
		else
			y->to[s->axis] = ix_mulc(x,
			    add_loop(y->out, fresh_name(y, s->name), ix_get(x, to)->hi / size, BIND_unroll),
			    size);
	}
	return leaf - first;
}

static void
add_element(struct spreading *q, struct copying *y, st_id leaf)
{
	struct tx *x = q->p->tx;
	const struct st *s = &q->p->st[leaf];
	ix_id *row = &y->to[q->p->st[q->row].axis], *column = &y->to[q->p->st[q->column].axis];
	struct dealt d = {.q = q};
	struct tx_subst sub = {.to = y->to, .n = y->n_to};
	const ixv_id tile = ixv_subst(x, &sub, q->at);
	const ix_id lane = add_loop(y->out, fresh_name(y, "lane"), LANES, BIND_lane),
		    held = add_loop(y->out, fresh_name(y, "held"), HELD, BIND_unroll);

	d.place = place_in(x, tile, held, lane);
	*row = ix_add(x, *row, ix_add(x, ix_mulc(x, ix_div(x, held, 2), 8), ix_div(x, lane, 4)));
	*column = ix_add(x, *column, ix_add(x, ix_mulc(x, ix_mod(x, lane, 4), 2), ix_mod(x, held, 2)));
	const ixv_id at = s->ref == q->buf ? d.place : ixv_subst(x, &sub, s->at);

	sub.load = load_dealt;
	sub.self = &d;
	tir_add(y->out,
	    (struct st){.op = ST_store, .ref = s->ref, .at = at, .value = ex_subst(x, &sub, s->value)});
	tir_close(y->out);
	tir_close(y->out);
}

static bool
deal_nest(struct spreading *q, struct tir *out, st_id i)
{
	const st_id leaf = q->p->st[i].end - 1;
	struct copying y;

	if (!find_nest(q, leaf) || !q->is_spread[q->buf] || i != MIN_OF(q->row, q->column))
		return false;
	copying_begin(&y, out, q->p, i);
	uint32_t n_open = add_tiles(q, &y, i, leaf);

	add_element(q, &y, leaf);
	while (n_open-- > 0)
		tir_close(out);
	copying_end(&y);
	return true;
}

/* A row length of 0 says that the elements lie so. */
static bool
deal_call(const struct spreading *q, struct tir *out, const struct st *s)
{
	struct tx *x = q->p->tx;
	const ix_id zero = ix_const(x, 0);
	ex_id arg[TENSOR_ARGS];
	struct ex c;

	if (!is_result(q->p, s, &c) || !q->is_spread[c.tensor])
		return false;
	memcpy(arg, q->p->arg + s->arg0, s->n_arg * sizeof(*arg));
	arg[0] = ex_load(x, c.type, c.tensor, place_in(x, c.at, zero, zero));
	arg[1] = ex_whole(x, DT_i64, 0);
	tir_call(out, (enum intrin)s->ref, s->n_arg, arg);
	return true;
}

static bool
deal(void *self, struct tir *out, const struct tir *p, st_id i)
{
	if (p->st[i].op == ST_call)
		return deal_call(self, out, &p->st[i]);
	return p->st[i].op == ST_for && deal_nest(self, out, i);
}

void
codegen_spread(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	struct spreading q = {.p = &was, .is_spread = NEW_ARRAY(p->arena, bool, p->n_buf + 1)};

	for (buf_id b = 0; b < p->n_buf && is_warp(p); b++)
		q.is_spread[b] = may_spread(&q, b);
	tir_rewrite(out, &was, deal, &q);
	for (buf_id b = 0; b < p->n_buf; b++) {
		struct tir_buf *f = &out->buf[b];

		if (!q.is_spread[b])
			continue;
		f->dim[f->rank - 2] /= ROWS;
		f->dim[f->rank - 1] /= COLUMNS;
		f->dim[f->rank++] = HELD;
		f->dim[f->rank++] = LANES;
	}
}
