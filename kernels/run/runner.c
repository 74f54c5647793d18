/* kernels/run/runner.c: a plan on the device that it asks for: a CPU's threads or a GPU. */
#include "gpu_plan.h"

#include "../base/host.h"

#include <stdlib.h>

struct runner {
	struct dev dev;
	struct plan_exec *exec; /* a CPU's */
	struct gpu_plan *on_gpu;
	struct gpu own; /* the host's libraries, where they were opened for it */
};

bool
plan_wants_gpu(const struct plan *p)
{
	for (struct str rest = p->run_compat; rest.n;)
		if (str_is(str_cut(&rest, ' '), "cuda"))
			return true;
	return false;
}

static bool
fits(const struct gpu *g, int number, const struct plan *p, struct err *e)
{
	struct gpu_facts f;
	struct dev_info info;

	if (!gpu_facts(g, number, &f, e))
		return false;
	gpu_describe(&f, &info);
	return dev_compatible(p->run_compat, &info, e);
}

/* The one asked for, else the first GPU on which the plan's code runs. */
static bool
choose_gpu(const struct gpu *g, const struct plan *p, uint32_t asked, int *number, struct err *e)
{
	int n;

	if (!gpu_ready(g, false, &n, e))
		return false;
	if (asked > (uint32_t)n)
		return err_set(
		    e, ERR_USAGE, "GPU %u was asked for; this host has %d, counted from 0", asked - 1, n);
	if (asked) {
		*number = (int)asked - 1;
		return fits(g, *number, p, e) || err_in(e, "GPU %d", *number);
	}
	for (*number = 0; *number < n; ++*number)
		if (fits(g, *number, p, e))
			return true;
		else if (e->code != ERR_DEVICE)
			return false;
	return err_in(e, "no GPU of this host fits");
}

static bool
open_gpu(struct runner *r, const struct plan *p, const struct runner_opts *o, struct err *e)
{
	const struct gpu *g = o->gpu;
	int number = 0;

	if (!g) {
		gpu_open(&r->own);
		g = &r->own;
	}
	return choose_gpu(g, p, o->gpu_number, &number, e) && dev_cuda_open(g, number, &r->dev, e) &&
	    gpu_plan_open(&r->dev, p, o->n_streams, &r->on_gpu, e);
}

static bool
open_cpu(struct runner *r, const struct plan *p, const struct runner_opts *o, struct err *e)
{
	uint32_t cores = MIN_OF(host_cores(os_real()), (uint32_t)RUNNER_MAX_THREADS);

	return dev_cpu_open(o->n_threads ? o->n_threads : cores, o->pin, &r->dev, e) &&
	    (o->takes ? plan_exec_take(&r->dev, p, &r->exec, e) : plan_exec_open(&r->dev, p, &r->exec, e));
}

bool
runner_open(const struct plan *p, const struct runner_opts *o, struct runner **out, struct err *e)
{
	struct runner *r;
	bool ok;

	if (plan_lacks_code(p))
		return err_set(e, ERR_HOST,
		    "it has no machine code: it was predicted for a device (\"%.*s\") that nobody here could "
		    "compile for; on a host with such a device, korch-plan rebuild completes it",
		    STR_ARG(p->run_compat));
	r = heap_alloc(sizeof(*r));
	ok = plan_wants_gpu(p) ? open_gpu(r, p, o, e) : open_cpu(r, p, o, e);

	if (!ok) {
		runner_close(r);
		return false;
	}
	*out = r;
	return true;
}

bool
runner_run(struct runner *r, const void *const *inputs, void *const *outputs, int64_t *run_ns,
    int64_t *step_ns, struct err *e)
{
	const struct os *os = os_real();
	int64_t from;

	if (r->on_gpu)
		return gpu_plan_run(r->on_gpu, inputs, outputs, run_ns, e) &&
		    (!step_ns || gpu_plan_profile(r->on_gpu, step_ns, e));
	from = os->mono_ns(os->self);
	plan_exec_run(r->exec, inputs, outputs, step_ns);
	*run_ns = os->mono_ns(os->self) - from;
	return true;
}

const struct dev *
runner_dev(const struct runner *r)
{
	return &r->dev;
}

const struct plan_streams *
runner_streams(const struct runner *r)
{
	return r->on_gpu ? gpu_plan_streams(r->on_gpu) : NULL;
}

void
runner_close(struct runner *r)
{
	if (!r)
		return;
	gpu_plan_close(r->on_gpu);
	plan_exec_close(r->exec);
	if (r->dev.close)
		r->dev.close(r->dev.self);
	gpu_close(&r->own);
	free(r);
}
