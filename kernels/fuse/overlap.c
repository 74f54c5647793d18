/* kernels/fuse/overlap.c: which result may lie on an operand's bytes.
 *
 * Operand x may be result y's memory where
 *   - x and y have the same element type and as many elements, and x comes dense;
 *   - one stage alone reads x, it is a map that makes y, and all its reads of x are at the very
 *     place that it writes: then nobody needs an element of x but the turn that overwrites it;
 *   - each element of y is made once: the stage runs over all outer axes of its pass, and not at
 *     the start of every call.
 * All of it is a property of index expressions, so a halo, a broadcast, a transpose, a norm's
 * second look at its row, or a tile that is made again excludes itself. */
#include "anchor.h"
#include "lower_int.h"

struct readers {
	uint32_t tensor;
	ix_id at; /* the one place that is allowed; IX_NONE: none */
	bool found, elsewhere;
};

static void
note(void *self, const struct ex *read)
{
	struct readers *r = self;

	if (read->tensor != r->tensor)
		return;
	if (read->ix == r->at)
		r->found = true;
	else
		r->elsewhere = true;
}

/* How an anchor makes the stage's element in its tile; NULL: the stage has loops of its own. */
static const struct anchor_epilogue *
epilogue_of(const struct tile_prog *p, uint32_t stage)
{
	for (uint32_t i = 0; i < p->n_stages; i++) {
		const struct anchor *n = p->stages[i].anchor;

		for (uint32_t k = 0; n && k < n->n_epilogue; k++)
			if (n->epilogue[k].stage == stage &&
			    p->tensors[p->stages[i].tensor].count ==
				p->tensors[p->stages[stage].tensor].count)
				return &n->epilogue[k];
	}
	return NULL;
}

/* Is outer axis u of the pass part of where the stage writes? */
static bool
is_bound(const struct tile_prog *p, const struct stage *s, ix_id at, uint32_t u)
{
	bool bound = ix_has(p->tx, at, p->pass[s->pass].outer[u].id);

	for (uint32_t k = 0; k < s->n_par; k++)
		bound |= s->axis[k].outer == (int)u;
	return bound;
}

/* Do no two steps of the pass make the same element?  Then the loops and the outer axes that
 * take part count just the elements. */
static bool
is_made_once(const struct tile_prog *p, const struct stage *s, ix_id at)
{
	const struct tile_pass *tp = &p->pass[s->pass];
	int64_t n = 1;

	for (uint32_t u = 0; u < tp->n_outer; u++) {
		if (tp->outer[u].extent > 1 && !is_bound(p, s, at, u))
			return false;
		n *= tp->outer[u].extent;
	}
	for (uint32_t k = 0; k < s->n_par; k++)
		n *= s->axis[k].outer < 0 ? s->axis[k].extent : 1;
	return !s->at_call && n == p->tensors[s->tensor].count;
}

/* Does the maker alone read the operand, and only where it writes? */
static bool
is_read_in_place(const struct tile_prog *p, uint32_t operand, uint32_t maker, const struct anchor_epilogue *e)
{
	struct readers r = {.tensor = operand};

	for (uint32_t i = 0; i < p->n_stages; i++) {
		const struct stage *s = &p->stages[i];
		ex_id body = i == maker && e ? e->body : s->body;

		r.at = i != maker ? IX_NONE : e ? e->at : s->out;
		if (body != EX_NONE)
			ex_reads(p->tx, body, note, &r);
		r.at = IX_NONE;
		if (s->init != EX_NONE)
			ex_reads(p->tx, s->init, note, &r);
		if (s->target != IX_NONE)
			ex_reads(p->tx, ex_index(p->tx, s->target), note, &r);
		r.elsewhere |=
		    s->anchor && (s->anchor->a_tensor == operand || s->anchor->b_tensor == operand);
	}
	return r.found && !r.elsewhere;
}

static bool
may_overlap(const struct tile_prog *p, uint32_t result, uint32_t operand)
{
	const struct tile_tensor *y = &p->tensors[result], *x = &p->tensors[operand];

	if (y->at != AT_RESULT || x->at != AT_OPERAND || x->pack || x->type != y->type ||
	    x->count != y->count || y->stage == UINT32_MAX)
		return false;
	const struct stage *s = &p->stages[y->stage];
	const struct anchor_epilogue *e = epilogue_of(p, y->stage);

	return s->kind == STAGE_MAP && s->tensor == result && s->tensor2 == UINT32_MAX && !s->packs &&
	    is_made_once(p, s, e ? e->at : s->out) && is_read_in_place(p, operand, y->stage, e);
}

void
overlaps_find(struct tile_prog *p)
{
	uint32_t cap = 0;

	for (uint32_t y = 0; y < p->n_tensors; y++)
		for (uint32_t x = 0; x < p->n_tensors; x++) {
			if (!may_overlap(p, y, x))
				continue;
			GROW(p->arena, p->overlaps, p->n_overlaps, cap);
			p->overlaps[p->n_overlaps++] =
			    (struct overlap){p->tensors[y].index, p->tensors[x].index};
			p->tensors[y].shares = p->tensors[x].shares = true;
		}
}
