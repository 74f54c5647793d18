/* kernels/emit/cuda_apart.c: a stage that keeps its pass's linear stage from tiles goes into another pass.
 *
 * A row that is normalised before it is multiplied, a sigmoid before a convolution, a slice of the columns
 * behind one: fusion puts them into the product's pass, as a CPU's loops want it, but there the product
 * would be a plain loop of each block.  A barrier costs a few microseconds, the plain loop ten times the
 * tile. */
#include "gen_int.h"

enum { APART_PRODUCTS = 1 << 18 }; /* fewer are not worth a pass by themselves */

static double
products_of(const struct tile_pass *tp, const struct stage *s)
{
	double n = (double)tp->range;

	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		n *= (double)s->axis[k].extent;
	return n;
}

static bool
is_worth(const struct gen *g, const struct tile_pass *tp)
{
	double most = 0;

	for (uint32_t i = 0; i < tp->n_row; i++)
		if (g->p->stages[tp->row[i]].kind == STAGE_LINEAR)
			most = MAX_OF(most, products_of(tp, &g->p->stages[tp->row[i]]));
	return sched_get(g->p->sched, KNOB_apart, most >= APART_PRODUCTS) != 0;
}

/* Linear stages in tiles; *culprit: the first stage that keeps one from it and is not apart, or n_stages. */
static uint32_t
count_tiles(struct gen *g, const struct tile_prog *p, const bool *apart, uint32_t *culprit)
{
	uint32_t n = 0;

	g->p = p;
	g->tx = p->tx;
	*culprit = p->n_stages;
	for (uint32_t q = 0; q < p->n_passes; q++) {
		struct cuda_no_tile no;
		uint32_t i;

		n += cuda_tiles(g, &p->pass[q], &no);
		if (!no.culprit || *culprit < p->n_stages || !is_worth(g, &p->pass[q]))
			continue;
		i = (uint32_t)(no.culprit - p->stages);
		if (!apart[i])
			*culprit = i;
	}
	return n;
}

/* Each turn parts one stage more; the first program that has the most tiles is taken. */
const struct tile_prog *
cuda_part(struct gen *g, const struct tile_prog *p)
{
	bool *apart = NEW_ARRAY(g->a, bool, p->n_stages);
	uint32_t culprit, most = count_tiles(g, p, apart, &culprit);
	const struct tile_prog *best = p;

	while (culprit < p->n_stages) {
		struct tile_prog *next = NEW(g->a, struct tile_prog);
		struct err e;
		uint32_t n;

		apart[culprit] = true;
		if (!tile_make_apart(g->a, p->spec, p->sched, p->target, apart, next, &e))
			break;
		n = count_tiles(g, next, apart, &culprit);
		if (n > most) {
			most = n;
			best = next;
		}
	}
	return best;
}
