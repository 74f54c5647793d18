/* kernels/schedule/compute_at.c: compute_at BLOCK LOOP: the block's nest stands at the begin of the loop's
 * body, over what is read below, and its buffer is each iteration's own.  The region read is an interval a
 * dimension: all loops below run through, outer ones stay in its bounds. */
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
	st_id from, root; /* its one instance, and the outermost loop around it */
	st_id loop;
	st_id reader; /* while reads are gathered */
	struct region r;
	struct err *e;
};

/* ---- the region ------------------------------------------------------------------------------------ */
static void
gather(void *self, const struct ex *read)
{
	struct moving *t = self;
	struct tx *x = t->p->tx;
	const struct st *s = &t->p->st[t->reader];
	const struct tir_block *b = &t->p->blk[s->ref];
	struct ixv at = ixv_get(x, read->at), bound = ixv_get(x, s->at);
	uint32_t n = tx_n_axes(x);
	ix_id *to = NEW_ARRAY(t->p->arena, ix_id, n);
	struct tx_subst sub = {.to = to, .n = n};
	bool exact;

	if (read->tensor != t->buf)
		return;
	memset(to, 0xff, n * sizeof(*to));
	for (uint32_t k = 0; k < b->n_iter; k++)
		to[t->p->iter[b->iter0 + k].id] = bound.i[k];
	for (uint32_t d = 0; d < at.n; d++) {
		ix_id i = ix_subst(x, &sub, at.i[d]), lo, hi;

		tir_region(t->p, t->loop, t->reader, i, &lo, &hi, &exact);
		t->r.lo[d] = t->r.known ? ix_outer(x, t->r.lo[d], lo, false) : lo;
		t->r.hi[d] = t->r.known ? ix_outer(x, t->r.hi[d], hi, true) : hi;
	}
	t->r.known = true;
}

/* ex_reads hands out pointers into the pool, which gather grows: reads are listed first. */
struct listed {
	struct arena *a;
	struct ex *e;
	uint32_t n, cap;
};

static void
list_read(void *self, const struct ex *read)
{
	struct listed *l = self;

	GROW(l->a, l->e, l->n, l->cap);
	l->e[l->n++] = *read;
}

static void
gather_all(struct moving *t)
{
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++) {
		struct listed l = {.a = t->p->arena};

		if (t->p->st[i].op != ST_block)
			continue;
		t->reader = i;
		blk_reads(t->p, &t->p->blk[t->p->st[i].ref], list_read, &l);
		for (uint32_t k = 0; k < l.n; k++)
			gather(t, &l.e[k]);
	}
}

/* ---- legality ------------------------------------------------------------------------------------------ */
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
	t->root = tir_path(t->p, t->from, path) ? path[0] : t->from;
	for (st_id i = t->root; i < t->p->st[t->root].end; i++)
		if ((t->p->st[i].op != ST_for && i != t->from) ||
		    (t->p->st[i].op == ST_for && t->p->st[i].end != t->p->st[t->root].end))
			return refuse(t->e, t->s, "nest", "its loops are not its own");
	if (t->loop >= t->root && t->loop < t->p->st[t->root].end)
		return refuse(t->e, t->s, "loop", "the loop is around the block already");
	return true;
}

static bool
block_moves(const struct moving *t)
{
	const struct tir_block *b = &t->p->blk[t->blk];

	if (b->n_out != 1 || t->p->buf[t->buf].role != BUF_TEMP)
		return refuse(t->e, t->s, "result", "the block makes a result of the kernel, or two");
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
/* Loops over the region, and an instance that guards what leaves the buffer or hangs on the outer loops. */
static void
add_nest(const struct moving *t, struct tir *out)
{
	const struct tir_block *b = &t->p->blk[t->blk];
	struct tx *x = t->p->tx;
	struct ixv place = ixv_get(x, b->at[0]);
	struct tir_guard guard[2 * MAX_RANK];
	struct st s = {.op = ST_block, .ref = t->blk};
	ix_id at[IXV_MAX], width;
	uint32_t n_open = 0, n_guard = 0;

	tir_add(out, (struct st){.op = ST_alloc, .ref = t->buf});
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &t->p->iter[b->iter0 + k];
		int64_t extent = tx_axis_get(x, it->id)->hi + 1, n = extent;
		ix_id lo = ix_const(x, 0), hi = ix_const(x, extent - 1);
		axis_id a;

		for (uint32_t d = 0; d < place.n; d++)
			if (ix_is_axis(x, place.i[d], &a) && a == it->id) {
				lo = t->r.lo[d];
				hi = t->r.hi[d];
			}
		width = ix_add(x, hi, ix_mulc(x, lo, -1));
		n = ix_get(x, width)->hi + 1;
		if (n >= extent) { /* all of it, from the begin */
			n = extent;
			lo = ix_const(x, 0);
			width = ix_const(x, extent - 1);
		}
		at[k] = lo;
		if (n > 1) {
			axis_id y = tir_for(out, arena_printf(t->p->arena, "%s.%s", b->name, it->name),
			    ix_const(x, 0), ix_const(x, n), BIND_serial);

			at[k] = ix_add(x, lo, ix_axis(x, y));
			n_open++;
		}
		if (ix_get(x, at[k])->lo < 0 || ix_get(x, at[k])->hi >= extent)
			guard[n_guard++] = (struct tir_guard){at[k], 0, extent};
	}
	s.at = ixv_make(x, b->n_iter, at);
	tir_guards(out, &s, n_guard, guard);
	tir_add(out, s);
	while (n_open-- > 0)
		tir_close(out);
}

static bool
move_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct moving *t = self;

	if (i == t->root)
		return true;
	if (i != t->loop)
		return false;
	tir_add(out, p->st[i]);
	add_nest(t, out);
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
	if (!block_moves(&t) || !find_nest(&t) || !loop_takes(&t))
		return false;
	gather_all(&t);
	if (!t.r.known)
		return refuse(e, s, "readers", "nothing inside of the loop reads it");
	tir_rewrite(out, p, move_here, &t);
	out->buf[t.buf].scope = SCOPE_local;
	return true;
}
