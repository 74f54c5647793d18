/* daemon/fission/fission.c: walks the operator graph and calls one function a row of op.def.
 *
 * Every value of the model becomes one tensor of the primitive graph.  Types and shapes come
 * only from the primitives' own rules, so inputs must have complete shapes here. */
#include "fission_int.h"

#include <string.h>

static fission_fn fiss_unary, fiss_binary;

static fission_fn *const fission_of[OP_COUNT] = {
#define OP(N, V, ...) [OP_##N##_##V] = fiss_##N##_##V,
#define UNARY(N, V, P) [OP_##N##_##V] = fiss_unary,
#define BINARY(N, V, P) [OP_##N##_##V] = fiss_binary,
#include "../model/op.def"
};
/* The primitive of a UNARY or BINARY row. */
static const enum prim prim_of[OP_COUNT] = {
#define OP(N, V, ...)
#define UNARY(N, V, P) [OP_##N##_##V] = PRIM_##P,
#define BINARY(N, V, P) [OP_##N##_##V] = PRIM_##P,
#include "../model/op.def"
};

static void
fiss_unary(struct fission *f)
{
	f_out(f, 0, b_map1(f, prim_of[f->op - op_info], f_in(f, 0)));
}

static void
fiss_binary(struct fission *f)
{
	f_out(f, 0, b_map2(f, prim_of[f->op - op_info], f_in(f, 0), f_in(f, 1)));
}

/* ---- the row of a node --------------------------------------------------------------- */
static bool
has_kind(const struct model_attr *at, const struct op_attr *row)
{
	return at->kind == row->kind
	    /* an empty list has no type of its own in old files */
	    || (at->kind == MATTR_OTHER &&
		   (row->kind == MATTR_INTS || row->kind == MATTR_FLOATS || row->kind == MATTR_STRINGS));
}

static void
check_node(struct fission *f)
{
	const struct model_node *n = f->node;

	if (n->n_in < f->op->in[0] || n->n_in > f->op->in[1])
		f_fail(
		    f, "it has %u operands; %s takes %u to %u", n->n_in, n->op, f->op->in[0], f->op->in[1]);
	for (uint32_t i = 0; i < n->n_attr; i++) {
		const struct op_attr *row = op_attr_find(f->op, n->attr[i].name);
		if (!row)
			f_fail(f, "attribute '%s' is not known for %s of opset %d", n->attr[i].name, n->op,
			    n->opset);
		else if (!has_kind(&n->attr[i], row))
			f_fail(f, "attribute '%s' is of the wrong kind", n->attr[i].name);
	}
	if (n->n_out > MAX_OF(f->op->out, 1))
		f_fail(f, "it has %u results; %s makes at most %u", n->n_out, n->op, MAX_OF(f->op->out, 1));
}

static void
find_row(struct fission *f)
{
	const struct model_node *n = f->node;

	if (model_has_row(n)) {
		f->op = op_find(n->op, n->opset);
		check_node(f);
		return;
	}
	f_fail(f, "%s", model_missing_why(f->a, n));
}

/* The error as it ends the run, or as it is noted. */
static void
node_failed(struct fission *f)
{
	if (f->op && !f->absent)
		f_say_operands(f);
	if (f->node->is_conditional || f->faults)
		f_note_fault(f);
	else
		(void)err_in(f->e, "%s: node '%s' (%s)", f->m->file, f->node->name, f->node->op);
}

static void
run_node(struct fission *f, uint32_t number, struct fission_stats *stats)
{
	const struct model_node *n = &f->m->nodes[number];
	uint32_t before = f->g->n_nodes;

	f->node = n;
	f->op = NULL;
	f->is_said = false;
	f->origin = number;
	f->outs = NEW_ARRAY(f->a, tensor_id, n->n_out);
	for (uint32_t i = 0; i < n->n_out; i++)
		f->outs[i] = NO_TENSOR;
	find_row(f);
	if (!f->failed)
		fission_of[f->op - op_info](f);
	for (uint32_t i = 0; i < n->n_out && !f->failed; i++) {
		if (n->out[i] == NO_VALUE)
			continue;
		/* one that stays absent is an error only where it is read */
		f->of_value[n->out[i]] = f->outs[i];
	}
	if (f->failed)
		node_failed(f);
	stats->n_folded += f->g->n_nodes == before;
}

/* ---- the whole ----------------------------------------------------------------------- */
static bool
add_input(struct fission *f, const struct model_value *v, tensor_id *out)
{
	if (!f_check_shape(f, &v->shape, v->type))
		return err_in(f->e, "%s: input '%s' of %s", f->m->file, v->name, model_shape_text(f->m, v));
	*out = graph_input(f->g, v->type, &v->shape, v->name);
	return true;
}

static bool
add_values(struct fission *f)
{
	const struct model *m = f->m;

	for (uint32_t i = 0; i < m->n_values; i++)
		f->of_value[i] = NO_TENSOR;
	for (uint32_t i = 0; i < m->n_inputs; i++)
		if (!add_input(f, &m->values[m->inputs[i]], &f->of_value[m->inputs[i]]))
			return false;
	for (uint32_t i = 0; i < m->n_values; i++)
		if (m->values[i].init)
			f->of_value[i] = b_weight(f, m->values[i].init, m->values[i].name);
	return f->failed ? err_in(f->e, "%s", m->file) : true;
}

/* C leaves open in which order operands of a call are built, so the order of creation is not the
 * program's meaning.  Sorting follows operands from the nodes it meets first: with each operator's
 * nodes turned round it begins at their result, and every compiler gives the same graph. */
static void
turn_each_operator(struct graph *g)
{
	for (uint32_t from = 0, to; from < g->n_nodes; from = to) {
		for (to = from + 1; to < g->n_nodes && g->nodes[to].origin == g->nodes[from].origin; to++)
			;
		for (uint32_t i = from, k = to - 1; i < k; i++, k--) {
			struct node n = g->nodes[i];
			g->nodes[i] = g->nodes[k];
			g->nodes[k] = n;
		}
	}
}

/* All but the outputs; false where the model as a whole is at fault. */
static bool
run_all(struct fission *f, struct fission_stats *stats)
{
	static const float one = 1;
	struct shape ones = {.rank = 4};

	*stats = (struct fission_stats){.n_operators = f->m->n_nodes};
	graph_init(f->g, f->a);
	for (int i = 0; i < MAX_RANK; i++)
		ones.dim[i] = 1;
	f->blank = b_table(f, DT_f32, &ones, &one);
	f->of_value = NEW_ARRAY(f->a, tensor_id, f->m->n_values);
	f->why_absent = NEW_ARRAY(f->a, const char *, f->m->n_values);
	if (!model_check_open(f->m, f->e) || !add_values(f))
		return false;
	for (uint32_t i = 0; i < f->m->n_nodes && !f->failed; i++)
		run_node(f, i, stats);
	return !f->failed;
}

bool
fission_run(
    struct arena *a, const struct model *m, struct graph *out, struct fission_stats *stats, struct err *e)
{
	struct graph g;
	struct fission f = {.a = a, .m = m, .g = &g, .e = e, .origin = NO_NODE};

	if (!model_check_ops(m, e) || !run_all(&f, stats))
		return false;
	for (uint32_t i = 0; i < m->n_outputs; i++) {
		tensor_id t = f.of_value[m->outputs[i]];
		const char *name = m->values[m->outputs[i]].name;
		if (t.i == NO_TENSOR.i)
			return err_set(
			    e, ERR_MODEL, "%s: output '%s' is a result that is not supported", m->file, name);
		graph_output(&g, t, name);
	}
	turn_each_operator(&g);
	graph_sort(out, a, &g, NULL);
	stats->n_primitives = out->n_nodes;
	return true;
}

void
fission_check(struct arena *a, const struct model *m, struct graph *out, struct fission_faults *faults)
{
	struct graph g;
	struct err e = {0};
	struct fission f = {.a = a, .m = m, .g = &g, .e = &e, .origin = NO_NODE, .faults = faults};
	struct fission_stats stats;

	*faults = (struct fission_faults){0};
	if (!run_all(&f, &stats)) {
		f.node = NULL;
		f_add_fault(&f, arena_printf(a, "%s", e.msg));
		graph_init(&g, a);
	}
	for (uint32_t i = 0; i < m->n_outputs && g.n_tensors; i++) {
		tensor_id t = f.of_value[m->outputs[i]];
		const char *name = m->values[m->outputs[i]].name;

		f.node = NULL;
		if (t.i != NO_TENSOR.i)
			graph_output(&g, t, name);
		else if (!f.why_absent[m->outputs[i]])
			f_add_fault(
			    &f, arena_printf(a, "output '%s' is a result that is not supported", name));
	}
	turn_each_operator(&g);
	graph_sort(out, a, &g, NULL);
}

void
fission_list_ops(struct strbuf *sb)
{
	for (size_t i = 0; i < OP_COUNT; i++) {
		bool is_first = i == 0 || strcmp(op_info[i].name, op_info[i - 1].name) != 0;
		if (is_first)
			sb_addf(sb, "%s%s", i ? "\n" : "", op_info[i].name);
		sb_addf(sb, " %d", op_info[i].since);
	}
	sb_addc(sb, '\n');
}
