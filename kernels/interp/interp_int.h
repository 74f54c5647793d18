/* kernels/interp/interp_int.h: what the files of kernels/interp share.  A primitive is evaluated
 * one result element at a time, from operand elements that `get` supplies: out of dense arrays
 * (interp_prim) or on demand (interp_sample).  So there is one definition for both. */
#ifndef KORCH_INTERP_INT_H
#define KORCH_INTERP_INT_H

#include "interp.h"

/* An element: `f` for floating types, `i` for integers and bool (u64 as its bits). */
union val {
	double f;
	int64_t i;
};

struct operand {
	const struct tensor *t;
	const void *data;         /* NULL where elements come on demand */
	int64_t stride[MAX_RANK]; /* in elements, dense row-major */
};

struct call {
	enum prim p;
	const struct attrs *at;
	uint32_t n_in;
	struct operand *in;
	const struct tensor *out; /* the first result's type and shape */
	union val (*get)(struct call *c, uint32_t operand, int64_t flat);
	void *self; /* get's own */
	struct err *e;
	bool failed; /* e is set */
};

static inline union val
val_load(enum dtype t, const void *p, int64_t i)
{
	if (dtype_is_float(t))
		return (union val){.f = elem_get(t, p, i)};
	return (union val){.i = elem_get_int(t, p, i)};
}

static inline void
val_store(enum dtype t, void *p, int64_t i, union val v)
{
	if (dtype_is_float(t))
		elem_set(t, p, i, v.f);
	else
		elem_set_int(t, p, i, v.i);
}

void strides_of(const struct shape *s, int64_t *stride);
/* One element of a primitive that is neither map nor opaque, at index o (flat: the same). */
union val element_value(struct call *c, const int64_t *o, int64_t flat);
/* A map of scalars; types[k] belongs to x[k]. */
union val map_scalar(enum prim p, const enum dtype *types, enum dtype out, const union val *x);
/* The function of one or two numbers that a map or a reduction is; NULL: it is none. */
typedef double real1(double);
typedef double real2(double, double);
real1 *real1_for(enum prim p);
real2 *real2_for(enum prim p);
/* a joined with b by a reduction: sum, prod, rmax, rmin and the windows'. */
union val join_scalar(enum prim p, enum dtype t, union val a, union val b);
union val join_start(enum prim p, enum dtype t);
bool val_less(enum dtype t, union val a, union val b);
/* cumsum, topk, scatters: whole results from dense operands. */
bool opaque_run(struct call *c, void *const *out);
bool prim_is_whole(enum prim p);
/* One call for the element at `flat`, whatever the class. */
union val eval_elem(struct call *c, const int64_t *o, int64_t flat);
void index_of(const struct shape *s, int64_t flat, int64_t *o);
/* Position in 0..n-1 for x, a padded position less what is before the operand; -1 for the padding value. */
int64_t fold_index(enum pad_mode mode, int64_t x, int64_t n);
/* All results at once by a plain loop; false: there is none for it. */
bool shortcut_run(const struct call *c, void *out);
/* Does the primitive round its results, where they are of a floating type? */
bool prim_rounds(enum prim p);
/* A value of floating type that element `at` of the tensor might have had as well; not rounded yet. */
double shaken(const struct shake *s, enum dtype t, uint32_t tensor, int64_t at, double v);
/* All elements; nothing where they are integers. */
void shake_dense(const struct shake *s, const struct tensor *t, uint32_t tensor, void *p);

#endif
