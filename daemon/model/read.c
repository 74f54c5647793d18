/* daemon/model/read.c: ONNX bytes to a checked operator graph.
 *
 * The order of the work: skeleton (nesting, counts) -> protobuf -> versions -> functions inlined
 * -> values by name (each made once) -> nodes -> topological order.  After this every number in
 * struct model is in range, and nothing of the protobuf structs is kept. */
#include "model_int.h"
#include "op.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_IR = 3, MAX_IR = 14 };

const struct model_limits model_limits_default = {
    .max_file_bytes = (size_t)2 << 30,
    .max_nodes = 100000,
    .max_tensor_bytes = (size_t)4 << 30,
};

struct reader {
	struct arena *a, *tmp;
	const Onnx__ModelProto *p;
	struct model *m;
	struct name_table names; /* value by name */
	uint8_t *made;           /* by value: input, initializer or result of a node */
	uint32_t cap_values, cap_made;
	struct tensor_source src;
	struct model_limits lim;
	struct err *e;
};

static bool
read_versions(const Onnx__ModelProto *p, int *opset, struct err *e)
{
	int64_t ir = p->has_ir_version ? p->ir_version : 0;
	int64_t version = 0;

	if (ir < MIN_IR || ir > MAX_IR)
		return err_set(e, ERR_MODEL, "its IR version is %lld; supported are %d to %d", (long long)ir,
		    MIN_IR, MAX_IR);
	for (size_t i = 0; i < p->n_opset_import; i++)
		if (is_onnx_domain(p->opset_import[i]->domain))
			version = p->opset_import[i]->version;
	if (version < MODEL_MIN_OPSET || version > MODEL_MAX_OPSET)
		return err_set(e, ERR_MODEL,
		    version == 0 ? "it names no opset of ai.onnx (%lld); supported are %d to %d"
				 : "it wants opset %lld; supported are %d to %d",
		    (long long)version, MODEL_MIN_OPSET, MODEL_MAX_OPSET);
	*opset = (int)version;
	return true;
}

static uint32_t
value_of(struct reader *r, const char *name)
{
	uint32_t v;

	if (names_find(&r->names, name, &v))
		return v;
	v = r->m->n_values;
	GROW(r->a, r->m->values, v, r->cap_values);
	GROW(r->tmp, r->made, v, r->cap_made);
	const char *own = str_dup(r->a, str_of(name));
	r->m->values[v] = (struct model_value){.name = own};
	r->made[v] = 0;
	if (!names_add(&r->names, own, v))
		bug("name '%s' was just absent", own);
	r->m->n_values++;
	return v;
}

static bool
read_initializers(struct reader *r)
{
	const Onnx__GraphProto *g = r->p->graph;

	if (g->n_sparse_initializer > 0)
		return err_set(r->e, ERR_MODEL, "it has sparse initializers; only dense ones are supported");
	for (size_t i = 0; i < g->n_initializer; i++) {
		const Onnx__TensorProto *p = g->initializer[i];
		if (!p->name || !p->name[0])
			return err_set(r->e, ERR_MODEL, "initializer %zu has no name", i);
		uint32_t v = value_of(r, p->name);
		if (r->m->values[v].init)
			return err_set(r->e, ERR_MODEL, "two initializers are named '%s'", p->name);
		struct model_tensor *t = NEW(r->a, struct model_tensor);
		if (!tensor_decode(r->a, p, &r->src, t, r->e))
			return err_in(r->e, "initializer");
		r->made[v] = 1;
		r->m->values[v] = (struct model_value){.name = r->m->values[v].name,
		    .has_type = true,
		    .has_shape = true,
		    .type = t->type,
		    .shape = t->shape,
		    .init = t};
	}
	return true;
}

static bool
read_dims(struct reader *r, const Onnx__TensorShapeProto *s, struct model_value *v)
{
	if (s->n_dim > MAX_RANK)
		return err_set(r->e, ERR_MODEL, "'%s' has %zu dimensions; supported are %d", v->name,
		    s->n_dim, MAX_RANK);
	v->has_shape = true;
	v->shape.rank = (int)s->n_dim;
	for (size_t i = 0; i < s->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
		v->shape.dim[i] = -1;
		if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
			v->shape.dim[i] = MAX_OF(d->dim_value, -1);
		else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
		    d->dim_param && d->dim_param[0])
			v->dim_param[i] = str_dup(r->a, str_of(d->dim_param));
	}
	return true;
}

static bool
read_type(struct reader *r, const Onnx__ValueInfoProto *p, struct model_value *v)
{
	const Onnx__TypeProto *t = p->type;

	if (!t || t->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
		return true;
	if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
		return err_set(r->e, ERR_MODEL,
		    "'%s' is no dense tensor (a sequence, map, optional or sparse one); "
		    "only dense tensors are supported",
		    v->name);
	int type = t->tensor_type->has_elem_type ? t->tensor_type->elem_type : 0;
	if (!dtype_of_onnx(type, &v->type))
		return err_set(r->e, ERR_MODEL, "'%s' has the type %s (%d), which is not supported", v->name,
		    onnx_type_name(type), type);
	v->has_type = true;
	return !t->tensor_type->shape || read_dims(r, t->tensor_type->shape, v);
}

/* Before IR 4 every initializer stands among the inputs too. */
static bool
read_inputs(struct reader *r)
{
	const Onnx__GraphProto *g = r->p->graph;
	uint32_t *list = NEW_ARRAY(r->a, uint32_t, g->n_input);

	for (size_t i = 0; i < g->n_input; i++) {
		if (!g->input[i]->name || !g->input[i]->name[0])
			return err_set(r->e, ERR_MODEL, "input %zu has no name", i);
		uint32_t v = value_of(r, g->input[i]->name);
		if (r->m->values[v].init)
			continue;
		if (r->made[v])
			return err_set(r->e, ERR_MODEL, "two inputs are named '%s'", g->input[i]->name);
		r->made[v] = 1;
		if (!read_type(r, g->input[i], &r->m->values[v]))
			return err_in(r->e, "input");
		if (!r->m->values[v].has_type)
			return err_set(r->e, ERR_MODEL, "input '%s' has no type", g->input[i]->name);
		list[r->m->n_inputs++] = v;
	}
	r->m->inputs = list;
	return true;
}

static bool
read_node(struct reader *r, const struct flat_node *f, struct model_node *n)
{
	uint32_t *in = NEW_ARRAY(r->a, uint32_t, f->p->n_input),
		 *out = NEW_ARRAY(r->a, uint32_t, f->p->n_output);

	*n = (struct model_node){.name = str_dup(r->a, str_of(f->name)),
	    .opset = f->opset,
	    .is_conditional = f->is_conditional,
	    .op = str_dup(r->a, str_of(f->p->op_type)),
	    .domain = is_onnx_domain(f->p->domain) ? "" : str_dup(r->a, str_of(f->p->domain)),
	    .n_in = ck_u32(f->p->n_input),
	    .n_out = ck_u32(f->p->n_output),
	    .in = in,
	    .out = out,
	    .n_attr = f->n_attr};
	if (!n->op[0])
		return err_set(r->e, ERR_MODEL, "node '%s' has no operator", n->name);
	for (uint32_t i = 0; i < n->n_in; i++)
		in[i] = f->in[i][0] ? value_of(r, f->in[i]) : NO_VALUE;
	for (uint32_t i = 0; i < n->n_out; i++) {
		out[i] = f->out[i][0] ? value_of(r, f->out[i]) : NO_VALUE;
		if (out[i] == NO_VALUE)
			continue;
		if (r->made[out[i]])
			return err_set(r->e, ERR_MODEL, "node '%s' (%s): its result '%s' is made twice",
			    n->name, n->op, f->out[i]);
		r->made[out[i]] = 1;
	}
	while (n->n_in > 0 && in[n->n_in - 1] == NO_VALUE)
		n->n_in--;
	return attrs_decode(r->a, f->attr, f->n_attr, &r->src, &n->attr, r->e) ||
	    err_in(r->e, "node '%s' (%s)", n->name, n->op);
}

static bool
check_names(struct reader *r)
{
	for (uint32_t i = 0; i < r->m->n_nodes; i++) {
		const struct model_node *n = &r->m->nodes[i];
		for (uint32_t k = 0; k < n->n_in; k++)
			if (n->in[k] != NO_VALUE && !r->made[n->in[k]])
				return err_set(r->e, ERR_MODEL,
				    "node '%s' (%s): its operand %u, '%s', is made by no node "
				    "and is no input",
				    n->name, n->op, k, r->m->values[n->in[k]].name);
	}
	return true;
}

static bool
read_nodes(struct reader *r)
{
	struct flat flat = {0};

	if (!inline_functions(r->tmp, r->p, r->m->opset, &r->lim, &flat, r->e))
		return false;
	r->m->n_nodes = flat.n;
	r->m->nodes = NEW_ARRAY(r->a, struct model_node, flat.n);
	for (uint32_t i = 0; i < flat.n; i++)
		if (!read_node(r, &flat.nodes[i], &r->m->nodes[i]))
			return false;
	return check_names(r);
}

/* What the file says of an output is for people: what it is follows from the nodes. */
static void
note_type(struct reader *r, const Onnx__ValueInfoProto *p, struct model_value *v)
{
	struct model_value said = {.name = v->name};
	struct err *e = r->e, ignored = {0};

	if (v->has_type)
		return;
	r->e = &ignored;
	if (read_type(r, p, &said))
		*v = said;
	r->e = e;
}

static bool
read_outputs(struct reader *r)
{
	const Onnx__GraphProto *g = r->p->graph;
	uint32_t *list = NEW_ARRAY(r->a, uint32_t, g->n_output);

	if (g->n_output == 0)
		return err_set(r->e, ERR_MODEL, "its graph has no outputs");
	for (size_t i = 0; i < g->n_output; i++) {
		const char *name = or_empty(g->output[i]->name);
		if (!names_find(&r->names, name, &list[i]) || !r->made[list[i]])
			return err_set(
			    r->e, ERR_MODEL, "output '%s' is made by no node and is no input", name);
		note_type(r, g->output[i], &r->m->values[list[i]]);
	}
	r->m->outputs = list;
	r->m->n_outputs = ck_u32(g->n_output);
	return true;
}

static bool
read_graph(struct reader *r)
{
	if (!r->p->graph)
		return err_set(r->e, ERR_MODEL, "it holds no graph");
	read_about(r->p, r->m);
	return read_versions(r->p, &r->m->opset, r->e) && read_initializers(r) && read_inputs(r) &&
	    read_nodes(r) && read_outputs(r);
}

bool
model_read(struct arena *a, struct bytes onnx, const char *file, const char *dir,
    const struct model_limits *lim, struct model *out, struct err *e)
{
	struct arena tmp = {0};
	struct reader r = {.a = a, .tmp = &tmp, .m = out, .e = e, .lim = lim ? *lim : model_limits_default};
	struct bytes skeleton;

	*out = (struct model){
	    .arena = a, .file = str_dup(a, str_of(file)), .max_tensor_bytes = r.lim.max_tensor_bytes};
	if (onnx.n > r.lim.max_file_bytes)
		return err_set(
		    e, ERR_LIMIT, "%s: %zu bytes; at most %zu are read", file, onnx.n, r.lim.max_file_bytes);
	if (onnx.n == 0)
		return err_set(e, ERR_MODEL, "%s: not an ONNX file: it is empty", file);
	if (!skeleton_make(&onnx__model_proto__descriptor, onnx, file, &skeleton, e))
		return false;
	r.src = (struct tensor_source){.file = onnx, .dir = dir, .max_bytes = r.lim.max_tensor_bytes};
	names_init(&r.names, &tmp);
	ProtobufCAllocator al = arena_allocator(&tmp);
	r.p = onnx__model_proto__unpack(&al, skeleton.n, skeleton.p);
	bool ok = r.p ? read_graph(&r) || err_in(e, "%s", file)
		      : err_set(e, ERR_MODEL, "%s: not an ONNX file: its fields do not decode", file);
	free((void *)(uintptr_t)skeleton.p);
	ok = ok && order_nodes(a, out, e);
	arena_fini(&tmp);
	return ok;
}
