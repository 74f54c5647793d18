/* tests/fault/raw.c: see raw.h. */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { GREETING = 8, PIECE = 65536 };

static void
grow(uint8_t **p, size_t *cap, size_t need)
{
	if (need <= *cap)
		return;
	*cap = MAX_OF(2 * *cap, need);
	*p = heap_resize(*p, *cap);
}

static int
connect_to(const char *url, bool *is_local)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET};
	char host[64];
	int port = 0, yes = 1, rc, fd;

	*is_local = strncmp(url, "ipc://", 6) == 0;
	fd = socket(*is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		bug("socket: %s", strerror(errno));
	if (*is_local) {
		(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", url + 6);
		rc = connect(fd, (struct sockaddr *)&un, sizeof(un));
	} else {
		if (sscanf(url, "tcp://%63[^:]:%d", host, &port) != 2 ||
		    inet_pton(AF_INET, host, &in.sin_addr) != 1)
			bug("%s is no address", url);
		in.sin_port = htons((uint16_t)port);
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		rc = connect(fd, (struct sockaddr *)&in, sizeof(in));
	}
	if (rc == 0)
		return fd;
	(void)close(fd);
	return -1;
}

static void
put(struct raw *r, const void *p, size_t n)
{
	grow(&r->out, &r->cap_out, r->n_out + n);
	memcpy(r->out + r->n_out, p, n);
	r->n_out += n;
}

bool
raw_begin(struct raw *r, const char *url)
{
	*r = (struct raw){.fd = connect_to(url, &r->is_local), .is_local = strncmp(url, "ipc://", 6) == 0};
	if (r->fd < 0)
		return false;
	put(r, "\0SP\0\0\x30\0\0", GREETING);
	return fcntl(r->fd, F_SETFL, O_NONBLOCK) == 0;
}

bool
raw_begin_tls(struct raw *r, const char *url, struct raw_tls_conf *conf)
{
	char host[64] = "";

	if (!raw_begin(r, url + strlen("tls+")))
		return false;
	if (sscanf(url, "tls+tcp://%63[^:]", host) != 1)
		bug("%s is no address", url);
	r->tls = raw_tls_new(conf, host, r->fd);
	return true;
}

void
raw_open(struct raw *r, const char *url, bool greets)
{
	if (!raw_begin(r, url))
		bug("%s: cannot connect: %s", url, strerror(errno));
	if (!greets)
		r->n_out = 0;
	(void)raw_step(r);
}

void
raw_close(struct raw *r)
{
	raw_tls_free(r->tls);
	if (r->fd >= 0)
		(void)close(r->fd);
	free(r->in);
	free(r->out);
	arena_fini(&r->a);
	*r = (struct raw){.fd = -1};
}

void
raw_reset(struct raw *r)
{
	struct linger at_once = {.l_onoff = 1};

	(void)setsockopt(r->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	raw_close(r);
}

/* ---- octets ------------------------------------------------------------------------- */
static ssize_t
put_out(struct raw *r)
{
	return r->tls ? raw_tls_send(r->tls, r->out, r->n_out) : send(r->fd, r->out, r->n_out, MSG_NOSIGNAL);
}

static ssize_t
take_in(struct raw *r, void *p, size_t n)
{
	return r->tls ? raw_tls_recv(r->tls, p, n) : recv(r->fd, p, n, 0);
}

bool
raw_step(struct raw *r)
{
	ssize_t n = 1;

	while (r->fd >= 0 && r->n_out && (n = put_out(r)) > 0) {
		memmove(r->out, r->out + n, r->n_out - (size_t)n);
		r->n_out -= (size_t)n;
	}
	if (r->fd < 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	for (;;) {
		grow(&r->in, &r->cap_in, r->n_in + PIECE);
		n = take_in(r, r->in + r->n_in, PIECE);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		r->n_in += (size_t)n;
	}
}

bool
raw_wants_to_send(const struct raw *r)
{
	return r->n_out > 0;
}

/* Until something can be done; false: it is over. */
static bool
wait_for_it(struct raw *r)
{
	struct pollfd p = {.fd = r->fd, .events = (short)(POLLIN | (r->n_out ? POLLOUT : 0))};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	return raw_step(r);
}

void
raw_octets(struct raw *r, struct bytes b)
{
	put(r, b.p, b.n);
	while (r->n_out && wait_for_it(r))
		;
}

static void
put_frame(struct raw *r, struct bytes body)
{
	uint64_t n = body.n + 4;
	uint8_t head[13] = {1}, *at = r->is_local ? head + 1 : head;

	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(n >> (56 - 8 * i));
	at[8] = 0x80; /* the last of the way, and the request's number: ours are told apart by their ids */
	at[11] = 1;
	put(r, head, (size_t)(at - head) + 12);
	put(r, body.p, body.n);
}

void
raw_frame(struct raw *r, struct bytes body)
{
	put_frame(r, body);
	while (r->n_out && wait_for_it(r))
		;
}

/* ---- messages ----------------------------------------------------------------------- */
void
raw_send(struct raw *r, struct msg *m)
{
	struct arena tmp = {0};
	struct bytes b;
	struct err e = {0};

	m->id = ++r->next_id;
	if (!m->session && m->type != MSG_hello)
		m->session = r->session;
	if (!msg_pack(&tmp, m, PIPE_MAX_BYTES, &b, &e))
		bug("%s", e.msg);
	put_frame(r, b);
	(void)raw_step(r);
	arena_fini(&tmp);
}

bool
raw_next(struct raw *r, struct msg *m)
{
	size_t head = r->is_local ? 9 : 8, used;
	uint64_t n = 0;
	struct err e = {0};
	struct bytes body;

	if (!r->has_greeting && r->n_in >= GREETING) {
		r->has_greeting = true;
		memmove(r->in, r->in + GREETING, r->n_in -= GREETING);
	}
	if (!r->has_greeting || r->n_in < head)
		return false;
	for (size_t i = 0; i < 8; i++)
		n = n << 8 | r->in[head - 8 + i];
	if (n < 4 || n > PIPE_MAX_BYTES)
		bug("korchd sends a frame of %llu bytes", (unsigned long long)n);
	used = head + (size_t)n;
	if (r->n_in < used)
		return false;
	body = (struct bytes){arena_dup(&r->a, r->in + head + 4, (size_t)n - 4), (size_t)n - 4};
	memmove(r->in, r->in + used, r->n_in -= used);
	if (!msg_unpack(&r->a, body, m, &e))
		bug("korchd says: %s", e.msg);
	return true;
}

bool
raw_hear(struct raw *r, struct msg *m)
{
	while (!raw_next(r, m))
		if (!wait_for_it(r))
			return raw_next(r, m);
	return true;
}

bool
raw_is_over(struct raw *r)
{
	return !raw_step(r);
}

void
raw_await_end(struct raw *r)
{
	r->n_out = 0;
	while (wait_for_it(r))
		r->n_in = 0;
}

enum err_code
raw_ask(struct raw *r, struct msg *ask, struct msg *answer)
{
	struct err e = {0};

	raw_send(r, ask);
	do
		if (!raw_hear(r, answer))
			return ERR_LINKLOST;
	while (answer->id != ask->id);
	return msg_is_error(answer, &e) ? e.code : ERR_NONE;
}

enum err_code
raw_hello(struct raw *r, struct hello *h)
{
	struct bytes challenge = {0};
	struct msg ask, m;
	enum err_code code;

	for (int i = 0; i < 2; i++) {
		hello_fill(h, challenge, &ask);
		code = raw_ask(r, &ask, &m);
		if (code)
			return code;
		if (m.type != MSG_welcome)
			bug("hello is answered with %s", msg_name(m.type));
		r->session = m.welcome.session;
		if (r->session)
			return ERR_NONE;
		challenge = m.welcome.challenge;
	}
	return ERR_UNPROVED;
}
