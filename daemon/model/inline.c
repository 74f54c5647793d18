/* daemon/model/inline.c: calls of model-local functions are replaced by their bodies, with
 * inner names prefixed by the call's; both branches of an If are put before it, and it becomes a
 * choice among their results.  Depth and the total of nodes are bounded, so that functions calling
 * each other twice cannot grow without end. */
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
	int n_branches; /* open ones around the node at work */
	struct err *e;
};
/* One body being expanded: the main graph has no parent and no prefix; a branch sees the names of
 * its parent, a function does not. */
struct scope {
	const struct scope *parent;   /* of a branch */
	const struct flat_node *call; /* of the function around it, or NULL */
	const char *prefix;           /* of inner names: no two calls have the same */
	const Onnx__FunctionProto *fn;
	struct name_table names; /* of the function's formal names: index into `actual` */
	const char **actual;
	int opset, depth;
};

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
	if (!name[0])
		return name;
	for (; s->prefix; s = s->parent) {
		if (names_find(&s->names, name, &i))
			return s->actual[i];
		if (!s->parent)
			return arena_printf(in->a, "%s/%s", s->prefix, name);
	}
	return name;
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
	struct flat_node n = {.p = p, .opset = s->opset, .is_conditional = in->n_branches > 0};
	const char *name =
	    p->name && p->name[0] ? p->name : arena_printf(in->a, "%s_%u", or_empty(p->op_type), in->out->n);

	n.name = s->prefix ? arena_printf(in->a, "%s/%s", s->prefix, name) : name;
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
add_node(struct inliner *in, const struct flat_node *n)
{
	if (in->out->n >= in->lim->max_nodes)
		return err_set(in->e, ERR_LIMIT, "more than %u nodes", in->lim->max_nodes);
	GROW(in->a, in->out->nodes, in->out->n, in->out->cap);
	in->out->nodes[in->out->n++] = *n;
	return true;
}

/* ---- branches -------------------------------------------------------------------------- */
/* The names that a branch makes, prefixed. */
static void
declare_names(struct inliner *in, struct scope *s, const Onnx__GraphProto *g)
{
	uint32_t n = 0;
	size_t most = g->n_initializer;

	for (size_t i = 0; i < g->n_node; i++)
		most += g->node[i]->n_output;
	s->actual = NEW_ARRAY(in->a, const char *, most);
	names_init(&s->names, in->a);
	for (size_t i = 0; i < g->n_initializer; i++) {
		const char *name = or_empty(g->initializer[i]->name);
		s->actual[n] = arena_printf(in->a, "%s/%s", s->prefix, name);
		n += names_add(&s->names, name, n);
	}
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_output; k++) {
			const char *name = or_empty(g->node[i]->output[k]);
			s->actual[n] = arena_printf(in->a, "%s/%s", s->prefix, name);
			n += names_add(&s->names, name, n);
		}
}

/* An initializer of a branch as a Constant node. */
static bool
add_initializer(struct inliner *in, const struct scope *s, Onnx__TensorProto *t)
{
	Onnx__NodeProto *p = NEW(in->a, Onnx__NodeProto);
	Onnx__AttributeProto *at = NEW(in->a, Onnx__AttributeProto);

	onnx__attribute_proto__init(at);
	at->name = str_dup(in->a, STR("value"));
	at->has_type = 1;
	at->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
	at->t = t;
	onnx__node_proto__init(p);
	p->op_type = str_dup(in->a, STR("Constant"));
	p->n_output = 1;
	p->output = NEW(in->a, char *);
	p->output[0] = t->name ? t->name : str_dup(in->a, STR(""));
	p->n_attribute = 1;
	p->attribute = NEW(in->a, Onnx__AttributeProto *);
	p->attribute[0] = at;
	struct flat_node flat = flatten_node(in, s, p);
	return add_node(in, &flat);
}

static const Onnx__GraphProto *
branch_of(const Onnx__NodeProto *p, const char *name)
{
	for (size_t i = 0; i < p->n_attribute; i++)
		if (strcmp(or_empty(p->attribute[i]->name), name) == 0)
			return p->attribute[i]->g;
	return NULL;
}

/* The nodes of one branch; results[] receives the names of what it gives. */
static bool
expand_branch(struct inliner *in, const struct scope *s, const struct flat_node *node, const char *which,
    const char **results)
{
	const Onnx__GraphProto *g = branch_of(node->p, which);
	struct scope b = {.parent = s, .call = s->call, .opset = s->opset, .depth = s->depth + 1};

	if (!g || g->n_input > 0 || g->n_sparse_initializer > 0 || g->n_output != node->p->n_output)
		return err_set(in->e, ERR_MODEL,
		    "node '%s' (If): its %s must be a graph without inputs and with %zu outputs", node->name,
		    which, node->p->n_output);
	if (b.depth > MAX_CALL_DEPTH || ++in->n_calls > in->lim->max_nodes)
		return err_set(
		    in->e, ERR_LIMIT, "node '%s' (If): too many branches within each other", node->name);
	b.prefix = arena_printf(in->a, "%s.%u", node->name, in->n_calls);
	declare_names(in, &b, g);
	in->n_branches++;
	for (size_t i = 0; i < g->n_initializer; i++)
		if (!add_initializer(in, &b, g->initializer[i]))
			return false;
	if (!expand(in, &b, g->node, g->n_node))
		return false;
	in->n_branches--;
	for (size_t i = 0; i < g->n_output; i++)
		results[i] = map_name(in, &b, g->output[i]->name);
	return true;
}

/* If(condition, results of then_branch, results of else_branch) */
static bool
expand_if(struct inliner *in, const struct scope *s, struct flat_node *node)
{
	Onnx__NodeProto *p = arena_dup(in->a, node->p, sizeof(*p));
	size_t n = p->n_output;
	const char **ins = NEW_ARRAY(in->a, const char *, 1 + 2 * n);

	if (p->n_input != 1)
		return err_set(in->e, ERR_MODEL, "node '%s' (If): it has %zu operands; one is needed",
		    node->name, p->n_input);
	ins[0] = node->in[0];
	if (!expand_branch(in, s, node, "then_branch", ins + 1) ||
	    !expand_branch(in, s, node, "else_branch", ins + 1 + n))
		return false;
	p->n_input = 1 + 2 * n;
	node->p = p;
	node->in = ins;
	node->n_attr = 0;
	return add_node(in, node);
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
		bool is_if = is_known && strcmp(nodes[i]->op_type, "If") == 0;
		if (is_if ? !expand_if(in, s, &flat) : !add_node(in, &flat))
			return false;
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
