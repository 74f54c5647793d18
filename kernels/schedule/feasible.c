/* kernels/schedule/feasible.c: may these primitives share a kernel? */
#include "rule_int.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ANCHORS = 3, LEAST_FLOPS = 1 << 16 /* of a matmul of few rows, which is no anchor */ };

/* Heavy linear primitives, and for each of them the outermost statements around what the program makes of it.
 */
struct anchors {
	uint32_t node[MOST_ANCHORS], n;
	st_id *root[MOST_ANCHORS];
	uint32_t n_root[MOST_ANCHORS];
};

static bool
find_anchors(const struct graph *g, struct anchors *out, struct err *e)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (!node_is_anchor(g, &g->nodes[i]))
			continue;
		if (n < MOST_ANCHORS)
			out->node[n] = i;
		n++;
	}
	out->n = n;
	return n <= MOST_ANCHORS ||
	    err_set(
		e, ERR_INFEASIBLE, "anchors: %u heavy linear primitives; %d are the most", n, MOST_ANCHORS);
}

static bool
opaque_is_alone(const struct graph *g, struct err *e)
{
	for (uint32_t i = 0; i < g->n_nodes && g->n_nodes > 1; i++)
		if (prim_info[g->nodes[i].prim].class == CLASS_OPAQUE)
			return err_set(e, ERR_INFEASIBLE, "opaque: such a primitive runs alone");
	return true;
}

/* Is it the block that makes the tensor, or one that a step has made of that: t7, t7'p? */
static bool
makes_tensor(const struct tir_block *b, uint32_t tensor)
{
	char name[16];
	size_t n = (size_t)snprintf(name, sizeof(name), "t%u", tensor);

	return strncmp(b->name, name, n) == 0 && (b->name[n] == 0 || b->name[n] == '\'');
}

static void
find_roots(const struct tir *p, const struct graph *g, struct anchors *a)
{
	for (uint32_t k = 0; k < a->n; k++)
		a->root[k] = NEW_ARRAY(p->arena, st_id, p->n_st);
	for (st_id root = 0; root < p->n_st; root = p->st[root].end)
		for (uint32_t k = 0; k < a->n; k++)
			for (st_id i = root; i < p->st[root].end; i++)
				if (p->st[i].op == ST_block &&
				    makes_tensor(&p->blk[p->st[i].ref], g->nodes[a->node[k]].out[0].i)) {
					a->root[k][a->n_root[k]++] = root;
					break;
				}
}

/* Does node `to` need what node `from`, before it, makes? */
static bool
needs(struct arena *tmp, const struct graph *g, uint32_t from, uint32_t to)
{
	bool *of = NEW_ARRAY(tmp, bool, g->n_tensors);

	for (uint32_t k = 0; k < g->nodes[from].n_out; k++)
		of[g->nodes[from].out[k].i] = true;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_in; k++)
			for (uint32_t o = 0; of[g->nodes[i].in[k].i] && o < g->nodes[i].n_out; o++)
				of[g->nodes[i].out[o].i] = true;
	return of[g->nodes[to].out[0].i];
}

static bool
share_loop(const struct tir *p, const struct anchors *a, uint32_t x, uint32_t y)
{
	for (uint32_t i = 0; i < a->n_root[x]; i++)
		for (uint32_t j = 0; j < a->n_root[y]; j++)
			if (a->root[x][i] == a->root[y][j] && p->st[a->root[x][i]].op == ST_for)
				return true;
	return false;
}

/* Is the block in lanes, and what they read side by side or apart by one number? */
static bool
is_in_lanes(const struct tir *p, blk_id b)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, blk_instance(p, b), path);
	bool is = false;

	for (uint32_t k = 0; k < n; k++) {
		if (p->st[path[k]].op != ST_for || p->st[path[k]].bind != BIND_vector)
			continue;
		if (!loop_strides(p, b, path[k]))
			return false;
		is = true;
	}
	return is;
}

static bool
is_made_in_lanes(const struct tir *p, uint32_t tensor)
{
	for (blk_id b = 0; b < p->n_blk; b++)
		if (makes_tensor(&p->blk[b], tensor) && blk_stands(p, b) && is_in_lanes(p, b))
			return true;
	return false;
}

static bool
is_product(const struct graph *g, const struct node *n)
{
	return node_is_anchor(g, n) || (n->prim == PRIM_matmul && node_flops(g, n) >= LEAST_FLOPS);
}

static uint32_t
n_products(const struct graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += is_product(g, &g->nodes[i]);
	return n;
}

/* Products beside each other run in lanes as they would alone.  (Two matmuls by one weight do not: it has the
 * form that the first one wants.) */
static bool
all_in_lanes(const struct tir *p, const struct graph *g, struct err *e)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (is_product(g, &g->nodes[i]) && !is_made_in_lanes(p, g->nodes[i].out[0].i))
			return err_set(e, ERR_INFEASIBLE,
			    "lanes: a product beside another one would run element by element");
	return true;
}

/* Products are worth a common kernel where each takes up what the one before it has made while that is near:
 * in one loop around both.  With a barrier between them they may as well be kernels of their own. */
static bool
anchors_meet(struct arena *tmp, const struct spec *s, struct anchors *a, struct err *e)
{
	const struct schedule_target usual = {.lanes = 8, .n_vregs = 16, .l1_bytes = 32 << 10};
	struct strbuf trace;
	struct tir nest, p;

	sb_init(&trace, tmp);
	schedule_lower(tmp, s, false, &nest);
	schedule_propose(&nest, &usual, &trace, &p);
	if (!all_in_lanes(&p, &s->g, e))
		return false;
	find_roots(&p, &s->g, a);
	for (uint32_t y = 1; y < a->n; y++)
		for (uint32_t x = 0; x < y; x++)
			if (needs(tmp, &s->g, a->node[x], a->node[y]) && !share_loop(&p, a, x, y))
				return err_set(e, ERR_INFEASIBLE,
				    "pair: a heavy linear primitive waits for all of the one before it");
	return true;
}

bool
schedule_feasible(struct arena *tmp, const struct spec *s, struct err *e)
{
	struct anchors a = {.n = 0};

	if (s->g.n_nodes > SPEC_MAX_NODES)
		return err_set(e, ERR_INFEASIBLE, "size: %u primitives; a kernel has at most %d",
		    s->g.n_nodes, SPEC_MAX_NODES);
	return find_anchors(&s->g, &a, e) && opaque_is_alone(&s->g, e) &&
	    (n_products(&s->g) < 2 || anchors_meet(tmp, s, &a, e));
}
