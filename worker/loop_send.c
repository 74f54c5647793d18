/* worker/loop_send.c: what the worker says to korchd. */
#include "loop_int.h"

enum { RESULT_BYTES = MSG_MAX_BYTES / 4 * 3 };

static struct m_held *
held_list(struct worker *w, struct arena *a, uint32_t *n)
{
	struct m_held *list = NEW_ARRAY(a, struct m_held, MAX_OF(w->n_leases, 1u));

	*n = 0;
	for (uint32_t i = 0; i < w->n_leases; i++)
		if (!w->leases[i].is_revoked) {
			list[*n] = w->leases[i].held;
			list[(*n)++].ticket.p = w->leases[i].ticket;
		}
	return list;
}

static void
send_msg(struct worker *w, enum ask_kind kind, struct arena *a, struct msg *m, int64_t wait_ns)
{
	struct ask *k = &w->ask[kind];
	struct bytes b;
	struct err e = {0};

	if (!k->id)
		k->id = ++w->next_id;
	m->id = k->id;
	m->session = kind == ASK_HELLO ? 0 : w->session;
	if (!msg_pack(a, m, MSG_MAX_BYTES, &b, &e))
		bug("%s: %s", msg_name(m->type), e.msg);
	k->is_out = true;
	k->sent_ns = now_ns();
	sock_ask(w->sock, b, (int)(wait_ns / 1000000), (void *)(uintptr_t)kind);
}

void
loop_send_hello(struct worker *w)
{
	struct arena a = {0};
	struct msg m;

	w->hello.session = w->session;
	hello_fill(&w->hello, w->challenge, &m);
	m.hello.held = held_list(w, &a, &m.hello.n_held);
	send_msg(w, ASK_HELLO, &a, &m, 5 * SECOND);
	arena_fini(&a);
}

void
loop_send_lease(struct worker *w)
{
	struct arena a = {0};
	struct msg m = {.type = MSG_lease};

	m.lease.max = work_batch(w->work);
	m.lease.wait_ns = 15 * SECOND;
	m.lease.class = str_of(w->device->class);
	send_msg(w, ASK_LEASE, &a, &m, 25 * SECOND);
	arena_fini(&a);
}

void
loop_send_renew(struct worker *w)
{
	struct arena a = {0};
	struct msg m = {.type = MSG_renew};
	char waits[256] = "";

	if (w->conf->waits)
		lock_words_get(w->conf->waits, waits);
	m.renew.waits = str_of(waits);
	m.renew.held = held_list(w, &a, &m.renew.n_held);
	send_msg(w, ASK_RENEW, &a, &m, 5 * SECOND);
	arena_fini(&a);
}

static size_t
outcome_bytes(const struct m_outcome *o)
{
	size_t n = 600 + o->log.n + o->cause.n;

	for (uint32_t i = 0; i < o->n_rows; i++)
		n += 250 + o->rows[i].schedule.n + o->rows[i].cause.n;
	return n;
}

void
loop_send_results(struct worker *w)
{
	struct arena a = {0};
	struct msg m = {.type = MSG_result};
	size_t sum = 0;

	m.result.class = str_of(w->device->class);
	m.result.outcomes = NEW_ARRAY(&a, struct m_outcome, 64);
	for (struct result *r = w->results; r && m.result.n_outcomes < 64; r = r->next) {
		sum += outcome_bytes(&r->outcome);
		if (m.result.n_outcomes && sum > RESULT_BYTES)
			break;
		m.result.outcomes[m.result.n_outcomes++] = r->outcome;
	}
	w->n_sent = m.result.n_outcomes;
	os_seam("worker.result");
	send_msg(w, ASK_RESULT, &a, &m, 20 * SECOND);
	arena_fini(&a);
}

void
loop_send_bye(struct worker *w)
{
	struct arena a = {0};
	struct msg m = {.type = MSG_bye};

	send_msg(w, ASK_BYE, &a, &m, 2 * SECOND);
	arena_fini(&a);
}
