/* daemon/planner/check.h: korch-submit --check: could this model be tuned?  Nothing is. */
#ifndef KORCH_CHECK_H
#define KORCH_CHECK_H

#include "../../proto/pipe.h"

/* Answers with check_have.  Errors (no ONNX file, a wrong --shape) are for the `failed` message. */
bool check_run(struct arena *a, struct pipe *p, const struct m_check_ask *ask, struct err *e) MUST_CHECK;

#endif
