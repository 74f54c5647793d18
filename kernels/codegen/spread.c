/* kernels/codegen/spread.c: a matrix that a warp multiplies into lies in registers of its lanes, as the
 * instruction has it: of each 16 x 8 elements four in a lane.  What stores and reads it one by one does so in
 * lanes:
 *
 *   for i in 0..16                            for l in 0..32 lane
 *     for j in 0..8                             for r in 0..4
 *       store %1[i, j] = relu(%c[i, j])  ->       store %1[8*(r div 2) + (l div 4), 2*(l mod 4) + (r mod 2)]
 * = relu(%c[0, 0, r, l])
 *
 * Of a block of several warps each holds tiles of its own (kernels/tir/tiles.c): the loops stand in one over
 * warps. */
#include "../tir/tiles.h"
#include "codegen_int.h"

#include <string.h>

enum { LANES = 32, ROWS = 16, COLUMNS = 8, HELD = ROWS * COLUMNS / LANES };

struct spreading {
	const struct tir *p;
	bool *is_spread;         /* of each buffer, */
	struct tir_tiles *tiles; /* and which warp has a tile of it; n 0: there is one */
	/* Of the statement that is dealt out: the buffer and its place, and the loops that count rows and
	 * columns. */
	buf_id buf;
	ixv_id at;
	st_id row, column;
	bool several; /* places */
};

/* ---- which ----------------------------------------------------------------------------------------------
 */
/* Are a warp's lanes told apart in the pass of the statement? */
static bool
has_warps(const struct tir *p, st_id at)
{
	st_id path[TIR_DEPTH];
	const st_id root = tir_path(p, at, path) ? path[0] : at;

	for (st_id i = root; i < p->st[root].end; i++) {
		const struct st *s = &p->st[i];
		int64_t from, to;

		if (s->op == ST_for && s->bind == BIND_lane &&
		    (!ix_is_const(p->tx, s->from, &from) || !ix_is_const(p->tx, s->to, &to) || from != 0 ||
			to != LANES))
			return false;
	}
	return true;
}

/* The loop over warps around the statement; ST_NONE. */
static st_id
warp_around(const struct tir *p, st_id i)
{
	st_id path[TIR_DEPTH];

	for (uint32_t k = tir_path(p, i, path); k-- > 0;)
		if (p->st[path[k]].op == ST_for && p->st[path[k]].bind == BIND_warp)
			return path[k];
	return ST_NONE;
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

		if ((s->op != ST_for && s->op != ST_if) || s->end != leaf + 1)
			return ST_NONE;
		if (s->op == ST_if || !ix_coef(p->tx, i, s->axis, &coef) || coef != 1)
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

/* Which of the instruction's tiles the place is in. */
static ixv_id
tile_of(struct tx *x, ixv_id at)
{
	const struct ixv v = ixv_get(x, at);
	ix_id i[MAX_RANK];

	memcpy(i, v.i, v.n * sizeof(*i));
	i[v.n - 2] = ix_div(x, v.i[v.n - 2], ROWS);
	i[v.n - 1] = ix_div(x, v.i[v.n - 1], COLUMNS);
	return ixv_make(x, v.n, i);
}

/* Is the place in statement i in a tile of the same warp as all others of the buffer? */
static bool
is_of_warp(struct spreading *q, st_id i, buf_id b, ixv_id at, bool first)
{
	const st_id warp = warp_around(q->p, i);
	struct tir_tiles t = {.n = 0};

	if (!has_warps(q->p, i))
		return false;
	if (warp != ST_NONE && !tir_tiles_at(q->p->tx, tile_of(q->p->tx, at), q->p->st[warp].axis, &t))
		return false;
	if (first)
		q->tiles[b] = t;
	return tir_tiles_equal(&t, &q->tiles[b]);
}

static bool
may_spread(struct spreading *q, buf_id b)
{
	const struct tir *p = q->p;
	const struct tir_buf *f = &p->buf[b];
	bool called = false, first = true;
	struct ex c;

	if (f->scope != SCOPE_spread || f->rank < 2 || f->rank + 2 > MAX_RANK || f->dim[f->rank - 2] % ROWS ||
	    f->dim[f->rank - 1] % COLUMNS)
		return false;
	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op == ST_alloc || !touches(p, i, i + 1, b, false))
			continue;
		const bool is_call = is_result(p, &p->st[i], &c);

		if (!is_call && !find_nest(q, i))
			return false;
		if (!is_of_warp(q, i, b, is_call ? c.at : q->at, first))
			return false;
		first = false;
		if (!is_call)
			continue;
		struct ixv at = ixv_get(p->tx, c.at);

		called = true;
		if (!is_multiple(p, at.i[at.n - 2], ROWS) || !is_multiple(p, at.i[at.n - 1], COLUMNS))
			return false;
	}
	return called;
}

/* ---- dealing out ------------------------------------------------------------------------------------------
 */
/* The number among a block's threads, of statement i. */
static ix_id
thread_of(const struct spreading *q, st_id i, const ix_id *to, ix_id lane)
{
	struct tx *x = q->p->tx;
	const st_id warp = warp_around(q->p, i);
	const axis_id a = warp == ST_NONE ? AXIS_NONE : q->p->st[warp].axis;

	if (warp == ST_NONE)
		return lane;
	return ix_add(x, lane, ix_mulc(x, to && to[a] != IX_NONE ? to[a] : ix_axis(x, a), LANES));
}

/* Element `held` of a thread, of the tile that the place is in. */
static ixv_id
place_in(const struct spreading *q, buf_id b, ixv_id at, ix_id held, ix_id thread)
{
	struct tx *x = q->p->tx;
	const struct ixv v = ixv_get(x, tir_tiles_own(x, &q->tiles[b], tile_of(x, at)));
	ix_id i[MAX_RANK];

	memcpy(i, v.i, v.n * sizeof(*i));
	i[v.n] = held;
	i[v.n + 1] = thread;
	return ixv_make(x, v.n + 2, i);
}

/* Of the block that has the buffer. */
static int64_t
threads_with(const struct spreading *q, buf_id b)
{
	int64_t n = LANES;

	for (uint32_t k = 0; k < q->tiles[b].n; k++)
		n *= q->tiles[b].digit[k].extent;
	return n;
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

/* The loops of the nest, those over rows and columns over tiles of them; how many are open.  (What is asked
 * between them is asked of each element.) */
static uint32_t
add_tiles(const struct spreading *q, struct copying *y, st_id first, st_id leaf)
{
	struct tx *x = q->p->tx;
	struct tx_subst sub = {.to = y->to, .n = y->n_to};
	uint32_t n_open = 0;

	for (st_id i = first; i < leaf; i++) {
		const struct st *s = &q->p->st[i];

		if (s->op == ST_if)
			continue;
		n_open++;
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
	return n_open;
}

/* What the nest asks of the element, if anything; how many ifs are open. */
static uint32_t
add_tests(const struct spreading *q, struct copying *y, st_id first, st_id leaf)
{
	struct tx_subst sub = {.to = y->to, .n = y->n_to};
	struct tir_guard guard[TIR_DEPTH];
	struct st test = {.op = ST_if};
	uint32_t n = 0;

	for (st_id i = first; i < leaf; i++)
		for (uint32_t k = 0; q->p->st[i].op == ST_if && k < q->p->st[i].n_guard && n < TIR_DEPTH;
		     k++) {
			guard[n] = q->p->guard[q->p->st[i].guard0 + k];
			guard[n].i = ix_subst(q->p->tx, &sub, guard[n].i);
			n++;
		}
	if (n == 0)
		return 0;
	tir_guards(y->out, &test, n, guard);
	tir_add(y->out, test);
	return 1;
}

static void
add_element(struct spreading *q, struct copying *y, st_id first, st_id leaf)
{
	struct tx *x = q->p->tx;
	const struct st *s = &q->p->st[leaf];
	ix_id *row = &y->to[q->p->st[q->row].axis], *column = &y->to[q->p->st[q->column].axis];
	struct dealt d = {.q = q};
	struct tx_subst sub = {.to = y->to, .n = y->n_to};
	const ixv_id tile = ixv_subst(x, &sub, q->at);
	const ix_id lane = add_loop(y->out, fresh_name(y, "lane"), LANES, BIND_lane),
		    held = add_loop(y->out, fresh_name(y, "held"), HELD, BIND_unroll);

	d.place = place_in(q, q->buf, tile, held, thread_of(q, leaf, y->to, lane));
	*row = ix_add(x, *row, ix_add(x, ix_mulc(x, ix_div(x, held, 2), 8), ix_div(x, lane, 4)));
	*column = ix_add(x, *column, ix_add(x, ix_mulc(x, ix_mod(x, lane, 4), 2), ix_mod(x, held, 2)));
	const uint32_t n_tests = add_tests(q, y, first, leaf);
	const ixv_id at = s->ref == q->buf ? d.place : ixv_subst(x, &sub, s->at);

	sub.load = load_dealt;
	sub.self = &d;
	tir_add(y->out,
	    (struct st){.op = ST_store, .ref = s->ref, .at = at, .value = ex_subst(x, &sub, s->value)});
	for (uint32_t k = 0; k < n_tests + 2; k++)
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

	add_element(q, &y, i, leaf);
	while (n_open-- > 0)
		tir_close(out);
	copying_end(&y);
	return true;
}

/* A row of less than nothing says that the elements lie so. */
static bool
deal_call(const struct spreading *q, struct tir *out, st_id i)
{
	const struct st *s = &q->p->st[i];
	struct tx *x = q->p->tx;
	const ix_id zero = ix_const(x, 0);
	ex_id arg[TENSOR_ARGS];
	struct ex c;

	if (!is_result(q->p, s, &c) || !q->is_spread[c.tensor])
		return false;
	memcpy(arg, q->p->arg + s->arg0, s->n_arg * sizeof(*arg));
	arg[0] = ex_load(x, c.type, c.tensor, place_in(q, c.tensor, c.at, zero, thread_of(q, i, NULL, zero)));
	arg[1] = ex_whole(x, DT_i64, -threads_with(q, c.tensor));
	tir_call(out, (enum intrin)s->ref, s->n_arg, arg);
	return true;
}

static bool
deal(void *self, struct tir *out, const struct tir *p, st_id i)
{
	if (p->st[i].op == ST_call)
		return deal_call(self, out, i);
	return p->st[i].op == ST_for && deal_nest(self, out, i);
}

void
codegen_spread(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	struct spreading q = {.p = &was,
	    .is_spread = NEW_ARRAY(p->arena, bool, p->n_buf + 1),
	    .tiles = NEW_ARRAY(p->arena, struct tir_tiles, p->n_buf + 1)};

	for (buf_id b = 0; b < p->n_buf; b++)
		q.is_spread[b] = may_spread(&q, b);
	tir_rewrite(out, &was, deal, &q);
	for (buf_id b = 0; b < p->n_buf; b++) {
		struct tir_buf *f = &out->buf[b];

		if (!q.is_spread[b])
			continue;
		f->dim[f->rank - 2] /= ROWS;
		f->dim[f->rank - 1] /= COLUMNS;
		tir_tiles_shrink(&q.tiles[b], f->dim);
		f->dim[f->rank++] = HELD;
		f->dim[f->rank++] = threads_with(&q, b);
	}
}
