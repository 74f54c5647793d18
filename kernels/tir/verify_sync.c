/* kernels/tir/verify_sync.c: barriers.  Between a store into a shared buffer and a read of it, and between
 * a read and the next store, the threads of a block wait for each other, but where each touches its own;
 * or another version of the buffer (a pipeline's); loops are gone through twice for what one iteration leaves
 * to the next.  A barrier stands where all threads come or none. */
#include "meet.h"

#include <stdlib.h>
#include <string.h>

static bool
has_threads(const struct tir *p, st_id root)
{
	for (st_id i = root; i < p->st[root].end; i++)
		if (st_is_thread(&p->st[i]))
			return true;
	return false;
}

/* A statement's read of a buffer in which threads may meet, or its store. */
struct meeting {
	uint32_t slot;
	bool stores;
	struct met met;
};
struct sync {
	const struct tir *p;
	struct met *dirty, *read; /* of shared buffers: by whom, and where, since the last barrier */
	struct meeting *meeting;  /* of the kernel's statements, in their order */
	uint32_t n_meeting, n_touch;
	uint32_t *first;  /* of each statement: its first meeting; the next one's first ends them */
	uint8_t *barrier; /* of each statement: one is to stand before it */
	uint8_t *use;     /* of each buffer: what the kernel does to it, */
	uint32_t *slot;   /* and where in `dirty` and `read` it stands */
	uint32_t n_slot;
	struct meet_place place; /* while meetings are noted */
	bool again;              /* in a second turn: what one loop leaves to its own next one is known */
	bool in_turn;            /* where something is wrong: a second turn, */
	st_id at;                /* there, */
	const char *wrong;       /* and what: NULL: nothing */
};

/* What hangs on a loop is another part in its next turn, and behind it. */
static void
forget(struct sync *s, axis_id a)
{
	for (uint32_t k = 0; k < 2 * s->n_slot; k++) {
		struct met *m = k < s->n_slot ? &s->dirty[k] : &s->read[k - s->n_slot];

		if (m->owner.kind != NOBODY && m->part.number != IX_NONE &&
		    ix_has(s->p->tx, m->part.number, a))
			m->part.number = IX_NONE;
	}
}

static void
forget_all(struct sync *s)
{
	memset(s->dirty, 0, s->n_slot * sizeof(*s->dirty)); /* NOBODY */
	memset(s->read, 0, s->n_slot * sizeof(*s->read));
}

/* ---- what threads may meet in --------------------------------------------------------------------------
 */
enum { IS_READ = 1, IS_STORED = 2 };

static void
note_use(void *self, const struct touch *t)
{
	struct sync *s = self;

	if (s->p->buf[t->buf].scope < SCOPE_shared)
		return;
	s->use[t->buf] |= t->stores ? IS_STORED : IS_READ;
	s->n_touch++;
}

/* Threads meet in no buffer that the kernel only reads, or only stores. */
static void
note_meeting(void *self, const struct touch *t)
{
	struct sync *s = self;

	if (s->use[t->buf] != (IS_READ | IS_STORED))
		return;
	struct meeting *m = &s->meeting[s->n_meeting++];

	m->slot = s->slot[t->buf];
	m->stores = t->stores;
	meet_note(&s->place, t, &m->met);
}

static void
enter(struct meet_place *c, st_id i)
{
	c->thread[c->n_threads++] = c->p->st[i].axis;
	c->lane = i;
}

static void
note_body(struct sync *s, st_id i, st_id end)
{
	for (st_id k = i; k < end; k = s->p->st[k].end) {
		const struct st *t = &s->p->st[k];
		const st_id lane = s->place.lane;
		const uint32_t n_threads = s->place.n_threads;

		s->place.now = k;
		s->first[k] = s->n_meeting;
		tir_touches(s->p, k, note_meeting, s);
		if (st_is_thread(t))
			enter(&s->place, k);
		if (st_info[t->op].body)
			note_body(s, k + 1, t->end);
		s->place.lane = lane;
		s->place.n_threads = n_threads;
	}
}

/* How many buffers threads may meet in. */
static uint32_t
give_slots(struct sync *s)
{
	uint32_t n = 0;

	for (buf_id b = 0; b < s->p->n_buf; b++)
		if (s->use[b] == (IS_READ | IS_STORED))
			s->slot[b] = n++;
	s->n_slot = MAX_OF(s->n_slot, n);
	return n;
}

/* Of the kernel that begins there. */
static void
note_meetings(struct sync *s, st_id root)
{
	const st_id end = s->p->st[root].end;

	s->place.root = root;
	s->n_touch = 0;
	memset(s->use, 0, s->p->n_buf);
	for (st_id k = root; k < end; k++)
		s->first[k] = s->n_meeting;
	if (!has_threads(s->p, root))
		return;
	for (st_id k = root; k < end; k++)
		tir_touches(s->p, k, note_use, s);
	if (give_slots(s) == 0)
		return;
	s->meeting = heap_resize(s->meeting, (s->n_meeting + s->n_touch) * sizeof(*s->meeting));
	note_body(s, root, end);
}

static void
sync_begin(struct sync *s, const struct tir *p)
{
	const size_t n_axes = tx_n_axes(p->tx), n_st = (size_t)p->n_st + 1, n_buf = (size_t)p->n_buf + 1;

	*s = (struct sync){.p = p, .place = {.p = p}};
	s->dirty = heap_alloc(2 * n_buf * sizeof(*s->dirty));
	s->read = s->dirty + p->n_buf;
	s->first = heap_alloc(n_st * sizeof(*s->first));
	s->barrier = heap_alloc(n_st);
	s->use = heap_alloc(n_buf);
	s->slot = heap_alloc(n_buf * sizeof(*s->slot));
	s->place.to = heap_alloc((n_axes + 1) * sizeof(*s->place.to));
	memset(s->place.to, 0xff, (n_axes + 1) * sizeof(*s->place.to)); /* IX_NONE */
	for (st_id i = 0; i < p->n_st; i = p->st[i].end)
		note_meetings(s, i);
	s->first[p->n_st] = s->n_meeting;
}

static void
sync_end(struct sync *s)
{
	free(s->meeting);
	free(s->place.to);
	free(s->slot);
	free(s->use);
	free(s->barrier);
	free(s->first);
	free(s->dirty);
}

/* Does the statement touch what another thread has stored, or read? */
static bool
meets(const struct sync *s, st_id i)
{
	for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
		const struct meeting *m = &s->meeting[k];

		if (!are_apart(s->p, &(m->stores ? s->read : s->dirty)[m->slot], &m->met))
			return true;
	}
	return false;
}

static void
mark(struct sync *s, st_id i)
{
	for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
		const struct meeting *m = &s->meeting[k];

		meet_again(&(m->stores ? s->dirty : s->read)[m->slot], &m->met);
	}
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
			if (st_is_thread(&p->st[path[t]]) && hangs_on(p, s, p->st[path[t]].axis))
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

		if (t->op == ST_sync || s->barrier[k]) {
			if (!is_uniform(s->p, k))
				return fails(s, k, "a barrier that not all threads come to");
			forget_all(s);
		}
		if (meets(s, k))
			return fails(s, k, "no barrier between threads that share a buffer");
		mark(s, k);
		const bool again = s->again, twice = t->op == ST_for && !st_is_thread(t) && !again;

		if (st_info[t->op].body && !sync_body(s, k + 1, t->end))
			return false;
		s->again = true;
		if (t->op == ST_for)
			forget(s, t->axis);
		if (twice && !sync_body(s, k + 1, t->end))
			return false;
		if (t->op == ST_for)
			forget(s, t->axis);
		s->again = again;
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

/* Sets what is wrong first, and where. */
static void
look(struct sync *s)
{
	const struct tir *p = s->p;

	s->wrong = NULL;
	s->again = false;
	for (st_id i = 0; i < p->n_st && !s->wrong; i = p->st[i].end) { /* kernels wait for each other */
		forget_all(s);
		(void)sync_body(s, i, p->st[i].end);
	}
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
	sync_begin(&s, p);
	look(&s);
	sync_end(&s);
	return !s.wrong || broken(e, "sync", p, s.at, s.wrong);
}

/* ---- putting barriers ------------------------------------------------------------------------------------
 */
static bool
drop(void *self, struct tir *out, const struct tir *p, st_id i)
{
	(void)self;
	(void)out;
	return p->st[i].op == ST_sync && p->st[i].ref == SCOPE_shared;
}

void
tir_unsync(const struct tir *p, struct tir *out)
{
	tir_rewrite(out, p, drop, NULL);
}

static bool
put(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct sync *s = self;

	(void)p;
	if (s->barrier[i])
		tir_add(out, (struct st){.op = ST_sync, .ref = SCOPE_shared});
	return false;
}

/* A barrier before the statement where something is wrong, or one around it, the outermost that does: what is
 * wrong then comes later.  false: none does. */
static bool
place_one(struct sync *s)
{
	const st_id at = s->at;
	const bool in_turn = s->in_turn;
	st_id path[TIR_DEPTH + 1];
	uint32_t n = tir_path(s->p, at, path);

	path[n++] = at;
	for (uint32_t k = 1; k < n; k++) {
		if (!is_uniform(s->p, path[k]))
			return false;
		if (s->barrier[path[k]])
			continue;
		s->barrier[path[k]] = 1;
		look(s);
		if (!s->wrong || s->at != at || s->in_turn != in_turn)
			return true;
		s->barrier[path[k]] = 0;
	}
	return false;
}

enum { MOST_BARRIERS = 256 };

bool
tir_sync(const struct tir *p, struct tir *out)
{
	struct tir bare;
	struct sync s;

	tir_unsync(p, &bare);
	sync_begin(&s, &bare);
	look(&s);
	for (int n = 0; s.wrong && n < MOST_BARRIERS && place_one(&s); n++)
		;
	if (!s.wrong)
		tir_rewrite(out, &bare, put, &s);
	sync_end(&s);
	return !s.wrong;
}
