/* proto/pack.c: packs messages by the table.  On the wire a message is the msgpack array
 * [number, id, session, {tag: value, ...}]; a record is a map {tag: value} without zero fields. */
#include "msg_int.h"

#include <msgpack.h>

/* strbuf is the sink; `err` is set once, by the first field over its limit. */
struct writer {
	struct strbuf sb;
	msgpack_packer pk;
	struct err *e;
	bool bad;
};

static int
write_bytes(void *to, const char *p, size_t n)
{
	sb_add(to, (struct str){p, n});
	return 0;
}

static void
over_limit(struct writer *w, const struct rec_info *r, const struct field *f, size_t n)
{
	if (!w->bad)
		(void)err_set(
		    w->e, ERR_LIMIT, "%s.%s: %zu is over the limit of %zu", r->name, f->name, n, f->max);
	w->bad = true;
}

static void write_record(struct writer *w, const struct rec_info *r, const void *p);

static void
write_field(struct writer *w, const struct rec_info *r, const struct field *f, const uint8_t *p)
{
	const void *v = p + f->at;
	size_t n = f->at_n ? *(const uint32_t *)(const void *)(p + f->at_n) : 0;
	msgpack_packer *pk = &w->pk;

	if (f->kind == KIND_TEXT || f->kind == KIND_BYTES)
		n = ((const struct bytes *)v)->n;
	if (n > f->max && f->max) {
		over_limit(w, r, f, n);
		return;
	}
	switch (f->kind) {
	case KIND_U64:
		msgpack_pack_uint64(pk, *(const uint64_t *)v);
		break;
	case KIND_I64:
		msgpack_pack_int64(pk, *(const int64_t *)v);
		break;
	case KIND_F64:
		msgpack_pack_double(pk, *(const double *)v);
		break;
	case KIND_BOOL:
		msgpack_pack_true(pk);
		break;
	case KIND_TEXT:
		msgpack_pack_str(pk, n);
		msgpack_pack_str_body(pk, ((const struct str *)v)->p, n);
		break;
	case KIND_BYTES:
		msgpack_pack_bin(pk, n);
		msgpack_pack_bin_body(pk, ((const struct bytes *)v)->p, n);
		break;
	case KIND_HASH:
		msgpack_pack_bin(pk, sizeof(struct hash));
		msgpack_pack_bin_body(pk, v, sizeof(struct hash));
		break;
	case KIND_REALS:
		msgpack_pack_array(pk, n);
		for (size_t i = 0; i < n; i++)
			msgpack_pack_double(pk, (*(double *const *)v)[i]);
		break;
	case KIND_ONE:
		write_record(w, f->rec, v);
		break;
	case KIND_LIST:
		msgpack_pack_array(pk, n);
		for (size_t i = 0; i < n; i++)
			write_record(w, f->rec, *(const uint8_t *const *)v + i * f->rec->size);
		break;
	}
}

static void
write_record(struct writer *w, const struct rec_info *r, const void *p)
{
	size_t n = 0;

	for (const struct field *f = r->fields(); f->tag; f++)
		n += !field_is_zero(f, p);
	msgpack_pack_map(&w->pk, n);
	for (const struct field *f = r->fields(); f->tag; f++) {
		if (field_is_zero(f, p))
			continue;
		msgpack_pack_uint32(&w->pk, f->tag);
		write_field(w, r, f, p);
	}
}

static void
writer_start(struct writer *w, struct arena *a, struct err *e)
{
	w->e = e;
	w->bad = false;
	sb_init(&w->sb, a);
	msgpack_packer_init(&w->pk, &w->sb, write_bytes);
}

bool
msg_pack(struct arena *a, const struct msg *m, size_t max_bytes, struct bytes *out, struct err *e)
{
	const struct rec_info *r = rec_of_number((int64_t)m->type);
	struct writer w;

	if (!r)
		bug("message number %d", (int)m->type);
	writer_start(&w, a, e);
	msgpack_pack_array(&w.pk, 4);
	msgpack_pack_int(&w.pk, (int)m->type);
	msgpack_pack_uint64(&w.pk, m->id);
	msgpack_pack_uint64(&w.pk, m->session);
	write_record(&w, r, msg_body_const(m));
	if (w.bad)
		return false;
	if (w.sb.n > max_bytes)
		return err_set(e, ERR_LIMIT, "%s: a message of %zu bytes is over the limit of %zu", r->name,
		    w.sb.n, max_bytes);
	*out = (struct bytes){(const uint8_t *)w.sb.p, w.sb.n};
	return true;
}

bool
rec_pack(struct arena *a, const char *record, const void *p, struct bytes *out, struct err *e)
{
	struct writer w;

	writer_start(&w, a, e);
	write_record(&w, rec_of_name(record), p);
	*out = (struct bytes){(const uint8_t *)w.sb.p, w.sb.n};
	return !w.bad;
}
