/* daemon/fission/arg.c: a node's operands and attributes, as the operators' functions ask for
 * them.  Defaults come from op.def.  Errors are set once and name the field. */
#include "fission_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void
f_fail(struct fission *f, const char *fmt, ...)
{
	char msg[400];
	va_list ap;

	if (f->failed)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	f->failed = true;
	(void)err_set(f->e, ERR_MODEL, "%s", msg);
}

void *
f_memory(struct fission *f, int64_t n, size_t size)
{
	size_t left = f->m->max_tensor_bytes - f->folded_bytes;

	if (f->failed)
		return NULL;
	if (n < 0 || (size_t)n > left / size) {
		f_fail(
		    f, "its constants would need more than the limit of %zu bytes", f->m->max_tensor_bytes);
		return NULL;
	}
	f->folded_bytes += (size_t)n * size;
	return arena_alloc(f->a, (size_t)n * size);
}

int64_t
f_whole(double v)
{
	const double most = 4611686018427387904.0;

	return v != v ? 0 : (int64_t)MAX_OF(MIN_OF(v, most), -most);
}

int64_t
f_product(struct fission *f, int64_t a, int64_t b)
{
	int64_t c;

	if (try_mul_i64(a, b, &c))
		return c;
	f_fail(f, "%lld times %lld is too large", (long long)a, (long long)b);
	return 1;
}

bool
f_check_shape(struct fission *f, const struct shape *s, enum dtype t)
{
	struct shape full = *s;
	size_t n;

	for (int i = 0; i < s->rank; i++)
		full.dim[i] = s->dim[i] == 0 ? 1 : s->dim[i];
	if (shape_bytes(&full, t, &n) && n <= (size_t)MAX_TENSOR_GIB << 30)
		return true;
	f_fail(f, "a tensor of more than %d GiB would be needed", MAX_TENSOR_GIB);
	return false;
}

bool
f_has(const struct fission *f, uint32_t i)
{
	return i < f->node->n_in && f->node->in[i] != NO_VALUE;
}

uint32_t
f_n_in(const struct fission *f)
{
	return f->node->n_in;
}

tensor_id
f_in(struct fission *f, uint32_t i)
{
	if (f->failed)
		return f->blank;
	if (!f_has(f, i)) {
		f_fail(f, "operand %u is missing", i);
		return f->blank;
	}
	tensor_id t = f->of_value[f->node->in[i]];
	if (t.i != NO_TENSOR.i)
		return t;
	f->absent = f->why_absent[f->node->in[i]];
	if (f->absent)
		f_fail(f, "operand %u, '%s', could not be made: %s", i, f->m->values[f->node->in[i]].name,
		    f->absent);
	else
		f_fail(f, "operand %u, '%s', is a result of its node that is not supported", i,
		    f->m->values[f->node->in[i]].name);
	return f->blank;
}

bool
f_wants(const struct fission *f, uint32_t i)
{
	return i < f->node->n_out && f->node->out[i] != NO_VALUE;
}

void
f_out(struct fission *f, uint32_t i, tensor_id t)
{
	if (!f->failed && f_wants(f, i))
		f->outs[i] = t;
}

bool
f_has_attr(const struct fission *f, const char *name)
{
	return model_attr_find(f->node, name) != NULL;
}

/* The row's default; asking for an attribute that the row does not list is our own fault. */
static const struct op_attr *
row_attr(const struct fission *f, const char *name, enum model_attr_kind kind)
{
	const struct op_attr *at = op_attr_find(f->op, name);

	if (!at || at->kind != kind)
		bug("op.def: %s %d has no such attribute '%s'", f->op->name, f->op->since, name);
	return at;
}

int64_t
f_int(struct fission *f, const char *name)
{
	const struct op_attr *row = row_attr(f, name, MATTR_INT);
	const struct model_attr *at = model_attr_find(f->node, name);

	return at ? at->i : (int64_t)row->num;
}

double
f_float(struct fission *f, const char *name)
{
	const struct op_attr *row = row_attr(f, name, MATTR_FLOAT);
	const struct model_attr *at = model_attr_find(f->node, name);

	return at ? (double)at->f : (double)(float)row->num;
}

struct str
f_text(struct fission *f, const char *name)
{
	const struct op_attr *row = row_attr(f, name, MATTR_STRING);
	const struct model_attr *at = model_attr_find(f->node, name);

	return at ? at->s : str_of(row->text);
}

bool
f_text_is(struct fission *f, const char *name, const char *want)
{
	return str_is(f_text(f, name), want);
}

int
f_choice(struct fission *f, const char *name, const char *const *words)
{
	struct str s = f_text(f, name);

	for (int i = 0; words[i]; i++)
		if (str_is(s, words[i]))
			return i;
	f_fail(f, "attribute '%s' is '%.*s', which is not supported", name, STR_ARG(s));
	return 0;
}

const int64_t *
f_ints(struct fission *f, const char *name, int *n)
{
	const struct model_attr *at;

	(void)row_attr(f, name, MATTR_INTS);
	at = model_attr_find(f->node, name);
	*n = at ? (int)MIN_OF(at->n, 1u << 20) : 0;
	return at ? at->ints : NULL;
}

const float *
f_floats(struct fission *f, const char *name, int *n)
{
	const struct model_attr *at;

	(void)row_attr(f, name, MATTR_FLOATS);
	at = model_attr_find(f->node, name);
	*n = at ? (int)MIN_OF(at->n, 1u << 20) : 0;
	return at ? at->floats : NULL;
}

const struct model_tensor *
f_tensor(struct fission *f, const char *name)
{
	const struct model_attr *at;

	(void)row_attr(f, name, MATTR_TENSOR);
	at = model_attr_find(f->node, name);
	return at ? at->t : NULL;
}

int
f_axis_of(struct fission *f, int64_t axis, int rank)
{
	if (f->failed)
		return 0;
	if (axis < -rank || axis >= rank) {
		f_fail(f, "axis %lld lies outside a tensor of %d dimensions", (long long)axis, rank);
		return 0;
	}
	return (int)(axis < 0 ? axis + rank : axis);
}

int
f_axis(struct fission *f, const char *name, int rank)
{
	return f_axis_of(f, f_int(f, name), rank);
}

/* Elements of operand i, or NULL (and an error) when they are known only at run time. */
static const void *
const_operand(struct fission *f, uint32_t i, const char *what, tensor_id *t)
{
	*t = f_in(f, i);
	const void *data = f->failed ? NULL : b_data(f, *t);
	if (!data && !f->failed)
		f_fail(f, "operand %u (%s) must be a constant, and it depends on %s", i, what,
		    f_hangs_on(f, *t));
	return data;
}

const int64_t *
f_const_ints(struct fission *f, uint32_t i, const char *what, int *n)
{
	tensor_id t;
	const void *data = const_operand(f, i, what, &t);

	*n = 0;
	if (!data)
		return NULL;
	int64_t count = shape_count(b_shape(f, t));
	if (count > 1 << 20) {
		f_fail(f, "operand %u (%s) has %lld elements", i, what, (long long)count);
		return NULL;
	}
	int64_t *v = NEW_ARRAY(f->a, int64_t, count);
	for (int64_t k = 0; k < count; k++)
		if (b_type(f, t) == DT_i64)
			memcpy(&v[k], (const char *)data + 8 * k, 8);
		else
			v[k] = f_whole(elem_get(b_type(f, t), data, k));
	*n = (int)count;
	return v;
}

const double *
f_const_nums(struct fission *f, uint32_t i, const char *what, int *n)
{
	tensor_id t;
	const void *data = const_operand(f, i, what, &t);

	*n = 0;
	if (!data)
		return NULL;
	int64_t count = MIN_OF(shape_count(b_shape(f, t)), 1 << 20);
	double *v = NEW_ARRAY(f->a, double, count);
	for (int64_t k = 0; k < count; k++)
		v[k] = elem_get(b_type(f, t), data, k);
	*n = (int)count;
	return v;
}

const int64_t *
f_list(struct fission *f, uint32_t i, const char *name, int *n)
{
	if (f_has(f, i))
		return f_const_ints(f, i, name, n);
	return f_ints(f, name, n);
}
