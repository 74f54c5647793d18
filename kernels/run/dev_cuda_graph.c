/* kernels/run/dev_cuda_graph.c: launches captured once and replayed.  A kernel finds its buffers in a
 * table in the device's memory, so other buffers need another table and no other graph. */
#include "dev_cuda_int.h"

#include <stdlib.h>
#include <string.h>

enum { CAPTURE_THREAD = 1 };

struct gpu_graph {
	void *graph, *exec;
	uint64_t tables;         /* the launches' pointers, kept as long as the graph */
	size_t n_bytes;
	bool has_library;         /* a library's call keeps the pointers that it was captured with */
};

bool
cuda_tell(struct cuda *c, struct err *e)
{
	*e = c->fault;
	c->fault = (struct err){0};
	return false;
}

static size_t
table_bytes(const struct dev_launch *l)
{
	return MAX_OF(l->kernel->n_bufs, 1u) * sizeof(void *);
}

static size_t
tables_bytes(const struct dev_launch *l, uint32_t n)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += table_bytes(&l[i]);
	return bytes;
}

static void
put_tables(struct cuda *c, const struct gpu_graph *g, const struct dev_launch *l, uint32_t n)
{
	char *host = heap_alloc(MAX_OF(g->n_bytes, (size_t)1)), *at = host;

	for (uint32_t i = 0; i < n; at += table_bytes(&l[i]), i++)
		if (l[i].kernel->n_bufs)
			memcpy(at, l[i].buf, l[i].kernel->n_bufs * sizeof(void *));
	cuda_move(c, (void *)(uintptr_t)g->tables, host, g->n_bytes);
	free(host);
}

static bool
capture(struct cuda *c, const struct dev_launch *l, uint32_t n, struct gpu_graph *g)
{
	uint64_t table = g->tables;
	void *graph = NULL;
	bool ok = true, ended;

	if (!cuda_good(c, c->g->cu.capture(c->stream, CAPTURE_THREAD), "cuStreamBeginCapture"))
		return false;
	for (uint32_t i = 0; i < n && ok; i++) {
		ok = cuda_launch(c, &l[i], table);
		table += table_bytes(&l[i]);
	}
	ended = cuda_good(c, c->g->cu.captured(c->stream, &graph), "cuStreamEndCapture");
	g->graph = graph;
	return ok && ended && cuda_good(c, c->g->cu.graph_make(&g->exec, g->graph, 0), "cuGraphInstantiate");
}

static void
drop_captured(struct cuda *c, struct gpu_graph *g)
{
	if (g->exec && !c->is_sticky)
		(void)c->g->cu.graph_exec_free(g->exec);
	if (g->graph && !c->is_sticky)
		(void)c->g->cu.graph_free(g->graph);
	g->exec = g->graph = NULL;
}

bool
gpu_graph_make(const struct dev *d, const struct dev_launch *l, uint32_t n, struct gpu_graph **out, struct err *e)
{
	struct cuda *c = d->self;
	struct gpu_graph *g = heap_alloc(sizeof(*g));

	g->n_bytes = tables_bytes(l, n);
	for (uint32_t i = 0; i < n; i++)
		g->has_library |= l[i].kernel->library != NULL;
	g->tables = cuda_bytes_new(c, g->n_bytes);
	*out = g;
	if (!g->tables)
		(void)err_set(&c->fault, ERR_MEMORY, "the GPU has no %zu bytes for the pointers of %u launches", g->n_bytes, n);
	else
		put_tables(c, g, l, n);
	if (cuda_is_well(c) && capture(c, l, n, g))
		return true;
	gpu_graph_free(d, g);
	*out = NULL;
	return cuda_tell(c, e);
}

void
gpu_graph_point(const struct dev *d, struct gpu_graph *g, const struct dev_launch *l, uint32_t n)
{
	if (tables_bytes(l, n) != g->n_bytes)
		bug("other launches than the graph was made of");
	put_tables(d->self, g, l, n);
	if (!g->has_library)
		return;
	drop_captured(d->self, g);
	(void)capture(d->self, l, n, g); /* a fault is kept and told by the next run */
}

static bool
copy_all(struct cuda *c, const struct dev_copy *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].n_bytes && !cuda_good(c, c->g->cu.copy((uint64_t)(uintptr_t)list[i].to, (uint64_t)(uintptr_t)list[i].from,
		    list[i].n_bytes, c->stream), "cuMemcpyAsync"))
			return false;
	return true;
}

bool
gpu_graph_run(const struct dev *d, struct gpu_graph *g, const struct dev_copy *in, uint32_t n_in,
    const struct dev_copy *out, uint32_t n_out, int64_t *ns, struct err *e)
{
	struct cuda *c = d->self;
	float ms = 0;

	if (cuda_is_well(c) && g && !g->exec) /* told once already */
		return err_set(e, ERR_LAUNCH, "the launches could not be captured for these pointers");
	if (!cuda_is_well(c) || !copy_all(c, in, n_in) || !cuda_good(c, c->g->cu.event_record(c->from, c->stream), "cuEventRecord") ||
	    (g && !cuda_good(c, c->g->cu.graph_launch(g->exec, c->stream), "cuGraphLaunch")) ||
	    !cuda_good(c, c->g->cu.event_record(c->to, c->stream), "cuEventRecord") || !copy_all(c, out, n_out) ||
	    !cuda_good(c, c->g->cu.stream_sync(c->stream), "kernel") ||
	    !cuda_good(c, c->g->cu.event_sync(c->to), "kernel") ||
	    !cuda_good(c, c->g->cu.event_ms(&ms, c->from, c->to), "cuEventElapsedTime"))
		return cuda_tell(c, e);
	*ns = MAX_OF((int64_t)((double)ms * 1e6), (int64_t)1);
	return true;
}

bool
gpu_graph_time(const struct dev *d, struct gpu_graph *g, int64_t *ns, struct err *e)
{
	return gpu_graph_run(d, g, NULL, 0, NULL, 0, ns, e);
}

void
gpu_graph_free(const struct dev *d, struct gpu_graph *g)
{
	struct cuda *c = d->self;

	if (!g)
		return;
	drop_captured(c, g);
	if (g->tables && !c->is_sticky)
		(void)c->g->cu.mem_free(g->tables);
	free(g);
}

bool
gpu_flush(const struct dev *d, struct err *e)
{
	struct cuda *c = d->self;

	if (!cuda_widen(c, &c->flush, &c->flush_bytes, 2 * (size_t)MAX_OF(c->facts.l2_bytes, 1 << 20), "the flush", e))
		return false;
	return (cuda_is_well(c) && cuda_good(c, c->g->cu.fill(c->flush, 0x5a, c->flush_bytes, c->stream), "cuMemsetD8Async")) ||
	    cuda_tell(c, e);
}

/* ---- the host's side -------------------------------------------------------------------------- */
void *
gpu_host_new(const struct dev *d, size_t n_bytes)
{
	struct cuda *c = d->self;
	void *p = NULL;

	return !c->is_sticky && c->g->cu.host_new(&p, MAX_OF(n_bytes, (size_t)1), 0) == 0 ? p : NULL;
}

void
gpu_host_free(const struct dev *d, void *p)
{
	struct cuda *c = d->self;

	if (p && !c->is_sticky)
		(void)c->g->cu.host_free(p);
}
