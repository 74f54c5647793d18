/* kernels/tir/meet.c: by whom a buffer's elements are touched, and which, from the indices of one touch. */
#include "meet.h"

#include <string.h>

static const struct owner of_any = {.kind = OF_ANY, .rest = IX_NONE},
			  of_block = {.kind = OF_BLOCK, .rest = IX_NONE};

/* The place over loops: an instance's is over its block's iterators. */
static ixv_id
place_of(const struct meet_place *c, ixv_id at)
{
	const struct st *t = &c->p->st[c->now];
	const struct tir_block *b = t->op == ST_block ? &c->p->blk[t->ref] : NULL;
	const struct tx_subst sub = {.to = c->to, .n = tx_n_axes(c->p->tx)};

	if (!b)
		return at;
	for (uint32_t k = 0; k < b->n_iter; k++)
		c->to[c->p->iter[b->iter0 + k].id] = ixv_get(c->p->tx, t->at).i[k];
	const ixv_id place = ixv_subst(c->p->tx, &sub, at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		c->to[c->p->iter[b->iter0 + k].id] = IX_NONE;
	return place;
}

static bool
is_uniform_index(const struct meet_place *c, ix_id i)
{
	for (uint32_t k = 0; k < c->n_threads; k++)
		if (ix_has(c->p->tx, i, c->thread[k]))
			return false;
	return true;
}

/* Is it the same all the time that the block runs? */
static bool
is_of_block(const struct meet_place *c, ix_id i)
{
	for (st_id k = c->root; k < c->p->st[c->root].end; k++) {
		const struct st *t = &c->p->st[k];

		if ((t->op == ST_index || (t->op == ST_for && t->bind != BIND_block)) &&
		    ix_has(c->p->tx, i, t->axis))
			return false;
	}
	return true;
}

/* Is index i, in pieces of so many, the thread's number and what hangs on the block alone? */
static bool
is_numbered(const struct meet_place *c, ix_id i, int64_t threads, struct owner *out)
{
	const axis_id lane = c->p->st[c->lane].axis;
	struct tx *x = c->p->tx;
	int64_t one;

	if (!ix_coef(x, i, lane, &out->size) || out->size < 1)
		return false;
	const ix_id piece = ix_div(x, i, out->size);

	out->kind = OF_THREAD;
	out->rest = ix_mod(x, ix_add(x, piece, ix_mulc(x, ix_axis(x, lane), -1)), threads);
	return ix_coef(x, piece, lane, &one) && one == 1 && is_of_block(c, out->rest);
}

/* By the number of the element in its buffer, or else by an index of its own. */
static struct owner
owner_of(const struct meet_place *c, const struct touch *t)
{
	const struct st *lane = &c->p->st[c->lane];
	struct tx *x = c->p->tx;
	ix_id flat = ix_const(x, 0);
	int64_t from, to;

	if (c->n_threads == 0)
		return of_block;
	if (c->n_threads > 1 || !ix_is_const(x, lane->from, &from) || from != 0 ||
	    !ix_is_const(x, lane->to, &to))
		return of_any;
	const ixv_id place = place_of(c, t->at);
	struct ixv v = ixv_get(x, place);

	for (uint32_t d = 0; d < v.n; d++)
		flat = ix_add(x, ix_mulc(x, flat, c->p->buf[t->buf].dim[d]), v.i[d]);
	for (uint32_t d = 0; d <= v.n; d++) {
		struct owner o = {.by = lane->bind, .dim = d};

		if (is_numbered(c, d ? v.i[d - 1] : flat, to, &o))
			return o;
	}
	struct owner o = {.kind = OF_TILES, .by = lane->bind};

	if (!tir_tiles_at(x, place, lane->axis, &o.tiles))
		return of_any;
	for (uint32_t k = 0; k < o.tiles.n; k++)
		if (!is_of_block(c, o.tiles.digit[k].first))
			return of_any;
	return o;
}

static bool
are_alike(const struct owner *a, const struct owner *b)
{
	return a->kind == b->kind && a->by == b->by && a->dim == b->dim && a->size == b->size &&
	    a->rest == b->rest && (a->kind != OF_TILES || tir_tiles_equal(&a->tiles, &b->tiles));
}

/* Elements that the call moves as one word from or to there; 1: only an index of its is read there. */
static int64_t
word_of(const struct meet_place *c, const struct st *call, ixv_id at)
{
	for (uint32_t k = 0; k < call->n_arg; k++) {
		const struct ex *n = ex_get(c->p->tx, c->p->arg[call->arg0 + k]);

		if (n->kind == EX_READ && n->at == at)
			return intrin_moves((enum intrin)call->ref) / (int64_t)dtype_size(n->type);
	}
	return 1;
}

/* How many values in a row the first index has there: an instruction goes on from its place; 0: any. */
static int64_t
width_of(const struct meet_place *c, ixv_id at)
{
	const struct st *t = &c->p->st[c->now];
	const struct tensor_row *row = t->op == ST_call ? tensor_row_of(t->ref) : NULL;
	const uint32_t rank = ixv_get(c->p->tx, at).n;

	if (t->op != ST_call)
		return 1;
	if (intrin_moves((enum intrin)t->ref))
		return rank > 1 ? 1 : word_of(c, t, at);
	for (uint32_t of = 0; row && of < TENSOR_OFS; of++) {
		const ex_id *arg = c->p->arg + t->arg0 + tensor_arg(row, of);
		const char *letters = row->of[of].at;

		if (ex_get(c->p->tx, arg[0])->at != at)
			continue;
		if (strlen(letters) < rank)
			return 1;
		return letters[1] && rank == 1
		    ? tensor_element(tensor_extent(row, letters[0]) - 1, tensor_extent(row, letters[1]) - 1,
			  ex_get(c->p->tx, arg[1])->whole) +
			1
		    : tensor_extent(row, letters[0]);
	}
	return 0;
}

/* Parts that an index numbers, the same in all threads, as a pipeline's versions are. */
static struct part
part_of(const struct meet_place *c, ixv_id at)
{
	struct tx *x = c->p->tx;
	struct ixv v = ixv_get(x, place_of(c, at));
	const ix_id first = v.n ? v.i[0] : ix_const(x, 0);
	const struct ix n = *ix_get(x, first);
	const int64_t width = v.n ? width_of(c, at) : 1;
	struct part part = {
	    n.lo, n.hi + width - 1, width == 1 && is_uniform_index(c, first) ? first : IX_NONE, 1};

	if (width == 0)
		return (struct part){INT64_MIN, INT64_MAX, IX_NONE, 0};
	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix_term t = n.terms[k];
		const struct ix *rest;

		if (t.coef < 2 || t.coef < part.by || !is_uniform_index(c, t.atom))
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
parts_differ(struct tx *x, const struct part *a, const struct part *b)
{
	int64_t d;

	if (a->hi < b->lo || b->hi < a->lo)
		return true;
	if (a->number == IX_NONE || b->number == IX_NONE || a->by != b->by)
		return false;
	const struct ix m = *ix_get(x, a->number), n = *ix_get(x, b->number);
	const int64_t c = m.kind == IX_MOD ? m.c : n.kind == IX_MOD ? n.c : INT64_MAX;
	const ix_id i = undivided(x, a->number, c), j = undivided(x, b->number, c);

	return i != IX_NONE && j != IX_NONE && ix_is_const(x, ix_add(x, i, ix_mulc(x, j, -1)), &d) &&
	    d % c != 0;
}

bool
are_apart(const struct tir *p, const struct met *before, const struct met *now)
{
	return before->owner.kind == NOBODY ||
	    (now->owner.kind != OF_ANY && are_alike(&before->owner, &now->owner)) ||
	    parts_differ(p->tx, &before->part, &now->part);
}

void
meet_note(const struct meet_place *c, const struct touch *t, struct met *out)
{
	out->owner = owner_of(c, t);
	out->part = part_of(c, t->at);
}

void
meet_again(struct met *before, const struct met *now)
{
	struct part *part = &before->part;

	if (before->owner.kind == NOBODY) {
		*before = *now;
		return;
	}
	if (!are_alike(&before->owner, &now->owner))
		before->owner = of_any;
	if (part->number != now->part.number || part->by != now->part.by)
		part->number = IX_NONE;
	part->lo = MIN_OF(part->lo, now->part.lo);
	part->hi = MAX_OF(part->hi, now->part.hi);
}
