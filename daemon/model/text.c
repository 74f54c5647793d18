/* daemon/model/text.c: an operator graph as text, read: for golden files and dumps (text_print.c writes).
 *
 *   model opset=13
 *   in x f32[2,3,?]              an open dimension is '?', a named one its name; [*]: no shape is given
 *   const w f32[3] = 1 2 3       one value fills all; none: 0, 1, 2 ...
 *   weight w f32[64,3,7,7] ~9f0c  its values are not here: some are made up of the digits
 *   node Softmax x _ -> y axis=1 mode="a" axes=[0,1] alpha=0.5 value=f32[2]{1,2} !name
 *   node com.example:Op@13 ...   of another domain, of another opset
 *   branch Relu x -> z           a node inside a branch of an If
 *   out y
 *
 * One item a line, words separated by blanks, '#' begins a comment line, '_' is an operand that
 * is left out.  A number with '.', 'e', "inf" or "nan" is a float.  "\x20" in a word is that byte. */
#include "model_int.h"
#include "../../kernels/interp/interp.h"

#include <string.h>

enum { MAX_ELEMENTS = 1 << 24 };

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

static int
hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A word as it is meant: "\x20" is a blank. */
static char *
meant(struct text *t, struct str word)
{
	char *out = arena_alloc(t->a, word.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < word.n; i++) {
		bool is_escape = word.p[i] == '\\' && word.n - i >= 4 && word.p[i + 1] == 'x' &&
		    hex_digit(word.p[i + 2]) >= 0 && hex_digit(word.p[i + 3]) >= 0;

		out[n++] =
		    is_escape ? (char)(hex_digit(word.p[i + 2]) * 16 + hex_digit(word.p[i + 3])) : word.p[i];
		i += is_escape ? 3 : 0;
	}
	return out;
}

static uint32_t
value_of(struct text *t, struct str name)
{
	const char *own = meant(t, name);
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
	v->has_type = true;
	v->has_shape = !str_is(dims, "*");
	while (dims.n > 0 && v->has_shape) {
		struct str d = str_cut(&dims, ',');
		if (v->shape.rank == MAX_RANK)
			return bad(t, "too many dimensions", word);
		int i = v->shape.rank++;
		if (!str_to_i64(d, &v->shape.dim[i])) {
			v->shape.dim[i] = -1;
			v->dim_param[i] = str_is(d, "?") ? NULL : meant(t, d);
		}
	}
	return true;
}

static struct model_tensor *
new_tensor(struct text *t, const struct model_value *v, size_t max_bytes)
{
	struct model_tensor *x = NEW(t->a, struct model_tensor);

	*x = (struct model_tensor){.type = v->type, .shape = v->shape};
	if (!v->has_shape || !shape_bytes(&v->shape, v->type, &x->n_bytes) || x->n_bytes > max_bytes)
		return NULL;
	x->data = arena_alloc(t->a, x->n_bytes);
	return x;
}

/* Positive and near 1, so that nothing vanishes, divides by zero or looks neutral. */
static bool
make_up(struct text *t, struct model_tensor *x, struct str seed)
{
	int64_t n = shape_count(&x->shape);
	struct rng rng = {0};

	for (size_t i = 1; i < seed.n; i++) {
		if (hex_digit(seed.p[i]) < 0)
			return bad(t, "no seed", seed);
		rng.s = rng.s << 4 | (uint64_t)hex_digit(seed.p[i]);
	}
	for (int64_t i = 0; i < n; i++)
		elem_set(x->type, (void *)(uintptr_t)x->data, i,
		    dtype_is_float(x->type) ? 0.5 + rng_unit(&rng) : 1 + rng_below(&rng, 3));
	return true;
}

static bool
fill(struct text *t, struct model_tensor *x, struct str values, char separator)
{
	int64_t n = shape_count(&x->shape), i = 0, whole;
	void *data = (void *)(uintptr_t)x->data;
	double v = 0;

	if (str_starts(values, "~"))
		return make_up(t, x, values);
	for (values = str_trim(values); values.n > 0; i++, values = str_trim(values)) {
		struct str word = str_cut(&values, separator);
		if (i >= n || !str_to_f64(word, &v))
			return bad(t, "no value, or one too many", word);
		if (!dtype_is_float(x->type) && str_to_i64(word, &whole))
			elem_set_int(x->type, data, i, whole);
		else
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
	rest = str_trim(rest);
	struct model_tensor *x =
	    new_tensor(t, v, str_starts(rest, "~") ? t->m->max_tensor_bytes : (size_t)MAX_ELEMENTS);
	if (!x)
		return bad(t, "the shape is open or too large", type);
	v->init = x;
	if (str_starts(rest, "~"))
		return fill(t, x, rest, ' ');
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

/* How many words `s` has, at most. */
static size_t
count_of(struct str s, char separator)
{
	size_t n = 1;

	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == separator;
	return n;
}

static struct str
unquoted(struct text *t, struct str word)
{
	return word.n >= 2 ? str_of(meant(t, (struct str){word.p + 1, word.n - 2})) : STR("");
}

static bool
read_strings(struct text *t, struct str body, struct model_attr *at)
{
	struct str *list = NEW_ARRAY(t->a, struct str, count_of(body, ','));

	at->kind = MATTR_STRINGS;
	while (body.n > 0)
		list[at->n++] = unquoted(t, str_cut(&body, ','));
	at->strings = list;
	return true;
}

static bool
read_list(struct text *t, struct str body, struct model_attr *at)
{
	size_t cap = count_of(body, ',');
	int64_t *ints = NEW_ARRAY(t->a, int64_t, cap);
	float *floats = NEW_ARRAY(t->a, float, cap);
	double v;

	if (body.n && body.p[0] == '"')
		return read_strings(t, body, at);
	at->kind = is_float_word(body) ? MATTR_FLOATS : MATTR_INTS;
	while (body.n > 0) {
		struct str word = str_cut(&body, ',');
		if (!str_to_f64(word, &v))
			return bad(t, "no number", word);
		floats[at->n] = (float)v;
		if (at->kind == MATTR_INTS && !str_to_i64(word, &ints[at->n]))
			return bad(t, "no whole number", word);
		at->n++;
	}
	at->ints = ints;
	at->floats = floats;
	return true;
}

static bool
read_tensor_attr(struct text *t, struct str word, struct str v, struct model_attr *at)
{
	struct model_value type = {0};
	struct str values;

	if (!read_type(t, v, &type, &v))
		return bad(t, "no attribute", word);
	if (v.n < 2)
		return bad(t, "no tensor", word);
	values = (struct str){v.p + 1, v.n - 2};
	struct model_tensor *x =
	    new_tensor(t, &type, str_starts(values, "~") ? t->m->max_tensor_bytes : (size_t)MAX_ELEMENTS);
	if (!x)
		return bad(t, "no tensor", word);
	at->kind = MATTR_TENSOR;
	at->t = x;
	return fill(t, x, values, ',');
}

static bool
read_attr(struct text *t, struct str word, struct model_attr *at)
{
	struct str v = word;
	double f;

	at->name = meant(t, str_cut(&v, '='));
	if (str_is(v, "?")) {
		at->kind = MATTR_OTHER;
		return true;
	}
	if (v.n >= 2 && v.p[0] == '"') {
		at->kind = MATTR_STRING;
		at->s = unquoted(t, v);
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
	return read_tensor_attr(t, word, v, at);
}

/* "Conv", "com.example:Op", "Conv@11" */
static bool
read_op(struct text *t, struct str word, struct model_node *n)
{
	const char *at = memrchr(word.p, '@', word.n), *colon;
	struct str op = {word.p, at ? (size_t)(at - word.p) : word.n}, number;
	int64_t opset = t->m->opset;

	number = at ? (struct str){at + 1, word.n - op.n - 1} : STR("");
	if (at && (!str_to_i64(number, &opset) || opset < 1 || opset > MODEL_MAX_OPSET))
		return bad(t, "no opset that is supported", number);
	colon = memchr(op.p, ':', op.n);
	n->opset = (int)opset;
	n->domain = colon ? meant(t, (struct str){op.p, (size_t)(colon - op.p)}) : "";
	n->op = meant(t, colon ? (struct str){colon + 1, op.n - (size_t)(colon + 1 - op.p)} : op);
	return true;
}

static bool
read_node(struct text *t, struct str rest)
{
	size_t cap = count_of(rest, ' ');
	uint32_t *in = NEW_ARRAY(t->a, uint32_t, cap), *out = NEW_ARRAY(t->a, uint32_t, cap);
	struct model_attr *at = NEW_ARRAY(t->a, struct model_attr, cap);
	struct model_node n = {.in = in, .out = out, .attr = at};
	bool behind = false;

	if (!read_op(t, next_word(&rest), &n))
		return false;
	n.name = arena_printf(t->a, "%s_%u", n.op, t->m->n_nodes);
	for (rest = str_trim(rest); rest.n > 0; rest = str_trim(rest)) {
		struct str word = str_cut(&rest, ' ');
		if (str_is(word, "->"))
			behind = true;
		else if (word.p[0] == '!') {
			n.name = meant(t, (struct str){word.p + 1, word.n - 1});
		} else if (memchr(word.p, '=', word.n)) {
			if (!read_attr(t, word, &at[n.n_attr++]))
				return false;
		} else if (behind)
			out[n.n_out++] = str_is(word, "_") ? NO_VALUE : value_of(t, word);
		else
			in[n.n_in++] = str_is(word, "_") ? NO_VALUE : value_of(t, word);
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
	if (str_is(word, "in") || str_is(word, "const") || str_is(word, "weight"))
		return read_value(t, rest, !str_is(word, "in"));
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
