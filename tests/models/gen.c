/* tests/models/gen.c: the graph writer. */
#include "gen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <onnx.pb-c.h>

enum { MAX_DEPTH = 16, MAX_ATTRS = 8 };

struct counter {
	const char *key;
	uint32_t n;
};
struct gen {
	struct arena a;
	const char *name;
	uint64_t seed;
	const char *path[MAX_DEPTH];
	int depth;
	struct counter *counters;
	uint32_t n_counters, cap_counters;
	Onnx__NodeProto **nodes;
	uint32_t n_nodes, cap_nodes;
	Onnx__TensorProto **inits;
	uint32_t n_inits, cap_inits;
	Onnx__ValueInfoProto **ins, **outs;
	uint32_t n_ins, cap_ins, n_outs, cap_outs;
	int64_t n_weights;
};

struct gen *
gen_new(const char *name, uint64_t seed)
{
	struct gen *g = heap_alloc(sizeof(*g));

	g->name = name;
	g->seed = seed;
	return g;
}

void
gen_free(struct gen *g)
{
	arena_fini(&g->a);
	free(g);
}

uint32_t
gen_n_nodes(const struct gen *g)
{
	return g->n_nodes;
}

int64_t
gen_n_weights(const struct gen *g)
{
	return g->n_weights;
}

uint64_t
gen_seed(const struct gen *g)
{
	return g->seed;
}

/* ---- names --------------------------------------------------------------------------- */
void
gen_enter(struct gen *g, const char *fmt, ...)
{
	char s[128];
	va_list ap;

	if (g->depth == MAX_DEPTH)
		bug("scopes are nested too deep");
	va_start(ap, fmt);
	(void)vsnprintf(s, sizeof(s), fmt, ap);
	va_end(ap);
	g->path[g->depth++] = str_dup(&g->a, str_of(s));
}

void
gen_leave(struct gen *g)
{
	g->depth--;
}

/* How often the key was asked for before. */
static uint32_t
count(struct gen *g, const char *key)
{
	for (uint32_t i = 0; i < g->n_counters; i++)
		if (strcmp(g->counters[i].key, key) == 0)
			return g->counters[i].n++;
	GROW(&g->a, g->counters, g->n_counters, g->cap_counters);
	g->counters[g->n_counters++] = (struct counter){key, 1};
	return 0;
}

static const char *
fresh(struct gen *g, char separator, const char *what)
{
	struct strbuf sb;

	sb_init(&sb, &g->a);
	if (separator == '/')
		sb_addc(&sb, '/');
	for (int i = 0; i < g->depth; i++)
		sb_addf(&sb, "%s%c", g->path[i], separator);
	sb_addz(&sb, what);
	uint32_t n = count(g, sb.p);
	if (n > 0)
		sb_addf(&sb, "_%u", n);
	return sb.p;
}

static struct val *
new_val(struct gen *g, const char *name, int rank, const int64_t *d)
{
	struct val *v = NEW(&g->a, struct val);

	v->name = name;
	v->rank = rank;
	for (int i = 0; i < rank; i++)
		v->d[i] = d[i];
	return v;
}

static size_t
elements(int rank, const int64_t *d)
{
	size_t n = 1;

	for (int i = 0; i < rank; i++)
		n = ck_mul(n, ck_size(d[i]));
	return n;
}

const char *
gen_fresh(struct gen *g, const char *what)
{
	return fresh(g, '.', what);
}

/* ---- inputs, outputs, initializers ---------------------------------------------------- */
static Onnx__ValueInfoProto *
value_info(struct gen *g, const char *name, const struct val *v)
{
	Onnx__ValueInfoProto *p = NEW(&g->a, Onnx__ValueInfoProto);
	Onnx__TypeProto *type = NEW(&g->a, Onnx__TypeProto);
	Onnx__TypeProto__Tensor *t = NEW(&g->a, Onnx__TypeProto__Tensor);
	Onnx__TensorShapeProto *s = NEW(&g->a, Onnx__TensorShapeProto);

	onnx__value_info_proto__init(p);
	onnx__type_proto__init(type);
	onnx__type_proto__tensor__init(t);
	onnx__tensor_shape_proto__init(s);
	s->n_dim = (size_t)v->rank;
	s->dim = NEW_ARRAY(&g->a, Onnx__TensorShapeProto__Dimension *, v->rank);
	for (int i = 0; i < v->rank; i++) {
		s->dim[i] = NEW(&g->a, Onnx__TensorShapeProto__Dimension);
		onnx__tensor_shape_proto__dimension__init(s->dim[i]);
		s->dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
		s->dim[i]->dim_value = v->d[i];
	}
	t->has_elem_type = 1;
	t->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
	t->shape = s;
	type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
	type->tensor_type = t;
	p->name = str_dup(&g->a, str_of(name));
	p->type = type;
	return p;
}

val_t
gen_input(struct gen *g, const char *name, int rank, const int64_t *d)
{
	val_t v = new_val(g, name, rank, d);

	GROW(&g->a, g->ins, g->n_ins, g->cap_ins);
	g->ins[g->n_ins++] = value_info(g, name, v);
	return v;
}

/* The tensor takes the output's name wherever it is made and read. */
void
gen_output(struct gen *g, val_t x, const char *name)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		Onnx__NodeProto *n = g->nodes[i];
		for (size_t k = 0; k < n->n_input; k++)
			if (strcmp(n->input[k], x->name) == 0)
				n->input[k] = str_dup(&g->a, str_of(name));
		for (size_t k = 0; k < n->n_output; k++)
			if (strcmp(n->output[k], x->name) == 0)
				n->output[k] = str_dup(&g->a, str_of(name));
	}
	GROW(&g->a, g->outs, g->n_outs, g->cap_outs);
	g->outs[g->n_outs++] = value_info(g, name, x);
}

static val_t
add_init(struct gen *g, const char *name, int type, const void *data, size_t size, int rank, const int64_t *d)
{
	Onnx__TensorProto *p = NEW(&g->a, Onnx__TensorProto);

	onnx__tensor_proto__init(p);
	p->n_dims = (size_t)rank;
	p->dims = arena_dup(&g->a, d, (size_t)rank * sizeof(*d));
	p->has_data_type = 1;
	p->data_type = type;
	p->name = str_dup(&g->a, str_of(name));
	p->has_raw_data = 1;
	p->raw_data.len = ck_mul(elements(rank, d), size);
	p->raw_data.data = (uint8_t *)(uintptr_t)data;
	GROW(&g->a, g->inits, g->n_inits, g->cap_inits);
	g->inits[g->n_inits++] = p;
	return new_val(g, p->name, rank, d);
}

val_t
gen_near(struct gen *g, const char *name, double mean, double std, int rank, const int64_t *d)
{
	const char *full = fresh(g, '.', name);
	struct rng r = {hash64(full, strlen(full), hash64(g->name, strlen(g->name), g->seed))};
	size_t n = elements(rank, d);
	float *v = NEW_ARRAY(&g->a, float, n);

	for (size_t i = 0; i < n; i++)
		v[i] = (float)(mean + std * rng_normal(&r));
	g->n_weights += ck_i64(n);
	return add_init(g, full, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, v, sizeof(*v), rank, d);
}

val_t
gen_floats(struct gen *g, const char *name, const float *v, int rank, const int64_t *d)
{
	void *copy = arena_dup(&g->a, v, elements(rank, d) * sizeof(*v));

	return add_init(
	    g, fresh(g, '.', name), ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, copy, sizeof(*v), rank, d);
}

val_t
gen_num(struct gen *g, double v)
{
	float x = (float)v;

	return gen_floats(g, "const", &x, 0, NULL);
}

val_t
gen_ints(struct gen *g, const char *name, const int64_t *v, int n)
{
	int64_t d = n;

	return add_init(g, fresh(g, '.', name), ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
	    arena_dup(&g->a, v, (size_t)n * sizeof(*v)), sizeof(*v), 1, &d);
}

/* ---- nodes --------------------------------------------------------------------------- */
/* Adds a node; a NULL operand is one left out. */
static struct val *
add(struct gen *g, const char *op, const val_t *in, int n_in, int rank, const int64_t *d)
{
	Onnx__NodeProto *n = NEW(&g->a, Onnx__NodeProto);
	const char *name = fresh(g, '/', op);

	onnx__node_proto__init(n);
	n->name = str_dup(&g->a, str_of(name));
	n->op_type = str_dup(&g->a, str_of(op));
	n->n_input = (size_t)n_in;
	n->input = NEW_ARRAY(&g->a, char *, n_in);
	for (int i = 0; i < n_in; i++)
		n->input[i] = str_dup(&g->a, str_of(in[i] ? in[i]->name : ""));
	n->n_output = 1;
	n->output = NEW(&g->a, char *);
	n->output[0] = arena_printf(&g->a, "%s_output_0", name);
	n->attribute = NEW_ARRAY(&g->a, Onnx__AttributeProto *, MAX_ATTRS);
	GROW(&g->a, g->nodes, g->n_nodes, g->cap_nodes);
	g->nodes[g->n_nodes++] = n;
	return new_val(g, n->output[0], rank, d);
}

/* A new attribute of the last node. */
static Onnx__AttributeProto *
attr(struct gen *g, const char *name, Onnx__AttributeProto__AttributeType type)
{
	Onnx__NodeProto *n = g->nodes[g->n_nodes - 1];
	Onnx__AttributeProto *at = NEW(&g->a, Onnx__AttributeProto);

	if (n->n_attribute == MAX_ATTRS)
		bug("too many attributes");
	onnx__attribute_proto__init(at);
	at->name = str_dup(&g->a, str_of(name));
	at->has_type = 1;
	at->type = type;
	n->attribute[n->n_attribute++] = at;
	return at;
}

static void
attr_int(struct gen *g, const char *name, int64_t v)
{
	Onnx__AttributeProto *at = attr(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

	at->has_i = 1;
	at->i = v;
}

static void
attr_float(struct gen *g, const char *name, double v)
{
	Onnx__AttributeProto *at = attr(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);

	at->has_f = 1;
	at->f = (float)v;
}

static void
attr_text(struct gen *g, const char *name, const char *v)
{
	Onnx__AttributeProto *at = attr(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);

	at->has_s = 1;
	at->s.len = strlen(v);
	at->s.data = arena_dup(&g->a, v, at->s.len);
}

static void
attr_ints(struct gen *g, const char *name, int n, const int64_t *v)
{
	Onnx__AttributeProto *at = attr(g, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

	at->n_ints = (size_t)n;
	at->ints = arena_dup(&g->a, v, (size_t)n * sizeof(*v));
}

/* ---- maps ---------------------------------------------------------------------------- */
val_t
gen_un(struct gen *g, const char *op, val_t x)
{
	return add(g, op, &x, 1, x->rank, x->d);
}

val_t
gen_bi(struct gen *g, const char *op, val_t x, val_t y)
{
	int64_t d[GEN_MAX_RANK];
	int rank = MAX_OF(x->rank, y->rank);

	for (int i = 1; i <= rank; i++) {
		int64_t a = i <= x->rank ? x->d[x->rank - i] : 1, b = i <= y->rank ? y->d[y->rank - i] : 1;
		if (a != b && a != 1 && b != 1)
			bug("%s of '%s' and '%s' does not broadcast", op, x->name, y->name);
		d[rank - i] = a == 1 ? b : a;
	}
	return add(g, op, (val_t[]){x, y}, 2, rank, d);
}

val_t
gen_bin(struct gen *g, const char *op, val_t x, double y)
{
	return gen_bi(g, op, x, gen_num(g, y));
}

val_t
gen_act(struct gen *g, enum act act, val_t x)
{
	switch (act) {
	case ACT_NONE:
		return x;
	case ACT_RELU:
		return gen_un(g, "Relu", x);
	case ACT_MISH:
		return gen_bi(g, "Mul", x, gen_un(g, "Tanh", gen_un(g, "Softplus", x)));
	case ACT_SILU:
		return gen_bi(g, "Mul", x, gen_un(g, "Sigmoid", x));
	case ACT_HARDSWISH:
		return gen_un(g, "HardSwish", x);
	case ACT_LEAKY:
		x = gen_un(g, "LeakyRelu", x);
		attr_float(g, "alpha", 0.1);
		return x;
	}
	return x;
}

val_t
gen_gelu(struct gen *g, val_t x)
{
	val_t e = gen_bin(g, "Add", gen_un(g, "Erf", gen_bin(g, "Div", x, 1.4142135381698608)), 1);

	return gen_bin(g, "Mul", gen_bi(g, "Mul", x, e), 0.5);
}

/* ---- linear and norms ---------------------------------------------------------------- */
val_t
gen_conv(struct gen *g, val_t x, struct conv c)
{
	int64_t groups = MAX_OF(c.groups, 1), p = c.p < 0 ? c.k / 2 : c.p, s = MAX_OF(c.s, 1);
	int64_t fan = x->d[1] / groups * c.k * c.k, d[4] = {x->d[0], c.co};
	double gain = c.gain > 0 ? c.gain : c.act != ACT_NONE ? 2 : 1;

	gen_enter(g, "%s", c.scope ? c.scope : "conv");
	val_t w = gen_near(g, "weight", 0, sqrt(gain / (double)fan), DIMS(c.co, x->d[1] / groups, c.k, c.k));
	val_t b = c.no_bias ? NULL : gen_near(g, "bias", 0, c.act == ACT_SILU ? 0.5 : 0.1, DIMS(c.co));
	for (int i = 0; i < 2; i++)
		d[2 + i] = (x->d[2 + i] + 2 * p - c.k) / s + 1;
	val_t y = add(g, "Conv", (val_t[]){x, w, b}, b ? 3 : 2, 4, d);
	attr_ints(g, "dilations", DIMS(1, 1));
	attr_int(g, "group", groups);
	attr_ints(g, "kernel_shape", DIMS(c.k, c.k));
	attr_ints(g, "pads", DIMS(p, p, p, p));
	attr_ints(g, "strides", DIMS(s, s));
	y = gen_act(g, c.act, y);
	gen_leave(g);
	return y;
}

val_t
gen_matmul(struct gen *g, val_t x, val_t y)
{
	struct val out = x->rank >= y->rank ? *x : *y;

	if (x->d[x->rank - 1] != y->d[y->rank - 2])
		bug("MatMul of '%s' and '%s' does not fit", x->name, y->name);
	out.d[out.rank - 2] = x->d[x->rank - 2];
	out.d[out.rank - 1] = y->d[y->rank - 1];
	return add(g, "MatMul", (val_t[]){x, y}, 2, out.rank, out.d);
}

val_t
gen_linear(struct gen *g, val_t x, int64_t co, bool has_bias, const char *scope)
{
	int64_t ci = x->d[x->rank - 1];
	double std = sqrt(1 / (double)ci);
	val_t y;

	gen_enter(g, "%s", scope);
	if (x->rank == 2 && has_bias) {
		val_t w = gen_near(g, "weight", 0, std, DIMS(co, ci)),
		      b = gen_near(g, "bias", 0, 0.1, DIMS(co));
		y = add(g, "Gemm", (val_t[]){x, w, b}, 3, DIMS(x->d[0], co));
		attr_float(g, "alpha", 1);
		attr_float(g, "beta", 1);
		attr_int(g, "transB", 1);
	} else {
		y = gen_matmul(g, x, gen_near(g, "weight", 0, std, DIMS(ci, co)));
		if (has_bias)
			y = gen_bi(g, "Add", gen_near(g, "bias", 0, 0.1, DIMS(co)), y);
	}
	gen_leave(g);
	return y;
}

static val_t
pool(struct gen *g, const char *op, val_t x, int64_t k, int64_t s, int64_t p)
{
	val_t y = add(g, op, &x, 1,
	    DIMS(x->d[0], x->d[1], (x->d[2] + 2 * p - k) / s + 1, (x->d[3] + 2 * p - k) / s + 1));

	attr_ints(g, "kernel_shape", DIMS(k, k));
	attr_ints(g, "pads", DIMS(p, p, p, p));
	attr_ints(g, "strides", DIMS(s, s));
	return y;
}

val_t
gen_maxpool(struct gen *g, val_t x, int64_t k, int64_t s, int64_t p)
{
	return pool(g, "MaxPool", x, k, s, p);
}

val_t
gen_avgpool(struct gen *g, val_t x, int64_t k, int64_t s, int64_t p)
{
	return pool(g, "AveragePool", x, k, s, p);
}

val_t
gen_reduction(struct gen *g, const char *op, val_t x, int axis)
{
	struct val out = *x;

	out.d[axis] = 1;
	val_t y = add(g, op, &x, 1, out.rank, out.d);
	attr_ints(g, "axes", DIMS(axis));
	attr_int(g, "keepdims", 1);
	return y;
}

val_t
gen_lrn(struct gen *g, val_t x, int64_t size)
{
	val_t y = gen_un(g, "LRN", x);

	attr_int(g, "size", size);
	return y;
}

val_t
gen_global_average(struct gen *g, val_t x)
{
	return add(g, "GlobalAveragePool", &x, 1, DIMS(x->d[0], x->d[1], 1, 1));
}

static val_t
norm(struct gen *g, const char *op, val_t x, int64_t c, const char *scope)
{
	gen_enter(g, "%s", scope);
	val_t scale = gen_near(g, "weight", 1, 0.1, DIMS(c)), bias = gen_near(g, "bias", 0, 0.1, DIMS(c));
	val_t y = add(g, op, (val_t[]){x, scale, bias}, 3, x->rank, x->d);
	attr_float(g, "epsilon", 1e-5);
	gen_leave(g);
	return y;
}

val_t
gen_instance_norm(struct gen *g, val_t x)
{
	return norm(g, "InstanceNormalization", x, x->d[1], "norm");
}

val_t
gen_layer_norm(struct gen *g, val_t x, const char *scope)
{
	val_t y = norm(g, "LayerNormalization", x, x->d[x->rank - 1], scope);

	attr_int(g, "axis", -1);
	return y;
}

val_t
gen_softmax(struct gen *g, val_t x)
{
	val_t y = gen_un(g, "Softmax", x);

	attr_int(g, "axis", -1);
	return y;
}

/* ---- layout -------------------------------------------------------------------------- */
val_t
gen_reshape(struct gen *g, val_t x, int rank, const int64_t *d)
{
	int64_t full[GEN_MAX_RANK], known = 1;
	size_t n = elements(x->rank, x->d);

	for (int i = 0; i < rank; i++)
		known *= d[i] == -1 ? 1 : d[i];
	for (int i = 0; i < rank; i++)
		full[i] = d[i] == -1 ? ck_i64(n) / known : d[i];
	if (elements(rank, full) != n)
		bug("Reshape of '%s' does not fit", x->name);
	return add(g, "Reshape", (val_t[]){x, gen_ints(g, "shape", d, rank)}, 2, rank, full);
}

val_t
gen_transpose(struct gen *g, val_t x, const int64_t *perm)
{
	int64_t d[GEN_MAX_RANK];

	for (int i = 0; i < x->rank; i++)
		d[i] = x->d[perm[i]];
	val_t y = add(g, "Transpose", &x, 1, x->rank, d);
	attr_ints(g, "perm", x->rank, perm);
	return y;
}

val_t
gen_concat(struct gen *g, const val_t *x, int n, int axis)
{
	struct val out = *x[0];

	for (int i = 1; i < n; i++)
		out.d[axis] += x[i]->d[axis];
	val_t y = add(g, "Concat", x, n, out.rank, out.d);
	attr_int(g, "axis", axis);
	return y;
}

val_t
gen_slice(struct gen *g, val_t x, int axis, int64_t from, int64_t to, int64_t step)
{
	struct val out = *x;
	int64_t axis64 = axis;

	out.d[axis] = (MIN_OF(to, x->d[axis]) - from + step - 1) / step;
	val_t in[5] = {x, gen_ints(g, "const", &from, 1), gen_ints(g, "const", &to, 1),
	    gen_ints(g, "const", &axis64, 1), gen_ints(g, "const", &step, 1)};
	return add(g, "Slice", in, 5, out.rank, out.d);
}

val_t
gen_expand(struct gen *g, val_t x, int rank, const int64_t *d)
{
	return add(g, "Expand", (val_t[]){x, gen_ints(g, "const", d, rank)}, 2, rank, d);
}

val_t
gen_pad(struct gen *g, val_t x, const int64_t *lo, const int64_t *hi, const char *mode, const double *value)
{
	int64_t pads[2 * GEN_MAX_RANK], d[GEN_MAX_RANK];

	for (int i = 0; i < x->rank; i++) {
		pads[i] = lo[i];
		pads[x->rank + i] = hi[i];
		d[i] = x->d[i] + lo[i] + hi[i];
	}
	val_t list = gen_ints(g, "const", pads, 2 * x->rank);
	val_t y =
	    add(g, "Pad", (val_t[]){x, list, value ? gen_num(g, *value) : NULL}, value ? 3 : 2, x->rank, d);
	attr_text(g, "mode", mode);
	return y;
}

val_t
gen_flatten(struct gen *g, val_t x)
{
	val_t y = add(g, "Flatten", &x, 1, DIMS(x->d[0], ck_i64(elements(x->rank - 1, x->d + 1))));

	attr_int(g, "axis", 1);
	return y;
}

val_t
gen_resize(struct gen *g, val_t x, int64_t h, int64_t w, const char *mode)
{
	bool is_nearest = strcmp(mode, "nearest") == 0;
	float scales[4] = {1, 1, (float)h / (float)x->d[2], (float)w / (float)x->d[3]};
	int64_t d[4] = {x->d[0], x->d[1], h, w}, four = 4;
	val_t in[4] = {x, NULL, NULL, NULL};

	in[is_nearest ? 2 : 3] =
	    is_nearest ? gen_floats(g, "const", scales, 1, &four) : gen_ints(g, "const", d, 4);
	val_t y = add(g, "Resize", in, is_nearest ? 3 : 4, 4, d);
	attr_text(g, "mode", mode);
	attr_text(g, "coordinate_transformation_mode", is_nearest ? "asymmetric" : "half_pixel");
	if (is_nearest)
		attr_text(g, "nearest_mode", "floor");
	else
		attr_float(g, "cubic_coeff_a", -0.75);
	return y;
}

/* ---- the file ------------------------------------------------------------------------- */
struct file_buffer {
	ProtobufCBuffer base;
	FILE *file;
};

static void
append(ProtobufCBuffer *b, size_t n, const uint8_t *data)
{
	(void)fwrite(data, 1, n, ((struct file_buffer *)(void *)b)->file);
}

bool
gen_write(struct gen *g, const char *path, struct err *e)
{
	Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
	Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
	Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[1] = {&opset};
	const char *tmp = arena_printf(&g->a, "%s.tmp", path);
	struct file_buffer b = {{append}, fopen(tmp, "wb")};

	if (!b.file)
		return err_set(e, ERR_IO, "%s cannot be written", tmp);
	opset.has_version = 1;
	opset.version = GEN_OPSET;
	opset.domain = str_dup(&g->a, STR(""));
	graph.name = str_dup(&g->a, str_of(g->name));
	graph.n_node = g->n_nodes;
	graph.node = g->nodes;
	graph.n_initializer = g->n_inits;
	graph.initializer = g->inits;
	graph.n_input = g->n_ins;
	graph.input = g->ins;
	graph.n_output = g->n_outs;
	graph.output = g->outs;
	m.has_ir_version = 1;
	m.ir_version = 8;
	m.producer_name = str_dup(&g->a, STR("korch-make-model"));
	m.n_opset_import = 1;
	m.opset_import = opsets;
	m.graph = &graph;
	(void)onnx__model_proto__pack_to_buffer(&m, &b.base);
	bool ok = ferror(b.file) == 0;
	if (fclose(b.file) != 0 || !ok || rename(tmp, path) != 0) {
		(void)remove(tmp);
		return err_set(e, ERR_IO, "%s cannot be written", path);
	}
	return true;
}
