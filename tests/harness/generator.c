/* tests/harness/generator.c: see the header. */
#include "generator.h"

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
