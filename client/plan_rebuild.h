/* client/plan_rebuild.h: a plan's code generated again from its specs and schedules, by this
 * Korch, for this host, with this host's compiler. */
#ifndef KORCH_PLAN_REBUILD_H
#define KORCH_PLAN_REBUILD_H

#include "../kernels/run/exec.h"

/* Changes kernels, module, source, run_compat and environment of *p.  Weights are kept as they
 * are packed: a kernel that wants them packed otherwise here is ERR_DEVICE ("tune again").
 * ERR_HOST without a compiler. */
bool plan_rebuild(struct arena *a, struct plan *p, struct err *e) MUST_CHECK;
/* Code for a CPU's plan that has none, for the device that it was predicted for, by this host's compiler;
 * nothing else of it changes.  ERR_HOST where this host's compiler makes none for such a device. */
bool plan_compile_away(struct arena *a, struct plan *p, bool strict, struct err *e) MUST_CHECK;
/* A GPU's, by this host's NVRTC, for the architecture that it is for; fake: settings of the fake GPU whose
 * compiler is taken, NULL: none.  Moves of machine instructions that do not fit what it writes are left out,
 * with a word on stderr. */
bool plan_rebuild_gpu(struct arena *a, struct plan *p, const char *fake, struct err *e) MUST_CHECK;

#endif
