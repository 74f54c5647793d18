/* client/plan_port.c: see plan_port.h.  A job whose model is the plan; its last progress is the answer. */
#include "plan_port.h"
#include "job_view.h"
#include "plan_why.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>

/* What the plan gains or loses there against the class's own choice, of that. */
static double
loss(const struct m_progress *p)
{
	return p->own_ns > 0 ? (double)p->predicted_ns / (double)p->own_ns - 1 : 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */
static void
add_step(struct strbuf *sb, const struct m_ported *x)
{
	char hex[65];

	hash_hex(&x->spec, hex);
	sb_addf(sb,
	    "{\"spec\":\"%s\",\"cost_ns\":%" PRId64 ",\"predicted_ns\":%" PRId64
	    ",\"predicted_low_ns\":%" PRId64 ",\"predicted_high_ns\":%" PRId64
	    ",\"measured\":%s,\"loss_ns\":%" PRId64 ",\"nodes\":",
	    hex, x->was_ns, x->ns, x->low_ns, x->high_ns, x->is_measured ? "true" : "false", x->loss_ns);
	json_text(sb, x->nodes);
	sb_addc(sb, '}');
}

static void
show_json(struct arena *a, struct str class, const struct m_progress *p, uint32_t n)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "{\"class\":");
	json_text(&sb, class);
	sb_addf(&sb,
	    ",\"cost_ns\":%" PRId64 ",\"predicted_ns\":%" PRId64 ",\"predicted_low_ns\":%" PRId64
	    ",\"predicted_high_ns\":%" PRId64 ",\"own_ns\":%" PRId64 ",\"loss\":%.6g,\"kernels\":%" PRIu64
	    ",\"guessed\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"steps\":[",
	    p->latency_ns, p->predicted_ns, p->predicted_low_ns, p->predicted_high_ns, p->own_ns, loss(p),
	    p->chosen, p->guessed, p->failed);
	for (uint32_t i = 0; i < n; i++) {
		sb_addz(&sb, i ? "," : "");
		add_step(&sb, &p->ported[i]);
	}
	sb_addz(&sb, "]}");
	(void)puts(sb.p);
}

/* ---- words ---------------------------------------------------------------------------------- */
static const char *
ns_text(struct arena *a, int64_t ns)
{
	struct strbuf sb;

	sb_init(&sb, a);
	print_ns(&sb, ns);
	return sb.p;
}

static void
show_step(const struct m_progress *p, const struct m_ported *x)
{
	char hex[65];

	hash_hex(&x->spec, hex);
	(void)printf("%.*s %10.1f ", WHY_DIGITS, hex, (double)x->was_ns / 1e3);
	if (x->ns > 0)
		(void)printf("%10.1f%c %8.1f %6.1f%%", (double)x->ns / 1e3, x->is_measured ? ' ' : '?',
		    (double)x->loss_ns / 1e3,
		    100 * (double)x->loss_ns / (double)MAX_OF(p->own_ns, (int64_t)1));
	else
		(void)printf("%10s  %8s %7s", "none", "", "");
	(void)printf("  %.*s\n", STR_ARG(x->nodes));
}

static void
show_words(struct arena *a, struct str class, const struct m_progress *p, uint32_t n)
{
	(void)printf("%-10s %.*s\n", "class", STR_ARG(class));
	(void)printf("%-10s %s, the sum of the plan's kernels where it was made (those never measured at "
		     "their bounds)\n",
	    "here", ns_text(a, p->latency_ns));
	(void)printf("%-10s %s, with 90 %% %s to %s: %" PRIu64 " of its %" PRIu64
		     " kernels were never measured on such a device\n",
	    "there", ns_text(a, p->predicted_ns), ns_text(a, p->predicted_low_ns),
	    ns_text(a, p->predicted_high_ns), p->guessed, p->chosen);
	(void)printf("%-10s %s, the class's own choice over the same candidates: the plan loses %.1f %%\n",
	    "own", ns_text(a, p->own_ns), 100 * loss(p));
	if (p->failed)
		(void)printf("%-10s %" PRIu64 " of its kernels cannot be made there, and are in no sum\n",
		    "none", p->failed);
	(void)printf("\n%-*s %10s %10s  %8s %7s  %s\n", WHY_DIGITS, "kernel", "us here", "us there",
	    "loss us", "loss", "ONNX nodes");
	for (uint32_t i = 0; i < n; i++)
		show_step(p, &p->ported[i]);
	(void)printf("?: expected, not measured there; each kernel by its best schedule there.  loss: what "
		     "any plan with the "
		     "kernel costs there more\nthan the least, by the duals of that class's own program; "
		     "those that lose "
		     "most come first\n");
}

/* ---- the job -------------------------------------------------------------------------------- */
/* One object at the end, and no words on the way. */
static struct opts
silent(const struct opts *o)
{
	static const char *yes[] = {"1"};
	struct opts out = *o;

	if (opt_flag(o, OPT_json)) {
		out.value[OPT_json].n = 0;
		out.value[OPT_quiet].v = yes;
		out.value[OPT_quiet].n = 1;
	}
	return out;
}

static void
fill(const struct opts *o, const struct plan *p, struct m_options *out)
{
	*out = (struct m_options){.device = str_of(opt_text(o, OPT_plan_device)),
	    .threads = p->n_threads,
	    .tolerance = p->tolerance,
	    .fusion = p->fusion,
	    .precision = STR("f32"),
	    .dump = STR(""),
	    .predict = true,
	    .port = true};
}

static bool
ask(struct session *s, struct arena *a, const struct opts *o, const char *path, const struct plan *p,
    struct m_event *last, struct err *e)
{
	struct m_options options;
	uint64_t job;

	fill(o, p, &options);
	return session_open(s, a, o, NULL, e) && client_submit(s->client, path, NULL, 0, &options, &job, e) &&
	    session_follow(s, a, o, job, last, e);
}

bool
plan_port(struct arena *a, const struct opts *o, const char *path, const struct plan *p, struct err *e)
{
	struct session s = {.signal_fd = -1};
	struct opts way = silent(o);
	struct m_event last;
	int64_t top = opt_int(o, OPT_top);
	uint32_t n;
	bool ok;

	if (!*opt_text(o, OPT_plan_device))
		return err_set(e, ERR_USAGE, "port wants --device CLASS: where would the plan run?");
	if (top < 0)
		return err_set(e, ERR_USAGE, "--top %s: it is 0 or more", opt_text(o, OPT_top));
	ok = ask(&s, a, &way, path, p, &last, e);
	session_close(&s);
	if (!ok)
		return false;
	n = top > 0 ? (uint32_t)MIN_OF(top, (int64_t)last.progress.n_ported) : last.progress.n_ported;
	if (opt_flag(o, OPT_json))
		show_json(a, last.class, &last.progress, n);
	else
		show_words(a, last.class, &last.progress, n);
	return true;
}
