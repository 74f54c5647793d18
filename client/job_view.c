/* client/job_view.c: see job_view.h.  Words go to stderr. */
#include "job_view.h"

#include "../kernels/base/clock_ratio.h"
#include "../kernels/base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

void
print_ns(struct strbuf *sb, int64_t ns)
{
	static const struct {
		double from;
		const char *unit;
	} unit[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
	size_t i = 0;

	while (i + 1 < COUNT_OF(unit) && (double)ns < unit[i].from)
		i++;
	sb_addf(sb, "%.3g %s", (double)ns / unit[i].from, unit[i].unit);
}

void
print_calibrated(struct strbuf *sb, int64_t ns, double clock_ratio)
{
	if (!is_other_clock(clock_ratio))
		return;
	sb_addz(sb, " (");
	print_ns(sb, calibrated_ns(ns, clock_ratio));
	sb_addz(sb, " at calibration's clock)");
}

void
print_winner(struct strbuf *sb, struct str winner, int64_t least_measured_ns, int64_t measured_ns)
{
	sb_addz(sb, "whole plans were timed in turns: that of the least sum takes ");
	print_ns(sb, least_measured_ns);
	sb_addf(sb, ", another (%.*s) ", STR_ARG(winner));
	print_ns(sb, measured_ns);
	sb_addz(sb, ", and that one was written\n");
}

void
print_utc(struct strbuf *sb, int64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char text[32] = "?";

	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	sb_addz(sb, text);
}

void
job_view_init(struct job_view *v, const struct opts *o)
{
	*v = (struct job_view){.opts = o};
	v->is_terminal = isatty(STDERR_FILENO) && !opt_flag(o, OPT_quiet) && !opt_flag(o, OPT_json);
}

void
job_view_clear(struct job_view *v)
{
	if (v->has_bar)
		(void)fputs("\r\033[K", stderr);
	v->has_bar = false;
}

/* ---- what an event says ---------------------------------------------------------------------- */
/* What a person looks for: "best sum 82.1 ms, gap 26.0 %, 43 s left" */
static void
add_figures(struct strbuf *sb, const struct m_progress *p)
{
	if (p->latency_ns > 0) {
		sb_addz(sb, "best sum ");
		print_ns(sb, p->latency_ns);
		sb_addf(sb, ", gap %.1f %%", p->gap * 100);
	}
	if (p->wanted)
		sb_addf(sb, "%s%.0f s left", p->latency_ns > 0 ? ", " : "", p->seconds_left);
}

/* "34 measured, 12 cached, 56 wanted of 420 distinct (1444 candidates), bound 60 ms" */
static void
add_counts(struct strbuf *sb, const struct m_progress *p)
{
	if (!p->candidates)
		return;
	sb_addf(sb, "%" PRIu64 " measured, %" PRIu64 " cached", p->measured, p->cached);
	if (p->failed)
		sb_addf(sb, ", %" PRIu64 " failed", p->failed);
	if (p->wanted)
		sb_addf(sb, ", %" PRIu64 " wanted", p->wanted);
	sb_addf(sb, " of %" PRIu64 " distinct (%" PRIu64 " candidates)", p->distinct, p->candidates);
	if (p->latency_ns > 0) {
		sb_addz(sb, ", bound ");
		print_ns(sb, p->bound_ns);
	}
}

/* Where the job is: the planner's phase while it runs, else the job's state, and why. */
static void
add_place(struct strbuf *sb, const struct m_event *ev)
{
	bool runs = str_is(ev->state, "planning") && ev->progress.phase.n;

	utf8_add_plain(sb, runs ? ev->progress.phase : ev->state);
	if (ev->reason.n) {
		sb_addz(sb, ": ");
		utf8_add_plain(sb, ev->reason);
	}
}

/* ---- on a terminal ----------------------------------------------------------------------------- */
/* As much of a text as `columns` have room for; no byte of it moves the cursor. */
static void
add_cut(struct strbuf *sb, const char *text, int columns)
{
	struct str rest = str_of(text);

	while (rest.n && columns-- > 0)
		sb_add(sb, utf8_plain(&rest));
}

void
job_bar(struct strbuf *sb, const struct m_event *ev, int columns)
{
	const struct m_progress *p = &ev->progress;
	uint64_t have = p->measured + p->cached + p->failed, all = have + p->wanted;
	int cells = MIN_OF(columns / 4, 20), full = all ? (int)(have * (uint64_t)cells / all) : 0;
	struct strbuf text;

	sb_init(&text, sb->a);
	add_figures(&text, p);
	if (p->candidates) {
		sb_addz(&text, text.n ? " [" : "[");
		for (int i = 0; i < cells; i++)
			sb_addc(&text, i < full ? '#' : '.');
		sb_addz(&text, "] ");
	}
	add_place(&text, ev);
	if (p->candidates) {
		sb_addz(&text, "; ");
		add_counts(&text, p);
	}
	add_cut(sb, text.p, columns);
}

/* The last column stays free: some terminals wrap as soon as it is written. */
static int
columns_here(void)
{
	struct winsize w = {0};

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
		return 79;
	return MAX_OF(w.ws_col, 2) - 1;
}

static void
draw(struct job_view *v)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	job_bar(&sb, &v->last, columns_here());
	(void)fprintf(stderr, "\r\033[K%s", sb.n ? sb.p : "");
	(void)fflush(stderr);
	v->has_bar = true;
	arena_fini(&tmp);
}

void
job_view_resized(void *self)
{
	struct job_view *v = self;

	if (v->has_bar)
		draw(v);
}

static void
keep_last(struct job_view *v, const struct m_event *ev)
{
	arena_fini(&v->arena);
	v->last = *ev;
	rec_dup(&v->arena, "event", &v->last);
}

/* ---- elsewhere ----------------------------------------------------------------------------------- */
/* A line at each phase, with each reason, and when a quarter more is known. */
static void
say_line(struct job_view *v, const struct m_event *ev)
{
	const struct m_progress *p = &ev->progress;
	uint64_t have = p->measured + p->cached + p->failed;
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	add_place(&sb, ev);
	if (strcmp(sb.p, v->place) != 0 || have >= v->told + v->told / 4 + 16) {
		(void)snprintf(v->place, sizeof(v->place), "%s", sb.p);
		v->told = have;
		sb_addz(&sb, p->latency_ns > 0 || p->wanted ? "; " : "");
		add_figures(&sb, p);
		sb_addz(&sb, p->candidates ? "; " : "");
		add_counts(&sb, p);
		(void)fprintf(stderr, "%s\n", sb.p);
	}
	arena_fini(&tmp);
}

/* Which of the devices that fit what was asked for: once, and again when it is another. */
static void
say_class(struct job_view *v, const struct m_event *ev)
{
	struct arena tmp = {0};
	struct strbuf sb;

	if (!ev->class.n || str_is(ev->class, v->class))
		return;
	(void)snprintf(v->class, sizeof(v->class), "%.*s", STR_ARG(ev->class));
	sb_init(&sb, &tmp);
	add_cut(&sb, arena_printf(&tmp, "for devices of class %s", v->class),
	    v->is_terminal ? columns_here() : 1000);
	job_view_clear(v);
	(void)fprintf(stderr, "%s\n", sb.p);
	arena_fini(&tmp);
}

/* How a job failed is its error, which the program says when it ends. */
static void
say_words(struct job_view *v, const struct m_event *ev)
{
	if (opt_flag(v->opts, OPT_quiet) || str_is(ev->state, "failed") || str_is(ev->state, "cancelled"))
		return;
	keep_last(v, ev);
	say_class(v, ev);
	if (v->is_terminal)
		draw(v);
	else
		say_line(v, ev);
}

void
job_view_event(struct job_view *v, const struct m_event *ev)
{
	struct arena tmp = {0};
	struct strbuf sb;

	if (!opt_flag(v->opts, OPT_json)) {
		say_words(v, ev);
		return;
	}
	sb_init(&sb, &tmp);
	rec_json(&sb, "event", ev);
	(void)printf("%s\n", sb.p);
	(void)fflush(stdout);
	arena_fini(&tmp);
}

void
job_view_fini(struct job_view *v)
{
	job_view_clear(v);
	arena_fini(&v->arena);
}

bool
job_follow(
    struct client *c, uint64_t job, struct job_view *v, struct arena *a, struct m_event *last, struct err *e)
{
	static const int64_t wait_ns = 20000000000;
	uint64_t after = 0;

	*last = (struct m_event){0};
	for (bool is_final = false; !is_final;) {
		struct arena tmp = {0};
		struct msg m;

		if (!client_watch(c, &tmp, job, after, wait_ns, &m, e)) {
			arena_fini(&tmp);
			job_view_clear(v);
			return false;
		}
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			job_view_event(v, &m.job_events.events[i]);
			after = m.job_events.events[i].seq;
			*last = m.job_events.events[i];
		}
		is_final = m.job_events.is_final;
		rec_dup(a, "event", last);
		arena_fini(&tmp);
	}
	job_view_clear(v);
	if (last->code != 0)
		return err_set(e, err_of_wire(last->code), "%.*s", STR_ARG(last->reason));
	return true;
}
