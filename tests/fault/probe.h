/* tests/fault/probe.h: what the parts of the probe share.  A try returns 0 or more where it was allowed; else
 * -1 and why in errno, or nothing at all where trying ends the process. */
#ifndef KORCH_TEST_PROBE_H
#define KORCH_TEST_PROBE_H

#include <sys/syscall.h>
#include <unistd.h>

#define CALL(N, ...) syscall(N, __VA_ARGS__)
enum {
	OPENAT2 = 437,
	PIDFD_OPEN = 434,
	PIDFD_SEND = 424,
	PIDFD_GETFD = 438,
	CLONE3 = 435,
	FSOPEN = 430,
	OPEN_TREE = 428,
	MOUNT_SETATTR = 442,
	FCHMODAT2 = 452,
	IO_URING_SETUP = 425,
	MEMFD_SECRET = 447,
	LANDLOCK_CREATE = 444
};

#define PROBE(ID, WORDS, C, M, P) long try_##ID(void);
#define DENIED(ID, WORDS) long try_##ID(void);
DENIED(sweep, "") /* probe_kernel.c */
#include "probe.def"

/* ---- probe_files.c: 0 or more: it was allowed ---- */
long probe_open(const char *path, int flags);
long probe_make(const char *path); /* and removes it, where it may */
long probe_read(const char *path);
/* A path in the scratch folder; good until the next one. */
const char *probe_scratch(const char *name);

#endif
