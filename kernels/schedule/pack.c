/* kernels/schedule/pack.c: pack BUFFER N [DIMENSIONS]: a buffer lies in panels, of N elements along the last
 * dimension named, in each all of the others in their order:
 *
 *   pack %1 16 0,1          buf %1 f32[32,40]   ->   buf %1 f32[3,32,16] from(.. of [32,40] at d1, 16*d0 +
 * d2) %1[k, n]            ->   %1[n div 16, k, n mod 16]
 *
 * So a tile of N columns reads what lies side by side, however large the buffer is.  A constant operand is
 * copied once, by who plans with the kernel; behind its last column are zeros.  A temp that is there
 * everywhere is stored so where it is made: its panels are full, for who copies it copies all of it. */
#include "step_int.h"

#include <string.h>

struct packing {
	const struct tir *p;
	struct runs r;
	int64_t width;
};

/* Mapped at most: each place is the element of that number. */
static bool
lies_as_it_comes(const struct tir *p, const struct tir_form *f)
{
	const struct ixv at = ixv_get(p->tx, f->at);
	bool same = f->rank == f->from_rank;

	for (int d = 0; same && d < f->rank; d++)
		same = at.i[d] == ix_axis(p->tx, f->place[d]);
	return same;
}

/* Would a last panel that is not full go over positions of a window that a map has? */
static bool
goes_over_map(const struct packing *k, const struct tir_form *f)
{
	const uint32_t last = k->r.n - 1;
	bool maps = false;

	for (int d = k->r.run[last].first; f && d <= k->r.run[last].last; d++)
		maps |= f->map[d] != MAP_none;
	return maps && k->r.extent[last] % k->width != 0;
}

static bool
may_pack(const struct packing *k, const struct step *s, struct err *e)
{
	const struct tir_buf *b = &k->p->buf[k->r.buf];

	if (!(b->role == BUF_OPERAND && b->scope == SCOPE_pack) &&
	    !(b->role == BUF_TEMP && b->scope == SCOPE_global))
		return refuse(e, s, "scope",
		    "the buffer is no constant from outside, and no temp that is there everywhere");
	if (b->role == BUF_TEMP && k->r.extent[k->r.n - 1] % k->width != 0)
		return refuse(e, s, "width",
		    "it does not divide the dimension of a temp: a panel would have places that nothing "
		    "makes");
	if (b->form && !lies_as_it_comes(k->p, b->form))
		return refuse(e, s, "form", "it is packed already");
	if (k->r.n + 1 > MAX_RANK)
		return refuse(e, s, "dimensions", "a panel's would be one too many");
	if (goes_over_map(k, b->form))
		return refuse(e, s, "map", "a panel that is not full would go over what is mapped");
	return (k->width > 1 && k->width <= k->r.extent[k->r.n - 1]) ||
	    refuse(e, s, "width", "panels of one element, or of more than the dimension has");
}

/* Which of the dense operand's elements each of the packed one's is. */
static struct tir_form *
form_of(const struct packing *k, const struct tir_buf *dense, const struct tir_buf *packed)
{
	struct tx *x = k->p->tx;
	struct tir_form *f = NEW(k->p->arena, struct tir_form);
	const uint32_t last = k->r.n - 1;
	ix_id number[MAX_RANK];

	f->rank = packed->rank;
	f->from_rank = dense->rank;
	for (int d = 0; d < dense->rank; d++)
		f->from_dim[d] = dense->dim[d];
	if (dense->form) {
		memcpy(f->from_dim, dense->form->from_dim, sizeof(f->from_dim));
		memcpy(f->map, dense->form->map, sizeof(f->map));
	}
	for (int d = 0; d < f->rank; d++)
		f->place[d] = tx_axis(x, AXIS_PAR, 0, packed->dim[d] - 1, IX_NONE);
	for (uint32_t i = 0; i < last; i++)
		number[i] = ix_axis(x, f->place[i + 1]);
	number[last] =
	    ix_add(x, ix_mulc(x, ix_axis(x, f->place[0]), k->width), ix_axis(x, f->place[last + 1]));
	f->at = runs_place(k->p, &k->r, number);
	return f;
}

static struct tir_buf
packed_buf(const struct packing *k)
{
	const struct tir_buf *dense = &k->p->buf[k->r.buf];
	struct tir_buf b = *dense;
	const uint32_t last = k->r.n - 1;

	b.rank = (int)k->r.n + 1;
	b.dim[0] = (k->r.extent[last] + k->width - 1) / k->width;
	for (uint32_t i = 0; i < last; i++)
		b.dim[i + 1] = k->r.extent[i];
	b.dim[last + 1] = k->width;
	if (dense->role == BUF_OPERAND)
		b.form = form_of(k, dense, &b);
	return b;
}

/* Where in the panels the element at that place lies. */
static ixv_id
panel_place(const struct packing *k, ixv_id where)
{
	struct tx *x = k->p->tx;
	const uint32_t last = k->r.n - 1;
	ix_id number[MAX_RANK], to[MAX_RANK];

	runs_numbers(k->p, &k->r, where, number);
	to[0] = ix_div(x, number[last], k->width);
	for (uint32_t i = 0; i < last; i++)
		to[i + 1] = number[i];
	to[last + 1] = ix_mod(x, number[last], k->width);
	return ixv_make(x, k->r.n + 1, to);
}

static ex_id
from_panel(void *self, struct tx *x, const struct ex *read, ixv_id where)
{
	const struct packing *k = self;

	return ex_load(x, read->type, read->tensor, read->tensor == k->r.buf ? panel_place(k, where) : where);
}

bool
step_pack(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct packing k = {.p = p, .width = s->number[0]};
	struct tx_subst sub = {.load = from_panel, .self = &k};
	buf_id buf;

	if (!find_buf(p, s, 0, &buf, e) || !find_runs(p, s, buf, &k.r, e) || !may_pack(&k, s, e))
		return false;
	tir_like(out, p);
	for (blk_id b = 0; b < out->n_blk; b++)
		for (uint32_t o = 0; o < out->blk[b].n_out; o++) {
			out->blk[b].at[o] = ixv_subst(p->tx, &sub, out->blk[b].at[o]);
			if (out->blk[b].out[o] == buf)
				out->blk[b].at[o] = panel_place(&k, out->blk[b].at[o]);
			out->blk[b].value[o] = ex_subst(p->tx, &sub, out->blk[b].value[o]);
		}
	out->buf[buf] = packed_buf(&k);
	for (st_id i = 0; i < p->n_st; i = p->st[i].end)
		tir_copy(out, p, i, &sub);
	return true;
}
