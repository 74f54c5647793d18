/* kernels/schedule/inline.c: inline BLOCK: what the block computes at a point stands in its readers' values;
 * its nest and its buffer go. */
#include "step_int.h"

#include <stdlib.h>
#include <string.h>

enum { INLINE_SIZE = 400 }; /* nodes of a value as a tree */

struct inlining {
	const struct tir *p;
	const struct step *s;
	blk_id blk;
	buf_id buf;
	ix_id *to; /* the block's iterators, while a read is replaced */
	uint32_t n_to;
	struct err *e;
};

/* Each iterator is an index of the place by itself, so that a read says what it is. */
static bool
has_inverse(const struct inlining *t)
{
	const struct tir_block *b = &t->p->blk[t->blk];
	struct ixv at = ixv_get(t->p->tx, b->at[0]);

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &t->p->iter[b->iter0 + k];
		bool alone = false;
		axis_id a;

		for (uint32_t d = 0; d < at.n; d++)
			alone |= ix_is_axis(t->p->tx, at.i[d], &a) && a == it->id;
		if (!alone || it->kind != ITER_SPACE)
			return false;
	}
	return true;
}

static ex_id
replaced(void *self, struct tx *x, const struct ex *read, ixv_id where)
{
	struct inlining *t = self;
	const struct tir_block *b = &t->p->blk[t->blk];
	struct ixv at = ixv_get(x, b->at[0]), i = ixv_get(x, where);
	struct tx_subst sub = {.to = t->to, .n = t->n_to};
	ex_id v;
	axis_id a;

	if (read->tensor != t->buf)
		return ex_load(x, read->type, read->tensor, where);
	for (uint32_t d = 0; d < at.n; d++)
		if (ix_is_axis(x, at.i[d], &a))
			t->to[a] = i.i[d];
	v = ex_subst(x, &sub, b->value[0]);
	for (uint32_t d = 0; d < at.n; d++)
		if (ix_is_axis(x, at.i[d], &a))
			t->to[a] = IX_NONE;
	return v;
}

static bool
may_inline(struct inlining *t)
{
	const struct tir_block *b = &t->p->blk[t->blk];

	if (b->n_out != 1 || b->comb != COMB_NONE)
		return refuse(t->e, t->s, "plain", "the block joins elements, or has two results");
	if (t->p->buf[t->buf].role != BUF_TEMP)
		return refuse(t->e, t->s, "result", "the block makes a result of the kernel");
	for (blk_id k = 0; k < t->p->n_blk; k++)
		if (k != t->blk && blk_stores_buf(&t->p->blk[k], t->buf))
			return refuse(t->e, t->s, "writers", "another block stores into its buffer");
	if (blk_reads_buf(t->p, b, t->buf) || !has_inverse(t))
		return refuse(t->e, t->s, "inverse", "a place does not say which point it is");
	if (blk_reads_local(t->p, b))
		return refuse(t->e, t->s, "scope", "it reads a buffer that is not there everywhere");
	return true;
}

/* Readers in the program that is built, with the value in place of reads. */
static bool
replace_readers(struct inlining *t, struct tir *out)
{
	struct tx_subst sub = {.load = replaced, .self = t};

	for (blk_id k = 0; k < out->n_blk; k++) {
		struct tir_block *b = &out->blk[k];

		if (k == t->blk || !blk_reads_buf(t->p, b, t->buf))
			continue;
		for (uint32_t o = 0; o < b->n_out; o++) {
			b->at[o] = ixv_subst(out->tx, &sub, b->at[o]);
			b->value[o] = ex_subst(out->tx, &sub, b->value[o]);
			if (ex_get(out->tx, b->value[o])->size > INLINE_SIZE)
				return refuse(t->e, t->s, "size", "a reader's value would be too large");
		}
	}
	return true;
}

/* A body of nothing but instances of the block. */
static bool
only_block(const struct tir *p, st_id i, blk_id b)
{
	for (st_id k = i; k < p->st[i].end; k++)
		if (p->st[k].op != ST_for && p->st[k].op != ST_if &&
		    !(p->st[k].op == ST_block && p->st[k].ref == b))
			return false;
	return true;
}

static bool
drop_block(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct inlining *t = self;

	(void)out;
	return only_block(p, i, t->blk) || (p->st[i].op == ST_alloc && p->st[i].ref == t->buf);
}

bool
step_inline(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct inlining t = {.p = p, .s = s, .e = e, .n_to = tx_n_axes(p->tx)};
	bool ok;

	if (!find_blk(p, s, 0, &t.blk, e))
		return false;
	t.buf = p->blk[t.blk].out[0];
	if (!may_inline(&t))
		return false;
	t.to = heap_alloc((t.n_to + 1) * sizeof(*t.to));
	memset(t.to, 0xff, (t.n_to + 1) * sizeof(*t.to));
	tir_rewrite(out, p, drop_block, &t);
	ok = replace_readers(&t, out);
	free(t.to);
	return ok;
}
