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

/* Is this the tanh of a softplus?  Text and count have one function for both (k_tanh_softplus_f32). */
bool cost_is_joined(const struct graph *g, const struct node *n);
/* Operations of a primitive whose results are needed so. */
double cost_needed_flops(const struct graph *g, const struct node *n, const struct need *x, bool winograd);
/* Multiply-adds, counted as two, of the results that are needed for certain; winograd: a fourth of those that
 * may have its form. */
double cost_linear_flops(const struct graph *g, const struct node *n, const struct boxes *out, bool winograd);
/* The same of the best form that there is for it.  is_generated: no library has a call for the spec, so its
 * register tiles are the generator's. */
double cost_form_flops(const struct graph *g, const struct node *n, const struct boxes *out,
    const struct hw *hw, bool is_generated);
/* The same as a bound alone counts it (least.c): with what a result's way to memory takes, and only by forms
 * that the generator has for it.  Never less. */
double cost_least_flops(const struct graph *g, const struct node *n, const struct boxes *out,
    const struct hw *hw, bool is_generated);

/* Seconds to read again what sums over much memory made wait (again.c).  *alone: of
 * it what no product can go on beside. */
double cost_again_s(const struct graph *g, const struct hw *hw, const struct need *x, double *alone);

/* ---- what form.c and least.c share ---- */
double form_whole(double n, double of);    /* the multiple of `of` that holds n */
double form_waste(double n, double lanes); /* vectors that are not full, as a factor */
/* The most elements that a box has along dimension d. */
int64_t form_extent(const struct boxes *out, int d);
/* Winograd's tiles of m x m results that hold what is needed. */
double form_tiles(const struct boxes *out, int m);

#endif
