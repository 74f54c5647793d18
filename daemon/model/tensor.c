/* daemon/model/tensor.c: TensorProto to a dense array in host order, from typed fields, raw
 * bytes, or a file beside the model.  Every size is checked against the shape before it is used. */
#include "model_int.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct external_file {
	struct external_file *next;
	const char *location;
	struct bytes data;
};

const char *
onnx_type_name(int type)
{
	static const char *const names[] = {"undefined", "float", "uint8", "int8", "uint16", "int16", "int32",
	    "int64", "string", "bool", "float16", "double", "uint32", "uint64", "complex64", "complex128",
	    "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4",
	    "float4e2m1", "float8e8m0", "uint2", "int2"};

	return type >= 0 && (size_t)type < COUNT_OF(names) ? names[type] : "unknown";
}

/* One element of a typed field, by the rules of onnx.proto: which field holds which type. */
enum field { FIELD_FLOAT, FIELD_INT32, FIELD_INT64, FIELD_DOUBLE, FIELD_UINT64 };
static const struct {
	enum field field;
} field_of[DT_COUNT] = {
    [DT_f32] = {FIELD_FLOAT},
    [DT_f64] = {FIELD_DOUBLE},
    [DT_i64] = {FIELD_INT64},
    [DT_u32] = {FIELD_UINT64},
    [DT_u64] = {FIELD_UINT64},
    [DT_i32] = {FIELD_INT32},
    [DT_u8] = {FIELD_INT32},
    [DT_i8] = {FIELD_INT32},
    [DT_u16] = {FIELD_INT32},
    [DT_i16] = {FIELD_INT32},
    [DT_bool] = {FIELD_INT32},
    [DT_f16] = {FIELD_INT32},
    [DT_bf16] = {FIELD_INT32},
};

static size_t
typed_count(const Onnx__TensorProto *p, enum field f)
{
	switch (f) {
	case FIELD_FLOAT:
		return p->n_float_data;
	case FIELD_INT32:
		return p->n_int32_data;
	case FIELD_INT64:
		return p->n_int64_data;
	case FIELD_DOUBLE:
		return p->n_double_data;
	case FIELD_UINT64:
		return p->n_uint64_data;
	}
	return 0;
}

/* The low bytes of an integer; the host is little-endian (checked by the build). */
static void
store_low(void *to, uint64_t v, size_t n)
{
	memcpy(to, &v, n);
}

static bool
decode_typed(const Onnx__TensorProto *p, const struct model_tensor *t, void *data, struct err *e)
{
	enum field f = field_of[t->type].field;
	size_t n = typed_count(p, f), want = (size_t)shape_count(&t->shape), size = dtype_size(t->type);

	if (n != want)
		return err_set(e, ERR_MODEL, "it has %zu values in its %s field where its shape needs %zu", n,
		    f == FIELD_FLOAT        ? "float_data"
			: f == FIELD_INT32  ? "int32_data"
			: f == FIELD_INT64  ? "int64_data"
			: f == FIELD_DOUBLE ? "double_data"
					    : "uint64_data",
		    want);
	for (size_t i = 0; i < n; i++) {
		uint8_t *to = (uint8_t *)data + i * size;
		switch (f) {
		case FIELD_FLOAT:
			memcpy(to, &p->float_data[i], size);
			break;
		case FIELD_DOUBLE:
			memcpy(to, &p->double_data[i], size);
			break;
		case FIELD_INT64:
			memcpy(to, &p->int64_data[i], size);
			break;
		case FIELD_UINT64:
			store_low(to, p->uint64_data[i], size);
			break;
		case FIELD_INT32:
			store_low(to, (uint64_t)(int64_t)p->int32_data[i], size);
			break;
		}
	}
	return true;
}

static const char *
external_key(const Onnx__TensorProto *p, const char *key)
{
	for (size_t i = 0; i < p->n_external_data; i++) {
		const Onnx__StringStringEntryProto *s = p->external_data[i];
		if (s->key && s->value && strcmp(s->key, key) == 0)
			return s->value;
	}
	return NULL;
}

/* Relative, and no step upwards. */
static bool
is_inside(const char *location)
{
	struct str rest = str_of(location);

	if (rest.n == 0 || rest.p[0] == '/')
		return false;
	while (rest.n > 0)
		if (str_is(str_cut(&rest, '/'), ".."))
			return false;
	return true;
}

/* Symbolic links count as what they point to. */
static bool
resolve_inside(struct arena *a, const char *dir, const char *location, const char **path, struct err *e)
{
	char real_dir[PATH_MAX], real[PATH_MAX];
	const char *joined = arena_printf(a, "%s/%s", dir[0] ? dir : ".", location);

	if (!realpath(dir[0] ? dir : ".", real_dir) || !realpath(joined, real))
		return err_set(
		    e, ERR_MODEL, "its external data '%s' does not exist beside the model", location);
	size_t n = strlen(real_dir);
	if (n > 1 && (strncmp(real, real_dir, n) != 0 || real[n] != '/'))
		return err_set(
		    e, ERR_MODEL, "its external data '%s' lies outside the model's folder", location);
	*path = arena_dup(a, real, strlen(real) + 1);
	return true;
}

static bool
external_load(
    struct arena *a, struct tensor_source *src, const char *location, struct bytes *out, struct err *e)
{
	const char *path;

	for (const struct external_file *f = src->external; f; f = f->next)
		if (strcmp(f->location, location) == 0) {
			*out = f->data;
			return true;
		}
	if (!resolve_inside(a, src->dir, location, &path, e) ||
	    !os_read_file(os_real(), a, path, src->max_bytes, out, e))
		return false;
	struct external_file *f = NEW(a, struct external_file);
	*f = (struct external_file){src->external, location, *out};
	src->external = f;
	return true;
}

static bool
external_number(const Onnx__TensorProto *p, const char *key, int64_t otherwise, int64_t *out, struct err *e)
{
	const char *s = external_key(p, key);

	*out = otherwise;
	if (s && (!str_to_i64(str_of(s), out) || *out < 0))
		return err_set(e, ERR_MODEL, "its external %s '%s' is no number", key, s);
	return true;
}

static bool
external_bytes(struct arena *a, const Onnx__TensorProto *p, struct tensor_source *src, size_t want,
    struct bytes *out, struct err *e)
{
	const char *location = external_key(p, "location");
	struct bytes file;
	int64_t offset, length;

	if (!location)
		return err_set(e, ERR_MODEL, "its external data has no location");
	if (!src->dir)
		return err_set(
		    e, ERR_MODEL, "it has external data ('%s'), which cannot be read here", location);
	if (!is_inside(location))
		return err_set(
		    e, ERR_MODEL, "its external data '%s' lies outside the model's folder", location);
	if (!external_number(p, "offset", 0, &offset, e) ||
	    !external_number(p, "length", ck_i64(want), &length, e) ||
	    !external_load(a, src, location, &file, e))
		return false;
	if (ck_size(length) != want)
		return err_set(e, ERR_MODEL, "its external length is %lld bytes where its shape needs %zu",
		    (long long)length, want);
	if (ck_size(offset) > file.n || want > file.n - ck_size(offset))
		return err_set(e, ERR_MODEL,
		    "its external data (%zu bytes at %lld) lies outside '%s' of %zu bytes", want,
		    (long long)offset, location, file.n);
	*out = (struct bytes){file.p + offset, want};
	return true;
}

static bool
raw_bytes(const Onnx__TensorProto *p, const struct tensor_source *src, size_t want, struct bytes *out,
    struct err *e)
{
	struct raw_place place;

	if (p->raw_data.len != sizeof(place))
		bug("raw_data is not a place");
	memcpy(&place, p->raw_data.data, sizeof(place));
	if (place.at > src->file.n || place.n_bytes > src->file.n - place.at)
		bug("raw_data lies outside the file");
	if (place.n_bytes != want)
		return err_set(e, ERR_MODEL, "it has %llu raw bytes where its shape needs %zu",
		    (unsigned long long)place.n_bytes, want);
	*out = (struct bytes){src->file.p + place.at, want};
	return true;
}

static bool
decode_shape(const Onnx__TensorProto *p, struct model_tensor *t, struct err *e)
{
	int type = p->has_data_type ? p->data_type : 0;

	if (!dtype_of_onnx(type, &t->type))
		return err_set(e, ERR_MODEL, "its type %s (%d) is not supported", onnx_type_name(type), type);
	if (p->n_dims > MAX_RANK)
		return err_set(e, ERR_MODEL, "it has %zu dimensions; supported are %d", p->n_dims, MAX_RANK);
	t->shape.rank = (int)p->n_dims;
	for (size_t i = 0; i < p->n_dims; i++) {
		if (p->dims[i] < 0)
			return err_set(e, ERR_MODEL, "its dimension %zu is negative", i);
		t->shape.dim[i] = p->dims[i];
	}
	return true;
}

static bool
decode_data(struct arena *a, const Onnx__TensorProto *p, struct tensor_source *src, struct model_tensor *t,
    struct err *e)
{
	bool is_external =
	    p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
	struct bytes from = {0};

	if (is_external && !external_bytes(a, p, src, t->n_bytes, &from, e))
		return false;
	if (!is_external && p->has_raw_data && !raw_bytes(p, src, t->n_bytes, &from, e))
		return false;
	if (!is_external && !p->has_raw_data &&
	    typed_count(p, field_of[t->type].field) != ck_size(shape_count(&t->shape)))
		return decode_typed(p, t, NULL, e);
	uint8_t *data = arena_alloc(a, t->n_bytes);
	t->data = data;
	if (is_external || p->has_raw_data) {
		if (t->n_bytes > 0)
			memcpy(data, from.p, t->n_bytes);
	} else if (!decode_typed(p, t, data, e)) {
		return false;
	}
	for (size_t i = 0; t->type == DT_bool && i < t->n_bytes; i++)
		data[i] = data[i] != 0;
	return true;
}

bool
tensor_decode(struct arena *a, const Onnx__TensorProto *p, struct tensor_source *src, struct model_tensor *t,
    struct err *e)
{
	const char *name = p->name ? p->name : "";

	*t = (struct model_tensor){0};
	if (p->segment)
		return err_set(e, ERR_MODEL, "tensor '%s' is split into segments; not supported", name);
	if (!decode_shape(p, t, e))
		return err_in(e, "tensor '%s'", name);
	if (!shape_bytes(&t->shape, t->type, &t->n_bytes) || t->n_bytes > src->max_bytes - src->n_bytes)
		return err_set(e, ERR_LIMIT, "tensor '%s': with it the tensors have more than %zu bytes",
		    name, src->max_bytes);
	src->n_bytes += t->n_bytes;
	if (!decode_data(a, p, src, t, e))
		return err_in(e, "tensor '%s'", name);
	return true;
}

bool
model_tensor_read(struct arena *a, struct bytes pb, struct model_tensor *out, struct err *e)
{
	struct tensor_source src = {.file = pb, .max_bytes = model_limits_default.max_tensor_bytes};
	struct arena tmp = {0};
	struct bytes skeleton;

	if (!skeleton_make(&onnx__tensor_proto__descriptor, pb, "tensor file", &skeleton, e))
		return false;
	ProtobufCAllocator al = arena_allocator(&tmp);
	Onnx__TensorProto *p = onnx__tensor_proto__unpack(&al, skeleton.n, skeleton.p);
	bool ok = p ? tensor_decode(a, p, &src, out, e)
		    : err_set(e, ERR_MODEL, "not an ONNX tensor file: its fields do not decode");
	arena_fini(&tmp);
	free((void *)(uintptr_t)skeleton.p);
	return ok;
}
