/* kernels/fuse/split.c: a long reduction with few results (a mean over a plane, a sum of all) would
 * run on one thread and add up a million floats in a row.  It becomes
 *   partial[block][result] = the block's elements joined, one block a step of the pass's range
 *   result                 = partial joined over the blocks, in their order
 * The second part is small enough to be made again at the start of each reader's pass.
 *
 * On a GPU a linear stage with a long sum and too few tiles to occupy it is split likewise; there the
 * second part is a pass of its own, with the epilogue. */
#include "lower_int.h"

#include <string.h>

enum { MAX_BLOCKS = 64, WORTH = 65536, ENOUGH_ROWS = 8, MIN_BLOCK_WORK = 2048 };
/* Of tiles on a GPU: results in one, how many keep it busy, least products of a part. */
enum { TILE_POINTS = 4096, BUSY_TILES = 128, LEAST_PART = 256, SHORT_PART = 8 };

struct contiguous {
	const struct tx *x;
	axis_id axis;
	bool found;
};

static void
note_contiguous(void *self, const struct ex *read)
{
	struct contiguous *c = self;
	int64_t coef;

	c->found |= ix_coef(c->x, read->ix, c->axis, &coef) && coef == 1;
}

/* Results that make rows of their own: all but the axis that runs through the operand's memory. */
static double
outer_results(const struct lower *l, const struct stage *s)
{
	double n = 1;

	for (uint32_t k = 0; k < s->n_par; k++) {
		struct contiguous c = {.x = l->tx, .axis = s->axis[k].id};

		ex_reads(l->tx, s->body, note_contiguous, &c);
		if (!c.found)
			n *= (double)s->axis[k].extent;
	}
	return n;
}

static bool
wants_split(const struct lower *l, const struct stage *s)
{
	if (s->kind != STAGE_REDUCE || s->n_red == 0 || l->p->target->strict)
		return false;
	if (sched_get(l->p->sched, KNOB_split, 1) == 0)
		return false;
	return stage_work(s) >= WORTH && outer_results(l, s) < ENOUGH_ROWS &&
	    l->p->tensors[s->tensor].count <= 4096;
}

/* The largest divisor of n that is at most `most`. */
static int64_t
divisor_upto(int64_t n, int64_t most)
{
	int64_t best = 1;

	for (int64_t d = 1; d <= most && d <= n; d++)
		if (n % d == 0)
			best = d;
	return best;
}

static int64_t
choose_blocks(const struct lower *l, struct stage *s)
{
	int64_t most = sched_get(l->p->sched, KNOB_split, MAX_BLOCKS);
	double work = stage_work(s) / MIN_BLOCK_WORK;

	if ((double)most > work)
		most = MAX_OF((int64_t)work, (int64_t)2);
	int64_t nb = divisor_upto(s->axis[s->n_par].extent, most);

	while (nb * 4 < most && s->n_red > 1 && stage_merge_axes(l->tx, s, s->n_par))
		nb = divisor_upto(s->axis[s->n_par].extent, most);
	return nb * 4 >= most ? nb : most;
}

/* The first reduction axis, of extent e, becomes block and place in the block; where e is no
 * multiple, the last block's rest joins the identity. */
static void
cut_axis(struct lower *l, struct stage *s, int64_t nb)
{
	struct tx *x = l->tx;
	struct stage_axis *k = &s->axis[s->n_par];
	int64_t e = k->extent, size = (e + nb - 1) / nb;

	if (e % nb) {
		axis_id longer = tx_axis(x, AXIS_RED, 0, nb * size - 1, IX_NONE);
		ix_id *to = NEW_ARRAY(l->p->arena, ix_id, k->id + 1);
		for (axis_id a = 0; a <= k->id; a++)
			to[a] = a == k->id ? ix_axis(x, longer) : IX_NONE;
		stage_subst(x, s, &(struct tx_subst){.to = to, .n = k->id + 1});
		k->id = longer;
		k->extent = nb * size;
		s->body = ex_guard(x, ix_axis(x, longer), 0, e, s->body,
		    lower_identity(l, s->prim, ex_get(x, s->body)->type));
	}
	if (size > 1)
		stage_split_axis(x, s, s->n_par, size);
}

/* Axis n_par (a reduction's) becomes the first parallel one. */
static void
block_axis_first(struct lower *l, struct stage *s, int64_t stride)
{
	struct stage_axis b = s->axis[s->n_par];
	axis_id id = tx_axis(l->tx, AXIS_PAR, 0, b.extent - 1, IX_NONE);
	ix_id *to = NEW_ARRAY(l->p->arena, ix_id, b.id + 1);

	for (axis_id a = 0; a <= b.id; a++)
		to[a] = a == b.id ? ix_axis(l->tx, id) : IX_NONE;
	stage_subst(l->tx, s, &(struct tx_subst){.to = to, .n = b.id + 1});
	memmove(&s->axis[1], &s->axis[0], s->n_par * sizeof(b));
	s->axis[0] = (struct stage_axis){.id = id, .extent = b.extent, .stride = stride, .outer = -1};
	s->n_par++;
	s->n_red--;
}

static uint32_t
partial_tensor(struct lower *l, const struct stage *s, int64_t nb)
{
	struct tile_prog *p = l->p;
	bool wide = s->kind == STAGE_REDUCE && (s->prim == PRIM_sum || s->prim == PRIM_wsum);
	enum dtype t = s->acc == DT_f32 && wide ? DT_f64 : s->acc;

	GROW(p->arena, p->tensors, p->n_tensors, p->cap_tensors);
	p->tensors[p->n_tensors] =
	    (struct tile_tensor){.type = t, .count = nb * p->tensors[s->tensor].count, .stage = UINT32_MAX};
	return p->n_tensors++;
}

/* What is left of the stage: the sum over blocks of the partial results. */
static void
make_combination(struct lower *l, struct stage *s, uint32_t partial, int64_t nb)
{
	struct tx *x = l->tx;
	int64_t count = l->p->tensors[s->tensor].count;
	enum dtype t = l->p->tensors[partial].type;
	axis_id block = tx_axis(x, AXIS_RED, 0, nb - 1, IX_NONE);
	ix_id at = ix_mulc(x, ix_axis(x, block), count);

	for (uint32_t k = 0; k < s->n_par; k++) {
		s->axis[k].id = tx_axis(x, AXIS_PAR, 0, s->axis[k].extent - 1, IX_NONE);
		at = ix_add(x, at, ix_mulc(x, ix_axis(x, s->axis[k].id), s->axis[k].stride));
	}
	s->axis[s->n_par] = (struct stage_axis){.id = block, .extent = nb, .outer = -1};
	s->n_red = 1;
	s->acc = t;
	s->body = ex_read(x, t, partial, at);
	if (s->kind != STAGE_LINEAR)
		return;
	s->kind = STAGE_REDUCE;
	s->prim = PRIM_sum;
	s->a = s->b = EX_NONE;
	s->adds_parts = true;
}

/* ---- linear stages on a GPU ------------------------------------------------------------------------ */
/* Parts of the sum where the schedule names none: enough for as many tiles as keep a GPU busy, each long
 * enough to be worth its tile. */
static int64_t
usual_parts(const struct tile_prog *p, const struct stage *s, int64_t depth)
{
	double tiles = (double)p->tensors[s->tensor].count / TILE_POINTS;
	double parts = MIN_OF(BUSY_TILES / MAX_OF(tiles, 1.0), (double)depth / LEAST_PART);

	return tiles > BUSY_TILES / 4 ? 1 : (int64_t)parts;
}

static uint32_t
longest_red(const struct stage *s)
{
	uint32_t best = s->n_par;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		if (s->axis[k].extent > s->axis[best].extent)
			best = k;
	return best;
}

static int64_t
linear_blocks(struct lower *l, struct stage *s)
{
	int64_t depth = 1;

	if (s->kind != STAGE_LINEAR || !l->p->target->is_cuda || l->p->target->strict || s->n_red == 0 ||
	    s->acc != DT_f32 || s->n_par + s->n_red + 2 > STAGE_AXES)
		return 1;
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		depth *= s->axis[k].extent;
	uint32_t longest = longest_red(s);
	struct stage_axis first = s->axis[s->n_par];
	int64_t most = sched_get(l->p->sched, KNOB_splitk, usual_parts(l->p, s, depth));

	s->axis[s->n_par] = s->axis[longest];
	s->axis[longest] = first;
	return divisor_upto(s->axis[s->n_par].extent, MIN_OF(most, s->axis[s->n_par].extent / SHORT_PART));
}

static int64_t
blocks_of(struct lower *l, struct stage *s)
{
	if (s->sweeps)
		return 1;
	if (s->kind == STAGE_LINEAR)
		return linear_blocks(l, s);
	return wants_split(l, s) ? choose_blocks(l, s) : 1;
}

void
split_reductions(struct lower *l)
{
	struct tile_prog *p = l->p;
	struct stage *old = p->stages;
	uint32_t n_old = p->n_stages;

	p->stages = NULL;
	p->n_stages = p->cap_stages = 0;
	for (uint32_t i = 0; i < n_old; i++) {
		struct stage s = old[i];
		int64_t nb = blocks_of(l, &s);

		if (nb > 1) {
			struct stage part = s;
			part.tensor = partial_tensor(l, &s, nb);
			cut_axis(l, &part, nb);
			block_axis_first(l, &part, p->tensors[s.tensor].count);
			make_combination(l, &s, part.tensor, nb);
			GROW(p->arena, p->stages, p->n_stages, p->cap_stages);
			p->tensors[part.tensor].stage = p->n_stages;
			p->stages[p->n_stages++] = part;
		}
		GROW(p->arena, p->stages, p->n_stages, p->cap_stages);
		p->tensors[s.tensor].stage = p->n_stages;
		if (s.tensor2 != UINT32_MAX)
			p->tensors[s.tensor2].stage = p->n_stages;
		p->stages[p->n_stages++] = s;
	}
}
