/* kernels/codegen/afresh.c: what is done with a tile's sums when they are there may read the same of an
 * operand for every tile (a bias, where one tile has all columns).  A compiler reads that once, before all
 * tiles, and keeps it in registers that the sums need: one of twelve of them is stored and loaded again in
 * each step then, which takes twice the time.  Where registers are few for both, it is read through a pointer
 * that is new to each tile:
 *
 *   for k in 0..64: r5[0] = r5[0] + ..                for k in 0..64: r5[0] = r5[0] + ..
 *   K_ROW8(y0[8*i1]) = r5[0] + K_ROW8(x2[0]);    ->   const float *p1 = x2;
 *                                                     K_HIDE_PLACE(p1);
 *                                                     K_ROW8(y0[8*i1]) = r5[0] + K_ROW8(p1[0]); */
#include "codegen_int.h"

struct tile_end {
	const struct tir *p;
	const struct wide *w;
	axis_id tile;   /* the loop around */
	int64_t *parts; /* of each operand: vectors that are read of it, the same for all tiles; < 0: others,
	                   too */
	struct accesses l;
};

/* Vectors of the rows that the body has, and the most of one row. */
static int64_t
vectors_of_rows(const struct tir *p, const struct wide *w, st_id first, st_id end, int64_t *most)
{
	int64_t all = 0;

	*most = 0;
	for (st_id i = first; i < end; i = p->st[i].end) {
		const buf_id b = p->st[i].op == ST_alloc ? p->st[i].ref : BUF_NONE;
		const int64_t n = b != BUF_NONE && w->buf[b] ? wide_parts(p->buf[b].dim[0], w->buf[b]) : 0;

		all += n;
		*most = MAX_OF(*most, n);
	}
	return all;
}

/* Of a statement behind the sums; in a loop of its own it is no such. */
static void
note_reads(struct tile_end *t, st_id i, st_id around)
{
	const struct tir *p = t->p;
	const st_id up = p->st[i].up;
	const uint32_t lanes = p->st[up].up == around ? t->w->loop[up] : 0;
	int64_t from, to;

	list_accesses(p, i, &t->l);
	for (uint32_t k = 0; k < t->l.n; k++) {
		const struct access a = t->l.at[k];
		int64_t *parts = &t->parts[a.buf];

		if (p->buf[a.buf].role != BUF_OPERAND)
			continue;
		if (!lanes || ixv_has(p->tx, a.place, t->tile) || a.stores)
			*parts = -1;
		else if (*parts >= 0 && ix_is_const(p->tx, p->st[up].from, &from) &&
		    ix_is_const(p->tx, p->st[up].to, &to) && ixv_has(p->tx, a.place, p->st[up].axis))
			*parts = MAX_OF(*parts, wide_parts(to - from, lanes));
	}
}

bool
find_afresh(struct arena *a, const struct tir *p, const struct wide *w, uint32_t registers, st_id first,
    st_id i, bool *out)
{
	const st_id around = first < p->n_st ? p->st[first].up : ST_NONE;
	const st_id end = around == ST_NONE ? first : p->st[around].end;
	struct tile_end t = {.p = p, .w = w};
	int64_t read = 0, most, rows;

	if (!registers || around == ST_NONE || p->st[around].op != ST_for || i == first)
		return false;
	rows = vectors_of_rows(p, w, first, end, &most);
	t.tile = p->st[around].axis;
	t.parts = NEW_ARRAY(a, int64_t, p->n_buf + 1);
	for (st_id k = i; k < end; k++)
		if (p->st[k].op == ST_store || p->st[k].op == ST_let || p->st[k].op == ST_call)
			note_reads(&t, k, around);
	for (buf_id b = 0; b < p->n_buf; b++)
		read += MAX_OF(t.parts[b], (int64_t)0);
	if (!read || rows == 0 || rows + most + 1 + read <= registers)
		return false;
	for (buf_id b = 0; b < p->n_buf; b++)
		out[b] = t.parts[b] > 0;
	return true;
}
