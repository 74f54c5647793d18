/* kernels/device/evict.h: bytes out of all caches of a CPU.  For this folder alone. */
#ifndef KORCH_EVICT_H
#define KORCH_EVICT_H

#include <stdbool.h>
#include <stddef.h>

/* Can a program do that here? */
bool evict_is_here(void);
/* The next to read any of these n bytes finds them in memory.  Their values stay. */
void evict(const void *p, size_t n);

#endif
