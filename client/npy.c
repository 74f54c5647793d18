/* client/npy.c: numpy's array files.  "\x93NUMPY", two version bytes, the length of a header
 * (two bytes, four from version 2), the header, a Python dictionary with descr, fortran_order
 * and shape in any order, then the elements. */
#include "host_tensor.h"

#include <string.h>

enum { MAX_HEADER = 1 << 16, MAGIC_BYTES = 6 };
static const char magic[] = "\x93NUMPY";

/* numpy's letter and size for each type; bf16 has none. */
static const struct {
	enum dtype type;
	const char *code;
} codes[] = {
    {DT_f32, "f4"},
    {DT_f64, "f8"},
    {DT_f16, "f2"},
    {DT_bool, "b1"},
    {DT_i8, "i1"},
    {DT_i16, "i2"},
    {DT_i32, "i4"},
    {DT_i64, "i8"},
    {DT_u8, "u1"},
    {DT_u16, "u2"},
    {DT_u32, "u4"},
    {DT_u64, "u8"},
};

struct header {
	enum dtype type;
	bool is_big, is_fortran;
	struct shape shape;
};

/* What stands behind 'key': in the dictionary; empty where it is missing. */
static struct str
value_of(struct str dict, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i + n + 2 < dict.n; i++) {
		char q = dict.p[i];
		struct str rest = {dict.p + i + n + 2, dict.n - i - n - 2};

		if ((q != '\'' && q != '"') || memcmp(dict.p + i + 1, key, n) != 0 || dict.p[i + n + 1] != q)
			continue;
		rest = str_trim(rest);
		if (rest.n && rest.p[0] == ':')
			return str_trim((struct str){rest.p + 1, rest.n - 1});
	}
	return (struct str){"", 0};
}

static bool
read_descr(struct str v, struct header *h, struct err *e)
{
	struct str code = v, quoted;

	if (v.n < 5 || (v.p[0] != '\'' && v.p[0] != '"'))
		return err_set(e, ERR_FORMAT, "its header has no element type");
	quoted = (struct str){v.p + 1, v.n - 1};
	code = str_cut(&quoted, v.p[0]);
	if (code.n == 3 && strchr("<>|=", code.p[0])) {
		h->is_big = code.p[0] == '>';
		code = (struct str){code.p + 1, 2};
	}
	for (size_t i = 0; i < COUNT_OF(codes); i++)
		if (str_is(code, codes[i].code)) {
			h->type = codes[i].type;
			return true;
		}
	return err_set(e, ERR_FORMAT, "elements of type \"%.*s\" are not supported; convert it to float32",
	    (int)MIN_OF(code.n, (size_t)32), code.p);
}

static bool
read_shape(struct str v, struct header *h, struct err *e)
{
	struct str rest;

	if (!v.n || v.p[0] != '(' || !memchr(v.p, ')', v.n))
		return err_set(e, ERR_FORMAT, "its header has no shape");
	rest = (struct str){v.p + 1, (size_t)((const char *)memchr(v.p, ')', v.n) - v.p) - 1};
	while (str_trim(rest).n) {
		struct str part = str_trim(str_cut(&rest, ','));

		if (h->shape.rank == MAX_RANK)
			return err_set(e, ERR_LIMIT, "more than %d dimensions", MAX_RANK);
		if (!str_to_i64(part, &h->shape.dim[h->shape.rank]) || h->shape.dim[h->shape.rank] < 0)
			return err_set(e, ERR_FORMAT, "its shape is no list of numbers");
		h->shape.rank++;
	}
	return true;
}

static bool
read_header(struct bytes file, struct header *h, struct bytes *data, struct err *e)
{
	size_t at = 8, n;
	struct str dict;

	if (file.n < 10 || memcmp(file.p, magic, MAGIC_BYTES) != 0)
		return err_set(e, ERR_FORMAT, "is no .npy file");
	n = (size_t)(file.p[8] | file.p[9] << 8);
	at = 10;
	if (file.p[6] >= 2) {
		if (file.n < 12)
			return err_set(e, ERR_FORMAT, "is cut short");
		n |= (size_t)file.p[10] << 16 | (size_t)file.p[11] << 24;
		at = 12;
	}
	if (file.p[6] < 1 || file.p[6] > 3)
		return err_set(e, ERR_FORMAT, "has format %d; 1, 2 and 3 are known", file.p[6]);
	if (n > MAX_HEADER || n > file.n - at)
		return err_set(e, ERR_FORMAT, "its header is cut short");
	dict = (struct str){(const char *)file.p + at, n};
	h->is_fortran = str_starts(value_of(dict, "fortran_order"), "True");
	*data = (struct bytes){file.p + at + n, file.n - at - n};
	return read_descr(value_of(dict, "descr"), h, e) && read_shape(value_of(dict, "shape"), h, e);
}

static void
swap_bytes(struct host_tensor *t)
{
	size_t size = dtype_size(t->type);
	uint8_t *p = t->data;

	for (size_t at = 0; at < t->n_bytes; at += size)
		for (size_t i = 0; i < size / 2; i++) {
			uint8_t b = p[at + i];

			p[at + i] = p[at + size - 1 - i];
			p[at + size - 1 - i] = b;
		}
}

/* Columns first -> rows first. */
static void
from_fortran(struct host_tensor *t, const uint8_t *from)
{
	int64_t n = shape_count(&t->shape), step[MAX_RANK], at[MAX_RANK] = {0}, source = 0;
	size_t size = dtype_size(t->type);

	for (int d = 0; d < t->shape.rank; d++)
		step[d] = d ? step[d - 1] * t->shape.dim[d - 1] : 1;
	for (int64_t i = 0; i < n; i++) {
		memcpy((uint8_t *)t->data + (size_t)i * size, from + (size_t)source * size, size);
		for (int d = t->shape.rank - 1; d >= 0; d--) {
			source += step[d];
			if (++at[d] < t->shape.dim[d])
				break;
			source -= step[d] * t->shape.dim[d];
			at[d] = 0;
		}
	}
}

bool
npy_parse(struct arena *a, struct bytes file, struct host_tensor *out, struct err *e)
{
	struct header h = {.type = DT_f32};
	struct bytes data;

	if (!read_header(file, &h, &data, e))
		return false;
	/* The size is compared before memory is taken: a header may ask for anything. */
	size_t n_bytes;

	if (!shape_bytes(&h.shape, h.type, &n_bytes) || n_bytes != data.n)
		return err_set(
		    e, ERR_FORMAT, "holds %zu bytes of elements, which is not what its shape needs", data.n);
	if (!host_tensor_make(a, h.type, &h.shape, out, e))
		return false;
	if (h.is_fortran && h.shape.rank > 1)
		from_fortran(out, data.p);
	else if (n_bytes)
		memcpy(out->data, data.p, n_bytes);
	if (h.is_big)
		swap_bytes(out);
	return true;
}

bool
npy_read(struct arena *a, const char *path, struct host_tensor *out, struct err *e)
{
	struct bytes file;

	if (!os_read_file(os_real(), a, path, host_max_bytes, &file, e))
		return false;
	return npy_parse(a, file, out, e) || err_in(e, "%s", path);
}

static const char *
code_of(enum dtype t)
{
	for (size_t i = 0; i < COUNT_OF(codes); i++)
		if (codes[i].type == t)
			return codes[i].code;
	return "u2";
}

bool
npy_write(const char *path, const struct host_tensor *t, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	size_t head;
	bool ok;

	sb_init(&sb, &tmp);
	sb_addf(&sb, "{'descr': '%s%s', 'fortran_order': False, 'shape': (",
	    dtype_size(t->type) > 1 ? "<" : "|", code_of(t->type));
	for (int i = 0; i < t->shape.rank; i++)
		sb_addf(&sb, "%lld,%s", (long long)t->shape.dim[i], i + 1 < t->shape.rank ? " " : "");
	sb_addz(&sb, "), }");
	/* The elements start at a multiple of 64; the header ends with a line feed. */
	while ((10 + sb.n + 1) % 64)
		sb_addc(&sb, ' ');
	sb_addc(&sb, '\n');
	head = sb.n;

	uint8_t *file = arena_alloc(&tmp, 10 + head + t->n_bytes);

	memcpy(file, magic, MAGIC_BYTES);
	file[6] = 1;
	file[8] = (uint8_t)(head & 255);
	file[9] = (uint8_t)(head >> 8);
	memcpy(file + 10, sb.p, head);
	if (t->n_bytes)
		memcpy(file + 10 + head, t->data, t->n_bytes);
	ok = os_write_file(os_real(), path, (struct bytes){file, 10 + head + t->n_bytes}, e);
	arena_fini(&tmp);
	return ok;
}
