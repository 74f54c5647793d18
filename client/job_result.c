/* client/job_result.c: see job_result.h. */
#include "job_result.h"
#include "job_view.h"
#include "sure_words.h"

#include "../kernels/base/clock_ratio.h"
#include "../kernels/base/utf8.h"

#include <inttypes.h>

/* ---- JSON -------------------------------------------------------------------------------------- */
static void
add_text(struct strbuf *sb, const char *key, struct str value)
{
	sb_addf(sb, ", \"%s\": ", key);
	json_text(sb, value);
}

static void
add_counts(struct strbuf *sb, const struct m_progress *p)
{
	const struct {
		const char *key;
		uint64_t value;
	} row[] = {{"operators", p->operators}, {"primitives", p->primitives}, {"candidates", p->candidates},
	    {"distinct", p->distinct}, {"cached", p->cached}, {"measured", p->measured},
	    {"failed", p->failed}, {"chosen", p->chosen}, {"guessed", p->guessed},
	    {"remeasured", p->remeasured}, {"untimed", p->untimed}, {"perturbed", p->perturbed},
	    {"perturb_gained", p->perturb_gained}, {"expected_of", p->expected_of}};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		sb_addf(sb, "%s\"%s\": %" PRIu64, i ? ", " : "", row[i].key, row[i].value);
}

static void
add_times(struct strbuf *sb, const struct m_progress *p)
{
	const struct {
		const char *key;
		int64_t ns;
	} row[] = {{"latency_ns", p->latency_ns}, {"bound_ns", p->bound_ns}, {"measured_ns", p->measured_ns},
	    {"expected_ns", p->expected_ns}, {"expected_low_ns", p->expected_low_ns},
	    {"expected_high_ns", p->expected_high_ns}, {"runner_ns", p->runner_ns},
	    {"runner_measured_ns", p->runner_measured_ns}, {"least_measured_ns", p->least_measured_ns},
	    {"without_conditions_ns", p->what_if_base_ns},
	    {"price_ns", p->what_if_base_ns > 0 ? p->latency_ns - p->what_if_base_ns : 0},
	    {"predicted_ns", p->predicted_ns}, {"predicted_low_ns", p->predicted_low_ns},
	    {"predicted_high_ns", p->predicted_high_ns}};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		sb_addf(sb, ", \"%s\": %" PRId64, row[i].key, row[i].ns);
	sb_addf(sb,
	    ", \"clock_ratio\": %.6g, \"gap\": %.6g, \"proved\": %s, \"seconds\": %.3f, \"spent_before\": "
	    "%.3f, \"first_seconds\": "
	    "%.0f",
	    p->clock_ratio, p->gap, p->proved ? "true" : "false", p->seconds, p->spent_before,
	    p->first_seconds);
}

static void
add_assumed(struct strbuf *sb, const struct m_progress *p)
{
	sb_addz(sb, ", \"assumed\": [");
	for (uint32_t i = 0; i < p->n_assumed; i++) {
		sb_addz(sb, i ? ", {\"input\": " : "{\"input\": ");
		json_text(sb, p->assumed[i].input);
		add_text(sb, "name", p->assumed[i].name);
		add_text(sb, "value", p->assumed[i].value);
		sb_addc(sb, '}');
	}
	sb_addc(sb, ']');
}

void
job_result_add(struct strbuf *sb, const struct job_result *r)
{
	const struct m_progress *p = r->progress;

	sb_addc(sb, '{');
	add_counts(sb, p);
	add_times(sb, p);
	sb_addz(sb, ", \"confidence\": ");
	sure_json(sb, p->latency_ns, p->sure_ns, p->sure);
	add_text(sb, "winner", p->winner);
	add_text(sb, "runner", p->runner);
	add_text(sb, "what_if", p->what_if);
	add_text(sb, "plan", str_of(r->plan));
	add_text(sb, "trouble", p->trouble);
	add_text(sb, "stop", p->stop);
	add_assumed(sb, p);
	sb_addc(sb, '}');
}

void
job_result_json(const struct job_result *r)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	job_result_add(&sb, r);
	(void)puts(sb.p);
	arena_fini(&tmp);
}

/* ---- words -------------------------------------------------------------------------------------- */
/* Whole plans that were timed in the same session. */
static void
add_runner(struct strbuf *sb, const struct m_progress *p)
{
	if (p->runner_measured_ns <= 0)
		return;
	sb_addf(sb, "; runner-up (%.*s, sum ", STR_ARG(p->runner));
	print_ns(sb, p->runner_ns);
	sb_addz(sb, ") measured ");
	print_ns(sb, p->runner_measured_ns);
}

/* "; as a whole expected 4.4 ms (4.1 ms to 4.7 ms)": by plans that were timed before. */
static void
add_expected(struct strbuf *sb, const struct m_progress *p)
{
	if (p->expected_ns <= 0)
		return;
	sb_addz(sb, "; as a whole expected ");
	print_ns(sb, p->expected_ns);
	sb_addz(sb, " (");
	print_ns(sb, p->expected_low_ns);
	sb_addz(sb, " to ");
	print_ns(sb, p->expected_high_ns);
	sb_addz(sb, p->expected_of ? ")" : ", nothing known of what sums leave out)");
}

/* D20: the sum of chosen costs and the whole plan's own time are two numbers; where they differ by more than
 * a tenth it is said.  Sums and what is expected are of calibration's clock: so the difference is. */
static void
add_measured(struct strbuf *sb, const struct m_progress *p)
{
	double same = (double)calibrated_ns(p->measured_ns, p->clock_ratio),
	       off = same / (double)MAX_OF(p->latency_ns, 1) - 1;

	sb_addz(sb, p->expected_ns > 0 ? ", measured " : "; as a whole measured ");
	print_ns(sb, p->measured_ns);
	print_calibrated(sb, p->measured_ns, p->clock_ratio);
	if (off > 0.1 || off < -0.1)
		sb_addf(sb, ", %+.0f %% off the sum", off * 100);
	add_runner(sb, p);
}

static void
add_latency(struct strbuf *sb, const struct m_progress *p)
{
	sb_addz(sb, "latency ");
	print_ns(sb, p->latency_ns);
	sb_addz(sb, " as the sum of its kernels");
	if (p->guessed)
		sb_addf(sb, ", %" PRIu64 " of them never measured and counted at %s", p->guessed,
		    p->what_if_base_ns > 0 ? "what is expected of them" : "their bounds");
	sb_addz(sb, " (");
	if (p->proved) {
		sb_addz(sb, "proved the least sum over all candidates");
	} else {
		sb_addz(sb, "bound of any sum ");
		print_ns(sb, p->bound_ns);
		sb_addf(sb, ", gap %.1f %%", p->gap * 100);
	}
	sb_addz(sb, ")");
	add_expected(sb, p);
	if (p->measured_ns > 0)
		add_measured(sb, p);
	sb_addc(sb, '\n');
	if (p->winner.n)
		print_winner(sb, p->winner, p->least_measured_ns, p->measured_ns);
}

/* "expected 4.1 ms, 3.5 to 4.9 ms with 90 % (3 of 12 kernels were measured there)" */
static void
add_predicted(struct strbuf *sb, const struct m_progress *p)
{
	if (p->predicted_ns <= 0)
		return;
	sb_addz(sb, "expected ");
	print_ns(sb, p->predicted_ns);
	sb_addz(sb, ", with 90 % ");
	print_ns(sb, p->predicted_low_ns);
	sb_addz(sb, " to ");
	print_ns(sb, p->predicted_high_ns);
	sb_addf(sb,
	    ", as the sum of its kernels: %" PRIu64 " of %" PRIu64 " were never measured on such a device\n",
	    p->guessed, p->chosen);
}

/* No proof, and never called one: what was not measured stands at the low end of what is predicted. */
static void
add_sure(struct strbuf *sb, const struct m_progress *p)
{
	if (p->sure_ns <= 0)
		return;
	sure_words(sb, p->latency_ns, p->sure_ns, p->sure);
	sb_addz(sb, ", by what is predicted of kernels that were not measured; not a proof\n");
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

static void
add_search(struct strbuf *sb, const struct job_result *r)
{
	const struct m_progress *p = r->progress;

	sb_addf(sb,
	    "%s: %" PRIu64 " operators -> %" PRIu64 " primitives -> %" PRIu64 " candidates -> %" PRIu64
	    " distinct -> %" PRIu64 " measured now, %" PRIu64 " from the cache -> %" PRIu64 " kernels\n",
	    r->model, p->operators, p->primitives, p->candidates, p->distinct, p->measured, p->cached,
	    p->chosen);
	if (p->remeasured)
		sb_addf(sb, "%" PRIu64 " kernels that the choice rests on were timed again side by side\n",
		    p->remeasured);
	if (p->perturbed)
		sb_addf(sb,
		    "%" PRIu64 " of %" PRIu64
		    " kernels are faster with their instructions in another order, by %.1f %% at most\n",
		    p->perturb_gained, p->perturbed, 100 * p->perturb_best);
	add_latency(sb, p);
	add_predicted(sb, p);
	add_sure(sb, p);
	if (p->what_if_base_ns > 0)
		add_price(sb, p);
	sb_addf(sb, "ended after %.1f s", p->seconds);
	if (p->spent_before > 0)
		sb_addf(sb, ", having gone on after %.0f s spent before", p->spent_before);
	if (p->stop.n)
		sb_addf(sb, ": %.*s", STR_ARG(p->stop));
	sb_addc(sb, '\n');
	if (p->trouble.n)
		sb_addf(sb, "%.*s\n", STR_ARG(p->trouble));
}

/* "model.korch runs in 63.1 ms; the next best (few kernels) in 64.2 ms.  Run it: korch-run model.korch" */
static void
add_verdict(struct strbuf *sb, const struct job_result *r)
{
	const struct m_progress *p = r->progress;

	sb_addz(sb, r->subject);
	if (p->measured_ns > 0) {
		sb_addz(sb, " runs in ");
		print_ns(sb, p->measured_ns);
	} else if (p->predicted_ns > 0 && p->guessed) {
		sb_addz(sb, " is expected to take ");
		print_ns(sb, p->predicted_ns);
		sb_addz(sb, " there");
	} else if (p->guessed && p->what_if_base_ns > 0) {
		sb_addz(sb, " is expected to take ");
		print_ns(sb, p->latency_ns);
		sb_addf(sb, " (%" PRIu64 " of its %" PRIu64 " kernels were never measured)", p->guessed,
		    p->chosen);
	} else if (p->guessed) {
		sb_addz(sb, " takes ");
		print_ns(sb, p->latency_ns);
		sb_addf(sb,
		    " or more (%" PRIu64 " of its %" PRIu64 " kernels count as their bounds: not measured)",
		    p->guessed, p->chosen);
	} else {
		sb_addz(sb, " takes about ");
		print_ns(sb, p->latency_ns);
		sb_addz(sb, " (the sum of its kernels)");
	}
	if (p->measured_ns > 0 && p->runner_measured_ns > 0) {
		sb_addf(sb, ", the runner-up (%.*s) in ", STR_ARG(p->runner));
		print_ns(sb, p->runner_measured_ns);
	}
	if (*r->next)
		sb_addf(sb, "; now type: %s", r->next);
	sb_addc(sb, '\n');
}

void
job_result_assumed(FILE *to, const char *program, const struct m_progress *p)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < p->n_assumed; i++) {
		const struct m_assumed *x = &p->assumed[i];
		bool is_named = x->name.n > 0;

		sb_addf(&sb, "%s: input '", program);
		utf8_add_plain(&sb, x->input);
		sb_addz(&sb, is_named ? "': " : "' is ");
		utf8_add_plain(&sb, x->name);
		sb_addz(&sb, is_named ? "=" : "");
		utf8_add_plain(&sb, x->value);
		sb_addz(&sb, " (give --shape ");
		utf8_add_plain(&sb, is_named ? x->name : x->input);
		sb_addz(&sb, is_named ? "=N)\n" : "=AxBx...)\n");
	}
	(void)fputs(sb.n ? sb.p : "", to);
	arena_fini(&tmp);
}

void
job_result_words(FILE *to, const struct job_result *r)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	add_search(&sb, r);
	add_verdict(&sb, r);
	(void)fputs(sb.p, to);
	arena_fini(&tmp);
}
