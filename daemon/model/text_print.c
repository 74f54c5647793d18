/* daemon/model/text_print.c: an operator graph as text (the form is told in text.c), for dumps.  What decides
 * shapes stands by value (integers of up to 4,096 elements, floats of up to 16); of all else, the weights, a
 * seed that is equal for equal values. */
#include "model_int.h"

#include <inttypes.h>
#include <string.h>

/* A word that the reader takes for one: `extra` are bytes that would mean something where it stands. */
static void
put_word(struct strbuf *sb, const char *name, const char *extra)
{
	bool is_taken = strcmp(name, "_") == 0 || strcmp(name, "->") == 0 || name[0] == '!' || name[0] == '#';

	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		if (*c <= 32 || *c == 127 || *c == '\\' || *c == '=' || strchr(extra, *c) ||
		    (is_taken && c == (const unsigned char *)name))
			sb_addf(sb, "\\x%02x", *c);
		else
			sb_addc(sb, (char)*c);
	}
}

static void
put_type(struct strbuf *sb, const struct model_value *v)
{
	sb_addf(sb, "%s[", dtype_name(v->type));
	for (int i = 0; i < v->shape.rank; i++) {
		if (i)
			sb_addc(sb, ',');
		if (v->shape.dim[i] >= 0)
			sb_addi(sb, v->shape.dim[i]);
		else if (v->dim_param[i])
			put_word(sb, v->dim_param[i], ",]");
		else
			sb_addc(sb, '?');
	}
	sb_addz(sb, v->has_shape ? "]" : "*]");
}

static void
put_float(struct strbuf *sb, double v, int digits)
{
	size_t from = sb->n;

	sb_addf(sb, "%.*g", digits, v);
	if (strspn(sb->p + from, "-0123456789") == sb->n - from)
		sb_addz(sb, ".0");
}

static void
put_element(struct strbuf *sb, enum dtype t, const void *data, int64_t i)
{
	if (dtype_is_float(t))
		put_float(sb, elem_get(t, data, i), t == DT_f64 ? 17 : 9);
	else if (t == DT_u64)
		sb_addf(sb, "%" PRIu64, (uint64_t)elem_get_int(t, data, i));
	else
		sb_addi(sb, elem_get_int(t, data, i));
}

static void
put_values(struct strbuf *sb, const struct model_tensor *x, char separator)
{
	int64_t n = shape_count(&x->shape);

	for (int64_t i = 0; i < n; i++) {
		if (i)
			sb_addc(sb, separator);
		put_element(sb, x->type, x->data, i);
	}
}

static bool
stands_by_value(const struct model_tensor *x)
{
	return shape_count(&x->shape) <= (dtype_is_float(x->type) ? 16 : SPEC_MAX_CONST);
}

static void
put_seed(struct strbuf *sb, const struct model_tensor *x)
{
	sb_addf(sb, "~%016" PRIx64, hash64(x->data, x->n_bytes, 0));
}

static void
put_const(struct strbuf *sb, const struct model_value *v)
{
	bool by_value = stands_by_value(v->init);

	sb_addz(sb, by_value ? "const " : "weight ");
	put_word(sb, v->name, "");
	sb_addf(sb, " %s", dtype_name(v->init->type));
	shape_print(sb, &v->init->shape);
	sb_addz(sb, by_value ? " = " : " ");
	if (by_value)
		put_values(sb, v->init, ' ');
	else
		put_seed(sb, v->init);
	sb_addc(sb, '\n');
}

static void
put_string(struct strbuf *sb, struct str s, const char *extra)
{
	sb_addc(sb, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c <= 32 || c == 127 || c == '\\' || c == '"' || strchr(extra, c))
			sb_addf(sb, "\\x%02x", c);
		else
			sb_addc(sb, (char)c);
	}
	sb_addc(sb, '"');
}

static void
put_list(struct strbuf *sb, const struct model_attr *at)
{
	sb_addc(sb, '[');
	for (uint32_t i = 0; i < at->n; i++) {
		if (i)
			sb_addc(sb, ',');
		if (at->kind == MATTR_INTS)
			sb_addi(sb, at->ints[i]);
		else if (at->kind == MATTR_FLOATS)
			put_float(sb, (double)at->floats[i], 9);
		else
			put_string(sb, at->strings[i], ",");
	}
	sb_addc(sb, ']');
}

static void
put_tensor(struct strbuf *sb, const struct model_tensor *x)
{
	sb_addz(sb, dtype_name(x->type));
	shape_print(sb, &x->shape);
	sb_addc(sb, '{');
	if (stands_by_value(x))
		put_values(sb, x, ',');
	else
		put_seed(sb, x);
	sb_addc(sb, '}');
}

static void
put_attr(struct strbuf *sb, const struct model_attr *at)
{
	sb_addc(sb, ' ');
	put_word(sb, at->name, "");
	sb_addc(sb, '=');
	switch (at->kind) {
	case MATTR_INT:
		sb_addi(sb, at->i);
		return;
	case MATTR_FLOAT:
		put_float(sb, (double)at->f, 9);
		return;
	case MATTR_STRING:
		put_string(sb, at->s, "");
		return;
	case MATTR_TENSOR:
		put_tensor(sb, at->t);
		return;
	case MATTR_INTS:
	case MATTR_FLOATS:
	case MATTR_STRINGS:
		put_list(sb, at);
		return;
	case MATTR_OTHER:
		sb_addc(sb, '?');
		return;
	}
}

static void
put_values_of(struct strbuf *sb, const struct model *m, const uint32_t *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		sb_addc(sb, ' ');
		if (v[i] == NO_VALUE)
			sb_addc(sb, '_');
		else
			put_word(sb, m->values[v[i]].name, "");
	}
}

static void
put_node(struct strbuf *sb, const struct model *m, const struct model_node *n)
{
	sb_addz(sb, n->is_conditional ? "branch " : "node ");
	if (n->domain[0]) {
		put_word(sb, n->domain, ":@");
		sb_addc(sb, ':');
	}
	put_word(sb, n->op, ":@");
	if (n->opset != m->opset)
		sb_addf(sb, "@%d", n->opset);
	put_values_of(sb, m, n->in, n->n_in);
	sb_addz(sb, " ->");
	put_values_of(sb, m, n->out, n->n_out);
	for (uint32_t i = 0; i < n->n_attr; i++)
		put_attr(sb, &n->attr[i]);
	sb_addz(sb, " !");
	put_word(sb, n->name, "");
	sb_addc(sb, '\n');
}

void
model_text_print(struct strbuf *sb, const struct model *m)
{
	sb_addf(sb, "model opset=%d\n", m->opset);
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];

		sb_addz(sb, "in ");
		put_word(sb, v->name, "");
		sb_addc(sb, ' ');
		put_type(sb, v);
		sb_addc(sb, '\n');
	}
	for (uint32_t i = 0; i < m->n_values; i++)
		if (m->values[i].init)
			put_const(sb, &m->values[i]);
	for (uint32_t i = 0; i < m->n_nodes; i++)
		put_node(sb, m, &m->nodes[i]);
	sb_addz(sb, "out");
	put_values_of(sb, m, m->outputs, m->n_outputs);
	sb_addc(sb, '\n');
}
