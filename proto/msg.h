/* proto/msg.h: the messages as C structs, packed and unpacked by the table msg.def.
 * Everything that arrives is hostile: unpacking checks every size, count and depth. */
#ifndef KORCH_MSG_H
#define KORCH_MSG_H

#include "../kernels/base/json.h"

enum { PROTO_VERSION = 2 };
enum { MSG_MAX_BYTES = 1 << 20 };  /* over the network: models travel in chunks */
enum { PIPE_MAX_BYTES = 1 << 26 }; /* between daemon and planner */
enum { BLOB_CHUNK = 256 << 10 };

enum task_kind {
#define TASK(ID, NAME, WORDS) TASK_##ID,
#include "task.def"
	TASK_KINDS
};
const char *task_kind_name(uint64_t kind); /* "measure"; "?" for none of ours */

/* struct m_NAME for every record and message: struct m_cost, struct m_cost_ask, ... */
#define REC(N) struct m_##N {
#define MSG(NUMBER, N) struct m_##N {
#define END(N)                                                                                               \
	char end_of_record;                                                                                  \
	}                                                                                                    \
	;
#define U64(TAG, N) uint64_t N;
#define I64(TAG, N) int64_t N;
#define F64(TAG, N) double N;
#define BOOL(TAG, N) bool N;
#define TEXT(TAG, N, MAX) struct str N;
#define BYTES(TAG, N, MAX) struct bytes N;
#define HASH(TAG, N) struct hash N;
#define REALS(TAG, N, MAX)                                                                                   \
	double *N;                                                                                           \
	uint32_t n_##N;
#define ONE(TAG, R, N) struct m_##R N;
#define LIST(TAG, R, N, MAX)                                                                                 \
	struct m_##R *N;                                                                                     \
	uint32_t n_##N;
#include "msg.def"

enum msg_type {
#define REC(N)
#define MSG(NUMBER, N) MSG_##N = NUMBER,
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
	MSG_NONE = 0
};

/* One message.  `id` is the sender's request number (the answer repeats it), `session` what
 * the welcome gave.  Strings, bytes and lists point to memory of whoever filled them in. */
struct msg {
	enum msg_type type;
	uint64_t id, session;
	union {
#define REC(N)
#define MSG(NUMBER, N) struct m_##N N;
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
};

const char *msg_name(enum msg_type t); /* "cost_ask"; "?" for none of ours */
/* Bytes in arena memory; ERR_LIMIT when a field or the whole is over its limit. */
bool msg_pack(
    struct arena *a, const struct msg *m, size_t max_bytes, struct bytes *out, struct err *e) MUST_CHECK;
/* Strings and bytes of *m point into `in`; lists live in `a`.  ERR_PROTO naming message and
 * field.  A message number that is not ours gives ERR_PROTO too, with m->id and m->session set,
 * so that the answer can name the request. */
bool msg_unpack(struct arena *a, struct bytes in, struct msg *m, struct err *e) MUST_CHECK;
/* The message's fields as one JSON object, all of them; a digest of zeros, which is none, is "". */
void msg_json(struct strbuf *sb, const struct msg *m);
/* The same for one record: rec_json(sb, "job", &job). */
void rec_json(struct strbuf *sb, const char *record, const void *p);
/* One record alone, as it is kept in the store. */
bool rec_pack(
    struct arena *a, const char *record, const void *p, struct bytes *out, struct err *e) MUST_CHECK;
bool rec_unpack(struct arena *a, const char *record, struct bytes in, void *p, struct err *e) MUST_CHECK;
/* A copy that owns all it points to; rec_dup does so in place, after a plain copy. */
void msg_dup(struct arena *a, const struct msg *m, struct msg *out);
void rec_dup(struct arena *a, const char *record, void *p);

/* What a worker says of a task in any case: the task's own words; the caller adds what came of it.  It points
 * to what *t points to. */
struct m_outcome task_outcome(const struct m_task *t);

/* An error as a message, and back. */
struct msg msg_error(const struct err *e);
bool msg_is_error(const struct msg *m, struct err *e); /* true: *e is filled in */

#endif
