/* worker/build.c: see build.h. */
#include "build.h"

#include "../kernels/base/parallel.h"
#include "../schema/artefact.h"

static struct str
way(const struct m_kernel *k, uint32_t i)
{
	return i ? k->others[i - 1].schedule : k->schedule;
}

/* One kernel of the build, made apart from the others. */
struct making {
	struct arena arena;
	struct spec spec;
	struct err err; /* why there is no kernel */
	bool ok;
};
struct all_of {
	struct build *build;
	const struct build_how *how;
	struct making *kernels;
};

/* By the first of its schedules from `from` on that gives a kernel. */
static void
make_from(const struct all_of *all, struct arena *a, uint32_t at, uint32_t from)
{
	const struct m_kernel *k = &all->build->ask->kernels[at];
	const char *symbol = str_dup(a, k->symbol);
	struct making *m = &all->kernels[at];

	m->ok = false;
	for (uint32_t i = from; i <= k->n_others; i++) {
		all->build->codes[at] = (struct kernel_code){0};
		all->build->took[at] = (uint8_t)i;
		m->err = (struct err){0};
		m->ok = all->how->emit(
		    a, &m->spec, way(k, i), &all->build->target, symbol, &all->build->codes[at], &m->err);
		if (m->ok || (m->err.code != ERR_INFEASIBLE && m->err.code != ERR_HOST))
			return;
	}
}

static void
make_nth(void *self, uint32_t hand, uint32_t i)
{
	const struct all_of *all = self;
	struct making *m = &all->kernels[i];

	(void)hand;
	if (spec_read(&m->arena, all->build->ask->kernels[i].spec, &m->spec, &m->err))
		make_from(all, &m->arena, i, 0);
}

/* A library's call that is not there gives way to the next schedule. */
static bool
settle(const struct all_of *all, struct arena *a, uint32_t i, struct err *e)
{
	const struct build *b = all->build;
	const struct m_kernel *k = &b->ask->kernels[i];
	struct making *m = &all->kernels[i];

	while (m->ok && b->codes[i].desc.is_library && k->n_others && all->how->has_call) {
		struct err why = {0};

		if (all->how->has_call(all->how->self, a, k, way(k, b->took[i]), &why))
			break;
		m->ok = false;
		m->err = why;
		if (b->took[i] < k->n_others && (why.code == ERR_INFEASIBLE || why.code == ERR_HOST))
			make_from(all, a, i, b->took[i] + 1u);
	}
	if (!m->ok)
		*e = m->err;
	return m->ok;
}

bool
build_make(struct arena *a, const struct m_build_ask *ask, const struct build_how *how, struct build *out,
    struct err *e)
{
	uint32_t n = ask->n_kernels;
	struct all_of all = {out, how, NEW_ARRAY(a, struct making, MAX_OF(n, 1u))};
	double tolerance;

	*out = (struct build){.ask = ask,
	    .codes = NEW_ARRAY(a, struct kernel_code, MAX_OF(n, 1u)),
	    .took = NEW_ARRAY(a, uint8_t, MAX_OF(n, 1u))};
	if (!task_target(how->device, ask->precision, &out->target, &tolerance, e))
		return false;
	parallel_for(n, parallel_hands(MAKER_HANDS), make_nth, &all);
	for (uint32_t i = 0; i < n; i++)
		arena_join(a, &all.kernels[i].arena);
	for (uint32_t i = 0; i < n; i++)
		if (!settle(&all, a, i, e))
			return err_in(e, "%.*s", STR_ARG(ask->kernels[i].symbol));
	return true;
}

struct str
build_schedule(const struct build *b, uint32_t kernel)
{
	return way(&b->ask->kernels[kernel], b->took[kernel]);
}

bool
build_describe(struct arena *a, const struct build *b, struct str prelude, struct built *out, struct err *e)
{
	uint32_t n = b->ask->n_kernels;
	bool has_others = false;
	struct artefact all = {.kernels = NEW_ARRAY(a, struct artefact_kernel, MAX_OF(n, 1u)),
	    .n_kernels = n,
	    .prelude = prelude};

	for (uint32_t i = 0; i < n; i++) {
		has_others |= b->ask->kernels[i].n_others > 0;
		all.kernels[i] = (struct artefact_kernel){b->codes[i].desc, b->codes[i].text};
	}
	out->took = (struct bytes){b->took, has_others ? n : 0};
	return artefact_pack(a, &all, &out->description, e);
}
