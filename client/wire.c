/* client/wire.c: see wire.h. */
#include "wire.h"

struct wire
wire_make(struct bytes b)
{
	return (struct wire){b.p, b.p ? b.p + b.n : NULL, false};
}

uint64_t
wire_varint(struct wire *r)
{
	uint64_t v = 0;

	for (int shift = 0; shift < 64; shift += 7) {
		if (r->p == r->end)
			break;
		v |= (uint64_t)(*r->p & 127) << shift;
		if (!(*r->p++ & 128))
			return v;
	}
	r->bad = true;
	return 0;
}

uint64_t
wire_fixed(struct wire *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < n) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)r->p[i] << 8 * i;
	r->p += n;
	return v;
}

static struct bytes
run_of_bytes(struct wire *r)
{
	uint64_t n = wire_varint(r);
	struct bytes b = {r->p, (size_t)n};

	if (r->bad || n > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return (struct bytes){0};
	}
	r->p += n;
	return b;
}

bool
wire_next(struct wire *r, struct wire_field *f)
{
	uint64_t tag;

	if (r->bad || r->p == r->end)
		return false;
	tag = wire_varint(r);
	*f = (struct wire_field){.number = (uint32_t)(tag >> 3), .wire = (enum wire_type)(tag & 7)};
	if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		r->bad = true;
	switch (f->wire) {
	case WIRE_VARINT:
		f->value = wire_varint(r);
		break;
	case WIRE_64:
		f->value = wire_fixed(r, 8);
		break;
	case WIRE_32:
		f->value = wire_fixed(r, 4);
		break;
	case WIRE_BYTES:
		f->bytes = run_of_bytes(r);
		break;
	default:
		r->bad = true;
	}
	return !r->bad;
}
