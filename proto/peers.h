/* proto/peers.h: who is connected to a server: since when, proved or not, with how many requests under way;
 * and who has to go.  Pure: time is an argument, and nothing is closed here but named.  Limits hold for
 * connections from the network alone; local ones always have room, and only have to say who they are.
 *
 *   came -> (heard -> answered)* -> gone -> taken        bound: has proved who it is, to the owner */
#ifndef KORCH_PEERS_H
#define KORCH_PEERS_H

#include "sock.h"

struct peers;
struct peers *peers_new(const struct sock_limits *limits);
void peers_free(struct peers *p);

/* A connection came.  *cut: one that has to go, another or (false) itself; 0: none.  What has to go is known
 * all the same until it is taken. */
bool peers_add(
    struct peers *p, const struct sock_peer *who, int64_t now_ns, uint32_t *cut, enum sock_cut *why);
/* It has ended; it stays known until it is taken. */
void peers_gone(struct peers *p, uint32_t id);
bool peers_take(struct peers *p, uint32_t *id); /* one that has gone: forgotten; false: none */
const struct sock_peer *peers_find(const struct peers *p, uint32_t id); /* NULL: not, or no longer, known */
bool peers_is_here(const struct peers *p, uint32_t id);                 /* known and not gone */

/* A request of it has arrived; false: one too many at once. */
bool peers_heard(struct peers *p, uint32_t id, int64_t now_ns);
void peers_answered(struct peers *p, uint32_t id, int64_t now_ns);

/* What the owner knows it as; 0: it has proved nothing (again, from now on). */
void peers_bind(struct peers *p, uint32_t id, uint64_t number, int64_t now_ns);
uint64_t peers_bound(const struct peers *p, uint32_t id);
void peers_each_bound(
    const struct peers *p, uint64_t number, void (*one)(void *self, uint32_t id), void *self);

/* The next that has been silent for too long, with why; 0: none.  It is named once. */
uint32_t peers_silent(struct peers *p, int64_t now_ns, enum sock_cut *why);

uint32_t peers_count(const struct peers *p); /* from the network, known */
/* Is there a connection from that address and port?  For what only the system knows of. */
bool peers_has_port(const struct peers *p, const uint8_t ip[16], uint16_t port);

#endif
