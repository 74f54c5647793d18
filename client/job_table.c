/* client/job_table.c: see job_table.h.  Names are of whoever submitted or joined: nothing in them moves the
 * cursor or begins a line. */
#include "job_table.h"
#include "job_view.h"

#include "../kernels/base/utf8.h"

#include <inttypes.h>
#include <time.h>

enum { NAME_COLUMNS = 24, CLASS_COLUMNS = 36 };

/* At least so many columns wide; 0: as it is. */
static void
add_name(struct strbuf *sb, struct str s, uint32_t columns)
{
	uint32_t n = 0;

	for (; s.n; n++)
		sb_add(sb, utf8_plain(&s));
	while (n++ < columns)
		sb_addc(sb, ' ');
}

/* "42 s", "17 min", "3.5 h": at most 6 columns. */
static void
add_seconds(struct strbuf *sb, double s)
{
	if (s < 100)
		sb_addf(sb, "%4.0f s", s);
	else if (s < 6000)
		sb_addf(sb, "%2.0f min", s / 60);
	else
		sb_addf(sb, "%4.1f h", s / 3600);
}

static void
add_when(struct strbuf *sb, int64_t wall_ns)
{
	time_t t = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char text[32] = "";

	if (localtime_r(&t, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
	sb_addf(sb, "%-16s", text);
}

void
job_table_head(struct strbuf *sb)
{
	sb_addf(sb, "%6s  %-9s  %-*s  %-16s  %-6s  %-6s  %-8s  %s\n", "JOB", "STATE", (int)NAME_COLUMNS,
	    "NAME", "SUBMITTED", "RAN", "BUDGET", "BEST", "GAP, CLASS AND REASON");
}

void
job_table_row(struct strbuf *sb, const struct m_job *job)
{
	size_t from;

	sb_addf(sb, "%6" PRIu64 "  %-9.*s  ", job->id, STR_ARG(job->state));
	add_name(sb, job->title.n ? job->title : job->name, NAME_COLUMNS);
	sb_addz(sb, "  ");
	add_when(sb, job->created_ns);
	sb_addz(sb, "  ");
	if (job->started_ns)
		add_seconds(sb, (double)job->running_ns / 1e9);
	else
		sb_addz(sb, "     -");
	sb_addz(sb, "  ");
	add_seconds(sb, (double)job->options.budget_ns / 1e9);
	sb_addz(sb, "  ");
	from = sb->n;
	if (job->progress.latency_ns > 0)
		print_ns(sb, job->progress.latency_ns);
	else
		sb_addc(sb, '-');
	sb_addf(sb, "%*s", (int)(sb->n - from < 8 ? 8 - (sb->n - from) : 0), "");
	if (job->progress.latency_ns > 0)
		sb_addf(sb, "  %.1f %%", job->progress.gap * 100);
	if (job->class.n) {
		sb_addz(sb, "  ");
		add_name(sb, job->class, 0);
	}
	if (job->reason.n) {
		sb_addz(sb, "  ");
		add_name(sb, job->reason, 0);
	}
	sb_addc(sb, '\n');
}

void
worker_table_head(struct strbuf *sb)
{
	sb_addf(sb, "%-*s  %-*s  %-12s  %6s  %6s  %6s  %s\n", (int)NAME_COLUMNS, "NAME", (int)CLASS_COLUMNS,
	    "CLASS", "STATE", "LEASES", "DONE", "FAULTS", "REASON");
}

void
worker_table_row(struct strbuf *sb, const struct m_worker *w)
{
	add_name(sb, w->name, NAME_COLUMNS);
	sb_addz(sb, "  ");
	add_name(sb, w->class, CLASS_COLUMNS);
	sb_addf(sb, "  %-12.*s  %6" PRIu64 "  %6" PRIu64 "  %6" PRIu64, STR_ARG(w->state), w->leases, w->done,
	    w->faults);
	if (w->reason.n) {
		sb_addz(sb, "  ");
		add_name(sb, w->reason, 0);
	}
	if (w->says.n) {
		sb_addz(sb, "  (calls itself ");
		add_name(sb, w->says, 0);
		sb_addc(sb, ')');
	}
	sb_addc(sb, '\n');
}
