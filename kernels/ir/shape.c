/* kernels/ir/shape.c: element types, shapes and attributes: the small values that graphs are
 * made of. */
#include "ir.h"

#include <string.h>

struct dtype_row {
	const char *name;
	size_t n_bytes;
	int onnx;
};

static const struct dtype_row dtypes[DT_COUNT] = {
#define X(N, C, BYTES, ONNX) [DT_##N] = {#N, BYTES, ONNX},
    DTYPES(X)
#undef X
};

size_t
dtype_size(enum dtype t)
{
	return dtypes[t].n_bytes;
}

const char *
dtype_name(enum dtype t)
{
	return dtypes[t].name;
}

bool
dtype_of_name(struct str s, enum dtype *out)
{
	for (int t = 0; t < DT_COUNT; t++) {
		if (str_is(s, dtypes[t].name)) {
			*out = (enum dtype)t;
			return true;
		}
	}
	return false;
}

bool
dtype_of_onnx(int number, enum dtype *out)
{
	for (int t = 0; t < DT_COUNT; t++) {
		if (dtypes[t].onnx == number) {
			*out = (enum dtype)t;
			return true;
		}
	}
	return false;
}

int
dtype_onnx(enum dtype t)
{
	return dtypes[t].onnx;
}

bool
dtype_is_float(enum dtype t)
{
	return t == DT_f32 || t == DT_f16 || t == DT_f64 || t == DT_bf16;
}

bool
dtype_is_signed(enum dtype t)
{
	return dtype_is_float(t) || t == DT_i8 || t == DT_i16 || t == DT_i32 || t == DT_i64;
}

struct shape
shape_make(int rank, const int64_t *dim)
{
	struct shape s = {.rank = rank};

	if (rank < 0 || rank > MAX_RANK)
		bug("a shape of rank %d", rank);
	for (int i = 0; i < rank; i++)
		s.dim[i] = dim[i];
	return s;
}

bool
shape_eq(const struct shape *a, const struct shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

/* Extents of 0 count as 1 for the limit, so that strides of empty tensors fit too. */
static bool
count_fits(const struct shape *s, int64_t *count)
{
	int64_t n = 1;
	bool empty = false;

	for (int i = 0; i < s->rank; i++) {
		if (s->dim[i] < 0 || !try_mul_i64(n, MAX_OF(s->dim[i], (int64_t)1), &n))
			return false;
		empty |= s->dim[i] == 0;
	}
	*count = empty ? 0 : n;
	return true;
}

int64_t
shape_count(const struct shape *s)
{
	int64_t n;

	if (!count_fits(s, &n))
		bug("a shape whose element count does not fit");
	return n;
}

bool
shape_bytes(const struct shape *s, enum dtype t, size_t *out)
{
	struct shape whole = *s;
	int64_t n, bytes;

	for (int i = 0; i < whole.rank; i++)
		whole.dim[i] = whole.dim[i] == 0 ? 1 : whole.dim[i];
	if (!count_fits(&whole, &n) || !try_mul_i64(n, (int64_t)dtype_size(t), &bytes))
		return false;
	if (!count_fits(s, &n))
		return false;
	*out = (size_t)n * dtype_size(t);
	return true;
}

void
shape_print(struct strbuf *sb, const struct shape *s)
{
	sb_addc(sb, '[');
	for (int i = 0; i < s->rank; i++) {
		if (i)
			sb_addc(sb, ',');
		sb_addi(sb, s->dim[i]);
	}
	sb_addc(sb, ']');
}

/* ---- attributes --------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum attr_kind kind;
} attrs_table[ATTR_COUNT] = {
#define X(N, KIND) [ATTR_##N] = {#N, ATTR_##KIND},
    ATTRS(X)
#undef X
};

const char *
attr_name(enum attr_key key)
{
	return attrs_table[key].name;
}

enum attr_kind
attr_kind_of(enum attr_key key)
{
	return attrs_table[key].kind;
}

/* The place of `key`, kept in the order of keys. */
static struct attr *
slot(struct attrs *at, enum attr_key key)
{
	int i = 0;

	while (i < at->n && at->a[i].key < key)
		i++;
	if (i == at->n || at->a[i].key != key) {
		if (at->n == MAX_ATTRS)
			bug("a primitive with more than %d attributes", MAX_ATTRS);
		memmove(&at->a[i + 1], &at->a[i], (size_t)(at->n - i) * sizeof(at->a[0]));
		at->n++;
	}
	at->a[i] = (struct attr){.key = key};
	return &at->a[i];
}

void
at_list(struct attrs *at, enum attr_key key, int n, const int64_t *v)
{
	struct attr *a = slot(at, key);

	if (n < 0 || n > MAX_RANK)
		bug("attribute %s with %d numbers", attr_name(key), n);
	a->n = n;
	for (int i = 0; i < n; i++)
		a->i[i] = v[i];
}

void
at_int(struct attrs *at, enum attr_key key, int64_t v)
{
	struct attr *a = slot(at, key);

	a->n = 1;
	a->i[0] = v;
}

void
at_real(struct attrs *at, enum attr_key key, double v)
{
	slot(at, key)->real = v;
}

const struct attr *
at_find(const struct attrs *at, enum attr_key key)
{
	for (int i = 0; i < at->n; i++)
		if (at->a[i].key == key)
			return &at->a[i];
	return NULL;
}

static const struct attr *
must_find(const struct attrs *at, enum attr_key key)
{
	const struct attr *a = at_find(at, key);

	if (!a)
		bug("no attribute '%s'", attr_name(key));
	return a;
}

const int64_t *
at_ints(const struct attrs *at, enum attr_key key)
{
	return must_find(at, key)->i;
}

int64_t
at_get(const struct attrs *at, enum attr_key key)
{
	return must_find(at, key)->i[0];
}

double
at_get_real(const struct attrs *at, enum attr_key key)
{
	return must_find(at, key)->real;
}

/* Reals are equal when they print equally: NaN equals NaN, 0 differs from -0. */
static bool
real_eq(double a, double b)
{
	return (a != a && b != b) || memcmp(&a, &b, sizeof(a)) == 0;
}

bool
attrs_eq(const struct attrs *a, const struct attrs *b)
{
	if (a->n != b->n)
		return false;
	for (int k = 0; k < a->n; k++) {
		const struct attr *x = &a->a[k], *y = &b->a[k];

		if (x->key != y->key || x->n != y->n || !real_eq(x->real, y->real))
			return false;
		for (int i = 0; i < x->n; i++)
			if (x->i[i] != y->i[i])
				return false;
	}
	return true;
}
