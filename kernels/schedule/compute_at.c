/* kernels/schedule/compute_at.c: compute_at BLOCK LOOP: the block's nest stands at the begin of the loop's
 * body, over what is read below, and its buffer is each iteration's own, a result's excepted.  The region
 * read is an interval a dimension: all loops below run through, outer ones stay in its bounds.
 *
 * A nest that holds others, a product in tiles, moves as it is where its outermost loop counts rows of the
 * buffer: those that are read. */
#include "step_int.h"

#include <string.h>

struct region {
	ix_id lo[MAX_RANK], hi[MAX_RANK];
	bool known;
};
struct moving {
	const struct tir *p;
	const struct step *s;
	blk_id blk;
	buf_id buf;
	st_id from, root; /* its one instance, and the outermost loop around it alone */
	st_id loop;
	bool is_result;
	bool holds_others; /* the root, which counts dimension `row` */
	int row;
	struct region r;
	struct err *e;
};

/* ---- the region ------------------------------------------------------------------------------------ */
static void
gather(struct moving *t, st_id reader, ixv_id where)
{
	struct ixv at = ixv_get(t->p->tx, where);

	for (uint32_t d = 0; d < at.n; d++) {
		ix_id lo, hi;

		instance_region(t->p, t->loop, reader, at.i[d], &lo, &hi);
		t->r.lo[d] = t->r.known ? ix_outer(t->p->tx, t->r.lo[d], lo, false) : lo;
		t->r.hi[d] = t->r.known ? ix_outer(t->p->tx, t->r.hi[d], hi, true) : hi;
	}
	t->r.known = true;
}

static void
gather_all(struct moving *t)
{
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++) {
		ixv_id *at;
		uint32_t n;

		if (t->p->st[i].op != ST_block)
			continue;
		at = blk_places_read(t->p, &t->p->blk[t->p->st[i].ref], t->buf, &n);
		for (uint32_t k = 0; k < n; k++)
			gather(t, i, at[k]);
	}
}

struct bounds {
	const struct moving *t;
	bool early;
};

static void
look_early(void *self, const struct ex *read)
{
	struct bounds *l = self;
	const struct moving *t = l->t;

	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++)
		l->early |=
		    t->p->st[i].op == ST_block && blk_stores_buf(&t->p->blk[t->p->st[i].ref], read->tensor);
}

/* Does the region hang on values that the loop's body makes first? */
static bool
is_early(const struct moving *t)
{
	struct bounds l = {.t = t};

	for (int d = 0; d < t->p->buf[t->buf].rank; d++) {
		ix_reads(t->p->tx, t->r.lo[d], look_early, &l);
		ix_reads(t->p->tx, t->r.hi[d], look_early, &l);
	}
	return l.early;
}

/* ---- legality ------------------------------------------------------------------------------------------ */
static bool
is_in(const struct tir *p, st_id i, st_id of)
{
	return i >= of && i < p->st[of].end;
}

/* Nothing but the block's instance and its loops. */
static bool
is_alone(const struct moving *t, st_id i)
{
	for (st_id k = i; k < t->p->st[i].end; k++)
		if (t->p->st[k].op != ST_for && k != t->from &&
		    !(t->p->st[k].op == ST_alloc && t->p->st[k].ref == t->buf))
			return false;
	return true;
}

/* Does the loop count through a dimension of the buffer, one by one, and through nothing else? */
static bool
counts_rows(struct moving *t, st_id loop)
{
	const struct tir *p = t->p;
	const struct st *l = &p->st[loop];
	const struct tir_block *b = &p->blk[t->blk];
	const struct ixv bound = ixv_get(p->tx, p->st[t->from].at), at = ixv_get(p->tx, b->at[0]);
	uint32_t n = 0;
	int64_t from, extent;
	axis_id a;

	t->row = -1;
	for (uint32_t k = 0; k < b->n_iter; k++) {
		if (!ix_has(p->tx, bound.i[k], l->axis))
			continue;
		n += bound.i[k] == ix_axis(p->tx, l->axis) ? 1 : 2;
		for (uint32_t d = 0; d < at.n; d++)
			if (ix_is_axis(p->tx, at.i[d], &a) && a == p->iter[b->iter0 + k].id)
				t->row = (int)d;
	}
	return n == 1 && t->row >= 0 && l->op == ST_for && l->bind == BIND_serial &&
	    const_extent(p, l, &from, &extent) && from == 0 && extent == p->buf[t->buf].dim[t->row];
}

static bool
is_allocated_in(const struct moving *t, buf_id buf)
{
	for (st_id i = t->root; i < t->p->st[t->root].end; i++)
		if (t->p->st[i].op == ST_alloc && t->p->st[i].ref == buf)
			return true;
	return false;
}

/* Is the buffer a thread's own, or a block's, and not the root's? */
static bool
is_of_others(const struct moving *t, buf_id b)
{
	return t->p->buf[b].role == BUF_TEMP && t->p->buf[b].scope != SCOPE_global && !is_allocated_in(t, b);
}

/* What else the root makes is there for it alone, and so is what it reads, if it is not there everywhere. */
static bool
holds_its_own(const struct moving *t)
{
	for (st_id i = t->root; i < t->p->st[t->root].end; i++) {
		const struct tir_block *b = &t->p->blk[t->p->st[i].ref];

		if (t->p->st[i].op != ST_block)
			continue;
		for (uint32_t o = 0; o < b->n_out; o++)
			if (b->out[o] != t->buf && !is_allocated_in(t, b->out[o]))
				return false;
		for (buf_id k = 0; k < t->p->n_buf; k++)
			if (is_of_others(t, k) && blk_reads_buf(t->p, b, k))
				return false;
	}
	return true;
}

/* The outermost loop that is the block's own moves with it; loops that hold others stay. */
static bool
find_nest(struct moving *t)
{
	uint32_t n = 0;
	st_id path[TIR_DEPTH];

	for (st_id i = 0; i < t->p->n_st; i++)
		if (t->p->st[i].op == ST_block && t->p->st[i].ref == t->blk) {
			t->from = i;
			n++;
		}
	if (n != 1)
		return refuse(t->e, t->s, "instances", "the block does not stand in one place");
	n = tir_path(t->p, t->from, path);
	t->root = t->from;
	for (uint32_t k = 0; k < n && t->root == t->from; k++)
		if (is_alone(t, path[k]))
			t->root = path[k];
	if (t->holds_others && (n == 0 || !counts_rows(t, t->root = path[0]) || !holds_its_own(t)))
		return refuse(t->e, t->s, "scope", "it reads a buffer that is not there everywhere");
	if (is_in(t->p, t->loop, t->root) || is_in(t->p, t->root, t->loop))
		return refuse(t->e, t->s, "loop", "the loop is around the block already");
	return true;
}

static bool
block_moves(const struct moving *t)
{
	const struct tir_block *b = &t->p->blk[t->blk];

	if (b->n_out != 1)
		return refuse(t->e, t->s, "result", "the block makes two results");
	if (t->p->buf[t->buf].fold)
		return refuse(t->e, t->s, "ring", "its rows stay for the next iteration already");
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &t->p->iter[b->iter0 + k];
		struct ixv at = ixv_get(t->p->tx, b->at[0]);
		bool alone = it->kind == ITER_REDUCE;
		axis_id a;

		for (uint32_t d = 0; d < at.n; d++)
			alone |= ix_is_axis(t->p->tx, at.i[d], &a) && a == it->id && it->kind == ITER_SPACE;
		if (!alone)
			return refuse(t->e, t->s, "inverse",
			    "the block carries, or a place does not say which point it is");
	}
	for (blk_id k = 0; k < t->p->n_blk; k++)
		if (k != t->blk && blk_stores_buf(&t->p->blk[k], t->buf))
			return refuse(t->e, t->s, "writers", "another block stores into its buffer");
	return true;
}

/* Is dimension d a tile in each iteration of some of the loops, side by side, and all while they run?  Of
 * several loops an outer one goes on by what the one inside of it goes through.  The last tile may go over
 * the end: nothing is made there.  Counts in `over` the dimensions that each loop goes over. */
static bool
goes_over(const struct moving *t, const st_id *path, uint32_t n, int d, int *over)
{
	const int64_t dim = t->p->buf[t->buf].dim[d];
	const ix_id lo = t->r.lo[d], hi = t->r.hi[d];
	struct tx *x = t->p->tx;
	ix_id sum = ix_const(x, 0), last;
	int64_t from, extent, coef, width = 0, begin = 0, reach = 0;

	for (uint32_t k = n; k-- > 0;) {
		const struct st *l = &t->p->st[path[k]];

		if (l->op != ST_for)
			continue;
		if (!ix_coef(x, lo, l->axis, &coef) || coef < 0)
			return false;
		if (coef == 0)
			continue;
		if (!const_extent(t->p, l, &from, &extent) || from != 0 || (reach > 0 && coef != reach))
			return false;
		width = width > 0 ? width : coef;
		begin = coef * (extent - 1);
		reach = coef * extent;
		sum = ix_add(x, sum, ix_mulc(x, ix_axis(x, l->axis), coef));
		over[k]++;
	}
	last = ix_add(x, sum, ix_const(x, width - 1));
	return reach >= dim && begin < dim && lo == sum &&
	    (hi == last || hi == ix_min(x, last, ix_const(x, dim - 1)));
}

/* All of the dimension, or what a tile's guard leaves of more. */
static bool
covers(const struct moving *t, int d)
{
	int64_t lo, hi;

	return ix_is_const(t->p->tx, t->r.lo[d], &lo) && lo <= 0 && ix_is_const(t->p->tx, t->r.hi[d], &hi) &&
	    hi >= t->p->buf[t->buf].dim[d] - 1;
}

/* A result is made whole: of each dimension all in each iteration, or a tile by loops over all.  Threads make
 * places of their own. */
static bool
makes_whole(const struct moving *t)
{
	st_id path[TIR_DEPTH + 1];
	uint32_t n = tir_path(t->p, t->loop, path);
	int over[TIR_DEPTH + 1] = {0};

	path[n++] = t->loop;
	for (int d = 0; d < t->p->buf[t->buf].rank; d++)
		if (!covers(t, d) && !goes_over(t, path, n, d, over))
			return refuse(t->e, t->s, "result", "the loop does not make all of a result");
	for (uint32_t k = 0; k < n; k++)
		if (over[k] > 1 || (over[k] == 0 && is_of_threads(&t->p->st[path[k]])))
			return refuse(t->e, t->s, "result", "two threads would make one place of it");
	return true;
}

/* Is the reader inside of a loop of threads that is inside of the target?  The buffer would be another
 * thread's. */
static bool
is_of_thread(const struct moving *t, st_id reader)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(t->p, reader, path);

	for (uint32_t k = 0; k < n; k++)
		if (path[k] > t->loop && is_of_threads(&t->p->st[path[k]]))
			return true;
	return false;
}

static bool
loop_takes(const struct moving *t)
{
	const struct st *l = &t->p->st[t->loop];
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(t->p, t->loop, path);

	path[n++] = t->loop;
	for (uint32_t k = 0; k < n; k++)
		if (t->p->st[path[k]].op == ST_for && t->p->st[path[k]].bind == BIND_vector)
			return refuse(t->e, t->s, "vector", "a nest inside of a vector loop");
	for (st_id i = 0; i < t->p->n_st; i++) {
		const struct st *s = &t->p->st[i];

		if (s->op == ST_block && s->ref != t->blk &&
		    blk_reads_buf(t->p, &t->p->blk[s->ref], t->buf) && (i < t->loop || i >= l->end))
			return refuse(t->e, t->s, "readers", "a reader is not inside of the loop");
		if (s->op == ST_block && i > t->loop && i < l->end && is_of_thread(t, i) &&
		    blk_reads_buf(t->p, &t->p->blk[s->ref], t->buf))
			return refuse(t->e, t->s, "scope", "a reader runs in threads of its own");
		if (s->op == ST_block && i < t->root && i > t->loop && i < l->end)
			return refuse(t->e, t->s, "order", "a reader comes before the block");
	}
	return true;
}

/* ---- building -------------------------------------------------------------------------------------------
 */
/* 0 <= g*a + s < g*n, with s in 0..g, is 0 <= a < n: what is made of the axis by tiles of g is proved by
 * that. */
static struct tir_guard
guard_of_tiles(struct tx *x, ix_id i, int64_t extent)
{
	const struct ix sum = *ix_get(x, i);

	for (uint32_t k = 0; sum.kind == IX_LIN && k < sum.n_terms; k++) {
		const int64_t g = sum.terms[k].coef;
		const ix_id whole = g > 1 ? ix_div(x, i, g) : i;
		const struct ix *rest = ix_get(x, ix_add(x, i, ix_mulc(x, whole, -g)));

		if (g > 1 && extent % g == 0 && rest->lo >= 0 && rest->hi < g)
			return (struct tir_guard){whole, 0, extent / g};
	}
	return (struct tir_guard){i, 0, extent};
}

/* Loops over the region, and an instance that guards what leaves the buffer or hangs on the outer loops. */
static void
add_nest(const struct moving *t, struct tir *out)
{
	const struct tir_block *b = &t->p->blk[t->blk];
	struct tx *x = t->p->tx;
	struct ixv place = ixv_get(x, b->at[0]);
	struct tir_guard guard[2 * MAX_RANK];
	struct st s = {.op = ST_block, .ref = t->blk};
	ix_id at[IXV_MAX];
	uint32_t n_open = 0, n_guard = 0;

	if (!t->is_result)
		tir_add(out, (struct st){.op = ST_alloc, .ref = t->buf});
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &t->p->iter[b->iter0 + k];
		int64_t extent = tx_axis_get(x, it->id)->hi + 1, n;
		ix_id lo = ix_const(x, 0), hi = ix_const(x, extent - 1);
		axis_id a;

		for (uint32_t d = 0; d < place.n; d++)
			if (ix_is_axis(x, place.i[d], &a) && a == it->id) {
				lo = t->r.lo[d];
				hi = t->r.hi[d];
			}
		n = ix_get(x, ix_add(x, hi, ix_mulc(x, lo, -1)))->hi + 1;
		if (n >= extent) { /* all of it, from the begin */
			n = extent;
			lo = ix_const(x, 0);
		}
		at[k] = lo;
		if (n > 1) {
			axis_id y = tir_for(out, arena_printf(t->p->arena, "%s.%s", b->name, it->name),
			    ix_const(x, 0), ix_const(x, n), BIND_serial);

			at[k] = ix_add(x, lo, ix_axis(x, y));
			n_open++;
		}
		if (ix_get(x, at[k])->lo < 0 || ix_get(x, at[k])->hi >= extent)
			guard[n_guard++] = guard_of_tiles(x, at[k], extent);
	}
	s.at = ixv_make(x, b->n_iter, at);
	tir_guards(out, &s, n_guard, guard);
	tir_add(out, s);
	while (n_open-- > 0)
		tir_close(out);
}

/* All else is read by each iteration, so that nothing is made but what is. */
static bool
takes_rows(const struct moving *t)
{
	const ix_id n = ix_add(t->p->tx, t->r.hi[t->row], ix_mulc(t->p->tx, t->r.lo[t->row], -1));

	for (int d = 0; d < t->p->buf[t->buf].rank; d++)
		if (d != t->row && !covers(t, d))
			return refuse(
			    t->e, t->s, "region", "parts of rows are read, and the nest makes whole ones");
	return ix_get(t->p->tx, n)->hi + 1 < t->p->buf[t->buf].dim[t->row] ||
	    refuse(t->e, t->s, "region", "all rows are read");
}

/* The root's body, for rows that are read: in a border an if asks once for each of them. */
static void
add_rows(const struct moving *t, struct tir *out)
{
	struct tx *x = t->p->tx;
	const struct st *root = &t->p->st[t->root];
	const ix_id lo = t->r.lo[t->row];
	const int64_t n = ix_get(x, ix_add(x, t->r.hi[t->row], ix_mulc(x, lo, -1)))->hi + 1;
	struct tir_guard inside = {lo, 0, t->p->buf[t->buf].dim[t->row]};
	struct st test = {.op = ST_if};
	struct copy c = copy_begin(t->p, out);
	uint32_t n_open = 0;

	if (!t->is_result)
		tir_add(out, (struct st){.op = ST_alloc, .ref = t->buf});
	if (n > 1) {
		inside.i = ix_add(
		    x, lo, ix_axis(x, tir_for(out, root->name, ix_const(x, 0), ix_const(x, n), BIND_serial)));
		n_open++;
	}
	if (ix_get(x, inside.i)->lo < inside.lo || ix_get(x, inside.i)->hi >= inside.hi) {
		tir_guards(out, &test, 1, &inside);
		tir_add(out, test);
		n_open++;
	}
	c.to[root->axis] = inside.i;
	copy_range(&c, t->root + 1, root->end);
	copy_end(&c);
	while (n_open-- > 0)
		tir_close(out);
}

static bool
move_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct moving *t = self;

	if (i == t->root || (p->st[i].op == ST_alloc && p->st[i].ref == t->buf))
		return true; /* goes */
	if (i != t->loop)
		return false;
	tir_add(out, p->st[i]);
	(t->holds_others ? add_rows : add_nest)(t, out);
	for (st_id k = i + 1; k < p->st[i].end; k = p->st[k].end)
		tir_copy(out, p, k, NULL);
	tir_close(out);
	return true;
}

bool
step_compute_at(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct moving t = {.p = p, .s = s, .e = e};

	if (!find_blk(p, s, 0, &t.blk, e) || !find_loop(p, s, 1, &t.loop, e))
		return false;
	t.buf = p->blk[t.blk].out[0];
	t.is_result = p->buf[t.buf].role == BUF_RESULT;
	t.holds_others = blk_reads_local(p, &p->blk[t.blk]);
	if (!block_moves(&t) || !find_nest(&t) || !loop_takes(&t))
		return false;
	gather_all(&t);
	if (!t.r.known)
		return refuse(e, s, "readers", "nothing inside of the loop reads it");
	if (is_early(&t))
		return refuse(e, s, "order", "which places are read is made inside of the loop");
	if ((t.is_result && !makes_whole(&t)) || (t.holds_others && !takes_rows(&t)))
		return false;
	tir_rewrite(out, p, move_here, &t);
	if (!t.is_result)
		out->buf[t.buf].scope = SCOPE_local;
	return true;
}
