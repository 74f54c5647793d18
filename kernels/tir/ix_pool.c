/* kernels/tir/ix_pool.c: each index expression once: what is equal has one number. */
#include "tx_int.h"

static uint64_t
ix_hash(const struct ix *n)
{
	uint64_t h = mix64((uint64_t)n->kind ^ (uint64_t)n->c * 31);

	h = mix64(h ^ ((uint64_t)n->a << 32 | n->b));
	for (uint32_t k = 0; k < n->n_terms; k++)
		h = mix64(h ^ (uint64_t)n->terms[k].coef * 31 ^ n->terms[k].atom);
	if (n->kind == IX_VALUE)
		h = mix64(h ^ (uint64_t)n->lo * 7 ^ (uint64_t)n->hi);
	return h;
}

static bool
ix_same(const struct ix *p, const struct ix *q)
{
	if (p->kind != q->kind || p->c != q->c || p->a != q->a || p->b != q->b || p->n_terms != q->n_terms)
		return false;
	if (p->kind == IX_VALUE && (p->lo != q->lo || p->hi != q->hi))
		return false;
	for (uint32_t k = 0; k < p->n_terms; k++)
		if (p->terms[k].coef != q->terms[k].coef || p->terms[k].atom != q->terms[k].atom)
			return false;
	return true;
}

/* What is under a node, of those that are under its operands. */
static void
note_under(const struct tx *x, struct ix *n)
{
	n->axes = n->kind == IX_AXIS ? axis_bit(n->a) : n->kind == IX_VALUE ? x->ex[n->a].axes : 0;
	n->bufs = n->kind == IX_VALUE ? x->ex[n->a].bufs : 0;
	for (uint32_t k = 0; k < n->n_terms; k++) {
		n->axes |= x->ix[n->terms[k].atom].axes;
		n->bufs |= x->ix[n->terms[k].atom].bufs;
	}
	if (n->kind == IX_AXIS || n->kind == IX_LIN || n->kind == IX_VALUE)
		return;
	n->axes |= x->ix[n->a].axes;
	n->bufs |= x->ix[n->a].bufs;
	if (n->kind == IX_DIV || n->kind == IX_MOD)
		return;
	n->axes |= x->ix[n->b].axes;
	n->bufs |= x->ix[n->b].bufs;
}

ix_id
ix_intern(struct tx *x, const struct ix *n)
{
	struct tx_table *t = &x->ix_met;
	uint32_t hash = (uint32_t)ix_hash(n), k;

	tx_table_room(x->arena, t, x->n_ix);
	for (k = hash & (t->n - 1); t->slot[k].id; k = (k + 1) & (t->n - 1))
		if (t->slot[k].hash == hash && ix_same(&x->ix[t->slot[k].id - 1], n))
			return t->slot[k].id - 1;
	GROW(x->arena, x->ix, x->n_ix, x->cap_ix);
	x->ix[x->n_ix] = *n;
	note_under(x, &x->ix[x->n_ix]);
	if (n->n_terms)
		x->ix[x->n_ix].terms = arena_dup(x->arena, n->terms, n->n_terms * sizeof(*n->terms));
	t->slot[k] = (struct tx_slot){.id = ++x->n_ix, .hash = hash};
	return x->n_ix - 1;
}
