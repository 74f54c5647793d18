/* client/sure_words.c: see sure_words.h. */
#include "sure_words.h"

#include <inttypes.h>

static double
within(int64_t latency_ns, int64_t least_ns)
{
	return (double)latency_ns / (double)MAX_OF(least_ns, (int64_t)1) - 1;
}

void
sure_words(struct strbuf *sb, int64_t latency_ns, int64_t least_ns, double confidence)
{
	sb_addf(sb, "within %.1f %% of the best over all candidates with %.0f %% confidence",
	    100 * within(latency_ns, least_ns), 100 * confidence);
}

void
sure_json(struct strbuf *sb, int64_t latency_ns, int64_t least_ns, double confidence)
{
	if (least_ns > 0)
		sb_addf(sb, "{\"level\": %g, \"least_ns\": %" PRId64 ", \"within\": %.6f}", confidence,
		    least_ns, within(latency_ns, least_ns));
	else
		sb_addz(sb, "null");
}
