/* tests/harness/generator.c: see the header. */
#include "generator.h"

static bool
by_winograd(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	(void)schedule;
	return emit_by_trace(a, s, STR("winograd"), t, symbol, out, e);
}

static const struct generator all[] = {
#define GENERATOR(NAME, FN, WORDS) {#NAME, FN},
#include "generator.def"
#undef GENERATOR
};

const struct generator *
generator_named(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(all); i++)
		if (str_is(name, all[i].name))
			return &all[i];
	return NULL;
}
