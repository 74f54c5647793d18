/* client/run_report.c: what korch-run says at the end: times, the profile, the check; as words
 * or as one JSON object. */
#include "run_report.h"
#include "plan_why.h"
#include "step_table.h"

#include "../kernels/base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t
median(int64_t *v, uint32_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static struct step_line *
profile(struct arena *a, const struct plan *p, const struct run_times *t)
{
	int64_t *v = NEW_ARRAY(a, int64_t, t->n), *ns = NEW_ARRAY(a, int64_t, p->n_steps);

	for (uint32_t i = 0; i < p->n_steps; i++) {
		for (uint32_t k = 0; k < t->n; k++)
			v[k] = t->step_ns[k][i];
		ns[i] = median(v, t->n);
	}
	return step_lines(a, p, ns);
}

void
json_string(struct strbuf *sb, struct str s)
{
	json_text(sb, s);
}

static void
add_profile_json(struct strbuf *sb, const struct plan *p, const struct step_line *lines, uint32_t n)
{
	sb_addz(sb, ",\"profile\":[");
	for (uint32_t i = 0; i < n; i++) {
		const struct step_line *l = &lines[i];
		const struct plan_step *s = &p->steps[l->step];
		const struct plan_kernel *k = &p->kernels[s->kernel];
		char hex[65];

		why_kernel_hex(k, hex);
		sb_addf(sb,
		    "%s{\"kernel\":%" PRIu32 ",\"step\":%" PRIu32 ",\"spec\":\"%s\",\"ns\":%" PRId64
		    ",\"share\":%.4f,\"bytes\":%" PRId64 ",\"flops\":%" PRId64 ",\"bound_ns\":%" PRId64
		    ",\"of_bound\":%.4f,\"recorded_ns\":%" PRId64 ",\"symbol\":",
		    i ? "," : "", s->kernel, l->step, hex, l->ns, l->share, k->bytes, k->flops, k->bound_ns,
		    l->ns ? (double)k->bound_ns / (double)l->ns : 0, k->cost_ns);
		json_string(sb, k->symbol);
		sb_addz(sb, ",\"schedule\":");
		json_string(sb, k->schedule);
		sb_addz(sb, ",\"nodes\":");
		json_string(sb, s->nodes);
		sb_addc(sb, '}');
	}
	sb_addc(sb, ']');
}

static void
add_streams_json(struct strbuf *sb, const struct plan_streams *s)
{
	sb_addf(sb,
	    ",\"streams\":{\"asked\":%" PRIu32 ",\"used\":%" PRIu32 ",\"side\":%" PRIu32 ",\"waits\":%" PRIu32
	    ",\"one_ns\":%" PRId64 ",\"side_ns\":%" PRId64 "}",
	    s->n_asked, s->n_used, s->n_side, s->n_waits, s->side_ns ? s->one_ns : 0, s->side_ns);
}

void
run_report_streams(struct strbuf *sb, const struct plan_streams *s, bool json)
{
	if (json)
		add_streams_json(sb, s);
	else if (s->side_ns)
		sb_addf(sb,
		    "streams: %" PRIu32 " used; %.3f ms on 1, %.3f ms on %" PRIu32 " with %" PRIu32
		    " waits, timed in turns when the plan was opened\n",
		    s->n_used, (double)s->one_ns / 1e6, (double)s->side_ns / 1e6, s->n_side, s->n_waits);
	else
		sb_addf(sb, "streams: 1 used; %s\n",
		    s->n_asked > 1 ? "no two kernels can gain by running side by side"
				   : "no more were asked for");
}

static void
print_streams(struct arena *a, const struct plan_streams *s)
{
	struct strbuf sb;

	sb_init(&sb, a);
	run_report_streams(&sb, s, false);
	(void)fputs(sb.p, stdout);
}

/* {"plan": how it was made, "run": what running it gave} of a model, else the latter alone. */
static void
report_json(struct arena *a, const struct run_model *model, const struct plan *p, const struct run_times *t,
    int64_t median_ns, int64_t min_ns, const struct step_line *lines, uint32_t n_lines,
    const struct run_check *check)
{
	struct strbuf sb;

	sb_init(&sb, a);
	if (model) {
		sb_addz(&sb, "{\"plan\":");
		run_model_json(&sb, model);
		sb_addz(&sb, ",\"run\":");
	}
	sb_addf(&sb,
	    "{\"median_ns\":%" PRId64 ",\"min_ns\":%" PRId64 ",\"cpu_ns\":%" PRId64
	    ",\"samples\":%u,\"kernels\":%u,\"predicted_ns\":%" PRId64,
	    median_ns, min_ns, median(t->cpu_ns, t->n), t->n, p->n_steps, p->latency_ns);
	sb_addf(&sb, ",\"checked_sets\":%u,\"checked_outputs\":%u,\"max_rel\":%.6g,\"agrees\":%s",
	    check ? check->n_sets : 0, check ? check->n_outputs : 0, check ? check->max_rel : 0,
	    check ? "true" : "null");
	if (t->streams)
		run_report_streams(&sb, t->streams, true);
	else
		sb_addz(&sb, ",\"streams\":null");
	add_profile_json(&sb, p, lines, n_lines);
	sb_addz(&sb, model ? "}}" : "}");
	(void)puts(sb.p);
}

/* Of a plan that was just made without measuring, the sum is of bounds, which are no times. */
static void
print_times(const struct plan *p, const struct run_times *t, int64_t median_ns, int64_t min_ns,
    const struct run_model *model)
{
	(void)printf("median %.3f ms, min %.3f ms, %u run%s, %u kernels", (double)median_ns / 1e6,
	    (double)min_ns / 1e6, t->n, t->n == 1 ? "" : "s", p->n_steps);
	if (model && model->progress.guessed)
		(void)printf(" (%" PRIu64 " of them never timed)\n", model->progress.guessed);
	else
		(void)printf(" (their recorded sum: %.3f ms)\n", (double)p->latency_ns / 1e6);
}

void
run_report(struct arena *a, const struct opts *o, const struct plan *p, const struct run_times *t,
    const struct run_check *check, const struct run_model *model)
{
	struct step_line *lines = t->step_ns && t->n ? profile(a, p, t) : NULL;
	uint32_t n_lines = lines ? step_lines_top(lines, p->n_steps, opt_int(o, OPT_top)) : 0;
	int64_t median_ns = median(t->total_ns, t->n), min_ns = t->n ? t->total_ns[0] : 0;

	if (opt_flag(o, OPT_json)) {
		report_json(a, model, p, t, median_ns, min_ns, lines, n_lines, check);
		return;
	}
	if (lines)
		step_table_print(p, lines, n_lines);
	if (check)
		(void)printf("agrees: %u data set%s, %u outputs, largest error over largest magnitude %.3g\n",
		    check->n_sets, check->n_sets == 1 ? "" : "s", check->n_outputs, check->max_rel);
	if (t->streams && t->n)
		print_streams(a, t->streams);
	if (t->n)
		print_times(p, t, median_ns, min_ns, model);
	if (model)
		run_model_words(model, a, o);
}
