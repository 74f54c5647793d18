/* proto/sock_why.c: why nobody answers at an address.  nng 1.5 dials on and says nothing; so what it does is
 * done once more, step by step, over connections of its own: find the host, connect, shake hands by TLS or
 * greet.  What dialling on cannot mend (keys, names, TLS on one side alone) is told apart from what it may: a
 * daemon that starts, or has no room just now. */
#include "keys.h"
#include "sock.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 3000, HEAD_BYTES = 4 };
enum { TLS_ALERT = 21, TLS_HANDSHAKE = 22, TLS_MAJOR = 3 };        /* of a record's first octets */
static const uint8_t greeting[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* of nng's, before all else */

struct probe {
	const char *url;
	char host[256], port[16];
	int fd;
	int64_t until_ns;
	mbedtls_ssl_context ssl;
	mbedtls_ssl_config conf;
	mbedtls_x509_crt ca, cert;
	mbedtls_pk_context key;
	bool was_shown;           /* its certificate */
	bool stays;               /* however often we dial */
	uint8_t head[HEAD_BYTES]; /* what it said first */
	size_t n_head;
	uint32_t flags;
	mbedtls_x509_time from, to;
};

/* For the end of a sentence's function: of what dialling on does not mend. */
static bool
stays(struct probe *p)
{
	p->stays = true;
	return false;
}

static int
left_ms(const struct probe *p)
{
	int64_t ns = p->until_ns - os_real()->mono_ns(NULL);

	return ns > 0 ? (int)(ns / 1000000) : 0;
}

/* Until the socket is ready for that; false: time is over. */
static bool
await(const struct probe *p, short what)
{
	struct pollfd fd = {.fd = p->fd, .events = what};
	int rc;

	while ((rc = poll(&fd, 1, left_ms(p))) < 0 && errno == EINTR)
		;
	return rc > 0;
}

/* "tls+tcp://[::1]:7070" -> "::1", "7070" */
static bool
split(struct probe *p, struct err *e)
{
	const char *at = strstr(p->url, "://") + 3, *colon = strrchr(at, ':');
	size_t n = colon ? (size_t)(colon - at) : 0;

	if (n > 1 && at[0] == '[' && at[n - 1] == ']') {
		at++;
		n -= 2;
	}
	if (!colon || n == 0 || n >= sizeof(p->host) || strlen(colon + 1) >= sizeof(p->port) || !colon[1])
		return err_set(
		    e, ERR_USAGE, "%s: an address names host and port: tls+tcp://host:port", p->url);
	(void)snprintf(p->host, sizeof(p->host), "%.*s", (int)n, at);
	(void)snprintf(p->port, sizeof(p->port), "%s", colon + 1);
	return true;
}

/* ---- connect -------------------------------------------------------------------------- */
static int
try_one(struct probe *p, const struct addrinfo *a)
{
	int failed = 0;
	socklen_t n = sizeof(failed);

	p->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0)
		return errno;
	if (connect(p->fd, a->ai_addr, a->ai_addrlen) != 0)
		failed = errno != EINPROGRESS                                   ? errno
		    : !await(p, POLLOUT)                                        ? ETIMEDOUT
		    : getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &failed, &n) != 0 ? errno
										: failed;
	if (failed) {
		(void)close(p->fd);
		p->fd = -1;
	}
	return failed;
}

static bool
connect_to(struct probe *p, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	int rc = getaddrinfo(p->host, p->port, &hints, &list), failed = ECONNREFUSED;

	if (rc != 0)
		return err_set(
		    e, ERR_UNREACHABLE, "%s: no host '%s' is known: %s", p->url, p->host, gai_strerror(rc));
	for (const struct addrinfo *a = list; a && p->fd < 0; a = a->ai_next)
		failed = try_one(p, a);
	freeaddrinfo(list);
	return p->fd >= 0 ||
	    err_set(e, ERR_UNREACHABLE,
		failed == ECONNREFUSED ? "no korchd listens at %s (%s); is it running?"
				       : "%s cannot be reached: %s",
		p->url, strerror(failed));
}

/* ---- TLS ------------------------------------------------------------------------------ */
static int
to_net(void *self, const unsigned char *b, size_t n)
{
	ssize_t rc = send(((struct probe *)self)->fd, b, n, MSG_NOSIGNAL);

	return rc >= 0 ? (int)rc : errno == EAGAIN ? MBEDTLS_ERR_SSL_WANT_WRITE : -1;
}

static int
from_net(void *self, unsigned char *b, size_t n)
{
	struct probe *p = self;
	ssize_t rc = recv(p->fd, b, n, 0);

	for (ssize_t i = 0; i < rc && p->n_head < HEAD_BYTES; i++)
		p->head[p->n_head++] = b[i];
	return rc > 0         ? (int)rc
	    : rc == 0         ? MBEDTLS_ERR_SSL_CONN_EOF
	    : errno == EAGAIN ? MBEDTLS_ERR_SSL_WANT_READ
			      : -1;
}

/* Whatever its certificate is like, it is looked at afterwards; by then it may have gone, because of ours. */
static int
look(void *self, mbedtls_x509_crt *c, int depth, uint32_t *flags)
{
	struct probe *p = self;

	p->was_shown = true;
	p->flags |= *flags;
	if (depth == 0 || *flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) {
		p->from = c->valid_from;
		p->to = c->valid_to;
	}
	return 0;
}

static bool
set_up_keys(struct probe *p, const struct keys *k)
{
	const char *ca = keys_ca_pem(k), *cert = keys_cert_pem(k), *key = keys_key_pem(k);

	if (mbedtls_x509_crt_parse(&p->ca, (const unsigned char *)ca, strlen(ca) + 1) != 0 ||
	    mbedtls_x509_crt_parse(&p->cert, (const unsigned char *)cert, strlen(cert) + 1) != 0 ||
	    mbedtls_pk_parse_key(&p->key, (const unsigned char *)key, strlen(key) + 1, NULL, 0) != 0)
		return false;
	mbedtls_ssl_conf_ca_chain(&p->conf, &p->ca, NULL);
	return mbedtls_ssl_conf_own_cert(&p->conf, &p->cert, &p->key) == 0;
}

/* k: NULL: all that is wanted is to see whether it shakes hands at all. */
static bool
set_up(struct probe *p, const struct keys *k)
{
	if (mbedtls_ssl_config_defaults(&p->conf, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
		MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
	    (k && !set_up_keys(p, k)))
		return false;
	mbedtls_ssl_conf_authmode(&p->conf, MBEDTLS_SSL_VERIFY_OPTIONAL);
	mbedtls_ssl_conf_min_version(&p->conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
	mbedtls_ssl_conf_rng(&p->conf, random_for_mbedtls, NULL);
	mbedtls_ssl_conf_verify(&p->conf, look, p);
	if (mbedtls_ssl_setup(&p->ssl, &p->conf) != 0 || mbedtls_ssl_set_hostname(&p->ssl, p->host) != 0)
		return false;
	mbedtls_ssl_set_bio(&p->ssl, p, to_net, from_net, NULL);
	return true;
}

static bool
its_certificate(struct probe *p, struct err *e)
{
	uint32_t flags = p->flags;
	char text[200];

	if (flags == 0)
		return true;
	p->stays = true;
	if (flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) {
		const mbedtls_x509_time *t = flags & MBEDTLS_X509_BADCERT_EXPIRED ? &p->to : &p->from;

		return err_set(e, ERR_UNREACHABLE,
		    flags & MBEDTLS_X509_BADCERT_EXPIRED ? "%s: its certificate expired on %04d-%02d-%02d; "
							   "make another for the daemon with korch-keys add"
							 : "%s: its certificate is good from %04d-%02d-%02d "
							   "on; is the clock of this host right?",
		    p->url, t->year, t->mon, t->day);
	}
	if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
		return err_set(e, ERR_UNREACHABLE,
		    "%s: its certificate is not signed by the authority of ca.crt; is that the right daemon?",
		    p->url);
	if (flags & MBEDTLS_X509_BADCERT_CN_MISMATCH)
		return err_set(e, ERR_UNREACHABLE,
		    "%s: its certificate is not for '%s'; name the host as korch-keys was told by --host",
		    p->url, p->host);
	(void)mbedtls_x509_crt_verify_info(text, sizeof(text), "", flags);
	text[strcspn(text, "\n")] = '\0';
	return err_set(e, ERR_UNREACHABLE, "%s: its certificate is refused: %s", p->url, text);
}

/* The handshake's error, or 0; ETIMEDOUT: it went on for too long. */
static int
handshake(struct probe *p)
{
	int rc;

	while ((rc = mbedtls_ssl_handshake(&p->ssl)) == MBEDTLS_ERR_SSL_WANT_READ ||
	    rc == MBEDTLS_ERR_SSL_WANT_WRITE)
		if (!await(p, rc == MBEDTLS_ERR_SSL_WANT_READ ? POLLIN : POLLOUT))
			return ETIMEDOUT;
	return rc;
}

static bool
greets(const struct probe *p)
{
	return p->n_head == HEAD_BYTES && memcmp(p->head, greeting, HEAD_BYTES) == 0;
}

static bool
speaks_tls(const struct probe *p)
{
	return p->n_head >= 2 && p->head[1] == TLS_MAJOR &&
	    (p->head[0] == TLS_HANDSHAKE || p->head[0] == TLS_ALERT);
}

/* Its word that it will not have us.  It may have closed behind it, so that ours could not be sent to the
 * end; then it is still to be read. */
static bool
is_alert(struct probe *p, int rc)
{
	unsigned char b[HEAD_BYTES];

	if (rc == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
		return true;
	return await(p, POLLIN) && recv(p->fd, b, sizeof(b), 0) >= 2 && b[0] == TLS_ALERT &&
	    b[1] == TLS_MAJOR;
}

/* It looks at our certificate when we have looked at its.  Without an alert it may have had no room. */
static bool
our_certificate(struct probe *p, const struct keys *k, int rc, struct err *e)
{
	p->stays = is_alert(p, rc);
	return err_set(e, ERR_UNREACHABLE,
	    "%s: the daemon does not take %s; is it of the daemon's authority, and good on the daemon's "
	    "clock?",
	    p->url, keys_file(k));
}

static bool
shake_hands(struct probe *p, const struct keys *k, struct err *e)
{
	char text[160];
	int rc;

	if (!set_up(p, k))
		return true; /* nothing that we could say */
	rc = handshake(p);
	if (rc == ETIMEDOUT)
		return err_set(
		    e, ERR_UNREACHABLE, "%s: somebody listens there and does not shake hands", p->url);
	if (!its_certificate(p, e))
		return false;
	if (rc == 0)
		return true;
	if (p->was_shown)
		return our_certificate(p, k, rc, e);
	if (greets(p)) {
		(void)err_set(e, ERR_UNREACHABLE,
		    "%s: the korchd there speaks no TLS; have it listen on tls+tcp:// with --keys, or name "
		    "it tcp:// with --plain",
		    p->url);
		return stays(p);
	}
	mbedtls_strerror(rc, text, sizeof(text));
	return err_set(e, ERR_UNREACHABLE, "%s: what listens there does not speak TLS as korchd does (%s)",
	    p->url, text);
}

/* ---- plain ---------------------------------------------------------------------------- */
/* Both sides of nng greet at once. */
static void
hear_greeting(struct probe *p)
{
	unsigned char b[sizeof(greeting)];

	(void)to_net(p, greeting, sizeof(greeting));
	while (p->n_head < HEAD_BYTES && await(p, POLLIN) && from_net(p, b, sizeof(b)) > 0)
		;
}

static bool
again_by_tls(struct probe *p, struct err *e)
{
	(void)close(p->fd);
	p->fd = -1;
	p->n_head = 0;
	if (!connect_to(p, e))
		return false;
	if (set_up(p, NULL))
		(void)handshake(p);
	return true;
}

static bool
greet(struct probe *p, struct err *e)
{
	hear_greeting(p);
	if (greets(p))
		return true;
	if (left_ms(p) == 0)
		return err_set(e, ERR_UNREACHABLE, "%s: somebody listens there and says nothing", p->url);
	if (!again_by_tls(p, e))
		return false;
	if (!speaks_tls(p))
		return err_set(e, ERR_UNREACHABLE, "%s: what listens there is no korchd", p->url);
	(void)err_set(e, ERR_UNREACHABLE,
	    "%s: what listens there speaks TLS; name it tls+%s, with --keys (korch-keys makes them)", p->url,
	    p->url);
	return stays(p);
}

static bool
probe(struct probe *p, const struct keys *keys, struct err *e)
{
	return split(p, e) && connect_to(p, e) && (keys ? shake_hands(p, keys, e) : greet(p, e));
}

bool
sock_reachable(const char *url, const struct keys *keys, bool *is_wrong, struct err *e)
{
	struct probe *p;
	bool ok;

	*is_wrong = false;
	if (strncmp(url, "ipc://", 6) == 0)
		return err_set(e, ERR_UNREACHABLE, "no korchd answers at %s; is it running?", url);
	p = heap_alloc(sizeof(*p));
	p->url = url;
	p->fd = -1;
	p->until_ns = os_real()->mono_ns(NULL) + (int64_t)PATIENCE_MS * 1000000;
	mbedtls_ssl_init(&p->ssl);
	mbedtls_ssl_config_init(&p->conf);
	mbedtls_x509_crt_init(&p->ca);
	mbedtls_x509_crt_init(&p->cert);
	mbedtls_pk_init(&p->key);
	ok = probe(p, keys, e);
	*is_wrong = p->stays;
	mbedtls_ssl_free(&p->ssl);
	mbedtls_ssl_config_free(&p->conf);
	mbedtls_x509_crt_free(&p->ca);
	mbedtls_x509_crt_free(&p->cert);
	mbedtls_pk_free(&p->key);
	if (p->fd >= 0)
		(void)close(p->fd);
	free(p);
	return ok;
}
