/* proto/task.c: what is said of every task, whatever its kind. */
#include "msg.h"

static const char *const names[TASK_KINDS] = {
#define TASK(ID, NAME, WORDS) [TASK_##ID] = #NAME,
#include "task.def"
};

const char *
task_kind_name(uint64_t kind)
{
	return kind < TASK_KINDS ? names[kind] : "?";
}

struct m_outcome
task_outcome(const struct m_task *t)
{
	return (struct m_outcome){.key = t->key,
	    .gen = t->gen,
	    .kind = t->kind,
	    .effort = t->effort,
	    .spec = hash_bytes(t->spec.p, t->spec.n),
	    .threads = t->threads,
	    .precision = t->precision,
	    .heat = t->heat,
	    .payload = t->payload,
	    .cause = STR(""),
	    .log = STR("")};
}
