/* client/job_view.h: a job as a person sees it while it runs: a bar on a terminal, plain lines elsewhere,
 * one JSON object a line with --json. */
#ifndef KORCH_JOB_VIEW_H
#define KORCH_JOB_VIEW_H

#include "../kernels/base/opt.h"
#include "../proto/client.h"

struct job_view {
	const struct opts *opts;
	bool is_terminal;    /* stderr is one, and words are wanted */
	bool has_bar;        /* a bar stands on the line */
	struct arena arena;  /* of `last` */
	struct m_event last; /* drawn again when the window changes */
	char place[640];     /* phase or state and its reason, as last told in a line */
	uint64_t told;       /* measured + cached + failed when last told */
	char class[64];      /* that was told to be the job's */
};
void job_view_init(struct job_view *v, const struct opts *o);
void job_view_event(struct job_view *v, const struct m_event *ev);
/* Removes the bar, so that other words can be printed. */
void job_view_clear(struct job_view *v);
/* The window has another width: for session.resized; self is the view. */
void job_view_resized(void *self);
void job_view_fini(struct job_view *v);
/* The bar's line: what a person looks for comes first, and what does not fit is cut. */
void job_bar(struct strbuf *sb, const struct m_event *ev, int columns);

/* Watches a job until it ends.  SIGINT ends the watching with ERR_INTERRUPTED (session.h).  *last: the job's
 * last event.  A failed or cancelled job is an error of its class. */
bool job_follow(struct client *c, uint64_t job, struct job_view *v, struct arena *a, struct m_event *last,
    struct err *e) MUST_CHECK;

/* 12.3 ms, 840 us: three digits that a person reads. */
void print_ns(struct strbuf *sb, int64_t ns);
/* One sentence: a plan was taken in place of that of least sum, for its whole time. */
/* " (84.1 ms at calibration's clock)", of a whole plan's time; nothing where that is about the same. */
void print_calibrated(struct strbuf *sb, int64_t ns, double clock_ratio);
void print_winner(struct strbuf *sb, struct str winner, int64_t least_measured_ns, int64_t measured_ns);
void print_utc(struct strbuf *sb, int64_t wall_ns); /* "2026-11-22T21:38:01Z" */

#endif
