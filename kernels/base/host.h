/* kernels/base/host.h: how much of this host the process may use: what it is bound to, and what its cgroups
 * (version 1 and 2, with all above them) leave it. */
#ifndef KORCH_HOST_H
#define KORCH_HOST_H

#include "base.h"

/* At least 1.  Of a quota the whole cores: threads that wait for each other stand still together when it is
 * used up before its period is over. */
uint32_t host_cores(const struct os *os);
uint64_t host_memory_bytes(const struct os *os);

/* The cgroups' part; UINT32_MAX, UINT64_MAX: no limit, or none that can be read. */
uint32_t cgroup_cores(const struct os *os);
uint64_t cgroup_memory_bytes(const struct os *os);

#endif
