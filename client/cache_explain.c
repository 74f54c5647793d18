/* client/cache_explain.c: what was tried for a spec, what won and by how much, what failed and why. */
#include "cache_explain.h"
#include "job_view.h"
#include "run_report.h"
#include "plan_why.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rows of one spec that were measured under equal conditions: good ones by time, then failures. */
struct history {
	const struct m_measurement **rows;
	uint32_t n, n_good;
};

static bool
is_same(const struct m_measurement *x, const struct m_measurement *y)
{
	return hash_eq(&x->spec, &y->spec) && hash_eq(&x->env_hash, &y->env_hash) &&
	    x->threads == y->threads && x->epoch == y->epoch && str_eq(x->precision, y->precision) &&
	    str_eq(x->heat, y->heat);
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

/* All times of a kernel in one unit: that in which its best has one to three digits before the point. */
struct unit {
	const char *name;
	double ns;
};

static struct unit
unit_for(int64_t ns)
{
	static const struct unit units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
	size_t i = 0;

	while (i + 1 < COUNT_OF(units) && (double)ns < units[i].ns)
		i++;
	return units[i];
}

/* Of a median of `samples`, from its quantiles (schema/repeat.c). */
static double
median_error(const struct m_row *r)
{
	return r->samples ? 1.2533 / 2.5631 * (double)(r->p90_ns - r->p10_ns) / sqrt((double)r->samples) : 0;
}

static void
add_time(struct strbuf *sb, const struct m_row *r, struct unit u)
{
	sb_addf(sb, "%10.4g %9.2g", (double)r->median_ns / u.ns, median_error(r) / u.ns);
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

static void
add_repeats(struct strbuf *sb, const struct m_measurement *m, struct unit u)
{
	int64_t cost = median_of_repeats(m);

	for (uint32_t i = 0; i < m->n_repeats; i++) {
		const struct m_repeat *r = &m->repeats[i];
		char hex[65];

		hash_hex(&r->session, hex);
		sb_addz(sb, "    again ");
		if (r->row.fail)
			sb_addf(sb, "%10s %9s", err_name(err_of_wire(r->row.fail)), "");
		else
			add_time(sb, &r->row, u);
		sb_addf(sb, " %9s %7" PRIu64 "  in session %.12s; ", "", r->row.samples, hex);
		print_utc(sb, r->wall_ns);
		sb_addf(sb, " by %.*s\n", STR_ARG(r->worker));
	}
	if (cost > 0)
		sb_addf(sb, "    costs %10.4g %s, by its repeats\n", (double)cost / u.ns, u.name);
}

void
cache_repeats(struct strbuf *sb, const struct m_measurement *m)
{
	add_repeats(sb, m, unit_for(m->row.median_ns));
}

/* ---- words ------------------------------------------------------------------------------------- */
static void
good_words(struct strbuf *sb, const struct history *h, uint32_t i, struct unit u)
{
	const struct m_measurement *m = h->rows[i];
	char behind[32] = "-", code[32] = "-", schedule[SCHEDULE_SHOWN];

	if (i)
		(void)snprintf(behind, sizeof(behind), "(%+.1f %%)",
		    100 *
			((double)m->row.median_ns / (double)MAX_OF(h->rows[0]->row.median_ns, (int64_t)1) -
			    1));
	if (m->row.code_bytes)
		(void)snprintf(code, sizeof(code), "%.1f", (double)m->row.code_bytes / 1024);
	sb_addf(sb, "  %-7s ", i ? "lost" : "best");
	add_time(sb, &m->row, u);
	sb_addf(sb, " %9s %7" PRIu64 " %9.2g %8s  %-10.*s ", behind, m->row.samples, m->row.error, code,
	    STR_ARG(m->row.stop));
	print_utc(sb, m->wall_ns);
	sb_addf(sb, "  %.*s  %s%s%.*s\n", STR_ARG(m->worker), schedule_shown(schedule, m->row.schedule),
	    m->row.state.n ? "  " : "", STR_ARG(m->row.state));
	add_repeats(sb, m, u);
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

/* "boot=1; cpu=...": the lines of an environment's key, one behind the other. */
static void
add_environment(struct strbuf *sb, struct str key)
{
	size_t most = sb->n + 240;

	while (key.n && sb->n < most) {
		struct str line = str_cut(&key, '\n');

		if (!str_starts(line, "flags="))
			sb_addf(sb, "%.*s%s", (int)MIN_OF(line.n, (size_t)100), line.p, key.n ? "; " : "");
	}
	sb_addz(sb, key.n ? "...\n" : "\n");
}

static void
history_words(struct strbuf *sb, const struct history *h)
{
	const struct m_measurement *m = h->rows[0];
	struct unit u = unit_for(m->row.median_ns);
	char hex[65], schedule[SCHEDULE_SHOWN];

	hash_hex(&m->spec, hex);
	sb_addf(sb,
	    "kernel %.12s: %u schedules timed, %u failed; %" PRIu64 " thread%s, %.*s, generator %" PRIu64,
	    hex, h->n_good, h->n - h->n_good, m->threads, m->threads == 1 ? "" : "s", STR_ARG(m->precision),
	    m->epoch);
	if (m->heat.n)
		sb_addf(sb, ", heat %.*s", STR_ARG(m->heat));
	sb_addz(sb, "\n  on ");
	add_environment(sb, m->env);
	if (h->n_good)
		sb_addf(sb, "  %-7s %10s %9s %9s %7s %9s %8s  %-10s %-20s  %s\n", "", u.name, "+-", "behind",
		    "samples", "max error", "code KiB", "stop", "when", "worker, schedule");
	for (uint32_t i = 0; i < h->n_good; i++)
		good_words(sb, h, i, u);
	for (uint32_t i = h->n_good, n; i < h->n; i += n) {
		n = failures_of_class(h, i);
		sb_addf(sb, "  failed %u times: %s: %.*s  \"%s\"%s\n", n,
		    err_name(err_of_wire(h->rows[i]->row.fail)), STR_ARG(h->rows[i]->row.cause),
		    schedule_shown(schedule, h->rows[i]->row.schedule), n > 1 ? ", ..." : "");
	}
}

/* ---- JSON -------------------------------------------------------------------------------------- */
static void
good_json(struct strbuf *sb, const struct history *h, uint32_t i)
{
	const struct m_measurement *m = h->rows[i];
	static const struct hash none;
	char hex[65] = "";

	if (!hash_eq(&m->row.artefact, &none))
		hash_hex(&m->row.artefact, hex);
	sb_addf(sb,
	    "%s{\"median_ns\":%" PRId64 ",\"behind_ns\":%" PRId64 ",\"p10_ns\":%" PRId64
	    ",\"p90_ns\":%" PRId64 ",\"samples\":%" PRIu64
	    ",\"error_ns\":%.3f,\"error\":%.6g,\"wall_ns\":%" PRId64 ",\"code_bytes\":%" PRIu64,
	    i ? "," : "", m->row.median_ns, m->row.median_ns - h->rows[0]->row.median_ns, m->row.p10_ns,
	    m->row.p90_ns, m->row.samples, median_error(&m->row), m->row.error, m->wall_ns,
	    m->row.code_bytes);
	sb_addf(sb, ",\"artefact\":\"%s\"", hex);
	sb_addz(sb, ",\"schedule\":");
	json_string(sb, m->row.schedule);
	sb_addz(sb, ",\"worker\":");
	json_string(sb, m->worker);
	sb_addf(sb, ",\"repeats\":%u,\"cost_ns\":%" PRId64 "}", m->n_repeats,
	    median_of_repeats(m) ? median_of_repeats(m) : m->row.median_ns);
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
	sb_addz(sb, ",\"heat\":");
	json_string(sb, m->heat);
	sb_addz(sb, ",\"environment\":");
	json_string(sb, m->env);
	sb_addz(sb, ",\"timed\":[");
	for (uint32_t i = 0; i < h->n_good; i++)
		good_json(sb, h, i);
	sb_addz(sb, "],\"failed\":[");
	for (uint32_t i = h->n_good, n; i < h->n; i += n) {
		n = failures_of_class(h, i);
		sb_addf(sb, "%s{\"class\":\"%s\",\"times\":%u,\"cause\":", i > h->n_good ? "," : "",
		    err_name(err_of_wire(h->rows[i]->row.fail)), n);
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
