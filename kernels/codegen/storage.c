/* kernels/codegen/storage.c: where temps lie: those of all passes in one block of bytes, a thread's own in
 * another.
 *
 *   alloc %4                                alloc %4
 *   for h in 0..32                          for h in 0..32
 *     store %4[h] = ..                        store %4[h] = ..
 *   for i in 0..32                          for i in 0..32
 *     store %9[i] = .. %4[i] ..      ->       store %9[i] = .. %4[i] ..
 *   alloc %5                                alloc %4
 *   for j in 0..32                          for j in 0..32
 *     store %5[j] = ..                        store %4[j] = ..
 *
 * A temp that is there after another of its type has gone takes that one's place.  Bytes are shared by temps
 * of different passes alone: within one, a compiler is told that no two arrays meet (`restrict`).
 *
 * A temp is there from its alloc (without one: from the first statement of the program that touches it) to
 * the end of the last statement in the alloc's body that touches it.  Statements are numbered in their order,
 * so a loop's are all between its begin and end, and what lives across it has these in its own range. */
#include "codegen_int.h"

#include <stdlib.h>

enum { LINE = 64 };

struct lying {
	st_id from, to; /* [from, to): while it is there; from == to: never */
	size_t bytes;
	buf_id buf;
};
struct storing {
	const struct tir *p;
	buf_id *to; /* of each buffer: whose place it has */
};

/* ---- while it is there ------------------------------------------------------------------------------- */
static void
widen(const struct tir *p, struct lying *l, st_id first, st_id end)
{
	for (st_id i = first; i < end; i = p->st[i].end) {
		if (!touches(p, i, p->st[i].end, l->buf, false))
			continue;
		l->from = l->from == l->to ? i : MIN_OF(l->from, i);
		l->to = MAX_OF(l->to, p->st[i].end);
	}
}

static struct lying
lying_of(const struct tir *p, buf_id b)
{
	struct lying l = {.buf = b};
	st_id path[TIR_DEPTH];
	bool has_alloc = false;

	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_alloc || p->st[i].ref != b)
			continue;
		uint32_t n = tir_path(p, i, path);

		has_alloc = true;
		widen(p, &l, i, n ? p->st[path[n - 1]].end : p->n_st);
	}
	if (!has_alloc)
		widen(p, &l, 0, p->n_st);
	return l;
}

static bool
meet(const struct lying *a, const struct lying *b)
{
	return a->from < b->to && b->from < a->to;
}

/* ---- one takes another's place ------------------------------------------------------------------------- */
static bool
are_alike(const struct tir *p, buf_id a, buf_id b)
{
	return p->buf[a].type == p->buf[b].type && p->buf[a].scope == p->buf[b].scope;
}

/* May b have the place of a, among all that have it by now? */
static bool
has_room(const struct storing *s, const struct lying *list, uint32_t n, buf_id a, const struct lying *b)
{
	for (uint32_t k = 0; k < n; k++)
		if (s->to[list[k].buf] == a && meet(&list[k], b))
			return false;
	return are_alike(s->p, a, b->buf);
}

static void
find_places(struct storing *s, const struct lying *list, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++) {
		s->to[list[k].buf] = list[k].buf;
		for (uint32_t q = 0; q < k && s->to[list[k].buf] == list[k].buf; q++)
			if (s->to[list[q].buf] == list[q].buf && has_room(s, list, k, list[q].buf, &list[k]))
				s->to[list[k].buf] = list[q].buf;
	}
}

static ex_id
read_there(void *self, struct tx *x, const struct ex *read, ix_id at)
{
	const struct storing *s = self;

	return ex_read(x, read->type, s->to[read->tensor], at);
}

/* Statements over the buffers whose places they have; each is as large as its largest. */
static void
move_there(struct storing *s, struct tir *out)
{
	const struct tx_subst sub = {.read = read_there, .self = s};

	tir_like(out, s->p);
	for (st_id i = 0; i < s->p->n_st; i = s->p->st[i].end)
		tir_copy(out, s->p, i, &sub);
	for (st_id i = 0; i < out->n_st; i++)
		if (out->st[i].op == ST_store || out->st[i].op == ST_alloc)
			out->st[i].ref = s->to[out->st[i].ref];
	for (buf_id b = 0; b < out->n_buf; b++) {
		int64_t *n = &out->buf[s->to[b]].dim[0];

		*n = MAX_OF(*n, out->buf[b].dim[0]);
	}
}

/* ---- bytes ------------------------------------------------------------------------------------------------
 */
static int
largest_first(const void *x, const void *y)
{
	const struct lying *a = x, *b = y;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->buf > b->buf) - (a->buf < b->buf);
}

/* All of the passes that it is there in. */
static void
widen_to_passes(const struct tir *p, struct lying *l)
{
	const struct lying was = *l;

	for (st_id i = 0, end; i < p->n_st; i = end) {
		end = end_of_pass(p, i);
		if (i >= was.to || was.from >= end)
			continue;
		l->from = MIN_OF(l->from, i);
		l->to = MAX_OF(l->to, end);
	}
}

/* The lowest place that is free of all that it meets; those before it in the list have theirs. */
static size_t
place_of(const struct tir *p, const struct lying *list, uint32_t n)
{
	size_t at = 0;
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t k = 0; k < n; k++) {
			size_t other = (size_t)p->buf[list[k].buf].offset;

			if (!meet(&list[k], &list[n]) ||
			    p->buf[list[k].buf].scope != p->buf[list[n].buf].scope ||
			    at >= other + list[k].bytes || other >= at + list[n].bytes)
				continue;
			at = ck_add(other, list[k].bytes);
			moved = true;
		}
	}
	return at;
}

/* ---- the pass --------------------------------------------------------------------------------------------
 */
static uint32_t
list_temps(const struct tir *p, struct lying *list)
{
	uint32_t n = 0;

	for (buf_id b = 0; b < p->n_buf; b++) {
		if (!is_scratch(&p->buf[b]))
			continue;
		list[n] = lying_of(p, b);
		n += list[n].from < list[n].to;
	}
	return n;
}

static void
lay_out(struct tir *p, struct lying *list)
{
	uint32_t n = list_temps(p, list);

	for (uint32_t k = 0; k < n; k++) {
		const struct tir_buf *f = &p->buf[list[k].buf];

		list[k].bytes = (ck_mul(ck_size(f->dim[0]), dtype_size(f->type)) + LINE - 1) / LINE * LINE;
		widen_to_passes(p, &list[k]);
	}
	qsort(list, n, sizeof(*list), largest_first);
	for (uint32_t k = 0; k < n; k++)
		p->buf[list[k].buf].offset = (int64_t)place_of(p, list, k);
}

void
codegen_storage(const struct tir *p, struct tir *out)
{
	struct lying *list = NEW_ARRAY(p->arena, struct lying, p->n_buf + 1);
	struct storing s = {.p = p, .to = NEW_ARRAY(p->arena, buf_id, p->n_buf + 1)};

	for (buf_id b = 0; b < p->n_buf; b++)
		s.to[b] = b;
	find_places(&s, list, list_temps(p, list));
	move_there(&s, out);
	lay_out(out, list);
}
