/* daemon/planner/check.c: reads a model as a job would and goes on behind what is wrong, so that all of it is
 * said at once: operators without a row, nodes that fail at their root, and, where nothing failed, primitives
 * that are no kernel. */
#include "check.h"
#include "front.h"

#include <string.h>

/* What a message holds (msg.def); what is longer is cut. */
enum {
	MOST_NODES = 256,
	MOST_FAULTS = 65536,
	MOST_OPS = 4096,
	MOST_IO = 4096,
	LONGEST_WORD = 1024,
	LONGEST_LINE = 4096,
	LONGEST_VALUE = 65536
};

struct check {
	struct arena *a;
	const struct m_check_ask *ask;
	struct front_opts opts;
	struct front front;
	struct graph graph;
	struct m_check_have have;
};

static struct str
cut(const char *text, size_t most)
{
	struct str s = str_of(text);

	return (struct str){s.p, MIN_OF(s.n, most)};
}

static struct str
word(const char *text)
{
	return cut(text, LONGEST_WORD);
}

/* ---- inputs and outputs ------------------------------------------------------------------------ */
static struct m_check_io
describe(const struct check *c, const struct model_value *v)
{
	return (struct m_check_io){
	    .name = word(v->name),
	    .type = str_of(v->has_type ? dtype_name(v->type) : ""),
	    .shape = word(model_shape_text(&c->front.model, v)),
	    .is_open = model_value_is_open(v),
	};
}

/* Inputs that are left, then those that became constants. */
static void
list_inputs(struct check *c)
{
	const struct model *m = &c->front.model;

	c->have.inputs = NEW_ARRAY(c->a, struct m_check_io, m->n_inputs + c->opts.n_values);
	for (uint32_t i = 0; i < m->n_inputs && i < MOST_IO - c->opts.n_values; i++)
		c->have.inputs[c->have.n_inputs++] = describe(c, &m->values[m->inputs[i]]);
	for (uint32_t i = 0; i < c->opts.n_values; i++)
		for (uint32_t v = 0; v < m->n_values; v++)
			if (m->values[v].init && str_is(c->opts.values[i].name, m->values[v].name)) {
				struct m_check_io *io = &c->have.inputs[c->have.n_inputs++];
				*io = describe(c, &m->values[v]);
				io->value = c->opts.values[i].from;
				break;
			}
}

/* What was computed of an output is better than what the file says. */
static void
list_outputs(struct check *c)
{
	const struct model *m = &c->front.model;

	c->have.outputs = NEW_ARRAY(c->a, struct m_check_io, m->n_outputs);
	for (uint32_t i = 0; i < m->n_outputs && i < MOST_IO; i++) {
		struct model_value v = m->values[m->outputs[i]];

		for (uint32_t k = 0; k < c->graph.n_outputs; k++)
			if (strcmp(c->graph.output_names[k], v.name) == 0) {
				const struct tensor *t = graph_tensor(&c->graph, c->graph.outputs[k]);
				v.has_type = v.has_shape = true;
				v.type = t->type;
				v.shape = t->shape;
			}
		c->have.outputs[c->have.n_outputs++] = describe(c, &v);
	}
}

/* What is longer than a message takes is left out: a cut text would pass for the whole. */
static void
list_about(struct check *c)
{
	const struct model *m = &c->front.model;

	c->have.about = NEW_ARRAY(c->a, struct m_about, m->n_about);
	for (uint32_t i = 0; i < m->n_about; i++) {
		struct m_about x = {.name = str_of(m->about[i].name), .value = str_of(m->about[i].value)};

		if (x.name.n <= LONGEST_WORD && x.value.n <= LONGEST_VALUE)
			c->have.about[c->have.n_about++] = x;
	}
}

/* ---- what is wrong ----------------------------------------------------------------------------- */
static struct m_check_op
describe_op(const struct check *c, const struct model_missing *x)
{
	const char *advice, *maker = model_domain_maker(x->domain, &advice);
	struct m_check_op op = {.domain = word(x->domain),
	    .op = word(x->op),
	    .opset = (uint64_t)x->opset,
	    .since = (uint64_t)x->first_opset,
	    .nodes = x->n_nodes,
	    .in_branches = x->n_conditional,
	    .n_where = MIN_OF(x->n_nodes, (uint32_t)MOST_NODES),
	    .maker = str_of(maker ? maker : ""),
	    .advice = str_of(maker ? advice : "")};

	op.where = NEW_ARRAY(c->a, struct m_kv, op.n_where);
	for (uint32_t i = 0; i < op.n_where; i++)
		op.where[i].name = word(c->front.model.nodes[x->nodes[i]].name);
	return op;
}

static bool
list_missing(struct check *c)
{
	struct model_missing *list;
	uint32_t n = MIN_OF(model_missing_ops(c->a, &c->front.model, &list), (uint32_t)MOST_OPS);
	bool any = false;

	c->have.missing = NEW_ARRAY(c->a, struct m_check_op, n);
	for (uint32_t i = 0; i < n; i++) {
		c->have.missing[i] = describe_op(c, &list[i]);
		any |= list[i].n_nodes > list[i].n_conditional;
	}
	c->have.n_missing = n;
	return any;
}

static void
add_fault(struct check *c, const struct model_node *n, const char *why)
{
	c->have.faults[c->have.n_faults++] = (struct m_check_fault){
	    .node = word(n ? n->name : ""), .op = word(n ? n->op : ""), .why = word(why)};
}

/* Nodes whose operator is missing are in the other list; open inputs are said by the inputs. */
static void
list_faults(struct check *c, bool is_open)
{
	struct fission_faults faults = {0};

	if (!is_open)
		fission_check(c->a, &c->front.model, &c->graph, &faults);
	c->have.faults = NEW_ARRAY(c->a, struct m_check_fault, faults.n + 1);
	for (uint32_t i = 0; i < faults.n && c->have.n_faults < MOST_FAULTS; i++)
		if (!faults.list[i].node || model_has_row(faults.list[i].node))
			add_fault(c, faults.list[i].node, faults.list[i].why);
}

/* The rest of the way to kernels: each primitive alone must be one. */
static void
check_kernels(struct check *c)
{
	struct rewrite_opts ro = {.normalize = true, .worst = NUM_PRECISION, .max_nodes = 100000};
	struct rewrite_stats stats;
	struct cand_set cands;
	struct graph g;
	struct err e = {0};

	if (!rewrite_run(c->a, &c->graph, &ro, &g, &stats, &e) ||
	    !identify_run(c->a, &g, IDENTIFY_NONE, &identify_limits_default, &cands, &e))
		add_fault(c, NULL, arena_printf(c->a, "%s", e.msg));
}

static bool
read_model(struct check *c, struct err *e)
{
	const char *path = str_dup(c->a, c->ask->model_path), *slash = strrchr(path, '/');
	struct bytes onnx;

	c->opts.file = str_dup(c->a, c->ask->model_name);
	c->opts.dir = slash ? str_dup(c->a, (struct str){path, (size_t)(slash - path)}) : ".";
	return front_asked(c->a, &c->ask->options, &c->opts, e) &&
	    os_read_file(os_real(), c->a, path, model_limits_default.max_file_bytes, &onnx, e) &&
	    front_read(c->a, onnx, &c->opts, &c->front, e);
}

bool
check_run(struct arena *a, struct pipe *p, const struct m_check_ask *ask, struct err *e)
{
	struct check c = {.a = a, .ask = ask};
	struct msg m = {.type = MSG_check_have};
	bool is_open, is_missing;

	if (!read_model(&c, e))
		return false;
	c.have.operators = c.front.model.n_nodes;
	c.have.opset = (uint64_t)c.front.model.opset;
	c.have.example = cut(model_open_example(&c.front.model), LONGEST_LINE);
	is_open = c.have.example.n > 0;
	is_missing = list_missing(&c);
	list_faults(&c, is_open);
	if (!is_open && !is_missing && c.have.n_faults == 0)
		check_kernels(&c);
	list_inputs(&c);
	list_outputs(&c);
	list_about(&c);
	c.have.would_tune = !is_open && !is_missing && c.have.n_faults == 0;
	m.check_have = c.have;
	return pipe_send(p, &m, e);
}
