/* daemon/plan/plan_make.c: from the chosen candidates to a plan that runs.
 *
 * A class of aliases that is given lies where it is given; one that is wanted lies in the first
 * output that wants it; every other one has a block of work memory from the first step that makes
 * it to the last that reads it.  A class that a later step makes again is read from the first;
 * what the later one writes goes to a block of that step alone, as kernels write all their results.
 * A result takes over the bytes of an operand that nobody reads later where its kernel says that it
 * may (in_place.c); otherwise they never overlap (the kernels' ABI).  A view's operands and result lie in
 * each other (plan_view.c). */
#include "plan_int.h"

#include <string.h>

uint32_t
making_add_place(struct making *m, struct place p)
{
	GROW(m->a, m->plan->places, m->plan->n_places, m->cap_places);
	m->plan->places[m->plan->n_places] = p;
	return m->plan->n_places++;
}

/* The first tensor of a class stands for all: same bytes, same type. */
static const struct tensor *
class_tensor(const struct making *m, uint32_t c)
{
	return &m->in->graph->tensors[m->p->tensor_of[c]];
}

static void
measure_classes(struct making *m)
{
	const struct graph *g = m->in->graph;
	uint32_t n = m->p->blp.n_tensors;

	m->class_bytes = NEW_ARRAY(m->a, size_t, n);
	m->class_data = NEW_ARRAY(m->a, const void *, n);
	m->place_of = NEW_ARRAY(m->a, uint32_t, n);
	m->is_made = NEW_ARRAY(m->a, bool, n);
	memset(m->place_of, 0xff, sizeof(*m->place_of) * n);
	for (uint32_t c = 0; c < n; c++)
		if (!shape_bytes(&class_tensor(m, c)->shape, class_tensor(m, c)->type, &m->class_bytes[c]))
			bug("a tensor of the graph has no size");
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (g->tensors[t].data)
			m->class_data[m->p->class_of[t]] = g->tensors[t].data;
}

static struct plan_io *
list_ios(struct making *m, const tensor_id *ids, const char **names, uint32_t n)
{
	struct plan_io *io = NEW_ARRAY(m->a, struct plan_io, n);

	for (uint32_t i = 0; i < n; i++) {
		const struct tensor *t = graph_tensor(m->in->graph, ids[i]);

		io[i] = (struct plan_io){str_of(names && names[i] ? names[i] : t->name), t->type, t->shape};
	}
	return io;
}

static void
place_inputs(struct making *m)
{
	const struct graph *g = m->in->graph;

	m->plan->inputs = list_ios(m, g->inputs, NULL, g->n_inputs);
	m->plan->n_inputs = g->n_inputs;
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		uint32_t c = m->p->class_of[g->inputs[i].i];
		const struct tensor *t = graph_tensor(g, g->inputs[i]);

		m->is_made[c] = true;
		m->place_of[c] = making_add_place(m,
		    (struct place){.kind = PLACE_INPUT,
			.index = i,
			.n_bytes = m->class_bytes[c],
			.type = t->type,
			.shape = t->shape,
			.tensor = m->p->tensor_of[c]});
	}
}

/* An output whose class has a place already, or is a constant, is a copy. */
static bool
place_outputs(struct making *m, struct err *e)
{
	const struct graph *g = m->in->graph;

	m->plan->outputs = list_ios(m, g->outputs, g->output_names, g->n_outputs);
	m->plan->n_outputs = g->n_outputs;
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);
		uint32_t c = m->p->class_of[g->outputs[i].i], from = m->place_of[c], to;

		to = making_add_place(m,
		    (struct place){.kind = PLACE_OUTPUT,
			.index = i,
			.n_bytes = m->class_bytes[c],
			.type = t->type,
			.shape = t->shape,
			.tensor = m->p->tensor_of[c]});
		if (from == UINT32_MAX && m->class_data[c])
			from = consts_place(m, t, m->class_data[c], NULL, m->p->tensor_of[c]);
		if (from == UINT32_MAX) {
			if (t->role != ROLE_INNER)
				return err_set(e, ERR_MODEL, "output '%s' is a constant without data",
				    t->name ? t->name : "?");
			m->place_of[c] = to;
			continue;
		}
		GROW(m->a, m->plan->copies, m->plan->n_copies, m->cap_copies);
		m->plan->copies[m->plan->n_copies++] = (struct plan_copy){from, to};
	}
	return true;
}

uint32_t
making_add_class(struct making *m, uint32_t c, enum place_kind kind, uint32_t index)
{
	const struct tensor *t = class_tensor(m, c);

	return making_add_place(m,
	    (struct place){.kind = kind,
		.index = index,
		.n_bytes = m->class_bytes[c],
		.type = t->type,
		.shape = t->shape,
		.tensor = m->p->tensor_of[c]});
}

uint32_t
making_add_block(struct making *m, uint32_t c, uint32_t first)
{
	uint32_t place = making_add_class(m, c, PLACE_WORK, 0), cap = m->cap_blocks;

	GROW(m->a, m->blocks, m->n_blocks, m->cap_blocks);
	if (cap != m->cap_blocks)
		m->block_place = memcpy(NEW_ARRAY(m->a, uint32_t, m->cap_blocks),
		    m->block_place ? m->block_place : &place, sizeof(uint32_t) * m->n_blocks);
	m->blocks[m->n_blocks] =
	    (struct mem_block){.first = first, .last = first, .n_bytes = m->class_bytes[c]};
	m->block_place[m->n_blocks++] = place;
	return place;
}

static void
extend_block(struct making *m, uint32_t place, uint32_t step)
{
	place = parent_place(m, place);
	for (uint32_t b = m->n_blocks; b-- > 0;)
		if (m->block_place[b] == place) {
			m->blocks[b].last = MAX_OF(m->blocks[b].last, step);
			return;
		}
}

static bool
place_operand(struct making *m, const struct cand *c, uint32_t i, uint32_t step, uint32_t *out, struct err *e)
{
	const struct spec *spec = &m->in->cands->specs[c->spec];
	const struct tensor *t = &spec->g.tensors[i];
	uint32_t class = m->p->class_of[c->bind.operands[i].i];
	const struct pack *pack =
	    cand_is_view(m->in->cands, c->spec) ? NULL : descriptor_pack(&m->in->codes[c->spec].desc, i);

	if (m->class_data[class]) {
		*out = consts_place(m, t, m->class_data[class], pack, m->p->tensor_of[class]);
		return true;
	}
	if (pack)
		return err_set(e, ERR_FAILED, "a kernel packs an operand that is no constant");
	if (!m->is_made[class])
		return t->role == ROLE_WEIGHT
		    ? err_set(e, ERR_MODEL, "weight '%s' has no data",
			  graph_tensor(m->in->graph, c->bind.operands[i])->name)
		    : err_set(e, ERR_FAILED, "step %u reads tensor %u before it is made", step,
			  c->bind.operands[i].i);
	*out = m->place_of[class];
	extend_block(m, *out, step);
	return true;
}

/* Names of the ONNX nodes that a candidate covers, each once. */
static struct str
node_names(struct making *m, const struct cand *c)
{
	struct strbuf sb;
	struct bitset seen = bitset_make(m->a, MAX_OF(m->in->n_origins, 1u));

	sb_init(&sb, m->a);
	BITSET_EACH(i, &c->members)
	{
		uint32_t origin = m->in->graph->nodes[i].origin;

		if (origin >= m->in->n_origins || bit_get(&seen, origin) || !m->in->origin_names[origin])
			continue;
		bit_set(&seen, origin);
		if (sb.n)
			sb_addc(&sb, ',');
		sb_addz(&sb, m->in->origin_names[origin]);
	}
	return sb.n ? sb_str(&sb) : STR("");
}

/* Arithmetic and traffic of one call. */
static void
count_work(const struct spec *s, struct plan_kernel *k)
{
	double flops = 0;
	size_t n_bytes;

	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		flops += node_flops(&s->g, &s->g.nodes[i]);
	k->flops = flops < 0x1p62 ? (int64_t)flops : INT64_MAX;
	for (uint32_t i = 0; i < k->n_operands; i++)
		if (shape_bytes(&s->g.tensors[i].shape, s->g.tensors[i].type, &n_bytes))
			k->bytes += ck_i64(n_bytes);
	for (uint32_t i = 0; i < s->g.n_outputs; i++) {
		const struct tensor *t = graph_tensor(&s->g, s->g.outputs[i]);

		if (shape_bytes(&t->shape, t->type, &n_bytes))
			k->bytes += ck_i64(n_bytes);
	}
}

bool
making_is_measured(const struct making *m, uint32_t spec)
{
	return cand_is_view(m->in->cands, spec) || m->in->is_measured[spec];
}

/* No code, no work. */
static struct plan_kernel
view_kernel(const struct cand *c, const struct spec *s, int64_t cost)
{
	return (struct plan_kernel){.spec = s->text,
	    .schedule = STR(PLAN_VIEW),
	    .symbol = STR(PLAN_VIEW),
	    .n_operands = c->bind.n_operands,
	    .n_results = c->bind.n_results,
	    .cost_ns = cost,
	    .bound_ns = cost,
	    .is_measured = true};
}

static bool
code_kernel(struct making *m, const struct cand *c, int64_t cost, struct plan_kernel *k, struct err *e)
{
	const struct plan_code *code = &m->in->codes[c->spec];
	const struct spec *s = &m->in->cands->specs[c->spec];

	*k = (struct plan_kernel){.spec = s->text,
	    .schedule = code->schedule,
	    .symbol = code->symbol,
	    .n_operands = c->bind.n_operands,
	    .n_results = c->bind.n_results,
	    .n_passes = code->desc.n_passes,
	    .shared_bytes = code->desc.shared_bytes,
	    .local_bytes = code->desc.local_bytes,
	    .overlaps = code->desc.overlaps,
	    .n_overlaps = code->desc.n_overlaps,
	    .cost_ns = cost,
	    .bound_ns = m->in->bound_ns[c->spec],
	    .is_measured = m->in->is_measured[c->spec]};
	if (!code->is_ready)
		return err_set(e, ERR_FAILED, "a chosen kernel was not built");
	if (k->n_passes > PLAN_MAX_PASSES) /* none where all results are empty */
		return err_set(e, ERR_FAILED, "kernel %.*s has %u passes; at most %d are possible",
		    STR_ARG(k->symbol), k->n_passes, PLAN_MAX_PASSES);
	memcpy(k->range, code->desc.range, sizeof(k->range[0]) * k->n_passes);
	count_work(s, k);
	return true;
}

static bool
add_kernel(struct making *m, const struct cand *c, int64_t cost, struct err *e)
{
	struct plan_kernel k = view_kernel(c, &m->in->cands->specs[c->spec], cost);

	if (!cand_is_view(m->in->cands, c->spec) && !code_kernel(m, c, cost, &k, e))
		return false;
	GROW(m->a, m->plan->kernels, m->plan->n_kernels, m->cap_kernels);
	m->kernel_of_spec[c->spec] = m->plan->n_kernels;
	m->plan->kernels[m->plan->n_kernels++] = k;
	return true;
}

/* The first maker of a class writes its place; what others make of it nobody reads. */
static uint32_t
place_result(struct making *m, uint32_t class, uint32_t step)
{
	bool is_first = !m->is_made[class] && !m->class_data[class];

	m->is_made[class] = true;
	if (is_first && m->place_of[class] == UINT32_MAX)
		m->place_of[class] = m->is_sub_buffer[class] ? sub_buffer_place(m, class, step)
							     : making_add_block(m, class, step);
	if (!is_first)
		return making_add_block(m, class, step);
	extend_block(m, m->place_of[class], step);
	return m->place_of[class];
}

static bool
add_step(struct making *m, uint32_t i, struct err *e)
{
	uint32_t number = m->order[i];
	const struct cand *c = &m->in->cands->cands[number];
	struct plan_step *s = &m->plan->steps[i];

	if (m->kernel_of_spec[c->spec] == UINT32_MAX && !add_kernel(m, c, m->p->kernels[number].cost, e))
		return false;
	s->kernel = m->kernel_of_spec[c->spec];
	s->candidate = number; /* of the program; evidence_make() renumbers */
	s->nodes = node_names(m, c);
	s->n_places = c->bind.n_operands + c->bind.n_results;
	s->places = NEW_ARRAY(m->a, uint32_t, s->n_places);
	for (uint32_t j = 0; j < c->bind.n_operands; j++)
		if (!place_operand(m, c, j, i, &s->places[j], e))
			return false;
	for (uint32_t j = 0; j < c->bind.n_results; j++) {
		uint32_t class = m->p->class_of[c->bind.results[j].i];

		s->places[c->bind.n_operands + j] = place_result(m, class, i);
	}
	return true;
}

bool
plan_make(struct arena *a, const struct plan_parts *in, struct plan *plan, struct err *e)
{
	struct making m = {.a = a, .in = in, .p = in->program, .plan = plan, .n = in->choice->n_chosen};
	struct strbuf text;

	m.order = arena_dup(a, in->choice->chosen, sizeof(*m.order) * m.n);
	measure_classes(&m);
	order_make(a, &m.p->blp, m.class_bytes, m.order, m.n);
	views_settle(&m);
	place_inputs(&m);
	if (!place_outputs(&m, e))
		return false;
	m.kernel_of_spec = NEW_ARRAY(a, uint32_t, in->cands->n_specs);
	memset(m.kernel_of_spec, 0xff, sizeof(*m.kernel_of_spec) * in->cands->n_specs);
	plan->steps = NEW_ARRAY(a, struct plan_step, m.n);
	plan->n_steps = m.n;
	for (uint32_t i = 0; i < m.n; i++)
		if (!add_step(&m, i, e))
			return false;
	work_place(&m);
	sub_buffers_place(&m);
	consts_fill(&m);
	evidence_make(&m);
	sb_init(&text, a);
	graph_print_origins(&text, in->graph);
	plan->graph = sb_str(&text);
	plan->module = in->module;
	plan->source = in->source;
	return true;
}
