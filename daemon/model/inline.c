/* daemon/model/inline.c: calls of model-local functions are replaced by their bodies, with
 * inner names prefixed by the call's.  Depth and the total of nodes are bounded, so that
 * functions calling each other twice cannot grow without end. */
#include "model_int.h"
#include "op.h"

#include <string.h>

enum { MAX_CALL_DEPTH = 32 };

struct inliner {
	struct arena *a;
	const Onnx__ModelProto *m;
	const struct model_limits *lim;
	struct flat *out;
	uint32_t n_calls;
	struct err *e;
};
/* One body being expanded: NULL `call` for the main graph. */
struct scope {
	const struct flat_node *call;
	const char *prefix; /* of inner names: no two calls have the same */
	const Onnx__FunctionProto *fn;
	struct name_table names; /* of the function's formal names: index into `actual` */
	const char **actual;
	int opset, depth;
};

static const char *
or_empty(const char *s)
{
	return s ? s : "";
}

static bool
is_onnx_domain(const char *s)
{
	return !s || !s[0] || strcmp(s, "ai.onnx") == 0;
}

static const Onnx__FunctionProto *
find_function(const Onnx__ModelProto *m, const Onnx__NodeProto *n)
{
	for (size_t i = 0; i < m->n_functions; i++) {
		const Onnx__FunctionProto *f = m->functions[i];
		bool same_domain = strcmp(or_empty(f->domain), or_empty(n->domain)) == 0 ||
				   (is_onnx_domain(f->domain) && is_onnx_domain(n->domain));
		if (same_domain && strcmp(or_empty(f->name), or_empty(n->op_type)) == 0)
			return f;
	}
	return NULL;
}

static bool
opset_of_function(const Onnx__FunctionProto *f, int otherwise, int *opset, struct err *e)
{
	*opset = otherwise;
	for (size_t i = 0; i < f->n_opset_import; i++)
		if (is_onnx_domain(f->opset_import[i]->domain)) {
			int64_t v = f->opset_import[i]->version;
			if (v < MODEL_MIN_OPSET || v > MODEL_MAX_OPSET)
				return err_set(e, ERR_MODEL,
				    "function '%s' wants opset %lld; supported are %d to %d",
				    or_empty(f->name), (long long)v, MODEL_MIN_OPSET, MODEL_MAX_OPSET);
			*opset = (int)v;
		}
	return true;
}

static const char *
map_name(struct inliner *in, const struct scope *s, const char *name)
{
	uint32_t i;

	name = or_empty(name);
	if (!s->call || !name[0])
		return name;
	if (names_find(&s->names, name, &i))
		return s->actual[i];
	return arena_printf(in->a, "%s/%s", s->prefix, name);
}

/* The node's attributes, references to the function's own replaced by the call's. */
static void
bind_attrs(struct inliner *in, const struct scope *s, const Onnx__NodeProto *p, struct flat_node *out)
{
	out->attr = NEW_ARRAY(in->a, Onnx__AttributeProto *, p->n_attribute);
	for (size_t i = 0; i < p->n_attribute; i++) {
		Onnx__AttributeProto *at = p->attribute[i];
		if (!at->ref_attr_name || !at->ref_attr_name[0]) {
			out->attr[out->n_attr++] = at;
			continue;
		}
		for (uint32_t k = 0; s->call && k < s->call->n_attr; k++)
			if (strcmp(or_empty(s->call->attr[k]->name), at->ref_attr_name) == 0) {
				Onnx__AttributeProto *copy =
				    arena_dup(in->a, s->call->attr[k], sizeof(*copy));
				copy->name = at->name;
				out->attr[out->n_attr++] = copy;
			}
	}
}

static struct flat_node
flatten_node(struct inliner *in, const struct scope *s, const Onnx__NodeProto *p)
{
	struct flat_node n = {.p = p, .opset = s->opset};
	const char *name =
	    p->name && p->name[0] ? p->name : arena_printf(in->a, "%s_%u", or_empty(p->op_type), in->out->n);

	n.name = s->call ? arena_printf(in->a, "%s/%s", s->prefix, name) : name;
	n.in = NEW_ARRAY(in->a, const char *, p->n_input);
	n.out = NEW_ARRAY(in->a, const char *, p->n_output);
	for (size_t i = 0; i < p->n_input; i++)
		n.in[i] = map_name(in, s, p->input[i]);
	for (size_t i = 0; i < p->n_output; i++)
		n.out[i] = map_name(in, s, p->output[i]);
	bind_attrs(in, s, p, &n);
	return n;
}

static bool expand(struct inliner *in, const struct scope *s, Onnx__NodeProto *const *nodes, size_t n);

static bool
bind_names(struct scope *s, char *const *formal, size_t n_formal, const char *const *actual, size_t n_actual,
    uint32_t *n, struct err *e)
{
	if (n_actual > n_formal)
		return err_set(e, ERR_MODEL,
		    "node '%s': it has %zu operands or results where function '%s' has %zu", s->call->name,
		    n_actual, or_empty(s->fn->name), n_formal);
	for (size_t i = 0; i < n_formal; i++) {
		const char *name = i < n_actual ? actual[i] : "";
		s->actual[*n] = name;
		/* A result that the call leaves out gets an inner name, an operand stays absent. */
		if (formal[i][0] && (name[0] || formal == s->fn->input) &&
		    !names_add(&s->names, formal[i], *n) && formal == s->fn->input)
			return err_set(e, ERR_MODEL, "function '%s' has two operands '%s'",
			    or_empty(s->fn->name), formal[i]);
		(*n)++;
	}
	return true;
}

static bool
expand_call(struct inliner *in, const struct flat_node *call, const Onnx__FunctionProto *f, int depth)
{
	struct scope s = {.call = call, .fn = f, .depth = depth};
	uint32_t n = 0;

	if (depth > MAX_CALL_DEPTH)
		return err_set(in->e, ERR_MODEL, "node '%s': functions call each other more than %d deep",
		    call->name, MAX_CALL_DEPTH);
	if (++in->n_calls > in->lim->max_nodes)
		return err_set(in->e, ERR_LIMIT, "more than %u calls of functions", in->lim->max_nodes);
	s.prefix = arena_printf(in->a, "%s.%u", call->name, in->n_calls);
	if (!opset_of_function(f, call->opset, &s.opset, in->e))
		return false;
	names_init(&s.names, in->a);
	s.actual = NEW_ARRAY(in->a, const char *, f->n_input + f->n_output);
	return bind_names(&s, f->input, f->n_input, call->in, call->p->n_input, &n, in->e) &&
	       bind_names(&s, f->output, f->n_output, call->out, call->p->n_output, &n, in->e) &&
	       expand(in, &s, f->node, f->n_node);
}

static bool
expand(struct inliner *in, const struct scope *s, Onnx__NodeProto *const *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct flat_node flat = flatten_node(in, s, nodes[i]);
		bool is_known =
		    is_onnx_domain(nodes[i]->domain) && op_find(or_empty(nodes[i]->op_type), s->opset);
		const Onnx__FunctionProto *f = is_known ? NULL : find_function(in->m, nodes[i]);
		if (f) {
			if (!expand_call(in, &flat, f, s->depth + 1))
				return false;
			continue;
		}
		if (in->out->n >= in->lim->max_nodes)
			return err_set(in->e, ERR_LIMIT, "more than %u nodes", in->lim->max_nodes);
		GROW(in->a, in->out->nodes, in->out->n, in->out->cap);
		in->out->nodes[in->out->n++] = flat;
	}
	return true;
}

static bool
check_functions(const Onnx__ModelProto *m, struct err *e)
{
	for (size_t i = 0; i < m->n_functions; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(or_empty(m->functions[i]->name), or_empty(m->functions[k]->name)) == 0 &&
			    strcmp(or_empty(m->functions[i]->domain), or_empty(m->functions[k]->domain)) == 0)
				return err_set(e, ERR_MODEL,
				    "function '%s' is defined twice (overloads are not supported)",
				    or_empty(m->functions[i]->name));
	return true;
}

bool
inline_functions(struct arena *a, const Onnx__ModelProto *m, int opset, const struct model_limits *lim,
    struct flat *out, struct err *e)
{
	struct inliner in = {.a = a, .m = m, .lim = lim, .out = out, .e = e};
	struct scope top = {.opset = opset};

	if (m->n_functions > 10000)
		return err_set(e, ERR_LIMIT, "more than 10000 functions");
	return check_functions(m, e) && expand(&in, &top, m->graph->node, m->graph->n_node);
}
