/* daemon/planner/device.h: a device, as its environment says it is, as bounds, lowering and predictions see
 * it. */
#ifndef KORCH_PLANNER_DEVICE_H
#define KORCH_PLANNER_DEVICE_H

#include "../../kernels/cost/cost.h"
#include "../../kernels/fuse/fuse.h"
#include "../../proto/msg.h"

/* winograd: a job that may use Winograd's form; hw_fastest where nothing was calibrated. */
struct hw env_hw(const struct m_env *env, uint64_t threads, bool winograd);
struct target env_target(const struct m_env *env, bool strict, bool winograd, enum precision precision);

#endif
