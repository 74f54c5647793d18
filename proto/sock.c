/* proto/sock.c: the only file that knows nng (1.5.2 or newer 1.x).
 *
 * Facts that shape it:
 *  - a cooked REP socket with N contexts answers nothing once N requests wait; hence raw REP;
 *  - REQ resends by default, after 60 s and at every reconnect; hence infinite resend time;
 *  - the receive limit is unlimited by default and must be set before listening;
 *  - a callback may neither block nor make, close or free nng objects: ours take the message,
 *    queue a record, wake the loop, and start the next receive;
 *  - nng_aio_stop waits for callbacks, so close and free happen on the owner's thread. */
#include "sock.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_RECV = 4, QUEUE_LIMIT = 8192 };

/* ---- server ------------------------------------------------------------------------- */
struct sock_request {
	struct sock_request *next;
	nng_msg *msg;  /* NULL: the connection has gone */
	uint32_t peer;
	bool is_local;
};
struct receiver {
	struct sock_server *s;
	nng_aio *aio;
	bool is_idle; /* not armed because the queue was full; under the lock */
};
struct sender {
	struct sender *next; /* among the free ones */
	struct sender *all;  /* among all of the server's; the owner's thread alone */
	struct sock_server *s;
	nng_aio *aio;
};
struct sock_server {
	nng_socket sock;
	pthread_mutex_t lock;
	struct sock_request *head, **tail; /* arrived, in order */
	size_t n_queued;
	struct receiver recv[N_RECV];
	struct sender *free_senders, *all_senders;
	struct sock_wake wake;
	int port;
	bool is_closing;
};

static bool
nng_failed(int rc, struct err *e, const char *what)
{
	return err_set(e, rc == NNG_ENOMEM ? ERR_MEMORY : ERR_IO, "%s: %s", what, nng_strerror(rc));
}

/* Called with the lock held. */
static void
push(struct sock_server *s, struct sock_request *r)
{
	*s->tail = r;
	s->tail = &r->next;
	s->n_queued++;
}

static bool
pipe_is_local(nng_pipe p)
{
	nng_sockaddr addr;

	return nng_pipe_get_addr(p, NNG_OPT_LOCADDR, &addr) == 0 && addr.s_family == NNG_AF_IPC;
}

static void
received(void *arg)
{
	struct receiver *rc = arg;
	struct sock_server *s = rc->s;
	int result = nng_aio_result(rc->aio);
	struct sock_request *r;
	bool again;

	if (result == NNG_ECLOSED || result == NNG_ECANCELED)
		return;
	if (result != 0) {
		nng_recv_aio(s->sock, rc->aio);
		return;
	}
	r = heap_alloc(sizeof(*r));
	r->msg = nng_aio_get_msg(rc->aio);
	r->peer = (uint32_t)nng_pipe_id(nng_msg_get_pipe(r->msg));
	r->is_local = pipe_is_local(nng_msg_get_pipe(r->msg));
	(void)pthread_mutex_lock(&s->lock);
	push(s, r);
	again = s->n_queued < QUEUE_LIMIT && !s->is_closing;
	rc->is_idle = !again;
	(void)pthread_mutex_unlock(&s->lock);
	s->wake.wake(s->wake.self);
	if (again)
		nng_recv_aio(s->sock, rc->aio);
}

static void
pipe_gone(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct sock_server *s = arg;
	struct sock_request *r = heap_alloc(sizeof(*r));

	(void)ev;
	r->peer = (uint32_t)nng_pipe_id(p);
	(void)pthread_mutex_lock(&s->lock);
	push(s, r);
	(void)pthread_mutex_unlock(&s->lock);
	s->wake.wake(s->wake.self);
}

bool
sock_server_open(struct sock_server **out, size_t max_bytes, struct sock_wake wake, struct err *e)
{
	struct sock_server *s = heap_alloc(sizeof(*s));
	int rc;

	s->tail = &s->head;
	s->wake = wake;
	(void)pthread_mutex_init(&s->lock, NULL);
	rc = nng_rep0_open_raw(&s->sock);
	if (rc) {
		free(s);
		return nng_failed(rc, e, "the network library");
	}
	if ((rc = nng_socket_set_size(s->sock, NNG_OPT_RECVMAXSZ, max_bytes)) != 0 ||
	    (rc = nng_pipe_notify(s->sock, NNG_PIPE_EV_REM_POST, pipe_gone, s)) != 0)
		goto fail;
	for (int i = 0; i < N_RECV; i++) {
		s->recv[i].s = s;
		if ((rc = nng_aio_alloc(&s->recv[i].aio, received, &s->recv[i])) != 0)
			goto fail;
	}
	for (int i = 0; i < N_RECV; i++)
		nng_recv_aio(s->sock, s->recv[i].aio);
	*out = s;
	return true;
fail:
	sock_server_close(s);
	return nng_failed(rc, e, "the network library");
}

/* A socket file that nobody answers on would make the listener fail. */
static bool
clear_stale(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return true;
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_USAGE, "%s: is there and is no socket; choose another path", path);
	return unlink(path) == 0 || err_set(e, ERR_IO, "%s: cannot remove the old socket: %s", path,
	    strerror(errno));
}

bool
sock_listen(struct sock_server *s, const char *url, struct err *e)
{
	bool is_ipc = strncmp(url, "ipc://", 6) == 0, is_tcp = strncmp(url, "tcp://", 6) == 0;
	nng_listener l;
	int rc, port = 0;

	if (!is_ipc && !is_tcp)
		return err_set(e, ERR_USAGE, "'%s' is no address; use ipc:///path or tcp://address:port", url);
	/* sun_path holds 108 bytes */
	if (is_ipc && strlen(url + 6) > 100)
		return err_set(e, ERR_USAGE, "%s: the path of a local socket may have 100 bytes at most", url);
	if (is_ipc && !clear_stale(url + 6, e))
		return false;
	rc = nng_listener_create(&l, s->sock, url);
	if (rc)
		return nng_failed(rc, e, url);
	if (is_ipc)
		(void)nng_listener_set_int(l, NNG_OPT_IPC_PERMISSIONS, 0600);
	else
		(void)nng_listener_set_bool(l, NNG_OPT_TCP_KEEPALIVE, true);
	rc = nng_listener_start(l, 0);
	if (rc) {
		(void)nng_listener_close(l);
		return nng_failed(rc, e, url);
	}
	if (is_tcp && nng_listener_get_int(l, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
		s->port = port;
	return true;
}

int
sock_port(const struct sock_server *s)
{
	return s->port;
}

static void
rearm(struct sock_server *s)
{
	for (int i = 0; i < N_RECV; i++) {
		bool idle;

		(void)pthread_mutex_lock(&s->lock);
		idle = s->recv[i].is_idle && !s->is_closing;
		s->recv[i].is_idle = false;
		(void)pthread_mutex_unlock(&s->lock);
		if (idle)
			nng_recv_aio(s->sock, s->recv[i].aio);
	}
}

enum sock_event
sock_take(struct sock_server *s, struct sock_request **req, uint32_t *peer)
{
	struct sock_request *r;
	bool was_full;

	(void)pthread_mutex_lock(&s->lock);
	r = s->head;
	was_full = s->n_queued == QUEUE_LIMIT / 2;
	if (r) {
		s->head = r->next;
		if (!s->head)
			s->tail = &s->head;
		s->n_queued--;
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (!r || was_full)
		rearm(s);
	if (!r)
		return SOCK_NOTHING;
	if (!r->msg) {
		*peer = r->peer;
		free(r);
		return SOCK_GONE;
	}
	*req = r;
	return SOCK_REQUEST;
}

struct bytes
sock_request_bytes(const struct sock_request *r)
{
	return (struct bytes){nng_msg_body(r->msg), nng_msg_len(r->msg)};
}

uint32_t
sock_request_peer(const struct sock_request *r)
{
	return r->peer;
}

bool
sock_request_is_local(const struct sock_request *r)
{
	return r->is_local;
}

static void
sent(void *arg)
{
	struct sender *d = arg;
	struct sock_server *s = d->s;

	if (nng_aio_result(d->aio) != 0) {
		nng_msg_free(nng_aio_get_msg(d->aio));
		nng_aio_set_msg(d->aio, NULL);
	}
	(void)pthread_mutex_lock(&s->lock);
	d->next = s->free_senders;
	s->free_senders = d;
	(void)pthread_mutex_unlock(&s->lock);
}

static struct sender *
take_sender(struct sock_server *s)
{
	struct sender *d;

	(void)pthread_mutex_lock(&s->lock);
	d = s->free_senders;
	if (d)
		s->free_senders = d->next;
	(void)pthread_mutex_unlock(&s->lock);
	if (d)
		return d;
	d = heap_alloc(sizeof(*d));
	d->s = s;
	if (nng_aio_alloc(&d->aio, sent, d) != 0)
		bug("out of memory for an answer");
	d->all = s->all_senders;
	s->all_senders = d;
	return d;
}

/* The request's header is the way back; the body is replaced by the answer. */
void
sock_answer(struct sock_server *s, struct sock_request *r, struct bytes answer)
{
	struct sender *d = take_sender(s);
	nng_msg *m = r->msg;

	r->msg = NULL;
	free(r);
	nng_msg_clear(m);
	if (nng_msg_append(m, answer.p, answer.n) != 0)
		bug("out of memory for an answer of %zu bytes", answer.n);
	nng_aio_set_msg(d->aio, m);
	nng_send_aio(s->sock, d->aio);
}

void
sock_drop(struct sock_request *r)
{
	nng_msg_free(r->msg);
	free(r);
}

void
sock_server_close(struct sock_server *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->is_closing = true;
	(void)pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < N_RECV; i++)
		if (s->recv[i].aio)
			nng_aio_stop(s->recv[i].aio);
	for (struct sender *d = s->all_senders; d; d = d->all)
		nng_aio_stop(d->aio);
	(void)nng_close(s->sock);
	for (int i = 0; i < N_RECV; i++)
		if (s->recv[i].aio)
			nng_aio_free(s->recv[i].aio);
	while (s->all_senders) {
		struct sender *d = s->all_senders;

		s->all_senders = d->all;
		nng_aio_free(d->aio);
		free(d);
	}
	while (s->head) {
		struct sock_request *r = s->head;

		s->head = r->next;
		if (r->msg)
			nng_msg_free(r->msg);
		free(r);
	}
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- client ------------------------------------------------------------------------- */
struct sock_call {
	struct sock_call *next; /* among the finished or the spare ones */
	struct sock_call *all;  /* among all of the client's; the owner's thread alone */
	struct sock_client *c;
	nng_ctx ctx;
	nng_aio *aio;
	void *tag;
	nng_msg *answer;
	int result;
	bool has_sent;
};
struct sock_client {
	nng_socket sock;
	pthread_mutex_t lock;
	struct sock_call *done, **tail; /* finished, in order */
	struct sock_call *spare, *all;  /* the owner's thread alone */
	struct sock_wake wake;
	char url[256];
};

/* Runs first when the request is out, then when the answer is in. */
static void
call_moved(void *arg)
{
	struct sock_call *call = arg;
	struct sock_client *c = call->c;

	call->result = nng_aio_result(call->aio);
	if (call->result == 0 && !call->has_sent) {
		call->has_sent = true;
		nng_ctx_recv(call->ctx, call->aio);
		return;
	}
	if (call->result == 0)
		call->answer = nng_aio_get_msg(call->aio);
	else if (!call->has_sent) {
		nng_msg_free(nng_aio_get_msg(call->aio));
		nng_aio_set_msg(call->aio, NULL);
	}
	(void)pthread_mutex_lock(&c->lock);
	call->next = NULL;
	*c->tail = call;
	c->tail = &call->next;
	(void)pthread_mutex_unlock(&c->lock);
	c->wake.wake(c->wake.self);
}

bool
sock_client_open(struct sock_client **out, const char *url, size_t max_bytes, struct sock_wake wake,
    struct err *e)
{
	struct sock_client *c;
	nng_dialer d;
	int rc;

	if (strncmp(url, "ipc://", 6) != 0 && strncmp(url, "tcp://", 6) != 0)
		return err_set(e, ERR_USAGE, "'%s' is no address; use ipc:///path or tcp://host:port", url);
	if (strlen(url) >= sizeof(c->url) || (url[0] == 'i' && strlen(url + 6) > 100))
		return err_set(e, ERR_USAGE, "%s: the address is too long", url);
	c = heap_alloc(sizeof(*c));
	(void)snprintf(c->url, sizeof(c->url), "%s", url);
	c->tail = &c->done;
	c->wake = wake;
	(void)pthread_mutex_init(&c->lock, NULL);
	rc = nng_req0_open(&c->sock);
	if (rc) {
		free(c);
		return nng_failed(rc, e, "the network library");
	}
	if ((rc = nng_socket_set_size(c->sock, NNG_OPT_RECVMAXSZ, max_bytes)) != 0 ||
	    (rc = nng_socket_set_ms(c->sock, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) != 0 ||
	    (rc = nng_socket_set_ms(c->sock, NNG_OPT_RECONNMINT, 50)) != 0 ||
	    (rc = nng_socket_set_ms(c->sock, NNG_OPT_RECONNMAXT, 400)) != 0 ||
	    (rc = nng_dialer_create(&d, c->sock, url)) != 0 ||
	    (rc = nng_dialer_start(d, NNG_FLAG_NONBLOCK)) != 0) {
		sock_client_close(c);
		return nng_failed(rc, e, url);
	}
	*out = c;
	return true;
}

static struct sock_call *
call_new(struct sock_client *c)
{
	struct sock_call *call = c->spare;

	if (call) {
		c->spare = call->next;
	} else {
		call = heap_alloc(sizeof(*call));
		call->c = c;
		if (nng_ctx_open(&call->ctx, c->sock) != 0 || nng_aio_alloc(&call->aio, call_moved, call) != 0)
			bug("out of memory for a request");
		call->all = c->all;
		c->all = call;
	}
	call->next = NULL;
	call->answer = NULL;
	call->has_sent = false;
	call->result = 0;
	return call;
}

void
sock_ask(struct sock_client *c, struct bytes request, int timeout_ms, void *tag)
{
	struct sock_call *call = call_new(c);
	nng_msg *m;

	call->tag = tag;
	if (nng_msg_alloc(&m, 0) != 0 || nng_msg_append(m, request.p, request.n) != 0)
		bug("out of memory for a request of %zu bytes", request.n);
	nng_aio_set_timeout(call->aio, timeout_ms < 0 ? NNG_DURATION_INFINITE : timeout_ms);
	nng_aio_set_msg(call->aio, m);
	nng_ctx_send(call->ctx, call->aio);
}

struct sock_call *
sock_done(struct sock_client *c)
{
	struct sock_call *call;

	(void)pthread_mutex_lock(&c->lock);
	call = c->done;
	if (call) {
		c->done = call->next;
		if (!c->done)
			c->tail = &c->done;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return call;
}

void *
sock_call_tag(const struct sock_call *call)
{
	return call->tag;
}

bool
sock_call_bytes(const struct sock_call *call, struct bytes *answer, struct err *e)
{
	if (call->result == 0) {
		*answer = (struct bytes){nng_msg_body(call->answer), nng_msg_len(call->answer)};
		return true;
	}
	if (call->result == NNG_ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, "%s: no answer in time", call->c->url);
	return err_set(e, ERR_UNREACHABLE, "%s: %s", call->c->url, nng_strerror(call->result));
}

void
sock_call_free(struct sock_call *call)
{
	struct sock_client *c = call->c;

	if (call->answer)
		nng_msg_free(call->answer);
	call->answer = NULL;
	call->next = c->spare;
	c->spare = call;
}

/* Calls still out end with NNG_ECANCELED; stopping waits for their callbacks. */
void
sock_client_close(struct sock_client *c)
{
	for (struct sock_call *call = c->all; call; call = call->all)
		nng_aio_stop(call->aio);
	(void)nng_close(c->sock);
	while (c->all) {
		struct sock_call *call = c->all;

		c->all = call->all;
		if (call->answer)
			nng_msg_free(call->answer);
		nng_aio_free(call->aio);
		free(call);
	}
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}
