/* kernels/tir/verify_sync.c: barriers.  Between a store into a shared buffer and a read of it, and between
 * a read and the next store, the threads of a block wait for each other; loops are gone through twice for
 * what one iteration leaves to the next.  Of a buffer in versions (a pipeline's), two at a time may be
 * touched. A barrier stands where all threads come or none. */
#include "verify_int.h"

#include <stdlib.h>
#include <string.h>

static bool
is_thread(const struct st *s)
{
	return s->op == ST_for && (s->bind == BIND_lane || s->bind == BIND_warp);
}

/* Touched somewhere: what the first index was is not known any more. */
#define ANYWHERE (IX_NONE - 1)

struct sync {
	const struct tir *p;
	/* Shared buffers since the last barrier: the first index of where they were stored into, and read. */
	ix_id *dirty, *read;
	axis_id thread[TIR_DEPTH];
	uint32_t n_threads; /* loops of threads around */
	bool again;         /* in a second turn: what one loop leaves to its own next one is known */
	bool fault;
};

/* The first index, the same in all threads; ANYWHERE. */
static ix_id
version_of(const struct sync *s, ixv_id at)
{
	struct ixv v = ixv_get(s->p->tx, at);

	for (uint32_t k = 0; v.n && k < s->n_threads; k++)
		if (ix_has(s->p->tx, v.i[0], s->thread[k]))
			return ANYWHERE;
	return v.n ? v.i[0] : ANYWHERE;
}

/* Another index in each turn: by a constant that no remainder takes away. */
static bool
is_apart(const struct sync *s, ix_id a, ix_id b)
{
	struct tx *x = s->p->tx;
	int64_t by;

	if (a == ANYWHERE || b == ANYWHERE)
		return false;
	const struct ix m = *ix_get(x, a), n = *ix_get(x, b);

	if (m.kind == IX_MOD && n.kind == IX_MOD && m.c == n.c)
		return ix_is_const(x, ix_add(x, m.a, ix_mulc(x, n.a, -1)), &by) && by % m.c != 0;
	return ix_is_const(x, ix_add(x, a, ix_mulc(x, b, -1)), &by) && by != 0;
}

static void
touch_shared(void *self, const struct touch *t)
{
	struct sync *s = self;
	const ix_id met = (t->stores ? s->read : s->dirty)[t->buf];

	if (s->p->buf[t->buf].scope == SCOPE_shared && met != IX_NONE)
		s->fault |= !is_apart(s, met, version_of(s, t->at));
}

static void
mark_shared(void *self, const struct touch *t)
{
	struct sync *s = self;

	ix_id *met = &(t->stores ? s->dirty : s->read)[t->buf], now = version_of(s, t->at);

	if (s->p->buf[t->buf].scope == SCOPE_shared)
		*met = *met == IX_NONE || *met == now ? now : ANYWHERE;
}

/* What hangs on the loop is another place in the next turn, and behind it. */
static void
forget(struct sync *s, axis_id a)
{
	for (buf_id b = 0; b < 2 * s->p->n_buf; b++) /* both lists */
		if (s->dirty[b] < ANYWHERE && ix_has(s->p->tx, s->dirty[b], a))
			s->dirty[b] = ANYWHERE;
}

static void
begin_anew(struct sync *s)
{
	memset(s->dirty, 0xff, 2 * s->p->n_buf * sizeof(*s->dirty));
}

static bool
hangs_on(const struct tir *p, const struct st *s, axis_id a)
{
	bool hangs = s->op == ST_for && (ix_has(p->tx, s->from, a) || ix_has(p->tx, s->to, a));

	for (uint32_t k = 0; k < s->n_guard; k++)
		hangs |= ix_has(p->tx, p->guard[s->guard0 + k].i, a);
	return hangs;
}

/* Do all threads come to statement i, or none? */
static bool
is_uniform(const struct tir *p, st_id i)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, i, path);

	for (uint32_t k = 0; k < n; k++) {
		const struct st *s = &p->st[path[k]];

		if (s->op == ST_for && (s->bind == BIND_parallel || s->bind == BIND_vector))
			return false;
		for (uint32_t t = 0; t < k; t++)
			if (is_thread(&p->st[path[t]]) && hangs_on(p, s, p->st[path[t]].axis))
				return false;
	}
	return true;
}

static bool
sync_body(struct sync *s, st_id i, st_id end, struct err *e)
{
	for (st_id k = i; k < end; k = s->p->st[k].end) {
		const struct st *t = &s->p->st[k];
		bool threads = is_thread(t);

		if (t->op == ST_sync) {
			if (!is_uniform(s->p, k))
				return broken(e, "sync", s->p, k, "a barrier that not all threads come to");
			begin_anew(s);
		}
		if (s->n_threads)
			tir_touches(s->p, k, touch_shared, s);
		if (s->fault)
			return broken(e, "sync", s->p, k, "no barrier between threads that share a buffer");
		if (s->n_threads)
			tir_touches(s->p, k, mark_shared, s);
		s->thread[s->n_threads] = t->axis;
		s->n_threads += threads;
		/* (what is shared is of one iteration of a loop over blocks) */
		bool again = s->again, twice = t->op == ST_for && t->bind != BIND_block && !threads && !again;

		if (st_info[t->op].body && !sync_body(s, k + 1, t->end, e))
			return false;
		s->again = true;
		if (t->op == ST_for)
			forget(s, t->axis);
		if (twice && !sync_body(s, k + 1, t->end, e))
			return false;
		if (t->op == ST_for)
			forget(s, t->axis);
		s->again = again;
		s->n_threads -= threads;
	}
	return true;
}

/* The loops of a kernel that are bound to one of a GPU's axes run over the same values. */
static bool
agree(const struct tir *p, st_id i, struct err *e)
{
	for (int bind = BIND_block; bind <= BIND_lane; bind++) {
		const struct st *first = NULL;

		for (st_id k = i; k < p->st[i].end; k++) {
			const struct st *s = &p->st[k];

			if (s->op != ST_for || (int)s->bind != bind)
				continue;
			if (first && (s->from != first->from || s->to != first->to))
				return broken(
				    e, "extent", p, k, "two loops over one axis of a GPU differ in extent");
			first = s;
		}
	}
	return true;
}

bool
tir_synced(const struct tir *p, struct err *e)
{
	struct sync s = {.p = p};
	bool ok = true;

	for (st_id i = 0; i < p->n_st && ok; i = p->st[i].end)
		ok = agree(p, i, e);
	s.dirty = heap_alloc((2 * (size_t)p->n_buf + 1) * sizeof(*s.dirty));
	s.read = s.dirty + p->n_buf;
	begin_anew(&s);
	ok = ok && sync_body(&s, 0, p->n_st, e);
	free(s.dirty);
	return ok;
}
