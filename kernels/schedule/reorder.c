/* kernels/schedule/reorder.c: reorder LOOPS: loops of one chain, each the only child of the one before, take
 * this order; loops of the chain that are not named stay in their places.
 *
 * Points of a result are free.  What is carried keeps its order, and that with reductions; reductions change
 * theirs among themselves where that changes no bit, or sums need not be the interpreter's. */
#include "step_int.h"

#include <string.h>

struct reorder {
	st_id chain[TIR_DEPTH]; /* from the outermost that is named to the innermost */
	uint32_t n_chain;
	st_id order[TIR_DEPTH]; /* as they are to be */
	bool named[TIR_DEPTH];
};

static bool
find_chain(const struct tir *p, const struct step *s, struct reorder *t, struct err *e)
{
	st_id first = ST_NONE, last = 0, at[STEP_NAMES];

	for (uint32_t k = 0; k < s->n_name; k++) {
		if (!find_loop(p, s, k, &at[k], e))
			return false;
		for (uint32_t q = 0; q < k; q++)
			if (at[q] == at[k])
				return refuse(e, s, "names", "a loop is named twice");
		first = MIN_OF(first, at[k]);
		last = MAX_OF(last, at[k]);
	}
	for (st_id i = first; i <= last; i++) {
		if (p->st[i].op != ST_for || p->st[i].end != p->st[first].end || t->n_chain == TIR_DEPTH)
			return refuse(
			    e, s, "chain", "the loops are not each the only child of the one before");
		for (uint32_t k = 0; k < s->n_name; k++)
			t->named[t->n_chain] |= at[k] == i;
		t->chain[t->n_chain++] = i;
	}
	for (uint32_t k = 0, n = 0; k < t->n_chain; k++)
		t->order[k] = t->named[k] ? at[n++] : t->chain[k];
	return true;
}

static bool
bounds_hold(const struct tir *p, const struct step *s, const struct reorder *t, struct err *e)
{
	for (uint32_t k = 0; k < t->n_chain; k++)
		for (uint32_t q = k + 1; q < t->n_chain; q++) {
			const struct st *l = &p->st[t->order[k]];
			axis_id inner = p->st[t->order[q]].axis;

			if (!binds_nest(l->bind, p->st[t->order[q]].bind))
				return refuse(e, s, "nested",
				    "loops are bound so that they cannot stand in that order");
			if (ix_has(p->tx, l->from, inner) || ix_has(p->tx, l->to, inner))
				return refuse(
				    e, s, "bounds", "a loop's bounds would hang on one inside of it");
		}
	return true;
}

/* Loops q after r in the chain that would change places: what of the instance do they count? */
static bool
pair_holds(const struct tir *p, const struct step *s, const struct st *i, axis_id q, axis_id r, bool alone,
    struct err *e)
{
	enum comb c = p->blk[i->ref].comb;
	bool red_q = binds_kind(p, i, q, ITER_REDUCE), red_r = binds_kind(p, i, r, ITER_REDUCE);
	bool car_q = binds_kind(p, i, q, ITER_CARRIED), car_r = binds_kind(p, i, r, ITER_CARRIED);

	if ((car_q && (car_r || red_r)) || (car_r && red_q))
		return refuse(e, s, "carried", "an order that a block rests on");
	if (red_q && red_r && (binds_kind(p, i, q, ITER_SPACE) || binds_kind(p, i, r, ITER_SPACE)))
		return refuse(e, s, "mixed",
		    "a loop counts points and elements at once: the first element would not be first");
	if (!alone && (red_q || red_r || car_q || car_r))
		return refuse(e, s, "order", "several blocks stand below, and one reduces over a loop");
	if (red_q && red_r && tx_is_strict(p->tx) && !comb_info[c].exact)
		return refuse(e, s, "sum", "a sum in another order is not strict");
	return true;
}

static uint32_t
instances_below(const struct tir *p, st_id at)
{
	uint32_t n = 0;

	for (st_id i = at + 1; i < p->st[at].end; i++)
		n += p->st[i].op == ST_block;
	return n;
}

static bool
orders_hold(const struct tir *p, const struct step *s, const struct reorder *t, struct err *e)
{
	bool alone = instances_below(p, t->chain[0]) == 1;

	for (uint32_t k = 0; k < t->n_chain; k++)
		if (hands_on(p, t->chain[k]))
			return refuse(e, s, "ring", "iterations hand rows on to each other");
	for (st_id i = t->chain[0]; i < p->st[t->chain[0]].end; i++)
		for (uint32_t k = 0; k < t->n_chain && p->st[i].op == ST_block; k++)
			for (uint32_t q = k + 1; q < t->n_chain; q++)
				if (t->order[k] > t->order[q] &&
				    !pair_holds(p, s, &p->st[i], p->st[t->order[k]].axis,
					p->st[t->order[q]].axis, alone, e))
					return false;
	return true;
}

static bool
reorder_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct reorder *t = self;
	struct copy c;

	if (i != t->chain[0])
		return false;
	c = copy_begin(p, out);
	for (uint32_t k = 0; k < t->n_chain; k++) {
		const struct st *l = &p->st[t->order[k]];
		struct tx_subst sub = {.to = c.to, .n = c.n_to};

		c.to[l->axis] = ix_axis(p->tx,
		    tir_for(
			out, l->name, ix_subst(p->tx, &sub, l->from), ix_subst(p->tx, &sub, l->to), l->bind));
	}
	copy_range(&c, t->chain[t->n_chain - 1] + 1, p->st[t->chain[0]].end);
	for (uint32_t k = 0; k < t->n_chain; k++)
		tir_close(out);
	copy_end(&c);
	return true;
}

bool
step_reorder(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct reorder t = {.n_chain = 0};

	if (s->n_name < 2)
		return refuse(e, s, "names", "two loops or more are reordered");
	if (!find_chain(p, s, &t, e) || !bounds_hold(p, s, &t, e) || !orders_hold(p, s, &t, e))
		return false;
	tir_rewrite(out, p, reorder_here, &t);
	for (st_id i = t.chain[0]; i < t.chain[0] + t.n_chain; i++)
		if (!loop_is_free(out, i, out->st[i].bind, s, e))
			return false;
	return true;
}
