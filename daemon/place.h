/* daemon/place.h: whose devices may a job have, and to which of them is it bound? */
#ifndef KORCH_PLACE_H
#define KORCH_PLACE_H

#include "daemon.h"

/* A class of devices that measure alike, and of it the one environment whose measurements a plan is made of.
 */
struct place {
	const char *class; /* lives in its session */
	int64_t env;       /* 0: nobody is there */
};
/* Of all devices there that fit what the job asks for, the environment with the most of them free: devices
 * less jobs that are being planned for it.  On a private daemon this host's own come first, whatever others
 * have; equal ones go by the class's name, then by who came first.  A job that was bound before a restart
 * stays with its class while there is a device of it. */
struct place place_find(const struct daemon *d, const struct job *j);

/* Is a device there that fits? */
bool place_is_there(const struct daemon *d, struct str pattern);
/* What the job waits for now: its pattern, or, for a while after a restart, the class that it was bound to.
 */
struct str place_wanted(const struct daemon *d, const struct job *j);
/* " (there are: cpu:AMD-EPYC-9B14-avx512, cuda:NVIDIA-A100-SXM4-40GB)", or "". */
const char *place_classes(struct arena *a, const struct daemon *d);
/* What korch-worker --device is given for such a class. */
const char *place_device(struct arena *a, struct str pattern);

#endif
