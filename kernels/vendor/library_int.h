/* kernels/vendor/library_int.h: views through layout primitives.  For this folder alone. */
#ifndef KORCH_LIBRARY_INT_H
#define KORCH_LIBRARY_INT_H

#include "library.h"

void view_dense(struct call_view *v, const struct tensor *t);
/* v, of the node's operand, as its result shows it. */
bool view_through(struct call_view *v, const struct graph *g, const struct node *n, struct err *e);
/* v, of the node's result, as it lies for the operand. */
bool view_back(struct call_view *v, const struct graph *g, const struct node *n, struct err *e);
/* The step that `value(arg, x)` is, times out->b. */
bool function_of(double (*value)(const void *arg, double x), const void *arg, struct call_step *out);

#endif
