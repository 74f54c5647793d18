/* worker/gpu_fake/system.c: what NVIDIA's driver (580) asks of the system when it begins, and gives up
 * without: so a jail that is too narrow shows on hosts without a GPU. */
#include "gpu_fake_int.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* A thread of its own has a name; here this one gets its own again. */
static bool
name_thread(void)
{
	char path[64], name[32];
	FILE *f;
	bool ok;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%ld/comm", syscall(SYS_gettid));
	f = fopen(path, "r");
	ok = f && fgets(name, sizeof(name), f);
	if (f)
		(void)fclose(f);
	f = ok ? fopen(path, "w") : NULL;
	ok = f && fputs(name, f) >= 0;
	return f && fclose(f) == 0 && ok;
}

/* Does a server share the GPU out?  And a place where other processes would ask for its memory, under a name
 * that the system chooses. */
static bool
meet_others(void)
{
	struct sockaddr_un server = {.sun_family = AF_UNIX, .sun_path = "/tmp/no-nvidia-mps/control"};
	int at = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), again = dup(at), on = 1;
	bool ok = again >= 0 && setsockopt(at, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
	    connect(at, (struct sockaddr *)&server, sizeof(server)) != 0 && errno == ENOENT &&
	    bind(again, (struct sockaddr *)&server, sizeof(server.sun_family)) == 0 && listen(again, 1) == 0;

	if (again >= 0)
		(void)close(again);
	if (at >= 0)
		(void)close(at);
	return ok;
}

int
gpu_fake_system(void)
{
	enum { NO_SYSTEM = 304 };
	static bool is_known;

	is_known = is_known || (name_thread() && meet_others());
	return is_known ? 0 : NO_SYSTEM;
}
