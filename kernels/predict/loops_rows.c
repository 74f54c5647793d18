/* kernels/predict/loops_rows.c: rows that a schedule wrote out are a loop again:
 *
 *   for j in 0..48  r0[j] = r0[j] + x[k] * w[48*k + j]             for r in 0..2, unrolled
 *   for j in 0..48  r1[j] = r1[j] + x[k + 128] * w[48*k + j]   ->    for j in 0..48  .. x[k + 128*r] * w[48*k
 * + j]
 */
#include "loops_int.h"

#include <math.h>

/* Loops around both. */
static uint32_t
shared_loops(const struct around *x, const struct around *y)
{
	uint32_t n = 0;

	while (n < x->n && n < y->n && x->axis[n] == y->axis[n])
		n++;
	return n;
}

/* The loop of x that is loop i of what has no loop of rows. */
static uint32_t
behind_rows(const struct before *x, uint32_t i)
{
	return i + (i >= x->row_loop);
}

static bool
is_near(double a, double b)
{
	return fabs(a - b) < 0.5;
}

static bool
has_same_loops(const struct program_leaf *x, const struct before *b, const struct program_leaf *y)
{
	bool same = x->n_loops == y->n_loops + (b->row_loop < LEAF_LOOPS);

	for (uint32_t i = 0; same && i < y->n_loops; i++) {
		const struct leaf_loop *u = &x->loop[behind_rows(b, i)], *v = &y->loop[i];

		same = is_near(u->extent, v->extent) && u->bind == v->bind && u->reduces == v->reduces;
	}
	return same;
}

static bool
moves_alike(const struct reading *r, const struct program_leaf *x, const struct program_leaf *y, uint32_t k)
{
	const struct leaf_access *u = &x->access[k], *v = &y->access[k];
	bool same = r->before.first[k].buf == r->first[k].buf && u->writes == v->writes &&
	    u->is_irregular == v->is_irregular && is_near(u->times, v->times);

	for (uint32_t i = 0; same && i < y->n_loops; i++)
		same = is_near((double)u->stride[behind_rows(&r->before, i)], (double)v->stride[i]);
	return same;
}

static bool
does_alike(const struct reading *r, const struct program_leaf *x, const struct program_leaf *y)
{
	bool same = x->kind == y->kind && x->pass == y->pass && x->n_accesses == y->n_accesses &&
	    has_same_loops(x, &r->before, y);

	for (int i = 0; same && i < OP_COUNT; i++)
		same = is_near(x->op[i], y->op[i]);
	for (uint32_t k = 0; same && k < x->n_accesses; k++)
		same = moves_alike(r, x, y, k);
	return same;
}

/* Elements from the one place to the other, loops apart. */
static float
step_between(const struct tx *x, ix_id from, ix_id to)
{
	return (float)(ix_base(x, to) - ix_base(x, from));
}

/* A loop of two rows inside of `at` loops. */
static void
add_row_loop(const struct reading *r, struct program_leaf *x, uint32_t at)
{
	for (uint32_t i = x->n_loops; i > at; i--) {
		x->loop[i] = x->loop[i - 1];
		for (uint32_t k = 0; k < x->n_accesses; k++)
			x->access[k].stride[i] = x->access[k].stride[i - 1];
	}
	x->loop[at] = (struct leaf_loop){2, BIND_UNROLLED, false};
	for (uint32_t k = 0; k < x->n_accesses; k++)
		x->access[k].stride[at] = step_between(r->p->tx, r->before.first[k].at, r->first[k].at);
	x->n_loops++;
}

bool
loops_is_row(struct reading *r)
{
	struct program_leaf *x;
	uint32_t shared = shared_loops(&r->before.around, r->around);

	if (r->out->n_leaves == 0)
		return false;
	x = &r->out->leaf[r->out->n_leaves - 1];
	if (!does_alike(r, x, r->leaf) || x->n_loops == LEAF_LOOPS)
		return false;
	x->is_guess |= r->leaf->is_guess;
	x->exps = fmin(x->exps, r->leaf->exps);
	x->divs = fmin(x->divs, r->leaf->divs);
	if (r->before.row_loop < LEAF_LOOPS) {
		x->loop[r->before.row_loop].extent += r->before.row_loop == shared;
		return r->before.row_loop == shared;
	}
	add_row_loop(r, x, shared);
	r->before.row_loop = shared;
	return true;
}

void
loops_tile(const struct reading *r, struct program_leaf *l)
{
	double lanes = r->target->simd_bytes / 4.0, rows = 1, columns = 1, depth = 1;

	for (uint32_t i = 0; i < l->n_loops; i++) {
		rows *= l->loop[i].bind == BIND_UNROLLED ? l->loop[i].extent : 1;
		columns *= l->loop[i].bind == BIND_VECTOR ? l->loop[i].extent : 1;
		depth *= l->loop[i].reduces ? l->loop[i].extent : 1;
	}
	l->tile = (struct leaf_tile){.rows = rows,
	    .vectors = ceil(columns / lanes),
	    .depth = depth,
	    .waste = ceil(columns / lanes) * lanes / columns};
}
