/* client/plan_port.h: what a plan would take on a device of another class, and which of its kernels lose
 * there. */
#ifndef KORCH_PLAN_PORT_H
#define KORCH_PLAN_PORT_H

#include "../kernels/base/opt.h"
#include "../kernels/run/exec.h"

/* By a private korchd over the user's cache, which knows the class (--device); no device of it is needed. */
bool plan_port(
    struct arena *a, const struct opts *o, const char *path, const struct plan *p, struct err *e) MUST_CHECK;

#endif
