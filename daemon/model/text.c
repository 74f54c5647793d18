/* daemon/model/text.c: an operator graph as text, for golden files.
 *
 *   model opset=13
 *   in x f32[2,3,?]              an open dimension is '?', a named one its name
 *   const w f32[3] = 1 2 3       one value fills all; none: 0, 1, 2 ...
 *   node Softmax x _ -> y axis=1 mode="a" axes=[0,1] alpha=0.5 value=f32[2]{1,2}
 *   branch Relu x -> z           a node inside a branch of an If
 *   node com.microsoft:Gelu z -> g
 *   out y
 *
 * One item a line, words separated by blanks, '#' begins a comment line, '_' is an operand that
 * is left out.  A number with '.', 'e', "inf" or "nan" is a float. */
#include "model_int.h"
#include "../../kernels/interp/interp.h"

#include <string.h>

enum { MAX_WORDS = 64, MAX_ELEMENTS = 1 << 24 };

struct text {
	struct arena *a;
	struct model *m;
	struct name_table names;
	uint32_t cap_values, cap_nodes, cap_in, cap_out;
	uint32_t *in, *out;
	uint32_t line;
	struct err *e;
};

static bool
bad(struct text *t, const char *why, struct str word)
{
	return err_set(t->e, ERR_FORMAT, "line %u: %s: '%.*s'", t->line, why, STR_ARG(word));
}

static struct str
next_word(struct str *rest)
{
	*rest = str_trim(*rest);
	return str_cut(rest, ' ');
}

static uint32_t
value_of(struct text *t, struct str name)
{
	const char *own = str_dup(t->a, name);
	uint32_t v;

	if (names_find(&t->names, own, &v))
		return v;
	v = t->m->n_values++;
	GROW(t->a, t->m->values, v, t->cap_values);
	t->m->values[v] = (struct model_value){.name = own};
	if (!names_add(&t->names, own, v))
		bug("name '%s' was just absent", own);
	return v;
}

/* "f32[2,?,n]"; *rest is what follows the bracket. */
static bool
read_type(struct text *t, struct str word, struct model_value *v, struct str *rest)
{
	struct str body = word, type = str_cut(&body, '['), dims = str_cut(&body, ']');

	if (!dtype_of_name(type, &v->type))
		return bad(t, "no type", word);
	*rest = body;
	v->has_type = v->has_shape = true;
	while (dims.n > 0) {
		struct str d = str_cut(&dims, ',');
		if (v->shape.rank == MAX_RANK)
			return bad(t, "too many dimensions", word);
		int i = v->shape.rank++;
		if (!str_to_i64(d, &v->shape.dim[i])) {
			v->shape.dim[i] = -1;
			v->dim_param[i] = str_is(d, "?") ? NULL : str_dup(t->a, d);
		}
	}
	return true;
}

static struct model_tensor *
new_tensor(struct text *t, const struct model_value *v)
{
	struct model_tensor *x = NEW(t->a, struct model_tensor);

	*x = (struct model_tensor){.type = v->type, .shape = v->shape};
	if (!shape_bytes(&v->shape, v->type, &x->n_bytes) || x->n_bytes > MAX_ELEMENTS)
		return NULL;
	x->data = arena_alloc(t->a, x->n_bytes);
	return x;
}

static bool
fill(struct text *t, struct model_tensor *x, struct str values, char separator)
{
	int64_t n = shape_count(&x->shape), i = 0;
	void *data = (void *)(uintptr_t)x->data;
	double v = 0;

	for (values = str_trim(values); values.n > 0; i++, values = str_trim(values)) {
		struct str word = str_cut(&values, separator);
		if (i >= n || !str_to_f64(word, &v))
			return bad(t, "no value, or one too many", word);
		elem_set(x->type, data, i, v);
	}
	if (i > 1 && i < n)
		return bad(t, "too few values", values);
	for (bool is_same = i == 1; i < n; i++)
		elem_set(x->type, data, i, is_same ? v : (double)i);
	return true;
}

static bool
read_value(struct text *t, struct str rest, bool is_const)
{
	struct str name = next_word(&rest), type = next_word(&rest), tail;
	uint32_t i = value_of(t, name);
	struct model_value *v = &t->m->values[i];

	if (v->has_type)
		return bad(t, "declared twice", name);
	if (!read_type(t, type, v, &tail))
		return false;
	if (!is_const) {
		GROW(t->a, t->in, t->m->n_inputs, t->cap_in);
		t->in[t->m->n_inputs++] = i;
		return true;
	}
	struct model_tensor *x = new_tensor(t, v);
	if (!x)
		return bad(t, "the shape is open or too large", type);
	v->init = x;
	if (str_is(next_word(&rest), "="))
		return fill(t, x, rest, ' ');
	return fill(t, x, (struct str){"", 0}, ' ');
}

static bool
is_float_word(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '.' || s.p[i] == 'e' || s.p[i] == 'n')
			return true;
	return false;
}

static bool
read_list(struct text *t, struct str body, struct model_attr *at)
{
	double v[MAX_WORDS];
	int64_t *ints = NEW_ARRAY(t->a, int64_t, MAX_WORDS);
	float *floats = NEW_ARRAY(t->a, float, MAX_WORDS);

	at->kind = is_float_word(body) ? MATTR_FLOATS : MATTR_INTS;
	while (body.n > 0) {
		struct str word = str_cut(&body, ',');
		if (at->n == MAX_WORDS || !str_to_f64(word, &v[at->n]))
			return bad(t, "no number", word);
		floats[at->n] = (float)v[at->n];
		ints[at->n] = at->kind == MATTR_INTS ? (int64_t)v[at->n] : 0;
		at->n++;
	}
	at->ints = ints;
	at->floats = floats;
	return true;
}

static bool
read_attr(struct text *t, struct str word, struct model_attr *at)
{
	struct str v = word;
	struct model_value type = {0};
	double f;

	at->name = str_dup(t->a, str_cut(&v, '='));
	if (v.n >= 2 && v.p[0] == '"') {
		at->kind = MATTR_STRING;
		at->s = str_of(str_dup(t->a, (struct str){v.p + 1, v.n - 2}));
		return true;
	}
	if (v.n >= 2 && v.p[0] == '[')
		return read_list(t, (struct str){v.p + 1, v.n - 2}, at);
	if (str_to_i64(v, &at->i)) {
		at->kind = MATTR_INT;
		return true;
	}
	if (str_to_f64(v, &f)) {
		at->kind = MATTR_FLOAT;
		at->f = (float)f;
		return true;
	}
	if (!read_type(t, v, &type, &v))
		return bad(t, "no attribute", word);
	struct model_tensor *x = new_tensor(t, &type);
	if (!x || v.n < 2)
		return bad(t, "no tensor", word);
	at->kind = MATTR_TENSOR;
	at->t = x;
	return fill(t, x, (struct str){v.p + 1, v.n - 2}, ',');
}

static bool
read_node(struct text *t, struct str rest)
{
	uint32_t *io = NEW_ARRAY(t->a, uint32_t, 2 * MAX_WORDS);
	struct model_attr *at = NEW_ARRAY(t->a, struct model_attr, MAX_WORDS);
	struct model_node n = {.opset = t->m->opset, .in = io, .out = io + MAX_WORDS, .attr = at};
	bool behind = false;

	struct str op = next_word(&rest), domain = {"", 0};
	if (memchr(op.p, ':', op.n))
		domain = str_cut(&op, ':');
	n.op = str_dup(t->a, op);
	n.domain = str_dup(t->a, domain);
	n.name = arena_printf(t->a, "%s_%u", n.op, t->m->n_nodes);
	for (rest = str_trim(rest); rest.n > 0; rest = str_trim(rest)) {
		struct str word = str_cut(&rest, ' ');
		if (n.n_in == MAX_WORDS || n.n_out == MAX_WORDS || n.n_attr == MAX_WORDS)
			return bad(t, "too many words", word);
		if (str_is(word, "->"))
			behind = true;
		else if (memchr(word.p, '=', word.n)) {
			if (!read_attr(t, word, &at[n.n_attr++]))
				return false;
		} else if (behind)
			io[MAX_WORDS + n.n_out++] = str_is(word, "_") ? NO_VALUE : value_of(t, word);
		else
			io[n.n_in++] = str_is(word, "_") ? NO_VALUE : value_of(t, word);
	}
	GROW(t->a, t->m->nodes, t->m->n_nodes, t->cap_nodes);
	t->m->nodes[t->m->n_nodes++] = n;
	return true;
}

static bool
read_out(struct text *t, struct str rest)
{
	for (rest = str_trim(rest); rest.n > 0; rest = str_trim(rest)) {
		GROW(t->a, t->out, t->m->n_outputs, t->cap_out);
		t->out[t->m->n_outputs++] = value_of(t, next_word(&rest));
	}
	return true;
}

static bool
read_line(struct text *t, struct str line)
{
	struct str rest = str_trim(line), word = next_word(&rest), number;
	int64_t opset;

	if (word.n == 0 || word.p[0] == '#')
		return true;
	if (str_is(word, "model")) {
		number = next_word(&rest);
		if (!str_starts(number, "opset="))
			return bad(t, "no opset", number);
		number = (struct str){number.p + 6, number.n - 6};
		if (!str_to_i64(number, &opset) || opset < MODEL_MIN_OPSET || opset > MODEL_MAX_OPSET)
			return bad(t, "no opset that is supported", number);
		t->m->opset = (int)opset;
		return true;
	}
	if (str_is(word, "in") || str_is(word, "const"))
		return read_value(t, rest, str_is(word, "const"));
	if (str_is(word, "node"))
		return read_node(t, rest);
	if (str_is(word, "branch")) {
		if (!read_node(t, rest))
			return false;
		t->m->nodes[t->m->n_nodes - 1].is_conditional = true;
		return true;
	}
	return str_is(word, "out") ? read_out(t, rest) : bad(t, "no item", word);
}

/* Every value is made exactly once. */
static bool
check(struct text *t)
{
	uint8_t *made = NEW_ARRAY(t->a, uint8_t, t->m->n_values);

	for (uint32_t i = 0; i < t->m->n_values; i++)
		made[i] = t->m->values[i].has_type;
	for (uint32_t i = 0; i < t->m->n_nodes; i++)
		for (uint32_t k = 0; k < t->m->nodes[i].n_out; k++) {
			uint32_t v = t->m->nodes[i].out[k];
			if (v != NO_VALUE && made[v]++)
				return err_set(t->e, ERR_FORMAT, "'%s' is made twice", t->m->values[v].name);
		}
	for (uint32_t i = 0; i < t->m->n_values; i++)
		if (!made[i])
			return err_set(t->e, ERR_FORMAT, "'%s' is never made", t->m->values[i].name);
	return t->m->opset > 0 ? true : err_set(t->e, ERR_FORMAT, "no line 'model opset=N'");
}

bool
model_text_read(struct arena *a, struct str text, const char *file, struct model *out, struct err *e)
{
	struct text t = {.a = a, .m = out, .e = e};

	*out = (struct model){.arena = a,
	    .file = str_dup(a, str_of(file)),
	    .max_tensor_bytes = model_limits_default.max_tensor_bytes};
	names_init(&t.names, a);
	while (text.n > 0) {
		t.line++;
		if (!read_line(&t, str_cut(&text, '\n')))
			return err_in(e, "%s", file);
	}
	out->inputs = t.in;
	out->outputs = t.out;
	return check(&t) ? order_nodes(a, out, e) : err_in(e, "%s", file);
}
