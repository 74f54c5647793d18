/* proto/msg.c: the table msg.def as data, errors as messages. */
#include "msg_int.h"

#include <string.h>

/* One function a record, so that `self` can be a local name for its struct. */
#define REC(N) MSG(0, N)
#define MSG(NUMBER, N)                                                                                       \
	static const struct field *fields_##N(void);                                                         \
	static const struct rec_info rec_##N = {#N, NUMBER, sizeof(struct m_##N), fields_##N};               \
	static const struct field *fields_##N(void)                                                          \
	{                                                                                                    \
		typedef struct m_##N self;                                                                   \
		static const struct field f[] = {
#define END(N)                                                                                               \
	{                                                                                                    \
		.at = sizeof(self)                                                                           \
	}                                                                                                    \
	}                                                                                                    \
	;                                                                                                    \
	return f;                                                                                            \
	}
#define FIELD(TAG, KIND, N, ...)                                                                             \
	{.tag = TAG, .kind = KIND_##KIND, .name = #N, .at = offsetof(self, N), __VA_ARGS__},
#define U64(TAG, N) FIELD(TAG, U64, N, .max = 0)
#define I64(TAG, N) FIELD(TAG, I64, N, .max = 0)
#define F64(TAG, N) FIELD(TAG, F64, N, .max = 0)
#define BOOL(TAG, N) FIELD(TAG, BOOL, N, .max = 0)
#define TEXT(TAG, N, MAX) FIELD(TAG, TEXT, N, .max = MAX)
#define BYTES(TAG, N, MAX) FIELD(TAG, BYTES, N, .max = MAX)
#define HASH(TAG, N) FIELD(TAG, HASH, N, .max = 0)
#define REALS(TAG, N, MAX) FIELD(TAG, REALS, N, .at_n = offsetof(self, n_##N), .max = MAX)
#define ONE(TAG, R, N) FIELD(TAG, ONE, N, .rec = &rec_##R)
#define LIST(TAG, R, N, MAX) FIELD(TAG, LIST, N, .at_n = offsetof(self, n_##N), .max = MAX, .rec = &rec_##R)
#include "msg.def"

static const struct rec_info *const all[] = {
#define REC(N) &rec_##N,
#define MSG(NUMBER, N) &rec_##N,
#define END(N)
#define U64(TAG, N)
#define I64(TAG, N)
#define F64(TAG, N)
#define BOOL(TAG, N)
#define TEXT(TAG, N, MAX)
#define BYTES(TAG, N, MAX)
#define HASH(TAG, N)
#define REALS(TAG, N, MAX)
#define ONE(TAG, R, N)
#define LIST(TAG, R, N, MAX)
#include "msg.def"
};

const struct rec_info *
rec_of_number(int64_t number)
{
	for (size_t i = 0; i < COUNT_OF(all); i++)
		if (all[i]->number == number && number > 0)
			return all[i];
	return NULL;
}

const struct rec_info *
rec_of_name(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(all); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	bug("there is no record '%s'", name);
}

const char *
msg_name(enum msg_type t)
{
	const struct rec_info *r = rec_of_number((int64_t)t);

	return r ? r->name : "?";
}

void *
msg_body(struct msg *m)
{
	return &m->ok; /* every member of the union starts here */
}

const void *
msg_body_const(const struct msg *m)
{
	return &m->ok;
}

bool
field_is_zero(const struct field *f, const void *record)
{
	static const struct hash no_hash;
	const uint8_t *p = record, *v = p + f->at;

	switch (f->kind) {
	case KIND_U64:
		return *(const uint64_t *)(const void *)v == 0;
	case KIND_I64:
		return *(const int64_t *)(const void *)v == 0;
	case KIND_F64: {
		static const double zero;
		return memcmp(v, &zero, sizeof(zero)) == 0;
	}
	case KIND_BOOL:
		return !*(const bool *)(const void *)v;
	case KIND_TEXT:
		return ((const struct str *)(const void *)v)->n == 0;
	case KIND_BYTES:
		return ((const struct bytes *)(const void *)v)->n == 0;
	case KIND_HASH:
		return memcmp(v, &no_hash, sizeof(no_hash)) == 0;
	case KIND_REALS:
	case KIND_LIST:
		return *(const uint32_t *)(const void *)(p + f->at_n) == 0;
	case KIND_ONE:
		for (const struct field *g = f->rec->fields(); g->tag; g++)
			if (!field_is_zero(g, v))
				return false;
		return true;
	}
	bug("field kind %d", (int)f->kind);
}

struct msg
msg_error(const struct err *e)
{
	struct msg m = {.type = MSG_error};

	m.error.code = (uint64_t)err_wire(e->code);
	m.error.text = str_of(e->msg);
	return m;
}

bool
msg_is_error(const struct msg *m, struct err *e)
{
	if (m->type != MSG_error)
		return false;
	(void)err_set(e, err_of_wire(m->error.code), "%.*s", STR_ARG(m->error.text));
	return true;
}
