/* kernels/device/dev_cuda_graph.c: launches captured once and replayed.  A kernel finds its buffers in a
 * table in the device's memory, so other buffers need another table and no other graph.
 *
 * On several streams: every wait of the given order becomes an event behind one step and before another; a
 * stream that begins without one is forked from the first one's beginning, and all are joined to the first at
 * the end. */
#include "dev_cuda_int.h"

#include <stdlib.h>
#include <string.h>

enum { CAPTURE_THREAD = 1, EVENT_NO_TIMING = 2, STREAM_NON_BLOCKING = 1 };

struct gpu_graph {
	void *graph, *exec;
	uint64_t tables; /* the launches' pointers, kept as long as the graph */
	size_t n_bytes;
	bool has_library;               /* a library's call keeps the pointers that it was captured with */
	const struct streams *order;    /* NULL: one stream */
	void *fork, *join[STREAMS_MAX]; /* events; a stream's last one */
	void **behind;                  /* of each step that others wait for */
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

/* ---- several streams --------------------------------------------------------------------------- */
static uint32_t
n_lanes(const struct gpu_graph *g)
{
	return g->order ? g->order->n_streams : 1;
}

static bool
new_event(struct cuda *c, void **event)
{
	return cuda_good(c, c->g->cu.event_new(event, EVENT_NO_TIMING), "cuEventCreate");
}

static bool
make_events(struct cuda *c, struct gpu_graph *g)
{
	const struct streams *o = g->order;
	bool ok = new_event(c, &g->fork);

	g->behind = heap_alloc(o->n_steps * sizeof(*g->behind));
	for (uint32_t i = 0; i < o->n_steps && ok; i++)
		ok = !o->is_awaited[i] || new_event(c, &g->behind[i]);
	for (uint32_t s = 1; s < o->n_streams && ok; s++)
		ok = new_event(c, &g->join[s]);
	return ok;
}

static void
free_events(struct cuda *c, struct gpu_graph *g)
{
	for (uint32_t i = 0; g->behind && i < g->order->n_steps && !c->is_sticky; i++)
		if (g->behind[i])
			(void)c->g->cu.event_free(g->behind[i]);
	for (uint32_t s = 0; s < STREAMS_MAX && !c->is_sticky; s++)
		if (g->join[s])
			(void)c->g->cu.event_free(g->join[s]);
	if (g->fork && !c->is_sticky)
		(void)c->g->cu.event_free(g->fork);
	free(g->behind);
}

/* A stream for each lane, and scratch for the kernels that run there. */
static bool
make_lanes(struct cuda *c, const struct dev_launch *l, uint32_t n, const struct gpu_graph *g)
{
	size_t shared[STREAMS_MAX] = {0}, local[STREAMS_MAX] = {0};
	struct err e = {0};

	for (uint32_t i = 0; i < n; i++) {
		uint32_t s = g->order->stream[i];
		size_t need = 0;

		(void)cuda_local_bytes(l[i].kernel, &need); /* the kernel was found, so it fits */
		local[s] = MAX_OF(local[s], need);
		shared[s] = MAX_OF(shared[s], l[i].kernel->shared_bytes);
	}
	for (uint32_t s = 1; s < g->order->n_streams; s++) {
		if (!c->lane[s].stream &&
		    !cuda_good(
			c, c->g->cu.stream_new(&c->lane[s].stream, STREAM_NON_BLOCKING), "cuStreamCreate"))
			return false;
		if (!cuda_widen_lane(c, s, shared[s], local[s], &e)) {
			c->fault = e;
			return false;
		}
	}
	return true;
}

static bool
mark(struct cuda *c, uint32_t lane, void *event)
{
	return cuda_good(c, c->g->cu.event_record(event, c->lane[lane].stream), "cuEventRecord");
}

static bool
wait_for(struct cuda *c, uint32_t lane, void *event)
{
	return cuda_good(c, c->g->cu.stream_wait(c->lane[lane].stream, event, 0), "cuStreamWaitEvent");
}

/* Does the lane's first step wait for nothing?  Otherwise that wait brings it into the capture. */
static bool
begins_alone(const struct streams *o, uint32_t lane)
{
	uint32_t i = 0;

	while (i < o->n_steps && o->stream[i] != lane)
		i++;
	return i == o->n_steps || o->waits.first[i] == o->waits.first[i + 1];
}

static bool
fork_lanes(struct cuda *c, const struct gpu_graph *g)
{
	bool ok = n_lanes(g) == 1 || mark(c, 0, g->fork);

	for (uint32_t s = 1; s < n_lanes(g) && ok; s++)
		ok = !begins_alone(g->order, s) || wait_for(c, s, g->fork);
	return ok;
}

/* Of all, also of those that the first one has waited for last: the driver is to find none left. */
static bool
join_lanes(struct cuda *c, const struct gpu_graph *g)
{
	bool ok = true;

	for (uint32_t s = 1; s < n_lanes(g) && ok; s++)
		ok = mark(c, s, g->join[s]) && wait_for(c, 0, g->join[s]);
	return ok;
}

static bool
capture_step(
    struct cuda *c, const struct gpu_graph *g, uint32_t i, const struct dev_launch *l, uint64_t table)
{
	const struct streams *o = g->order;
	bool ok = true;

	if (!o)
		return cuda_launch(c, 0, l, table);
	for (uint32_t k = o->waits.first[i]; k < o->waits.first[i + 1] && ok; k++)
		ok = wait_for(c, o->stream[i], g->behind[o->waits.item[k]]);
	return ok && cuda_launch(c, o->stream[i], l, table) &&
	    (!o->is_awaited[i] || mark(c, o->stream[i], g->behind[i]));
}

static bool
capture(struct cuda *c, const struct dev_launch *l, uint32_t n, struct gpu_graph *g)
{
	uint64_t table = g->tables;
	void *graph = NULL;
	bool ok, ended;

	if (!cuda_good(c, c->g->cu.capture(c->lane[0].stream, CAPTURE_THREAD), "cuStreamBeginCapture"))
		return false;
	ok = fork_lanes(c, g);
	for (uint32_t i = 0; i < n && ok; i++) {
		ok = capture_step(c, g, i, &l[i], table);
		table += table_bytes(&l[i]);
	}
	ok = ok && join_lanes(c, g);
	ended = cuda_good(c, c->g->cu.captured(c->lane[0].stream, &graph), "cuStreamEndCapture");
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
gpu_graph_make(const struct dev *d, const struct dev_launch *l, uint32_t n, const struct streams *order,
    struct gpu_graph **out, struct err *e)
{
	struct cuda *c = d->self;
	struct gpu_graph *g = heap_alloc(sizeof(*g));

	if (order && order->n_steps != n)
		bug("an order of %u steps for %u launches", order->n_steps, n);
	g->order = order;

	g->n_bytes = tables_bytes(l, n);
	for (uint32_t i = 0; i < n; i++)
		g->has_library |= l[i].kernel->library != NULL;
	g->tables = cuda_bytes_new(c, g->n_bytes);
	*out = g;
	if (!g->tables)
		(void)err_set(&c->fault, ERR_MEMORY,
		    "the GPU has no %zu bytes for the pointers of %u launches", g->n_bytes, n);
	else
		put_tables(c, g, l, n);
	if (cuda_is_well(c) && (!order || (make_lanes(c, l, n, g) && make_events(c, g))) &&
	    capture(c, l, n, g))
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
		if (list[i].n_bytes &&
		    !cuda_good(c,
			c->g->cu.copy((uint64_t)(uintptr_t)list[i].to, (uint64_t)(uintptr_t)list[i].from,
			    list[i].n_bytes, c->lane[0].stream),
			"cuMemcpyAsync"))
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
	if (!cuda_is_well(c) || !copy_all(c, in, n_in) ||
	    !cuda_good(c, c->g->cu.event_record(c->from, c->lane[0].stream), "cuEventRecord") ||
	    (g && !cuda_good(c, c->g->cu.graph_launch(g->exec, c->lane[0].stream), "cuGraphLaunch")) ||
	    !cuda_good(c, c->g->cu.event_record(c->to, c->lane[0].stream), "cuEventRecord") ||
	    !copy_all(c, out, n_out) || !cuda_good(c, c->g->cu.stream_sync(c->lane[0].stream), "kernel") ||
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
	free_events(c, g);
	if (g->tables && !c->is_sticky)
		(void)c->g->cu.mem_free(g->tables);
	free(g);
}

bool
gpu_flush(const struct dev *d, struct err *e)
{
	struct cuda *c = d->self;

	if (!cuda_widen(c, &c->flush, &c->flush_bytes, 2 * (size_t)MAX_OF(c->facts.l2_bytes, 1 << 20),
		"the flush", e))
		return false;
	return (cuda_is_well(c) &&
		   cuda_good(c, c->g->cu.fill(c->flush, 0x5a, c->flush_bytes, c->lane[0].stream),
		       "cuMemsetD8Async")) ||
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
