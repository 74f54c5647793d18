/* kernels/codegen/divide.c: x / d with a d that the innermost loop does not change is x * (1 / d), and the
 * compiler makes the reciprocal before the loop.  Where a last bit may differ, and for divisors that come out
 * of sums and roots: the reciprocal of a tiny one could overflow. */
#include "codegen_int.h"

#include <stdlib.h>

struct dividing {
	const struct tir *p;
	st_id loop; /* the innermost around the statement */
	ex_id *new; /* of each expression: what stands for it; EX_NONE: not asked yet */
	uint32_t n;
};

static bool
adds_to(const struct tir *p, const struct st *s)
{
	const struct ex *v = ex_get(p->tx, s->value);
	bool itself = false;

	for (uint32_t k = 0; k < v->n_arg && v->kind == EX_MAP; k++) {
		const struct ex *a = ex_get(p->tx, v->arg[k]);

		itself |= a->kind == EX_READ && a->tensor == s->ref && a->at == s->at;
	}
	return v->kind == EX_MAP && v->prim == PRIM_add && itself;
}

/* Is all that is stored in the buffer a sum, or a root? */
static bool
holds_sums(const struct tir *p, buf_id b)
{
	bool any = false;

	if (p->buf[b].role != BUF_TEMP)
		return false;
	for (st_id i = 0; i < p->n_st; i++) {
		const struct st *s = &p->st[i];

		if (s->op != ST_store || s->ref != b)
			continue;
		const struct ex *v = ex_get(p->tx, s->value);
		bool is_root = v->kind == EX_MAP && v->prim == PRIM_sqrt;

		if (!is_root && !adds_to(p, s) && v->kind != EX_CONST)
			return false;
		any |= v->kind != EX_CONST;
	}
	return any;
}

struct reads {
	const struct dividing *q;
	bool stored;
};

static void
look_stored(void *self, const struct ex *read)
{
	struct reads *r = self;

	r->stored |= is_within(r->q->p, r->q->loop, r->q->p->st[r->q->loop].end, ST_store, read->tensor);
}

/* The same in all iterations of the loop? */
static bool
stays(const struct dividing *q, ex_id e)
{
	struct reads r = {.q = q};

	ex_reads(q->p->tx, e, look_stored, &r);
	return !ex_has(q->p->tx, e, q->p->st[q->loop].axis) && !r.stored;
}

static bool
takes_reciprocal(const struct dividing *q, const struct ex *n)
{
	const struct ex *d;

	if (n->kind != EX_MAP || n->prim != PRIM_div || n->type != DT_f32 ||
	    ex_get(q->p->tx, n->arg[0])->kind == EX_CONST || stays(q, n->arg[0]) || !stays(q, n->arg[1]))
		return false;
	d = ex_get(q->p->tx, n->arg[1]);
	return (d->kind == EX_MAP && d->prim == PRIM_sqrt) ||
	    (d->kind == EX_READ && holds_sums(q->p, d->tensor));
}

static ex_id
divided(struct dividing *q, ex_id e)
{
	struct tx *x = q->p->tx;
	const struct ex n = *ex_get(x, e);
	ex_id arg[3] = {EX_NONE, EX_NONE, EX_NONE}, to = e;
	bool same = true;

	if (q->new[e] != EX_NONE)
		return q->new[e];
	for (uint32_t k = 0; k < n.n_arg; k++) {
		arg[k] = divided(q, n.arg[k]);
		same = same && arg[k] == n.arg[k];
	}
	if (takes_reciprocal(q, &n)) {
		ex_id by[2] = {
		    arg[0], ex_map(x, PRIM_div, n.type, 2, (ex_id[]){ex_real(x, n.type, 1), arg[1]})};

		to = ex_map(x, PRIM_mul, n.type, 2, by);
	} else if (!same) {
		to = n.kind == EX_GUARD ? ex_guard(x, n.ix, n.lo, n.hi, arg[0], arg[1])
					: ex_map(x, n.prim, n.type, n.n_arg, arg);
	}
	return q->new[e] = to;
}

static bool
divide(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct dividing q = {.p = p, .loop = ST_NONE, .n = p->st[i].value + 1};
	struct st s = p->st[i];
	st_id path[TIR_DEPTH];
	uint32_t n;

	(void)self;
	if (s.op != ST_store)
		return false;
	n = tir_path(p, i, path);
	for (uint32_t k = 0; k < n; k++)
		if (p->st[path[k]].op == ST_for)
			q.loop = path[k];
	if (q.loop == ST_NONE)
		return false;
	q.new = heap_alloc(q.n * sizeof(*q.new));
	for (uint32_t e = 0; e < q.n; e++)
		q.new[e] = EX_NONE;
	s.value = divided(&q, s.value);
	tir_add(out, s);
	free(q.new);
	return true;
}

void
codegen_divide(const struct tir *p, struct tir *out)
{
	if (tx_is_strict(p->tx))
		*out = *p;
	else
		tir_rewrite(out, p, divide, NULL);
}
