/* client/model_check.h: korch-submit --check: what a model is, and what of it is not supported. */
#ifndef KORCH_MODEL_CHECK_H
#define KORCH_MODEL_CHECK_H

#include "../kernels/base/opt.h"
#include "../proto/msg.h"

/* Asks korch-planner, which reads the model in a process of its own; no daemon is needed, nothing is tuned.
 * Prints what it says as words or JSON.  *would_tune: nothing is unsupported or open.  ERR_HOST: no planner;
 * errors of the model. */
bool model_check(struct arena *a, const struct opts *o, const char *model, const struct m_options *options,
    bool *would_tune, struct err *e) MUST_CHECK;

#endif
