/* client/cache_explain.h: the history of a key of the cache. */
#ifndef KORCH_CACHE_EXPLAIN_H
#define KORCH_CACHE_EXPLAIN_H

#include "../proto/client.h"

/* Rows of cache_show, those of a spec one after the other: for each spec and environment what was tried: the
 * best schedule, the losers by how much, failures by class, machine code that is kept. */
void cache_explain(struct arena *a, const struct m_measurement *rows, uint32_t n, bool json);
/* Its repeats, a line each, and what it costs by them; nothing where it was timed once. */
void cache_repeats(struct strbuf *sb, const struct m_measurement *m);

#endif
