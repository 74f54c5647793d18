/* kernels/fuse/beside.c: passes that do not wait for each other run side by side, as one.
 *
 * A *side* is what hangs together in a spec, by its primitives.  Sides have passes of their own, and passes
 * that wait for equally many others are one *group*: one function over a joined range, no barrier inside. The
 * joined range counts units; each pass has as many of them as its share of the work, one pass after the
 * other, so that threads which split the range evenly are done together, and mostly work on one pass alone.
 * Of a pass with n units and m steps, a cut before unit u is one before step u*m/n, rounded: any pieces of
 * the range take every step once.
 *
 *   {conv a} {conv b, half the work}:  group of pass 0 in 683 units, pass 1 in 341
 *   {a0 -> a1} {b}:                    group of a0 and b; then a1 */
#include "lower_int.h"

enum { UNITS = 1024 }; /* of a joined range: a thread's share is exact to a thousandth */

/* What an element of a stage costs, in sixteenths of a cycle of one thread, about: only ratios count. */
enum { COST_PRODUCT = 1, COST_LOOSE_PRODUCT = 4, COST_ELEMENT = 6, COST_SERIAL = 32 };

/* ---- sides ------------------------------------------------------------------------------------- */
/* Primitives that hang together.  Not the stages that do: what two of them compute anew each, inlined, would
 * be no link, but one sweep over it is better than two. */
static uint32_t *
parts_of(struct arena *tmp, const struct graph *g)
{
	uint32_t *part = NEW_ARRAY(tmp, uint32_t, g->n_tensors + 1);

	for (uint32_t t = 0; t < g->n_tensors; t++)
		part[t] = t;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		for (uint32_t k = 1; k < n->n_out; k++)
			sets_join(part, n->out[0].i, n->out[k].i);
		for (uint32_t k = 0; k < n->n_in; k++)
			if (graph_tensor(g, n->in[k])->role == ROLE_INNER)
				sets_join(part, n->out[0].i, n->in[k].i);
	}
	return part;
}

static bool
has_work(const struct stage *s)
{
	return s->kind != STAGE_MAP;
}

/* The number of each stage's side, in order of their first stages. */
void
sides_find(struct tile_prog *p)
{
	struct arena tmp = {0};
	const uint32_t n_spec = p->spec->g.n_tensors;
	uint32_t *part = parts_of(&tmp, &p->spec->g),
		 *root = NEW_ARRAY(&tmp, uint32_t, p->n_stages + n_spec + 1);
	bool *works = NEW_ARRAY(&tmp, bool, p->n_stages + 1);

	p->side = NEW_ARRAY(p->arena, uint32_t, p->n_stages + 1);
	for (uint32_t i = 0; i < p->n_stages + n_spec; i++)
		root[i] = i; /* stages, then the spec's tensors */
	for (uint32_t i = 0; i < p->n_stages; i++) {
		struct stage_read *r;
		uint32_t n = stage_reads(p, &p->stages[i], &tmp, &r), t = p->stages[i].tensor;

		if (t < n_spec)
			sets_join(root, i, p->n_stages + sets_root(part, t));
		for (uint32_t k = 0; k < n; k++)
			sets_join(root, i, p->tensors[r[k].tensor].stage);
	}
	p->n_sides = p->n_busy_sides = 0;
	for (uint32_t i = 0; i < p->n_stages; i++) {
		uint32_t *side = &p->side[i];

		*side = sets_root(root, i) == i ? p->n_sides++ : p->side[sets_root(root, i)];
		p->n_busy_sides += has_work(&p->stages[i]) && !works[*side];
		works[*side] |= has_work(&p->stages[i]);
	}
	arena_fini(&tmp);
}

bool
sides_apart(const struct tile_prog *p)
{
	return sched_get(p->sched, KNOB_beside, p->n_busy_sides > 1 && !p->target->is_cuda);
}

bool
sides_allowed(const struct tile_prog *p, struct err *e)
{
	if (!p->target->is_cuda || !sched_get(p->sched, KNOB_beside, 0))
		return true;
	return err_set(
	    e, ERR_INFEASIBLE, "beside: on a GPU streams run kernels side by side, not one launch");
}

/* ---- groups ------------------------------------------------------------------------------------ */
static double
work_of(const struct tile_prog *p, const struct stage *s)
{
	double n = stage_work(s);

	switch (s->kind) {
	case STAGE_LINEAR:
		return n * (s->packed ? COST_PRODUCT : COST_LOOSE_PRODUCT);
	case STAGE_MAP:
	case STAGE_REDUCE:
		return n * (COST_ELEMENT + (double)ex_get(p->tx, s->body)->flops);
	case STAGE_ARG:
	case STAGE_SCAN:
	case STAGE_TOPK:
	case STAGE_SCATTER:
		return n * COST_SERIAL;
	}
	return n;
}

/* Passes that make what the stage reads run before its own. */
static uint32_t
level_for(struct tile_prog *p, uint32_t q, uint32_t stage, const uint32_t *level, struct arena *tmp)
{
	struct stage_read *r;
	uint32_t n = stage_reads(p, &p->stages[stage], tmp, &r), least = 0;

	for (uint32_t k = 0; k < n; k++) {
		const struct stage *maker = &p->stages[p->tensors[r[k].tensor].stage];

		if (!maker->at_call && maker->pass != q)
			least = MAX_OF(least, level[maker->pass] + 1);
	}
	return least;
}

static uint32_t
level_of(struct tile_prog *p, uint32_t q, const uint32_t *level, struct arena *tmp)
{
	const struct tile_pass *tp = &p->pass[q];
	uint32_t least = 0;

	for (uint32_t i = 0; i < tp->n_call; i++)
		least = MAX_OF(least, level_for(p, q, tp->call[i], level, tmp));
	for (uint32_t i = 0; i < tp->n_row; i++)
		least = MAX_OF(least, level_for(p, q, tp->row[i], level, tmp));
	return least;
}

/* Units in proportion to the work, at least one each. */
static void
deal_units(const struct tile_prog *p, struct tile_group *g)
{
	double work[TILE_PASSES] = {0}, all = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct tile_pass *tp = &p->pass[g->pass[i]];

		for (uint32_t m = 0; m < tp->n_row; m++)
			work[i] += work_of(p, &p->stages[tp->row[m]]);
		all += work[i];
	}
	for (uint32_t i = 0; i < g->n; i++)
		g->units[i] = MAX_OF((int64_t)(work[i] / MAX_OF(all, 1.0) * UNITS + 0.5), (int64_t)1);
}

void
groups_form(struct tile_prog *p)
{
	struct arena tmp = {0};
	uint32_t level[TILE_PASSES] = {0};

	p->n_levels = 0;
	for (uint32_t q = 0; q < p->n_passes; q++) {
		level[q] = level_of(p, q, level, &tmp);
		p->n_levels = MAX_OF(p->n_levels, level[q] + 1);
	}
	p->n_groups = sides_apart(p) ? p->n_levels : p->n_passes;
	for (uint32_t q = 0; q < p->n_passes; q++) {
		struct tile_group *g = &p->group[sides_apart(p) ? level[q] : q];

		g->pass[g->n++] = q;
	}
	for (uint32_t i = 0; i < p->n_groups; i++)
		deal_units(p, &p->group[i]);
	arena_fini(&tmp);
}

int64_t
group_range(const struct tile_prog *p, const struct tile_group *g)
{
	int64_t n = 0;

	if (g->n == 1)
		return p->pass[g->pass[0]].range;
	for (uint32_t i = 0; i < g->n; i++)
		n += g->units[i];
	return n;
}
