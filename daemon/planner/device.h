/* daemon/planner/device.h: a device, as its environment says it is, as bounds, lowering and predictions see
 * it. */
#ifndef KORCH_PLANNER_DEVICE_H
#define KORCH_PLANNER_DEVICE_H

#include "../../kernels/cost/cost.h"
#include "../../kernels/space/space.h"
#include "../../proto/msg.h"

/* winograd: a job that may use Winograd's form; hw_fastest where nothing was calibrated. */
struct hw env_hw(const struct m_env *env, uint64_t threads, bool winograd);
struct target env_target(const struct m_env *env, bool strict, bool winograd, enum precision precision);
/* A time that no schedule in the spec's space can beat on such a device: cost_bound_heat_ns(), with
 * Winograd's form only where the space has it.  Lowers specs that might have that form: a tenth of a
 * millisecond or so. */
int64_t device_bound_ns(const struct spec *s, const struct target *t, const struct hw *hw, struct str heat);
/* The same by what each schedule of the spec's space of that effort makes of it, the least of them; never
 * below device_bound_ns().  Lowers the spec a dozen times: most of a millisecond. */
int64_t device_space_ns(
    const struct spec *s, const struct target *t, const struct hw *hw, struct str heat, uint64_t effort);

#endif
