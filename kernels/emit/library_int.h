/* kernels/emit/library_int.h: kernels that a library has.  For this folder alone. */
#ifndef KORCH_EMIT_LIBRARY_INT_H
#define KORCH_EMIT_LIBRARY_INT_H

#include "emit.h"

struct gen;
bool emit_library(struct gen *g, const struct spec *s, struct str schedule, enum library l,
    struct kernel_code *out, struct err *e) MUST_CHECK;

#endif
