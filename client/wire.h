/* client/wire.h: protobuf's wire format, read field by field.  The reader is sticky: after the
 * first bad byte it yields nothing, and one look at `bad` at the end suffices. */
#ifndef KORCH_WIRE_H
#define KORCH_WIRE_H

#include "../kernels/base/base.h"

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
struct wire {
	const uint8_t *p, *end;
	bool bad;
};
struct wire_field {
	uint32_t number;
	enum wire_type wire;
	uint64_t value;     /* VARINT, 32, 64 */
	struct bytes bytes; /* BYTES */
};

struct wire wire_make(struct bytes b);
/* The next field; false at the end or at the first bad byte. */
bool wire_next(struct wire *r, struct wire_field *f);
/* Inside a packed run. */
uint64_t wire_varint(struct wire *r);
uint64_t wire_fixed(struct wire *r, size_t n);

#endif
