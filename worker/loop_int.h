/* worker/loop_int.h: the worker's loop from inside; for loop*.c alone. */
#ifndef KORCH_WORKER_LOOP_INT_H
#define KORCH_WORKER_LOOP_INT_H

#include "worker.h"

#include <uv.h>

static const int64_t SECOND = 1000000000;

enum ask_kind { ASK_HELLO, ASK_LEASE, ASK_RENEW, ASK_RESULT, ASK_BYE, ASK_KINDS };
struct ask {
	bool is_out;
	uint64_t id;
	int64_t sent_ns, again_ns; /* not before */
};
struct lease {
	struct m_held held;
	uint8_t ticket[32]; /* held.ticket, of whatever place the lease has moved to */
	bool is_revoked;
};
struct worker {
	struct cred *cred;
	const struct worker_conf *conf;
	const struct device *device;
	struct work *work;
	struct hello hello;
	uv_loop_t uv;
	uv_async_t wake;
	uv_timer_t timer;
	uv_signal_t term, intr, hup;
	struct sock_client *sock;
	struct ask ask[ASK_KINDS];
	uint64_t session, next_id, instance;
	bool is_proved; /* this connection speaks for the session */
	uint8_t challenge_bytes[64];
	struct bytes challenge;
	struct lease *leases;
	uint32_t n_leases, cap_leases;
	struct result *results, **results_tail; /* not yet acknowledged */
	uint32_t n_sent;                        /* of them in the request that is out */
	int64_t heartbeat_ns, last_work_ns, last_heard_ns;
	int64_t has_told;    /* of the silence since that last_heard_ns */
	int64_t why_next_ns; /* not sooner is asked again why no connection comes about */
	char told[256];      /* the last answer to that, since a welcome */
	int n_signals;
	bool is_draining, is_done, was_ready;
	uint32_t n_refused; /* of its hellos, in a row */
	enum err_code why;  /* what was last said of that */
	struct err err;
};

static inline int64_t
now_ns(void)
{
	return os_real()->mono_ns(NULL);
}

/* ---- loop_send.c: one request of each kind is out at a time ---- */
void loop_send_hello(struct worker *w);
void loop_send_lease(struct worker *w);
void loop_send_renew(struct worker *w);
void loop_send_results(struct worker *w); /* as many as a message holds; w->n_sent of them */
void loop_send_bye(struct worker *w);

#endif
