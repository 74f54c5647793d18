/* client/cache_stats.h: what the cache holds and how often it was right, in six lines, and what each class's
 * kernels are expected by, a line each. */
#ifndef KORCH_CACHE_STATS_H
#define KORCH_CACHE_STATS_H

#include "../proto/msg.h"

/* The daemon's counters; --json prints them as they are. */
void cache_stats_words(struct arena *a, const struct m_counts *m);

#endif
