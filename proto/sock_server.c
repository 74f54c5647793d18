/* proto/sock_server.c: the raw REP socket of korchd: requests in, answers out, and the addresses
 * that it listens on. */
#include "sock_int.h"

#include <errno.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { N_RECV = 4, QUEUE_LIMIT = 8192, GREETING_BYTES = 8, DOOR_LOOKS = 5 };
static const int64_t SECOND = 1000000000, KNOCK_EVERY = SECOND, DOOR_ANSWERS = 4 * SECOND;

struct sock_request {
	struct sock_request *next;
	nng_msg *msg; /* NULL: the connection has gone */
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
/* A local address that we listen on, and the knock on it that is under way. */
struct door {
	struct door *next;
	nng_listener listener;
	bool is_open;
	int knock;          /* -1: none */
	int64_t knocked_ns; /* or opened */
	size_t n_heard;     /* bytes of the answer */
	uint32_t n_looks;   /* for one */
	char url[SOCK_PATH_BYTES + 7];
};
struct sock_server {
	nng_socket sock;
	struct door *doors; /* the owner's thread alone */
	pthread_mutex_t lock;
	struct sock_request *head, **tail; /* arrived, in order */
	size_t n_queued;
	struct receiver recv[N_RECV];
	struct sender *free_senders, *all_senders;
	struct sock_wake wake;
	int port;
	bool is_closing;
};

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
	return unlink(path) == 0 ||
	    err_set(e, ERR_IO, "%s: cannot remove the old socket: %s", path, strerror(errno));
}

static bool
listen_on(struct sock_server *s, const char *url, nng_listener *l, struct err *e)
{
	bool is_ipc = strncmp(url, "ipc://", 6) == 0;
	int rc;

	if (is_ipc && !clear_stale(url + 6, e))
		return false;
	rc = nng_listener_create(l, s->sock, url);
	if (rc)
		return nng_failed(rc, e, url);
	if (is_ipc)
		(void)nng_listener_set_int(*l, NNG_OPT_IPC_PERMISSIONS, 0600);
	else
		(void)nng_listener_set_bool(*l, NNG_OPT_TCP_KEEPALIVE, true);
	rc = nng_listener_start(*l, 0);
	if (rc == 0)
		return true;
	(void)nng_listener_close(*l);
	return nng_failed(rc, e, url);
}

bool
sock_listen(struct sock_server *s, const char *url, struct err *e)
{
	bool is_ipc = strncmp(url, "ipc://", 6) == 0, is_tcp = strncmp(url, "tcp://", 6) == 0;
	struct door *door;
	nng_listener l;
	int port = 0;

	if (!is_ipc && !is_tcp)
		return err_set(
		    e, ERR_USAGE, "'%s' is no address; use ipc:///path or tcp://address:port", url);
	if (is_ipc && strlen(url + 6) > SOCK_PATH_BYTES)
		return err_set(e, ERR_USAGE, "%s: the path of a local socket may have %d bytes at most", url,
		    (int)SOCK_PATH_BYTES);
	if (!listen_on(s, url, &l, e))
		return false;
	if (is_tcp && nng_listener_get_int(l, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
		s->port = port;
	if (is_tcp)
		return true;
	door = heap_alloc(sizeof(*door));
	*door = (struct door){
	    .next = s->doors, .listener = l, .is_open = true, .knock = -1, .knocked_ns = now_ns()};
	(void)snprintf(door->url, sizeof(door->url), "%s", url);
	s->doors = door;
	return true;
}

/* ---- is anybody listening? ---------------------------------------------------------- */
/* An empty request over a connection of its own, in the words of the wire: a greeting, one
 * message of four bytes, the request's number.  Only a whole answer proves the listener: one
 * that is deaf still greets. */
static void
knock(struct door *d)
{
	static const uint8_t words[] = {
	    0, 'S', 'P', 0, 0, NNG_REQ0_SELF, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0x80, 0, 0, 1};
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", d->url + 6);
	d->knocked_ns = now_ns();
	d->n_heard = 0;
	d->n_looks = 0;
	d->knock = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->knock < 0)
		return;
	/* failed: silence, as from a listener that is deaf */
	if (connect(d->knock, (struct sockaddr *)&to, sizeof(to)) == 0)
		(void)send(d->knock, words, sizeof(words), MSG_NOSIGNAL);
}

static bool
is_answered(struct door *d)
{
	uint8_t heard[64];
	ssize_t n = d->knock >= 0 ? recv(d->knock, heard, sizeof(heard), MSG_DONTWAIT) : 0;

	d->n_heard += n > 0 ? (size_t)n : 0;
	return d->n_heard > GREETING_BYTES;
}

static void
end_knock(struct door *d)
{
	if (d->knock >= 0)
		(void)close(d->knock);
	d->knock = -1;
}

static bool
open_anew(struct sock_server *s, struct door *d)
{
	struct err e = {0};

	end_knock(d);
	if (d->is_open)
		(void)nng_listener_close(d->listener); /* and its connections: the others come back */
	d->is_open = listen_on(s, d->url, &d->listener, &e);
	d->knocked_ns = now_ns();
	return d->is_open;
}

static bool
tend_door(struct sock_server *s, struct door *d)
{
	int64_t waited = now_ns() - d->knocked_ns;

	if (!d->is_open)
		return waited >= KNOCK_EVERY && open_anew(s, d);
	if (d->knock >= 0 && is_answered(d))
		end_knock(d);
	/* an owner that was held up itself has not answered yet: hence the looks */
	if (d->knock >= 0 && waited >= DOOR_ANSWERS && ++d->n_looks >= DOOR_LOOKS)
		return open_anew(s, d);
	if (d->knock < 0 && waited >= KNOCK_EVERY)
		knock(d);
	return false;
}

uint32_t
sock_server_tend(struct sock_server *s)
{
	uint32_t n = 0;

	for (struct door *d = s->doors; d; d = d->next)
		n += tend_door(s, d);
	return n;
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

static struct sock_request *
pop(struct sock_server *s)
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
	return r;
}

enum sock_event
sock_take(struct sock_server *s, struct sock_request **req, uint32_t *peer)
{
	struct sock_request *r = pop(s);

	while (r && r->msg && nng_msg_len(r->msg) == 0) {
		sock_answer(s, r, (struct bytes){0}); /* a knock */
		r = pop(s);
	}
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
sock_peer_is_here(uint32_t peer)
{
	nng_sockaddr addr;

	return nng_pipe_get_addr((nng_pipe){peer}, NNG_OPT_LOCADDR, &addr) == 0;
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
	while (s->doors) {
		struct door *d = s->doors;

		s->doors = d->next;
		end_knock(d);
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
