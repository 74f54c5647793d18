/* tests/prop/program_check.h: a loop program against the interpreter of primitives. */
#ifndef KORCH_TEST_PROGRAM_CHECK_H
#define KORCH_TEST_PROGRAM_CHECK_H

#include "../../kernels/schedule/schedule.h"

struct checked {
	struct arena *a;
	const struct spec *spec;
	struct tir p; /* as lowered */
	const void **in;
	void **want;
	bool strict, exact; /* exact: sums are in the interpreter's order, so bits must be equal */
	uint64_t seed;
	const char *what; /* for messages: a trace; NULL */
};
/* Lowers the spec and asks the interpreter what it computes. */
void program_check_begin(
    struct checked *c, struct arena *a, const struct spec *s, bool strict, uint64_t seed);
/* The test fails where p, made of c->p, does not print and read back, is not verified, or does not compute
 * the same: as it is, and flat; iterations forward, backward and shuffled. */
void program_check(const struct checked *c, const struct tir *p);
/* The same of what a pass made, of the program that it made flat: verified, and run in one order. */
void program_check_flat(const struct checked *c, const struct tir *p);

#endif
