/* client/plan_dot.c: a plan's picture for Graphviz: a cluster a kernel, in it the ONNX nodes that it
 * computes, arrows for the tensors that kernels hand on.  An ONNX node that several kernels share stands
 * in each of them. */
#include "plan_explain.h"
#include "plan_why.h"
#include "run_report.h"

enum { COLOURS = 6, NAME_BYTES = 40 };

/* The last step before `reader` that wrote the place's bytes; UINT32_MAX: an input or a constant. */
static uint32_t
maker_of(const struct plan *p, uint32_t reader, const struct place *at)
{
	for (uint32_t s = reader; s-- > 0;) {
		const struct plan_step *st = &p->steps[s];
		uint32_t from = p->kernels[st->kernel].n_operands;

		for (uint32_t j = from; j < st->n_places; j++) {
			const struct place *to = &p->places[st->places[j]];

			if (to->kind == at->kind && to->index == at->index &&
			    to->offset < at->offset + at->n_bytes && at->offset < to->offset + to->n_bytes)
				return s;
		}
	}
	return UINT32_MAX;
}

/* What stands for a step at the ends of its arrows: its first or its last node. */
struct ends {
	uint32_t first, last;
};

static bool
is_in(const struct plan_node *n, uint32_t step)
{
	for (uint32_t i = 0; i < n->n_steps; i++)
		if (n->steps[i] == step)
			return true;
	return false;
}

/* "/conv1/norm/InstanceNormalization" is long for a box: its end says the most. */
static void
add_name(struct strbuf *sb, struct str name)
{
	size_t cut = name.n > NAME_BYTES ? name.n - NAME_BYTES : 0;

	while (cut && cut < name.n && name.p[cut] != '/')
		cut++;
	if (cut == name.n)
		cut = name.n - NAME_BYTES;
	while (cut && cut < name.n && ((unsigned char)name.p[cut] & 0xc0) == 0x80)
		cut++;
	json_string(sb, (struct str){name.p + cut, name.n - cut});
}

static void
dot_cluster(struct strbuf *sb, const struct plan *p, uint32_t i, struct ends *out)
{
	const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];
	char hex[65];
	uint32_t n = 0, before = UINT32_MAX;

	why_kernel_hex(k, hex);
	sb_addf(sb, "  subgraph cluster%u {\n    label=\"%u: %.*s  %.1f us%s\"; color=\"/set26/%u\";\n", i, i,
	    WHY_DIGITS, hex, (double)k->cost_ns / 1e3, k->is_measured ? "" : " at least", i % COLOURS + 1);
	for (uint32_t m = 0; m < p->n_nodes; m++) {
		if (!is_in(&p->nodes[m], i))
			continue;
		sb_addf(sb, "    s%un%u [label=", i, m);
		add_name(sb, p->nodes[m].name);
		sb_addz(sb, "];\n");
		if (n++ == 0)
			out->first = m;
		else
			sb_addf(sb, "    s%un%u -> s%un%u [style=dotted,arrowhead=none];\n", i, before, i, m);
		before = out->last = m;
	}
	if (!n) { /* a plan without nodes */
		*out = (struct ends){0, 0};
		sb_addf(sb, "    s%un0 [label=", i);
		add_name(sb, p->steps[i].nodes);
		sb_addz(sb, "];\n");
	}
	sb_addz(sb, "  }\n");
}

static void
dot_reads(struct strbuf *sb, const struct plan *p, uint32_t i, const struct ends *ends)
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
			sb_addf(sb, "  s%un%u -> s%un%u [ltail=cluster%u,lhead=cluster%u,label=\"%s\"];\n",
			    from, ends[from].last, i, ends[i].first, from, i, shape.p);
		else if (at->kind == PLACE_INPUT)
			sb_addf(sb, "  in%u -> s%un%u [lhead=cluster%u,label=\"%s\"];\n", at->index, i,
			    ends[i].first, i, shape.p);
	}
}

static void
dot_outputs(struct strbuf *sb, const struct plan *p, uint32_t n_steps, const struct ends *ends)
{
	for (uint32_t i = 0; i < p->n_outputs; i++) {
		struct place out = {.kind = PLACE_OUTPUT, .index = i, .n_bytes = 1};
		uint32_t from = maker_of(p, n_steps, &out);

		if (from == UINT32_MAX && n_steps < p->n_steps)
			continue; /* made by what is left out */
		sb_addf(sb, "  out%u [shape=ellipse,label=", i);
		json_string(sb, p->outputs[i].name);
		sb_addz(sb, "];\n");
		if (from != UINT32_MAX)
			sb_addf(sb, "  s%un%u -> out%u [ltail=cluster%u];\n", from, ends[from].last, i, from);
	}
}

struct str
plan_dot(struct arena *a, const struct plan *p, uint32_t steps)
{
	uint32_t n = steps ? MIN_OF(steps, p->n_steps) : p->n_steps;
	struct ends *ends = NEW_ARRAY(a, struct ends, MAX_OF(n, 1u));
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb,
	    "digraph plan {\n  compound=true; node [shape=box,height=0.25,fontsize=10]; edge [fontsize=9];\n"
	    "  graph [style=rounded,fontsize=11,penwidth=2];\n");
	for (uint32_t i = 0; i < p->n_inputs; i++) {
		sb_addf(&sb, "  in%u [shape=ellipse,label=", i);
		json_string(&sb, p->inputs[i].name);
		sb_addz(&sb, "];\n");
	}
	for (uint32_t i = 0; i < n; i++)
		dot_cluster(&sb, p, i, &ends[i]);
	for (uint32_t i = 0; i < n; i++)
		dot_reads(&sb, p, i, ends);
	dot_outputs(&sb, p, n, ends);
	sb_addz(&sb, "}\n");
	return sb_str(&sb);
}
