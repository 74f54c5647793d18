/* tests/fault/raw_tls.h: TLS below a raw connection (raw.h), without waiting: a client's side by mbedTLS, and
 * nothing of nng. */
#ifndef KORCH_TEST_RAW_TLS_H
#define KORCH_TEST_RAW_TLS_H

#include "../../proto/keys.h"

#include <sys/types.h>

/* What all connections of a process share. */
struct raw_tls_conf;
struct raw_tls_conf *raw_tls_conf_new(const struct keys *keys);
void raw_tls_conf_free(struct raw_tls_conf *c);

struct raw_tls;
struct raw_tls *raw_tls_new(struct raw_tls_conf *c, const char *host, int fd);
void raw_tls_free(struct raw_tls *t); /* NULL: nothing */
/* As send and recv of a socket that does not block: shakes hands first. */
ssize_t raw_tls_send(struct raw_tls *t, const void *p, size_t n);
ssize_t raw_tls_recv(struct raw_tls *t, void *p, size_t n);

#endif
