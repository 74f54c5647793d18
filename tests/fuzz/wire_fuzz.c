/* Messages: whatever bytes arrive, reading them does no harm; what is accepted is packed and read
 * again to the same JSON.  The first byte chooses: a message, a frame of a pipe, a stored record. */
#include "../../proto/msg.h"
#include "../../proto/pipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void
message(struct arena *a, struct bytes in)
{
	struct msg m, again;
	struct bytes out;
	struct strbuf x, y;
	struct err e = {0};

	if (!msg_unpack(a, in, &m, &e)) {
		if (e.code != ERR_PROTO || !e.msg[0])
			abort();
		return;
	}
	if (!msg_pack(a, &m, PIPE_MAX_BYTES, &out, &e) || !msg_unpack(a, out, &again, &e))
		abort();
	sb_init(&x, a);
	sb_init(&y, a);
	msg_json(&x, &m);
	msg_json(&y, &again);
	if (!str_eq(sb_str(&x), sb_str(&y)))
		abort();
	msg_dup(a, &m, &again);
}

static void
record(struct arena *a, uint8_t which, struct bytes in)
{
	static const char *const names[] = {"job", "env", "outcome", "measurement", "task", "attempt"};
	union {
		struct m_job job;
		struct m_env env;
		struct m_outcome outcome;
		struct m_measurement measurement;
		struct m_task task;
		struct m_attempt attempt;
	} u;
	const char *name = names[which % COUNT_OF(names)];
	struct bytes out;
	struct err e = {0};

	if (rec_unpack(a, name, in, &u, &e) && !rec_pack(a, name, &u, &out, &e))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct bytes body, rest = {data + 1, n ? n - 1 : 0};
	size_t used;

	if (n == 0)
		return 0;
	if (data[0] < 128)
		message(&a, rest);
	else if (data[0] < 192)
		record(&a, data[0], rest);
	else
		while ((used = frame_next(rest, &body)) != 0 && used != SIZE_MAX) {
			if (used > rest.n || body.n + 4 != used)
				abort();
			message(&a, body);
			rest.p += used;
			rest.n -= used;
		}
	arena_fini(&a);
	return 0;
}
