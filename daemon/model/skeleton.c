/* daemon/model/skeleton.c: the checked copy of a protobuf message that the library unpacks.
 *
 * The walk follows the generated descriptors, so it knows which fields are messages.  It
 *  - refuses nesting deeper than MAX_DEPTH (the library recurses without a limit),
 *  - refuses more than MAX_MESSAGES messages and strings (two bytes of file become a struct),
 *  - drops fields that the descriptors do not know (newer files),
 *  - replaces the bytes of raw_data by their place in the file.
 * A length whose value is known only later is written as a five-byte varint. */
#include "model_int.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_DEPTH = 48,
	MAX_MESSAGES = 8 << 20,
	LENGTH_BYTES = 5,
	RAW_DATA_TAG = 9,
	/* FunctionProto.attribute_proto: newer than the distribution's onnx.proto */
	DEFAULT_ATTRIBUTES_TAG = 11
};

struct walk {
	struct bytes in;
	uint8_t *out;
	size_t n, cap;
	uint32_t n_messages;
	const char *what;
	struct err *e;
};

static bool
bad(struct walk *w, size_t at, const char *why)
{
	return err_set(w->e, ERR_MODEL, "%s: not an ONNX file: %s at byte %zu", w->what, why, at);
}

static void
put(struct walk *w, const void *p, size_t n)
{
	if (w->cap - w->n < n) {
		w->cap = MAX_OF(2 * w->cap, w->n + n + 4096);
		w->out = heap_resize(w->out, w->cap);
	}
	if (n > 0)
		memcpy(w->out + w->n, p, n);
	w->n += n;
}

static void
patch_length(uint8_t *p, size_t n)
{
	for (int i = 0; i < LENGTH_BYTES; i++)
		p[i] = (uint8_t)((n >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

static bool
get_varint(struct walk *w, size_t *at, size_t end, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 70; shift += 7) {
		if (*at >= end)
			return bad(w, *at, "it ends inside a number");
		uint8_t b = w->in.p[(*at)++];
		*v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
		if (b < 0x80)
			return true;
	}
	return bad(w, *at, "a number is too long");
}

/* Sets *body to the first byte behind the tag (and length), *next behind the field. */
static bool
field_extent(struct walk *w, size_t at, size_t end, uint64_t tag, size_t *body, size_t *next)
{
	uint64_t n;

	switch (tag & 7) {
	case 0:
		*body = at;
		if (!get_varint(w, &at, end, &n))
			return false;
		*next = at;
		return true;
	case 1:
	case 5:
		n = (tag & 7) == 1 ? 8 : 4;
		break;
	case 2:
		if (!get_varint(w, &at, end, &n))
			return false;
		break;
	default:
		return bad(w, at, "a field has an unknown wire type");
	}
	if (n > end - at)
		return bad(w, at, "a field is longer than what holds it (is the file cut off?)");
	*body = at;
	*next = at + (size_t)n;
	return true;
}

static void
put_raw_place(struct walk *w, size_t body, size_t next)
{
	struct raw_place place = {body, next - body};
	uint8_t length = sizeof(place);

	put(w, &length, 1);
	put(w, &place, sizeof(place));
}

static bool
walk_message(struct walk *w, const ProtobufCMessageDescriptor *d, size_t at, size_t end, int depth)
{
	if (depth > MAX_DEPTH)
		return bad(w, at, "messages are nested too deep");
	while (at < end) {
		size_t start = at, body, next;
		uint64_t tag;

		if (!get_varint(w, &at, end, &tag) || !field_extent(w, at, end, tag, &body, &next))
			return false;
		const ProtobufCFieldDescriptor *f = tag >> 3 <= UINT32_MAX >> 3
		    ? protobuf_c_message_descriptor_get_field(d, (unsigned)(tag >> 3))
		    : NULL;
		size_t tag_end = at;
		at = next;
		if (!f && d == &onnx__function_proto__descriptor && tag >> 3 == DEFAULT_ATTRIBUTES_TAG)
			return err_set(w->e, ERR_MODEL,
			    "%s: it has a function with default attributes; they are not supported", w->what);
		if (!f)
			continue;
		bool delimited = (tag & 7) == 2;
		if (delimited && ++w->n_messages > MAX_MESSAGES)
			return err_set(
			    w->e, ERR_LIMIT, "%s: more than %d messages and strings", w->what, MAX_MESSAGES);
		if (delimited && f->type == PROTOBUF_C_TYPE_MESSAGE) {
			put(w, w->in.p + start, tag_end - start);
			size_t length_at = w->n;
			put(w, "\0\0\0\0\0", LENGTH_BYTES);
			if (!walk_message(w, f->descriptor, body, next, depth + 1))
				return false;
			patch_length(w->out + length_at, w->n - length_at - LENGTH_BYTES);
		} else if (delimited && d == &onnx__tensor_proto__descriptor && f->id == RAW_DATA_TAG) {
			put(w, w->in.p + start, tag_end - start);
			put_raw_place(w, body, next);
		} else {
			put(w, w->in.p + start, next - start);
		}
	}
	return true;
}

bool
skeleton_make(
    const ProtobufCMessageDescriptor *d, struct bytes in, const char *what, struct bytes *out, struct err *e)
{
	struct walk w = {.in = in, .what = what, .e = e};

	put(&w, "", 0);
	if (!walk_message(&w, d, 0, in.n, 0)) {
		free(w.out);
		return false;
	}
	*out = (struct bytes){w.out, w.n};
	return true;
}

static void *
allocate(void *data, size_t n)
{
	return arena_alloc(data, n);
}

static void
release(void *data, void *p)
{
	(void)data;
	(void)p;
}

ProtobufCAllocator
arena_allocator(struct arena *a)
{
	return (ProtobufCAllocator){allocate, release, a};
}
