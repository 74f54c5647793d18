/* proto/json.c: messages and records as JSON, and deep copies, by the table. */
#include "msg_int.h"

#include <math.h>
#include <string.h>

/* Length of the UTF-8 sequence at p, 0 if it is none. */
static size_t
utf8_length(const uint8_t *p, size_t n)
{
	size_t want = p[0] < 0x80         ? 1
	    : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
	    : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
	    : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
					  : 0;

	if (want == 0 || want > n)
		return 0;
	for (size_t i = 1; i < want; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return want;
}

void
json_text(struct strbuf *sb, struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p;

	sb_addc(sb, '"');
	for (size_t i = 0; i < s.n;) {
		size_t n = utf8_length(p + i, s.n - i);

		if (n == 0) {
			sb_addz(sb, "\xef\xbf\xbd");
			n = 1;
		} else if (p[i] == '"' || p[i] == '\\')
			sb_addf(sb, "\\%c", p[i]);
		else if (p[i] == '\n')
			sb_addz(sb, "\\n");
		else if (p[i] < 0x20 || p[i] == 0x7f)
			sb_addf(sb, "\\u%04x", (unsigned)p[i]);
		else
			sb_add(sb, (struct str){s.p + i, n});
		i += n;
	}
	sb_addc(sb, '"');
}

static void
add_hex(struct strbuf *sb, const uint8_t *p, size_t n)
{
	sb_addc(sb, '"');
	for (size_t i = 0; i < n; i++)
		sb_addf(sb, "%02x", (unsigned)p[i]);
	sb_addc(sb, '"');
}

static void
add_real(struct strbuf *sb, double v)
{
	if (isfinite(v))
		sb_addf(sb, "%.17g", v);
	else
		sb_addz(sb, "null");
}

static void print_record(struct strbuf *sb, const struct rec_info *r, const void *p);

static void
print_field(struct strbuf *sb, const struct field *f, const uint8_t *p)
{
	const void *v = p + f->at;
	uint32_t n = f->at_n ? *(const uint32_t *)(const void *)(p + f->at_n) : 0;

	switch (f->kind) {
	case KIND_U64:
		sb_addf(sb, "%llu", (unsigned long long)*(const uint64_t *)v);
		break;
	case KIND_I64:
		sb_addf(sb, "%lld", (long long)*(const int64_t *)v);
		break;
	case KIND_F64:
		add_real(sb, *(const double *)v);
		break;
	case KIND_BOOL:
		sb_addz(sb, *(const bool *)v ? "true" : "false");
		break;
	case KIND_TEXT:
		json_text(sb, *(const struct str *)v);
		break;
	case KIND_BYTES:
		add_hex(sb, ((const struct bytes *)v)->p, ((const struct bytes *)v)->n);
		break;
	case KIND_HASH:
		add_hex(sb, v, sizeof(struct hash));
		break;
	case KIND_REALS:
	case KIND_LIST:
		sb_addc(sb, '[');
		for (uint32_t i = 0; i < n; i++) {
			if (i)
				sb_addc(sb, ',');
			if (f->kind == KIND_REALS)
				add_real(sb, (*(double *const *)v)[i]);
			else
				print_record(sb, f->rec, *(const uint8_t *const *)v + i * f->rec->size);
		}
		sb_addc(sb, ']');
		break;
	case KIND_ONE:
		print_record(sb, f->rec, v);
		break;
	}
}

static void
print_record(struct strbuf *sb, const struct rec_info *r, const void *p)
{
	bool is_first = true;

	sb_addc(sb, '{');
	for (const struct field *f = r->fields(); f->tag; f++) {
		if (field_is_zero(f, p))
			continue;
		sb_addf(sb, "%s\"%s\":", is_first ? "" : ",", f->name);
		is_first = false;
		print_field(sb, f, p);
	}
	sb_addc(sb, '}');
}

void
rec_json(struct strbuf *sb, const char *record, const void *p)
{
	print_record(sb, rec_of_name(record), p);
}

void
msg_json(struct strbuf *sb, const struct msg *m)
{
	print_record(sb, rec_of_number((int64_t)m->type), msg_body_const(m));
}

static void
own_record(struct arena *a, const struct rec_info *r, uint8_t *p)
{
	for (const struct field *f = r->fields(); f->tag; f++) {
		void *v = p + f->at;
		uint32_t n = f->at_n ? *(uint32_t *)(void *)(p + f->at_n) : 0;

		if (f->kind == KIND_TEXT)
			((struct str *)v)->p = str_dup(a, *(struct str *)v);
		else if (f->kind == KIND_BYTES)
			((struct bytes *)v)->p = arena_dup(a, ((struct bytes *)v)->p, ((struct bytes *)v)->n);
		else if (f->kind == KIND_REALS)
			*(void **)v = arena_dup(a, *(void **)v, ck_mul(n, sizeof(double)));
		else if (f->kind == KIND_ONE)
			own_record(a, f->rec, v);
		else if (f->kind == KIND_LIST) {
			uint8_t *items = arena_dup(a, *(void **)v, ck_mul(n, f->rec->size));

			for (uint32_t i = 0; i < n; i++)
				own_record(a, f->rec, items + i * f->rec->size);
			*(void **)v = items;
		}
	}
}

void
msg_dup(struct arena *a, const struct msg *m, struct msg *out)
{
	*out = *m;
	own_record(a, rec_of_number((int64_t)m->type), msg_body(out));
}

void
rec_dup(struct arena *a, const char *record, void *p)
{
	own_record(a, rec_of_name(record), p);
}
