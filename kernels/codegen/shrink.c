/* kernels/codegen/shrink.c: a buffer that is allocated in a loop keeps the part that one iteration touches;
 * one of few elements is a variable, or an array that the compiler keeps in registers:
 *
 *   buf %1 f32[64,1] local                       buf %1 f32[1,1] reg
 *   for i in 0..64                               for i in 0..64
 *     alloc %1                             ->      alloc %1
 *     store %1[i, 0] = ..                          store %1[0, 0] = ..
 *
 * (A schedule moves a block's nest into a loop and leaves its buffer the logical extents.)  An index is taken
 * from the least that is touched: a min or max of several where the outermost hangs on the loops around, as
 * long as that is proved.  A small buffer of all passes that one pass alone touches is likewise in registers.
 */
#include "../tir/tiles.h"
#include "codegen_int.h"

#include <string.h>

enum { MOST_IN_REGISTERS = 64 };

struct extent {
	ix_id lo, hi;
	bool known;
};
struct shrinking {
	const struct tir *p;
	struct extent (*r)[MAX_RANK]; /* of each buffer; known: dimension d shrinks to lo .. hi */
	int64_t (*dim)[MAX_RANK];
	bool plain; /* only where the least is a sum of axes */
	struct tx_subst sub;
};

static void
widen(struct tx *x, struct extent *r, ix_id lo, ix_id hi, bool is_first)
{
	if (is_first) {
		*r = (struct extent){lo, hi, true};
		return;
	}
	r->lo = ix_outer(x, r->lo, lo, false);
	r->hi = ix_outer(x, r->hi, hi, true);
}

/* false: an instruction touches more of it than a place. */
static bool
gather(struct shrinking *q, st_id alloc)
{
	const struct tir *p = q->p;
	buf_id buf = p->st[alloc].ref;
	struct accesses l = {.n = 0};
	bool is_first = true;

	for (st_id i = alloc + 1; i < end_of_body(p, alloc); i++) {
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++) {
			struct ixv at = ixv_get(p->tx, l.at[k].place);

			if (l.at[k].buf != buf)
				continue;
			if (l.at[k].goes_on && !l.at[k].corners)
				return false;
			for (uint32_t d = 0; d < at.n; d++) {
				ix_id lo, hi;
				bool exact;

				tir_region(p, alloc, i, at.i[d], &lo, &hi, &exact);
				widen(p->tx, &q->r[buf][d], lo, hi, is_first);
			}
			is_first = false;
		}
	}
	return true;
}

static bool
is_plain(const struct tx *x, ix_id i)
{
	const struct ix *n = ix_get(x, i);

	for (uint32_t k = 0; k < n->n_terms; k++)
		if (ix_get(x, n->terms[k].atom)->kind != IX_AXIS)
			return false;
	return n->kind == IX_LIN || n->kind == IX_AXIS;
}

/* Which dimensions become smaller, and how small. */
static void
decide(struct shrinking *q, buf_id b)
{
	struct tx *x = q->p->tx;

	for (int d = 0; d < q->p->buf[b].rank; d++) {
		struct extent *r = &q->r[b][d];

		q->dim[b][d] = q->p->buf[b].dim[d];
		if (!r->known)
			continue;
		int64_t n = ix_get(x, ix_add(x, r->hi, ix_mulc(x, r->lo, -1)))->hi + 1;

		r->known = n < q->dim[b][d] && (!q->plain || is_plain(x, r->lo));
		if (r->known)
			q->dim[b][d] = n;
	}
}

static ixv_id
moved(const struct shrinking *q, buf_id b, ixv_id at)
{
	struct tx *x = q->p->tx;
	struct ixv v = ixv_get(x, at);
	ix_id i[MAX_RANK];

	for (uint32_t d = 0; d < v.n; d++)
		i[d] = q->r[b][d].known ? ix_add(x, v.i[d], ix_mulc(x, q->r[b][d].lo, -1)) : v.i[d];
	return ixv_make(x, v.n, i);
}

static ex_id
load_moved(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	return ex_load(x, read->type, read->tensor, moved(self, read->tensor, at));
}

/* Temps that are allocated once, inside of a loop. */
static bool
is_candidate(const struct tir *p, st_id i)
{
	st_id path[TIR_DEPTH];
	enum tir_scope scope;

	if (p->st[i].op != ST_alloc)
		return false;
	scope = p->buf[p->st[i].ref].scope;
	if ((scope != SCOPE_local && scope != SCOPE_shared && scope != SCOPE_spread) ||
	    tir_path(p, i, path) == 0)
		return false;
	return !is_within(p, 0, i, ST_alloc, p->st[i].ref) &&
	    !is_within(p, i + 1, p->n_st, ST_alloc, p->st[i].ref);
}

/* Does an instruction touch it?  That takes an address. */
static bool
is_addressed(const struct tir *p, buf_id b)
{
	struct accesses l = {.n = 0};

	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_call)
			continue;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			if (l.at[k].buf == b)
				return true;
	}
	return false;
}

/* ---- what one pass alone touches --------------------------------------------------------------------------
 */
struct span {
	st_id first, last; /* outermost statements that touch the buffer; first == ST_NONE: none */
};

static struct span
span_of(const struct tir *p, buf_id b)
{
	struct span s = {ST_NONE, ST_NONE};
	struct accesses l = {.n = 0};

	for (st_id root = 0; root < p->n_st; root = p->st[root].end)
		for (st_id i = root; i < p->st[root].end; i++) {
			list_accesses(p, i, &l);
			for (uint32_t k = 0; k < l.n; k++)
				if (l.at[k].buf == b)
					s = (struct span){MIN_OF(s.first, root), root};
		}
	return s;
}

/* A global temp of few elements that statements between two ranges pass on; ST_NONE: it is none, else the
 * first of them. */
static st_id
local_from(const struct tir *p, buf_id b)
{
	const struct tir_buf *f = &p->buf[b];
	int64_t n = 1;
	struct span s;

	for (int d = 0; d < f->rank; d++)
		n *= f->dim[d];
	if (f->role != BUF_TEMP || f->scope != SCOPE_global || n > MOST_IN_REGISTERS || is_addressed(p, b))
		return ST_NONE;
	s = span_of(p, b);
	for (st_id i = s.first; s.first != ST_NONE && i <= s.last; i = p->st[i].end)
		if (is_range(p, i))
			return ST_NONE;
	return s.first;
}

/* Few elements are in registers, where the compiler can tell which is meant. */
static void
shrink_buf(const struct shrinking *q, struct tir_buf *f, buf_id b)
{
	int64_t n = 1;
	bool tells = true;

	for (int d = 0; d < f->rank; d++) {
		f->dim[d] = q->dim[b][d];
		n *= f->dim[d];
		tells &= !q->r[b][d].known || is_plain(q->p->tx, q->r[b][d].lo);
	}
	if (n <= MOST_IN_REGISTERS && tells && f->scope == SCOPE_local && !is_addressed(q->p, b))
		f->scope = SCOPE_reg;
}

/* ---- sets of the first cache
 * -------------------------------------------------------------------------------
 */
enum { SET_BYTES = 1 << 10, LINE_BYTES = 64 };

static int64_t
stride(const struct tir_buf *f, int d)
{
	int64_t n = (int64_t)dtype_size(f->type);

	for (int k = d + 1; k < f->rank; k++)
		n *= f->dim[k];
	return n;
}

/* The innermost dimension that a loop which becomes text counts through; -1: none. */
static int
unrolled_dim(const struct tir *p, st_id alloc)
{
	struct accesses l = {.n = 0};
	int found = -1;

	for (st_id i = alloc + 1; i < end_of_body(p, alloc); i++)
		for (st_id k = i + 1;
		     p->st[i].op == ST_for && p->st[i].bind == BIND_unroll && k < p->st[i].end; k++) {
			list_accesses(p, k, &l);
			for (uint32_t n = 0; n < l.n; n++)
				for (int d = found + 1;
				     l.at[n].buf == p->st[alloc].ref && d < p->buf[l.at[n].buf].rank; d++)
					if (ix_has(p->tx, ixv_get(p->tx, l.at[n].place).i[d], p->st[i].axis))
						found = d;
		}
	return found;
}

/* Rows that one body touches side by side, at a multiple of 1 KiB, would meet in few sets: a longer row
 * inside of them parts them. */
static void
part_sets(const struct tir *p, st_id alloc, struct tir_buf *f)
{
	const int d = f->scope == SCOPE_local ? unrolled_dim(p, alloc) : -1;
	int k = d + 1;

	if (d < 0 || d + 1 >= f->rank || stride(f, d) % SET_BYTES)
		return;
	while (k + 1 < f->rank && stride(f, k) % SET_BYTES == 0)
		k++;
	f->dim[k] += MAX_OF((int64_t)LINE_BYTES / stride(f, k), (int64_t)1);
}

/* ---- banks of shared memory
 * ----------------------------------------------------------------------------- */
enum { BANK_BYTES = 4, BANKS = 32, WORD_BYTES = 16 };

/* Does the place hang on the number of a thread among its neighbours, but by another dimension than the last?
 */
static bool
goes_across(const struct tir *p, ixv_id place, axis_id lane)
{
	const struct ixv at = ixv_get(p->tx, place);
	struct tir_tiles t;

	if (!tir_tiles_at(p->tx, place, lane, &t))
		return false;
	for (uint32_t k = 0; k < t.n; k++)
		if (t.digit[k].weight == 1)
			return t.digit[k].dim + 1 < at.n;
	return false;
}

/* Do neighbouring threads store along a column? */
static bool
is_stored_across(const struct tir *p, st_id alloc)
{
	st_id lane;

	for (st_id i = alloc + 1; i < end_of_body(p, alloc); i++)
		if (p->st[i].op == ST_store && p->st[i].ref == p->st[alloc].ref &&
		    threads_around(p, i, &lane) == 1 && goes_across(p, p->st[i].at, p->st[lane].axis))
			return true;
	return false;
}

/* Does a warp's instruction take rows of it, eight at once? */
static bool
is_taken_by_rows(const struct tir *p, st_id alloc)
{
	for (st_id i = alloc + 1; i < end_of_body(p, alloc); i++) {
		const struct tensor_row *t = p->st[i].op == ST_call ? tensor_row_of(p->st[i].ref) : NULL;

		for (uint32_t of = 1; t && of < TENSOR_OFS; of++)
			if (strlen(t->of[of].at) > 1 &&
			    ex_get(p->tx, p->arg[p->st[i].arg0 + tensor_arg(t, of)])->tensor ==
				p->st[alloc].ref)
				return true;
	}
	return false;
}

/* Threads that go along a column meet in few banks where a row has a multiple of all: a word more parts them,
 * and leaves whole words where they were.  Eight rows lie apart where one has an odd number of words. */
static void
part_banks(const struct tir *p, st_id alloc, struct tir_buf *f)
{
	const int64_t size = (int64_t)dtype_size(f->type), word = MAX_OF(WORD_BYTES / size, (int64_t)1);
	int64_t *row = f->rank ? &f->dim[f->rank - 1] : NULL;

	if (f->scope != SCOPE_shared || f->rank < 2)
		return;
	if (is_taken_by_rows(p, alloc))
		*row = (ceil_div(*row, word) | 1) * word;
	else if (*row * size % ((int64_t)BANK_BYTES * BANKS) == 0 && is_stored_across(p, alloc))
		*row += word;
}

/* Of instructions: how long the rows are now. */
static void
set_rows(struct tir *out)
{
	for (st_id i = 0; i < out->n_st; i++) {
		const struct tensor_row *t = out->st[i].op == ST_call ? tensor_row_of(out->st[i].ref) : NULL;

		for (uint32_t of = 0; t && of < TENSOR_OFS; of++) {
			const uint32_t k = out->st[i].arg0 + tensor_arg(t, of);
			const struct tir_buf *b = &out->buf[ex_get(out->tx, out->arg[k])->tensor];

			if (strlen(t->of[of].at) > 1)
				out->arg[k + 1] = ex_whole(out->tx, DT_i64, b->dim[b->rank - 1]);
		}
	}
}

/* The program over smaller buffers, each allocated where it was, or where one pass begins. */
static void
rebuild(struct shrinking *q, struct tir *out)
{
	const struct tir *p = q->p;
	st_id *from = NEW_ARRAY(p->arena, st_id, p->n_buf + 1);

	for (buf_id b = 0; b < p->n_buf; b++) {
		from[b] = local_from(p, b);
		if (from[b] != ST_NONE)
			out->buf[b].scope = SCOPE_reg;
	}
	for (st_id i = 0; i < p->n_st; i = p->st[i].end) {
		for (buf_id b = 0; b < p->n_buf; b++)
			if (from[b] == i)
				tir_add(out, (struct st){.op = ST_alloc, .ref = b});
		tir_copy(out, p, i, &q->sub);
	}
	for (st_id i = 0; i < out->n_st; i++)
		if (out->st[i].op == ST_store)
			out->st[i].at = moved(q, out->st[i].ref, out->st[i].at);
	set_rows(out);
}

/* false: it is not proved any more. */
static bool
shrink(const struct tir *p, struct tir *out, bool plain)
{
	struct shrinking q = {.p = p, .plain = plain};
	struct err unproved = {0};

	q.r = arena_alloc(p->arena, (p->n_buf + 1) * sizeof(*q.r));
	q.dim = arena_alloc(p->arena, (p->n_buf + 1) * sizeof(*q.dim));
	q.sub = (struct tx_subst){.load = load_moved, .self = &q};
	tir_like(out, p);
	for (st_id i = 0; i < p->n_st; i++) {
		if (!is_candidate(p, i))
			continue;
		if (!gather(&q, i)) {
			memset(q.r[p->st[i].ref], 0, sizeof(q.r[0]));
			continue;
		}
		decide(&q, p->st[i].ref);
		shrink_buf(&q, &out->buf[p->st[i].ref], p->st[i].ref);
		part_sets(p, i, &out->buf[p->st[i].ref]);
		part_banks(p, i, &out->buf[p->st[i].ref]);
	}
	rebuild(&q, out);
	return tir_proved(out, &unproved);
}

void
codegen_shrink(const struct tir *p, struct tir *out)
{
	if (!shrink(p, out, false) && !shrink(p, out, true))
		*out = *p;
}
