/* client/plan_show.c: a plan as a table, or as one JSON object. */
#include "plan_show.h"
#include "job_view.h"
#include "plan_away.h"
#include "plan_why.h"
#include "run_report.h"
#include "step_table.h"
#include "sure_words.h"

#include "../kernels/device/streams.h"
#include "../kernels/run/exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double
gap(const struct plan *p)
{
	return p->latency_ns > 0 ? (double)(p->latency_ns - p->bound_ns) / (double)p->latency_ns : 0;
}

static void
show_io(struct arena *a, const char *what, const struct plan_io *io, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct strbuf sb;

		sb_init(&sb, a);
		shape_print(&sb, &io[i].shape);
		(void)printf(
		    "%-10s %.*s %s%s\n", i ? "" : what, STR_ARG(io[i].name), dtype_name(io[i].type), sb.p);
	}
}

/* What the runtime will try; whether it gains is known where it was timed, and never a part of the bound. */
static void
show_streams(struct arena *a, const struct plan *p)
{
	struct streams s;

	if (!plan_wants_gpu(p))
		return;
	streams_of_plan(a, p, STREAMS_DEFAULT, &s);
	if (s.n_streams == 1)
		(void)printf("%-10s 1: no two kernels can gain by running side by side\n", "streams");
	else
		(void)printf("%-10s up to %u of %d, %u waits, where korch-run finds that faster (not part of "
			     "the bound)\n",
		    "streams", s.n_streams, (int)STREAMS_DEFAULT, s.n_waits);
}

/* Steps that are no work. */
static uint32_t
count_views(const struct plan *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_steps; i++)
		n += plan_kernel_is_view(&p->kernels[p->steps[i].kernel]);
	return n;
}

static const char *
time_text(struct arena *a, int64_t ns)
{
	struct strbuf sb;

	sb_init(&sb, a);
	print_ns(&sb, ns);
	return sb.p;
}

/* What the sum leaves out, by plans that were timed before this one. */
static void
show_expected(struct arena *a, const struct plan *p)
{
	if (p->expected_ns <= 0)
		return;
	(void)printf("%-10s %s, of the whole plan (%s to %s with 90 %%; ", "expected",
	    time_text(a, p->expected_ns), time_text(a, p->expected_low_ns),
	    time_text(a, p->expected_high_ns));
	if (p->expected_of)
		(void)printf("learned from %" PRIu64 " timed plan%s)\n", p->expected_of,
		    p->expected_of == 1 ? "" : "s");
	else
		(void)printf("nothing known of what the sum leaves out)\n");
}

/* As it ran then; and beside sum and expectation, which are of calibration's clock. */
static void
show_measured(struct arena *a, const struct plan *p)
{
	struct strbuf sb;

	if (p->measured_ns <= 0)
		return;
	sb_init(&sb, a);
	print_calibrated(&sb, p->measured_ns, p->clock_ratio);
	(void)printf("%-10s %s%.*s, the whole plan where it was made\n", "measured",
	    time_text(a, p->measured_ns), STR_ARG(sb_str(&sb)));
}

/* Beside the bound, which is certain. */
static void
show_sure(struct arena *a, const struct plan *p)
{
	struct strbuf sb;

	sb_init(&sb, a);
	for (uint32_t i = 0; i < p->n_sures; i++) {
		const struct plan_sure *s = &p->sures[i];

		sure_words(&sb, p->latency_ns, s->least_ns, s->confidence);
		sb_addf(&sb,
		    ": %u kernels that were not measured at the low end of what is predicted, %u at their "
		    "bounds",
		    s->n_predicted, s->n_bound);
		(void)printf("%-10s %s\n", "confidence", sb.p);
	}
}

/* Sum and bound are of kernels one by one, their operands where the plan was expected to find them. */
static void
show_times(struct arena *a, const struct plan *p)
{
	(void)printf(
	    "%-10s %s, the sum of its kernels, each timed with its operands where the plan finds them "
	    "(heat)\n",
	    "latency", time_text(a, p->latency_ns));
	(void)printf("%-10s %s, of that sum (%s, gap %.1f %%)\n", "bound", time_text(a, p->bound_ns),
	    p->proved ? "proved the least within its limits" : "not proved", 100 * gap(p));
	show_expected(a, p);
	show_sure(a, p);
	show_measured(a, p);
	if (p->runner_measured_ns > 0)
		(void)printf("%-10s %.*s: sum %s, measured %s beside it\n", "runner-up", STR_ARG(p->runner),
		    time_text(a, p->runner_ns), time_text(a, p->runner_measured_ns));
	if (p->winner.n)
		(void)printf("%-10s %.*s: the plan of least sum was measured at %s beside it\n", "taken",
		    STR_ARG(p->winner), time_text(a, p->least_measured_ns));
}

/* What is expected where nothing was measured, and of the measured ones their times. */
struct predicted {
	double ns, low_ns, high_ns;
	uint32_t n_guessed;
};

static struct predicted
predicted_of(const struct plan *p)
{
	struct predicted sum = {0};

	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_expected *x = why_expected(p, p->steps[i].kernel);
		double ns = (double)p->kernels[p->steps[i].kernel].cost_ns;

		sum.n_guessed += x != NULL;
		sum.ns += x ? (double)x->ns : ns;
		sum.low_ns += x ? (double)x->low_ns : ns;
		sum.high_ns += x ? (double)x->high_ns : ns;
	}
	return sum;
}

static void
show_predicted(struct arena *a, const struct plan *p)
{
	struct predicted x = predicted_of(p);

	if (x.n_guessed)
		(void)printf(
		    "%-10s %s, with 90 %% %s to %s: %u of its kernels were never measured on such a device\n",
		    "predicted", time_text(a, (int64_t)x.ns), time_text(a, (int64_t)x.low_ns),
		    time_text(a, (int64_t)x.high_ns), x.n_guessed);
}

static void
add_json_predicted(struct strbuf *sb, const struct plan *p)
{
	struct predicted x = predicted_of(p);
	double is = x.n_guessed ? 1 : 0;

	sb_addf(sb, ",\"predicted_ns\":%.0f,\"predicted_low_ns\":%.0f,\"predicted_high_ns\":%.0f", is * x.ns,
	    is * x.low_ns, is * x.high_ns);
}

static double
mib(size_t n_bytes)
{
	return (double)n_bytes / 1048576;
}

/* What kernels keep to themselves while they run: one after the other has it. */
static size_t
scratch_bytes(const struct plan *p)
{
	size_t shared = 0, local = 0;

	for (uint32_t i = 0; i < p->n_kernels; i++) {
		const struct plan_kernel *k = &p->kernels[i];

		shared = k->shared_bytes > shared ? k->shared_bytes : shared;
		local = k->local_bytes > local ? k->local_bytes : local;
	}
	return shared + local * p->n_threads;
}

/* What a library packs is in memory in its own form, and in the plan's no more. */
static void
show_memory(const struct plan *p)
{
	struct plan_memory m;
	struct err e = {0};

	(void)printf("%-10s %.1f MiB weights", "memory", mib(p->constants.n));
	if (!plan_memory(p, &m, &e))
		(void)printf(" (as they are packed here is not known: %s)", e.msg);
	else if (mib(m.packed_bytes) >= 0.05)
		(void)printf(
		    ", of which a library packs %.1f as %.1f", mib(m.unread_bytes), mib(m.packed_bytes));
	(void)printf(", %.1f MiB work, %.1f MiB scratch, %.1f KiB code\n", mib(p->work_bytes),
	    mib(scratch_bytes(p)), (double)p->module.n / 1024);
}

static void
show_signer(const struct plan_host *h, const struct plan_signer *by)
{
	static const struct {
		const char *is, *words;
	} row[] = {{"own", "your own key"}, {"known", "a key that you trust"},
	    {"unknown", "a key that you do not trust: korch-run takes it with --trust, or rebuild it"},
	    {"broken", "and the signature does not hold: the plan was changed since"}};

	if (!*by->print) {
		(void)printf(
		    "%-10s by nobody: korch-run takes it with --trust any, or rebuild it\n", "signed");
		return;
	}
	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (strcmp(row[i].is, by->is) == 0)
			(void)printf("%-10s by %s, %s%s%s%s\n", "signed", by->print, row[i].words,
			    *by->file ? " (" : "", by->file, *by->file ? ")" : "");
	if (h->seal.worker.n)
		(void)printf("%-10s its code, by %.*s%s\n", "built", STR_ARG(h->seal.worker),
		    plan_away_is_unchecked(h) ? ": never checked on such a device" : "");
}

static void
show_head(struct arena *a, const struct plan *p, const struct plan_host *h, const struct plan_signer *by)
{
	char class[DEV_CLASS_MAX];

	(void)printf("%-10s %.*s\n", "model", STR_ARG(p->model_name));
	show_io(a, "inputs", p->inputs, p->n_inputs);
	if (p->values.n)
		(void)printf("%-10s %.*s: constants of this plan\n", "values", STR_ARG(p->values));
	show_io(a, "outputs", p->outputs, p->n_outputs);
	dev_class_of(p->run_compat, p->environment, class);
	if (*class)
		(void)printf("%-10s %s\n", "class", class);
	show_signer(h, by);
	(void)printf("%-10s %.*s, %u thread%s, fusion %.*s, tolerance %g\n", "device", STR_ARG(p->run_compat),
	    p->n_threads, p->n_threads == 1 ? "" : "s", STR_ARG(p->fusion), p->tolerance);
	if (plan_lacks_code(p))
		(void)printf("%-10s none: korch-plan rebuild makes it on such a device\n", "code");
	if (plan_libraries(a, p).n)
		(void)printf("%-10s %.*s\n", "libraries", STR_ARG(plan_libraries(a, p)));
	(void)printf("%-10s %" PRIu64 " operators, %" PRIu64 " primitives, %" PRIu64 " candidates, %" PRIu64
		     " distinct, %u chosen (%u kernels)",
	    "search", p->n_operators, p->n_primitives, p->n_candidates_total, p->n_distinct, p->n_steps,
	    p->n_kernels);
	if (count_views(p))
		(void)printf(", %u of them views, which are no work", count_views(p));
	(void)putchar('\n');
	show_times(a, p);
	show_predicted(a, p);
	show_memory(p);
	show_streams(a, p);
	(void)printf("%-10s %.*s\n", "proof", STR_ARG(p->certificate));
	if (p->stop.n)
		(void)printf("%-10s %.*s\n", "ended", STR_ARG(p->stop));
	if (p->what_if.n)
		(void)printf("%-10s %.*s: %+.3f us (%s without that condition)\n", "what if",
		    STR_ARG(p->what_if), (double)p->latency_ns / 1e3 - (double)p->what_if_base_ns / 1e3,
		    time_text(a, p->what_if_base_ns));
	if (h->made_by.n)
		(void)printf("%-10s %.*s\n", "made by", STR_ARG(h->made_by));
}

/* Of a kernel that was predicted what was expected; of all others what is recorded. */
static int64_t
expected_ns(const struct plan *p, uint32_t kernel)
{
	const struct plan_expected *x = why_expected(p, kernel);

	return x ? x->ns : p->kernels[kernel].cost_ns;
}

static struct step_line *
recorded_lines(struct arena *a, const struct plan *p)
{
	int64_t *ns = NEW_ARRAY(a, int64_t, p->n_steps);
	struct step_line *lines;

	for (uint32_t i = 0; i < p->n_steps; i++)
		ns[i] = expected_ns(p, p->steps[i].kernel);
	lines = step_lines(a, p, ns);
	for (uint32_t i = 0; i < p->n_steps; i++)
		lines[i].is_guess = !p->kernels[p->steps[i].kernel].is_measured;
	return lines;
}

static void
show_steps(struct arena *a, const struct plan *p, int64_t top)
{
	struct step_line *lines = recorded_lines(a, p);

	(void)putchar('\n');
	step_table_print(p, lines, step_lines_top(lines, p->n_steps, top));
	for (uint32_t i = 0; i < p->n_copies; i++)
		(void)printf("%4s output %u is a copy\n", "", p->places[p->copies[i].to].index);
}

static void
add_json_io(struct strbuf *sb, const char *what, const struct plan_io *io, uint32_t n)
{
	sb_addf(sb, ",\"%s\":[", what);
	for (uint32_t i = 0; i < n; i++) {
		sb_addz(sb, i ? ",{\"name\":" : "{\"name\":");
		json_string(sb, io[i].name);
		sb_addf(sb, ",\"type\":\"%s\",\"shape\":", dtype_name(io[i].type));
		shape_print(sb, &io[i].shape);
		sb_addc(sb, '}');
	}
	sb_addc(sb, ']');
}

static void
add_json_steps(struct arena *a, struct strbuf *sb, const struct plan *p, int64_t top)
{
	struct step_line *lines = recorded_lines(a, p);
	uint32_t n = step_lines_top(lines, p->n_steps, top);

	sb_addz(sb, ",\"steps\":[");
	for (uint32_t i = 0; i < n; i++) {
		const struct plan_step *s = &p->steps[lines[i].step];
		const struct plan_kernel *k = &p->kernels[s->kernel];
		char hex[65];

		why_kernel_hex(k, hex);
		sb_addf(sb,
		    "%s{\"step\":%u,\"spec\":\"%s\",\"kernel\":%u,\"cost_ns\":%" PRId64 ",\"error_ns\":%.3f"
		    ",\"bound_ns\":%" PRId64 ",\"measured\":%s,\"flops\":%" PRId64 ",\"bytes\":%" PRId64
		    ",\"passes\":%u,\"schedule\":",
		    i ? "," : "", lines[i].step, hex, s->kernel, k->cost_ns, k->error_ns, k->bound_ns,
		    k->is_measured ? "true" : "false", k->flops, k->bytes, k->n_passes);
		json_string(sb, k->schedule);
		sb_addf(sb, ",\"expected_ns\":%" PRId64 ",\"heat\":", expected_ns(p, s->kernel));
		json_string(sb, why_heat(p, s->kernel));
		sb_addz(sb, ",\"nodes\":");
		json_string(sb, s->nodes);
		sb_addc(sb, '}');
	}
	sb_addc(sb, ']');
}

static void
add_json_streams(struct arena *a, struct strbuf *sb, const struct plan *p)
{
	struct streams s;

	if (!plan_wants_gpu(p)) {
		sb_addz(sb, ",\"streams\":null");
		return;
	}
	streams_of_plan(a, p, STREAMS_DEFAULT, &s);
	sb_addf(sb, ",\"streams\":{\"asked\":%d,\"side\":%u,\"waits\":%u}", (int)STREAMS_DEFAULT, s.n_streams,
	    s.n_waits);
}

/* What it is of, for whom, and who made it. */
static void
add_json_words(struct arena *a, struct strbuf *sb, const struct plan *p, const struct plan_host *h,
    const struct plan_signer *by)
{
	char hex[65], class[DEV_CLASS_MAX];

	hash_hex(&h->digest, hex);
	sb_addf(sb, "{\"digest\":\"%s\",\"model\":", hex);
	json_string(sb, p->model_name);
	sb_addz(sb, ",\"values\":");
	json_string(sb, p->values);
	sb_addz(sb, ",\"libraries\":");
	json_string(sb, plan_libraries(a, p));
	dev_class_of(p->run_compat, p->environment, class);
	sb_addz(sb, ",\"class\":");
	json_string(sb, str_of(class));
	sb_addz(sb, ",\"run_compat\":");
	json_string(sb, p->run_compat);
	sb_addz(sb, ",\"fusion\":");
	json_string(sb, p->fusion);
	sb_addz(sb, ",\"certificate\":");
	json_string(sb, p->certificate);
	sb_addz(sb, ",\"stop\":");
	json_string(sb, p->stop);
	sb_addz(sb, ",\"what_if\":");
	json_string(sb, p->what_if);
	sb_addf(sb, ",\"what_if_base_ns\":%" PRId64, p->what_if_base_ns);
	sb_addz(sb, ",\"made_by\":");
	json_string(sb, h->made_by);
	sb_addf(sb, ",\"seal\":\"%s\",\"signer\":\"%s\",\"trusted_by\":", by->is, by->print);
	json_string(sb, str_of(by->file));
	sb_addz(sb, ",\"built_by\":");
	json_string(sb, h->seal.worker);
}

/* Counts, times, bytes. */
static void
add_json_numbers(struct strbuf *sb, const struct plan *p)
{
	struct plan_memory memory;
	struct err e = {0};

	sb_addf(sb,
	    ",\"threads\":%u,\"tolerance\":%g,\"operators\":%" PRIu64 ",\"primitives\":%" PRIu64
	    ",\"candidates\":%" PRIu64 ",\"distinct\":%" PRIu64 ",\"chosen\":%u,\"kernels\":%u,\"views\":%u",
	    p->n_threads, p->tolerance, p->n_operators, p->n_primitives, p->n_candidates_total, p->n_distinct,
	    p->n_steps, p->n_kernels, count_views(p));
	sb_addf(sb,
	    ",\"latency_ns\":%" PRId64 ",\"bound_ns\":%" PRId64
	    ",\"gap\":%.6f,\"proved\":%s,\"measured_ns\":%" PRId64 ",\"clock_ratio\":%.6g",
	    p->latency_ns, p->bound_ns, gap(p), p->proved ? "true" : "false", p->measured_ns, p->clock_ratio);
	sb_addz(sb, ",\"confidence\":");
	sure_json(sb, p->latency_ns, p->n_sures ? p->sures[0].least_ns : 0,
	    p->n_sures ? p->sures[0].confidence : 0);
	sb_addf(sb,
	    ",\"expected_ns\":%" PRId64 ",\"expected_low_ns\":%" PRId64 ",\"expected_high_ns\":%" PRId64
	    ",\"expected_of\":%" PRIu64,
	    p->expected_ns, p->expected_low_ns, p->expected_high_ns, p->expected_of);
	sb_addf(sb, ",\"runner_ns\":%" PRId64 ",\"runner_measured_ns\":%" PRId64 ",\"runner\":", p->runner_ns,
	    p->runner_measured_ns);
	json_string(sb, p->runner);
	sb_addf(sb, ",\"least_measured_ns\":%" PRId64 ",\"winner\":", p->least_measured_ns);
	json_string(sb, p->winner);
	sb_addf(sb, ",\"constant_bytes\":%zu,\"work_bytes\":%zu,\"scratch_bytes\":%zu,\"code_bytes\":%zu",
	    p->constants.n, p->work_bytes, scratch_bytes(p), p->module.n);
	if (plan_memory(p, &memory, &e))
		sb_addf(sb, ",\"packed_bytes\":%zu,\"unread_bytes\":%zu", memory.packed_bytes,
		    memory.unread_bytes);
	else
		sb_addz(sb, ",\"packed_bytes\":null,\"unread_bytes\":null");
}

static void
show_json(struct arena *a, const struct plan *p, const struct plan_host *h, const struct plan_signer *by,
    int64_t top)
{
	struct strbuf sb;

	sb_init(&sb, a);
	add_json_words(a, &sb, p, h, by);
	add_json_numbers(&sb, p);
	add_json_predicted(&sb, p);
	add_json_streams(a, &sb, p);
	add_json_io(&sb, "inputs", p->inputs, p->n_inputs);
	add_json_io(&sb, "outputs", p->outputs, p->n_outputs);
	add_json_steps(a, &sb, p, top);
	sb_addc(&sb, '}');
	(void)puts(sb.p);
}

void
plan_show(struct arena *a, const struct plan *p, const struct plan_host *h, const struct plan_signer *by,
    int64_t top, bool json)
{
	if (json) {
		show_json(a, p, h, by, top);
		return;
	}
	show_head(a, p, h, by);
	show_steps(a, p, top);
}
