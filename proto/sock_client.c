/* proto/sock_client.c: the REQ socket of workers and clients: any number of requests at once,
 * each with its own end. */
#include "sock_int.h"

#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLOSE_SECONDS = 5 };
/* nng gives hands 10 s to shake; who closes a dialer meanwhile can stop nng's reaper for ever, and nothing of
 * this process connects again. */
static const int64_t SECOND = 1000000000, DIAL_PATIENCE = 2 * SECOND, TLS_PATIENCE = 12 * SECOND,
		     DIAL_PATIENCE_MAX = 16 * SECOND;

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
	nng_dialer dialer;
	const struct keys *keys; /* TLS; NULL: none */
	uint32_t n_pipes;        /* connections; under the lock */
	int64_t joined_ns;       /* when last seen connected, or dialled; the owner's thread alone */
	int64_t patience_ns;     /* until the dialer is taken for dead */
	uint64_t n_failed;       /* dials of this dialer that sock_client_failed knows of */
	char url[SOCK_URL_BYTES];
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

static void
pipe_moved(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct sock_client *c = arg;

	(void)p;
	(void)pthread_mutex_lock(&c->lock);
	c->n_pipes += ev == NNG_PIPE_EV_ADD_POST ? 1u : UINT32_MAX;
	(void)pthread_mutex_unlock(&c->lock);
}

static int
set_up(struct sock_client *c)
{
	struct nng_tls_config *tls;
	nng_url *url;
	int rc;

	if (url_is(c->url, "ipc://"))
		return 0;
	(void)nng_dialer_set_bool(c->dialer, NNG_OPT_TCP_KEEPALIVE, true);
	if (!c->keys)
		return 0;
	if ((rc = nng_url_parse(&url, c->url)) != 0)
		return rc;
	rc = tls_config(c->keys, url->u_hostname, &tls);
	nng_url_free(url);
	if (rc == 0) {
		rc = nng_dialer_set_ptr(c->dialer, NNG_OPT_TLS_CONFIG, tls);
		nng_tls_config_free(tls); /* the dialer has it now */
	}
	return rc;
}

static int
dial(struct sock_client *c)
{
	int rc = nng_dialer_create(&c->dialer, c->sock, c->url);

	c->joined_ns = now_ns();
	c->n_failed = 0;
	if (rc)
		return rc;
	rc = set_up(c);
	return rc ? rc : nng_dialer_start(c->dialer, NNG_FLAG_NONBLOCK);
}

static int64_t
first_patience(const struct sock_client *c)
{
	return c->keys ? TLS_PATIENCE : DIAL_PATIENCE;
}

/* A dialer that brought no connection for long may never try again: another takes its place. */
static void
redial(struct sock_client *c)
{
	bool is_joined;

	(void)pthread_mutex_lock(&c->lock);
	is_joined = c->n_pipes > 0;
	(void)pthread_mutex_unlock(&c->lock);
	if (is_joined) {
		c->joined_ns = now_ns();
		c->patience_ns = first_patience(c);
	} else if (now_ns() - c->joined_ns > c->patience_ns) {
		(void)nng_dialer_close(c->dialer);
		(void)dial(c); /* failed: the next one may not */
		c->patience_ns = MAX_OF(MIN_OF(2 * c->patience_ns, DIAL_PATIENCE_MAX), first_patience(c));
	}
}

/* Nobody at the port, and a host that does not answer, are not among them: both may come.  A library without
 * figures tells nothing. */
static uint64_t
count_failed(const struct sock_client *c)
{
	static const char *const kinds[] = {"disconnect", "other", "proto", "auth"};
	nng_stat *all, *of;
	uint64_t n = 0;

	if (nng_stats_get(&all) != 0)
		return 0;
	of = nng_stat_find_dialer(all, c->dialer);
	for (size_t i = 0; of && i < COUNT_OF(kinds); i++) {
		nng_stat *kind = nng_stat_find(of, kinds[i]);

		n += kind ? nng_stat_value(kind) : 0;
	}
	nng_stats_free(all);
	return n;
}

bool
sock_client_failed(struct sock_client *c)
{
	uint64_t n = count_failed(c), before = c->n_failed;

	c->n_failed = n;
	return n > before;
}

void
sock_client_rekey(struct sock_client *c, const struct keys *keys)
{
	c->keys = keys;
	(void)nng_dialer_close(c->dialer);
	(void)dial(c); /* failed: redial() will */
}

bool
sock_client_open(struct sock_client **out, const char *url, const struct keys *keys, size_t max_bytes,
    struct sock_wake wake, struct err *e)
{
	struct sock_client *c;
	int rc;

	if (!url_is(url, "ipc://") && !url_is(url, "tcp://") && !url_is(url, "tls+tcp://"))
		return err_set(
		    e, ERR_USAGE, "'%s' is no address; use ipc:///path or tls+tcp://host:port", url);
	if (strlen(url) >= sizeof(c->url) || (url[0] == 'i' && strlen(url + 6) > SOCK_PATH_BYTES))
		return err_set(e, ERR_USAGE, "%s: the address is too long", url);
	c = heap_alloc(sizeof(*c));
	(void)snprintf(c->url, sizeof(c->url), "%s", url);
	c->keys = keys;
	c->tail = &c->done;
	c->wake = wake;
	c->patience_ns = first_patience(c);
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
	    (rc = nng_pipe_notify(c->sock, NNG_PIPE_EV_ADD_POST, pipe_moved, c)) != 0 ||
	    (rc = nng_pipe_notify(c->sock, NNG_PIPE_EV_REM_POST, pipe_moved, c)) != 0 ||
	    (rc = dial(c)) != 0) {
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
		if (nng_ctx_open(&call->ctx, c->sock) != 0 ||
		    nng_aio_alloc(&call->aio, call_moved, call) != 0)
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

	redial(c);
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

	redial(c);
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

/* ---- the end ------------------------------------------------------------------------ */
struct closing {
	nng_socket sock;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done, is_left; /* whoever sets the second of them frees it */
};

/* true: nobody waits for it any more. */
static bool
close_socket(struct closing *c)
{
	bool is_left;

	(void)nng_close(c->sock);
	(void)pthread_mutex_lock(&c->lock);
	c->is_done = true;
	is_left = c->is_left;
	(void)pthread_cond_signal(&c->done);
	(void)pthread_mutex_unlock(&c->lock);
	return is_left;
}

static void *
close_beside(void *arg)
{
	struct closing *c = arg;

	if (close_socket(c))
		free(c);
	return NULL;
}

/* false: it is closed some time, or with the process. */
static bool
closes_in_time(nng_socket sock)
{
	struct closing *c = heap_alloc(sizeof *c);
	struct timespec until;
	pthread_condattr_t cond;
	pthread_attr_t attr;
	pthread_t thread;
	bool is_done;

	c->sock = sock;
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_condattr_init(&cond);
	(void)pthread_condattr_setclock(&cond, CLOCK_MONOTONIC); /* the other one may be set back by a day */
	(void)pthread_cond_init(&c->done, &cond);
	(void)pthread_condattr_destroy(&cond);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, close_beside, c) != 0)
		(void)close_socket(c);
	(void)pthread_attr_destroy(&attr);
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += CLOSE_SECONDS;
	(void)pthread_mutex_lock(&c->lock);
	while (!c->is_done && pthread_cond_timedwait(&c->done, &c->lock, &until) == 0)
		;
	is_done = c->is_done;
	c->is_left = !is_done;
	(void)pthread_mutex_unlock(&c->lock);
	if (is_done)
		free(c);
	return is_done;
}

/* Calls still out end with NNG_ECANCELED; stopping waits for their callbacks. */
void
sock_client_close(struct sock_client *c)
{
	for (struct sock_call *call = c->all; call; call = call->all)
		nng_aio_stop(call->aio);
	if (!closes_in_time(c->sock))
		return; /* nng still has it */
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
