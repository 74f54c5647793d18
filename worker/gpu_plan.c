/* worker/gpu_plan.c: a whole plan on a GPU: inputs and outputs in its memory, all launches captured as
 * one graph. */
#include "gpu_child.h"

#include <stdlib.h>

struct gpu_plan {
	const struct dev *dev;
	const struct plan *plan;
	struct plan_exec *exec;
	struct gpu_graph *graph;
	void **in, **out;
};

static size_t
io_bytes(const struct plan_io *io)
{
	size_t n;

	if (!shape_bytes(&io->shape, io->type, &n))
		bug("a checked plan has an input that does not fit");
	return n;
}

static bool
place(struct gpu_plan *p, const struct plan_io *io, void **at, const uint64_t *seed, struct err *e)
{
	size_t n = io_bytes(io);
	void *host;

	*at = p->dev->mem_new(p->dev->self, n);
	if (!*at)
		return err_set(e, ERR_MEMORY, "the GPU has no %zu bytes for '%.*s'", n, STR_ARG(io->name));
	if (!seed)
		return true;
	host = heap_alloc(MAX_OF(n, (size_t)1));
	fill_plan_input(io, host, *seed);
	p->dev->put(p->dev->self, *at, host, n);
	free(host);
	return true;
}

/* Once by hand, so that a fault shows before it is captured; then as a graph. */
static bool
capture(struct gpu_plan *p, struct err *e)
{
	const void *const *in = (const void *const *)p->in;
	const struct dev_launch *l;
	uint32_t n;
	bool is_lost;

	plan_exec_run(p->exec, in, p->out, NULL);
	if (!p->dev->fault(p->dev->self, &is_lost, e))
		return false;
	l = plan_exec_launches(p->exec, in, p->out, &n);
	return n == 0 || gpu_graph_make(p->dev, l, n, &p->graph, e);
}

bool
gpu_plan_open(const struct dev *d, struct arena *a, const struct plan *plan, uint64_t seed, struct gpu_plan **out,
    struct err *e)
{
	struct gpu_plan *p = heap_alloc(sizeof(*p));
	bool ok;

	*p = (struct gpu_plan){.dev = d, .plan = plan, .in = NEW_ARRAY(a, void *, MAX_OF(plan->n_inputs, 1u)),
	    .out = NEW_ARRAY(a, void *, MAX_OF(plan->n_outputs, 1u))};
	ok = plan_exec_open(d, plan, &p->exec, e);
	for (uint32_t i = 0; ok && i < plan->n_inputs; i++) {
		uint64_t s = mix64(seed + i);

		ok = place(p, &plan->inputs[i], &p->in[i], &s, e);
	}
	for (uint32_t i = 0; ok && i < plan->n_outputs; i++)
		ok = place(p, &plan->outputs[i], &p->out[i], NULL, e);
	if (ok && capture(p, e)) {
		*out = p;
		return true;
	}
	gpu_plan_close(p);
	return false;
}

bool
gpu_plan_time(struct gpu_plan *p, int64_t *ns, struct err *e)
{
	*ns = 1;
	return !p->graph || gpu_graph_time(p->dev, p->graph, ns, e);
}

void
gpu_plan_close(struct gpu_plan *p)
{
	if (!p)
		return;
	gpu_graph_free(p->dev, p->graph);
	for (uint32_t i = 0; i < p->plan->n_inputs; i++)
		if (p->in[i])
			p->dev->mem_free(p->dev->self, p->in[i], io_bytes(&p->plan->inputs[i]));
	for (uint32_t i = 0; i < p->plan->n_outputs; i++)
		if (p->out[i])
			p->dev->mem_free(p->dev->self, p->out[i], io_bytes(&p->plan->outputs[i]));
	plan_exec_close(p->exec);
	free(p);
}
