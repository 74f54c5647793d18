/* kernels/codegen/partition.c: a loop is cut where a guard over its axis changes its answer: a padded row
 *
 *   for x in 0..56: .. guard(0 <= x - 1 < 56, %0[x - 1], 0) ..
 *
 * is its first element and the rest, which asks nothing.  Cut points are where coef * axis + rest may cross
 * an end of the guard, and where it must have; where other loops in `rest` leave much of the loop in doubt,
 * the guard is left to these.  So the last of 11 tiles of 16 is cut off where 169 elements are, and its inner
 * loop ends at the ninth.  Outer loops first: their pieces are copies, and the copies' inner loops are cut by
 * what is left to ask there, so text grows by the sum of borders in an inside, not by their product. */
#include "codegen_int.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_ROUNDS = 3,
	LEAST_TILE = 16,
	MOST_TILE = 1024,
	TILES = 4, /* for each that has a cut point in it, at least */
	MOST_PIECES = 16,
	MOST_CUTS = 64,
	MOST_STATEMENTS = 2000, /* of a nest */
	MOST_IN_ALL = 8000,
	LARGE_PART = 32, /* statements */
	ASKED_EACH = 8   /* of what an if asks for each element */
};

struct cuts {
	const struct tir *p;
	axis_id axis;
	int64_t from, to; /* of the loop */
	int64_t step;     /* what is counted is the axis divided by this */
	int64_t at[MOST_CUTS];
	uint32_t n;
	ix_id side[MOST_CUTS]; /* each min, max and remainder in the loop */
	uint32_t n_side;
};

static void
add_cut(struct cuts *c, int64_t v)
{
	v *= c->step;
	if (v > c->from && v < c->to && c->n < MOST_CUTS)
		c->at[c->n++] = v;
}

/* Where coef * axis + rest >= bound begins, or for coef < 0 ends: may do so, rest being of lo .. hi, and
 * must. */
static void
bound_cuts(struct cuts *c, int64_t coef, int64_t lo, int64_t hi, int64_t bound)
{
	int64_t may, must, doubt;

	if (coef > 0) {
		may = ceil_div(bound - hi, coef);
		must = ceil_div(bound - lo, coef);
	} else {
		may = floor_div(lo - bound, -coef) + 1;
		must = floor_div(hi - bound, -coef) + 1;
	}
	doubt = (must - may) * c->step;
	if (doubt > c->step && 4 * doubt > c->to - c->from)
		return;
	add_cut(c, may);
	add_cut(c, must);
}

/* The term of the index that hangs on the axis by a quotient of it alone, which counts up every `c`. */
static bool
quotient_of(const struct cuts *c, const struct ix *n, ix_id axis, struct ix_term *out)
{
	uint32_t found = 0;

	for (uint32_t k = 0; k < n->n_terms; k++) {
		const struct ix *a = ix_get(c->p->tx, n->terms[k].atom);

		if (a->kind == IX_DIV && a->a == axis) {
			*out = n->terms[k];
			found++;
		}
	}
	return found == 1;
}

static void
guard_cuts(struct cuts *c, ix_id i, int64_t lo, int64_t hi)
{
	struct tx *x = c->p->tx;
	struct tir_guard g = guard_undivided(x, (struct tir_guard){i, lo, hi});
	const struct ix n = *ix_get(x, g.i);
	struct ix_term t = {.atom = ix_axis(x, c->axis)};

	if (n.lo >= g.lo && n.hi < g.hi)
		return;
	if (!ix_coef(x, g.i, c->axis, &t.coef) && !quotient_of(c, &n, ix_axis(x, c->axis), &t))
		return;
	const ix_id left = ix_add(x, g.i, ix_mulc(x, t.atom, -t.coef));

	if (t.coef == 0 || ix_has(x, left, c->axis))
		return;
	const int64_t least = ix_get(x, left)->lo, most = ix_get(x, left)->hi;

	c->step = ix_get(x, t.atom)->kind == IX_DIV ? ix_get(x, t.atom)->c : 1;
	bound_cuts(c, t.coef, least, most, g.lo);
	bound_cuts(c, t.coef, least, most, g.hi);
	c->step = 1;
}

static void
ex_cuts(struct cuts *c, ex_id e)
{
	const struct ex n = *ex_get(c->p->tx, e);

	if (n.kind == EX_GUARD)
		guard_cuts(c, n.ix, n.lo, n.hi);
	for (uint32_t k = 0; k < n.n_arg; k++)
		ex_cuts(c, n.arg[k]);
}

static void
note_side(void *self, ix_id i)
{
	struct cuts *c = self;
	const struct ix *n = ix_get(c->p->tx, i);

	if ((n->kind == IX_MIN || n->kind == IX_MAX || n->kind == IX_MOD) && c->n_side < MOST_CUTS)
		c->side[c->n_side++] = i;
}

/* The axis alone, and a constant? */
static bool
is_alone(const struct cuts *c, ix_id i, int64_t *coef, int64_t *base)
{
	const struct ix *n = ix_get(c->p->tx, i);

	*base = ix_base(c->p->tx, i);
	return ix_coef(c->p->tx, i, c->axis, coef) && *coef != 0 &&
	    (n->kind == IX_AXIS || (n->kind == IX_LIN && n->n_terms == 1));
}

/* Where the other side of a min or max is the smaller, and where a remainder begins again: a border that
 * reflects or comes round. */
static void
side_cuts(struct cuts *c, ix_id i)
{
	const struct ix n = *ix_get(c->p->tx, i);
	int64_t coef, base;
	ix_id d;

	if (n.kind != IX_MOD) {
		d = ix_add(c->p->tx, n.a, ix_mulc(c->p->tx, n.b, -1));
		if (is_alone(c, d, &coef, &base))
			guard_cuts(c, d, 0, INT32_MAX);
		return;
	}
	if (!is_alone(c, n.a, &coef, &base) || coef != 1 || c->to - c->from >= MOST_ROUNDS * n.c)
		return;
	for (int64_t at = ceil_div(c->from + base, n.c) * n.c - base; at < c->to; at += n.c)
		add_cut(c, at);
}

static void
ex_sides(void *self, ex_id e)
{
	const struct cuts *c = self;

	if (ex_get(c->p->tx, e)->axes & axis_bit(c->axis))
		ex_indices(c->p->tx, e, note_side, self);
}

static void
ix_sides(void *self, ix_id i)
{
	const struct cuts *c = self;

	if (ix_get(c->p->tx, i)->axes & axis_bit(c->axis))
		ix_indices(c->p->tx, i, note_side, self);
}

static int
ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The cut points of all guards in the loop's body or a part of it, each once; the ends are among them. */
static uint32_t
find_cuts(struct cuts *c, st_id from, st_id end)
{
	const struct tir *p = c->p;
	uint32_t n = 0;

	for (st_id i = from; i < end; i++) {
		const struct st *s = &p->st[i];

		/* of so much it is asked once: no piece would be better for its copy */
		for (uint32_t k = 0; s->op == ST_if && s->end - i <= ASKED_EACH && k < s->n_guard; k++)
			guard_cuts(c, p->guard[s->guard0 + k].i, p->guard[s->guard0 + k].lo,
			    p->guard[s->guard0 + k].hi);
		if (!st_has(s->op, 'X') || ex_get(p->tx, s->value)->size >= MOST_STATEMENTS)
			continue;
		ex_cuts(c, s->value);
		tir_each(p, s, ix_sides, ex_sides, c);
	}
	for (uint32_t k = 0; k < c->n_side; k++)
		side_cuts(c, c->side[k]);
	qsort(c->at, c->n, sizeof(c->at[0]), ascending);
	for (uint32_t k = 0; k < c->n; k++)
		if (n == 0 || c->at[n - 1] != c->at[k])
			c->at[n++] = c->at[k];
	return c->n = n;
}

struct partition {
	bool changed;
	bool *is_whole; /* of each axis: its loop, as it is, has no cut */
	uint32_t n_axes;
};

/* Is there room for `more` statements?  All from the loop on comes behind what `out` has; a nest that has
 * been cut often leaves the others theirs. */
static bool
has_room(const struct tir *p, st_id i, const struct tir *out, uint32_t more)
{
	const uint32_t begun = out->n_open ? out->n_st - out->open[0] : 0;
	st_id nest = i;

	while (p->st[nest].up != ST_NONE)
		nest = p->st[nest].up;
	return begun + p->st[nest].end - i + more < MOST_STATEMENTS &&
	    out->n_st + p->n_st - i + more < MOST_IN_ALL;
}

/* May the loop's body stand there once for each piece? */
static bool
may_cut(const struct tir *p, st_id i, bool parallel, const struct tir *out, struct cuts *c)
{
	const struct st *s = &p->st[i];

	if (s->op != ST_for || (s->bind == BIND_parallel) != parallel ||
	    !ix_is_const(p->tx, s->from, &c->from) || !ix_is_const(p->tx, s->to, &c->to))
		return false;
	for (st_id k = i + 1; k < s->end; k++)
		if (p->st[k].op == ST_let)
			return false;
	c->p = p;
	c->axis = s->axis;
	c->step = 1;
	return find_cuts(c, i + 1, s->end) > 0 && c->n < MOST_PIECES &&
	    has_room(p, i, out, (s->end - i) * c->n);
}

/* Is a part of the loop's body there for a piece of it alone? */
static bool
is_in_pieces(const struct tir *p, st_id i)
{
	for (st_id k = i + 1; k < p->st[i].end; k = p->st[k].end)
		if (p->st[k].op == ST_if && p->st[k].n_guard == 1 &&
		    p->guard[p->st[k].guard0].i == ix_axis(p->tx, p->st[i].axis))
			return true;
	return false;
}

/* The loop's axis in [lo, hi) alone, as an axis of its own, whose range is known. */
static ix_id
add_piece(struct tir *out, const struct st *loop, ix_id whole, int64_t lo, int64_t hi)
{
	struct tx *x = out->tx;
	struct st s = {.op = ST_index,
	    .name = arena_printf(out->arena, "%s.at%u", loop->name, out->n_st),
	    .from = ix_max(x, ix_min(x, whole, ix_const(x, hi - 1)), ix_const(x, lo))};

	if (hi - lo == 1)
		return ix_const(x, lo);
	s.axis = tx_axis(x, AXIS_OUTER, lo, hi - 1, IX_NONE);
	tir_add(out, s);
	return ix_axis(x, s.axis);
}

/* Tiles, none of which a cut point is in; else, of many elements, such that few of the tiles have one in
 * them, the last of which may go over the end (not where a border reflects: of two loops' index nobody says
 * where its sides meet); 1: neither. */
static int64_t
tile_of(const struct cuts *c)
{
	const int64_t all = c->to - c->from;
	int64_t g = all, most;

	for (uint32_t k = 0; k < c->n; k++)
		g = gcd(g, c->at[k] - c->from);
	for (most = MIN_OF(g, (int64_t)MOST_TILE); g % most; most--)
		;
	if (most >= LEAST_TILE)
		return most;
	most = c->n_side ? 1 : MIN_OF(all / TILES / (c->n + 1), (int64_t)MOST_TILE);
	return most < LEAST_TILE ? 1 : most;
}

/* A parallel loop that has no loop inside would ask at each element: it becomes one over tiles. */
static bool
tile_parallel(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct cuts c = {.n = 0};
	struct copying y;
	int64_t n;

	(void)self;
	if (!may_cut(p, i, true, out, &c) || is_in_pieces(p, i))
		return false;
	for (st_id k = i + 1; k < s->end; k++)
		if (p->st[k].op == ST_for)
			return false;
	n = tile_of(&c);
	if (n == 1 || n == c.to - c.from)
		return false;
	copying_begin(&y, out, p, i);
	const ix_id zero = ix_const(p->tx, 0), end = ix_const(p->tx, n),
		    o = ix_axis(p->tx,
			tir_for(out, s->name, zero, ix_const(p->tx, ceil_div(c.to - c.from, n)), s->bind)),
		    e = ix_axis(p->tx, tir_for(out, fresh_name(&y, s->name), zero, end, BIND_serial));
	const bool is_full = (c.to - c.from) % n == 0;

	y.to[s->axis] = ix_addc(p->tx, ix_add(p->tx, ix_mulc(p->tx, o, n), e), c.from);
	if (!is_full) {
		const struct tir_guard g = {y.to[s->axis], c.from, c.to};
		struct st test = {.op = ST_if};

		tir_guards(out, &test, 1, &g);
		tir_add(out, test);
	}
	copy_fresh(&y, i + 1, s->end);
	if (!is_full)
		tir_close(out);
	tir_close(out);
	tir_close(out);
	copying_end(&y);
	return true;
}

/* A large part of the body that no cut is in. */
static bool
stays_whole(const struct cuts *c, st_id i)
{
	struct cuts own = {.p = c->p, .axis = c->axis, .from = c->from, .to = c->to, .step = 1};

	return c->p->st[i].end - i > LARGE_PART && find_cuts(&own, i, c->p->st[i].end) == 0;
}

/* Where statements from i on cease to be of pieces: at a large part that stays whole, or where there is one,
 * at what all of the body sees. */
static st_id
end_of_pieces(const struct cuts *c, st_id i, st_id end)
{
	const struct tir *p = c->p;
	bool any = false;

	for (st_id k = p->st[i].up + 1; k < end; k = p->st[k].end)
		any |= stays_whole(c, k);
	while (i < end && !(any && (p->st[i].op == ST_alloc || p->st[i].op == ST_index || stays_whole(c, i))))
		i = p->st[i].end;
	return i;
}

/* Statements once for each piece of the loop, under an if. */
static void
add_pieces(struct copying *y, const struct cuts *c, const struct st *loop, ix_id whole, st_id i, st_id end)
{
	for (uint32_t k = 0; k <= c->n; k++) {
		const struct tir_guard g = {whole, k ? c->at[k - 1] : c->from, k < c->n ? c->at[k] : c->to};
		struct st test = {.op = ST_if};

		tir_guards(y->out, &test, 1, &g);
		tir_add(y->out, test);
		y->to[loop->axis] = add_piece(y->out, loop, whole, g.lo, g.hi);
		copy_fresh(y, i, end);
		tir_close(y->out);
	}
	y->to[loop->axis] = whole;
}

/* A parallel loop is a pass's range and stays one loop: its pieces are ifs, once an iteration. */
static bool
cut_parallel(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct cuts c = {.n = 0};
	struct copying y;

	(void)self;
	if (!may_cut(p, i, true, out, &c) || is_in_pieces(p, i))
		return false;
	copying_begin(&y, out, p, i);
	const ix_id whole = ix_axis(p->tx, tir_for(out, s->name, s->from, s->to, s->bind));

	y.to[s->axis] = whole;
	for (st_id k = i + 1; k < s->end;) {
		const st_id end = end_of_pieces(&c, k, s->end), next = end == k ? p->st[k].end : end;

		if (end > k)
			add_pieces(&y, &c, s, whole, k, end);
		else
			copy_fresh(&y, k, next);
		k = next;
	}
	tir_close(out);
	copying_end(&y);
	return true;
}

/* Pieces have axes of their own. */
static void
make_room(struct partition *q, const struct tir *p)
{
	const uint32_t n = tx_n_axes(p->tx);
	const bool *was = q->is_whole;

	if (n <= q->n_axes)
		return;
	q->is_whole = NEW_ARRAY(p->arena, bool, 2 * (size_t)n);
	if (was)
		memcpy(q->is_whole, was, q->n_axes * sizeof(*was));
	q->n_axes = 2 * n;
}

static bool
cut_loop(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct partition *q = self;
	struct cuts c = {.n = 0};
	struct copying y;

	if (s->op != ST_for || q->is_whole[s->axis])
		return false;
	if (!may_cut(p, i, false, out, &c)) {
		q->is_whole[s->axis] = c.n == 0;
		return false;
	}
	q->changed = true;
	for (st_id k = s->up; k != ST_NONE; k = p->st[k].up)
		if (p->st[k].op == ST_for)
			q->is_whole[p->st[k].axis] = false;
	copying_begin(&y, out, p, i);
	for (uint32_t k = 0; k <= c.n; k++) {
		int64_t from = k ? c.at[k - 1] : c.from, to = k < c.n ? c.at[k] : c.to;

		if (to - from > 1)
			y.to[s->axis] = ix_axis(p->tx,
			    tir_for(out, fresh_name(&y, s->name), ix_const(p->tx, from), ix_const(p->tx, to),
				s->bind));
		else
			y.to[s->axis] = ix_const(p->tx, from);
		copy_fresh(&y, i + 1, s->end);
		if (to - from > 1)
			tir_close(out);
	}
	copying_end(&y);
	return true;
}

/* Outer loops of all of the program, then those within.  Twice: where an inner loop was cut, what is asked of
 * a parallel one may be a sum now. */
void
codegen_partition(const struct tir *p, struct tir *out)
{
	struct tir was = *p;

	for (int turn = 0; turn < 2; turn++) {
		struct partition q = {.changed = true};

		tir_rewrite(out, &was, tile_parallel, NULL);
		was = *out;
		tir_rewrite(out, &was, cut_parallel, NULL);
		was = *out;
		codegen_guards(&was, out); /* what those ifs answer is no cut of loops within */
		was = *out;
		for (int n = 0; n < MOST_STATEMENTS && q.changed; n++) {
			q.changed = false;
			make_room(&q, p);
			tir_rewrite(out, &was, cut_loop, &q);
			was = *out;
		}
	}
}
