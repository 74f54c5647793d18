/* kernels/interp/interp.h: the interpreter: what each primitive means.  Slow and obvious: generated code is
 * right when it agrees with this.  float32 sums are accumulated in double.
 * Single elements (elem_get, elem_set, half floats) are in ir.h. */
#ifndef KORCH_INTERP_H
#define KORCH_INTERP_H

#include "../ir/ir.h"

/* One primitive over dense row-major operands.  in/out: type and shape; the data pointers are
 * the caller's.  Errors (ERR_MODEL): an index out of range. */
bool interp_prim(enum prim p, const struct attrs *at, uint32_t n_in, const struct tensor *const *in,
    const void *const *in_data, uint32_t n_out, const struct tensor *const *out, void *const *out_data,
    struct err *e) MUST_CHECK;

/* The whole graph; inputs[i] belongs to g->inputs[i], results land in arena memory.  Where a
 * tensor has alternatives, `pick` (one producer per tensor, may be NULL: the first) chooses. */
bool interp_run(struct arena *a, const struct graph *g, const void *const *inputs, const uint32_t *pick,
    void **outputs, struct err *e) MUST_CHECK;

/* Rounding in question: inputs and what arithmetic rounds on the way move by up to so many last places, by a
 * hash of seed, tensor and position. */
struct shake {
	uint64_t seed;
	uint32_t places; /* > 0 */
};

/* Elements of tensor `t` at flat positions, evaluated on demand with memoisation, for checking
 * big kernels by samples (D10).  Values as double; false when the cone needs more than
 * max_elements evaluations (ERR_LIMIT).  `s` may be NULL. */
bool interp_sample(struct arena *a, const struct graph *g, const void *const *inputs, tensor_id t,
    const int64_t *at, uint32_t n_at, uint64_t max_elements, const struct shake *s, double *out,
    struct err *e) MUST_CHECK;

/* How many evaluations one element takes by itself, at most `most`; false as interp_sample is. */
bool interp_cone(const struct graph *g, const void *const *inputs, tensor_id t, int64_t at, uint64_t most,
    uint64_t *n, struct err *e) MUST_CHECK;

/* All outputs of a graph without alternatives, in `a`: what interp_run says up to the order of sums, with
 * plain loops of their own for convolutions and products of matrices.  `s` may be NULL. */
bool reference_run(struct arena *a, const struct graph *g, const void *const *inputs, const struct shake *s,
    void **outputs, struct err *e) MUST_CHECK;
/* Is it one of those?  Of half floats none is. */
bool reference_has_loop(const struct graph *g, const struct node *n);

#endif
