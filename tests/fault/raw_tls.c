/* tests/fault/raw_tls.c: see raw_tls.h. */
#include "raw_tls.h"

#include "../../kernels/base/sign.h"

#include <errno.h>
#include <mbedtls/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct raw_tls_conf {
	mbedtls_ssl_config conf;
	mbedtls_x509_crt ca, cert;
	mbedtls_pk_context key;
};
struct raw_tls {
	mbedtls_ssl_context ssl;
	int fd;
	bool is_shaken;
};

struct raw_tls_conf *
raw_tls_conf_new(const struct keys *k)
{
	struct raw_tls_conf *c = heap_alloc(sizeof(*c));
	const char *ca = keys_ca_pem(k), *cert = keys_cert_pem(k), *key = keys_key_pem(k);

	mbedtls_ssl_config_init(&c->conf);
	mbedtls_x509_crt_init(&c->ca);
	mbedtls_x509_crt_init(&c->cert);
	mbedtls_pk_init(&c->key);
	if (mbedtls_ssl_config_defaults(&c->conf, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
		MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
	    mbedtls_x509_crt_parse(&c->ca, (const unsigned char *)ca, strlen(ca) + 1) != 0 ||
	    mbedtls_x509_crt_parse(&c->cert, (const unsigned char *)cert, strlen(cert) + 1) != 0 ||
	    mbedtls_pk_parse_key(&c->key, (const unsigned char *)key, strlen(key) + 1, NULL, 0) != 0 ||
	    mbedtls_ssl_conf_own_cert(&c->conf, &c->cert, &c->key) != 0)
		bug("TLS cannot be set up");
	mbedtls_ssl_conf_ca_chain(&c->conf, &c->ca, NULL);
	mbedtls_ssl_conf_authmode(&c->conf, MBEDTLS_SSL_VERIFY_REQUIRED);
	mbedtls_ssl_conf_rng(&c->conf, random_for_mbedtls, NULL);
	return c;
}

void
raw_tls_conf_free(struct raw_tls_conf *c)
{
	mbedtls_ssl_config_free(&c->conf);
	mbedtls_x509_crt_free(&c->ca);
	mbedtls_x509_crt_free(&c->cert);
	mbedtls_pk_free(&c->key);
	free(c);
}

/* ---- octets of the socket ----------------------------------------------------------- */
static int
to_net(void *self, const unsigned char *p, size_t n)
{
	ssize_t rc = send(((struct raw_tls *)self)->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	return rc >= 0 ? (int)rc : errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE : -1;
}

static int
from_net(void *self, unsigned char *p, size_t n)
{
	ssize_t rc = recv(((struct raw_tls *)self)->fd, p, n, MSG_DONTWAIT);

	return rc > 0                           ? (int)rc
	    : rc == 0                           ? MBEDTLS_ERR_SSL_CONN_EOF
	    : errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_READ
						: -1;
}

struct raw_tls *
raw_tls_new(struct raw_tls_conf *c, const char *host, int fd)
{
	struct raw_tls *t = heap_alloc(sizeof(*t));

	t->fd = fd;
	mbedtls_ssl_init(&t->ssl);
	if (mbedtls_ssl_setup(&t->ssl, &c->conf) != 0 || mbedtls_ssl_set_hostname(&t->ssl, host) != 0)
		bug("out of memory for TLS");
	mbedtls_ssl_set_bio(&t->ssl, t, to_net, from_net, NULL);
	return t;
}

void
raw_tls_free(struct raw_tls *t)
{
	if (!t)
		return;
	mbedtls_ssl_free(&t->ssl);
	free(t);
}

/* mbedTLS's answer as a socket's; 0: the end. */
static ssize_t
as_socket(int rc)
{
	if (rc >= 0)
		return rc;
	if (rc == MBEDTLS_ERR_SSL_CONN_EOF || rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
		return 0;
	errno = rc == MBEDTLS_ERR_SSL_WANT_READ || rc == MBEDTLS_ERR_SSL_WANT_WRITE ? EAGAIN : ECONNRESET;
	return -1;
}

static int
shake(struct raw_tls *t)
{
	int rc = t->is_shaken ? 0 : mbedtls_ssl_handshake(&t->ssl);

	t->is_shaken = t->is_shaken || rc == 0;
	return rc;
}

ssize_t
raw_tls_send(struct raw_tls *t, const void *p, size_t n)
{
	int rc = shake(t);

	return as_socket(rc ? rc : mbedtls_ssl_write(&t->ssl, p, n));
}

ssize_t
raw_tls_recv(struct raw_tls *t, void *p, size_t n)
{
	int rc = shake(t);

	return as_socket(rc ? rc : mbedtls_ssl_read(&t->ssl, p, n));
}
