/* proto/json.c: messages and records as JSON, and deep copies, by the table. */
#include "msg_int.h"

#include <math.h>
#include <string.h>

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
		add_hex(sb, v, field_is_zero(f, p) ? 0 : sizeof(struct hash));
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
	const struct field *first = r->fields();

	sb_addc(sb, '{');
	for (const struct field *f = first; f->tag; f++) {
		sb_addf(sb, "%s\"%s\":", f == first ? "" : ",", f->name);
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
