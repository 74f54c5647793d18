/* kernels/codegen/words.c: on a GPU, what the neighbours that a thread takes (a loop bound `vector`) have
 * side by side in memory is moved in words of up to 16 bytes:
 *
 *   for l in 0..128 lane                               for l in 0..128 lane
 *     for u in 0..4 vector                               alloc %0'w; alloc %1'w          (aligned, 4
 * elements) store %1[4*l + u] = relu(%0[4*l + u])     ->     call move_16(%0'w[0], %0[4*l]) for u in 0..4
 * vector store %1'w[u] = relu(%0'w[u]) call move_16(%1[4*l], %1'w[0])
 *
 * An index whose rest, without u, is a multiple of a word says that neighbours lie side by side from a whole
 * word on, for arrays begin at multiples of 16 bytes.  One that does not end at a whole word is left alone,
 * so that nothing hangs on what lies behind it.  What stands behind a guard or in a loop of its own may not
 * be read at all, and stays as it is, one element for each neighbour. */
#include "codegen_int.h"

enum { WORD = 16, LEAST_WORD = 4, MOST_MOVES = 32 };

struct move {
	buf_id buf, word; /* word: the thread's copy of its neighbours */
	ix_id at;         /* over u */
	bool stores;
};
struct wording {
	const struct tir *p;
	st_id loop, first, end; /* the loop over neighbours; its body, behind ifs around all of it */
	axis_id u;
	int64_t n; /* neighbours */
	struct move move[MOST_MOVES];
	uint32_t n_move;
};

static int64_t
word_bytes(const struct wording *w, buf_id b)
{
	return MIN_OF(w->n * (int64_t)dtype_size(w->p->buf[b].type), (int64_t)WORD);
}

/* ---- what may be moved ------------------------------------------------------------------------------- */
/* Does it hold for all neighbours, or for none? */
static bool
asks_of_all(const struct wording *w, const struct st *test)
{
	for (uint32_t k = 0; k < test->n_guard; k++) {
		const ix_id asked = w->p->guard[test->guard0 + k].i;

		if (ix_has(w->p->tx, asked, w->u) || ix_get(w->p->tx, asked)->bufs)
			return false;
	}
	return true;
}

static bool
find_neighbours(const struct tir *p, st_id i, struct wording *w)
{
	const struct st *s = &p->st[i];
	int64_t from;
	st_id lane;

	*w = (struct wording){.p = p, .loop = i, .first = i + 1, .end = s->end, .u = s->axis};
	if (s->op != ST_for || s->bind != BIND_vector || !ix_is_const(p->tx, s->from, &from) || from != 0 ||
	    !ix_is_const(p->tx, s->to, &w->n) || threads_around(p, i, &lane) == 0)
		return false;
	while (
	    p->st[w->first].op == ST_if && p->st[w->first].end == w->end && asks_of_all(w, &p->st[w->first]))
		w->first++;
	return true;
}

/* Where the first neighbour's is. */
static ix_id
base_of(const struct wording *w, ix_id at)
{
	return ix_add(w->p->tx, at, ix_mulc(w->p->tx, ix_axis(w->p->tx, w->u), -1));
}

static bool
may_move(const struct wording *w, buf_id b, ix_id at)
{
	const struct tir_buf *f = &w->p->buf[b];
	const int64_t size = (int64_t)dtype_size(f->type), word = word_bytes(w, b);
	int64_t coef, over;

	return (f->scope == SCOPE_global || f->scope == SCOPE_shared) && word >= LEAST_WORD &&
	    w->n * size % word == 0 && f->dim[0] * size % word == 0 && ix_coef(w->p->tx, at, w->u, &coef) &&
	    coef == 1 && ix_is_const(w->p->tx, ix_mod(w->p->tx, base_of(w, at), word / size), &over) &&
	    over == 0;
}

static bool
is_stored(const struct wording *w, uint64_t bufs)
{
	for (st_id i = w->first; i < w->end; i++)
		if ((w->p->st[i].op == ST_store && bufs & buf_bit(w->p->st[i].ref)) ||
		    w->p->st[i].op == ST_call)
			return true;
	return false;
}

static void
add_move(struct wording *w, buf_id b, ix_id at, bool stores)
{
	for (uint32_t k = 0; k < w->n_move; k++)
		if (w->move[k].buf == b && w->move[k].at == at)
			return;
	if (w->n_move < MOST_MOVES && may_move(w, b, at))
		w->move[w->n_move++] = (struct move){.buf = b, .at = at, .stores = stores};
}

/* What is read for certain: in no arm of a guard. */
static void
find_loads(struct wording *w, ex_id e)
{
	const struct ex n = *ex_get(w->p->tx, e);

	if (n.kind == EX_READ) {
		const ix_id at = ixv_get(w->p->tx, n.at).i[0];

		if (!is_stored(w, buf_bit(n.tensor) | ix_get(w->p->tx, at)->bufs))
			add_move(w, n.tensor, at, false);
	}
	for (uint32_t k = 0; n.kind == EX_MAP && k < n.n_arg; k++)
		find_loads(w, n.arg[k]);
}

/* Is it the one statement there that touches the buffer, at a place that no value says? */
static bool
stores_alone(const struct wording *w, st_id store)
{
	const struct st *s = &w->p->st[store];
	struct accesses l = {.n = 0};

	if (ix_get(w->p->tx, ixv_get(w->p->tx, s->at).i[0])->bufs)
		return false;
	list_accesses(w->p, store, &l);
	for (uint32_t k = 0; k < l.n; k++)
		if (l.at[k].buf == s->ref && !l.at[k].stores)
			return false;
	return !touches(w->p, w->first, store, s->ref, false) &&
	    !touches(w->p, store + 1, w->end, s->ref, false);
}

static void
find_moves(struct wording *w)
{
	for (st_id i = w->first; i < w->end; i = w->p->st[i].end) {
		const struct st *s = &w->p->st[i];

		if (s->op != ST_store)
			continue;
		find_loads(w, s->value);
		if (stores_alone(w, i))
			add_move(w, s->ref, ixv_get(w->p->tx, s->at).i[0], true);
	}
}

/* ---- the moves -------------------------------------------------------------------------------------------
 */
static ixv_id
tuple_of_one(struct tx *x, ix_id i)
{
	return ixv_make(x, 1, &i);
}

static ex_id
load_word(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct wording *w = self;

	for (uint32_t k = 0; k < w->n_move; k++)
		if (!w->move[k].stores && w->move[k].buf == read->tensor &&
		    ixv_get(x, at).i[0] == w->move[k].at)
			return ex_load(x, read->type, w->move[k].word, tuple_of_one(x, ix_axis(x, w->u)));
	return ex_load(x, read->type, read->tensor, at);
}

static void
declare_words(struct wording *w, struct tir *out)
{
	for (uint32_t k = 0; k < w->n_move; k++) {
		struct move *m = &w->move[k];
		const struct tir_buf *f = &w->p->buf[m->buf];
		struct tir_buf word = tir_buf_make(arena_printf(out->arena, "%s'w%u", f->name, out->n_buf),
		    f->type, BUF_TEMP, SCOPE_local, 1, &w->n);

		word.align = WORD;
		m->word = tir_add_buf(out, &word);
		tir_add(out, (struct st){.op = ST_alloc, .ref = m->word});
	}
}

static enum intrin
move_of(int64_t bytes)
{
	return bytes == WORD ? INTRIN_move_16 : bytes == 8 ? INTRIN_move_8 : INTRIN_move_4;
}

static void
add_moves(const struct wording *w, struct tir *out, bool stores)
{
	struct tx *x = w->p->tx;

	for (uint32_t k = 0; k < w->n_move; k++) {
		const struct move *m = &w->move[k];
		const enum dtype t = w->p->buf[m->buf].type;
		const int64_t bytes = word_bytes(w, m->buf), step = bytes / (int64_t)dtype_size(t);

		for (int64_t u = 0; m->stores == stores && u < w->n; u += step) {
			const ex_id there =
			    ex_load(x, t, m->buf, tuple_of_one(x, ix_addc(x, base_of(w, m->at), u)));
			const ex_id here = ex_load(x, t, m->word, tuple_of_one(x, ix_const(x, u)));
			const ex_id arg[] = {stores ? there : here, stores ? here : there};

			tir_call(out, move_of(bytes), COUNT_OF(arg), arg);
		}
	}
}

static void
store_words(const struct wording *w, struct tir *out, st_id from)
{
	for (st_id i = from; i < out->n_st; i++)
		for (uint32_t k = 0; k < w->n_move; k++)
			if (w->move[k].stores && out->st[i].op == ST_store &&
			    out->st[i].ref == w->move[k].buf) {
				out->st[i].ref = w->move[k].word;
				out->st[i].at = tuple_of_one(w->p->tx, ix_axis(w->p->tx, w->u));
			}
}

static bool
word(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct wording w;
	struct tx_subst sub = {.load = load_word, .self = &w};

	(void)self;
	if (!find_neighbours(p, i, &w))
		return false;
	find_moves(&w);
	if (w.n_move == 0)
		return false;
	for (st_id k = i + 1; k < w.first; k++) {
		struct st test = p->st[k];

		tir_guards(out, &test, test.n_guard, p->guard + test.guard0);
		tir_add(out, test);
	}
	declare_words(&w, out);
	add_moves(&w, out, false);
	const st_id loop = tir_add(out, p->st[i]);

	for (st_id k = w.first; k < w.end; k = p->st[k].end)
		tir_copy(out, p, k, &sub);
	tir_close(out);
	store_words(&w, out, loop);
	add_moves(&w, out, true);
	for (st_id k = i + 1; k < w.first; k++)
		tir_close(out);
	return true;
}

void
codegen_words(const struct tir *p, struct tir *out)
{
	tir_rewrite(out, p, word, NULL);
}
