/* worker/gpu_fake/graph.c: captured launches of the fake driver: what each of them runs behind, and a replay
 * in some order that this allows.  The real driver promises no more, so a missing edge has to show. */
#include "gpu_fake_int.h"

#include <stdlib.h>

static int
call_library(const struct fake_library *l)
{
	bool spoilt = false;

	for (size_t i = 0; i < l->n_words && l->part != FAKE_FINISH; i++)
		l->scratch[i] = l->mark;
	for (size_t i = 0; i < l->n_words && l->part != FAKE_FILL; i++)
		spoilt |= l->scratch[i] != l->mark;
	return l->part != FAKE_FILL && l->run(l->arg, spoilt) ? 719 : 0;
}

int
gpu_fake_call(const struct fake_call *c)
{
	if (c->library.run)
		return call_library(&c->library);
	return c->fn->run(c->fn->pass, c->grid, c->block, c->shared, c->buf, c->kernel_scratch,
		   c->block_scratch, c->lo, c->hi)
	    ? 719
	    : 0;
}

/* ---- sets of nodes ------------------------------------------------------------------------------ */
static void *
larger(void *p, size_t size, uint32_t n, uint32_t *cap)
{
	if (n < *cap)
		return p;
	*cap = *cap ? 2 * *cap : 16;
	p = realloc(p, *cap * size);
	if (!p)
		bug("no memory for a captured graph");
	return p;
}

void
gpu_fake_set_add(struct fake_set *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->node[i] == node)
			return;
	s->node = larger(s->node, sizeof(*s->node), s->n, &s->cap);
	s->node[s->n++] = node;
}

void
gpu_fake_set_join(struct fake_set *to, const struct fake_set *from)
{
	for (uint32_t i = 0; i < from->n; i++)
		gpu_fake_set_add(to, from->node[i]);
}

void
gpu_fake_set_free(struct fake_set *s)
{
	free(s->node);
	*s = (struct fake_set){0};
}

/* ---- graphs ----------------------------------------------------------------------------------------- */
/* Everything that may run side by side does, in no more time: a model, and no GPU. */
uint32_t
gpu_fake_graph_add(struct fake_graph *g, const struct fake_node *node, int64_t ns, int64_t cross_ns)
{
	struct fake_node *to;
	int64_t from = 0;

	g->nodes = larger(g->nodes, sizeof(*g->nodes), g->n, &g->cap);
	to = &g->nodes[g->n];
	*to = *node;
	for (uint32_t i = 0; i < to->behind.n; i++) {
		const struct fake_node *d = &g->nodes[to->behind.node[i]];

		from = MAX_OF(from, d->end_ns + (d->stream == to->stream ? 0 : cross_ns));
	}
	to->end_ns = from + ns;
	g->ns = MAX_OF(g->ns, to->end_ns);
	return g->n++;
}

bool
gpu_fake_graph_covers(const struct fake_graph *g, const struct fake_set *by, const struct fake_set *these)
{
	bool *is_behind = heap_alloc(g->n + 1), ok = true;

	for (uint32_t i = 0; i < by->n; i++)
		is_behind[by->node[i]] = true;
	for (uint32_t i = g->n; i-- > 0;)
		for (uint32_t k = 0; k < g->nodes[i].behind.n && is_behind[i]; k++)
			is_behind[g->nodes[i].behind.node[k]] = true;
	for (uint32_t i = 0; i < these->n; i++)
		ok &= is_behind[these->node[i]];
	free(is_behind);
	return ok;
}

struct fake_graph *
gpu_fake_executable(struct fake_graph *g)
{
	struct fake_graph *to = heap_alloc(sizeof(*to));

	*to = *g;
	*g = (struct fake_graph){0};
	return to;
}

void
gpu_fake_graph_free(struct fake_graph *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		free(g->nodes[i].call.library.arg);
		gpu_fake_set_free(&g->nodes[i].behind);
	}
	free(g->nodes);
	free(g);
}

/* ---- replay ------------------------------------------------------------------------------------------ */
struct replay {
	const struct fake_graph *g;
	uint32_t *n_open; /* of each node: those it runs behind that have not run */
	uint32_t *ready, n;
};

static void
finish(struct replay *r, uint32_t node)
{
	for (uint32_t i = node + 1; i < r->g->n; i++)
		for (uint32_t k = 0; k < r->g->nodes[i].behind.n; k++)
			if (r->g->nodes[i].behind.node[k] == node && --r->n_open[i] == 0)
				r->ready[r->n++] = i;
}

/* Every replay has a victim, which waits until nothing else can run; the rest comes as chance has it.  So as
 * many replays as there are nodes show every edge that is missing. */
static uint32_t
pick(const struct replay *r, uint32_t victim, struct rng *rng)
{
	uint32_t at = rng_below(rng, r->n);

	return r->ready[at] != victim || r->n == 1 ? at : (at + 1) % r->n;
}

int
gpu_fake_replay(const struct fake_graph *g, uint64_t seed, uint64_t turn)
{
	struct replay r = {.g = g,
	    .n_open = heap_alloc((g->n + 1) * sizeof(uint32_t)),
	    .ready = heap_alloc((g->n + 1) * sizeof(uint32_t))};
	struct rng rng = {mix64(seed + turn)};
	int status = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		r.n_open[i] = g->nodes[i].behind.n;
		if (!r.n_open[i])
			r.ready[r.n++] = i;
	}
	while (r.n && status == 0) {
		uint32_t at = pick(&r, (uint32_t)(turn % g->n), &rng), node = r.ready[at];

		r.ready[at] = r.ready[--r.n];
		status = gpu_fake_call(&g->nodes[node].call);
		finish(&r, node);
	}
	free(r.n_open);
	free(r.ready);
	return status;
}
