/* proto/cred.c: see cred.h. */
#include "cred.h"

#include "../kernels/base/opt.h"

#include <string.h>

struct cred_conf
cred_conf_of(const struct opts *o)
{
	return (struct cred_conf){.token_file = o->program == PROG_KORCHD ? opt_text(o, OPT_daemon_token_file)
									  : opt_text(o, OPT_token_file),
	    .keys = {.dir = opt_text(o, OPT_keys),
		.ca = opt_text(o, OPT_ca),
		.cert = opt_text(o, OPT_cert),
		.key = opt_text(o, OPT_key)},
	    .is_plain = opt_flag(o, OPT_plain)};
}

static bool
has_port(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon && colon > address && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

/* "ipc:///path", "tls+tcp://host:port", "tcp://host:port"; ERR_USAGE for what is none of them, and for tcp://
 * where that is not allowed. */
static bool
way_of(const struct cred_conf *c, const char *url, enum sock_way *way, struct err *e)
{
	static const struct {
		const char *scheme;
		enum sock_way way;
	} row[] = {{"ipc://", SOCK_LOCAL}, {"tls+tcp://", SOCK_TLS}, {"tcp://", SOCK_PLAIN}};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (strncmp(url, row[i].scheme, strlen(row[i].scheme)) == 0) {
			*way = row[i].way;
			if (*way != SOCK_LOCAL && !has_port(url + strlen(row[i].scheme)))
				return err_set(e, ERR_USAGE,
				    "%s: an address names host and port: tls+tcp://host:port", url);
			return *way != SOCK_PLAIN || c->is_plain ||
			    err_set(e, ERR_USAGE,
				"%s: who can read on the way could do all that this side may; use tls+%s "
				"with --keys (korch-keys makes them), or say --plain",
				url, url);
		}
	return err_set(e, ERR_USAGE, "'%s' is no address; use ipc:///path or tls+tcp://host:port", url);
}

static bool
load_token(struct cred *out, const struct cred_conf *c, const char *url, enum sock_way way, bool is_daemon,
    struct err *e)
{
	if (c->token_file && c->token_file[0])
		return out->auth.n_tokens || auth_load(&out->a, c->token_file, is_daemon, &out->auth, e);
	return way == SOCK_LOCAL || !is_daemon ||
	    err_set(e, ERR_USAGE, "%s needs --token-file: who may submit can run programs here", url);
}

static bool
load_one(struct cred *out, const struct cred_conf *c, const char *url, const char *role, struct err *e)
{
	bool is_daemon = strcmp(role, "daemon") == 0;
	enum sock_way way;

	if (!way_of(c, url, &way, e))
		return false;
	if (way != SOCK_TLS)
		return load_token(out, c, url, way, is_daemon, e);
	if (!keys_given(&c->keys))
		return err_set(e, ERR_USAGE,
		    "%s needs --keys DIR: this side's certificate, its key and the authority's; korch-keys "
		    "makes them",
		    url);
	return out->keys || keys_load(&out->keys, &c->keys, role, e);
}

bool
cred_load(struct cred *out, const struct cred_conf *c, const char *const *urls, uint32_t n, const char *role,
    struct err *e)
{
	*out = (struct cred){0};
	for (uint32_t i = 0; i < n; i++)
		if (!load_one(out, c, urls[i], role, e)) {
			cred_free(out);
			return false;
		}
	return true;
}

void
cred_free(struct cred *c)
{
	keys_free(c->keys);
	arena_fini(&c->a);
	*c = (struct cred){0};
}
