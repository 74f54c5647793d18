/* kernels/schedule/rule_across.c: a window that runs across memory joins whole rows: the loop along the
 * result's memory becomes the innermost:
 *
 *   for c, for y, for x                            for c, for y
 *     for ky, for kx                          ->     for ky, for kx
 *       %1[c, y, x] max= %0[c, y+ky, x+kx]             for x
 *                                                        %1[c, y, x] max= %0[c, y+ky, x+kx]
 *
 * So each element of the window is a loop over vectors, and the border is in the loops' bounds
 * (kernels/codegen/narrow.c). */
#include "rule_int.h"

enum { MOST_READS = 64, SHORT = 4 };

struct across {
	struct proposing *q;
	blk_id blk;
	struct nest nest;
	struct ex read[MOST_READS];
	uint32_t n_read;
};

static void
list_read(void *self, const struct ex *read)
{
	struct across *t = self;

	if (t->n_read < MOST_READS)
		t->read[t->n_read++] = *read;
}

/* How much speaks for loop k as the innermost: reads that go by one element, against those that stride. */
static double
votes_for(const struct across *t, uint32_t k)
{
	const struct tir *p = &t->q->p;
	double n = 0;
	int64_t c;

	for (uint32_t r = 0; r < t->n_read; r++) {
		bool affine =
		    ix_coef(p->tx, flat_place(p, t->read[r].tensor, t->read[r].at), t->nest.iter[k], &c);

		n += !affine ? -1 : c == 1 ? 1 : c ? -0.25 : 0;
	}
	return tx_axis_get(p->tx, t->nest.iter[k])->hi + 1 < SHORT ? n / 4 : n;
}

/* The loop along the result's memory; UINT32_MAX: none, or it is the innermost. */
static uint32_t
loop_along(const struct across *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *b = &p->blk[t->blk];
	const ix_id out = flat_place(p, b->out[0], b->at[0]);
	int64_t c;

	for (uint32_t k = 0; k + 1 < t->nest.n; k++)
		if (ix_coef(p->tx, out, t->nest.iter[k], &c) && c == 1)
			return k;
	return UINT32_MAX;
}

/* Does no loop of elements speak louder? */
static bool
is_across(const struct across *t, uint32_t v)
{
	const double along = votes_for(t, v) + 0.5;

	for (uint32_t k = 0; k < t->nest.n; k++)
		if (k != v && votes_for(t, k) >= along)
			return false;
	return along > 0;
}

static void
look_at(struct proposing *q, blk_id blk)
{
	const struct tir_block *b = &q->p.blk[blk];
	struct across *t;
	struct strbuf names;
	uint32_t v;

	if (b->comb == COMB_NONE || b->n_out != 1)
		return;
	t = NEW(q->p.arena, struct across);
	t->q = q;
	t->blk = blk;
	if (!find_nest_of(&q->p, blk, &t->nest) ||
	    window_size(&q->p, only_instance(&q->p, blk)) <= MOST_WINDOW)
		return;
	blk_reads(&q->p, b, list_read, t);
	v = loop_along(t);
	if (v == UINT32_MAX || t->nest.n - v > STEP_NAMES || !is_across(t, v))
		return;
	sb_init(&names, q->p.arena);
	for (uint32_t k = v + 1; k < t->nest.n; k++)
		sb_addf(&names, " %s", t->nest.loop[k].name);
	(void)propose(q, "reorder%.*s %s", STR_ARG(sb_str(&names)), t->nest.loop[v].name);
}

void
rule_across(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk; b++)
		if (!blk_joins_rows(&q->p, b)) /* rule_lanes.c has these */
			look_at(q, b);
}
