/* kernels/tir/verify_sync.c: barriers.  Between a store into a shared buffer and a read of it, and between
 * a read and the next store, the threads of a block wait for each other, but where each touches its own;
 * or another version of the buffer (a pipeline's); loops are gone through twice for what one iteration leaves
 * to the next.  A barrier stands where all threads come or none. */
#include "tiles.h"
#include "verify_int.h"

#include <stdlib.h>
#include <string.h>

static bool
is_thread(const struct st *s)
{
	return s->op == ST_for && (s->bind == BIND_lane || s->bind == BIND_warp);
}

/* Whose the elements are that are touched: of any threads; of what a block does outside of them; each of the
 * thread whose number its index in dimension `dim`, in pieces of `size`, has behind `rest`, modulo how many
 * there are; each of the thread whose number's digits its indices have, in tiles (struct tir_tiles). */
enum owner_kind { NOBODY, OF_ANY, OF_BLOCK, OF_THREAD, OF_TILES };
struct owner {
	enum owner_kind kind;
	enum tir_bind by; /* whose number: a warp's, or a lane's */
	uint32_t dim;
	int64_t size;
	ix_id rest;
	struct tir_tiles tiles;
};
static const struct owner of_any = {.kind = OF_ANY, .rest = IX_NONE},
			  of_block = {.kind = OF_BLOCK, .rest = IX_NONE};

/* Which part of a buffer: its first index is from lo to hi, and by * number + less than by; IX_NONE: any. */
struct part {
	int64_t lo, hi;
	ix_id number;
	int64_t by;
};
struct met {
	struct owner owner;
	struct part part;
};

struct sync {
	const struct tir *p;
	struct met *dirty, *read; /* of shared buffers: by whom, and where, since the last barrier */
	bool team;                /* in a kernel of threads */
	st_id root;               /* that kernel */
	axis_id thread[TIR_DEPTH];
	uint32_t n_threads; /* loops of threads around */
	st_id lane;         /* the innermost */
	bool again;         /* in a second turn: what one loop leaves to its own next one is known */
	bool meets;         /* the statement touches what another thread has stored, or reads */
	bool in_turn;       /* where something is wrong: a second turn, */
	st_id now, at;      /* the statement now, and there, */
	const char *wrong;  /* and what: NULL: nothing */
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

static bool
is_uniform_index(const struct sync *s, ix_id i)
{
	for (uint32_t k = 0; k < s->n_threads; k++)
		if (ix_has(s->p->tx, i, s->thread[k]))
			return false;
	return true;
}

/* Is it the same all the time that the block runs? */
static bool
is_of_block(const struct sync *s, ix_id i)
{
	for (st_id k = s->root; k < s->p->st[s->root].end; k++) {
		const struct st *t = &s->p->st[k];

		if ((t->op == ST_index || (t->op == ST_for && t->bind != BIND_block)) &&
		    ix_has(s->p->tx, i, t->axis))
			return false;
	}
	return true;
}

/* Is index i, in pieces of so many, the thread's number and what hangs on the block alone? */
static bool
is_numbered(const struct sync *s, ix_id i, int64_t threads, struct owner *out)
{
	const axis_id lane = s->p->st[s->lane].axis;
	struct tx *x = s->p->tx;
	int64_t one;

	if (!ix_coef(x, i, lane, &out->size) || out->size < 1)
		return false;
	const ix_id piece = ix_div(x, i, out->size);

	out->kind = OF_THREAD;
	out->rest = ix_mod(x, ix_add(x, piece, ix_mulc(x, ix_axis(x, lane), -1)), threads);
	return ix_coef(x, piece, lane, &one) && one == 1 && is_of_block(s, out->rest);
}

/* By the number of the element in its buffer, or else by an index of its own. */
static struct owner
owner_of(const struct sync *s, const struct touch *t)
{
	const struct st *lane = &s->p->st[s->lane];
	struct tx *x = s->p->tx;
	ix_id flat = ix_const(x, 0);
	int64_t from, to;

	if (s->n_threads == 0)
		return of_block;
	if (s->n_threads > 1 || !ix_is_const(x, lane->from, &from) || from != 0 ||
	    !ix_is_const(x, lane->to, &to))
		return of_any;
	const ixv_id place = place_of(s, t->at);
	struct ixv v = ixv_get(x, place);

	for (uint32_t d = 0; d < v.n; d++)
		flat = ix_add(x, ix_mulc(x, flat, s->p->buf[t->buf].dim[d]), v.i[d]);
	for (uint32_t d = 0; d <= v.n; d++) {
		struct owner o = {.by = lane->bind, .dim = d};

		if (is_numbered(s, d ? v.i[d - 1] : flat, to, &o))
			return o;
	}
	struct owner o = {.kind = OF_TILES, .by = lane->bind};

	if (!tir_tiles_at(x, place, lane->axis, &o.tiles))
		return of_any;
	for (uint32_t k = 0; k < o.tiles.n; k++)
		if (!is_of_block(s, o.tiles.digit[k].first))
			return of_any;
	return o;
}

static bool
are_alike(struct owner a, struct owner b)
{
	return a.kind == b.kind && a.by == b.by && a.dim == b.dim && a.size == b.size && a.rest == b.rest &&
	    (a.kind != OF_TILES || tir_tiles_equal(&a.tiles, &b.tiles));
}

/* How many values in a row the first index has there: an instruction goes on from its place; 0: any. */
static int64_t
width_of(const struct sync *s, ixv_id at)
{
	const struct st *c = &s->p->st[s->now];
	const struct tensor_row *t = c->op == ST_call ? tensor_row_of(c->ref) : NULL;
	const uint32_t rank = ixv_get(s->p->tx, at).n;

	if (c->op != ST_call)
		return 1;
	for (uint32_t of = 0; t && of < TENSOR_OFS; of++) {
		const ex_id *arg = s->p->arg + c->arg0 + tensor_arg(t, of);
		const char *letters = t->of[of].at;

		if (ex_get(s->p->tx, arg[0])->at != at)
			continue;
		if (strlen(letters) < rank)
			return 1;
		return letters[1] && rank == 1
		    ? tensor_element(tensor_extent(t, letters[0]) - 1, tensor_extent(t, letters[1]) - 1,
			  ex_get(s->p->tx, arg[1])->whole) +
			1
		    : tensor_extent(t, letters[0]);
	}
	return 0;
}

/* Parts that an index numbers, the same in all threads, as a pipeline's versions are. */
static struct part
part_of(const struct sync *s, ixv_id at)
{
	struct tx *x = s->p->tx;
	struct ixv v = ixv_get(x, place_of(s, at));
	const ix_id first = v.n ? v.i[0] : ix_const(x, 0);
	const struct ix n = *ix_get(x, first);
	const int64_t width = v.n ? width_of(s, at) : 1;
	struct part part = {
	    n.lo, n.hi + width - 1, width == 1 && is_uniform_index(s, first) ? first : IX_NONE, 1};

	if (width == 0)
		return (struct part){INT64_MIN, INT64_MAX, IX_NONE, 0};
	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix_term t = n.terms[k];
		const struct ix *rest;

		if (t.coef < 2 || t.coef < part.by || !is_uniform_index(s, t.atom))
			continue;
		rest = ix_get(x, ix_add(x, first, ix_mulc(x, t.atom, -t.coef)));
		if (rest->lo >= 0 && rest->hi + width - 1 < t.coef) {
			part.number = t.atom;
			part.by = t.coef;
		}
	}
	return part;
}

/* What the index is the remainder of, by c. */
static ix_id
undivided(const struct tx *x, ix_id i, int64_t c)
{
	const struct ix *n = ix_get(x, i);

	return n->kind == IX_MOD && n->c == c ? n->a : n->lo >= 0 && n->hi < c ? i : IX_NONE;
}

/* Intervals, or two indices that differ by a constant: remainders, by none of the divisor's multiples. */
static bool
parts_differ(const struct sync *s, struct part a, struct part b)
{
	struct tx *x = s->p->tx;
	int64_t d;

	if (a.hi < b.lo || b.hi < a.lo)
		return true;
	if (a.number == IX_NONE || b.number == IX_NONE || a.by != b.by)
		return false;
	const struct ix m = *ix_get(x, a.number), n = *ix_get(x, b.number);
	const int64_t c = m.kind == IX_MOD ? m.c : n.kind == IX_MOD ? n.c : INT64_MAX;
	const ix_id i = undivided(x, a.number, c), j = undivided(x, b.number, c);

	return i != IX_NONE && j != IX_NONE && ix_is_const(x, ix_add(x, i, ix_mulc(x, j, -1)), &d) &&
	    d % c != 0;
}

static bool
are_apart(const struct sync *s, struct met before, struct met now)
{
	return before.owner.kind == NOBODY ||
	    (are_alike(before.owner, now.owner) && now.owner.kind != OF_ANY) ||
	    parts_differ(s, before.part, now.part);
}

static struct met
met_at(const struct sync *s, const struct touch *t)
{
	return (struct met){owner_of(s, t), part_of(s, t->at)};
}

/* Both: what they have in common. */
static struct met
met_again(struct met before, struct met now)
{
	if (before.owner.kind == NOBODY)
		return now;
	if (!are_alike(before.owner, now.owner))
		before.owner = of_any;
	if (before.part.number != now.part.number || before.part.by != now.part.by)
		before.part.number = IX_NONE;
	before.part.lo = MIN_OF(before.part.lo, now.part.lo);
	before.part.hi = MAX_OF(before.part.hi, now.part.hi);
	return before;
}

/* What hangs on a loop is another part in its next turn, and behind it. */
static void
forget(struct sync *s, axis_id a)
{
	for (buf_id b = 0; b < 2 * s->p->n_buf; b++) { /* both lists */
		struct part *l = &s->dirty[b].part;

		if (l->number != IX_NONE && ix_has(s->p->tx, l->number, a))
			l->number = IX_NONE;
	}
}

static void
forget_all(struct sync *s)
{
	memset(s->dirty, 0, 2 * (size_t)s->p->n_buf * sizeof(*s->dirty)); /* NOBODY */
}

/* Do threads of a block meet in the buffer? */
static bool
is_met(const struct sync *s, buf_id buf)
{
	return s->team && s->p->buf[buf].scope >= SCOPE_shared;
}

static void
touch_shared(void *self, const struct touch *t)
{
	struct sync *s = self;

	if (is_met(s, t->buf))
		s->meets |= !are_apart(s, (t->stores ? s->read : s->dirty)[t->buf], met_at(s, t));
}

static void
mark_shared(void *self, const struct touch *t)
{
	struct sync *s = self;
	struct met *by = &(t->stores ? s->dirty : s->read)[t->buf];

	if (is_met(s, t->buf))
		*by = met_again(*by, met_at(s, t));
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
			forget_all(s);
		}
		s->now = k;
		tir_touches(s->p, k, touch_shared, s);
		if (s->meets)
			return fails(s, k, "no barrier between threads that share a buffer");
		tir_touches(s->p, k, mark_shared, s);
		st_id lane = s->lane;

		s->thread[s->n_threads] = t->axis;
		s->n_threads += threads;
		s->lane = threads ? k : lane;
		bool again = s->again, twice = t->op == ST_for && !threads && !again;

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

static bool
has_threads(const struct tir *p, st_id root)
{
	for (st_id i = root; i < p->st[root].end; i++)
		if (is_thread(&p->st[i]))
			return true;
	return false;
}

static struct sync
look(const struct tir *p)
{
	struct sync s = {.p = p};

	s.dirty = heap_alloc((2 * (size_t)p->n_buf + 1) * sizeof(*s.dirty));
	s.read = s.dirty + p->n_buf;
	for (st_id i = 0; i < p->n_st && !s.wrong; i = p->st[i].end) { /* kernels wait for each other */
		forget_all(&s);
		s.root = i;
		s.team = has_threads(p, i);
		(void)sync_body(&s, i, p->st[i].end);
	}
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
