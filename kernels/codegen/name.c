/* kernels/codegen/name.c: a value that a statement has twice gets a name.  Expressions are graphs, text is a
 * tree: (x - m) * (x - m) over a chain of maps would double with each.  Arms of guards are left alone, for
 * what stands in one may be evaluated there only. */
#include "codegen_int.h"

#include <stdlib.h>

struct naming {
	const struct tir *p;
	struct tir *out;
	uint32_t n;     /* expressions up to the value */
	uint8_t *times; /* of each: as an operand, outside of arms, up to 2 */
	ex_id *new;     /* of each: what stands for it; EX_NONE: not asked yet */
};

enum { FEW = 32 };

struct maps {
	ex_id met[FEW];
	uint32_t n;
};

/* Is a map met twice?  Of so few that there is no need to count them. */
static bool
has_twice(const struct tx *x, ex_id e, struct maps *m)
{
	const struct ex *n = ex_get(x, e);

	if (n->kind == EX_MAP) {
		for (uint32_t k = 0; k < m->n; k++)
			if (m->met[k] == e)
				return true;
		m->met[m->n++] = e;
	}
	for (uint32_t k = 0; n->kind != EX_GUARD && k < n->n_arg; k++)
		if (has_twice(x, n->arg[k], m))
			return true;
	return false;
}

static void
count(struct naming *g, ex_id e)
{
	const struct ex *n = ex_get(g->p->tx, e);

	if (g->times[e] < 2)
		g->times[e]++;
	if (g->times[e] > 1)
		return;
	for (uint32_t k = 0; n->kind != EX_GUARD && k < n->n_arg; k++)
		count(g, n->arg[k]);
}

static ex_id
named(struct naming *g, ex_id e)
{
	struct tx *x = g->p->tx;
	const struct ex n = *ex_get(x, e);
	ex_id arg[3] = {EX_NONE, EX_NONE, EX_NONE}, to;
	bool same = true;

	if (g->new[e] != EX_NONE)
		return g->new[e];
	for (uint32_t k = 0; k < n.n_arg; k++) {
		arg[k] = n.kind == EX_GUARD ? n.arg[k] : named(g, n.arg[k]);
		same = same && arg[k] == n.arg[k];
	}
	to = same ? e : ex_map(x, n.prim, n.type, n.n_arg, arg);
	if (n.kind == EX_MAP && g->times[e] > 1 && ex_get(x, to)->kind == EX_MAP) {
		tir_add(g->out, (struct st){.op = ST_let, .ref = g->out->n_var, .value = to});
		to = ex_var(x, n.type, g->out->n_var++);
	}
	return g->new[e] = to;
}

static bool
name(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct naming *g = self;
	struct maps few = {.n = 0};
	struct st s = p->st[i];

	if (s.op != ST_store || (ex_get(p->tx, s.value)->size <= FEW && !has_twice(p->tx, s.value, &few)))
		return false;
	*g = (struct naming){.p = p, .out = out, .n = s.value + 1};
	g->times = heap_alloc(g->n);
	g->new = heap_alloc(g->n * sizeof(*g->new));
	for (uint32_t e = 0; e < g->n; e++)
		g->new[e] = EX_NONE;
	count(g, s.value);
	s.value = named(g, s.value);
	tir_add(out, s);
	free(g->times);
	free(g->new);
	return true;
}

void
codegen_name(const struct tir *p, struct tir *out)
{
	struct naming g;

	tir_rewrite(out, p, name, &g);
}
