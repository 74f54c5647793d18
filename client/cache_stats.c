/* client/cache_stats.c: see cache_stats.h. */
#include "cache_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

struct counters {
	const struct m_count *list;
	uint32_t n;
};

/* 0 where nothing was counted under that name. */
static uint64_t
count(const struct counters *c, const char *name)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (str_is(c->list[i].name, name))
			return c->list[i].value;
	return 0;
}

/* "1 kernel", "17 kernels" */
static const char *
many(struct arena *a, uint64_t n, const char *what)
{
	return arena_printf(a, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
}

static const char *
bytes_text(struct arena *a, uint64_t n)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)n;
	size_t i = 0;

	for (; v >= 1024 && i + 1 < COUNT_OF(units); i++)
		v /= 1024;
	return arena_printf(a, i ? "%.1f %s" : "%.0f %s", v, units[i]);
}

static void
print_hits(const struct counters *c)
{
	uint64_t hits = count(c, "hit") + count(c, "hit_failed"), all = hits + count(c, "miss");

	if (all == 0)
		(void)printf("%-10s no kernel was looked up yet\n", "hit rate");
	else
		(void)printf("%-10s %.1f %%: %" PRIu64 " of %" PRIu64
			     " kernels looked up were known, %" PRIu64 " of them from another model\n",
		    "hit rate", 100 * (double)hits / (double)all, hits, all, count(c, "reuse_across_models"));
}

static void
print_limit(struct arena *a, const struct counters *c)
{
	uint64_t limit = count(c, "blob_limit_bytes"), have = count(c, "blob_bytes");

	if (limit)
		(void)printf("%-10s %s of files (--max-size), %.1f %% in use; measurements are not limited\n",
		    "limit", bytes_text(a, limit), 100 * (double)have / (double)limit);
	else
		(void)printf("%-10s none (--max-size)\n", "limit");
}

static const char *
day_of(struct arena *a, int64_t wall_ns)
{
	time_t t = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char text[32] = "";

	if (gmtime_r(&t, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
	return str_dup(a, str_of(text));
}

static void
print_predictor(struct arena *a, const struct m_predictor *p)
{
	(void)printf("%-10s %.*s: ", "expects", STR_ARG(p->class));
	if (p->made_ns)
		(void)printf(
		    "by what was trained %s UTC on %s of the class; off by %.1f %% (median) on %" PRIu64
		    " kernels of models that it had not seen, what served before by %.1f %%\n",
		    day_of(a, p->made_ns), many(a, p->rows, "measurement"), 100 * p->error, p->compared,
		    100 * p->beside);
	else
		(void)printf("by what came with Korch%s\n",
		    p->tried_ns ? "; a training on what was measured was not better yet"
				: "; nothing was trained yet");
}

void
cache_stats_words(struct arena *a, const struct m_counts *m)
{
	const struct counters c = {m->counts, m->n_counts};
	uint64_t rows = count(&c, "measurements"), good = count(&c, "measurements_good");

	(void)printf("%-10s %s of %s on %s; %" PRIu64 " of them failures; %" PRIu64
		     " with operands in a cache, the others cold\n",
	    "holds", many(a, rows, "measurement"), many(a, count(&c, "specs"), "kernel"),
	    many(a, count(&c, "environments"), "environment"), rows > good ? rows - good : 0,
	    count(&c, "measurements_warm"));
	(void)printf(
	    "%-10s %s with a time that counts\n", "known", many(a, count(&c, "best_rows"), "kernel"));
	print_hits(&c);
	(void)printf("%-10s %s taken in, %" PRIu64 " timed again, %" PRIu64 " joined with what was there\n",
	    "since made", many(a, count(&c, "stored"), "row"), count(&c, "repeated"), count(&c, "pooled"));
	(void)printf("%-10s %s in %s, of %s\n", "files", bytes_text(a, count(&c, "blob_bytes")),
	    many(a, count(&c, "blobs"), "file"), many(a, count(&c, "jobs"), "job"));
	print_limit(a, &c);
	for (uint32_t i = 0; i < m->n_predictors; i++)
		print_predictor(a, &m->predictors[i]);
}
