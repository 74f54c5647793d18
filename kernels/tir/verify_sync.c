/* kernels/tir/verify_sync.c: barriers.  Between a store into a shared buffer and a read of it, and between
 * a read and the next store, the threads of a block wait for each other, but where each touches its own;
 * loops are gone through twice for what one iteration leaves to the next.  A barrier stands where all threads
 * come or none. */
#include "verify_int.h"

#include <stdlib.h>
#include <string.h>

static bool
is_thread(const struct st *s)
{
	return s->op == ST_for && (s->bind == BIND_lane || s->bind == BIND_warp);
}

/* Whose the elements are that are touched: of any threads, of what a block does outside of them, or each of
 * the thread whose number its index in dimension d has, modulo how many there are (OF_THREAD + d). */
enum owner { NOBODY, OF_ANY, OF_BLOCK, OF_THREAD };

struct sync {
	const struct tir *p;
	uint8_t *dirty, *read; /* of shared buffers: by whom, since the last barrier */
	uint32_t n_threads;    /* loops of threads around */
	st_id lane;            /* the innermost */
	bool again;            /* in a second turn: what one loop leaves to its own next one is known */
	bool meets;            /* the statement touches what another thread has stored, or reads */
	bool in_turn;          /* where something is wrong: a second turn, */
	st_id now, at;         /* the statement now, and there, */
	const char *wrong;     /* and what: NULL: nothing */
};

/* The place over loops: an instance's is over its block's iterators. */
static ixv_id
place_of(const struct sync *s, ixv_id at)
{
	const struct st *t = &s->p->st[s->now];
	const struct tir_block *b = t->op == ST_block ? &s->p->blk[t->ref] : NULL;
	struct tx_subst sub = {.n = tx_n_axes(s->p->tx)};
	ix_id *to;

	if (!b)
		return at;
	sub.to = to = NEW_ARRAY(s->p->arena, ix_id, sub.n + 1);
	memset(to, 0xff, (sub.n + 1) * sizeof(*to));
	for (uint32_t k = 0; k < b->n_iter; k++)
		to[s->p->iter[b->iter0 + k].id] = ixv_get(s->p->tx, t->at).i[k];
	return ixv_subst(s->p->tx, &sub, at);
}

static uint8_t
owner_of(const struct sync *s, ixv_id at)
{
	const struct st *lane = &s->p->st[s->lane];
	int64_t from, to;

	if (s->n_threads == 0)
		return OF_BLOCK;
	if (s->n_threads > 1 || !ix_is_const(s->p->tx, lane->from, &from) || from != 0 ||
	    !ix_is_const(s->p->tx, lane->to, &to))
		return OF_ANY;
	struct ixv v = ixv_get(s->p->tx, place_of(s, at));

	for (uint32_t d = 0; d < v.n; d++)
		if (ix_mod(s->p->tx, v.i[d], to) == ix_axis(s->p->tx, lane->axis))
			return (uint8_t)(OF_THREAD + d);
	return OF_ANY;
}

static bool
are_apart(uint8_t before, uint8_t now)
{
	return before == NOBODY || (before == now && now != OF_ANY);
}

static void
touch_shared(void *self, const struct touch *t)
{
	struct sync *s = self;

	if (s->p->buf[t->buf].scope == SCOPE_shared)
		s->meets |= !are_apart((t->stores ? s->read : s->dirty)[t->buf], owner_of(s, t->at));
}

static void
mark_shared(void *self, const struct touch *t)
{
	struct sync *s = self;
	uint8_t *by = &(t->stores ? s->dirty : s->read)[t->buf];

	if (s->p->buf[t->buf].scope == SCOPE_shared)
		*by = are_apart(*by, owner_of(s, t->at)) ? owner_of(s, t->at) : OF_ANY;
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
fails(struct sync *s, st_id i, const char *what)
{
	s->at = i;
	s->in_turn = s->again;
	s->wrong = what;
	return false;
}

static bool
sync_body(struct sync *s, st_id i, st_id end)
{
	for (st_id k = i; k < end; k = s->p->st[k].end) {
		const struct st *t = &s->p->st[k];
		bool threads = is_thread(t);

		if (t->op == ST_sync) {
			if (!is_uniform(s->p, k))
				return fails(s, k, "a barrier that not all threads come to");
			memset(s->dirty, 0, s->p->n_buf);
			memset(s->read, 0, s->p->n_buf);
		}
		s->now = k;
		tir_touches(s->p, k, touch_shared, s);
		if (s->meets)
			return fails(s, k, "no barrier between threads that share a buffer");
		tir_touches(s->p, k, mark_shared, s);
		st_id lane = s->lane;

		s->n_threads += threads;
		s->lane = threads ? k : lane;
		bool again = s->again, twice = t->op == ST_for && !threads && !again;

		if (st_info[t->op].body && !sync_body(s, k + 1, t->end))
			return false;
		s->again = true;
		if (twice && !sync_body(s, k + 1, t->end))
			return false;
		s->again = again;
		s->n_threads -= threads;
		s->lane = lane;
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

static struct sync
look(const struct tir *p)
{
	struct sync s = {.p = p};

	s.dirty = heap_alloc((size_t)2 * p->n_buf + 1);
	s.read = s.dirty + p->n_buf;
	(void)sync_body(&s, 0, p->n_st);
	free(s.dirty);
	return s;
}

bool
verify_sync(const struct tir *p, struct err *e)
{
	bool ok = true;
	struct sync s;

	for (st_id i = 0; i < p->n_st && ok; i = p->st[i].end)
		ok = agree(p, i, e);
	if (!ok)
		return false;
	s = look(p);
	return !s.wrong || broken(e, "sync", p, s.at, s.wrong);
}

/* ---- putting barriers ------------------------------------------------------------------------------------
 */
struct putting {
	st_id at; /* before this statement; ST_NONE: none */
	bool drop;
};

static bool
put(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct putting *q = self;

	if (q->drop)
		return p->st[i].op == ST_sync && p->st[i].ref == SCOPE_shared;
	if (i == q->at)
		tir_add(out, (struct st){.op = ST_sync, .ref = SCOPE_shared});
	return false;
}

void
tir_unsync(const struct tir *p, struct tir *out)
{
	struct putting q = {.drop = true};

	tir_rewrite(out, p, put, &q);
}

/* A barrier before the statement where something is wrong, or one around it, the outermost that does: what is
 * wrong then comes later.  false: none does. */
static bool
put_one(const struct tir *p, const struct sync *was, struct tir *out)
{
	const st_id at = was->at;
	st_id path[TIR_DEPTH + 1];
	uint32_t n = tir_path(p, at, path);

	path[n++] = at;
	for (uint32_t k = 1; k < n; k++) {
		struct putting q = {.at = path[k]};
		struct sync s;

		if (!is_uniform(p, path[k]))
			return false;
		tir_rewrite(out, p, put, &q);
		s = look(out);
		if (!s.wrong || s.at != at + 1 || s.in_turn != was->in_turn)
			return true;
	}
	return false;
}

enum { MOST_BARRIERS = 256 };

bool
tir_sync(const struct tir *p, struct tir *out)
{
	struct tir was;

	tir_unsync(p, out);
	for (int n = 0; n < MOST_BARRIERS; n++) {
		struct sync s = look(out);

		if (!s.wrong)
			return true;
		was = *out;
		if (!put_one(&was, &s, out))
			return false;
	}
	return false;
}
