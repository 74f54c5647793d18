/* client/pb.c: ONNX's TensorProto as a file, read from the wire format directly (wire.h),
 * because only these ten fields are wanted. */
#include "host_tensor.h"
#include "wire.h"

#include <string.h>

/* Fields of TensorProto. */
enum {
	F_DIMS = 1,
	F_DATA_TYPE = 2,
	F_FLOAT = 4,
	F_INT32 = 5,
	F_STRING = 6,
	F_INT64 = 7,
	F_NAME = 8,
	F_RAW = 9,
	F_DOUBLE = 10,
	F_UINT64 = 11,
	F_EXTERNAL = 13,
	F_LOCATION = 14
};

/* What the fields said, before it is put together. */
struct tensor_text {
	struct shape shape;
	int64_t onnx_type;
	struct bytes raw;
	bool has_raw, is_external, has_strings;
	uint64_t *values; /* typed data: bits of floats and doubles, or integers */
	uint32_t n_values, cap_values;
	struct str name;
};

static void
add_value(struct arena *a, struct tensor_text *t, uint64_t v)
{
	GROW(a, t->values, t->n_values, t->cap_values);
	t->values[t->n_values++] = v;
}

/* A repeated number: one value, or a packed run of them.  width 0: varints. */
static void
add_numbers(struct arena *a, struct tensor_text *t, const struct wire_field *f, size_t width, struct wire *r)
{
	struct wire in = wire_make(f->bytes);

	if (f->wire != WIRE_BYTES) {
		add_value(a, t, f->value);
		return;
	}
	while (in.p < in.end && !in.bad)
		add_value(a, t, width ? wire_fixed(&in, width) : wire_varint(&in));
	r->bad = r->bad || in.bad;
}

static void
add_dim(struct tensor_text *t, uint64_t v, struct wire *r)
{
	if (t->shape.rank == MAX_RANK || v > INT64_MAX) {
		r->bad = true;
		return;
	}
	t->shape.dim[t->shape.rank++] = (int64_t)v;
}

static void
add_dims(struct tensor_text *t, const struct wire_field *f, struct wire *r)
{
	struct wire in = wire_make(f->bytes);

	if (f->wire == WIRE_VARINT)
		add_dim(t, f->value, r);
	while (f->wire == WIRE_BYTES && in.p < in.end && !in.bad)
		add_dim(t, wire_varint(&in), r);
	r->bad = r->bad || in.bad;
}

static void
take_field(struct arena *a, struct tensor_text *t, const struct wire_field *f, struct wire *r)
{
	switch (f->number) {
	case F_DIMS:
		add_dims(t, f, r);
		break;
	case F_DATA_TYPE:
		t->onnx_type = (int64_t)f->value;
		break;
	case F_FLOAT:
		add_numbers(a, t, f, 4, r);
		break;
	case F_DOUBLE:
		add_numbers(a, t, f, 8, r);
		break;
	case F_INT32:
	case F_INT64:
	case F_UINT64:
		add_numbers(a, t, f, 0, r);
		break;
	case F_STRING:
		t->has_strings = true;
		break;
	case F_NAME:
		t->name = (struct str){(const char *)f->bytes.p, f->bytes.n};
		break;
	case F_RAW:
		t->raw = f->bytes;
		t->has_raw = f->wire == WIRE_BYTES;
		break;
	case F_EXTERNAL:
		t->is_external = true;
		break;
	case F_LOCATION:
		t->is_external = t->is_external || f->value == 1;
		break;
	default:
		break; /* segment, documentation, and what later versions add */
	}
}

static void
set_typed(struct host_tensor *out, int64_t i, uint64_t v)
{
	uint32_t low = (uint32_t)v;
	float f;

	switch (out->type) {
	case DT_f32:
		memcpy(&f, &low, sizeof(f));
		elem_set(DT_f32, out->data, i, f);
		break;
	case DT_f64:
	case DT_i64:
	case DT_u64:
		memcpy((char *)out->data + i * 8, &v, 8);
		break;
	case DT_f16:
	case DT_bf16:
		memcpy((char *)out->data + i * 2, &(uint16_t){(uint16_t)v}, 2);
		break;
	default:
		elem_set_int(out->type, out->data, i, (int64_t)v);
	}
}

static bool
fill(const struct tensor_text *t, struct host_tensor *out, struct err *e)
{
	int64_t n = shape_count(&out->shape);

	if (t->has_raw) {
		if (t->raw.n != out->n_bytes)
			return err_set(e, ERR_FORMAT, "holds %zu bytes of elements, and its shape needs %zu",
			    t->raw.n, out->n_bytes);
		if (t->raw.n)
			memcpy(out->data, t->raw.p, t->raw.n);
		return true;
	}
	if ((int64_t)t->n_values != n)
		return err_set(
		    e, ERR_FORMAT, "holds %u elements, and its shape needs %lld", t->n_values, (long long)n);
	for (int64_t i = 0; i < n; i++)
		set_typed(out, i, t->values[i]);
	return true;
}

bool
pb_parse(struct arena *a, struct bytes file, struct host_tensor *out, struct err *e)
{
	struct tensor_text t = {0};
	struct wire r = wire_make(file);
	struct wire_field f;
	enum dtype type;
	size_t n_bytes;

	while (wire_next(&r, &f))
		take_field(a, &t, &f, &r);
	if (r.bad)
		return err_set(e, ERR_FORMAT, "is no ONNX tensor, or it is damaged");
	if (t.is_external)
		return err_set(e, ERR_FORMAT, "keeps its data in another file; store it inside");
	if (t.has_strings || t.onnx_type < 0 || t.onnx_type > 1000 || !dtype_of_onnx((int)t.onnx_type, &type))
		return err_set(
		    e, ERR_FORMAT, "has ONNX element type %lld, which no plan knows", (long long)t.onnx_type);
	/* Compared before memory is taken: a file of ten bytes may claim any shape. */
	if (!shape_bytes(&t.shape, type, &n_bytes) ||
	    n_bytes / dtype_size(type) != (t.has_raw ? t.raw.n / dtype_size(type) : t.n_values))
		return err_set(e, ERR_FORMAT, "does not hold as many elements as its shape needs");
	if (!host_tensor_make(a, type, &t.shape, out, e))
		return false;
	out->name = str_of(str_dup(a, t.name));
	return fill(&t, out, e);
}

bool
pb_read(struct arena *a, const char *path, struct host_tensor *out, struct err *e)
{
	struct bytes file;

	if (!os_read_file(os_real(), a, path, host_max_bytes, &file, e))
		return false;
	return pb_parse(a, file, out, e) || err_in(e, "%s", path);
}
