/* proto/msg_int.h: the table msg.def as data; for this folder alone. */
#ifndef KORCH_MSG_INT_H
#define KORCH_MSG_INT_H

#include "msg.h"

enum kind {
	KIND_U64,
	KIND_I64,
	KIND_F64,
	KIND_BOOL,
	KIND_TEXT,
	KIND_BYTES,
	KIND_HASH,
	KIND_REALS,
	KIND_ONE,
	KIND_LIST
};
struct rec_info;
struct field {
	uint32_t tag; /* 0 ends a table */
	enum kind kind;
	const char *name;
	size_t at, at_n; /* offsets of the value and of its count */
	size_t max;
	const struct rec_info *rec;
};
struct rec_info {
	const char *name;
	int number; /* of a message; 0: a record */
	size_t size;
	const struct field *(*fields)(void);
};

const struct rec_info *rec_of_number(int64_t number); /* NULL: none of ours */
const struct rec_info *rec_of_name(const char *name); /* must exist */
bool field_is_zero(const struct field *f, const void *record);
void *msg_body(struct msg *m);
const void *msg_body_const(const struct msg *m);

#endif
