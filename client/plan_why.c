/* client/plan_why.c: the pieces of an explanation.
 *
 * An exchange's margin is what the kernels that come in cost more than those that go out: times of kernels
 * one by one.  Each time is a median with a standard error (schema/README.md); a kernel
 * that stands in an exchange n times errs n times as much, different kernels independently: the errors are
 * added as squares.  Of a kernel that was never measured only a bound is known; any plan with it costs at
 * least the sum of the duals and its reduced cost. */
#include "plan_why.h"

#include "../kernels/vendor/library.h"
#include "run_report.h"

#include "../proto/range.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void
why_init(struct why *w, struct arena *a, const struct plan *p, bool json)
{
	*w = (struct why){.p = p, .json = json};
	sb_init(&w->sb, a);
	w->specs = NEW_ARRAY(a, struct hash, p->n_kernels);
	w->told = NEW_ARRAY(a, bool, p->n_aparts);
	for (uint32_t i = 0; i < p->n_rows; i++)
		w->proven_ns += p->rows[i].dual;
	for (uint32_t i = 0; i < p->n_kernels; i++)
		w->specs[i] = hash_bytes(p->kernels[i].spec.p, p->kernels[i].spec.n);
}

void
why_kernel_hex(const struct plan_kernel *k, char hex[65])
{
	struct hash h = hash_bytes(k->spec.p, k->spec.n);

	hash_hex(&h, hex);
}

static double
us(int64_t ns)
{
	return (double)ns / 1e3;
}

/* ---- exchanges ---------------------------------------------------------------------------------- */
struct margin {
	int64_t ns;
	double error_ns;
	bool has_error; /* plans before format 5 do not tell */
};
/* A kernel of an exchange: in, or (negative) out. */
struct part {
	struct hash spec;
	int times;
	double error_ns;
};

static int
by_spec(const void *px, const void *py)
{
	return hash_cmp(&((const struct part *)px)->spec, &((const struct part *)py)->spec);
}

/* What is in and out at once errs not at all; the same kernel twice errs twice as much. */
static double
error_of(struct part *parts, uint32_t n)
{
	double squares = 0;

	qsort(parts, n, sizeof(*parts), by_spec);
	for (uint32_t i = 0, end; i < n; i = end) {
		double times = 0, error = 0;

		for (end = i; end < n && hash_eq(&parts[end].spec, &parts[i].spec); end++) {
			times += parts[end].times;
			error = fmax(error, parts[end].error_ns);
		}
		squares += times * times * error * error;
	}
	return sqrt(squares);
}

static struct margin
margin_of(const struct why *w, const struct plan_exchange *x)
{
	const struct plan *p = w->p;
	struct part *parts = NEW_ARRAY(w->sb.a, struct part, x->n_rivals + x->n_steps);
	struct margin m = {0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->n_rivals; i++) {
		const struct plan_rival *r = &p->rivals[x->rivals[i]];

		m.ns += MIN_OF(r->cost_ns, (int64_t)1 << 40); /* a stranger's number */
		parts[n++] = (struct part){r->spec, 1, r->error_ns};
		m.has_error |= r->error_ns > 0;
	}
	for (uint32_t i = 0; i < x->n_steps; i++) {
		uint32_t kernel = p->steps[x->steps[i]].kernel;
		const struct plan_kernel *k = &p->kernels[kernel];

		m.ns -= MIN_OF(k->cost_ns, (int64_t)1 << 40);
		parts[n++] = (struct part){w->specs[kernel], -1, k->error_ns};
		m.has_error |= k->error_ns > 0;
	}
	m.error_ns = error_of(parts, n);
	return m;
}

/* A number, or null where there is none. */
static void
add_known(struct why *w, const char *key, bool is_known, int64_t value)
{
	if (is_known)
		sb_addf(&w->sb, ",\"%s\":%" PRId64, key, value);
	else
		sb_addf(&w->sb, ",\"%s\":null", key);
}

static void
add_rival_json(struct why *w, const struct plan_rival *r)
{
	char hex[65];

	hash_hex(&r->spec, hex);
	sb_addf(&w->sb, "\"spec\":\"%s\",\"view\":%s,\"measured\":%s,\"bound_ns\":%" PRId64, hex,
	    plan_rival_is_view(r) ? "true" : "false", r->is_measured ? "true" : "false", r->bound_ns);
	add_known(w, "candidate", r->candidate != PLAN_NONE, r->candidate);
	add_known(w, "cost_ns", r->is_measured, r->cost_ns);
	add_known(w, "spread_ns", r->is_measured, r->spread_ns);
	add_known(w, "expected_ns", !r->is_measured && r->candidate != PLAN_NONE, r->expected_ns);
	sb_addf(&w->sb, ",\"error_ns\":%.3f,\"cause\":", r->is_measured ? r->error_ns : 0);
	json_string(&w->sb, r->cause);
	sb_addz(&w->sb, ",\"nodes\":");
	json_string(&w->sb, r->nodes);
}

static void
add_exchange_json(struct why *w, const struct plan_exchange *x)
{
	struct margin m = margin_of(w, x);

	sb_addf(&w->sb, "{\"margin_ns\":%" PRId64 ",\"error_ns\":%.3f,\"steps\":[", m.ns, m.error_ns);
	for (uint32_t i = 0; i < x->n_steps; i++)
		sb_addf(&w->sb, "%s%u", i ? "," : "", x->steps[i]);
	sb_addz(&w->sb, "],\"kernels\":[");
	for (uint32_t i = 0; i < x->n_rivals; i++) {
		sb_addz(&w->sb, i ? ",{" : "{");
		add_rival_json(w, &w->p->rivals[x->rivals[i]]);
		sb_addc(&w->sb, '}');
	}
	sb_addz(&w->sb, "]}");
}

static void
add_rival(struct why *w, const struct plan_rival *r)
{
	char hex[65];

	hash_hex(&r->spec, hex);
	sb_addf(&w->sb, "%.*s", WHY_DIGITS, hex);
	if (plan_rival_is_view(r))
		sb_addz(&w->sb, " (a view)");
	else if (r->is_measured)
		sb_addf(&w->sb, " %.2f us", us(r->cost_ns));
}

/* "slower by 2.37 us +- 0.50, with 7e8a353095c5 163.2 us in place of steps 1, 2" */
static void
add_exchange(struct why *w, const struct plan_exchange *x)
{
	enum { SHOWN = 6 };
	struct margin m = margin_of(w, x);

	sb_addf(&w->sb, "%s by %.2f us", m.ns >= 0 ? "slower" : "by its kernels' sum faster", fabs(us(m.ns)));
	if (m.has_error)
		sb_addf(&w->sb, " +- %.2f", m.error_ns / 1e3);
	sb_addz(&w->sb, ", with ");
	for (uint32_t i = 0; i < x->n_rivals && i < SHOWN; i++) {
		sb_addz(&w->sb, i ? ", " : "");
		add_rival(w, &w->p->rivals[x->rivals[i]]);
	}
	sb_addf(
	    &w->sb, "%s in place of step%s ", x->n_rivals > SHOWN ? ", ..." : "", x->n_steps == 1 ? "" : "s");
	for (uint32_t i = 0; i < x->n_steps && i < SHOWN; i++)
		sb_addf(&w->sb, "%s%u", i ? ", " : "", x->steps[i]);
	sb_addz(&w->sb, x->n_steps > SHOWN ? ", ...\n" : "\n");
}

/* ---- steps -------------------------------------------------------------------------------------- */
static bool
share_result(const struct plan_candidate *a, const struct plan_candidate *b)
{
	for (uint32_t i = 0; i < a->n_makes; i++)
		for (uint32_t j = 0; j < b->n_makes; j++)
			if (a->makes[i] == b->makes[j])
				return true;
	return false;
}

/* Other candidates that make one of the step's results. */
static uint32_t
count_rivals(const struct plan *p, uint32_t step, uint32_t *n_measured)
{
	uint32_t n = 0;

	*n_measured = 0;
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct plan_candidate *c = &p->candidates[i];

		if (c->is_chosen || !share_result(c, &p->candidates[p->steps[step].candidate]))
			continue;
		n++;
		*n_measured += c->is_measured;
	}
	return n;
}

struct str
plan_libraries(struct arena *a, const struct plan *p)
{
	struct strbuf sb;

	sb_init(&sb, a);
	for (int l = 0; l < LIBRARY_COUNT; l++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < p->n_steps; i++) {
			enum library of;
			int64_t version, algo;

			n += library_of_schedule(
				 p->kernels[p->steps[i].kernel].schedule, &of, &version, &algo) &&
			    (int)of == l;
		}
		if (n)
			sb_addf(&sb, "%s%s (%u step%s)", sb.n ? ", " : "", library_name((enum library)l), n,
			    n == 1 ? "" : "s");
	}
	return sb.n ? sb_str(&sb) : STR("");
}

/* Whose kernel it is, where it is not a generated one. */
static const char *
library_of(const struct plan_kernel *k)
{
	enum library l;
	int64_t version, algo;

	return library_of_schedule(k->schedule, &l, &version, &algo) ? library_name(l) : NULL;
}

struct str
why_heat(const struct plan *p, uint32_t kernel)
{
	struct str word = plan_heat(p, kernel);

	return word.n ? word : STR("-");
}

const struct plan_expected *
why_expected(const struct plan *p, uint32_t kernel)
{
	for (uint32_t i = 0; i < p->n_expected; i++)
		if (p->expected[i].kernel == kernel)
			return &p->expected[i];
	return NULL;
}

/* NULL: its instructions are as they were compiled. */
static const struct plan_perturbed *
perturbed_of(const struct plan *p, uint32_t kernel)
{
	for (uint32_t i = 0; i < p->n_perturbed; i++)
		if (p->perturbed[i].kernel == kernel)
			return &p->perturbed[i];
	return NULL;
}

static void
perturbed_json(struct why *w, uint32_t kernel)
{
	const struct plan_perturbed *x = perturbed_of(w->p, kernel);

	sb_addz(&w->sb, ",\"perturbed\":");
	if (!x) {
		sb_addz(&w->sb, "null");
		return;
	}
	sb_addf(&w->sb,
	    "{\"moves\":%" PRId64
	    ",\"ratio\":%.6f,\"low\":%.6f,\"high\":%.6f,\"expected\":%.6f,\"pairs\":%" PRId64
	    ",\"compared\":%" PRId64 ",\"tried\":%" PRId64 ",\"failed\":%" PRId64 "}",
	    x->moves, x->ratio, x->low, x->high, x->expected, x->pairs, x->compared, x->tried, x->failed);
}

static void
perturbed_words(struct why *w, uint32_t kernel)
{
	const struct plan_perturbed *x = perturbed_of(w->p, kernel);

	if (!x)
		return;
	sb_addf(&w->sb,
	    "  perturbed: %" PRId64
	    " move%s of its instructions, %.2f %% faster than as compiled (%.2f to %.2f in 95 of "
	    "100, %" PRId64 " pairs; %.2f by the model)\n    %" PRId64 " elements equal bit for bit; %" PRId64
	    " order%s timed, %" PRId64 " of them failed\n",
	    x->moves, x->moves == 1 ? "" : "s", 100 * (1 - x->ratio), 100 * (1 - x->high), 100 * (1 - x->low),
	    x->pairs, 100 * (1 - x->expected), x->compared, x->tried, x->tried == 1 ? "" : "s", x->failed);
}

const char *
schedule_shown(char out[SCHEDULE_SHOWN], struct str schedule)
{
	enum { HEAD = 40 };
	struct str base, moves;
	uint32_t n = 0;

	if (!sip_split(schedule, &base, &moves) || moves.n <= HEAD) {
		(void)snprintf(out, SCHEDULE_SHOWN, "%.*s", STR_ARG(schedule));
		return out;
	}
	for (size_t i = 0; i < moves.n; i++)
		n += moves.p[i] == '.';
	(void)snprintf(out, SCHEDULE_SHOWN, "%.*s%ssip=%.*s... (%u moves)", STR_ARG(base), base.n ? " " : "",
	    HEAD, moves.p, n);
	return out;
}

static void
step_json(struct why *w, uint32_t step, uint32_t n_rivals, uint32_t n_measured)
{
	const struct plan_kernel *k = &w->p->kernels[w->p->steps[step].kernel];
	char hex[65];

	why_kernel_hex(k, hex);
	sb_addf(&w->sb,
	    "\"step\":%u,\"kernel\":%u,\"spec\":\"%s\",\"cost_ns\":%" PRId64 ",\"spread_ns\":%" PRId64
	    ",\"bound_ns\":%" PRId64
	    ",\"error_ns\":%.3f,\"view\":%s,\"measured\":%s,\"rivals\":%u,\"rivals_measured\":%u,\"nodes\":",
	    step, w->p->steps[step].kernel, hex, k->cost_ns, k->spread_ns, k->bound_ns, k->error_ns,
	    plan_kernel_is_view(k) ? "true" : "false", k->is_measured ? "true" : "false", n_rivals,
	    n_measured);
	json_string(&w->sb, w->p->steps[step].nodes);
	sb_addz(&w->sb, ",\"schedule\":");
	json_string(&w->sb, k->schedule);
	perturbed_json(w, w->p->steps[step].kernel);
	sb_addz(&w->sb, ",\"runner_up\":");
	if (step < w->p->n_exchanges && w->p->exchanges[step].n_rivals)
		add_exchange_json(w, &w->p->exchanges[step]);
	else
		sb_addz(&w->sb, "null");
}

static void
step_words(struct why *w, uint32_t step, uint32_t n_rivals, uint32_t n_measured)
{
	const struct plan_kernel *k = &w->p->kernels[w->p->steps[step].kernel];
	const struct plan_exchange *x = step < w->p->n_exchanges ? &w->p->exchanges[step] : NULL;
	char hex[65];

	why_kernel_hex(k, hex);
	sb_addf(&w->sb, "step %u: kernel %.*s ", step, WHY_DIGITS, hex);
	if (plan_kernel_is_view(k))
		sb_addz(&w->sb, "is no work: memory is laid out so that its result is in place");
	else if (!k->is_measured)
		sb_addf(&w->sb, "%.2f us at least (not measured)", us(k->cost_ns));
	else if (k->error_ns > 0)
		sb_addf(&w->sb, "%.2f us +- %.2f (bound %.2f)", us(k->cost_ns), k->error_ns / 1e3,
		    us(k->bound_ns));
	else
		sb_addf(&w->sb, "%.2f us (bound %.2f)", us(k->cost_ns), us(k->bound_ns));
	if (library_of(k))
		sb_addf(&w->sb, ", a call of %s", library_of(k));
	sb_addf(&w->sb, " for %.*s\n  %u other candidates make its results, %u of them measured\n",
	    STR_ARG(w->p->steps[step].nodes), n_rivals, n_measured);
	perturbed_words(w, w->p->steps[step].kernel);
	sb_addz(&w->sb, "  runner-up: ");
	if (x && x->n_rivals)
		add_exchange(w, x);
	else if (!k->is_measured)
		sb_addz(&w->sb, "not known, as the plan holds kernels that were not measured\n");
	else
		sb_addz(&w->sb,
		    x && x->n_steps ? "none: there is no other plan of measured kernels\n"
				    : "not recorded\n");
}

void
why_step(struct why *w, uint32_t step)
{
	uint32_t n_measured, n = count_rivals(w->p, step, &n_measured);

	(w->json ? step_json : step_words)(w, step, n, n_measured);
}

/* ---- neighbours ---------------------------------------------------------------------------------- */
/* What any plan with an unmeasured rival is slower by at least; negative: nothing is proved. */
static double
least_margin(const struct why *w, const struct plan_rival *r)
{
	if (r->candidate == PLAN_NONE)
		return 0;
	return w->proven_ns + w->p->candidates[r->candidate].reduced_cost - (double)w->p->latency_ns;
}

/* Sums of doubles end a hair beside zero. */
static bool
is_ruled_out(const struct why *w, const struct plan_rival *r)
{
	return least_margin(w, r) >= -1e-3;
}

static const char *
word_of(const struct why *w, const struct plan_apart *x)
{
	if (x->measured != PLAN_NONE)
		return x->exchange != PLAN_NONE ? "slower" : "unused";
	if (x->open != PLAN_NONE)
		return is_ruled_out(w, &w->p->rivals[x->open]) ? "bound" : "open";
	if (x->failed != PLAN_NONE)
		return "failed";
	return x->rule.n ? "infeasible" : "unknown";
}

/* The kernel that was not taken, for one of three reasons; or null. */
static void
apart_rival(struct why *w, const char *key, uint32_t rival)
{
	sb_addf(&w->sb, ",\"%s\":", key);
	if (rival == PLAN_NONE) {
		sb_addz(&w->sb, "null");
		return;
	}
	sb_addc(&w->sb, '{');
	add_rival_json(w, &w->p->rivals[rival]);
}

static void
apart_json(struct why *w, const struct plan_apart *x)
{
	static const struct plan_apart none = {
	    .measured = PLAN_NONE, .open = PLAN_NONE, .failed = PLAN_NONE, .exchange = PLAN_NONE};

	sb_addf(&w->sb, "\"why\":\"%s\"", x ? word_of(w, x) : "");
	x = x ? x : &none;
	apart_rival(w, "fused", x->measured);
	if (x->measured != PLAN_NONE) {
		sb_addz(&w->sb, ",\"exchange\":");
		if (x->exchange != PLAN_NONE)
			add_exchange_json(w, &w->p->exchanges[x->exchange]);
		else
			sb_addz(&w->sb, "null");
		sb_addc(&w->sb, '}');
	}
	apart_rival(w, "unmeasured", x->open);
	if (x->open != PLAN_NONE)
		sb_addf(&w->sb, ",\"least_margin_ns\":%.1f,\"ruled_out\":%s}",
		    least_margin(w, &w->p->rivals[x->open]),
		    is_ruled_out(w, &w->p->rivals[x->open]) ? "true" : "false");
	apart_rival(w, "failed", x->failed);
	sb_addz(&w->sb, x->failed != PLAN_NONE ? "},\"rule\":" : ",\"rule\":");
	json_string(&w->sb, x->rule);
}

static void
open_words(struct why *w, const struct plan_rival *r)
{
	double least = least_margin(w, r);

	sb_addz(&w->sb, "    not measured: ");
	add_rival(w, r);
	sb_addf(&w->sb, " takes %.2f us at least, ", us(r->bound_ns));
	if (is_ruled_out(w, r))
		sb_addf(&w->sb, "and by that bound any plan with it is slower by %.2f us or more\n",
		    MAX_OF(least, 0.0) / 1e3);
	else
		sb_addf(&w->sb, "%.2f us were expected; when the search ended it had not been worth a try\n",
		    us(r->expected_ns));
}

static void
apart_words(struct why *w, const struct plan_apart *x)
{
	const struct plan_rival *r = w->p->rivals;

	if (x->measured != PLAN_NONE) {
		sb_addz(&w->sb, "    measured: ");
		add_rival(w, &r[x->measured]);
		if (x->exchange != PLAN_NONE) {
			sb_addz(&w->sb, " for both; the cheapest plan with it is ");
			add_exchange(w, &w->p->exchanges[x->exchange]);
		} else
			sb_addz(&w->sb, " for both; no plan of measured kernels was found that uses it\n");
	}
	if (x->open != PLAN_NONE)
		open_words(w, &r[x->open]);
	if (x->failed != PLAN_NONE) {
		sb_addz(&w->sb, "    failed: ");
		add_rival(w, &r[x->failed]);
		sb_addf(&w->sb, " for both: %.*s\n", STR_ARG(r[x->failed].cause));
	}
	if (x->rule.n)
		sb_addf(&w->sb, "    no candidate holds both: %.*s\n", STR_ARG(x->rule));
	else if (x->measured == PLAN_NONE && x->open == PLAN_NONE && x->failed == PLAN_NONE)
		sb_addz(&w->sb, "    no reason was recorded\n");
}

void
why_apart(struct why *w, const struct plan_apart *x)
{
	(w->json ? apart_json : apart_words)(w, x);
}
