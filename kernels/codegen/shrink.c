/* kernels/codegen/shrink.c: a buffer that a loop's body allocates keeps the part that the body touches, no
 * more:
 *
 *   for o in 0..8                                  for o in 0..8
 *     alloc %1   (128 elements)                      alloc %1   (16)
 *     for i in 0..16                          ->     for i in 0..16
 *       store %1[16*o + i] = ..                        store %1[i] = ..
 *
 * A schedule moves a block's nest into a loop and leaves its buffer the logical extents. */
#include "codegen_int.h"

struct box {
	const struct tir *p;
	buf_id buf;
	st_id around; /* in its body the buffer is there */
	bool known;
	ix_id lo[MAX_RANK], hi[MAX_RANK]; /* over loops around it */
	int64_t width[MAX_RANK];
	ixv_id *at; /* of the statement that is looked at */
	uint32_t n_at, cap_at;
};

static void
note_read(void *self, const struct ex *read)
{
	struct box *b = self;

	if (read->tensor != b->buf)
		return;
	GROW(b->p->arena, b->at, b->n_at, b->cap_at);
	b->at[b->n_at++] = read->at;
}

static void
look_ex(void *self, ex_id e)
{
	ex_reads(((struct box *)self)->p->tx, e, note_read, self);
}

static void
look_ix(void *self, ix_id i)
{
	look_ex(self, ex_index(((struct box *)self)->p->tx, i));
}

static void
widen(struct box *b, st_id i, ixv_id at)
{
	struct tx *x = b->p->tx;
	struct ixv v = ixv_get(x, at);
	bool exact;
	ix_id lo, hi;

	for (uint32_t d = 0; d < v.n; d++) {
		tir_region(b->p, b->around, i, v.i[d], &lo, &hi, &exact);
		b->lo[d] = b->known ? ix_outer(x, b->lo[d], lo, false) : lo;
		b->hi[d] = b->known ? ix_outer(x, b->hi[d], hi, true) : hi;
	}
	b->known = true;
}

/* The one alloc of the buffer; ST_NONE: it has none, or several, or one outside of all loops. */
static st_id
scope_of(const struct tir *p, buf_id b)
{
	st_id path[TIR_DEPTH], found = ST_NONE;
	uint32_t n;

	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_alloc || p->st[i].ref != b)
			continue;
		if (found != ST_NONE)
			return ST_NONE;
		found = i;
	}
	n = found == ST_NONE ? 0 : tir_path(p, found, path);
	return n ? path[n - 1] : ST_NONE;
}

/* Where all that is touched begins, and how wide it is in each dimension. */
static void
find_box(struct box *b)
{
	const struct tir_buf *f = &b->p->buf[b->buf];

	for (st_id i = b->around + 1; i < b->p->st[b->around].end; i++) {
		const struct st *s = &b->p->st[i];

		b->n_at = 0;
		tir_each(b->p, s, look_ix, look_ex, b);
		for (uint32_t k = 0; k < b->n_at; k++)
			widen(b, i, b->at[k]);
		if (s->op == ST_store && s->ref == b->buf)
			widen(b, i, s->at);
	}
	for (int d = 0; d < f->rank && b->known; d++) {
		b->width[d] =
		    ix_get(b->p->tx, ix_add(b->p->tx, b->hi[d], ix_mulc(b->p->tx, b->lo[d], -1)))->hi + 1;
		if (b->width[d] < f->dim[d])
			continue;
		b->width[d] = f->dim[d];
		b->lo[d] = ix_const(b->p->tx, 0);
	}
}

static ixv_id
moved(const struct box *boxes, struct tx *x, buf_id buf, ixv_id at)
{
	const struct box *b = &boxes[buf];
	struct ixv v = ixv_get(x, at);
	ix_id i[IXV_MAX];

	if (!b->known)
		return at;
	for (uint32_t d = 0; d < v.n; d++)
		i[d] = ix_add(x, v.i[d], ix_mulc(x, b->lo[d], -1));
	return ixv_make(x, v.n, i);
}

static ex_id
load_moved(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	return ex_load(x, read->type, read->tensor, moved(self, x, read->tensor, at));
}

void
codegen_shrink(const struct tir *p, struct tir *out)
{
	struct box *boxes = NEW_ARRAY(p->arena, struct box, p->n_buf + 1);
	struct tx_subst sub = {.load = load_moved, .self = boxes};

	for (buf_id k = 0; k < p->n_buf; k++) {
		boxes[k] = (struct box){.p = p, .buf = k, .around = scope_of(p, k)};
		if (boxes[k].around != ST_NONE)
			find_box(&boxes[k]);
	}
	tir_like(out, p);
	for (st_id i = 0; i < p->n_st; i = p->st[i].end)
		tir_copy(out, p, i, &sub);
	for (st_id i = 0; i < out->n_st; i++)
		if (out->st[i].op == ST_store)
			out->st[i].at = moved(boxes, p->tx, out->st[i].ref, out->st[i].at);
	for (buf_id k = 0; k < p->n_buf; k++)
		for (int d = 0; d < out->buf[k].rank && boxes[k].known; d++)
			out->buf[k].dim[d] = boxes[k].width[d];
}
