/* kernels/cost/cost_int.h: what the files of this folder share. */
#ifndef KORCH_COST_INT_H
#define KORCH_COST_INT_H

#include "box.h"
#include "cost.h"

struct need {            /* of a tensor */
	double n;        /* elements that the results need, at least */
	double eff;      /* different values among the elements, at most */
	struct boxes of; /* some of those that are needed */
};
/* One of each tensor; all zero before. */
void cost_needs(const struct graph *g, struct need *x);

/* Operations of a primitive whose results are needed so. */
double cost_needed_flops(const struct graph *g, const struct node *n, const struct need *x, bool winograd);
/* Multiply-adds, counted as two, of the results that are needed for certain; winograd: a fourth of those that
 * may have its form. */
double cost_linear_flops(const struct graph *g, const struct node *n, const struct boxes *out, bool winograd);
/* The same of the best form that there is for it.  is_generated: no library has a call for the spec, so its
 * register tiles are the generator's. */
double cost_form_flops(const struct graph *g, const struct node *n, const struct boxes *out,
    const struct hw *hw, bool is_generated);

#endif
