/* kernels/run/pages.h: which pages of a plan's constants are still read, while the plan is opened.  For
 * exec.c. */
#ifndef KORCH_PAGES_H
#define KORCH_PAGES_H

#include "exec.h"

struct pages {
	uint32_t
	    *order;  /* the plan's steps as they are to be prepared: those that pack one constant together */
	char *first; /* the pages that lie wholly in the constants */
	size_t n, size;
	uint32_t *last; /* of each: the turn in that order whose preparation reads it last; PAGES_FOR_GOOD:
	                   runs read it */
};
#define PAGES_FOR_GOOD UINT32_MAX
/* kernels: the plan's, found.  drops: the constants may be given back; else the order is all. */
void pages_open(struct arena *a, const struct dev *d, const struct plan *p, const struct dev_kernel *kernels,
    bool drops, struct pages *out);
/* The turn's step has been prepared: what nothing behind it reads goes back to the system. */
void pages_drop(const struct pages *g, uint32_t turn);
#endif
