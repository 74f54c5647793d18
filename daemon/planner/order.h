/* daemon/planner/order.h: which schedules of a kernel are compiled, in which order, and how many.
 *
 * Compiling is most of a search's time, and most schedules are losers that the predictor can name.  So a
 * kernel is looked at by the one that is expected to be fastest, or where nothing is, by the space's guess
 * and a library's call; more of them are tried where the plan may gain by it: a kernel that is in it or near,
 * whose next schedule may well beat the best one measured. On a device that no predictor knows, all go in the
 * space's own order. */
#ifndef KORCH_PLANNER_ORDER_H
#define KORCH_PLANNER_ORDER_H

#include "tune.h"

enum { PLANNER_HANDS = 16 }; /* threads at a time: the planner's jail allows 64 threads and processes */

struct order { /* a kernel's schedules, as they are worth a try (kernels/predict/first.h) */
	struct str *schedule;
	double *ns;       /* predicted */
	double *sigma;    /* of the logarithm of each one's time beside the first's */
	uint32_t n;       /* 0: nothing can be said of them */
	uint32_t n_first; /* how many are tried before it is known whether the plan needs it */
	bool is_blind;    /* nothing is predicted or known of its like: as the space lists them */
};

/* Is there a word on which of its schedules to try first? */
static inline bool
order_is_there(const struct tune *t, const struct spec_cost *c)
{
	return t->has_foreseen || c->sibling.p;
}

/* Those of n kernels, where they are not made yet, on all cores. */
void orders_make(struct tune *t, const uint32_t *specs, uint32_t n);
/* Of those that order_ask() will be called for. */
void orders_make_open(struct tune *t, const uint32_t *specs, uint32_t n);
/* Made at the first call. */
const struct order *order_of(struct tune *t, uint32_t spec);
/* Names what is to be tried of it now. */
void order_ask(struct tune *t, uint32_t spec, struct arena *a, struct m_spec_ask *ask);
/* To build a kernel that was never measured: the fastest by prediction, or the library's call where that is
 * expected to be hardly slower, as there is nothing to compile then.  generated: where there is no such call.
 * False: nothing can be said. */
bool order_guess(struct tune *t, uint32_t spec, struct str *first, struct str *generated);
/* Kernels of which more schedules are worth a try by the choice as it stands, what gains most first; they are
 * LAZY_OPEN then.  in tmp */
uint32_t *order_more(struct tune *t, struct arena *tmp, uint32_t *n);
/* Is one of those still out? */
bool order_waits(const struct tune *t);

#endif
