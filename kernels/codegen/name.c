/* kernels/codegen/name.c: a value that a statement has twice gets a name.  Expressions are graphs, text is a
 * tree: (x - m) * (x - m) over a chain of maps would double with each.  Arms of guards are left alone, for
 * what stands in one may be evaluated there only. */
#include "codegen_int.h"

#include <stdlib.h>
#include <string.h>

struct naming {
	const struct tir *p;
	struct tir *out;
	uint32_t n;     /* expressions that there is room for; the next ones are of one statement */
	uint8_t *times; /* of each: as an operand, outside of arms, up to 2 */
	ex_id *new;     /* of each: what stands for it; EX_NONE: not asked yet */
};

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

/* The next statement finds nothing counted. */
static void
forget(struct naming *g, ex_id e)
{
	const struct ex *n = ex_get(g->p->tx, e);

	if (g->times[e] == 0)
		return;
	g->times[e] = 0;
	g->new[e] = EX_NONE;
	for (uint32_t k = 0; n->kind != EX_GUARD && k < n->n_arg; k++)
		forget(g, n->arg[k]);
}

static void
make_room(struct naming *g, uint32_t n)
{
	if (n <= g->n)
		return;
	n += n / 2;
	g->times = heap_resize(g->times, n);
	g->new = heap_resize(g->new, n * sizeof(*g->new));
	memset(g->times + g->n, 0, n - g->n);
	for (; g->n < n; g->n++)
		g->new[g->n] = EX_NONE;
}

static bool
name(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct naming *g = self;
	struct st s = p->st[i];

	if (s.op != ST_store)
		return false;
	g->out = out;
	make_room(g, s.value + 1);
	count(g, s.value);
	s.value = named(g, s.value);
	forget(g, p->st[i].value);
	tir_add(out, s);
	return true;
}

void
codegen_name(const struct tir *p, struct tir *out)
{
	struct naming g = {.p = p};

	tir_rewrite(out, p, name, &g);
	free(g.times);
	free(g.new);
}
