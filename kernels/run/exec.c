/* kernels/run/exec.c: a plan that runs.  Opening does all that can fail or allocate: code,
 * symbols, work memory, constants, scratch, the list of launches.  Running only fills in where
 * the caller's inputs and outputs are. */
#include "pages.h"

#include "../base/fp.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t long_step_ns = 1000000;

/* A pointer in some launch's list that depends on the run. */
struct patch {
	void **slot;
	uint32_t place;
};
struct plan_exec {
	const struct dev *dev;
	const struct plan *plan;
	struct arena arena;
	struct dev_module *module;
	struct dev_kernel *kernels;
	struct dev_launch *launches;
	struct patch *patches;
	uint32_t n_patches;
	char *work;
	const char *constants;
	char *own_constants; /* the device's copy, NULL where the plan's own bytes are used */
	int64_t *stamps;
	bool *is_long; /* per step: by the last run that told of it */
	pthread_mutex_t turn;
};

static bool
find_kernels(struct plan_exec *x, struct err *e)
{
	const struct plan *p = x->plan;

	x->kernels = NEW_ARRAY(&x->arena, struct dev_kernel, p->n_kernels);
	for (uint32_t i = 0; i < p->n_kernels; i++) {
		const struct plan_kernel *k = &p->kernels[i];
		struct dev_kernel *to = &x->kernels[i];
		const struct kernel_name name = {k->symbol, k->spec, k->schedule};

		*to = (struct dev_kernel){.n_passes = k->n_passes,
		    .n_bufs = k->n_operands + k->n_results,
		    .shared_bytes = k->shared_bytes,
		    .local_bytes = k->local_bytes};
		memcpy(to->range, k->range, sizeof(to->range));
		if (plan_kernel_is_view(k))
			continue;
		if (!dev_find(x->dev, x->module, &name, to, e) ||
		    !x->dev->reserve(x->dev->self, to->shared_bytes, to->local_bytes, e))
			return err_in(e, "kernel %u of the plan", i);
	}
	return true;
}

/* A plan of copies and views alone has none. */
static bool
has_code(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (!plan_kernel_is_view(&p->kernels[i]))
			return true;
	return false;
}

static bool
place_memory(struct plan_exec *x, struct err *e)
{
	const struct plan *p = x->plan;
	const struct dev *d = x->dev;

	x->work = d->mem_new(d->self, p->work_bytes);
	if (!x->work)
		return err_set(e, ERR_MEMORY,
		    "the plan needs %zu bytes of work memory; there are not so many", p->work_bytes);
	if (d->reads_host && (uintptr_t)p->constants.p % PLAN_ALIGN == 0) {
		x->constants = (const char *)p->constants.p;
		return true;
	}
	x->own_constants = d->mem_new(d->self, p->constants.n);
	if (!x->own_constants)
		return err_set(e, ERR_MEMORY, "the plan needs %zu bytes for weights; there are not so many",
		    p->constants.n);
	d->put(d->self, x->own_constants, p->constants.p, p->constants.n);
	x->constants = x->own_constants;
	return true;
}

static bool
is_callers(const struct place *at)
{
	return at->kind == PLACE_INPUT || at->kind == PLACE_OUTPUT;
}

static void *
address(const struct plan_exec *x, const struct place *at, const void *const *inputs, void *const *outputs)
{
	union { /* kernels take all buffers alike; those of inputs and constants are only read */
		const void *c;
		void *p;
	} u = {0};

	switch (at->kind) {
	case PLACE_WORK:
		return x->work + at->offset;
	case PLACE_CONST:
		u.c = x->constants + at->offset;
		return u.p;
	case PLACE_INPUT:
		u.c = inputs ? (const char *)inputs[at->index] + at->offset : NULL;
		return u.p;
	case PLACE_OUTPUT:
		return outputs ? (char *)outputs[at->index] + at->offset : NULL;
	}
	bug("a place of kind %d", (int)at->kind);
}

static void
list_launches(struct plan_exec *x)
{
	const struct plan *p = x->plan;
	uint32_t cap = 0;

	x->launches = NEW_ARRAY(&x->arena, struct dev_launch, p->n_steps);
	x->is_long = NEW_ARRAY(&x->arena, bool, MAX_OF(p->n_steps, 1u));
	x->stamps = NEW_ARRAY(&x->arena, int64_t, (size_t)p->n_steps + 1);
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];
		void **buf = NEW_ARRAY(&x->arena, void *, s->n_places);

		for (uint32_t j = 0; j < s->n_places; j++) {
			const struct place *at = &p->places[s->places[j]];

			buf[j] = address(x, at, NULL, NULL);
			if (!is_callers(at))
				continue;
			GROW(&x->arena, x->patches, x->n_patches, cap);
			x->patches[x->n_patches++] = (struct patch){&buf[j], s->places[j]};
		}
		x->launches[i] = (struct dev_launch){.kernel = &x->kernels[s->kernel], .buf = buf};
	}
}

/* takes: the plan's constants are ours. */
static bool
prepare(struct plan_exec *x, bool takes, struct err *e)
{
	const struct plan *p = x->plan;
	struct arena tmp = {0};
	struct pages pages;
	bool ok = true;

	pages_open(&tmp, x->dev, p, x->kernels, takes && !x->own_constants, &pages);
	for (uint32_t i = 0; i < p->n_steps && ok; i++) {
		ok = dev_prepare(x->dev, &x->launches[pages.order[i]], e) ||
		    err_in(e, "step %u of the plan", pages.order[i]);
		pages_drop(&pages, i);
	}
	arena_fini(&tmp);
	return ok;
}

static bool
open_exec(const struct dev *d, const struct plan *p, bool takes, struct plan_exec **out, struct err *e)
{
	struct plan_exec *x = heap_alloc(sizeof(*x));
	struct dev_info info;

	x->dev = d;
	x->plan = p;
	(void)pthread_mutex_init(&x->turn, NULL);
	if (!d->describe(d->self, &info, e) || !dev_compatible(p->run_compat, &info, e) || !plan_check(p, e))
		goto fail;
	if (has_code(p) && !d->load(d->self, p->module, &x->module, e))
		goto fail;
	if (!find_kernels(x, e) || !place_memory(x, e))
		goto fail;
	list_launches(x);
	if (!prepare(x, takes, e))
		goto fail;
	*out = x;
	return true;
fail:
	plan_exec_close(x);
	return false;
}

bool
plan_exec_open(const struct dev *d, const struct plan *p, struct plan_exec **out, struct err *e)
{
	return open_exec(d, p, false, out, e);
}

bool
plan_exec_take(const struct dev *d, const struct plan *p, struct plan_exec **out, struct err *e)
{
	return open_exec(d, p, true, out, e);
}

void
plan_exec_close(struct plan_exec *x)
{
	if (!x)
		return;
	for (uint32_t i = 0; x->launches && i < x->plan->n_steps; i++)
		dev_release(x->dev, &x->launches[i]);
	for (uint32_t i = 0; x->kernels && i < x->plan->n_kernels; i++)
		dev_lose(x->dev, &x->kernels[i]);
	if (x->module)
		x->dev->unload(x->dev->self, x->module);
	x->dev->mem_free(x->dev->self, x->work, x->plan->work_bytes);
	x->dev->mem_free(x->dev->self, x->own_constants, x->plan->constants.n);
	(void)pthread_mutex_destroy(&x->turn);
	arena_fini(&x->arena);
	free(x);
}

static struct dev_copy
copy_at(const struct plan_exec *x, uint32_t i, const void *const *inputs, void *const *outputs)
{
	const struct plan *p = x->plan;
	const struct place *from = &p->places[p->copies[i].from], *to = &p->places[p->copies[i].to];

	return (struct dev_copy){
	    address(x, to, inputs, outputs), address(x, from, inputs, outputs), to->n_bytes};
}

void
plan_exec_copies(
    const struct plan_exec *x, const void *const *inputs, void *const *outputs, struct dev_copy *list)
{
	for (uint32_t i = 0; i < x->plan->n_copies; i++)
		list[i] = copy_at(x, i, inputs, outputs);
}

static void
copy_outputs(const struct plan_exec *x, const void *const *inputs, void *const *outputs)
{
	for (uint32_t i = 0; i < x->plan->n_copies; i++) {
		struct dev_copy c = copy_at(x, i, inputs, outputs);

		x->dev->put(x->dev->self, c.to, c.from, c.n_bytes);
	}
}

static void
patch(struct plan_exec *x, const void *const *inputs, void *const *outputs)
{
	for (uint32_t i = 0; i < x->n_patches; i++)
		*x->patches[i].slot = address(x, &x->plan->places[x->patches[i].place], inputs, outputs);
}

const struct dev_launch *
plan_exec_launches(struct plan_exec *x, const void *const *inputs, void *const *outputs, uint32_t *n)
{
	patch(x, inputs, outputs);
	*n = x->plan->n_steps;
	return x->launches;
}

/* ---- steps by themselves ------------------------------------------------------------------------ */
static int64_t
wall_ns(void)
{
	const struct os *os = os_real();

	return os->mono_ns(os->self);
}

static int64_t
thread_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
		bug("the thread's clock cannot be read");
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* On one thread, as kernels and whole plans are timed: what took a millisecond the last time, by the thread's
 * own clock, since other programs' turns on the core are no step's; what is shorter hardly meets one, and
 * that clock may cost microseconds. */
static void
run_apart(struct plan_exec *x, int64_t *step_ns)
{
	for (uint32_t i = 0; i < x->plan->n_steps; i++) {
		int64_t own = x->is_long[i] ? thread_ns() : 0, from = wall_ns(), took;

		x->dev->run(x->dev->self, &x->launches[i], 1, NULL);
		took = wall_ns() - from;
		step_ns[i] = x->is_long[i] ? thread_ns() - own : took;
		x->is_long[i] = took >= long_step_ns;
	}
}

static void
run_together(struct plan_exec *x, int64_t *step_ns)
{
	uint32_t n = x->plan->n_steps;

	if (n)
		x->dev->run(x->dev->self, x->launches, n, step_ns ? x->stamps : NULL);
	for (uint32_t i = 0; step_ns && i < n; i++)
		step_ns[i] = x->stamps[i + 1] - x->stamps[i];
}

void
plan_exec_run(struct plan_exec *x, const void *const *inputs, void *const *outputs, int64_t *step_ns)
{
	const uint64_t fp = fp_control();

	(void)pthread_mutex_lock(&x->turn);
	if (x->plan->tolerance > 0) /* 1e-38 is within any */
		fp_set_control(fp_without_denormals(fp));
	patch(x, inputs, outputs);
	if (step_ns && x->dev->reads_host && x->dev->n_threads == 1)
		run_apart(x, step_ns);
	else
		run_together(x, step_ns);
	copy_outputs(x, inputs, outputs);
	fp_set_control(fp);
	(void)pthread_mutex_unlock(&x->turn);
}
