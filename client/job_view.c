/* client/job_view.c: see job_view.h.  Words go to stderr, the result to stdout. */
#include "job_view.h"
#include "run_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_CELLS = 20 };

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

/* "420 distinct of 1444 candidates, 12 cached, 34 measured, best 82.1 ms, bound 60 ms, gap 26 %" */
static void
add_counts(struct strbuf *sb, const struct m_progress *p)
{
	if (!p->candidates)
		return;
	sb_addf(sb,
	    "  %" PRIu64 " candidates (%" PRIu64 " distinct), %" PRIu64 " cached, %" PRIu64 " measured",
	    p->candidates, p->distinct, p->cached, p->measured);
	if (p->failed)
		sb_addf(sb, ", %" PRIu64 " failed", p->failed);
	if (p->latency_ns > 0) {
		sb_addz(sb, "; best ");
		print_ns(sb, p->latency_ns);
		sb_addz(sb, ", bound ");
		print_ns(sb, p->bound_ns);
		sb_addf(sb, ", gap %.1f %%", p->gap * 100);
	}
	if (p->wanted)
		sb_addf(sb, "; %" PRIu64 " wanted, %.0f s left", p->wanted, p->seconds_left);
}

/* The bar fills with the share of wanted measurements that have come. */
static void
draw_bar(struct job_view *v, const struct m_progress *p, const char *text)
{
	uint64_t have = p->measured + p->cached + p->failed, all = have + p->wanted;
	int full = all ? (int)(have * BAR_CELLS / all) : 0;
	char bar[BAR_CELLS + 1];

	for (int i = 0; i < BAR_CELLS; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR_CELLS] = '\0';
	(void)fprintf(stderr, "\r\033[K[%s] %.*s%.140s", bar, STR_ARG(p->phase), text);
	(void)fflush(stderr);
	v->has_bar = true;
}

/* Elsewhere than on a terminal: a line at each phase, and when a quarter more is known. */
static bool
is_news(const struct job_view *v, const struct m_progress *p)
{
	uint64_t have = p->measured + p->cached + p->failed;

	return !str_is(p->phase, v->phase) || have >= v->told + v->told / 4 + 16;
}

void
job_view_event(struct job_view *v, const struct m_event *ev)
{
	const struct m_progress *p = &ev->progress;
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	if (opt_flag(v->opts, OPT_json)) {
		rec_json(&sb, "event", ev);
		(void)printf("%s\n", sb.p);
		(void)fflush(stdout);
	} else if (!opt_flag(v->opts, OPT_quiet)) {
		if (ev->reason.n)
			sb_addf(&sb, "  (%.*s)", STR_ARG(ev->reason));
		add_counts(&sb, p);
		if (v->is_terminal) {
			draw_bar(v, p, sb.p);
		} else if (is_news(v, p) || ev->reason.n) {
			(void)fprintf(stderr, "%.*s%s\n", STR_ARG(p->phase.n ? p->phase : ev->state), sb.p);
			(void)snprintf(v->phase, sizeof(v->phase), "%.*s", STR_ARG(p->phase));
			v->told = p->measured + p->cached + p->failed;
		}
	}
	arena_fini(&tmp);
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
		return err_set(e, err_of_wire((int)last->code), "%.*s", STR_ARG(last->reason));
	return true;
}

static void
print_json(const struct m_progress *p)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	json_string(&sb, p->stop.n ? p->stop : STR(""));
	if (p->trouble.n) {
		sb_addz(&sb, ", \"trouble\": ");
		json_string(&sb, p->trouble);
	}
	(void)printf("{\"operators\": %" PRIu64 ", \"primitives\": %" PRIu64 ", \"candidates\": %" PRIu64
		     ", \"distinct\": %" PRIu64 ", \"cached\": %" PRIu64 ", \"measured\": %" PRIu64
		     ", \"failed\": %" PRIu64 ", \"chosen\": %" PRIu64 ", \"latency_ns\": %" PRId64
		     ", \"bound_ns\": %" PRId64 ", \"gap\": %.6g, \"proved\": %s, \"measured_ns\": %" PRId64
		     ", \"runner_ns\": %" PRId64 ", \"runner_measured_ns\": %" PRId64
		     ", \"remeasured\": %" PRIu64 ", \"seconds\": %.3f, \"stop\": %s",
	    p->operators, p->primitives, p->candidates, p->distinct, p->cached, p->measured, p->failed,
	    p->chosen, p->latency_ns, p->bound_ns, p->gap, p->proved ? "true" : "false", p->measured_ns,
	    p->runner_ns, p->runner_measured_ns, p->remeasured, p->seconds, sb.p);
	arena_fini(&tmp);
	if (p->what_if_base_ns > 0)
		(void)printf(", \"without_conditions_ns\": %" PRId64 ", \"price_ns\": %" PRId64,
		    p->what_if_base_ns, p->latency_ns - p->what_if_base_ns);
	(void)printf("}\n");
}

/* Whole plans that were timed in the same session. */
static void
add_runner(struct strbuf *sb, const struct m_progress *p)
{
	if (p->winner.n)
		sb_addf(sb, " (taken for its whole time: %.*s)", STR_ARG(p->winner));
	if (p->runner_measured_ns <= 0)
		return;
	sb_addf(sb, "; runner-up (%.*s, sum ", STR_ARG(p->runner));
	print_ns(sb, p->runner_ns);
	sb_addz(sb, ") measured ");
	print_ns(sb, p->runner_measured_ns);
}

/* D20: the sum of chosen costs and the whole plan's own time are two numbers; where they differ
 * by more than a tenth it is said. */
static void
add_latency(struct strbuf *sb, const struct m_progress *p)
{
	sb_addz(sb, "latency ");
	print_ns(sb, p->latency_ns);
	sb_addz(sb, " as the sum of its kernels");
	if (p->guessed)
		sb_addf(sb, ", %" PRIu64 " of them never measured and counted at their bounds", p->guessed);
	sb_addz(sb, " (");
	if (p->proved) {
		sb_addz(sb, "proved the least over all candidates");
	} else {
		sb_addz(sb, "bound ");
		print_ns(sb, p->bound_ns);
		sb_addf(sb, ", gap %.1f %%", p->gap * 100);
	}
	sb_addz(sb, ")");
	if (p->measured_ns > 0) {
		double off = (double)p->measured_ns / (double)MAX_OF(p->latency_ns, 1) - 1;

		sb_addz(sb, "; whole plan measured ");
		print_ns(sb, p->measured_ns);
		if (off > 0.1 || off < -0.1)
			sb_addf(sb, ", %+.0f %% off the sum", off * 100);
		add_runner(sb, p);
	}
	sb_addc(sb, '\n');
}

static void
add_price(struct strbuf *sb, const struct m_progress *p)
{
	int64_t price = p->latency_ns - p->what_if_base_ns;

	sb_addf(sb, "a plan %.*s costs ", STR_ARG(p->what_if));
	print_ns(sb, p->latency_ns);
	sb_addz(sb, ", the one without conditions ");
	print_ns(sb, p->what_if_base_ns);
	sb_addf(sb, ": %+.3f us, %+.2f %%\n", (double)price / 1e3,
	    100 * (double)price / (double)p->what_if_base_ns);
}

void
job_print_result(const struct opts *o, const char *model, const char *plan, const struct m_progress *p)
{
	struct arena tmp = {0};
	struct strbuf sb;

	if (opt_flag(o, OPT_json)) {
		print_json(p);
		return;
	}
	sb_init(&sb, &tmp);
	sb_addf(&sb,
	    "%s: %" PRIu64 " operators -> %" PRIu64 " primitives -> %" PRIu64 " candidates -> %" PRIu64
	    " distinct -> %" PRIu64 " measured now, %" PRIu64 " from the cache -> %" PRIu64 " kernels\n",
	    model, p->operators, p->primitives, p->candidates, p->distinct, p->measured, p->cached,
	    p->chosen);
	if (p->remeasured)
		sb_addf(&sb, "%" PRIu64 " kernels that the choice rests on were timed again side by side\n",
		    p->remeasured);
	add_latency(&sb, p);
	if (p->what_if_base_ns > 0)
		add_price(&sb, p);
	sb_addf(&sb,
	    *plan ? "plan %s, after %.1f s" : "nothing written (-o writes that plan)%s, after %.1f s", plan,
	    p->seconds);
	if (p->stop.n)
		sb_addf(&sb, ": %.*s", STR_ARG(p->stop));
	sb_addc(&sb, '\n');
	if (p->trouble.n)
		sb_addf(&sb, "%.*s\n", STR_ARG(p->trouble));
	(void)fputs(sb.p, stdout);
	arena_fini(&tmp);
}
