/* proto/hello.c: version, role, and the proof that the way takes. */
#include "hello.h"

void
hello_parts(const struct m_hello *m, struct bytes challenge, struct bytes of[HELLO_PARTS])
{
	static const char purpose[] = "korch hello over TLS 2";

	of[0] = (struct bytes){(const uint8_t *)purpose, sizeof(purpose)};
	of[1] = (struct bytes){(const uint8_t *)m->role.p, m->role.n};
	of[2] = m->nonce;
	of[3] = challenge;
}

static void
prove(struct hello *h, struct bytes challenge, struct m_hello *m)
{
	struct bytes parts[HELLO_PARTS];

	m->challenge = challenge;
	if (h->keys) {
		hello_parts(m, challenge, parts);
		m->cert = str_of(keys_cert_pem(h->keys));
		m->proof.p = h->proof;
		keys_sign(h->keys, parts, HELLO_PARTS, h->proof, &m->proof.n);
		return;
	}
	auth_mac(auth_token(h->auth, h->role), h->role, m->nonce, challenge, h->mac);
	m->mac = (struct bytes){h->mac, sizeof(h->mac)};
}

void
hello_fill(struct hello *h, struct bytes challenge, struct msg *out)
{
	struct m_hello *m = &out->hello;

	*out = (struct msg){.type = MSG_hello};
	if (challenge.n == 0)
		random_bytes(h->nonce, sizeof(h->nonce));
	m->version = PROTO_VERSION;
	m->features = STR("");
	m->role = str_of(auth_role_name(h->role));
	m->nonce = (struct bytes){h->nonce, sizeof(h->nonce)};
	m->name = h->name;
	m->program = STR(KORCH_VERSION);
	m->envs = h->envs;
	m->n_envs = h->n_envs;
	m->is_local = h->is_local;
	m->session = h->session;
	m->joins = h->joins;
	if (challenge.n)
		prove(h, challenge, m);
}

bool
hello_read(const struct hello *h, const struct msg *m, uint64_t *session, struct err *e)
{
	if (msg_is_error(m, e))
		return false;
	if (m->type != MSG_welcome)
		return err_set(e, ERR_PROTO, "the other side answers hello with %s", msg_name(m->type));
	if (m->welcome.session == 0 && !h->keys && auth_token(h->auth, h->role).n == 0)
		return err_set(e, ERR_USAGE, "this korchd asks for a token; name its file with --token-file");
	if (m->welcome.session == 0 && m->welcome.challenge.n == 0)
		return err_set(e, ERR_PROTO, "the other side gives no session");
	if (h->joins && m->welcome.session && m->welcome.session != h->session)
		return err_set(e, ERR_PROTO, "the other side gives another session than it was asked for");
	*session = m->welcome.session;
	return true;
}

int64_t
hello_wait_ns(uint32_t n)
{
	static const int64_t second = 1000000000;
	int64_t wait = n > 5 ? 30 * second : second << (MAX_OF(n, 1u) - 1);
	uint32_t random;

	random_bytes(&random, sizeof(random));
	wait = MIN_OF(wait, 30 * second);
	return wait + (int64_t)((double)wait / 2 * ((double)random / (double)UINT32_MAX));
}
