/* client/cache_explain.c: what was tried for a spec, what won and by how much, what failed and why. */
#include "cache_explain.h"
#include "job_view.h"
#include "run_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The rows of one spec that were measured under equal conditions: good ones by time, then failures. */
struct history {
	const struct m_measurement **rows;
	uint32_t n, n_good;
};

static bool
is_same(const struct m_measurement *x, const struct m_measurement *y)
{
	return hash_eq(&x->spec, &y->spec) && hash_eq(&x->env_hash, &y->env_hash) &&
	    x->threads == y->threads && x->epoch == y->epoch && str_eq(x->precision, y->precision);
}

static int
by_rank(const void *px, const void *py)
{
	const struct m_measurement *x = *(const struct m_measurement *const *)px,
				   *y = *(const struct m_measurement *const *)py;

	if ((x->row.fail != 0) != (y->row.fail != 0))
		return x->row.fail ? 1 : -1;
	if (x->row.fail != y->row.fail)
		return x->row.fail < y->row.fail ? -1 : 1;
	if (x->row.median_ns != y->row.median_ns)
		return x->row.median_ns < y->row.median_ns ? -1 : 1;
	return (x > y) - (x < y);
}

static void
add_when(struct strbuf *sb, int64_t wall_ns)
{
	time_t t = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char text[32];

	if (gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		sb_addz(sb, text);
}

/* ---- repeats ----------------------------------------------------------------------------------- */
static int
by_ns(const void *px, const void *py)
{
	int64_t x = *(const int64_t *)px, y = *(const int64_t *)py;

	return (x > y) - (x < y);
}

/* The store's rule (schema/repeat.c); 0: no repeat has a time. */
static int64_t
median_of_repeats(const struct m_measurement *m)
{
	int64_t ns[512]; /* the message holds no more */
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_repeats && n < COUNT_OF(ns); i++)
		if (!m->repeats[i].row.fail)
			ns[n++] = m->repeats[i].row.median_ns;
	if (n == 0)
		return 0;
	qsort(ns, n, sizeof(ns[0]), by_ns);
	return ns[(n - 1) / 2] + (ns[n / 2] - ns[(n - 1) / 2]) / 2;
}

void
cache_repeats(struct strbuf *sb, const struct m_measurement *m)
{
	int64_t cost = median_of_repeats(m);

	for (uint32_t i = 0; i < m->n_repeats; i++) {
		const struct m_repeat *r = &m->repeats[i];
		char hex[65];

		hash_hex(&r->session, hex);
		sb_addz(sb, "    again  ");
		if (r->row.fail)
			sb_addz(sb, err_name(err_of_wire((int)MIN_OF(r->row.fail, (uint64_t)1000))));
		else
			print_ns(sb, r->row.median_ns);
		sb_addf(sb, "  %" PRIu64 " samples in session %.12s; ", r->row.samples, hex);
		add_when(sb, r->wall_ns);
		sb_addf(sb, " by %.*s\n", STR_ARG(r->worker));
	}
	if (cost > 0) {
		sb_addz(sb, "    costs  ");
		print_ns(sb, cost);
		sb_addz(sb, "  by its repeats\n");
	}
}

/* ---- words ------------------------------------------------------------------------------------- */
static void
good_words(struct strbuf *sb, const struct history *h, uint32_t i)
{
	const struct m_measurement *m = h->rows[i];
	char hex[65];

	sb_addf(sb, "  %-6s ", i ? "lost" : "best");
	print_ns(sb, m->row.median_ns);
	if (i)
		sb_addf(sb, " (%+.1f %%)",
		    100 *
			((double)m->row.median_ns / (double)MAX_OF(h->rows[0]->row.median_ns, (int64_t)1) -
			    1));
	sb_addf(sb, "  %" PRIu64 " samples, p10-p90 %" PRId64 " ns, error %.2g, %.*s; ", m->row.samples,
	    m->row.p90_ns - m->row.p10_ns, m->row.error, STR_ARG(m->row.stop));
	if (m->row.code_bytes) {
		hash_hex(&m->row.artefact, hex);
		sb_addf(sb, "code %.12s of %" PRIu64 " bytes; ", hex, m->row.code_bytes);
	}
	if (m->row.state.n)
		sb_addf(sb, "%.*s; ", STR_ARG(m->row.state));
	add_when(sb, m->wall_ns);
	sb_addf(sb, " by %.*s  \"%.*s\"\n", STR_ARG(m->worker), STR_ARG(m->row.schedule));
	cache_repeats(sb, m);
}

/* Failures of one class stand side by side: how many, and the first cause. */
static uint32_t
failures_of_class(const struct history *h, uint32_t from)
{
	uint32_t n = 0;

	while (from + n < h->n && h->rows[from + n]->row.fail == h->rows[from]->row.fail)
		n++;
	return n;
}

static void
history_words(struct strbuf *sb, const struct history *h)
{
	const struct m_measurement *m = h->rows[0];
	char hex[65];

	hash_hex(&m->spec, hex);
	sb_addf(sb,
	    "kernel %.16s: %u schedules timed, %u failed; %" PRIu64 " threads, %.*s, generator %" PRIu64
	    "\n  on %.*s\n",
	    hex, h->n_good, h->n - h->n_good, m->threads, STR_ARG(m->precision), m->epoch,
	    (int)MIN_OF(m->env.n, (size_t)200), m->env.p);
	for (uint32_t i = 0; i < h->n_good; i++)
		good_words(sb, h, i);
	for (uint32_t i = h->n_good, n; i < h->n; i += n) {
		n = failures_of_class(h, i);
		sb_addf(sb, "  failed %u times: %s: %.*s  \"%.*s\"%s\n", n,
		    err_name(err_of_wire((int)h->rows[i]->row.fail)), STR_ARG(h->rows[i]->row.cause),
		    STR_ARG(h->rows[i]->row.schedule), n > 1 ? ", ..." : "");
	}
}

/* ---- JSON -------------------------------------------------------------------------------------- */
static void
good_json(struct strbuf *sb, const struct history *h, uint32_t i)
{
	const struct m_measurement *m = h->rows[i];
	char hex[65];

	hash_hex(&m->row.artefact, hex);
	sb_addf(sb,
	    "%s{\"median_ns\":%" PRId64 ",\"behind_ns\":%" PRId64 ",\"p10_ns\":%" PRId64
	    ",\"p90_ns\":%" PRId64 ",\"samples\":%" PRIu64 ",\"error\":%.6g,\"wall_ns\":%" PRId64
	    ",\"code_bytes\":%" PRIu64,
	    i ? "," : "", m->row.median_ns, m->row.median_ns - h->rows[0]->row.median_ns, m->row.p10_ns,
	    m->row.p90_ns, m->row.samples, m->row.error, m->wall_ns, m->row.code_bytes);
	if (m->row.code_bytes)
		sb_addf(sb, ",\"artefact\":\"%s\"", hex);
	sb_addz(sb, ",\"schedule\":");
	json_string(sb, m->row.schedule);
	sb_addz(sb, ",\"worker\":");
	json_string(sb, m->worker);
	if (m->n_repeats)
		sb_addf(sb, ",\"repeats\":%u,\"cost_ns\":%" PRId64, m->n_repeats, median_of_repeats(m));
	sb_addc(sb, '}');
}

static void
history_json(struct strbuf *sb, const struct history *h)
{
	const struct m_measurement *m = h->rows[0];
	char hex[65];

	hash_hex(&m->spec, hex);
	sb_addf(sb, "{\"spec\":\"%s\",\"threads\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"precision\":", hex,
	    m->threads, m->epoch);
	json_string(sb, m->precision);
	sb_addz(sb, ",\"environment\":");
	json_string(sb, m->env);
	sb_addz(sb, ",\"timed\":[");
	for (uint32_t i = 0; i < h->n_good; i++)
		good_json(sb, h, i);
	sb_addz(sb, "],\"failed\":[");
	for (uint32_t i = h->n_good, n; i < h->n; i += n) {
		n = failures_of_class(h, i);
		sb_addf(sb, "%s{\"class\":\"%s\",\"times\":%u,\"cause\":", i > h->n_good ? "," : "",
		    err_name(err_of_wire((int)h->rows[i]->row.fail)), n);
		json_string(sb, h->rows[i]->row.cause);
		sb_addc(sb, '}');
	}
	sb_addz(sb, "]}\n");
}

void
cache_explain(struct arena *a, const struct m_measurement *rows, uint32_t n, bool json)
{
	bool *is_told = NEW_ARRAY(a, bool, n);
	struct strbuf sb;

	sb_init(&sb, a);
	for (uint32_t i = 0; i < n; i++) {
		struct history h = {.rows = NEW_ARRAY(a, const struct m_measurement *, n)};

		for (uint32_t j = i; j < n && !is_told[i]; j++)
			if (is_same(&rows[i], &rows[j])) {
				is_told[j] |= j != i;
				h.rows[h.n++] = &rows[j];
				h.n_good += rows[j].row.fail == 0;
			}
		if (!h.n)
			continue;
		qsort(h.rows, h.n, sizeof(h.rows[0]), by_rank);
		(json ? history_json : history_words)(&sb, &h);
	}
	(void)fputs(sb.p, stdout);
}
