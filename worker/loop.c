/* worker/loop.c: the worker's talk with korchd on a libuv loop.
 *
 *   hello -> (lease -> batch to the work thread; its outcomes -> result until acknowledged)*
 *
 * One request of each kind is out at a time.  What gets no answer is sent again with the same
 * id.  A connection that has proved nothing (it is new, or the daemon is) leads back to hello, which names
 * the session and the leases still held: the daemon goes on with them, a new one adopts them.  A lease ends
 * here when its result is acknowledged, or the daemon revokes it. */
#include "loop_int.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 200 };
/* Two heartbeats: who leaves waits no longer for a daemon that may have left before him. */
static const int64_t FAREWELL = 10 * SECOND, SILENCE = 5 * SECOND, IDLE_BEAT = 5 * SECOND;

static const char *const ask_name[ASK_KINDS] = {"hello", "lease", "renew", "result", "bye"};

/* ---- leases ------------------------------------------------------------------------- */
static void
add_lease(struct worker *w, const struct m_task *t)
{
	struct lease *l;

	if (w->n_leases == w->cap_leases) {
		w->cap_leases = w->cap_leases ? 2 * w->cap_leases : 64;
		w->leases = heap_resize(w->leases, w->cap_leases * sizeof(*w->leases));
	}
	w->leases[w->n_leases] = (struct lease){{.key = t->key, .gen = t->gen, .kind = t->kind}, {0}, false};
	l = &w->leases[w->n_leases++];
	l->held.ticket.n = MIN_OF(t->ticket.n, sizeof(l->ticket));
	if (l->held.ticket.n)
		memcpy(l->ticket, t->ticket.p, l->held.ticket.n);
}

static struct lease *
find_lease(struct worker *w, const struct hash *key, uint64_t gen)
{
	for (uint32_t i = 0; i < w->n_leases; i++)
		if (w->leases[i].held.gen == gen && hash_eq(&w->leases[i].held.key, key))
			return &w->leases[i];
	return NULL;
}

static void
end_lease(struct worker *w, const struct hash *key, uint64_t gen)
{
	struct lease *l = find_lease(w, key, gen);

	if (l)
		*l = w->leases[--w->n_leases];
}

static void
mark_revoked(struct worker *w, const struct m_held *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct lease *l = find_lease(w, &list[i].key, list[i].gen);

		if (!l || l->is_revoked)
			continue;
		l->is_revoked = true;
		work_drop(w->work, &list[i].key, list[i].gen);
	}
}

/* ---- answers ------------------------------------------------------------------------ */
static void
tell_ready(struct worker *w)
{
	if (w->was_ready)
		return;
	w->was_ready = true;
	log_event(w->conf->log, ready, KVZ("device", w->device->class), KVZ("daemon", w->conf->url));
	if (w->conf->json)
		printf("{\"ready\":true,\"device\":\"%s\"}\n", w->device->class);
	(void)fflush(stdout);
	if (w->conf->ready_fd >= 0) {
		(void)dprintf(w->conf->ready_fd, "%sready\n", w->device->is_quick ? "" : "measured\n");
		if (w->conf->ready_fd > STDERR_FILENO) /* else it is for more than that */
			(void)close(w->conf->ready_fd);
	}
}

/* Whatever the daemon has against us may pass: its disk, its tokens, its version; so it is asked again, ever
 * more seldom, and each reason is said once.  What this side lacks stays so. */
static void
got_refused(struct worker *w, const struct err *e, bool is_daemons_word)
{
	w->challenge.n = 0;
	if (!is_daemons_word && e->code == ERR_USAGE) {
		w->err = *e;
		w->is_done = true;
		return;
	}
	if (e->code == ERR_UNPROVED && w->n_refused == 0) { /* the connection broke between the two hellos */
		w->n_refused++;
		return;
	}
	w->ask[ASK_HELLO].again_ns = now_ns() + hello_wait_ns(++w->n_refused);
	if (w->why != e->code)
		log_event(w->conf->log, not_taken, KVZ("daemon", w->conf->url), KVZ("why", e->msg));
	w->why = e->code;
}

static void
got_welcome(struct worker *w, const struct msg *m)
{
	struct err e = {0};
	uint64_t session;

	if (!hello_read(&w->hello, m, &session, &e)) {
		got_refused(w, &e, m->type == MSG_error);
		return;
	}
	if (session == 0) {
		w->challenge.n = MIN_OF(m->welcome.challenge.n, sizeof(w->challenge_bytes));
		memcpy(w->challenge_bytes, m->welcome.challenge.p, w->challenge.n);
		w->challenge.p = w->challenge_bytes;
		return;
	}
	w->challenge.n = 0;
	w->n_refused = 0;
	w->why = ERR_NONE;
	w->told[0] = '\0';
	w->session = session;
	w->is_proved = true;
	w->instance = m->welcome.instance;
	w->heartbeat_ns = MAX_OF(m->welcome.heartbeat_ns, SECOND / 10);
	mark_revoked(w, m->welcome.revoked, m->welcome.n_revoked);
	tell_ready(w);
}

static void
got_grant(struct worker *w, const struct msg *m)
{
	struct batch *b;

	w->is_draining |= m->grant.drain;
	w->ask[ASK_LEASE].again_ns = now_ns() + MIN_OF(MAX_OF(m->grant.retry_ns, (int64_t)0), 5 * SECOND);
	if (m->grant.n_tasks == 0)
		return;
	b = heap_alloc(sizeof(*b));
	b->n = m->grant.n_tasks;
	b->session = w->session;
	b->tasks = NEW_ARRAY(&b->arena, struct m_task, b->n);
	for (uint32_t i = 0; i < b->n; i++) {
		b->tasks[i] = m->grant.tasks[i];
		rec_dup(&b->arena, "task", &b->tasks[i]);
		add_lease(w, &b->tasks[i]);
	}
	w->last_work_ns = now_ns();
	os_seam("worker.granted");
	work_post(w->work, b);
}

/* Acknowledged (or refused for good): those results are the daemon's now. */
static void
drop_sent(struct worker *w)
{
	for (; w->n_sent && w->results; w->n_sent--) {
		struct result *r = w->results;

		w->results = r->next;
		if (!w->results)
			w->results_tail = &w->results;
		end_lease(w, &r->outcome.key, r->outcome.gen);
		result_free(r);
	}
}

static void
got_answer(struct worker *w, enum ask_kind kind, const struct msg *m)
{
	struct err e = {0};

	w->ask[kind].id = 0;
	w->last_heard_ns = now_ns();
	if (kind == ASK_HELLO) {
		got_welcome(w, m);
		return;
	}
	if (msg_is_error(m, &e)) {
		if (e.code == ERR_UNPROVED) {
			w->is_proved = false;
			return;
		}
		log_event(w->conf->log, refused, KVZ("request", ask_name[kind]), KVZ("why", e.msg));
		/* full disk and the like pass; what the daemon refuses as wrong will stay wrong */
		if (kind == ASK_RESULT && e.code != ERR_FULL && e.code != ERR_IO)
			drop_sent(w);
		w->ask[kind].again_ns = now_ns() + SECOND;
		return;
	}
	switch (kind) {
	case ASK_LEASE:
		if (m->type == MSG_grant)
			got_grant(w, m);
		break;
	case ASK_RENEW:
		if (m->type == MSG_renewed) {
			mark_revoked(w, m->renewed.revoked, m->renewed.n_revoked);
			w->is_draining |= m->renewed.drain;
			if (m->renewed.heartbeat_ns > 0)
				w->heartbeat_ns = MAX_OF(m->renewed.heartbeat_ns, SECOND / 10);
		}
		break;
	case ASK_RESULT:
		os_seam("worker.acknowledged");
		if (m->type == MSG_ok && m->ok.value)
			log_event(
			    w->conf->log, result_not_taken, KVI("n", m->ok.value), KV("why", m->ok.text));
		drop_sent(w);
		break;
	case ASK_BYE:
		w->is_done = true;
		break;
	case ASK_HELLO:
	case ASK_KINDS:
		break;
	}
}

static void
take_answers(struct worker *w)
{
	struct sock_call *call;

	while ((call = sock_done(w->sock)) != NULL) {
		enum ask_kind kind = (enum ask_kind)(uintptr_t)sock_call_tag(call);
		struct arena a = {0};
		struct bytes b;
		struct msg m;
		struct err e = {0};

		w->ask[kind].is_out = false;
		if (!sock_call_bytes(call, &b, &e) || !msg_unpack(&a, b, &m, &e)) {
			w->ask[kind].again_ns = now_ns() + SECOND / 4; /* the same request again */
			if (kind == ASK_BYE)
				w->is_done = true;
			/* hello that was lost on the way starts anew: its challenge may be used up */
			if (kind == ASK_HELLO)
				w->challenge.n = 0;
		} else
			got_answer(w, kind, &m);
		arena_fini(&a);
		sock_call_free(call);
	}
}

static void
take_results(struct worker *w)
{
	struct result *r;

	while ((r = work_take(w->work)) != NULL) {
		struct lease *l = find_lease(w, &r->outcome.key, r->outcome.gen);

		w->last_work_ns = now_ns();
		if (!l || l->is_revoked) { /* nobody wants it any more */
			end_lease(w, &r->outcome.key, r->outcome.gen);
			result_free(r);
			continue;
		}
		r->next = NULL;
		*w->results_tail = r;
		w->results_tail = &r->next;
	}
}

/* ---- what next ---------------------------------------------------------------------- */
static bool
is_free(const struct worker *w, enum ask_kind kind)
{
	return !w->ask[kind].is_out && now_ns() >= w->ask[kind].again_ns;
}

/* All that is left to do is to tell a daemon that has not been heard of for long. */
static bool
is_left_alone(const struct worker *w)
{
	uint32_t n_told = 0;

	for (const struct result *r = w->results; r; r = r->next)
		n_told++;
	return n_told == w->n_leases && now_ns() - w->last_heard_ns > FAREWELL;
}

/* At once where connections fail, else after a silence, or who started it waits for nothing and does not
 * know.  Each reason once: it may be mended on either side, so the worker stays and goes on trying. */
static void
tell_silence(struct worker *w, int64_t now)
{
	bool is_silent = w->has_told != w->last_heard_ns && now - w->last_heard_ns >= SILENCE, is_wrong;
	struct err why = {0};

	if (!is_silent && (now < w->why_next_ns || !sock_client_failed(w->sock)))
		return;
	w->why_next_ns = now + SILENCE;
	if (sock_reachable(w->conf->url, w->hello.keys, &is_wrong, &why)) {
		if (!is_silent)
			return; /* it passed */
		(void)err_set(&why, ERR_UNREACHABLE, "somebody listens there, and no korchd answers");
	}
	if (is_silent || is_wrong)
		w->has_told = w->last_heard_ns;
	else
		return;                                          /* it may pass before it is worth a word */
	if (strncmp(w->told, why.msg, sizeof(w->told) - 1) == 0) /* said */
		return;
	(void)snprintf(w->told, sizeof(w->told), "%.255s", why.msg);
	log_event(w->conf->log, waiting, KVZ("daemon", w->conf->url), KVZ("why", why.msg));
}

static void
turn(struct worker *w)
{
	int64_t now = now_ns(), beat;

	take_answers(w);
	take_results(w);
	if (w->is_done)
		return;
	if (!w->is_proved) {
		tell_silence(w, now);
		if (is_free(w, ASK_HELLO))
			loop_send_hello(w);
	} else {
		if (w->results && is_free(w, ASK_RESULT))
			loop_send_results(w);
		/* half a batch left: the next one is fetched while the device works */
		if (!w->is_draining && w->n_leases <= work_batch(w->work) / 2 && is_free(w, ASK_LEASE))
			loop_send_lease(w);
		/* with work in hand as often as the daemon likes: what nobody wants any more is given up */
		beat = MAX_OF(w->heartbeat_ns, w->n_leases ? 0 : IDLE_BEAT);
		if (is_free(w, ASK_RENEW) && now - w->ask[ASK_RENEW].sent_ns >= beat)
			loop_send_renew(w);
		if (w->is_draining && w->n_leases == 0 && !w->results && is_free(w, ASK_BYE))
			loop_send_bye(w);
	}
	if (w->n_leases)
		w->last_work_ns = now;
	if (w->conf->idle_exit_ns && !w->is_draining && now - w->last_work_ns > w->conf->idle_exit_ns) {
		log_event(w->conf->log, leaving, KVZ("why", "nothing to do"));
		w->is_draining = true;
	}
	if (w->is_draining && !w->is_proved && w->n_leases == 0)
		w->is_done = true;
	if (w->is_draining && is_left_alone(w)) {
		log_event(w->conf->log, leaving, KVZ("why", "the daemon does not answer"));
		w->is_done = true;
	}
}

static void
on_wake(uv_async_t *h)
{
	turn(h->data);
}

static void
on_tick(uv_timer_t *h)
{
	turn(h->data);
}

/* First signal: finish what is held and leave.  Second: hand it back. */
static void
on_signal(uv_signal_t *h, int number)
{
	struct worker *w = h->data;

	(void)number;
	w->is_draining = true;
	if (++w->n_signals == 1) {
		log_event(w->conf->log, leaving,
		    KVZ("why", "after the work in hand; a second signal leaves at once"));
		return;
	}
	w->is_done = true;
}

/* HUP: the log's file, tokens and keys are read anew; what cannot be read stays as it was.  Whoever was
 * refused asks again at once. */
static void
on_hup(uv_signal_t *h, int number)
{
	struct worker *w = h->data;
	struct cred fresh;
	struct err e = {0};

	(void)number;
	if (!log_reopen(w->conf->log, &e))
		log_event(w->conf->log, reload_failed, KVZ("why", e.msg));
	e = (struct err){0};
	if (!cred_load(&fresh, &w->conf->cred, &w->conf->url, 1, "worker", &e)) {
		log_event(w->conf->log, reload_failed, KVZ("why", e.msg));
		return;
	}
	if (fresh.keys)
		sock_client_rekey(w->sock, fresh.keys);
	cred_free(w->cred);
	*w->cred = fresh;
	w->hello.keys = fresh.keys;
	w->n_refused = 0;
	w->why = ERR_NONE;
	w->told[0] = '\0';
	w->ask[ASK_HELLO].again_ns = 0;
	log_event(w->conf->log, reload, KVZ("what", "tokens and keys"));
}

static void
ring(void *self)
{
	(void)uv_async_send(&((struct worker *)self)->wake);
}

static void
open_loop(struct worker *w)
{
	if (uv_loop_init(&w->uv) != 0 || uv_async_init(&w->uv, &w->wake, on_wake) != 0 ||
	    uv_timer_init(&w->uv, &w->timer) != 0 || uv_signal_init(&w->uv, &w->term) != 0 ||
	    uv_signal_init(&w->uv, &w->intr) != 0 || uv_signal_init(&w->uv, &w->hup) != 0)
		bug("the event loop cannot start");
	w->wake.data = w->timer.data = w->term.data = w->intr.data = w->hup.data = w;
	(void)uv_timer_start(&w->timer, on_tick, 0, TICK_MS);
	(void)uv_signal_start(&w->term, on_signal, SIGTERM);
	(void)uv_signal_start(&w->intr, on_signal, SIGINT);
	(void)uv_signal_start(&w->hup, on_hup, SIGHUP);
}

static void
close_loop(struct worker *w)
{
	uv_close((uv_handle_t *)&w->wake, NULL);
	uv_close((uv_handle_t *)&w->timer, NULL);
	uv_close((uv_handle_t *)&w->term, NULL);
	uv_close((uv_handle_t *)&w->intr, NULL);
	uv_close((uv_handle_t *)&w->hup, NULL);
	while (uv_run(&w->uv, UV_RUN_DEFAULT) != 0)
		;
	if (uv_loop_close(&w->uv) != 0)
		bug("the event loop still has handles");
}

int
worker_loop(const struct worker_conf *conf, const struct device *d, struct work *work, struct cred *cred,
    struct err *e)
{
	struct worker *w = heap_alloc(sizeof(*w));
	bool is_open;
	int status = 0;

	w->conf = conf;
	w->cred = cred;
	w->device = d;
	w->work = work;
	w->results_tail = &w->results;
	w->last_work_ns = w->last_heard_ns = now_ns();
	random_bytes(&w->next_id, 4);
	w->hello = (struct hello){.role = AUTH_WORKER,
	    .auth = &cred->auth,
	    .keys = cred->keys,
	    .name = str_of(conf->name),
	    .is_local = strncmp(conf->url, "ipc:", 4) == 0,
	    .envs = (struct m_env *)(uintptr_t)&d->env,
	    .n_envs = 1};
	open_loop(w);
	work_start(work, d, conf, ring, w);
	is_open = sock_client_open(
	    &w->sock, conf->url, cred->keys, MSG_MAX_BYTES, (struct sock_wake){ring, w}, &w->err);
	while (is_open && !w->is_done)
		(void)uv_run(&w->uv, UV_RUN_ONCE);
	work_stop(work, true);
	if (is_open)
		sock_client_close(w->sock); /* the daemon sees the end and takes back what is left */
	if (w->err.code) {
		*e = w->err;
		status = err_exit_status(e->code);
	}
	while (w->results) {
		struct result *r = w->results;

		w->results = r->next;
		result_free(r);
	}
	close_loop(w);
	free(w->leases);
	free(w);
	return status;
}
