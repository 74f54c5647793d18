/* proto/unpack.c: a sticky reader: after the first bad byte every read yields zero, and one
 * check at the end suffices.  msgpack-c's own reader allocates by the count that a message
 * claims; this one believes nothing beyond the bytes that are there, and has a budget for what
 * records and lists may take in memory. */
#include "msg_int.h"

#include <string.h>

enum { MAX_DEPTH = 8, SKIP_DEPTH = 16, UNPACK_GROWTH = 64 << 20 };

struct reader {
	const uint8_t *p, *end;
	struct arena *a;
	size_t budget;   /* arena bytes that may still be taken */
	const char *bad; /* what is wrong; NULL: nothing so far */
};

static void
spoil(struct reader *r, const char *why)
{
	if (!r->bad)
		r->bad = why;
	r->p = r->end;
}

static uint64_t
take_be(struct reader *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < n) {
		spoil(r, "cut off");
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		v = v << 8 | r->p[i];
	r->p += n;
	return v;
}

/* The head of a msgpack value: what it is, and its number or length. */
enum head {
	HEAD_NIL,
	HEAD_BOOL,
	HEAD_UINT,
	HEAD_INT,
	HEAD_REAL,
	HEAD_STR,
	HEAD_BIN,
	HEAD_ARRAY,
	HEAD_MAP,
	HEAD_EXT
};
struct value {
	enum head head;
	uint64_t n;
	double real;
};

static double
float_of_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return (double)f;
}

static double
double_of_bits(uint64_t bits)
{
	double f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static struct value
take_signed(struct reader *r, size_t n)
{
	uint64_t v = take_be(r, n);

	if (n < 8 && v >> (8 * n - 1))
		v |= ~(uint64_t)0 << (8 * n);
	return (struct value){(int64_t)v < 0 ? HEAD_INT : HEAD_UINT, v, 0};
}

static struct value
take_head(struct reader *r)
{
	uint8_t b = (uint8_t)take_be(r, 1);

	if (b < 0x80)
		return (struct value){HEAD_UINT, b, 0};
	if (b < 0x90)
		return (struct value){HEAD_MAP, b & 15u, 0};
	if (b < 0xa0)
		return (struct value){HEAD_ARRAY, b & 15u, 0};
	if (b < 0xc0)
		return (struct value){HEAD_STR, b & 31u, 0};
	if (b >= 0xe0)
		return (struct value){HEAD_INT, (uint64_t)(int64_t)(int8_t)b, 0};
	switch (b) {
	case 0xc0:
		return (struct value){HEAD_NIL, 0, 0};
	case 0xc2:
	case 0xc3:
		return (struct value){HEAD_BOOL, b & 1u, 0};
	case 0xc4:
	case 0xc5:
	case 0xc6:
		return (struct value){HEAD_BIN, take_be(r, (size_t)1 << (b - 0xc4)), 0};
	case 0xc7:
	case 0xc8:
	case 0xc9:
		return (struct value){HEAD_EXT, take_be(r, (size_t)1 << (b - 0xc7)) + 1, 0};
	case 0xca:
		return (struct value){HEAD_REAL, 0, float_of_bits((uint32_t)take_be(r, 4))};
	case 0xcb:
		return (struct value){HEAD_REAL, 0, double_of_bits(take_be(r, 8))};
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xcf:
		return (struct value){HEAD_UINT, take_be(r, (size_t)1 << (b - 0xcc)), 0};
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
		return take_signed(r, (size_t)1 << (b - 0xd0));
	case 0xd4:
	case 0xd5:
	case 0xd6:
	case 0xd7:
	case 0xd8:
		return (struct value){HEAD_EXT, ((uint64_t)1 << (b - 0xd4)) + 1, 0};
	case 0xd9:
	case 0xda:
	case 0xdb:
		return (struct value){HEAD_STR, take_be(r, (size_t)1 << (b - 0xd9)), 0};
	case 0xdc:
	case 0xdd:
		return (struct value){HEAD_ARRAY, take_be(r, (size_t)2 << (b - 0xdc)), 0};
	case 0xde:
	case 0xdf:
		return (struct value){HEAD_MAP, take_be(r, (size_t)2 << (b - 0xde)), 0};
	default:
		spoil(r, "not msgpack");
		return (struct value){HEAD_NIL, 0, 0};
	}
}

static const uint8_t *
take_bytes(struct reader *r, uint64_t n)
{
	const uint8_t *p = r->p;

	if (n > (uint64_t)(r->end - r->p)) {
		spoil(r, "cut off");
		return NULL;
	}
	r->p += n;
	return p;
}

/* Passes over one value of any kind. */
static void
skip_value(struct reader *r, int depth)
{
	struct value v = take_head(r);
	uint64_t n = v.n;

	if (depth > SKIP_DEPTH) {
		spoil(r, "nested too deeply");
		return;
	}
	switch (v.head) {
	case HEAD_STR:
	case HEAD_BIN:
	case HEAD_EXT:
		(void)take_bytes(r, n);
		break;
	case HEAD_MAP:
		n *= 2; /* 32-bit counts: no overflow */
			/* fallthrough */
	case HEAD_ARRAY:
		for (; n && !r->bad; n--)
			skip_value(r, depth + 1);
		break;
	case HEAD_NIL:
	case HEAD_BOOL:
	case HEAD_UINT:
	case HEAD_INT:
	case HEAD_REAL:
		break;
	}
}

static void *
take_memory(struct reader *r, uint64_t count, size_t size)
{
	size_t n;

	if (__builtin_mul_overflow((size_t)count, size, &n) || n > r->budget) {
		spoil(r, "too large once unpacked");
		return NULL;
	}
	r->budget -= n;
	return arena_alloc(r->a, MAX_OF(n, (size_t)1));
}

static uint64_t
read_u64(struct reader *r)
{
	struct value v = take_head(r);

	if (v.head != HEAD_UINT)
		spoil(r, "not a whole number");
	return r->bad ? 0 : v.n;
}

static int64_t
read_i64(struct reader *r)
{
	struct value v = take_head(r);

	if (v.head != HEAD_INT && (v.head != HEAD_UINT || v.n > INT64_MAX))
		spoil(r, "not a whole number in range");
	return r->bad ? 0 : (int64_t)v.n;
}

static double
read_f64(struct reader *r)
{
	struct value v = take_head(r);

	if (v.head == HEAD_UINT)
		v.real = (double)v.n;
	else if (v.head == HEAD_INT)
		v.real = (double)(int64_t)v.n;
	else if (v.head != HEAD_REAL)
		spoil(r, "not a number");
	return r->bad ? 0 : v.real;
}

static struct bytes
read_bytes(struct reader *r, enum head want, size_t max)
{
	struct value v = take_head(r);
	const uint8_t *p;

	if (v.head != want)
		spoil(r, want == HEAD_STR ? "not a string" : "not bytes");
	else if (v.n > max)
		spoil(r, "too long");
	p = r->bad ? NULL : take_bytes(r, v.n);
	return p ? (struct bytes){p, (size_t)v.n} : (struct bytes){(const uint8_t *)"", 0};
}

static uint32_t
read_count(struct reader *r, size_t max)
{
	struct value v = take_head(r);

	if (v.head != HEAD_ARRAY)
		spoil(r, "not a list");
	else if (v.n > max || v.n > (uint64_t)(r->end - r->p))
		spoil(r, "too many entries");
	return r->bad ? 0 : (uint32_t)v.n;
}

static void read_record(struct reader *r, const struct rec_info *info, void *p, int depth);

static void
read_list(struct reader *r, const struct field *f, void *v, uint32_t *n, int depth)
{
	uint32_t count = read_count(r, f->max);
	uint8_t *items = take_memory(r, count, f->rec->size);

	for (uint32_t i = 0; i < count && !r->bad; i++)
		read_record(r, f->rec, items + i * f->rec->size, depth + 1);
	*(void **)v = r->bad ? NULL : items;
	*n = r->bad ? 0 : count;
}

static void
read_field(struct reader *r, const struct field *f, uint8_t *p, int depth)
{
	void *v = p + f->at;
	struct bytes b;

	switch (f->kind) {
	case KIND_U64:
		*(uint64_t *)v = read_u64(r);
		break;
	case KIND_I64:
		*(int64_t *)v = read_i64(r);
		break;
	case KIND_F64:
		*(double *)v = read_f64(r);
		break;
	case KIND_BOOL: {
		struct value h = take_head(r);
		if (h.head != HEAD_BOOL)
			spoil(r, "not true or false");
		*(bool *)v = !r->bad && h.n;
		break;
	}
	case KIND_TEXT:
		b = read_bytes(r, HEAD_STR, f->max);
		*(struct str *)v = (struct str){(const char *)b.p, b.n};
		break;
	case KIND_BYTES:
		*(struct bytes *)v = read_bytes(r, HEAD_BIN, f->max);
		break;
	case KIND_HASH:
		b = read_bytes(r, HEAD_BIN, sizeof(struct hash));
		if (b.n != sizeof(struct hash))
			spoil(r, "not a digest");
		else
			memcpy(v, b.p, sizeof(struct hash));
		break;
	case KIND_REALS: {
		uint32_t n = read_count(r, f->max);
		double *x = take_memory(r, n, sizeof(*x));
		for (uint32_t i = 0; i < n && !r->bad; i++)
			x[i] = read_f64(r);
		*(double **)v = r->bad ? NULL : x;
		*(uint32_t *)(void *)(p + f->at_n) = r->bad ? 0 : n;
		break;
	}
	case KIND_ONE:
		read_record(r, f->rec, v, depth + 1);
		break;
	case KIND_LIST:
		read_list(r, f, v, (uint32_t *)(void *)(p + f->at_n), depth);
		break;
	}
}

static const struct field *
find_field(const struct rec_info *info, uint64_t tag)
{
	for (const struct field *f = info->fields(); f->tag; f++)
		if (f->tag == tag)
			return f;
	return NULL;
}

/* Unset strings must be printable too. */
static void
fill_empty(const struct rec_info *info, uint8_t *p)
{
	memset(p, 0, info->size);
	for (const struct field *f = info->fields(); f->tag; f++) {
		if (f->kind == KIND_TEXT)
			((struct str *)(void *)(p + f->at))->p = "";
		else if (f->kind == KIND_ONE)
			fill_empty(f->rec, p + f->at);
	}
}

/* A tag that comes twice: the later one holds; harmless, as every read overwrites whole. */
static void
read_record(struct reader *r, const struct rec_info *info, void *p, int depth)
{
	struct value v = take_head(r);

	fill_empty(info, p);
	if (v.head != HEAD_MAP || depth > MAX_DEPTH) {
		spoil(r, depth > MAX_DEPTH ? "nested too deeply" : "not a record");
		return;
	}
	for (uint64_t i = 0; i < v.n && !r->bad; i++) {
		const struct field *f = find_field(info, read_u64(r));

		if (r->bad)
			return;
		if (f)
			read_field(r, f, p, depth);
		else
			skip_value(r, 0);
		if (r->bad && f && !strchr(r->bad, '.'))
			r->bad = arena_printf(r->a, "%s.%s: %s", info->name, f->name, r->bad);
	}
}

static struct reader
reader_start(struct arena *a, struct bytes in)
{
	return (struct reader){in.p, in.p + in.n, a, ck_add(UNPACK_GROWTH, ck_mul(in.n, 4)), NULL};
}

bool
msg_unpack(struct arena *a, struct bytes in, struct msg *m, struct err *e)
{
	struct reader r = reader_start(a, in);
	const struct rec_info *info;
	struct value head;
	int64_t number;

	memset(m, 0, sizeof(*m));
	if (in.n == 0)
		return err_set(e, ERR_PROTO, "an empty message");
	head = take_head(&r);
	if (head.head != HEAD_ARRAY || head.n < 4)
		spoil(&r, "not a message");
	number = read_i64(&r);
	m->id = read_u64(&r);
	m->session = read_u64(&r);
	info = rec_of_number(number);
	if (!r.bad && !info)
		return err_set(e, ERR_PROTO, "message number %lld is not known here", (long long)number);
	if (!r.bad) {
		m->type = (enum msg_type)number;
		read_record(&r, info, msg_body(m), 0);
	}
	for (uint64_t i = 4; i < head.n && !r.bad; i++)
		skip_value(&r, 0);
	if (!r.bad && r.p != r.end)
		spoil(&r, "bytes left over");
	return !r.bad || err_set(e, ERR_PROTO, "a broken message: %s", r.bad);
}

bool
rec_unpack(struct arena *a, const char *record, struct bytes in, void *p, struct err *e)
{
	struct reader r = reader_start(a, in);

	read_record(&r, rec_of_name(record), p, 0);
	if (!r.bad && r.p != r.end)
		spoil(&r, "bytes left over");
	return !r.bad || err_set(e, ERR_PROTO, "a broken record: %s", r.bad);
}
