/* kernels/device/command.h: a program of this host's toolchain, run to its end in a jail (kernels/jail) under
 * limits of time, memory and output, in a process group of its own that is gone afterwards. */
#ifndef KORCH_COMMAND_H
#define KORCH_COMMAND_H

#include "../base/base.h"

#include <stdatomic.h>

enum { COMMAND_WORDS_BYTES = 1 << 16 };
struct command {
	const char *dir;          /* where it runs, and the one folder that it may write; NULL: none */
	const char *const *reads; /* what it may read beside the system's toolchain; NULL: nothing */
	char *const *argv;        /* ends with NULL; argv[0] is a path */
	int64_t cpu_ns, wall_ns;
	long long file_bytes;      /* the largest file that it may write */
	bool take_stdout;          /* capture stdout instead of stderr */
	const atomic_bool *cancel; /* polled about ten times a second: true stops it; NULL: never */
};
struct command_said { /* what the program wrote, as far as kept */
	char *p;
	size_t n;
};
/* False only where it could not run (ERR_HOST) or had to be stopped (ERR_TIMEOUT, ERR_CANCELLED); its own
 * verdict is in *status, as wait(2) gives it.  Any number at a time, each with an arena of its own. */
bool command_run(struct arena *a, const struct command *c, struct command_said *said, int *status,
    struct err *e) MUST_CHECK;

#endif
