/* proto/auth.c: token files and proofs. */
#include "auth.h"

#include <errno.h>
#include <mbedtls/md.h>
#include <string.h>
#include <sys/stat.h>

static const char *const role_name[AUTH_ROLES] = {[AUTH_CLIENT] = "client", [AUTH_WORKER] = "worker"};

const char *
auth_role_name(enum auth_role r)
{
	return role_name[r];
}

bool
auth_role_of(struct str name, enum auth_role *out)
{
	for (int i = 0; i < AUTH_ROLES; i++)
		if (str_is(name, role_name[i])) {
			*out = (enum auth_role)i;
			return true;
		}
	return false;
}

static bool
add_token(struct arena *a, struct auth *au, uint32_t *cap, enum auth_role r, struct str token, struct err *e)
{
	if (token.n < 16 || token.n > AUTH_TOKEN_MAX)
		return err_set(e, ERR_USAGE,
		    "a token has 16 to %d characters; 'openssl rand -hex 32' makes one", (int)AUTH_TOKEN_MAX);
	GROW(a, au->tokens, au->n_tokens, *cap);
	au->tokens[au->n_tokens].role = r;
	au->tokens[au->n_tokens++].token = token;
	return true;
}

static bool
read_line(struct arena *a, struct auth *au, uint32_t *cap, bool is_daemon, struct str line, struct err *e)
{
	struct str token = line, word = str_cut(&token, ' ');
	enum auth_role r;

	token = str_trim(token);
	if (auth_role_of(word, &r))
		return add_token(a, au, cap, r, token, e);
	if (is_daemon || token.n)
		return err_set(e, ERR_USAGE, "a line must read 'worker TOKEN' or 'client TOKEN'");
	return add_token(a, au, cap, AUTH_CLIENT, word, e) && add_token(a, au, cap, AUTH_WORKER, word, e);
}

bool
auth_load(struct arena *a, const char *path, bool is_daemon, struct auth *out, struct err *e)
{
	struct stat st;
	struct bytes data;
	struct str rest;
	uint32_t cap = 0;

	*out = (struct auth){0};
	if (stat(path, &st) != 0)
		return err_set(e, ERR_USAGE, "%s: cannot read the token file: %s", path, strerror(errno));
	if (st.st_mode & 077)
		return err_set(
		    e, ERR_USAGE, "%s: others may read this token file; run chmod 600 on it", path);
	if (!os_read_file(os_real(), a, path, 1 << 16, &data, e))
		return false;
	rest = (struct str){(const char *)data.p, data.n};
	for (int n = 1; rest.n; n++) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n == 0 || line.p[0] == '#')
			continue;
		if (!read_line(a, out, &cap, is_daemon, line, e))
			return err_in(e, "%s:%d", path, n);
	}
	return out->n_tokens || err_set(e, ERR_USAGE, "%s: holds no token", path);
}

struct str
auth_token(const struct auth *au, enum auth_role r)
{
	for (uint32_t i = 0; i < au->n_tokens; i++)
		if (au->tokens[i].role == r)
			return au->tokens[i].token;
	return STR("");
}

/* HMAC-SHA256 over parts, each behind its length. */
static void
mac_of(struct bytes key, const struct bytes *parts, size_t n, uint8_t mac[AUTH_MAC])
{
	mbedtls_md_context_t md;
	bool ok;

	mbedtls_md_init(&md);
	ok = mbedtls_md_setup(&md, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), 1) == 0 &&
	    mbedtls_md_hmac_starts(&md, key.p, key.n) == 0;
	for (size_t i = 0; i < n && ok; i++) {
		uint8_t size[2] = {(uint8_t)(parts[i].n >> 8), (uint8_t)parts[i].n};

		if (parts[i].n > UINT16_MAX)
			bug("a part of %zu bytes", parts[i].n);
		ok = mbedtls_md_hmac_update(&md, size, sizeof(size)) == 0 &&
		    mbedtls_md_hmac_update(&md, parts[i].p, parts[i].n) == 0;
	}
	if (!ok || mbedtls_md_hmac_finish(&md, mac) != 0)
		bug("HMAC-SHA256 is missing");
	mbedtls_md_free(&md);
}

#define PART(P, N)                                                                                           \
	{                                                                                                    \
		(const uint8_t *)(P), (N)                                                                    \
	}

void
auth_mac(
    struct str token, enum auth_role r, struct bytes nonce, struct bytes challenge, uint8_t mac[AUTH_MAC])
{
	static const char purpose[] = "korch hello 2";
	const struct bytes parts[] = {
	    PART(purpose, sizeof(purpose)), PART(role_name[r], strlen(role_name[r])), nonce, challenge};

	mac_of((struct bytes)PART(token.p, token.n), parts, COUNT_OF(parts), mac);
}

bool
auth_check(const struct auth *au, enum auth_role r, struct bytes nonce, struct bytes challenge,
    struct bytes mac, struct hash *who)
{
	bool good = false;

	if (mac.n != AUTH_MAC || nonce.n > 255 || challenge.n > 255)
		return false;
	for (uint32_t i = 0; i < au->n_tokens; i++) {
		uint8_t want[AUTH_MAC];

		auth_mac(au->tokens[i].token, r, nonce, challenge, want);
		if (hmac_same(want, mac) && au->tokens[i].role == r) {
			*who = hash_bytes(au->tokens[i].token.p, au->tokens[i].token.n);
			good = true;
		}
	}
	return good;
}

/* ---- challenges --------------------------------------------------------------------- */
enum { AT_RANDOM = 8, AT_MAC = 16 };
static const int64_t GOOD_FOR_NS = (int64_t)30 * 1000000000;

static void
challenge_mac(const uint8_t secret[AUTH_SECRET], uint32_t peer, struct bytes nonce, const uint8_t *start,
    uint8_t mac[AUTH_MAC])
{
	static const char purpose[] = "korch challenge 2";
	const struct bytes parts[] = {
	    PART(purpose, sizeof(purpose)), PART(&peer, sizeof(peer)), PART(start, AT_MAC), nonce};

	mac_of((struct bytes){secret, AUTH_SECRET}, parts, COUNT_OF(parts), mac);
}

void
auth_challenge(const uint8_t secret[AUTH_SECRET], uint32_t peer, int64_t now_ns, struct bytes nonce,
    uint8_t out[AUTH_CHALLENGE])
{
	memcpy(out, &now_ns, sizeof(now_ns));
	random_bytes(out + AT_RANDOM, AT_MAC - AT_RANDOM);
	challenge_mac(secret, peer, nonce, out, out + AT_MAC);
}

bool
auth_is_ours(const uint8_t secret[AUTH_SECRET], uint32_t peer, int64_t now_ns, struct bytes nonce,
    struct bytes challenge)
{
	uint8_t mac[AUTH_MAC];
	int64_t made_ns;

	if (challenge.n != AUTH_CHALLENGE || nonce.n > 255)
		return false;
	memcpy(&made_ns, challenge.p, sizeof(made_ns));
	challenge_mac(secret, peer, nonce, challenge.p, mac);
	return hmac_same(mac, (struct bytes){challenge.p + AT_MAC, AUTH_MAC}) && now_ns >= made_ns &&
	    now_ns - made_ns <= GOOD_FOR_NS;
}
