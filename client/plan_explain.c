/* client/plan_explain.c: why a plan holds these kernels; its picture.
 *
 * A rival of a step is a candidate that makes one of its tensors and was not chosen.  Any plan
 * with a rival costs at least the proven bound plus the rival's reduced cost: that, less the
 * plan's own latency, is the least it would be slower by; where it is negative, the proof needed
 * the search. */
#include "plan_explain.h"
#include "run_report.h"

#include <inttypes.h>
#include <stdio.h>

static bool
share_result(const struct plan_candidate *a, const struct plan_candidate *b)
{
	for (uint32_t i = 0; i < a->n_makes; i++)
		for (uint32_t j = 0; j < b->n_makes; j++)
			if (a->makes[i] == b->makes[j])
				return true;
	return false;
}

/* The rival of least reduced cost, and how many there are; UINT32_MAX: none. */
static uint32_t
nearest_rival(const struct plan *p, uint32_t chosen, uint32_t *n, uint32_t *n_measured)
{
	uint32_t best = UINT32_MAX;

	*n = *n_measured = 0;
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct plan_candidate *c = &p->candidates[i];

		if (c->is_chosen || !share_result(c, &p->candidates[chosen]))
			continue;
		(*n)++;
		*n_measured += c->is_measured;
		if (best == UINT32_MAX || c->reduced_cost < p->candidates[best].reduced_cost)
			best = i;
	}
	return best;
}

static double
dual_sum(const struct plan *p)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->n_rows; i++)
		sum += p->rows[i].dual;
	return sum;
}

static void
explain_words(const struct plan *p, uint32_t i, uint32_t rival, uint32_t n, uint32_t n_measured)
{
	const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];
	double slower = 0;

	(void)printf("step %u: %.1f us%s for %.*s\n", i, (double)k->cost_ns / 1e3,
	    k->is_measured ? "" : " (a bound, not measured)", STR_ARG(p->steps[i].nodes));
	if (rival == UINT32_MAX) {
		(void)printf("  no other candidate makes its results\n");
		return;
	}
	slower = dual_sum(p) + p->candidates[rival].reduced_cost - (double)p->latency_ns;
	(void)printf("  %u rivals, %u measured; the nearest costs %.1f us%s", n, n_measured,
	    (double)p->candidates[rival].cost_ns / 1e3, p->candidates[rival].is_measured ? "" : " at least (not measured)");
	if (slower >= 0)
		(void)printf(" and makes any plan slower by %.1f us or more\n", slower / 1e3);
	else
		(void)printf("; that no plan with it is better was found by search\n");
}

static void
explain_json(struct strbuf *sb, const struct plan *p, uint32_t i, uint32_t rival, uint32_t n, uint32_t n_measured)
{
	sb_addf(sb, "{\"step\":%u,\"cost_ns\":%" PRId64 ",\"rivals\":%u,\"rivals_measured\":%u", i,
	    p->kernels[p->steps[i].kernel].cost_ns, n, n_measured);
	if (rival != UINT32_MAX)
		sb_addf(sb, ",\"nearest_ns\":%" PRId64 ",\"nearest_measured\":%s,\"slower_ns\":%.0f",
		    p->candidates[rival].cost_ns, p->candidates[rival].is_measured ? "true" : "false",
		    dual_sum(p) + p->candidates[rival].reduced_cost - (double)p->latency_ns);
	sb_addz(sb, ",\"nodes\":");
	json_string(sb, p->steps[i].nodes);
	sb_addc(sb, '}');
}

void
plan_explain(struct arena *a, const struct plan *p, bool json)
{
	struct strbuf sb;

	sb_init(&sb, a);
	for (uint32_t i = 0; i < p->n_steps && p->n_candidates; i++) {
		uint32_t n, n_measured, rival = nearest_rival(p, p->steps[i].candidate, &n, &n_measured);

		if (!json)
			explain_words(p, i, rival, n, n_measured);
		else {
			sb_addz(&sb, i ? "," : "");
			explain_json(&sb, p, i, rival, n, n_measured);
		}
	}
	if (json) {
		struct strbuf all;

		sb_init(&all, a);
		sb_addz(&all, "{\"limits\":");
		json_string(&all, p->limits);
		(void)printf("%s,\"steps\":[%s]}\n", all.p, sb.p);
	} else if (p->limits.n)
		(void)printf("within: %.*s\n", STR_ARG(p->limits));
}

/* ---- dot ---------------------------------------------------------------------------------- */
/* The last step before `reader` that wrote the place's bytes; UINT32_MAX: an input or a constant. */
static uint32_t
maker_of(const struct plan *p, uint32_t reader, const struct place *at)
{
	for (uint32_t s = reader; s-- > 0;) {
		const struct plan_step *st = &p->steps[s];
		uint32_t from = p->kernels[st->kernel].n_operands;

		for (uint32_t j = from; j < st->n_places; j++) {
			const struct place *to = &p->places[st->places[j]];

			if (to->kind == at->kind && to->index == at->index && to->offset < at->offset + at->n_bytes &&
			    at->offset < to->offset + to->n_bytes)
				return s;
		}
	}
	return UINT32_MAX;
}

static void
dot_reads(struct strbuf *sb, const struct plan *p, uint32_t i)
{
	const struct plan_step *s = &p->steps[i];

	for (uint32_t j = 0; j < p->kernels[s->kernel].n_operands; j++) {
		const struct place *at = &p->places[s->places[j]];
		uint32_t from = maker_of(p, i, at);
		struct strbuf shape;

		if (at->kind == PLACE_CONST)
			continue;
		sb_init(&shape, sb->a);
		shape_print(&shape, &at->shape);
		if (from != UINT32_MAX)
			sb_addf(sb, "  s%u -> s%u [label=\"%s\"];\n", from, i, shape.p);
		else if (at->kind == PLACE_INPUT)
			sb_addf(sb, "  in%u -> s%u [label=\"%s\"];\n", at->index, i, shape.p);
	}
}

void
plan_dot(struct arena *a, const struct plan *p)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "digraph plan {\n  node [shape=box];\n");
	for (uint32_t i = 0; i < p->n_inputs; i++) {
		sb_addf(&sb, "  in%u [shape=ellipse,label=", i);
		json_string(&sb, p->inputs[i].name);
		sb_addz(&sb, "];\n");
	}
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];
		char *label = arena_printf(a, "%u: %.1f us  %.*s", i, (double)k->cost_ns / 1e3, STR_ARG(p->steps[i].nodes));

		sb_addf(&sb, "  s%u [label=", i);
		json_string(&sb, str_of(label));
		sb_addz(&sb, "];\n");
		dot_reads(&sb, p, i);
	}
	for (uint32_t i = 0; i < p->n_outputs; i++) {
		struct place out = {.kind = PLACE_OUTPUT, .index = i, .n_bytes = 1};
		uint32_t from = maker_of(p, p->n_steps, &out);

		sb_addf(&sb, "  out%u [shape=ellipse,label=", i);
		json_string(&sb, p->outputs[i].name);
		sb_addz(&sb, "];\n");
		if (from != UINT32_MAX)
			sb_addf(&sb, "  s%u -> out%u;\n", from, i);
	}
	(void)printf("%s}\n", sb.p);
}
