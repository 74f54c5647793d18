/* client/cache_evidence.c: see cache_evidence.h. */
#include "cache_evidence.h"

#include "../kernels/base/utf8.h"
#include "job_view.h"

#include <inttypes.h>

static void
add_number(struct strbuf *sb, const struct m_outcome *o)
{
	const struct m_row *r = o->n_rows ? &o->rows[0] : NULL;
	uint64_t fail = o->fail ? o->fail : r ? r->fail : 0;

	if (fail) {
		sb_addf(sb, "failed (%s)", err_name(err_of_wire(fail)));
	} else if (r) {
		sb_addf(sb, "%" PRId64 " ns", r->median_ns);
	} else if (o->n_timings) {
		sb_addf(sb, "%" PRId64 " ns", o->timings[0].median_ns);
	} else
		sb_addz(sb, "no number");
	if (o->n_rows > 1)
		sb_addf(sb, " and %u more", o->n_rows - 1);
}

void
evidence_words(struct strbuf *sb, const struct m_evidence *ev)
{
	char hex[65];

	print_utc(sb, ev->wall_ns);
	sb_addz(sb, "  ");
	utf8_add_plain(sb, ev->worker);
	sb_addz(sb, "  ");
	utf8_add_plain(sb, ev->class);
	hash_hex(&ev->outcome.spec, hex);
	sb_addf(sb, "  %s %.12s  ", task_kind_name(ev->outcome.kind), hex);
	add_number(sb, &ev->outcome);
	sb_addz(sb, "\n    ");
	utf8_add_plain(sb, ev->why);
	sb_addc(sb, '\n');
}
