/* client/cache_evidence.h: results that were not believed, for people. */
#ifndef KORCH_CACHE_EVIDENCE_H
#define KORCH_CACHE_EVIDENCE_H

#include "../proto/client.h"

/* When, who, on what, which kind of task, what it said (the first row's number) and why it does not count. */
void evidence_words(struct strbuf *sb, const struct m_evidence *ev);

#endif
