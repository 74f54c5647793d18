/* proto/sock_listen.c: an address opens; and what TLS takes on either side. */
#include "sock_int.h"

#include "keys.h"

#include <errno.h>
#include <nng/supplemental/tls/tls.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both sides show a certificate of the authority, or there is no connection. */
int
tls_config(const struct keys *keys, const char *server, nng_tls_config **out)
{
	nng_tls_config *c;
	int rc = nng_tls_config_alloc(&c, server ? NNG_TLS_MODE_CLIENT : NNG_TLS_MODE_SERVER);

	if (rc)
		return rc;
	if ((rc = nng_tls_config_version(c, NNG_TLS_1_2, NNG_TLS_1_3)) != 0 ||
	    (rc = nng_tls_config_auth_mode(c, NNG_TLS_AUTH_MODE_REQUIRED)) != 0 ||
	    (rc = nng_tls_config_ca_chain(c, keys_ca_pem(keys), NULL)) != 0 ||
	    (rc = nng_tls_config_own_cert(c, keys_cert_pem(keys), keys_key_pem(keys), NULL)) != 0 ||
	    (server && (rc = nng_tls_config_server_name(c, server)) != 0)) {
		nng_tls_config_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

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

static int
set_up(nng_listener l, const char *url, const struct keys *keys)
{
	nng_tls_config *tls;
	int rc;

	if (url_is(url, "ipc://"))
		return nng_listener_set_int(l, NNG_OPT_IPC_PERMISSIONS, 0600);
	if (url_is(url, "tls+tcp://")) {
		rc = tls_config(keys, NULL, &tls);
		if (rc == 0) {
			rc = nng_listener_set_ptr(l, NNG_OPT_TLS_CONFIG, tls);
			nng_tls_config_free(tls); /* the listener has it now */
		}
		if (rc)
			return rc;
	}
	return nng_listener_set_bool(l, NNG_OPT_TCP_KEEPALIVE, true);
}

bool
listener_open(nng_socket sock, const char *url, const struct keys *keys, nng_listener *l, struct err *e)
{
	int rc;

	if (url_is(url, "ipc://") && !clear_stale(url + 6, e))
		return false;
	rc = nng_listener_create(l, sock, url);
	if (rc)
		return nng_failed(rc, e, url);
	if ((rc = set_up(*l, url, keys)) == 0 && (rc = nng_listener_start(*l, 0)) == 0) {
		listeners_deepen();
		return true;
	}
	(void)nng_listener_close(*l);
	return nng_failed(rc, e, url);
}
