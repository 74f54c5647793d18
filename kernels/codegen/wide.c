/* kernels/codegen/wide.c: loops that are printed as vectors, and rows that are variables of them:
 *
 *   float r5[16];                              k_v8 r5[2];
 *   for i in 0..16: r5[i] = r5[i] + a * x[i] -> r5[0] = r5[0] + a * K_ROW8(x[0]);
 *                                              r5[1] = r5[1] + a * K_ROW8(x[8]);
 *
 * A compiler makes the same of the loop, in three times the time: it unrolls, looks for vectors and finds out
 * that the array need not be in memory, for each of some hundred loops of a kernel.  A row is of vectors
 * where all that stores it is; so loops and rows are asked again until nothing changes.  What is left over of
 * whole vectors goes by halves of them, and then one by one: 20 elements by 16 lanes and 4, not five times 4,
 * and 10 by 8 and two floats.  A long loop stays one, over vectors. */
#include "codegen_int.h"

/* A statement of a row's loop touches an array in registers. */
struct touch {
	st_id loop;
	buf_id buf;
	int64_t by;    /* a multiple of it is what the loop's first lane touches */
	bool is_whole; /* the loop goes through the array from its first element to its last */
	bool is_part;  /* a ragged loop reads it from the first lane of a vector on, and no other loop's */
};
struct asking {
	const struct tir *p;
	const struct sharing *sharing;
	struct wide *w;
	uint32_t lanes; /* at most */
	struct accesses l;
	struct touch *touch;
	uint32_t n, cap;
	bool *is_read_apart; /* of each buffer: some of its floats, by what is no loop over lanes */
	bool *is_ragged;     /* of each loop: one over lanes, but for some floats at its end */
};

/* The largest power of two up to `most` that divides n; 0: none from LEAST_LANES on. */
static uint32_t
lanes_of(int64_t n, uint32_t most)
{
	while (most >= LEAST_LANES && n % most)
		most /= 2;
	return most >= LEAST_LANES ? most : 0;
}

/* Iterations of a loop with constant bounds; 0: it has none such. */
static int64_t
trips_of(const struct tir *p, st_id loop)
{
	int64_t from = 0, to = 0;

	return ix_is_const(p->tx, p->st[loop].from, &from) && ix_is_const(p->tx, p->st[loop].to, &to)
	    ? to - from
	    : 0;
}

/* Some vectors, as text, and single floats behind them? */
static bool
is_ragged(int64_t n)
{
	return n > LEAST_LANES && n <= WIDE_AS_TEXT && n % LEAST_LANES;
}

/* ---- what can be a vector ------------------------------------------------------------------------------ */
/* Operators of C, which vectors have too, and what the prelude has of vectors. */
static bool
is_wide(enum prim p)
{
	static const enum prim list[] = {PRIM_add, PRIM_sub, PRIM_mul, PRIM_div, PRIM_neg, PRIM_recip,
	    PRIM_min, PRIM_max, PRIM_relu, PRIM_sigmoid, PRIM_exp, PRIM_tanh, PRIM_erf, PRIM_softplus,
	    PRIM_sqrt, PRIM_abs};

	for (uint32_t k = 0; k < COUNT_OF(list); k++)
		if (list[k] == p)
			return true;
	return false;
}

bool
lies_along(const struct tir *p, axis_id axis, ix_id at)
{
	int64_t coef;

	return !ix_has(p->tx, at, axis) || (ix_coef(p->tx, at, axis, &coef) && coef == 1);
}

static bool
is_along(const struct tir *p, axis_id axis, ixv_id at)
{
	return !ixv_has(p->tx, at, axis) ||
	    (ixv_get(p->tx, at).n == 1 && lies_along(p, axis, ixv_get(p->tx, at).i[0]));
}

/* Where a table says: no vector, but what is computed of it is, and that may be dear. */
static bool
is_by_table(const struct tir *p, ixv_id at)
{
	return ixv_get(p->tx, at).n == 1 && ix_get(p->tx, ixv_get(p->tx, at).i[0])->bufs;
}

bool
chooses_by_order(const struct tir *p, const struct ex *n, struct ex *how)
{
	*how = *ex_get(p->tx, n->arg[0]);
	return n->prim == PRIM_select && how->kind == EX_MAP &&
	    (how->prim == PRIM_eq || how->prim == PRIM_lt || how->prim == PRIM_le) &&
	    ex_get(p->tx, how->arg[0])->type == DT_f32;
}

static bool all_lanewise(const struct tir *p, axis_id axis, const ex_id *e, uint32_t n);

/* Is there a value in it that a let has named?  That may be a vector. */
static bool
has_name(const struct tir *p, ex_id e)
{
	const struct ex n = *ex_get(p->tx, e);

	for (uint32_t k = 0; k < n.n_arg; k++)
		if (has_name(p, n.arg[k]))
			return true;
	return n.kind == EX_VAR;
}

/* Is the value one of f32, over what is the same for all lanes, lies side by side, or is gathered? */
static bool
is_lanewise(const struct tir *p, axis_id axis, ex_id e)
{
	const struct ex n = *ex_get(p->tx, e);
	struct ex c;

	if (n.type != DT_f32)
		return false;
	if (n.kind == EX_READ)
		return p->buf[n.tensor].type == DT_f32 && (is_along(p, axis, n.at) || is_by_table(p, n.at));
	if (n.kind == EX_GUARD) /* for all lanes or for none: a scalar, whatever it is of */
		return !ex_has(p->tx, e, axis) && !has_name(p, e);
	if (n.kind != EX_MAP)
		return n.kind == EX_CONST || n.kind == EX_VAR;
	if (n.prim == PRIM_select)
		return chooses_by_order(p, &n, &c) && all_lanewise(p, axis, c.arg, c.n_arg) &&
		    all_lanewise(p, axis, n.arg + 1, 2);
	return is_wide(n.prim) && all_lanewise(p, axis, n.arg, n.n_arg);
}

static bool
all_lanewise(const struct tir *p, axis_id axis, const ex_id *e, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++)
		if (!is_lanewise(p, axis, e[k]))
			return false;
	return true;
}

/* Lanes of a vector that the loop may go by; 0: none. */
static uint32_t
lanes_of_loop(struct asking *q, st_id i)
{
	const struct tir *p = q->p;
	const struct st *s = &p->st[i];
	const int64_t n = s->op == ST_for && !is_range(p, i) ? trips_of(p, i) : 0;

	if (n <= 0)
		return 0;
	for (st_id k = i + 1; k < s->end; k++) {
		const struct st *b = &p->st[k];

		if ((b->op != ST_store && b->op != ST_let) || !is_lanewise(p, s->axis, b->value))
			return 0;
		if (b->op == ST_store &&
		    (p->buf[b->ref].type != DT_f32 || !ixv_has(p->tx, b->at, s->axis) ||
			!is_along(p, s->axis, b->at)))
			return 0;
	}
	if (!is_apart(p, i, q->sharing))
		return 0;
	q->is_ragged[i] = is_ragged(n);
	return n > WIDE_AS_TEXT ? q->lanes : lanes_of(n, q->lanes);
}

/* ---- rows in registers --------------------------------------------------------------------------------- */
static bool
is_row(const struct tir_buf *b)
{
	return b->scope == SCOPE_reg && b->rank == 1 && b->dim[0] > 1;
}

/* Of an access from a row's loop: what number divides the element that the loop's first lane is, wherever
 * other loops are; 0: the place does not go by lanes. */
static int64_t
divides_first(const struct tir *p, st_id loop, ixv_id at)
{
	const axis_id a = p->st[loop].axis;
	int64_t from, coef, by;
	struct ix n;
	ix_id i;

	if (!ix_is_const(p->tx, p->st[loop].from, &from) ||
	    !ix_coef(p->tx, ixv_get(p->tx, at).i[0], a, &coef) || coef != 1)
		return 0;
	i = ix_add(p->tx, ixv_get(p->tx, at).i[0], ix_mulc(p->tx, ix_axis(p->tx, a), -1));
	n = *ix_get(p->tx, ix_addc(p->tx, i, from));
	if (n.kind != IX_LIN)
		return n.kind == IX_AXIS ? 1 : 0;
	by = gcd(n.c, WIDE_AS_TEXT);
	for (uint32_t k = 0; k < n.n_terms; k++)
		by = gcd(by, n.terms[k].coef);
	return by;
}

/* Does the loop go through all of the row, element by element? */
static bool
is_whole(const struct tir *p, st_id loop, buf_id b, ixv_id at)
{
	int64_t from;

	return ix_is_const(p->tx, p->st[loop].from, &from) && from == 0 &&
	    trips_of(p, loop) == p->buf[b].dim[0] &&
	    ixv_get(p->tx, at).i[0] == ix_axis(p->tx, p->st[loop].axis);
}

/* Is the loop's first lane the first of a vector of the row, whatever lanes that has? */
static bool
begins_vector(const struct tir *p, st_id loop, const struct access *a)
{
	enum { MOST_LANES = 16 };
	const axis_id axis = p->st[loop].axis;
	int64_t from, off;

	return is_row(&p->buf[a->buf]) && ix_is_const(p->tx, p->st[loop].from, &from) && from == 0 &&
	    ix_is_const(p->tx,
		ix_add(p->tx, ixv_get(p->tx, a->place).i[0], ix_mulc(p->tx, ix_axis(p->tx, axis), -1)),
		&off) &&
	    off % MOST_LANES == 0;
}

/* A row that something else stores is an array; what else reads it reads its floats. */
static void
note_touches(struct asking *q, st_id i)
{
	const struct tir *p = q->p;
	const st_id up = p->st[i].up;
	const bool is_in = up != ST_NONE && p->st[i].op != ST_for;

	list_accesses(p, i, &q->l);
	for (uint32_t k = 0; k < q->l.n; k++) {
		const struct access a = q->l.at[k];
		const bool is_lane =
		    is_in && (q->w->loop[up] || (q->is_ragged[up] && is_ragged(p->buf[a.buf].dim[0])));
		const int64_t by = is_row(&p->buf[a.buf]) && is_lane ? divides_first(p, up, a.place) : 0;

		const bool reads_part =
		    !by && is_in && q->is_ragged[up] && !a.stores && begins_vector(p, up, &a);

		if (by || reads_part) {
			GROW(p->arena, q->touch, q->n, q->cap);
			q->touch[q->n++] = (struct touch){.loop = up,
			    .buf = a.buf,
			    .by = by,
			    .is_whole = is_whole(p, up, a.buf, a.place),
			    .is_part = reads_part};
			q->is_read_apart[a.buf] |= reads_part;
			continue;
		}
		q->is_read_apart[a.buf] |= p->st[i].op != ST_call || p->st[i].ref != INTRIN_hold;
		if (a.stores)
			q->w->buf[a.buf] = 0;
		if (is_row(&p->buf[a.buf]) && is_in &&
		    (a.stores || ixv_has(p->tx, a.place, p->st[up].axis))) {
			q->w->loop[up] = 0;
			q->is_ragged[up] = false;
		}
	}
}

/* A loop and the rows that it touches go by the same vectors. */
static bool
agree(struct asking *q, const struct touch *t)
{
	uint32_t *loop = &q->w->loop[t->loop], *buf = &q->w->buf[t->buf];
	const uint32_t before = *loop + *buf, lanes = MIN_OF(*loop, *buf);

	*loop = *buf = lanes ? lanes_of(t->by, lanes) : 0;
	return *loop + *buf == before;
}

/* ---- what is left over --------------------------------------------------------------------------------- */
uint32_t
wide_part(int64_t left, uint32_t lanes)
{
	while (lanes > left)
		lanes /= 2;
	return lanes < LEAST_LANES ? 1 : lanes;
}

uint32_t
wide_parts(int64_t n, uint32_t lanes)
{
	uint32_t count = 0;

	for (int64_t at = 0; at < n; at += wide_part(n - at, lanes))
		count++;
	return count;
}

/* May what is left over of the loop's vectors go by halves?  Not where a part of a row is less than they are.
 */
static bool
may_mix(const struct asking *q, st_id i)
{
	const uint32_t most = q->p->st[i].op == ST_for ? wide_part(trips_of(q->p, i), q->lanes) : 0;

	for (uint32_t k = 0; q->is_ragged[i] && k < q->n; k++)
		if (q->touch[k].loop == i && q->touch[k].is_part && q->w->buf[q->touch[k].buf] < most)
			return false;
	return q->is_ragged[i] || (q->w->loop[i] && most > q->w->loop[i]);
}

/* All that touch such a row are such loops and go through all of it. */
static void
agree_on_parts(const struct asking *q, bool *loop, bool *buf)
{
	for (bool again = true; again;) {
		again = false;
		for (uint32_t k = 0; k < q->n; k++) {
			const struct touch *t = &q->touch[k];
			const bool agrees = loop[t->loop] && buf[t->buf] && t->is_whole;

			if (t->is_part || agrees || (!loop[t->loop] && !buf[t->buf]))
				continue;
			loop[t->loop] = buf[t->buf] = false;
			again = true;
		}
	}
}

/* Does a table say where some of what the loop reads is? Its compiler makes no vectors of that. */
static bool
goes_by_table(struct asking *q, st_id loop)
{
	const struct tir *p = q->p;

	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		list_accesses(p, i, &q->l);
		for (uint32_t k = 0; k < q->l.n; k++)
			if (is_by_table(p, q->l.at[k].place) &&
			    !is_along(p, p->st[loop].axis, q->l.at[k].place))
				return true;
	}
	return false;
}

/* Loops and rows that go by fewer lanes than there are, because their elements are no multiple of those: what
 * is left over goes by halves.  A ragged loop over memory alone is its compiler's, where that can. */
static void
mix_parts(struct asking *q)
{
	const struct tir *p = q->p;
	bool *loop = NEW_ARRAY(p->arena, bool, p->n_st + 1), *buf = NEW_ARRAY(p->arena, bool, p->n_buf + 1);

	for (st_id i = 0; i < p->n_st; i++)
		loop[i] = may_mix(q, i);
	for (buf_id b = 0; b < p->n_buf; b++)
		buf[b] = !q->is_read_apart[b] &&
		    (q->w->buf[b] ||
			(is_row(&p->buf[b]) && p->buf[b].type == DT_f32 && is_ragged(p->buf[b].dim[0])));
	agree_on_parts(q, loop, buf);
	for (st_id i = 0; i < p->n_st; i++)
		if (loop[i] && (!q->is_ragged[i] || goes_by_table(q, i)))
			q->w->loop[i] = wide_part(trips_of(p, i), q->lanes);
	for (uint32_t k = 0; k < q->n; k++)
		if (loop[q->touch[k].loop] && q->is_ragged[q->touch[k].loop])
			q->w->loop[q->touch[k].loop] = wide_part(trips_of(p, q->touch[k].loop), q->lanes);
	for (buf_id b = 0; b < p->n_buf; b++)
		if (buf[b])
			q->w->buf[b] = wide_part(p->buf[b].dim[0], q->lanes);
}

/* A variable is no array: where an index of one hangs on a loop, each iteration is text, or all of it lies in
 * memory.  Of moves alone: sums and maps of so many are better off there. */
bool
is_written_out(const struct tir *p, st_id loop)
{
	const axis_id axis = p->st[loop].axis;
	struct accesses l = {.n = 0};
	bool of_variables = false;
	const int64_t n = is_range(p, loop) ? 0 : trips_of(p, loop);

	if (n <= 0 || n > WIDE_AS_TEXT)
		return false;
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];

		if (s->op == ST_for)
			continue;
		if (s->op != ST_store || ex_get(p->tx, s->value)->kind != EX_READ)
			return false;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			of_variables |=
			    p->buf[l.at[k].buf].scope == SCOPE_reg && ixv_has(p->tx, l.at[k].place, axis);
	}
	return of_variables;
}

void
find_wide(struct arena *a, const struct tir *p, const struct sharing *g, uint32_t lanes, struct wide *out)
{
	struct asking q = {.p = p,
	    .sharing = g,
	    .w = out,
	    .lanes = lanes,
	    .is_read_apart = NEW_ARRAY(a, bool, p->n_buf + 1),
	    .is_ragged = NEW_ARRAY(a, bool, p->n_st + 1)};
	bool again = true;

	*out = (struct wide){.loop = NEW_ARRAY(a, uint32_t, p->n_st + 1),
	    .buf = NEW_ARRAY(a, uint32_t, p->n_buf + 1),
	    .var = NEW_ARRAY(a, bool, p->n_var + 1)};
	if (!lanes)
		return;
	for (buf_id b = 0; b < p->n_buf; b++)
		out->buf[b] =
		    is_row(&p->buf[b]) && p->buf[b].type == DT_f32 ? lanes_of(p->buf[b].dim[0], lanes) : 0;
	for (st_id i = 0; i < p->n_st; i++)
		out->loop[i] = lanes_of_loop(&q, i);
	for (st_id i = 0; i < p->n_st; i++)
		note_touches(&q, i);
	while (again) {
		again = false;
		for (uint32_t k = 0; k < q.n; k++)
			again |= !q.touch[k].is_part && !agree(&q, &q.touch[k]);
	}
	mix_parts(&q);
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_let && p->st[i].up != ST_NONE && out->loop[p->st[i].up])
			out->var[p->st[i].ref] = true;
}
