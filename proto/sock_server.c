/* proto/sock_server.c: the raw REP socket of korchd: requests in, answers out, and the addresses
 * that it listens on.  Who is connected is a table (peers.h) under the same lock as the queue. */
#include "sock_int.h"

#include "peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_RECV = 4, QUEUE_LIMIT = 8192, QUEUE_BYTES = 64 << 20 };

struct sock_request {
	struct sock_request *next;
	nng_msg *msg;
	uint32_t peer;
	bool is_local;
};
struct receiver {
	struct sock_server *s;
	nng_aio *aio;
	bool is_idle; /* not armed: the queue was full, or nng failed; under the lock */
};
struct sender {
	struct sender *next; /* among the free ones */
	struct sender *all;  /* among all of the server's; the owner's thread alone */
	struct sock_server *s;
	nng_aio *aio;
};
struct to_cut {
	uint32_t *ids;
	uint32_t n, cap;
};
struct sock_server {
	nng_socket sock;
	struct sock_limits limits;
	struct door *doors;          /* the owner's thread alone */
	struct strangers *strangers; /* likewise */
	pthread_mutex_t lock;
	struct sock_request *head, **tail; /* arrived, in order */
	size_t n_queued, bytes_queued;
	struct peers *peers;
	struct to_cut to_cut; /* by the owner's thread */
	uint32_t n_cut[CUTS];
	struct receiver recv[N_RECV];
	struct sender *free_senders, *all_senders;
	struct sock_wake wake;
	int port;
	bool is_closing;
};

/* ---- what arrives; all with the lock held ------------------------------------------- */
static void
push(struct sock_server *s, struct sock_request *r)
{
	*s->tail = r;
	s->tail = &r->next;
	s->n_queued++;
	s->bytes_queued += nng_msg_len(r->msg);
}

static bool
has_room(const struct sock_server *s)
{
	return s->n_queued < QUEUE_LIMIT && s->bytes_queued < QUEUE_BYTES && !s->is_closing;
}

static void
note_cut(struct sock_server *s, uint32_t peer, enum sock_cut why)
{
	s->n_cut[why]++;
	if (s->to_cut.n == s->to_cut.cap) {
		s->to_cut.cap = MAX_OF(2 * s->to_cut.cap, 64u);
		s->to_cut.ids = heap_resize(s->to_cut.ids, s->to_cut.cap * sizeof(*s->to_cut.ids));
	}
	s->to_cut.ids[s->to_cut.n++] = peer;
}

/* A request, or one too many of a connection, which ends for it. */
static void
take_in(struct sock_server *s, nng_msg *m)
{
	uint32_t peer = (uint32_t)nng_pipe_id(nng_msg_get_pipe(m));
	const struct sock_peer *who = peers_find(s->peers, peer);
	struct sock_request *r;

	if (!who || !peers_heard(s->peers, peer, now_ns())) {
		peers_answered(s->peers, peer, now_ns());
		if (who)
			note_cut(s, peer, CUT_BUSY);
		nng_msg_free(m);
		return;
	}
	r = heap_alloc(sizeof(*r));
	*r = (struct sock_request){.msg = m, .peer = peer, .is_local = who->way == SOCK_LOCAL};
	push(s, r);
}

static void
received(void *arg)
{
	struct receiver *rc = arg;
	struct sock_server *s = rc->s;
	int result = nng_aio_result(rc->aio);
	bool again;

	if (result == NNG_ECLOSED || result == NNG_ECANCELED)
		return;
	(void)pthread_mutex_lock(&s->lock);
	if (result == 0)
		take_in(s, nng_aio_get_msg(rc->aio));
	/* what failed once may fail at once again: the next look at it is sock_server_tend's */
	again = result == 0 && has_room(s);
	rc->is_idle = !again;
	(void)pthread_mutex_unlock(&s->lock);
	s->wake.wake(s->wake.self);
	if (again)
		nng_recv_aio(s->sock, rc->aio);
}

/* ---- who comes and goes ------------------------------------------------------------- */
static void
set_address(struct sock_peer *who, const nng_sockaddr *from)
{
	if (from->s_family == NNG_AF_INET) {
		memset(who->ip + 10, 0xff, 2);
		memcpy(who->ip + 12, &from->s_in.sa_addr, 4);
		who->port = from->s_in.sa_port;
		(void)inet_ntop(AF_INET, &from->s_in.sa_addr, who->addr, sizeof(who->addr));
	} else if (from->s_family == NNG_AF_INET6) {
		memcpy(who->ip, from->s_in6.sa_addr, 16);
		who->port = from->s_in6.sa_port;
		(void)inet_ntop(AF_INET6, from->s_in6.sa_addr, who->addr, sizeof(who->addr));
	}
}

static struct sock_peer
peer_of(nng_pipe p)
{
	struct sock_peer who = {.id = (uint32_t)nng_pipe_id(p), .way = SOCK_PLAIN, .addr = "?"};
	nng_sockaddr at;
	uint64_t uid = 0;
	bool is_verified = false;

	if (nng_pipe_get_addr(p, NNG_OPT_LOCADDR, &at) == 0 && at.s_family == NNG_AF_IPC) {
		who.way = SOCK_LOCAL;
		(void)snprintf(who.addr, sizeof(who.addr), "local");
		(void)nng_pipe_get_uint64(p, NNG_OPT_IPC_PEER_UID, &uid);
		who.uid = (uint32_t)uid;
		return who;
	}
	if (nng_pipe_get_addr(p, NNG_OPT_REMADDR, &at) == 0)
		set_address(&who, &at);
	if (nng_pipe_get_bool(p, NNG_OPT_TLS_VERIFIED, &is_verified) == 0 && is_verified)
		who.way = SOCK_TLS;
	return who;
}

static void
pipe_came(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct sock_server *s = arg;
	struct sock_peer who = peer_of(p);
	enum sock_cut why;
	uint32_t cut;
	bool stays;

	(void)ev;
	(void)pthread_mutex_lock(&s->lock);
	stays = peers_add(s->peers, &who, now_ns(), &cut, &why);
	if (cut)
		note_cut(s, cut, why);
	(void)pthread_mutex_unlock(&s->lock);
	if (!stays)
		(void)nng_pipe_close(p); /* at once: nothing of it is taken in */
	else if (cut)
		s->wake.wake(s->wake.self);
}

static void
pipe_gone(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct sock_server *s = arg;

	(void)ev;
	(void)pthread_mutex_lock(&s->lock);
	peers_gone(s->peers, (uint32_t)nng_pipe_id(p));
	(void)pthread_mutex_unlock(&s->lock);
	s->wake.wake(s->wake.self);
}

bool
sock_server_open(struct sock_server **out, size_t max_bytes, const struct sock_limits *limits,
    struct sock_wake wake, struct err *e)
{
	static const struct sock_limits none = {.max = UINT32_MAX,
	    .max_host = UINT32_MAX,
	    .max_unproved = UINT32_MAX,
	    .max_requests = UINT32_MAX,
	    .prove_ns = INT64_MAX,
	    .silent_ns = INT64_MAX};
	struct sock_server *s = heap_alloc(sizeof(*s));
	int rc;

	s->tail = &s->head;
	s->wake = wake;
	s->limits = limits ? *limits : none;
	(void)pthread_mutex_init(&s->lock, NULL);
	rc = nng_rep0_open_raw(&s->sock);
	if (rc) {
		free(s);
		return nng_failed(rc, e, "the network library");
	}
	s->peers = peers_new(&s->limits);
	s->strangers = strangers_new();
	if ((rc = nng_socket_set_size(s->sock, NNG_OPT_RECVMAXSZ, max_bytes)) != 0 ||
	    (rc = nng_pipe_notify(s->sock, NNG_PIPE_EV_ADD_PRE, pipe_came, s)) != 0 ||
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

bool
sock_listen(struct sock_server *s, const char *url, const struct keys *keys, struct err *e)
{
	int port;

	if (!door_open(s->sock, url, keys, &s->doors, &port, e))
		return false;
	if (port)
		s->port = port;
	return true;
}

void
sock_rekey(struct sock_server *s, const struct keys *keys, bool is_new)
{
	doors_rekey(s->sock, s->doors, keys, is_new);
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
		idle = s->recv[i].is_idle && has_room(s);
		s->recv[i].is_idle = s->recv[i].is_idle && !idle;
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
		s->bytes_queued -= nng_msg_len(r->msg);
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (!r || was_full)
		rearm(s);
	return r;
}

/* ---- ends --------------------------------------------------------------------------- */
static void
do_cuts(struct sock_server *s)
{
	struct to_cut list;

	(void)pthread_mutex_lock(&s->lock);
	list = s->to_cut;
	s->to_cut = (struct to_cut){0};
	(void)pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < list.n; i++)
		(void)nng_pipe_close((nng_pipe){list.ids[i]}); /* it may have gone by itself */
	free(list.ids);
}

static void
cut_silent(struct sock_server *s)
{
	enum sock_cut why;
	uint32_t peer;

	(void)pthread_mutex_lock(&s->lock);
	while ((peer = peers_silent(s->peers, now_ns(), &why)) != 0)
		note_cut(s, peer, why);
	(void)pthread_mutex_unlock(&s->lock);
}

static bool
is_known(void *self, const uint8_t ip[16], uint16_t port)
{
	struct sock_server *s = self;
	bool has;

	(void)pthread_mutex_lock(&s->lock);
	has = peers_has_port(s->peers, ip, port);
	(void)pthread_mutex_unlock(&s->lock);
	return has;
}

const char *
sock_cut_why(enum sock_cut c)
{
	static const char *const why[CUTS] = {
	    [CUT_UNPROVED] = "they had not proved who they are in time (--hello-timeout)",
	    [CUT_SILENT] = "they had been silent for too long (--idle-timeout)",
	    [CUT_CROWD] = "too many had not proved who they are, most of them of that host",
	    [CUT_FULL] = "there are as many as may be, in all or of one host (--max-connections)",
	    [CUT_ENDED] = "their sessions are not let in any more",
	    [CUT_BUSY] = "they asked for too much at once",
	    [CUT_STRANGER] = "hardly any files were left, and they had not shaken hands"};

	return why[c];
}

struct sock_tended
sock_server_tend(struct sock_server *s)
{
	struct sock_tended t = {.n_reopened = doors_tend(s->sock, s->doors)};

	rearm(s);
	cut_silent(s);
	if (files_run_out(s->limits.files))
		t.n_cut[CUT_STRANGER] = strangers_cut(s->strangers, is_known, s);
	(void)pthread_mutex_lock(&s->lock);
	for (int i = 0; i < CUT_STRANGER; i++)
		t.n_cut[i] = s->n_cut[i];
	memset(s->n_cut, 0, sizeof(s->n_cut));
	(void)pthread_mutex_unlock(&s->lock);
	do_cuts(s);
	return t;
}

enum sock_event
sock_take(struct sock_server *s, struct sock_request **req, uint32_t *peer)
{
	struct sock_request *r = pop(s);
	bool gone;

	while (r && nng_msg_len(r->msg) == 0) {
		sock_answer(s, r, (struct bytes){0}); /* a knock */
		r = pop(s);
	}
	if (r) {
		*req = r;
		return SOCK_REQUEST;
	}
	do_cuts(s);
	(void)pthread_mutex_lock(&s->lock);
	gone = peers_take(s->peers, peer);
	(void)pthread_mutex_unlock(&s->lock);
	return gone ? SOCK_GONE : SOCK_NOTHING;
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
sock_peer(struct sock_server *s, uint32_t peer, struct sock_peer *out)
{
	const struct sock_peer *who;

	(void)pthread_mutex_lock(&s->lock);
	who = peers_find(s->peers, peer);
	if (who)
		*out = *who;
	(void)pthread_mutex_unlock(&s->lock);
	return who != NULL;
}

bool
sock_peer_is_here(struct sock_server *s, uint32_t peer)
{
	bool is_here;

	(void)pthread_mutex_lock(&s->lock);
	is_here = peers_is_here(s->peers, peer);
	(void)pthread_mutex_unlock(&s->lock);
	return is_here;
}

void
sock_bind(struct sock_server *s, uint32_t peer, uint64_t number)
{
	(void)pthread_mutex_lock(&s->lock);
	peers_bind(s->peers, peer, number, now_ns());
	(void)pthread_mutex_unlock(&s->lock);
}

uint64_t
sock_bound(struct sock_server *s, uint32_t peer)
{
	uint64_t number;

	(void)pthread_mutex_lock(&s->lock);
	number = peers_bound(s->peers, peer);
	(void)pthread_mutex_unlock(&s->lock);
	return number;
}

static void
cut_one(void *self, uint32_t peer)
{
	note_cut(self, peer, CUT_ENDED);
}

void
sock_cut_bound(struct sock_server *s, uint64_t number)
{
	(void)pthread_mutex_lock(&s->lock);
	peers_each_bound(s->peers, number, cut_one, s);
	(void)pthread_mutex_unlock(&s->lock);
	do_cuts(s);
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

static void
answered(struct sock_server *s, const struct sock_request *r)
{
	(void)pthread_mutex_lock(&s->lock);
	peers_answered(s->peers, r->peer, now_ns());
	(void)pthread_mutex_unlock(&s->lock);
}

/* The request's header is the way back; the body is replaced by the answer. */
void
sock_answer(struct sock_server *s, struct sock_request *r, struct bytes answer)
{
	struct sender *d = take_sender(s);
	nng_msg *m = r->msg;

	answered(s, r);
	free(r);
	nng_msg_clear(m);
	if (nng_msg_append(m, answer.p, answer.n) != 0)
		bug("out of memory for an answer of %zu bytes", answer.n);
	nng_aio_set_msg(d->aio, m);
	nng_send_aio(s->sock, d->aio);
}

void
sock_drop(struct sock_server *s, struct sock_request *r)
{
	answered(s, r);
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
	doors_free(s->doors);
	strangers_free(s->strangers);
	while (s->head) {
		struct sock_request *r = s->head;

		s->head = r->next;
		nng_msg_free(r->msg);
		free(r);
	}
	peers_free(s->peers);
	free(s->to_cut.ids);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}
