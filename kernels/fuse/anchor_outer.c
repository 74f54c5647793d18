/* kernels/fuse/anchor_outer.c: how a pass around linear stages steps: which axes its range runs
 * over, how many elements of the last one a step takes, and blocks of K.
 *
 * The register tile wants rows and columns inside a step, so that a panel of the packed factor is
 * used by many rows while it is near: the column is never outer, and of the rows only those
 * before a step would have STEP_ROWS or fewer. */
#include "anchor_int.h"

#include <string.h>

enum { STEP_ROWS = 2048, LEAST_ROWS = 48, LEAST_STEPS = 4, LEAST_TILES = 4 };

static bool
is_row(const struct tile_prog *p, const struct stage *s, uint32_t k)
{
	return !ex_has(p->tx, s->b, s->axis[k].id);
}

/* Rows of one step if its last outer axis were k, one element at a time. */
static int64_t
rows_behind(const struct tile_prog *p, const struct stage *s, uint32_t k)
{
	int64_t rows = 1;

	for (uint32_t i = k + 1; i + 1 < s->n_par; i++)
		if (is_row(p, s, i))
			rows *= s->axis[i].extent;
	return rows;
}

static bool
may_be_outer(const struct tile_prog *p, const struct stage *s, uint32_t k)
{
	if (!s->packed)
		return true;
	if (k + 1 >= s->n_par || (s->wino && s->axis[k].id == s->slides[1]))
		return false;
	for (uint32_t i = 0; i < k; i++)
		if (is_row(p, s, i) && (!is_row(p, s, k) || rows_behind(p, s, i) <= STEP_ROWS))
			return false;
	return true;
}

static bool
drop(struct tile_prog *p, const struct tile_pass *t, int u)
{
	for (uint32_t m = 0; m < t->n_row; m++) {
		const struct stage *s = &p->stages[t->row[m]];

		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].outer == u && !may_be_outer(p, s, k))
				return true;
	}
	return false;
}

static void
renumber(struct tile_prog *p, const struct tile_pass *t, int from, int to)
{
	for (uint32_t m = 0; m < t->n_row; m++) {
		struct stage *s = &p->stages[t->row[m]];

		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].outer == from)
				s->axis[k].outer = to;
	}
}

void
anchors_outer(struct tile_prog *p)
{
	for (uint32_t q = 0; q < p->n_passes; q++) {
		struct tile_pass *t = &p->pass[q];
		uint32_t n = 0;

		t->by_columns = columns_step(p, t);
		for (uint32_t u = 0; u < t->n_outer; u++) {
			bool out = !t->n_rings && !t->by_columns && drop(p, t, (int)u);

			renumber(p, t, (int)u, out ? -1 : (int)n);
			if (!out)
				t->outer[n++] = t->outer[u];
		}
		t->n_outer = n;
	}
}

/* ---- blocks ------------------------------------------------------------------------------- */
struct touched {
	const struct tile_prog *p;
	int64_t most;
};

static void
note_read(void *self, const struct ex *read)
{
	struct touched *t = self;

	t->most = MAX_OF(t->most, t->p->tensors[read->tensor].count);
}

/* Scratch of the pass's stages, as if one step did all. */
static int64_t
kept_bytes(const struct tile_prog *p, const struct tile_pass *t)
{
	int64_t bytes = 0;

	for (uint32_t m = 0; m < t->n_row; m++) {
		const struct tile_tensor *x = &p->tensors[p->stages[t->row[m]].tensor];

		if (x->at == AT_LOCAL)
			bytes += x->count * (int64_t)dtype_size(x->type);
	}
	return bytes;
}

/* A window's tile spans rows of two axes: of the outer one a step has as many as fill tiles. */
static int64_t
pair_rows(const struct tile_prog *p, const struct tile_pass *t, int64_t block, int64_t last)
{
	int64_t field = sched_get(p->sched, KNOB_field, 2);

	for (uint32_t m = 0; m < t->n_row; m++) {
		const struct stage *s = &p->stages[t->row[m]];

		if (s->packed && ex_has(p->tx, s->a, s->axis[s->n_par - 1].id))
			return MIN_OF((block + field - 1) / field * field, last);
	}
	return block;
}

int64_t
anchor_block(const struct tile_prog *p, const struct tile_pass *t)
{
	int64_t steps = 1, block = 0, last = t->n_outer ? t->outer[t->n_outer - 1].extent : 1;

	for (uint32_t u = 0; u < t->n_outer; u++)
		steps *= t->outer[u].extent;
	int64_t kept = kept_bytes(p, t) / steps;

	for (uint32_t m = 0; m < t->n_row; m++) {
		const struct stage *s = &p->stages[t->row[m]];
		struct touched a = {.p = p};
		int64_t rows = 1;

		if (!s->packed)
			continue;
		for (uint32_t k = 0; k + 1 < s->n_par; k++)
			if (s->axis[k].outer < 0 && is_row(p, s, k))
				rows *= s->axis[k].extent;
		ex_reads(p->tx, s->a, note_read, &a);
		int64_t bytes = MAX_OF(a.most / steps * 4 + kept, (int64_t)4);
		int64_t want = MIN_OF(p->target->l2_bytes / 2 / bytes, steps / LEAST_STEPS);

		want = MAX_OF(want, (LEAST_ROWS + rows - 1) / rows);

		block = block ? MIN_OF(block, want) : want;
	}
	if (!block)
		return 0;
	block = MIN_OF(block, last);
	int64_t n = (last + block - 1) / block;

	for (uint32_t m = 0; m < t->n_row; m++)
		if (p->stages[t->row[m]].wino)
			return winograd_block(&p->stages[t->row[m]], t, block);
	return pair_rows(p, t, (last + n - 1) / n, last);
}

/* ---- blocks of K ------------------------------------------------------------------------------ */
static int64_t
divisor_upto(int64_t n, int64_t most)
{
	for (int64_t d = MIN_OF(n, most); d > 1; d--)
		if (n % d == 0)
			return d;
	return 1;
}

/* The most products of a block; 0: K stays whole. */
static int64_t
block_products(const struct binding *b)
{
	const struct anchor *n = b->n;
	int64_t row = (int64_t)n->nv * n->lanes * 4, l1 = b->p->target->l1_bytes;

	if (n->a_vector || n->wino || n->n_m < (int64_t)n->mr * LEAST_TILES)
		return 0;
	return sched_get(b->p->sched, KNOB_kc, n->n_k_total * row > l1 * 3 ? l1 / 2 / row : 0);
}

void
binding_k_blocks(struct binding *b)
{
	struct anchor *n = b->n;
	int64_t most = block_products(b), inner = 1, nr = (int64_t)n->nv * n->lanes;
	uint32_t k = n->n_k;

	n->k_chunk = 0;
	if (!most || n->n_k_total <= most)
		return;
	while (k > 0 && inner * n->k[k - 1].extent <= most)
		inner *= n->k[--k].extent;
	int64_t chunk = k ? divisor_upto(n->k[k - 1].extent, most / inner) : 0;

	if (!chunk || chunk * inner * 4 < most) /* blocks so short would only move sums about */
		return;
	n->k_chunk = chunk;
	n->k_inner = n->n_k - k;
	n->sums = anchor_tensor(b->p, n->n_m * nr, UINT32_MAX);
	take_local(b->p, n->sums, n->n_m * nr);
}
