/* daemon/identify/heat.h: where a candidate's operands and results will lie when its plan runs it. */
#ifndef KORCH_IDENTIFY_HEAT_H
#define KORCH_IDENTIFY_HEAT_H

#include "../../kernels/base/heat.h"
#include "identify.h"

struct heat_caches {
	size_t own,
	    last; /* bytes of a core's last cache that is its own, and of the last that there is; 0: none */
	uint32_t n_cores; /* that run the plan together */
};
/* A word of kernels/base/heat.h for each spec, in `a`: decided before anything is measured (heat.c). */
struct str *heats_decide(
    struct arena *a, const struct graph *g, const struct cand_set *c, const struct heat_caches *caches);

#endif
