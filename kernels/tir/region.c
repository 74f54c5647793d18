/* kernels/tir/region.c: the interval of an index while axes run over their ranges, by eliminating one axis
 * after the other, the innermost first.
 *
 * A bound of the innermost axis is an expression over outer axes.  It is put in before these go, so
 * that what hangs on the same outer axis cancels in the normal form: x - 4*o over x in 4*o .. 4*o + 3
 * is 0 .. 3. */
#include "tir.h"

/* The axis to eliminate, and its least and largest value. */
struct edge {
	struct tx *x;
	axis_id axis;
	ix_id low, high;
	bool exact;
};

static ix_id bound(struct edge *e, ix_id i, bool up);

ix_id
ix_outer(struct tx *x, ix_id a, ix_id b, bool largest)
{
	const struct ix *d = ix_get(x, ix_add(x, a, ix_mulc(x, b, -1)));

	if (d->lo >= 0)
		return largest ? a : b;
	if (d->hi <= 0)
		return largest ? b : a;
	return largest ? ix_max(x, a, b) : ix_min(x, a, b);
}

/* Does the atom count as a minimum in a sum where it has this sign? */
static bool
acts_as_min(const struct ix *atom, int64_t coef)
{
	return (atom->kind == IX_MIN) == (coef > 0);
}

/* i with term k, a min or max, replaced by one of its operands. */
static ix_id
with_operand(struct tx *x, ix_id i, struct ix_term t, ix_id operand)
{
	ix_id rest = ix_add(x, i, ix_mulc(x, t.atom, -t.coef));

	return ix_add(x, rest, ix_mulc(x, operand, t.coef));
}

/* c + min(a, b) is min(c + a, c + b): in a sum where c hangs on the axis too, that keeps them together. */
static bool
bound_apart(struct edge *e, ix_id i, const struct ix *n, bool up, ix_id *out)
{
	for (uint32_t k = 0; k < n->n_terms; k++) {
		struct ix_term t = n->terms[k];
		const struct ix atom = *ix_get(e->x, t.atom);

		if ((atom.kind != IX_MIN && atom.kind != IX_MAX) || !ix_has(e->x, t.atom, e->axis))
			continue;
		bool is_min = acts_as_min(&atom, t.coef);
		ix_id a = bound(e, with_operand(e->x, i, t, atom.a), up);
		ix_id b = bound(e, with_operand(e->x, i, t, atom.b), up);

		e->exact &= is_min != up;
		*out = ix_outer(e->x, a, b, !is_min);
		return true;
	}
	return false;
}

static ix_id
bound_sum(struct edge *e, ix_id i, bool up)
{
	const struct ix n = *ix_get(e->x, i);
	uint32_t n_moving = 0;
	ix_id sum, apart;

	for (uint32_t k = 0; k < n.n_terms; k++)
		n_moving += ix_has(e->x, n.terms[k].atom, e->axis);
	if (n_moving > 1 && bound_apart(e, i, &n, up, &apart))
		return apart;
	e->exact &= n_moving <= 1; /* each at its own extreme */
	sum = ix_const(e->x, n.c);
	for (uint32_t k = 0; k < n.n_terms; k++) {
		int64_t c = n.terms[k].coef;
		ix_id b = bound(e, n.terms[k].atom, up == (c > 0));

		sum = ix_add(e->x, sum, ix_mulc(e->x, b, c));
	}
	return sum;
}

/* Does i take every value between its bounds while the axis runs? */
static bool
steps_by_one(const struct edge *e, ix_id i)
{
	int64_t coef;

	return ix_coef(e->x, i, e->axis, &coef) && (coef == 1 || coef == -1);
}

static ix_id
bound_mod(struct edge *e, const struct ix *n, bool up)
{
	struct tx *x = e->x;
	ix_id lo = bound(e, n->a, false), hi = bound(e, n->a, true);
	int64_t span;

	if (ix_div(x, lo, n->c) == ix_div(x, hi, n->c)) /* within one period */
		return ix_mod(x, up ? hi : lo, n->c);
	if (!ix_is_const(x, ix_add(x, hi, ix_mulc(x, lo, -1)), &span) || span < n->c - 1 ||
	    !steps_by_one(e, n->a))
		e->exact = false;
	return ix_const(x, up ? n->c - 1 : 0);
}

/* The least value of i over the axis, or (up) the largest. */
static ix_id
bound(struct edge *e, ix_id i, bool up)
{
	const struct ix n = *ix_get(e->x, i);

	if (!ix_has(e->x, i, e->axis))
		return i;
	switch (n.kind) {
	case IX_AXIS:
		return up ? e->high : e->low;
	case IX_LIN:
		return bound_sum(e, i, up);
	case IX_DIV:
		return ix_div(e->x, bound(e, n.a, up), n.c);
	case IX_MOD:
		return bound_mod(e, &n, up);
	case IX_MIN:
	case IX_MAX:
		/* the largest of minima is below the minimum of the largest */
		if (up == (n.kind == IX_MIN) && ix_has(e->x, n.a, e->axis) && ix_has(e->x, n.b, e->axis))
			e->exact = false;
		return ix_outer(e->x, bound(e, n.a, up), bound(e, n.b, up), n.kind == IX_MAX);
	case IX_VALUE:
		e->exact = false;
		return ix_const(e->x, up ? n.hi : n.lo);
	}
	return i;
}

void
ix_region(struct tx *x, uint32_t n, const struct tir_range *r, ix_id i, ix_id *lo, ix_id *hi, bool *exact)
{
	*lo = *hi = i;
	*exact = true;
	while (n-- > 0) {
		if (!ix_has(x, *lo, r[n].axis) && !ix_has(x, *hi, r[n].axis))
			continue;
		struct edge e = {.x = x,
		    .axis = r[n].axis,
		    .low = r[n].from,
		    .high = ix_addc(x, r[n].to, -1),
		    .exact = true};

		*lo = bound(&e, *lo, false);
		*hi = bound(&e, *hi, true);
		*exact &= e.exact;
	}
}

void
tir_region(const struct tir *p, st_id at, st_id below, ix_id i, ix_id *lo, ix_id *hi, bool *exact)
{
	struct tir_range r[TIR_DEPTH];
	st_id path[TIR_DEPTH];
	uint32_t n_path = tir_path(p, below, path), n = 0;

	for (uint32_t k = 0; k < n_path; k++) {
		const struct st *s = &p->st[path[k]];

		if (path[k] > at && s->op == ST_for)
			r[n++] = (struct tir_range){.axis = s->axis, .from = s->from, .to = s->to};
	}
	ix_region(p->tx, n, r, i, lo, hi, exact);
}
