/* worker/sandbox.c: what a worker and all it starts may no longer do.  Generated code runs in
 * the measuring child, which inherits this: no new privileges, no core files, no listening for
 * other users.  What this does not hold back is said in the manual: the child has this user's
 * files and, on a GPU, the driver. */
#include "worker.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

void
sandbox_enter(void)
{
	struct rlimit none = {0, 0};

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)umask(077);
}
