/* tests/harness/generator.h: generators by name (generator.def), so that a bench can time the text of one
 * beside the text of another. */
#ifndef KORCH_TEST_GENERATOR_H
#define KORCH_TEST_GENERATOR_H

#include "../../kernels/generate/generate.h"

typedef bool generator_fn(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e);
struct generator {
	const char *name;
	generator_fn *make;
};
/* NULL: there is none of that name. */
const struct generator *generator_named(struct str name);

#endif
