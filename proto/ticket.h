/* proto/ticket.h: what a worker can show of a grant after the daemon that gave it has died. */
#ifndef KORCH_TICKET_H
#define KORCH_TICKET_H

#include "../kernels/base/sign.h"
#include "msg.h"

/* A grant, and whose it is: whoever else shows its ticket, or shows it for another task, is refused. */
struct ticket {
	struct hash key; /* of the task */
	uint64_t gen, kind;
	struct hash env; /* of the device's environment */
	struct str who;  /* the worker, as it has proved itself */
};
void ticket_make(const uint8_t secret[SECRET_BYTES], const struct ticket *t, uint8_t out[HMAC_BYTES]);
bool ticket_holds(const uint8_t secret[SECRET_BYTES], const struct ticket *t, struct bytes shown);

#endif
