/* kernels/run/plan_memory.c: what a plan's constants take in memory once libraries have packed those that
 * they read.  They are asked to, as when the plan is opened; none of its code is loaded. */
#include "pages.h"

struct sight {
	struct arena arena;
	struct dev dev;
	struct dev_kernel *kernels;
	struct dev_launch *launches;
};

static bool
is_call(const struct plan_kernel *k)
{
	enum library l;
	int64_t version, algo;

	return library_of_schedule(k->schedule, &l, &version, &algo) && !library_is_cuda(l);
}

static bool
has_calls(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (is_call(&p->kernels[i]))
			return true;
	return false;
}

static void *
constant_at(const struct plan *p, const struct place *at)
{
	return at->kind == PLACE_CONST ? (char *)(uintptr_t)p->constants.p + at->offset : NULL;
}

static bool
pack(struct sight *s, const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_kernels; i++) {
		const struct plan_kernel *k = &p->kernels[i];
		const struct kernel_name name = {k->symbol, k->spec, k->schedule};

		if (is_call(k) && !dev_find(&s->dev, NULL, &name, &s->kernels[i], e))
			return err_in(e, "kernel %u", i);
	}
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *step = &p->steps[i];
		void **buf = NEW_ARRAY(&s->arena, void *, step->n_places);

		for (uint32_t j = 0; j < step->n_places; j++)
			buf[j] = constant_at(p, &p->places[step->places[j]]);
		s->launches[i] = (struct dev_launch){.kernel = &s->kernels[step->kernel], .buf = buf};
		if (!dev_prepare(&s->dev, &s->launches[i], e))
			return err_in(e, "step %u", i);
	}
	return true;
}

bool
plan_memory(const struct plan *p, struct plan_memory *out, struct err *e)
{
	struct sight s = {0};
	struct pages pages;
	bool ok;

	*out = (struct plan_memory){0};
	if (!has_calls(p))
		return true;
	if (!dev_cpu_open(1, false, &s.dev, e))
		return false;
	s.kernels = NEW_ARRAY(&s.arena, struct dev_kernel, p->n_kernels);
	s.launches = NEW_ARRAY(&s.arena, struct dev_launch, p->n_steps);
	ok = pack(&s, p, e);
	if (ok) {
		out->packed_bytes = s.dev.kept_bytes(s.dev.self);
		pages_open(&s.arena, &s.dev, p, s.kernels, true, &pages);
		for (size_t i = 0; i < pages.n; i++)
			out->unread_bytes += pages.last[i] != PAGES_FOR_GOOD ? pages.size : 0;
	}
	for (uint32_t i = 0; i < p->n_steps; i++)
		dev_release(&s.dev, &s.launches[i]);
	for (uint32_t i = 0; i < p->n_kernels; i++)
		dev_lose(&s.dev, &s.kernels[i]);
	s.dev.close(s.dev.self);
	arena_fini(&s.arena);
	return ok;
}
