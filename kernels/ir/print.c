/* kernels/ir/print.c: the text form, outward.  Lines come in the order of tensor ids, so that
 * reading gives the same ids back. */
#include "ir_int.h"

#include <inttypes.h>

bool
attr_is_extent(enum attr_key key)
{
	return key == ATTR_shape || key == ATTR_start || key == ATTR_k;
}

static void
print_name(struct strbuf *sb, const char *name)
{
	if (!name)
		return;
	sb_addz(sb, " \"");
	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		if (*c == '"' || *c == '\\' || *c < 32 || *c == 127)
			sb_addf(sb, "\\x%02x", *c);
		else
			sb_addc(sb, (char)*c);
	}
	sb_addc(sb, '"');
}

static void
print_real(struct strbuf *sb, double v)
{
	if (v != v)
		sb_addz(sb, "nan"); /* payload and sign of a NaN mean nothing */
	else
		sb_adda(sb, v);
}

static void
print_type(struct strbuf *sb, const struct tensor *t, bool with_extents)
{
	sb_addc(sb, ' ');
	sb_addz(sb, dtype_name(t->type));
	if (with_extents) {
		shape_print(sb, &t->shape);
	} else {
		sb_addc(sb, '/');
		sb_addi(sb, t->shape.rank);
	}
}

static void
print_elements(struct strbuf *sb, const struct tensor *t)
{
	int64_t n = shape_count(&t->shape);

	for (int64_t i = 0; i < n; i++) {
		sb_addc(sb, ' ');
		if (dtype_is_float(t->type))
			print_real(sb, elem_get(t->type, t->data, i));
		else if (t->type == DT_u64)
			sb_addf(sb, "%" PRIu64, (uint64_t)elem_get_int(t->type, t->data, i));
		else
			sb_addi(sb, elem_get_int(t->type, t->data, i));
	}
}

static void
print_number(struct strbuf *sb, uint32_t t)
{
	sb_addc(sb, '%');
	sb_addi(sb, t);
}

/* What stands for the values of a weight in a dump: equal values, equal seeds. */
static void
print_seed(struct strbuf *sb, const struct tensor *t)
{
	size_t n;

	if (t->data && shape_bytes(&t->shape, t->type, &n))
		sb_addf(sb, " ~%016" PRIx64, hash64(t->data, n, 0));
}

static void
print_leaf(struct strbuf *sb, const struct graph *g, uint32_t i, enum graph_form form)
{
	const struct tensor *t = &g->tensors[i];
	bool with_extents = form != FORM_STRUCTURE;
	/* A table too long to print is shown like a weight: by shape. */
	bool by_value = t->role == ROLE_CONST && shape_count(&t->shape) <= SPEC_MAX_CONST;

	print_number(sb, i);
	sb_addz(sb, t->role == ROLE_INPUT ? " = input" : by_value ? " = const" : " = weight");
	print_type(sb, t, with_extents);
	if (by_value && with_extents)
		print_elements(sb, t);
	print_name(sb, t->name);
	if (form == FORM_DUMP && t->role != ROLE_INPUT && !by_value)
		print_seed(sb, t);
	sb_addc(sb, '\n');
}

static void
print_attr(struct strbuf *sb, const struct attr *a, bool with_extents)
{
	sb_addc(sb, ' ');
	sb_addz(sb, attr_name(a->key));
	sb_addc(sb, '=');
	if (!with_extents && attr_is_extent(a->key)) {
		sb_addc(sb, '?');
		return;
	}
	switch (attr_kind_of(a->key)) {
	case ATTR_REAL:
		print_real(sb, a->real);
		return;
	case ATTR_INT:
		if (a->key == ATTR_to)
			sb_addz(sb, dtype_name((enum dtype)a->i[0]));
		else
			sb_addi(sb, a->i[0]);
		return;
	case ATTR_LIST:
		sb_addc(sb, '[');
		for (int i = 0; i < a->n; i++) {
			if (i)
				sb_addc(sb, ',');
			sb_addi(sb, a->i[i]);
		}
		sb_addc(sb, ']');
		return;
	}
}

static void
print_node(struct strbuf *sb, const struct graph *g, const struct node *n, enum graph_form form)
{
	bool with_extents = form != FORM_STRUCTURE;

	for (uint32_t k = 0; k < n->n_out; k++) {
		if (k)
			sb_addc(sb, ' ');
		print_number(sb, n->out[k].i);
	}
	sb_addz(sb, " = ");
	sb_addz(sb, prim_info[n->prim].name);
	for (uint32_t k = 0; k < n->n_in; k++) {
		sb_addc(sb, ' ');
		print_number(sb, n->in[k].i);
	}
	for (int k = 0; k < n->at.n; k++)
		print_attr(sb, &n->at.a[k], with_extents);
	sb_addz(sb, n->num == NUM_REASSOC ? " !reassoc" : n->num == NUM_PRECISION ? " !precision" : "");
	sb_addz(sb, " :");
	for (uint32_t k = 0; k < n->n_out; k++)
		print_type(sb, graph_tensor(g, n->out[k]), with_extents);
	if ((form == FORM_ORIGINS || form == FORM_DUMP) && n->origin != NO_NODE)
		sb_addf(sb, " @%u", n->origin);
	sb_addc(sb, '\n');
}

/* Prints leaves up to, not with, tensor `end`; *at is the next tensor to look at. */
static void
print_leaves(struct strbuf *sb, const struct graph *g, uint32_t *at, uint32_t end, enum graph_form form)
{
	for (; *at < end; ++*at)
		if (g->tensors[*at].role != ROLE_INNER)
			print_leaf(sb, g, *at, form);
}

void
graph_print_form(struct strbuf *sb, const struct graph *g, enum graph_form form)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		uint32_t end = n->out[0].i;

		for (uint32_t k = 0; k < n->n_in; k++)
			end = MAX_OF(end, n->in[k].i + 1);
		print_leaves(sb, g, &at, end, form);
		print_node(sb, g, n, form);
	}
	print_leaves(sb, g, &at, g->n_tensors, form);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		sb_addz(sb, "output ");
		print_number(sb, g->outputs[i].i);
		print_name(sb, g->output_names[i]);
		sb_addc(sb, '\n');
	}
}

void
graph_print(struct strbuf *sb, const struct graph *g)
{
	graph_print_form(sb, g, FORM_PLAIN);
}

void
graph_print_origins(struct strbuf *sb, const struct graph *g)
{
	graph_print_form(sb, g, FORM_ORIGINS);
}

void
graph_print_dump(struct strbuf *sb, const struct graph *g)
{
	graph_print_form(sb, g, FORM_DUMP);
}
