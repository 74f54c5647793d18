/* tests/prop/cand_values.h: does a candidate compute what the graph does? */
#ifndef KORCH_TEST_CAND_VALUES_H
#define KORCH_TEST_CAND_VALUES_H

#include "../../daemon/identify/identify.h"

/* The values of all tensors, by number; `in`: the graph's inputs. */
void **values_of_all(struct arena *a, const struct graph *g, const void **in);
/* Its results by the interpreter, from the values that it reads, are those of the graph; else the test fails.
 */
void candidate_computes(struct arena *a, const struct graph *g, const struct cand_set *cs,
    const struct cand *c, void *const *value);

#endif
