/* client/sure_words.h: the confidence of a plan that is not proved, in words and for programs. */
#ifndef KORCH_SURE_WORDS_H
#define KORCH_SURE_WORDS_H

#include "../kernels/base/base.h"

/* "within 12.3 % of the best over all candidates with 95 % confidence" */
void sure_words(struct strbuf *sb, int64_t latency_ns, int64_t least_ns, double confidence);
/* {"level": 0.95, "least_ns": 81230, "within": 0.123}, or null where nothing is said: least_ns is 0. */
void sure_json(struct strbuf *sb, int64_t latency_ns, int64_t least_ns, double confidence);

#endif
