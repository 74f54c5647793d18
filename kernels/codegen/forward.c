/* kernels/codegen/forward.c: two stores to one element, one right behind the other, are one store: what the
 * second reads of the element is what the first has put there.  What stores an element's own value is gone.
 *
 *   store %1[i] = -inf
 *   store %1[i] = max(%1[i], a)        ->   store %1[i] = max(a, b)
 *   store %1[i] = max(%1[i], b)
 *
 * So does a window that was unrolled. */
#include "codegen_int.h"

struct forward {
	const struct tir *p;
	uint32_t buf;
	ixv_id at;
	ex_id value; /* of the element; EX_NONE: no store is held back */
	uint32_t other;
};

static void
note_other(void *self, const struct ex *read)
{
	struct forward *f = self;

	f->other += read->tensor == f->buf && read->at != f->at;
}

/* Is the next statement a store to the same element, which reads no other one of that buffer? */
static bool
goes_on(struct forward *f, st_id i)
{
	const struct tir *p = f->p;
	const struct st *s = &p->st[i], *next = &p->st[i + 1];

	if (s->op != ST_store || i + 1 >= p->n_st || next->op != ST_store || next->ref != s->ref ||
	    next->at != s->at || !same_body(p, i, i + 1))
		return false;
	f->buf = s->ref;
	f->at = s->at;
	f->other = 0;
	ex_reads(p->tx, next->value, note_other, f);
	return f->other == 0;
}

static ex_id
held(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct forward *f = self;

	return read->tensor == f->buf && at == f->at ? f->value : ex_load(x, read->type, read->tensor, at);
}

/* What joins nothing with one element is that element: max(-inf, a).  (0 + a is simplified when it is built,
 * where a zero's sign does not matter.) */
static ex_id
without_identity(struct tx *x, ex_id e)
{
	const struct ex n = *ex_get(x, e);

	if (n.kind != EX_MAP || (n.prim != PRIM_max && n.prim != PRIM_min) || !dtype_is_float(n.type))
		return e;
	const double none = n.prim == PRIM_max ? -__builtin_inf() : __builtin_inf();
	const ex_id swapped[] = {n.arg[1], n.arg[0]};

	for (uint32_t k = 0; k < 2; k++) {
		const struct ex *a = ex_get(x, n.arg[k]);

		if (a->kind == EX_CONST && a->real == none)
			return n.arg[1 - k];
	}
	/* The first operand is asked whether it is a number: of a chain of joins an element, not what has
	 * been joined, whose answer a compiler would follow through the whole chain. */
	const struct ex *a = ex_get(x, n.arg[0]);

	return a->kind == EX_MAP && a->prim == n.prim ? ex_map(x, n.prim, n.type, 2, swapped) : e;
}

/* Does the store put there what is there, or the loop nothing else?  So do lanes that a tail leaves out. */
static bool
is_idle(const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];

	if (s->op == ST_for) {
		for (st_id k = i + 1; k < s->end; k = p->st[k].end)
			if (!is_idle(p, k))
				return false;
		return true;
	}
	if (s->op != ST_store)
		return false;
	const struct ex *v = ex_get(p->tx, without_identity(p->tx, s->value));

	return v->kind == EX_READ && v->tensor == s->ref && v->at == s->at;
}

static bool
forward(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct forward *f = self;
	struct tx_subst sub = {.load = held, .self = f};
	struct st s = p->st[i];

	if (f->value == EX_NONE && is_idle(p, i))
		return true;
	if (s.op != ST_store)
		return false;
	f->p = p;
	if (f->value != EX_NONE) {
		f->buf = s.ref;
		sub.bufs = buf_bit(s.ref);
		f->at = s.at;
		s.value = without_identity(p->tx, ex_subst(p->tx, &sub, s.value));
		f->value = EX_NONE;
	}
	if (goes_on(f, i))
		f->value = s.value;
	else
		tir_add(out, s);
	return true;
}

void
codegen_forward(const struct tir *p, struct tir *out)
{
	struct forward f = {.value = EX_NONE};

	tir_rewrite(out, p, forward, &f);
}
