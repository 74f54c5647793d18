/* kernels/fuse/ring_bind.c: rings of rows in a pass that is being bound: how many rows a step takes, how
 * high the rings are, and what a read of one becomes.
 *
 * Row r of a ring is at r mod height; inside the row, elements lie as in the whole tensor.  So a read
 * at flat index i, whose row is i div stride, becomes (row mod height) * stride + i mod stride. */
#include "anchor.h"
#include "lower_int.h"
#include "ring.h"

enum {
	LEAST_PIXELS = 48, /* rows of a register tile in one step */
	ROW_WORK = 4096,   /* elements that a step makes where there is no tile */
	LEAST_STEPS = 4,
	BLOCK_BYTES = 4 << 20, /* scratch of a step */
};

/* ---- the block --------------------------------------------------------------------------------- */
/* Rows of the tile in one row of the pass. */
static int64_t
pixels(const struct tile_prog *p, const struct stage *s)
{
	int64_t n = 1;

	for (uint32_t k = 0; k + 1 < s->n_par; k++)
		if (s->axis[k].outer < 0 && !ex_has(p->tx, s->b, s->axis[k].id))
			n *= s->axis[k].extent;
	return n;
}

/* Scratch of a step that takes so many rows of the pass. */
static double
step_bytes(const struct tile_prog *p, const struct tile_pass *tp, int64_t block)
{
	double bytes = 0;

	for (uint32_t m = 0; m < tp->n_row; m++) {
		const struct stage *s = &p->stages[tp->row[m]];
		const struct tile_tensor *t = &p->tensors[s->tensor];
		const struct pass_ring *r = s->level ? &tp->ring[s->level - 1] : NULL;
		double row = t->at == AT_LOCAL ? (double)t->count * (double)dtype_size(t->type) : 0;

		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].outer >= 0)
				row /= (double)s->axis[k].extent;
		bytes += row * (double)(r ? r->scale * (block - 1) + r->hi - r->lo + 1 : block);
	}
	return bytes;
}

int64_t
ring_block(const struct tile_prog *p, const struct tile_pass *tp)
{
	int64_t last = tp->outer[tp->n_outer - 1].extent, block = 1, work = 0;
	bool tiles = false;

	for (uint32_t m = 0; m < tp->n_row; m++) {
		const struct stage *s = &p->stages[tp->row[m]];
		int64_t n = p->tensors[s->tensor].count;

		for (uint32_t u = 0; u < tp->n_outer; u++)
			n /= tp->outer[u].extent;
		work = MAX_OF(work, n);
		if (!s->packed)
			continue;
		tiles = true;
		if (s->wino)
			block = MAX_OF(block, (int64_t)s->wino->m);
		block = MAX_OF(block,
		    MAX_OF((LEAST_PIXELS + pixels(p, s) - 1) / pixels(p, s),
			sched_get(p->sched, KNOB_field, 2)));
	}
	if (!tiles)
		block = MIN_OF(ROW_WORK / MAX_OF(work, (int64_t)1), last / LEAST_STEPS);
	block = MAX_OF(MIN_OF(block, last), (int64_t)1);
	while (block > 1 && step_bytes(p, tp, block) > BLOCK_BYTES)
		block--;
	return block;
}

void
rings_shape(struct tile_prog *p, struct tile_pass *tp)
{
	for (uint32_t k = 0; k < tp->n_rings; k++) {
		struct pass_ring *r = &tp->ring[k];

		r->most = r->scale * (tp->block - 1) + r->hi - r->lo + 1;
		r->at = tx_axis(p->tx, AXIS_OUTER, 0, r->extent - 1, IX_NONE);
		r->n = tx_axis(p->tx, AXIS_OUTER, 1, r->most, IX_NONE);
	}
}

static const struct pass_ring *
ring_of(const struct tile_prog *p, const struct stage *s)
{
	return s->level ? &p->pass[s->pass].ring[s->level - 1] : NULL;
}

int64_t
ring_rows(const struct tile_prog *p, const struct stage *s)
{
	const struct pass_ring *r = ring_of(p, s);

	return r ? r->most : p->pass[s->pass].block;
}

/* ---- indices --------------------------------------------------------------------------------------- */
ix_id
ring_row(struct tile_prog *p, const struct stage *s, ix_id row)
{
	struct tx *x = p->tx;
	const struct tile_pass *tp = &p->pass[s->pass];
	const struct pass_ring *r = ring_of(p, s);

	if (p->tensors[s->tensor].ring)
		return ix_mod(x, row, r->most);
	if (r)
		return ix_add(x, row, ix_mulc(x, ix_axis(x, r->at), -1));
	return ix_add(x, row, ix_mulc(x, ix_axis(x, tp->outer[tp->n_outer - 1].id), -tp->block));
}

ix_id
ring_axis(struct tile_prog *p, const struct stage *s, bool counts, axis_id *loop)
{
	struct tx *x = p->tx;
	const struct pass_ring *r = ring_of(p, s);
	ix_id at = ix_axis(x, r->at), n = ix_axis(x, r->n);

	*loop = AXIS_NONE;
	if (r->most == 1)
		return at;
	if (counts) {
		*loop = tx_axis(x, AXIS_PAR, 0, r->most - 1, n);
		return ix_add(x, at, ix_axis(x, *loop));
	}
	struct axis part = {.role = AXIS_PAR,
	    .lo = 0,
	    .hi = r->extent - 1,
	    .from = at,
	    .limit = ix_add(x, at, n),
	    .is_exact = true};
	*loop = tx_axis_like(x, &part);
	return ix_axis(x, *loop);
}

/* ---- reads ----------------------------------------------------------------------------------------- */
struct rewriting {
	struct tile_prog *p;
	struct ring_guards guards;
};

static ex_id
read_ring(struct rewriting *w, const struct ex *read)
{
	struct tile_prog *p = w->p;
	struct tx *x = p->tx;
	const struct stage *m = &p->stages[p->tensors[read->tensor].stage];
	int64_t stride = 1, extent = 1;

	for (uint32_t k = 0; k < m->n_par; k++)
		if (m->axis[k].outer == (int)p->pass[m->pass].n_outer - 1) {
			stride = m->axis[k].stride;
			extent = m->axis[k].extent;
		}
	ix_id row = ring_place(x, p->arena, read->ix, stride, extent, &w->guards);
	ix_id rest = ring_place(x, p->arena, read->ix, 1, stride, &w->guards);

	return ex_read(x, read->type, read->tensor, ix_add(x, ix_mulc(x, ring_row(p, m, row), stride), rest));
}

/* A read of a step's own part, behind guards that say more of the index than it says itself.  Such a
 * read is done: it goes under a number behind all tensors, which bind.c takes off again. */
static ex_id
read_part(struct rewriting *w, const struct ex *read)
{
	struct tile_prog *p = w->p;
	struct tx *x = p->tx;
	const struct tile_tensor *t = &p->tensors[read->tensor];
	const struct stage *m = &p->stages[t->stage];
	ix_id at = ix_const(x, 0);

	for (uint32_t k = 0; k < m->n_par; k++) {
		const struct stage_axis *a = &m->axis[k];
		bool first = a->stride * a->extent == t->count;

		if (a->local == 0)
			continue;
		ix_id i = ring_place(x, p->arena, read->ix, a->stride, first ? 0 : a->extent, &w->guards);

		at = ix_add(x, at, ix_mulc(x, a->outer >= 0 ? ring_row(p, m, i) : i, a->local));
	}
	return ex_read(x, read->type, read->tensor + p->n_tensors, at);
}

static ex_id
rewrite(struct rewriting *w, ex_id e)
{
	struct tx *x = w->p->tx;
	const struct ex n = *ex_get(x, e);
	struct ring_guards was = w->guards;
	ex_id arg[3];
	bool same = true;

	if (n.kind == EX_READ && w->p->tensors[n.tensor].ring)
		return read_ring(w, &n);
	if (n.kind == EX_READ)
		return w->guards.n && w->p->tensors[n.tensor].at == AT_LOCAL ? read_part(w, &n) : e;
	for (uint32_t k = 0; k < n.n_arg; k++) {
		if (n.kind == EX_GUARD && k == 0)
			ring_guard_add(&w->guards, &n);
		arg[k] = rewrite(w, n.arg[k]);
		same = same && arg[k] == n.arg[k];
		w->guards = was;
	}
	if (same)
		return e;
	if (n.kind == EX_GUARD)
		return ex_guard(x, n.ix, n.lo, n.hi, arg[0], arg[1]);
	return ex_map(x, n.prim, n.type, n.n_arg, arg);
}

static void
rewrite_one(void *self, ex_id *e)
{
	struct rewriting *w = self;

	*e = rewrite(w, *e);
}

void
ring_reads(struct tile_prog *p, struct stage *s)
{
	struct rewriting w = {.p = p};

	if (!p->target->is_cuda)
		stage_each_ex(s, rewrite_one, &w);
}
