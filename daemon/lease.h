/* daemon/lease.h: what workers ask for, and what comes of it. */
#ifndef KORCH_LEASE_H
#define KORCH_LEASE_H

#include "daemon.h"

/* ---- lease.c: what workers ask for ---- */
void serve_lease(struct daemon *d, struct request *r);
void serve_renew(struct daemon *d, struct request *r);
/* The worker says why its device does nothing now ("": it works): jobs of such a device say so, and no more
 * when it is over. */
void lease_waits(struct daemon *d, struct session *s, struct str waits);
void serve_release(struct daemon *d, struct request *r);
void serve_drain(struct daemon *d, struct request *r);
void serve_kick(struct daemon *d, struct request *r);
/* The device that a worker means: the class it names, or its only one; NULL: it has none of that. */
const struct session *device_at(const struct request *r, struct str class, uint32_t *at);
void leases_push(struct daemon *d); /* something may have become ready: answers parked polls */
void leases_tick(struct daemon *d);

/* ---- result.c ---- */
void serve_result(struct daemon *d, struct request *r);

#endif
