/* kernels/ir/read.c: the text form, inward.  Text comes from outside (specs travel as text): every
 * number, size and reference is checked, and an error names its line. */
#include "ir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER = 1 << 20 };
static const size_t MAX_FILL = (size_t)4 << 30;

struct reader {
	struct graph *g;
	struct arena *a;
	struct err *e;
	struct str line; /* what is left of the line */
	uint32_t *id;    /* by number in the text: tensor + 1; 0 where undefined */
	uint32_t n_id;
	bool is_dump;     /* what graph_print_dump adds is read too */
	bool has_origins; /* ONNX nodes behind primitives are */
	size_t fill_left; /* bytes that may be made up for weights */
};

static bool
is_space(char c)
{
	return c == ' ' || c == '\t';
}

static void
skip_space(struct reader *r)
{
	while (r->line.n && is_space(r->line.p[0])) {
		r->line.p++;
		r->line.n--;
	}
}

/* The next token: up to a blank; "" at the end of the line. */
static struct str
token(struct reader *r)
{
	struct str t;

	skip_space(r);
	t = r->line;
	t.n = 0;
	while (r->line.n && !is_space(r->line.p[0])) {
		r->line.p++;
		r->line.n--;
		t.n++;
	}
	return t;
}

static bool
peek(struct reader *r, char c)
{
	skip_space(r);
	return r->line.n && r->line.p[0] == c;
}

static bool
number_of(struct reader *r, struct str t, uint32_t *out)
{
	int64_t v;

	if (t.n < 2 || t.p[0] != '%' || t.p[1] < '0' || t.p[1] > '9' ||
	    !str_to_i64((struct str){t.p + 1, t.n - 1}, &v) || v >= MAX_NUMBER)
		return err_set(
		    r->e, ERR_FORMAT, "'%.*s' is no tensor; write %%0 to %%%d", STR_ARG(t), MAX_NUMBER - 1);
	*out = (uint32_t)v;
	return true;
}

static void
define(struct reader *r, uint32_t number, tensor_id t)
{
	if (number >= r->n_id) {
		uint32_t n = MAX_OF(number + 1, r->n_id * 2);
		uint32_t *id = NEW_ARRAY(r->a, uint32_t, n);

		if (r->n_id)
			memcpy(id, r->id, r->n_id * sizeof(*id));
		r->id = id;
		r->n_id = n;
	}
	r->id[number] = t.i + 1;
}

static bool
defined(const struct reader *r, uint32_t number)
{
	return number < r->n_id && r->id[number];
}

static bool
read_tensor(struct reader *r, tensor_id *out)
{
	uint32_t number;

	if (!number_of(r, token(r), &number))
		return false;
	if (!defined(r, number))
		return err_set(r->e, ERR_FORMAT, "%%%u is not defined before this line", number);
	*out = (tensor_id){r->id[number] - 1};
	return true;
}

/* "[1,2]" into at most MAX_RANK numbers. */
static bool
read_list(struct reader *r, struct str t, int *n, int64_t *v)
{
	struct str all = t;

	*n = 0;
	if (t.n < 2 || t.p[0] != '[' || t.p[t.n - 1] != ']')
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no list; write [1,2]", STR_ARG(all));
	t = (struct str){t.p + 1, t.n - 2};
	while (t.n) {
		struct str one = str_cut(&t, ',');

		if (*n == MAX_RANK)
			return err_set(r->e, ERR_FORMAT, "a list has more than %d numbers", MAX_RANK);
		if (!str_to_i64(one, &v[(*n)++]))
			return err_set(r->e, ERR_FORMAT, "'%.*s' in a list is no whole number", STR_ARG(one));
		if (!t.n && one.p[one.n] == ',')
			return err_set(r->e, ERR_FORMAT, "'%.*s' ends with a comma", STR_ARG(all));
	}
	return true;
}

/* "f32[2,3]" */
static bool
read_type(struct reader *r, enum dtype *type, struct shape *s)
{
	struct str t = token(r), name = t;
	int64_t dim[MAX_RANK];
	int rank;
	size_t bytes;

	name.n = 0;
	while (name.n < t.n && t.p[name.n] != '[')
		name.n++;
	if (!dtype_of_name(name, type))
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no type; write f32[2,3]", STR_ARG(t));
	if (!read_list(r, (struct str){t.p + name.n, t.n - name.n}, &rank, dim))
		return false;
	*s = shape_make(rank, dim);
	if (!shape_bytes(s, *type, &bytes))
		return err_set(
		    r->e, ERR_FORMAT, "the size of '%.*s' is negative or does not fit", STR_ARG(t));
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* An optional "name" at the end of the line. */
static bool
read_name(struct reader *r, const char **out)
{
	struct strbuf sb;

	*out = NULL;
	if (!peek(r, '"'))
		return true;
	sb_init(&sb, r->a);
	for (size_t i = 1; i < r->line.n; i++) {
		const char *c = r->line.p + i;
		int hi, lo;

		if (*c == '"') {
			r->line = (struct str){c + 1, r->line.n - i - 1};
			*out = sb.p;
			return true;
		}
		if (*c == '\\') {
			if (r->line.n - i < 4 || c[1] != 'x' || (hi = hex_digit(c[2])) < 0 ||
			    (lo = hex_digit(c[3])) < 0 || (hi == 0 && lo == 0))
				break;
			sb_addc(&sb, (char)(hi * 16 + lo));
			i += 3;
		} else {
			sb_addc(&sb, *c);
		}
	}
	return err_set(r->e, ERR_FORMAT, "a name is not closed, or has an escape that is not \\x01 to \\xff");
}

static bool
str_to_u64(struct str s, uint64_t *out)
{
	char buf[24], *end;

	if (s.n == 0 || s.n >= sizeof(buf) || s.p[0] < '0' || s.p[0] > '9')
		return false;
	memcpy(buf, s.p, s.n);
	buf[s.n] = '\0';
	errno = 0;
	*out = strtoull(buf, &end, 10);
	return !errno && end == buf + s.n;
}

static bool
read_element(struct reader *r, enum dtype t, void *data, int64_t i)
{
	struct str s = token(r);
	double f;
	int64_t v;
	uint64_t u;

	if (dtype_is_float(t) && str_to_f64(s, &f)) {
		elem_set(t, data, i, f);
		return true;
	}
	if (t == DT_u64 && str_to_u64(s, &u)) {
		elem_set_int(t, data, i, (int64_t)u);
		return true;
	}
	if (!dtype_is_float(t) && t != DT_u64 && str_to_i64(s, &v)) {
		elem_set_int(t, data, i, v);
		if (elem_get_int(t, data, i) == v)
			return true;
	}
	return err_set(
	    r->e, ERR_FORMAT, "element %lld, '%.*s', is no %s", (long long)i, STR_ARG(s), dtype_name(t));
}

static bool
read_const(struct reader *r, enum dtype t, const struct shape *s, const void **out)
{
	int64_t n = shape_count(s);
	void *data;

	if (n > SPEC_MAX_CONST)
		return err_set(r->e, ERR_FORMAT, "a constant of more than %d elements; make it a weight",
		    SPEC_MAX_CONST);
	*out = data = arena_alloc(r->a, MAX_OF((size_t)n, (size_t)1) * dtype_size(t));
	for (int64_t i = 0; i < n; i++)
		if (!read_element(r, t, data, i))
			return false;
	return true;
}

/* "~SEED" in a dump stands for a weight's values: some are made up of it, positive and near 1, so that
 * nothing vanishes, divides by zero or looks neutral. */
static bool
read_seed(struct reader *r, enum dtype t, const struct shape *s, const void **out)
{
	int64_t n = shape_count(s);
	size_t n_bytes = (size_t)n * dtype_size(t);
	struct rng rng;
	struct str word;
	void *data;
	int digit;

	if (!r->is_dump || !peek(r, '~'))
		return true;
	word = token(r);
	rng = (struct rng){0};
	for (size_t i = 1; i < word.n && (digit = hex_digit(word.p[i])) >= 0; i++)
		rng.s = rng.s << 4 | (uint64_t)digit;
	if (n_bytes > r->fill_left)
		return err_set(r->e, ERR_LIMIT, "weights of more than %zu bytes", MAX_FILL);
	r->fill_left -= n_bytes;
	*out = data = arena_alloc(r->a, MAX_OF(n_bytes, (size_t)1));
	for (int64_t i = 0; i < n; i++)
		elem_set(t, data, i, dtype_is_float(t) ? 0.5 + rng_unit(&rng) : 1 + rng_below(&rng, 3));
	return true;
}

static bool
read_leaf(struct reader *r, struct str kind, uint32_t number)
{
	enum dtype t;
	struct shape s;
	const void *data = NULL;
	const char *name;

	if (defined(r, number))
		return err_set(r->e, ERR_FORMAT, "%%%u is defined already", number);
	if (!read_type(r, &t, &s) || (str_is(kind, "const") && !read_const(r, t, &s, &data)) ||
	    !read_name(r, &name) || (str_is(kind, "weight") && !read_seed(r, t, &s, &data)))
		return false;
	define(r, number,
	    str_is(kind, "input")
		? graph_input(r->g, t, &s, name)
		: graph_const(r->g, str_is(kind, "const") ? ROLE_CONST : ROLE_WEIGHT, t, &s, data, name));
	return true;
}

static bool
read_attr(struct reader *r, struct str t, struct attrs *at)
{
	struct str value = t, name = str_cut(&value, '=');
	int key = 0, n;
	int64_t v[MAX_RANK];
	double real;
	enum dtype type;

	while (key < ATTR_COUNT && !str_is(name, attr_name((enum attr_key)key)))
		key++;
	if (key == ATTR_COUNT)
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no attribute", STR_ARG(name));
	if (at_find(at, (enum attr_key)key) || at->n == MAX_ATTRS)
		return err_set(r->e, ERR_FORMAT, "attribute '%.*s' is one too many", STR_ARG(name));
	switch (attr_kind_of((enum attr_key)key)) {
	case ATTR_LIST:
		if (!read_list(r, value, &n, v))
			return false;
		at_list(at, (enum attr_key)key, n, v);
		return true;
	case ATTR_INT:
		if (key == ATTR_to && dtype_of_name(value, &type))
			v[0] = type;
		else if (key == ATTR_to || !str_to_i64(value, &v[0]))
			break;
		at_int(at, (enum attr_key)key, v[0]);
		return true;
	case ATTR_REAL:
		if (!str_to_f64(value, &real))
			break;
		at_real(at, (enum attr_key)key, real);
		return true;
	}
	return err_set(r->e, ERR_FORMAT, "'%.*s' has no usable value", STR_ARG(t));
}

struct node_line {
	enum prim prim;
	enum numeric num;
	uint32_t n_in;
	tensor_id in[GRAPH_READ_OPERANDS];
	struct attrs at;
};

/* Operands, attributes, numeric kind: all that stands between "=" and ":". */
static bool
read_node_line(struct reader *r, struct str prim, struct node_line *n)
{
	n->n_in = 0;
	n->at.n = 0;
	n->num = NUM_EXACT;
	if (!prim_of_name(prim, &n->prim))
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no primitive", STR_ARG(prim));
	while (peek(r, '%')) {
		if (n->n_in == GRAPH_READ_OPERANDS)
			return err_set(r->e, ERR_LIMIT, "more than %d operands", GRAPH_READ_OPERANDS);
		if (!read_tensor(r, &n->in[n->n_in++]))
			return false;
	}
	for (;;) {
		struct str t;

		if (peek(r, ':') || !r->line.n)
			return true;
		t = token(r);
		if (str_is(t, "!reassoc"))
			n->num = NUM_REASSOC;
		else if (str_is(t, "!precision"))
			n->num = NUM_PRECISION;
		else if (!read_attr(r, t, &n->at))
			return false;
	}
}

/* ": f32[2]" must be what the rules say. */
static bool
check_types(struct reader *r, const struct node *n)
{
	enum dtype t;
	struct shape s;

	if (!peek(r, ':'))
		return true;
	token(r);
	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct tensor *out = graph_tensor(r->g, n->out[k]);

		if (!read_type(r, &t, &s))
			return false;
		if (t != out->type || !shape_eq(&s, &out->shape)) {
			struct strbuf sb;

			sb_init(&sb, r->a);
			shape_print(&sb, &out->shape);
			return err_set(r->e, ERR_FORMAT, "result %u of %s is %s%s", k,
			    prim_info[n->prim].name, dtype_name(out->type), sb.p);
		}
	}
	return true;
}

/* "@12" in a plan or a dump: the number of the ONNX node. */
static bool
read_origin(struct reader *r, struct node *n)
{
	struct str word;
	int64_t v;

	if (!r->has_origins || !peek(r, '@'))
		return true;
	word = token(r);
	if (!str_to_i64((struct str){word.p + 1, word.n - 1}, &v) || v < 0 || v >= NO_NODE)
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no number of an ONNX node", STR_ARG(word));
	n->origin = (uint32_t)v;
	return true;
}

static bool
read_node(struct reader *r, struct str prim, const uint32_t *number, uint32_t n_number)
{
	uint32_t most = r->is_dump ? MAX_NUMBER : GRAPH_READ_NODES;
	struct node_line *n = NEW(r->a, struct node_line);
	tensor_id out[2];

	if (r->g->n_nodes == most)
		return err_set(r->e, ERR_LIMIT, "more than %u nodes", most);
	if (!read_node_line(r, prim, n))
		return false;
	if (n_number != prim_n_out(n->prim))
		return err_set(
		    r->e, ERR_FORMAT, "%s makes %u results", prim_info[n->prim].name, prim_n_out(n->prim));
	if (n_number == 1 && defined(r, number[0])) {
		if (!graph_add_alt(r->g, n->prim, n->in, n->n_in, &n->at, NO_NODE, n->num,
			(tensor_id){r->id[number[0]] - 1}, r->e))
			return false;
	} else {
		if (!graph_add(r->g, n->prim, n->in, n->n_in, &n->at, NO_NODE, out, r->e))
			return false;
		r->g->nodes[r->g->n_nodes - 1].num = n->num;
		for (uint32_t k = 0; k < n_number; k++) {
			if (defined(r, number[k]))
				return err_set(r->e, ERR_FORMAT, "%%%u is defined already", number[k]);
			define(r, number[k], out[k]);
		}
	}
	return check_types(r, &r->g->nodes[r->g->n_nodes - 1]) &&
	    read_origin(r, &r->g->nodes[r->g->n_nodes - 1]);
}

static bool
read_output(struct reader *r)
{
	tensor_id t;
	const char *name;

	if (!read_tensor(r, &t) || !read_name(r, &name))
		return false;
	graph_output(r->g, t, name);
	return true;
}

static bool
read_line(struct reader *r)
{
	struct str t = token(r);
	uint32_t number[2], n = 0;

	if (!t.n || t.p[0] == '#') {
		r->line.n = 0;
		return true;
	}
	if (str_is(t, "output"))
		return read_output(r);
	while (!str_is(t, "=")) {
		if (n == COUNT_OF(number))
			return err_set(r->e, ERR_FORMAT, "expected '%%N = ...' or 'output %%N'");
		if (!number_of(r, t, &number[n++]))
			return false;
		t = token(r);
	}
	t = token(r);
	if (n == 1 && (str_is(t, "input") || str_is(t, "weight") || str_is(t, "const")))
		return read_leaf(r, t, number[0]);
	return n ? read_node(r, t, number, n) : err_set(r->e, ERR_FORMAT, "a line starts with '='");
}

static bool
read_text(struct reader *r, struct str text)
{
	uint32_t line = 0;

	graph_init(r->g, r->a);
	while (text.n) {
		line++;
		r->line = str_cut(&text, '\n');
		if (!read_line(r))
			return err_in(r->e, "line %u", line);
		skip_space(r);
		if (r->line.n) {
			(void)err_set(r->e, ERR_FORMAT, "'%.*s' is too much at the end",
			    (int)MIN_OF(r->line.n, (size_t)40), r->line.p);
			return err_in(r->e, "line %u", line);
		}
	}
	return true;
}

static bool
read_limited(struct reader *r, struct str text)
{
	if (text.n > GRAPH_READ_BYTES)
		return err_set(
		    r->e, ERR_LIMIT, "a graph of %zu bytes; at most %d are read", text.n, GRAPH_READ_BYTES);
	return read_text(r, text);
}

bool
graph_read(struct graph *g, struct arena *a, struct str text, struct err *e)
{
	return read_limited(&(struct reader){.g = g, .a = a, .e = e}, text);
}

bool
graph_read_origins(struct graph *g, struct arena *a, struct str text, struct err *e)
{
	return read_limited(&(struct reader){.g = g, .a = a, .e = e, .has_origins = true}, text);
}

bool
graph_read_dump(struct graph *g, struct arena *a, struct str text, struct err *e)
{
	struct reader r = {
	    .g = g, .a = a, .e = e, .is_dump = true, .has_origins = true, .fill_left = MAX_FILL};

	return read_text(&r, text);
}
