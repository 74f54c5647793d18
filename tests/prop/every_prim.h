/* tests/prop/every_prim.h: specs with every primitive and every type that it takes, of awkward shapes. */
#ifndef KORCH_TEST_EVERY_PRIM_H
#define KORCH_TEST_EVERY_PRIM_H

#include "../../kernels/ir/ir.h"

typedef void spec_fn(void *self, const struct spec *s, uint64_t number);
/* The graphs of emit_cases.inc, for each type. */
void every_prim(spec_fn *fn, void *self);
/* One map each, for each type, and each pair of types that a cast or power may have. */
void every_map(spec_fn *fn, void *self);

#endif
