/* tests/harness/moves.h: random moves of legal.h judged by what knows none of its rules: hazards of the code
 * (machine.h), and traces of base and edited kernel over the same inputs. */
#ifndef KORCH_TEST_MOVES_H
#define KORCH_TEST_MOVES_H

#include "../../kernels/sass/legal.h"
#include "../../kernels/sass/machine.h"

struct moves_count {
	uint64_t tried, legal;
	uint64_t hazards, traces; /* of legal ones: that read too early; that compute something else */
	uint64_t kept; /* of legal ones: places that must keep what they have (.nv.info, @!PT), and do not */
	uint64_t runs;
	uint64_t done_anyway,
	    wrong; /* of refused ones: some, done without rules; of these with a hazard or another trace */
	uint64_t refused[SASS_RULES], done_of[SASS_RULES],
	    wrong_of[SASS_RULES]; /* by the rule that refused */
	char first[240];          /* the first of hazards, traces, kept */
};
struct moves_ask {
	uint32_t moves;
	uint64_t seed;
	uint32_t without; /* rules not asked, bit i for rule i */
	uint32_t anyway;  /* every so-manyth refused move is done all the same; 0: none */
	uint32_t at_most; /* ends after so many hazards, traces, kept; 0: never */
	uint32_t inputs;  /* that traces are compared over */
};
/* Adds to *c. */
void moves_try(const struct sass_kernel *base, const struct moves_ask *ask, struct moves_count *c);

#endif
