/* proto/sock_door.c: local addresses that a server listens on.  nng 1.5.2 can make one deaf, and whoever
 * cleans /tmp can remove one: so each is knocked at, and opened anew when nobody answers. */
#include "sock_int.h"

#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { GREETING_BYTES = 8, DOOR_LOOKS = 5 };
static const int64_t SECOND = 1000000000, KNOCK_EVERY = SECOND, DOOR_ANSWERS = 4 * SECOND;

/* An address, and the knock on it that is under way (local ones). */
struct door {
	struct door *next;
	nng_listener listener;
	const struct keys *keys; /* TLS */
	bool is_open, is_local;
	int knock;          /* -1: none */
	int64_t knocked_ns; /* or opened */
	size_t n_heard;     /* bytes of the answer */
	uint32_t n_looks;   /* for one */
	char url[SOCK_URL_BYTES];
};

/* It stays the same when it is opened anew: a port that the system chose is kept. */
static int
keep_port(struct door *d)
{
	char *colon = strrchr(d->url, ':');
	int port = 0;

	if (nng_listener_get_int(d->listener, NNG_OPT_TCP_BOUND_PORT, &port) != 0)
		return 0;
	if (colon && strcmp(colon, ":0") == 0)
		(void)snprintf(colon, sizeof(d->url) - (size_t)(colon - d->url), ":%d", port);
	return port;
}

bool
door_open(
    nng_socket sock, const char *url, const struct keys *keys, struct door **list, int *port, struct err *e)
{
	bool is_local = url_is(url, "ipc://");
	struct door *d;
	nng_listener l;

	*port = 0;
	if (!is_local && !url_is(url, "tcp://") && !url_is(url, "tls+tcp://"))
		return err_set(
		    e, ERR_USAGE, "'%s' is no address; use ipc:///path or tls+tcp://address:port", url);
	if (is_local && strlen(url + 6) > SOCK_PATH_BYTES)
		return err_set(e, ERR_USAGE, "%s: the path of a local socket may have %d bytes at most", url,
		    (int)SOCK_PATH_BYTES);
	if (strlen(url) >= SOCK_URL_BYTES)
		return err_set(e, ERR_USAGE, "%.40s...: the address is too long", url);
	if (!listener_open(sock, url, keys, &l, e))
		return false;
	d = heap_alloc(sizeof(*d));
	*d = (struct door){.next = *list,
	    .listener = l,
	    .keys = keys,
	    .is_open = true,
	    .is_local = is_local,
	    .knock = -1,
	    .knocked_ns = now_ns()};
	(void)snprintf(d->url, sizeof(d->url), "%s", url);
	if (!is_local)
		*port = keep_port(d);
	*list = d;
	return true;
}

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
open_anew(nng_socket sock, struct door *d)
{
	struct err e = {0};

	end_knock(d);
	if (d->is_open)
		(void)nng_listener_close(d->listener); /* and its connections: the others come back */
	d->is_open = listener_open(sock, d->url, d->keys, &d->listener, &e);
	d->knocked_ns = now_ns();
	return d->is_open;
}

static bool
tend(nng_socket sock, struct door *d)
{
	int64_t waited = now_ns() - d->knocked_ns;

	if (!d->is_open)
		return waited >= (d->is_local ? KNOCK_EVERY : 0) && open_anew(sock, d);
	if (!d->is_local)
		return false;
	if (d->knock >= 0 && is_answered(d))
		end_knock(d);
	/* an owner that was held up itself has not answered yet: hence the looks */
	if (d->knock >= 0 && waited >= DOOR_ANSWERS && ++d->n_looks >= DOOR_LOOKS)
		return open_anew(sock, d);
	if (d->knock < 0 && waited >= KNOCK_EVERY)
		knock(d);
	return false;
}

uint32_t
doors_tend(nng_socket sock, struct door *first)
{
	uint32_t n = 0;

	for (struct door *d = first; d; d = d->next)
		n += tend(sock, d);
	return n;
}

/* A listener's TLS cannot change: it ends, and the next one opens at the same port as soon as that is free.
 */
void
doors_rekey(nng_socket sock, struct door *first, const struct keys *keys, bool is_new)
{
	for (struct door *d = first; d; d = d->next) {
		if (!url_is(d->url, "tls+tcp://"))
			continue;
		d->keys = keys;
		if (is_new)
			(void)open_anew(sock, d);
	}
}

void
doors_free(struct door *first)
{
	while (first) {
		struct door *d = first;

		first = d->next;
		end_knock(d);
		free(d);
	}
}
