/* client/plan_explain.c: explain: all steps, those of one kernel, or an ONNX node with its neighbours. */
#include "plan_explain.h"
#include "job_view.h"
#include "plan_why.h"
#include "run_report.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_DIGITS = 4, MOST_LIKE = 5 };

/* ---- steps --------------------------------------------------------------------------------------- */
static void
step_neighbour(struct why *w, uint32_t of, const struct plan_apart *x, bool is_first)
{
	uint32_t other = x->a == of ? x->b : x->a;
	char hex[65];

	why_kernel_hex(&w->p->kernels[w->p->steps[other].kernel], hex);
	if (w->json) {
		sb_addf(&w->sb, "%s{\"step\":%u,\"spec\":\"%s\",\"side\":\"%s\",", is_first ? "" : ",", other,
		    hex, x->a == of ? "reader" : "maker");
		why_apart(w, x);
		sb_addc(&w->sb, '}');
		return;
	}
	sb_addf(&w->sb, "  not one kernel with step %u (%.*s, %s):\n", other, WHY_DIGITS, hex,
	    x->a == of ? "reads its results" : "makes its operands");
	why_apart(w, x);
}

static void
explain_step(struct why *w, uint32_t step, bool with_neighbours)
{
	uint32_t n = 0;

	sb_addz(&w->sb, w->json ? "{" : "");
	why_step(w, step);
	sb_addz(&w->sb, w->json ? ",\"neighbours\":[" : "");
	for (uint32_t i = 0; i < w->p->n_aparts && with_neighbours; i++) {
		const struct plan_apart *x = &w->p->aparts[i];

		if (!x->of_steps || (x->a != step && x->b != step) || w->told[i])
			continue;
		w->told[i] = true;
		step_neighbour(w, step, x, n++ == 0);
	}
	sb_addz(&w->sb, w->json ? "]}" : "");
}

/* ---- nodes --------------------------------------------------------------------------------------- */
static const struct {
	const char *word, *text;
} fates[FATE_COUNT] = {
    [FATE_KERNEL] = {"kernel", "computed in one kernel"},
    [FATE_VIEW] = {"view", "needs no kernel: its result is its operand's memory, seen through another shape"},
    [FATE_FOLDED] = {"folded", "needs no kernel: its results are constants, or no output needs them"},
    [FATE_REWRITTEN] = {"rewritten",
	"lost to a rewrite: the plan computes what comes behind it in another form"},
};

static uint32_t
shared_step(const struct plan_node *a, const struct plan_node *b)
{
	for (uint32_t i = 0; i < a->n_steps; i++)
		for (uint32_t j = 0; j < b->n_steps; j++)
			if (a->steps[i] == b->steps[j])
				return a->steps[i];
	return PLAN_NONE;
}

static const struct plan_apart *
find_apart(const struct plan *p, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < p->n_aparts; i++)
		if (!p->aparts[i].of_steps && p->aparts[i].a == a && p->aparts[i].b == b)
			return &p->aparts[i];
	return NULL;
}

/* Two neighbours: the one told about, and the one that was asked for. */
struct pair {
	const struct plan_node *x, *asked;
	uint32_t shared;              /* step */
	const struct plan_apart *why; /* NULL: none recorded */
};

/* What settles it where they neither share a kernel nor are apart for a reason. */
static enum plan_fate
fate_of(const struct pair *two)
{
	return two->x->fate != FATE_KERNEL ? two->x->fate : two->asked->fate;
}

static const char *
relation_of(const struct pair *two)
{
	return two->shared != PLAN_NONE   ? "fused"
	    : two->why                    ? "apart"
	    : fate_of(two) == FATE_KERNEL ? "unknown"
					  : fates[fate_of(two)].word;
}

static void
neighbour_json(struct why *w, const struct pair *two, const char *side)
{
	const struct plan_node *x = two->x;

	sb_addz(&w->sb, "{\"node\":");
	json_string(&w->sb, x->name);
	sb_addz(&w->sb, ",\"op\":");
	json_string(&w->sb, x->op);
	sb_addf(&w->sb, ",\"side\":\"%s\",\"fate\":\"%s\",\"relation\":\"%s\",\"step\":", side,
	    fates[x->fate].word, relation_of(two));
	sb_addf(&w->sb, two->shared != PLAN_NONE ? "%u," : "null,", two->shared);
	why_apart(w, two->shared == PLAN_NONE ? two->why : NULL);
	sb_addc(&w->sb, '}');
}

static void
neighbour_words(struct why *w, const struct pair *two, const char *side)
{
	sb_addf(&w->sb, "  %s %.*s (%.*s): ", side, STR_ARG(two->x->name), STR_ARG(two->x->op));
	if (two->shared != PLAN_NONE)
		sb_addf(&w->sb, "in one kernel, step %u\n", two->shared);
	else if (two->why) {
		sb_addz(&w->sb, "apart\n");
		why_apart(w, two->why);
	} else if (two->x->fate != FATE_KERNEL)
		sb_addf(&w->sb, "%s\n", fates[two->x->fate].text);
	else
		sb_addz(&w->sb,
		    two->asked->fate != FATE_KERNEL ? "computed in a kernel\n"
						    : "apart; no reason was recorded\n");
}

/* a is read by b, one of them is the node asked for and `other` the other one. */
static void
explain_neighbour(struct why *w, uint32_t a, uint32_t b, uint32_t other, bool *is_first)
{
	const struct plan *p = w->p;
	struct pair two = {.x = &p->nodes[other],
	    .asked = &p->nodes[other == a ? b : a],
	    .shared = shared_step(&p->nodes[a], &p->nodes[b]),
	    .why = find_apart(p, a, b)};

	if (w->json) {
		sb_addz(&w->sb, *is_first ? "" : ",");
		neighbour_json(w, &two, other == a ? "maker" : "reader");
	} else
		neighbour_words(w, &two, other == a ? "reads" : "is read by");
	*is_first = false;
}

static void
explain_neighbours(struct why *w, uint32_t n)
{
	const struct plan *p = w->p;
	bool is_first = true;

	for (uint32_t i = 0; i < p->nodes[n].n_reads; i++)
		explain_neighbour(w, p->nodes[n].reads[i], n, p->nodes[n].reads[i], &is_first);
	for (uint32_t m = 0; m < p->n_nodes; m++)
		for (uint32_t i = 0; i < p->nodes[m].n_reads; i++)
			if (p->nodes[m].reads[i] == n)
				explain_neighbour(w, n, m, m, &is_first);
}

static void
explain_node(struct why *w, uint32_t n)
{
	const struct plan_node *x = &w->p->nodes[n];

	if (w->json) {
		sb_addz(&w->sb, "{\"node\":");
		json_string(&w->sb, x->name);
		sb_addz(&w->sb, ",\"op\":");
		json_string(&w->sb, x->op);
		sb_addf(&w->sb, ",\"fate\":\"%s\",\"steps\":[", fates[x->fate].word);
	} else
		sb_addf(&w->sb, "%.*s (%.*s): %s\n", STR_ARG(x->name), STR_ARG(x->op),
		    x->n_steps > 1 ? "computed in more than one kernel" : fates[x->fate].text);
	for (uint32_t i = 0; i < x->n_steps; i++) {
		if (w->json)
			sb_addz(&w->sb, i ? "," : "");
		explain_step(w, x->steps[i], false);
	}
	sb_addz(&w->sb, w->json ? "],\"neighbours\":[" : "");
	explain_neighbours(w, n);
	sb_addz(&w->sb, w->json ? "]}" : "");
}

/* ---- what was asked for ----------------------------------------------------------------------------- */
static bool
refuse(const struct plan *p, const char *what, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	uint32_t n = 0;

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (p->nodes[i].name.n < 128 && strstr(str_dup(&tmp, p->nodes[i].name), what) &&
		    n++ < MOST_LIKE)
			sb_addf(&sb, "%s %.*s", n > 1 ? "," : "; like it:", STR_ARG(p->nodes[i].name));
	(void)err_set(e, ERR_USAGE,
	    "'%.100s' is no node of this model and begins no hash of the plan's kernels%.250s%s", what,
	    sb.n ? sb.p : "", n > MOST_LIKE ? ", ..." : "");
	arena_fini(&tmp);
	return false;
}

/* The nodes of that name: names need not be unique. */
static uint32_t
explain_nodes(struct why *w, const char *name)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->p->n_nodes; i++)
		if (str_is(w->p->nodes[i].name, name)) {
			sb_addz(&w->sb, w->json && n ? "," : "");
			explain_node(w, i);
			n++;
		}
	return n;
}

/* The steps whose kernel's hash begins so; all of them for "". */
static uint32_t
explain_steps(struct why *w, const char *digits)
{
	uint32_t n = 0;

	for (uint32_t s = 0; s < w->p->n_steps; s++) {
		char hex[65];

		why_kernel_hex(&w->p->kernels[w->p->steps[s].kernel], hex);
		if (strncmp(hex, digits, strlen(digits)) != 0)
			continue;
		sb_addz(&w->sb, w->json && n ? "," : "");
		explain_step(w, s, true);
		n++;
	}
	return n;
}

static void
add_head_json(struct why *w)
{
	const struct plan *p = w->p;

	sb_addz(&w->sb, "{\"model\":");
	json_string(&w->sb, p->model_name);
	sb_addf(&w->sb, ",\"latency_ns\":%lld,\"bound_ns\":%lld,\"proven_ns\":%.3f,\"proved\":%s,\"stop\":",
	    (long long)p->latency_ns, (long long)p->bound_ns, w->proven_ns, p->proved ? "true" : "false");
	json_string(&w->sb, p->stop);
	sb_addz(&w->sb, ",\"winner\":");
	json_string(&w->sb, p->winner);
	sb_addf(&w->sb, ",\"measured_ns\":%lld,\"clock_ratio\":%.6g,\"least_measured_ns\":%lld",
	    (long long)p->measured_ns, p->clock_ratio, (long long)p->least_measured_ns);
	sb_addz(&w->sb, ",\"what_if\":");
	json_string(&w->sb, p->what_if);
	sb_addz(&w->sb, ",\"limits\":");
	json_string(&w->sb, p->limits);
}

static void
add_foot(struct why *w)
{
	const struct plan *p = w->p;

	if (p->what_if.n)
		sb_addf(&w->sb, "this plan was made under a condition: %.*s\n", STR_ARG(p->what_if));
	if (p->winner.n)
		print_winner(&w->sb, p->winner, p->least_measured_ns, p->measured_ns);
	if (p->stop.n)
		sb_addf(&w->sb, "the search ended: %.*s\n", STR_ARG(p->stop));
	if (p->limits.n)
		sb_addf(&w->sb, "within: %.*s\n", STR_ARG(p->limits));
	sb_addz(&w->sb,
	    "times, margins and bounds are of kernels one by one; +- is one standard "
	    "error; each "
	    "pair is said once\n");
}

bool
plan_explain(struct arena *a, const struct plan *p, const char *what, bool json, struct err *e)
{
	struct why w;
	uint32_t n = 0;

	why_init(&w, a, p, json);
	if (json)
		add_head_json(&w);
	sb_addz(&w.sb, json ? ",\"nodes\":[" : "");
	if (what)
		n = explain_nodes(&w, what);
	sb_addz(&w.sb, json ? "],\"steps\":[" : "");
	if (!what || (!n && strlen(what) >= LEAST_DIGITS))
		n = explain_steps(&w, what ? what : "");
	if (what && !n)
		return refuse(p, what, e);
	if (json)
		sb_addz(&w.sb, "]}");
	else
		add_foot(&w);
	(void)(json ? puts(w.sb.p) : fputs(w.sb.p, stdout));
	return true;
}
