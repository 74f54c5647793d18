/* worker/gpu_fake_graph.c: launches of the fake driver, run at once or captured. */
#include "gpu_fake.h"

#include <stdlib.h>

int
gpu_fake_call(const struct fake_call *c)
{
	if (c->library)
		return c->library(c->arg) ? 719 : 0;
	return c->fn->run(c->fn->pass, c->grid, c->block, c->shared, c->buf, c->kernel_scratch, c->block_scratch, c->lo, c->hi)
	    ? 719 : 0;
}

void
gpu_fake_record(struct fake_graph *g, const struct fake_call *c, int64_t ns, bool replays)
{
	g->ns += ns;
	if (!replays) {
		free(c->arg);
		return;
	}
	if (g->n == g->cap) {
		g->cap = g->cap ? 2 * g->cap : 16;
		g->calls = realloc(g->calls, g->cap * sizeof(*g->calls));
		if (!g->calls)
			bug("no memory for a captured graph");
	}
	g->calls[g->n++] = *c;
}

struct fake_graph *
gpu_fake_executable(struct fake_graph *g)
{
	struct fake_graph *to = heap_alloc(sizeof(*to));

	*to = *g;
	g->calls = NULL;
	g->n = 0;
	return to;
}

int
gpu_fake_replay(const struct fake_graph *g)
{
	int status = 0;

	for (uint32_t i = 0; i < g->n && status == 0; i++)
		status = gpu_fake_call(&g->calls[i]);
	return status;
}

void
gpu_fake_graph_free(struct fake_graph *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		free(g->calls[i].arg);
	free(g->calls);
	free(g);
}
