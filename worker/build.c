/* worker/build.c: see build.h. */
#include "build.h"

#include "../schema/artefact.h"

static struct str
way(const struct m_kernel *k, uint32_t i)
{
	return i ? k->others[i - 1].schedule : k->schedule;
}

static bool
make_one(struct arena *a, const struct m_kernel *k, const struct target *t, const struct build_how *how,
    struct kernel_code *out, uint8_t *took, struct err *e)
{
	const char *symbol = str_dup(a, k->symbol);
	struct spec s;

	if (!spec_read(a, k->spec, &s, e))
		return false;
	for (uint32_t i = 0;; i++) {
		struct err why = {0};

		*out = (struct kernel_code){0};
		*took = (uint8_t)i;
		if (how->emit(a, &s, way(k, i), t, symbol, out, &why) &&
		    (!out->desc.is_library || !k->n_others || !how->has_call ||
			how->has_call(how->self, a, k, way(k, i), &why)))
			return true;
		if (i == k->n_others || (why.code != ERR_INFEASIBLE && why.code != ERR_HOST)) {
			*e = why;
			return false;
		}
	}
}

bool
build_make(struct arena *a, const struct m_build_ask *ask, const struct build_how *how, struct build *out,
    struct err *e)
{
	uint32_t n = ask->n_kernels;
	double tolerance;

	*out = (struct build){.ask = ask,
	    .codes = NEW_ARRAY(a, struct kernel_code, MAX_OF(n, 1u)),
	    .took = NEW_ARRAY(a, uint8_t, MAX_OF(n, 1u))};
	if (!task_target(how->device, ask->precision, &out->target, &tolerance, e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!make_one(a, &ask->kernels[i], &out->target, how, &out->codes[i], &out->took[i], e))
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
