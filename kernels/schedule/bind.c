/* kernels/schedule/bind.c: bind LOOP HOW.  A loop whose iterations may run at the same time stores in each
 * what no other touches: by the place of what is stored, or because the buffer is its own. */
#include "../tir/tiles.h"
#include "step_int.h"

enum { BIND_MOST = 64 }; /* lanes of a vector, copies of an unrolled body */

struct bind {
	const struct tir *p;
	const struct step *s;
	st_id loop;
	enum tir_bind how;
	struct err *e;
};

/* Is the buffer allocated in the loop's body?  Then each iteration has one. */
static bool
is_own(const struct bind *t, buf_id b)
{
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++)
		if (t->p->st[i].op == ST_alloc && t->p->st[i].ref == b)
			return true;
	return false;
}

static bool
has_index(const struct ixv *at, ix_id i)
{
	for (uint32_t d = 0; d < at->n; d++)
		if (at->i[d] == i)
			return true;
	return false;
}

/* By an index of its own, or by two: of a panel, and in it. */
static bool
tells_apart(const struct tir *p, const struct tir_buf *buf, const struct ixv *at, ix_id i)
{
	bool is_told = has_index(at, i);

	for (uint32_t d = 0; d < at->n && !is_told; d++)
		is_told =
		    at->i[d] == ix_mod(p->tx, i, buf->dim[d]) && has_index(at, ix_div(p->tx, i, buf->dim[d]));
	return is_told;
}

/* Different points of the block are different places: each iterator over points can be told from these. */
static bool
is_injective(const struct tir *p, const struct tir_block *b, uint32_t o)
{
	struct ixv at = ixv_get(p->tx, b->at[o]);

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (p->iter[b->iter0 + k].kind == ITER_SPACE &&
		    !tells_apart(p, &p->buf[b->out[o]], &at, ix_axis(p->tx, p->iter[b->iter0 + k].id)))
			return false;
	return true;
}

/* Is a buffer that the instance stores read by another block inside of the loop? */
static bool
is_passed_on(const struct bind *t, st_id instance, buf_id buf)
{
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++)
		if (t->p->st[i].op == ST_block && t->p->st[i].ref != t->p->st[instance].ref &&
		    (blk_reads_buf(t->p, &t->p->blk[t->p->st[i].ref], buf) ||
			blk_stores_buf(&t->p->blk[t->p->st[i].ref], buf)))
			return true;
	return false;
}

/* What an iteration stores and reads of a buffer: an interval of some dimensions in a row, as digits of one
 * number; the same for all that do. */
struct slice {
	const struct bind *t;
	buf_id buf;
	uint32_t first, last;
	bool known, same;
	ix_id lo, hi;
};

static void
add_to_slice(struct slice *l, st_id instance, ixv_id where)
{
	struct tx *x = l->t->p->tx;
	const struct ixv at = ixv_get(x, where);
	ix_id number = ix_const(x, 0), lo, hi;

	for (uint32_t d = l->first; d <= l->last; d++)
		number = ix_add(x, ix_mulc(x, number, l->t->p->buf[l->buf].dim[d]), at.i[d]);
	instance_region(l->t->p, l->t->loop, instance, number, &lo, &hi);
	l->same = !l->known || (l->same && l->lo == lo && l->hi == hi);
	l->lo = lo;
	l->hi = hi;
	l->known = true;
}

static bool
is_slice(struct slice *l)
{
	const struct tir *p = l->t->p;
	int64_t coef, width;

	for (st_id i = l->t->loop + 1; i < p->st[l->t->loop].end; i++) {
		const struct tir_block *b = &p->blk[p->st[i].ref];
		ixv_id *at;
		uint32_t n;

		if (p->st[i].op != ST_block)
			continue;
		for (uint32_t o = 0; o < b->n_out; o++)
			if (b->out[o] == l->buf)
				add_to_slice(l, i, b->at[o]);
		at = blk_places_read(p, b, l->buf, &n);
		for (uint32_t k = 0; k < n; k++)
			add_to_slice(l, i, at[k]);
	}
	return l->same && ix_coef(p->tx, l->lo, p->st[l->t->loop].axis, &coef) &&
	    ix_is_const(p->tx, ix_add(p->tx, l->hi, ix_mulc(p->tx, l->lo, -1)), &width) && coef > width;
}

/* Does each iteration store and read a part of the buffer that no other touches? */
static bool
is_sliced(const struct bind *t, buf_id buf)
{
	const uint32_t n = (uint32_t)t->p->buf[buf].rank;

	for (uint32_t first = 0; first < n; first++)
		for (uint32_t last = first; last < n; last++)
			if (is_slice(&(struct slice){.t = t, .buf = buf, .first = first, .last = last}))
				return true;
	return false;
}

/* Is the buffer a thread's or block's own, stored by what stands outside of loops over threads alone?  Then
 * each thread has it. */
static bool
is_of_block(const struct tir *p, buf_id buf)
{
	st_id path[TIR_DEPTH];

	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_block || !blk_stores_buf(&p->blk[p->st[i].ref], buf))
			continue;
		for (uint32_t k = tir_path(p, i, path); k-- > 0;)
			if (p->st[path[k]].op == ST_for && is_of_threads(&p->st[path[k]]) &&
			    p->st[path[k]].bind != BIND_block)
				return false;
	}
	return p->buf[buf].scope <= SCOPE_local;
}

static bool
is_of_team(const struct bind *t)
{
	return t->how == BIND_lane || t->how == BIND_warp;
}

struct foreign {
	const struct bind *t;
	bool found;
};

static void
look_foreign(void *self, const struct ex *read)
{
	struct foreign *f = self;

	f->found |= f->t->p->buf[read->tensor].scope <= SCOPE_local && !is_own(f->t, read->tensor) &&
	    !(is_of_team(f->t) && is_of_block(f->t->p, read->tensor));
}

/* Would a thread of its own read what another thread keeps to itself? */
static bool
reads_foreign(const struct bind *t, const struct tir_block *b)
{
	struct foreign f = {.t = t};

	blk_reads(t->p, b, look_foreign, &f);
	for (uint32_t o = 0; o < b->n_out; o++)
		f.found |= t->p->buf[b->out[o]].scope <= SCOPE_local && !is_own(t, b->out[o]);
	return f.found;
}

static void
look_min(void *self, ix_id i)
{
	struct foreign *f = self;
	enum ix_kind k = ix_get(f->t->p->tx, i)->kind;

	f->found |= k == IX_MIN || k == IX_MAX;
}

/* Do tiles of the result overlap?  A GPU's threads do not wait for each other between two of them. */
static bool
has_overlaps(const struct bind *t, const struct st *instance)
{
	struct ixv at = ixv_get(t->p->tx, instance->at);
	struct foreign f = {.t = t};

	for (uint32_t k = 0; k < at.n; k++)
		ix_indices(t->p->tx, at.i[k], look_min, &f);
	return f.found;
}

static bool
instance_holds(const struct bind *t, st_id i)
{
	const struct st *s = &t->p->st[i];
	const struct tir_block *b = &t->p->blk[s->ref];
	axis_id a = t->p->st[t->loop].axis;

	if (binds_kind(t->p, s, a, ITER_REDUCE) || binds_kind(t->p, s, a, ITER_CARRIED))
		return refuse(t->e, t->s, "iterator", "a reduction or a carried order runs over the loop");
	if (is_of_team(t) && has_overlaps(t, s))
		return refuse(t->e, t->s, "disjoint", "two threads make one point, in tiles that overlap");
	if (t->how != BIND_vector && reads_foreign(t, b))
		return refuse(t->e, t->s, "scope", "a buffer that another thread keeps to itself");
	for (uint32_t o = 0; o < b->n_out; o++) {
		if (is_own(t, b->out[o]))
			continue;
		if (is_passed_on(t, i, b->out[o]) && !is_sliced(t, b->out[o]))
			return refuse(
			    t->e, t->s, "buffer", "iterations share a buffer that is stored and read in it");
		if (!is_injective(t->p, b, o) || !loop_is_disjoint(t->p, t->loop, i))
			return refuse(t->e, t->s, "disjoint", "two iterations may store at one place");
	}
	return true;
}

bool
loop_is_free(const struct tir *p, st_id loop, enum tir_bind bind, const struct step *s, struct err *e)
{
	struct bind t = {.p = p, .s = s, .loop = loop, .how = bind, .e = e};
	int64_t from, extent;

	if (bind == BIND_serial || bind == BIND_unroll || bind >= BIND_pipeline ||
	    (bind <= BIND_block && const_extent(p, &p->st[loop], &from, &extent) && extent == 1))
		return true;
	for (st_id i = loop + 1; i < p->st[loop].end; i++)
		if (p->st[i].op == ST_block && !instance_holds(&t, i))
			return false;
	return true;
}

/* May a loop bound `outer` stand around one bound `inner`? */
bool
binds_nest(enum tir_bind outer, enum tir_bind inner)
{
	bool gpu_outer = outer >= BIND_block && outer <= BIND_lane,
	     gpu_inner = inner >= BIND_block && inner <= BIND_lane;

	if (outer == BIND_call)
		return inner == BIND_serial;
	if (outer == BIND_vector)
		return inner == BIND_serial || inner == BIND_unroll;
	if (gpu_outer && gpu_inner) /* block, warp, lane */
		return outer < inner;
	if (outer == BIND_parallel)
		return inner != BIND_parallel && !gpu_inner;
	return !gpu_outer || inner != BIND_parallel;
}

static bool
is_nested(const struct bind *t)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(t->p, t->loop, path);

	for (uint32_t k = 0; k < n; k++)
		if (t->p->st[path[k]].op == ST_for && !binds_nest(t->p->st[path[k]].bind, t->how))
			return true;
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++)
		if (t->p->st[i].op == ST_for && !binds_nest(t->how, t->p->st[i].bind))
			return true;
	return false;
}

/* A GPU's axis has one extent in a kernel. */
static bool
extents_agree(const struct bind *t)
{
	st_id path[TIR_DEPTH], root = tir_path(t->p, t->loop, path) ? path[0] : t->loop;
	const struct st *l = &t->p->st[t->loop];

	for (st_id i = root; i < t->p->st[root].end; i++) {
		const struct st *s = &t->p->st[i];

		if (i != t->loop && s->op == ST_for && s->bind == t->how &&
		    (s->from != l->from || s->to != l->to))
			return false;
	}
	return true;
}

bool
step_bind(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct bind t = {.p = p, .s = s, .how = s->bind, .e = e};
	int64_t from, extent;

	if (!find_loop(p, s, 0, &t.loop, e))
		return false;
	if (s->bind >= BIND_pipeline)
		return refuse(
		    e, s, "binding", "a pipeline and an instruction are made by primitives of their own");
	if ((s->bind == BIND_vector || s->bind == BIND_unroll) &&
	    (!const_extent(p, &p->st[t.loop], &from, &extent) || extent > BIND_MOST))
		return refuse(e, s, "extent", "not constant, or more than 64");
	if (s->bind >= BIND_block && s->bind <= BIND_lane && !extents_agree(&t))
		return refuse(e, s, "extent", "another loop over that axis of a GPU has another");
	if (is_nested(&t))
		return refuse(e, s, "nested", "among loops that are bound so that it cannot be");
	if (!loop_is_free(p, t.loop, s->bind, s, e))
		return false;
	tir_rewrite(out, p, NULL, NULL);
	out->st[t.loop].bind = s->bind;
	for (st_id i = t.loop + 1; i < p->st[t.loop].end; i++) /* what was of a block is now of a thread */
		if (p->st[i].op == ST_for && is_of_team(&(struct bind){.how = p->st[i].bind}) &&
		    !loop_is_free(out, i, p->st[i].bind, s, e))
			return false;
	return true;
}
