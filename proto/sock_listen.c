/* proto/sock_listen.c: an address opens. */
#include "sock_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A socket file that nobody answers on would make the listener fail. */
static bool
clear_stale(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return true;
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_USAGE, "%s: is there and is no socket; choose another path", path);
	return unlink(path) == 0 ||
	    err_set(e, ERR_IO, "%s: cannot remove the old socket: %s", path, strerror(errno));
}

bool
listener_open(nng_socket sock, const char *url, nng_listener *l, struct err *e)
{
	bool is_ipc = strncmp(url, "ipc://", 6) == 0;
	int rc;

	if (is_ipc && !clear_stale(url + 6, e))
		return false;
	rc = nng_listener_create(l, sock, url);
	if (rc)
		return nng_failed(rc, e, url);
	if (is_ipc)
		(void)nng_listener_set_int(*l, NNG_OPT_IPC_PERMISSIONS, 0600);
	else
		(void)nng_listener_set_bool(*l, NNG_OPT_TCP_KEEPALIVE, true);
	rc = nng_listener_start(*l, 0);
	if (rc == 0) {
		listeners_deepen();
		return true;
	}
	(void)nng_listener_close(*l);
	return nng_failed(rc, e, url);
}
