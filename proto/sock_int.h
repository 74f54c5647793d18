/* proto/sock_int.h: what the files that know nng (1.5.2 or newer 1.x) share.
 *
 * Facts that shape them:
 *  - a cooked REP socket with N contexts answers nothing once N requests wait; hence raw REP;
 *  - REQ resends by default, after 60 s and at every reconnect; hence infinite resend time;
 *  - the receive limit is unlimited by default and must be set before listening;
 *  - a callback may neither block nor make, close or free nng objects: ours take the message,
 *    queue a record, wake the loop, and start the next receive;
 *  - a connection whose other side dies while hands are shaken ends with EPIPE, which nng
 *    1.5 takes for the closing of the listener or dialer itself: the listener never accepts
 *    again, the dialer never dials again, and neither says so; hence sock_mend.c, and behind it
 *    knocks at local doors and redial();
 *  - nng_aio_stop waits for callbacks, so close and free happen on the owner's thread;
 *  - nng_close can wait for ever for a connection that is just being closed; hence a client waits
 *    so long and no longer, and korchd leaves without it. */
#ifndef KORCH_SOCK_INT_H
#define KORCH_SOCK_INT_H

#include "sock.h"

#include <nng/nng.h>
#include <string.h>
#include <sys/socket.h>

enum { SOCK_PATH_BYTES = 100 }; /* of a local address; sun_path holds 108 */
enum { SOCK_URL_BYTES = 256 };

static inline int64_t
now_ns(void)
{
	return os_real()->mono_ns(NULL);
}

static inline bool
nng_failed(int rc, struct err *e, const char *what)
{
	return err_set(e, rc == NNG_ENOMEM ? ERR_MEMORY : ERR_IO, "%s: %s", what, nng_strerror(rc));
}

static inline bool
url_is(const char *url, const char *scheme)
{
	return strncmp(url, scheme, strlen(scheme)) == 0;
}

/* ---- sock_listen.c ---- */
struct nng_tls_config;
/* server: the name that its certificate has to have; NULL: we are the server.  An error of nng's, or 0. */
int tls_config(const struct keys *keys, const char *server, struct nng_tls_config **out);
bool listener_open(
    nng_socket sock, const char *url, const struct keys *keys, nng_listener *l, struct err *e) MUST_CHECK;

/* ---- sock_door.c ---- */
struct door;
/* Opens an address and adds it to the list; *port: that of one on the network. */
bool door_open(nng_socket sock, const char *url, const struct keys *keys, struct door **list, int *port,
    struct err *e) MUST_CHECK;
uint32_t doors_tend(nng_socket sock, struct door *first); /* how many were opened anew */
void doors_rekey(nng_socket sock, struct door *first, const struct keys *keys, bool is_new);
void doors_free(struct door *first);

/* ---- sock_mend.c ---- */
bool files_run_out(uint32_t files);
void listeners_deepen(void); /* every listening socket of this process */
struct strangers;
struct strangers *strangers_new(void);
void strangers_free(struct strangers *s);
/* Of this process's connections over the network those that are not known, now and at the last call: closed.
 * How many. */
uint32_t strangers_cut(
    struct strangers *s, bool (*is_known)(void *self, const uint8_t ip[16], uint16_t port), void *self);

#endif
