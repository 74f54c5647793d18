/* proto/keys.h: certificates.  An authority (a farm's own, or a company's) signs who may be what: the role is
 * a word in the certificate, OU=client, worker or daemon, its name the CN.  TLS proves that a peer holds such
 * a certificate; nng 1.5 does not say which, so hello carries it, with a signature by its key over words that
 * are of that one connection.
 *
 * A folder of keys, as korch-keys makes them and Kubernetes mounts them: ca.crt, tls.crt, tls.key; a daemon's
 * may have a file `revoked`: names or fingerprints of certificates that are not let in any more, one a line.
 */
#ifndef KORCH_KEYS_H
#define KORCH_KEYS_H

#include "auth.h"

struct keys_conf {
	const char *dir;             /* "" or NULL: none */
	const char *ca, *cert, *key; /* files in place of the folder's; "" or NULL: those */
};
bool keys_given(const struct keys_conf *c);

enum { KEYS_NAME = 64, KEYS_SIGNATURE = 512, KEYS_CERT_MAX = 16384 };
struct keys_peer {
	enum auth_role role;
	char name[KEYS_NAME];
	struct hash fingerprint; /* SHA-256 of the certificate */
	int64_t until_s;         /* it is good until then, since 1970 */
};
struct keys;
/* role: whose keys they have to be, "client", "worker", "daemon".  Checked here, each error with its file and
 * what to do: can be read, by nobody else; key fits certificate; the authority signed it; it is good today.
 */
bool keys_load(struct keys **out, const struct keys_conf *c, const char *role, struct err *e) MUST_CHECK;
void keys_free(struct keys *k);
bool keys_same(const struct keys *a, const struct keys *b); /* but for what is revoked */

const char *keys_ca_pem(const struct keys *k);
const char *keys_cert_pem(const struct keys *k);
const char *keys_key_pem(const struct keys *k);
const char *keys_file(const struct keys *k); /* the certificate's, for people */
int64_t keys_until_s(const struct keys *k);

/* A signature over all parts. */
void keys_sign(const struct keys *k, const struct bytes *parts, uint32_t n, uint8_t *out, size_t *out_n);
/* The certificate is of the authority, good today, a client's or a worker's, not revoked, and the signature
 * is by its key.  ERR_REFUSED with a sentence for the peer. */
bool keys_check(const struct keys *k, struct str cert_pem, const struct bytes *parts, uint32_t n,
    struct bytes signature, struct keys_peer *who, struct err *e) MUST_CHECK;
bool keys_revoked(const struct keys *k, const char *name, const struct hash *fingerprint);

/* "2027-01-31" of seconds since 1970. */
void keys_date(int64_t s, char out[16]);

/* ---- making them (keys_make.c) ---- */
struct keys_order {
	const char *dir;   /* the authority's folder: ca.crt, ca.key, a folder for each certificate */
	const char *role;  /* "client", "worker", "daemon" */
	const char *name;  /* CN, and the folder's name */
	const char **host; /* names and addresses of a daemon */
	uint32_t n_host;
	int64_t days;
};
/* A new authority in an empty or new folder. */
bool keys_make_ca(const char *dir, int64_t days, struct err *e) MUST_CHECK;
/* dir/NAME/{ca.crt, tls.crt, tls.key}, each for this user alone; a name that is there is refused. */
bool keys_make(const struct keys_order *o, struct err *e) MUST_CHECK;
/* What a certificate's file says, for lists; role AUTH_ROLES: a daemon's. */
bool keys_describe(const char *file, struct keys_peer *out, struct err *e) MUST_CHECK;

#endif
