/* client/cache_evidence.c: see cache_evidence.h. */
#include "cache_evidence.h"

#include "job_view.h"

#include <inttypes.h>
#include <time.h>

static void
add_time(struct strbuf *sb, int64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char text[32] = "?";

	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	sb_addz(sb, text);
}

static void
add_number(struct strbuf *sb, const struct m_outcome *o)
{
	const struct m_row *r = o->n_rows ? &o->rows[0] : NULL;
	uint64_t fail = o->fail ? o->fail : r ? r->fail : 0;

	if (fail) {
		sb_addf(sb, "failed (%s)", fail < 1000 ? err_name(err_of_wire((int)fail)) : "?");
	} else if (r) {
		sb_addf(sb, "%" PRId64 " ns", r->median_ns);
	} else if (o->n_timings) {
		sb_addf(sb, "%" PRId64 " ns", o->timings[0].median_ns);
	} else
		sb_addz(sb, "no number");
	if (o->n_rows > 1)
		sb_addf(sb, " and %u more", o->n_rows - 1);
}

/* A name comes from outside: a control character in it is nobody's line break. */
static void
add_plain(struct strbuf *sb, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		sb_addc(sb, (unsigned char)s.p[i] < ' ' || s.p[i] == 127 ? '?' : s.p[i]);
}

void
evidence_words(struct strbuf *sb, const struct m_evidence *ev)
{
	char hex[65];

	add_time(sb, ev->wall_ns);
	sb_addz(sb, "  ");
	add_plain(sb, ev->worker);
	sb_addz(sb, "  ");
	add_plain(sb, ev->class);
	hash_hex(&ev->outcome.spec, hex);
	sb_addf(sb, "  %s %.12s  ", task_kind_name(ev->outcome.kind), hex);
	add_number(sb, &ev->outcome);
	sb_addz(sb, "\n    ");
	add_plain(sb, ev->why);
	sb_addc(sb, '\n');
}
