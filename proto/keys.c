/* proto/keys.c: see keys.h. */
#include "keys_int.h"

#include <errno.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20 };

struct keys {
	struct arena a;
	char *ca_file, *cert_file, *key_file;
	char *ca_pem, *cert_pem, *key_pem;
	mbedtls_x509_crt ca, cert;
	mbedtls_pk_context key;
	struct str *revoked; /* names and fingerprints */
	uint32_t n_revoked;
};

bool
keys_given(const struct keys_conf *c)
{
	return (c->dir && c->dir[0]) || (c->ca && c->ca[0]) || (c->cert && c->cert[0]) ||
	    (c->key && c->key[0]);
}

bool
keys_failed(const char *file, int rc, enum err_code code, struct err *e)
{
	char text[200];

	mbedtls_strerror(rc, text, sizeof(text));
	return err_set(e, code, "%s: %s", file, text);
}

/* ---- what a certificate says ---------------------------------------------------------- */
/* The last of that kind in the subject. */
static struct str
subject(const mbedtls_x509_crt *c, const char *oid, size_t n_oid)
{
	struct str found = {0};

	for (const mbedtls_x509_name *n = &c->subject; n; n = n->next)
		if (n->oid.len == n_oid && memcmp(n->oid.p, oid, n_oid) == 0)
			found = (struct str){(const char *)n->val.p, n->val.len};
	return found;
}
#define SUBJECT(C, OID) subject((C), (OID), MBEDTLS_OID_SIZE(OID))

static int64_t
seconds_of(const mbedtls_x509_time *t)
{
	struct tm tm = {.tm_year = t->year - 1900,
	    .tm_mon = t->mon - 1,
	    .tm_mday = t->day,
	    .tm_hour = t->hour,
	    .tm_min = t->min,
	    .tm_sec = t->sec};

	return (int64_t)timegm(&tm);
}

void
keys_date(int64_t s, char out[16])
{
	time_t t = (time_t)s;
	struct tm tm = {0};

	(void)gmtime_r(&t, &tm);
	(void)strftime(out, 16, "%Y-%m-%d", &tm);
}

static void
describe(const mbedtls_x509_crt *c, struct keys_peer *out)
{
	*out = (struct keys_peer){.role = AUTH_ROLES, .until_s = seconds_of(&c->valid_to)};
	(void)auth_role_of(SUBJECT(c, MBEDTLS_OID_AT_ORG_UNIT), &out->role);
	(void)snprintf(out->name, sizeof(out->name), "%.*s", STR_ARG(SUBJECT(c, MBEDTLS_OID_AT_CN)));
	out->fingerprint = hash_bytes(c->raw.p, c->raw.len);
}

/* A finished sentence behind "the certificate of 'w1' ", or NULL: nothing is wrong. */
static const char *
trouble(uint32_t flags, const mbedtls_x509_crt *c, char *text, size_t n)
{
	char day[16];

	if (flags == UINT32_MAX) {
		(void)snprintf(text, n, "cannot be checked");
	} else if (flags & MBEDTLS_X509_BADCERT_EXPIRED) {
		keys_date(seconds_of(&c->valid_to), day);
		(void)snprintf(text, n, "expired on %s; make another with korch-keys add", day);
	} else if (flags & MBEDTLS_X509_BADCERT_FUTURE) {
		keys_date(seconds_of(&c->valid_from), day);
		(void)snprintf(text, n, "is good from %s on; is the clock of this host right?", day);
	} else if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
		(void)snprintf(text, n, "is not signed by the authority of ca.crt");
	else if (flags)
		(void)mbedtls_x509_crt_verify_info(text, n, "is refused: ", flags);
	text[strcspn(text, "\n")] = '\0';
	return flags ? text : NULL;
}

/* ---- files ---------------------------------------------------------------------------- */
/* Ours alone; or root's, and our group may read it (as PostgreSQL has it, and Kubernetes mounts it). */
static bool
is_private(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return err_set(e, ERR_USAGE, "%s: cannot read the key: %s", path, strerror(errno));
	if (st.st_mode & (st.st_uid == 0 && geteuid() != 0 ? 027u : 077u))
		return err_set(e, ERR_USAGE, "%s: others may read this key; run chmod 600 on it", path);
	return true;
}

static bool
read_text(struct keys *k, const char *path, char **out, struct err *e)
{
	struct bytes b;

	if (!os_read_file(os_real(), &k->a, path, FILE_BYTES, &b, e)) {
		e->code = ERR_USAGE; /* what was named is not there, or not so */
		return false;
	}
	*out = str_dup(&k->a, (struct str){(const char *)b.p, b.n});
	return true;
}

static bool
read_cert(struct keys *k, const char *path, mbedtls_x509_crt *to, char **pem, struct err *e)
{
	int rc;

	if (!read_text(k, path, pem, e))
		return false;
	rc = mbedtls_x509_crt_parse(to, (const unsigned char *)*pem, strlen(*pem) + 1);
	if (rc > 0)
		return err_set(e, ERR_USAGE, "%s: %d of its certificates cannot be read", path, rc);
	return rc == 0 || keys_failed(path, rc, ERR_USAGE, e);
}

static char *
file_of(struct keys *k, const struct keys_conf *c, const char *given, const char *name)
{
	if (given && given[0])
		return arena_printf(&k->a, "%s", given);
	return c->dir && c->dir[0] ? arena_printf(&k->a, "%s/%s", c->dir, name) : NULL;
}

static bool
read_revoked(struct keys *k, const struct keys_conf *c, struct err *e)
{
	char *path = file_of(k, c, NULL, "revoked"), *text;
	uint32_t cap = 0;
	struct str rest;

	if (!path || access(path, F_OK) != 0)
		return true;
	if (!read_text(k, path, &text, e))
		return false;
	for (rest = str_of(text); rest.n;) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n == 0 || line.p[0] == '#')
			continue;
		GROW(&k->a, k->revoked, k->n_revoked, cap);
		k->revoked[k->n_revoked++] = line;
	}
	return true;
}

bool
keys_revoked(const struct keys *k, const char *name, const struct hash *fingerprint)
{
	struct hash h;

	for (uint32_t i = 0; i < k->n_revoked; i++)
		if (str_is(k->revoked[i], name) ||
		    (hash_of_hex(k->revoked[i], &h) && hash_eq(&h, fingerprint)))
			return true;
	return false;
}

/* ---- one's own ------------------------------------------------------------------------ */
static bool
check_own(struct keys *k, const char *role, struct err *e)
{
	struct str is = SUBJECT(&k->cert, MBEDTLS_OID_AT_ORG_UNIT);
	uint32_t flags = 0;
	struct keys_peer own;
	char text[300];

	describe(&k->cert, &own);
	if (mbedtls_pk_check_pair(&k->cert.pk, &k->key) != 0)
		return err_set(e, ERR_USAGE, "%s is not the key of %s", k->key_file, k->cert_file);
	if (mbedtls_x509_crt_verify(&k->cert, &k->ca, NULL, NULL, &flags, NULL, NULL) != 0 &&
	    trouble(flags, &k->cert, text, sizeof(text)))
		return err_set(e, ERR_USAGE, "%s: the certificate of '%s' %s", k->cert_file, own.name, text);
	if (!str_is(is, role))
		return err_set(e, ERR_USAGE,
		    "%s: a %s's certificate is wanted here (OU=%s), and this one is '%.*s'; see korch-keys",
		    k->cert_file, role, role, STR_ARG(is));
	return true;
}

static bool
read_all(struct keys *k, const struct keys_conf *c, const char *role, struct err *e)
{
	int rc;

	k->ca_file = file_of(k, c, c->ca, "ca.crt");
	k->cert_file = file_of(k, c, c->cert, "tls.crt");
	k->key_file = file_of(k, c, c->key, "tls.key");
	if (!k->ca_file || !k->cert_file || !k->key_file)
		return err_set(e, ERR_USAGE,
		    "the authority's certificate, one's own and its key are needed: --keys DIR, or --ca, "
		    "--cert and --key");
	if (!read_cert(k, k->ca_file, &k->ca, &k->ca_pem, e) ||
	    !read_cert(k, k->cert_file, &k->cert, &k->cert_pem, e) || !is_private(k->key_file, e) ||
	    !read_text(k, k->key_file, &k->key_pem, e))
		return false;
	if (strlen(k->cert_pem) > KEYS_CERT_MAX)
		return err_set(e, ERR_USAGE, "%s: over %d bytes", k->cert_file, (int)KEYS_CERT_MAX);
	rc =
	    mbedtls_pk_parse_key(&k->key, (const unsigned char *)k->key_pem, strlen(k->key_pem) + 1, NULL, 0);
	return (rc == 0 || keys_failed(k->key_file, rc, ERR_USAGE, e)) && check_own(k, role, e) &&
	    (strcmp(role, "daemon") != 0 || read_revoked(k, c, e));
}

bool
keys_load(struct keys **out, const struct keys_conf *c, const char *role, struct err *e)
{
	struct keys *k = heap_alloc(sizeof(*k));

	mbedtls_x509_crt_init(&k->ca);
	mbedtls_x509_crt_init(&k->cert);
	mbedtls_pk_init(&k->key);
	if (!read_all(k, c, role, e)) {
		keys_free(k);
		return false;
	}
	*out = k;
	return true;
}

void
keys_free(struct keys *k)
{
	if (!k)
		return;
	mbedtls_x509_crt_free(&k->ca);
	mbedtls_x509_crt_free(&k->cert);
	mbedtls_pk_free(&k->key);
	arena_fini(&k->a);
	free(k);
}

bool
keys_same(const struct keys *a, const struct keys *b)
{
	return strcmp(a->ca_pem, b->ca_pem) == 0 && strcmp(a->cert_pem, b->cert_pem) == 0 &&
	    strcmp(a->key_pem, b->key_pem) == 0;
}

const char *
keys_ca_pem(const struct keys *k)
{
	return k->ca_pem;
}

const char *
keys_cert_pem(const struct keys *k)
{
	return k->cert_pem;
}

const char *
keys_key_pem(const struct keys *k)
{
	return k->key_pem;
}

const char *
keys_file(const struct keys *k)
{
	return k->cert_file;
}

int64_t
keys_until_s(const struct keys *k)
{
	return seconds_of(&k->cert.valid_to);
}

/* ---- proofs --------------------------------------------------------------------------- */
static struct hash
digest_of(const struct bytes *parts, uint32_t n)
{
	struct arena tmp = {0};
	struct hash h;
	size_t total = 0, at = 0;
	uint8_t *all;

	for (uint32_t i = 0; i < n; i++)
		total += 4 + parts[i].n;
	all = arena_alloc(&tmp, total);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t size = ck_u32(parts[i].n);

		memcpy(all + at,
		    &(uint8_t[]){
			(uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size},
		    4);
		if (size)
			memcpy(all + at + 4, parts[i].p, size);
		at += 4 + size;
	}
	h = hash_bytes(all, total);
	arena_fini(&tmp);
	return h;
}

void
keys_sign(const struct keys *k, const struct bytes *parts, uint32_t n, uint8_t *out, size_t *out_n)
{
	struct hash h = digest_of(parts, n);
	int rc = mbedtls_pk_sign((mbedtls_pk_context *)(uintptr_t)&k->key, MBEDTLS_MD_SHA256, h.b,
	    sizeof(h.b), out, out_n, random_for_mbedtls, NULL);

	if (rc != 0)
		bug("%s cannot sign: -0x%04x", k->key_file, (unsigned)-rc);
}

static bool
check_cert(const struct keys *k, mbedtls_x509_crt *c, struct keys_peer *who, struct err *e)
{
	uint32_t flags = 0;
	char text[300];

	describe(c, who);
	if (mbedtls_x509_crt_verify(
		c, (mbedtls_x509_crt *)(uintptr_t)&k->ca, NULL, NULL, &flags, NULL, NULL) != 0)
		return err_set(e, ERR_REFUSED, "the certificate of '%s' %s", who->name,
		    trouble(flags ? flags : UINT32_MAX, c, text, sizeof(text)));
	if (mbedtls_x509_crt_check_extended_key_usage(
		c, MBEDTLS_OID_CLIENT_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH)) != 0 ||
	    mbedtls_x509_crt_check_key_usage(c, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) != 0 ||
	    who->role == AUTH_ROLES)
		return err_set(e, ERR_REFUSED,
		    "the certificate of '%s' is no client's and no worker's (OU=client or OU=worker, for TLS "
		    "clients)",
		    who->name);
	return !keys_revoked(k, who->name, &who->fingerprint) ||
	    err_set(e, ERR_REFUSED, "the certificate of '%s' is revoked", who->name);
}

bool
keys_check(const struct keys *k, struct str cert_pem, const struct bytes *parts, uint32_t n,
    struct bytes signature, struct keys_peer *who, struct err *e)
{
	struct hash h = digest_of(parts, n);
	struct arena tmp = {0};
	mbedtls_x509_crt c;
	bool ok;

	mbedtls_x509_crt_init(&c);
	if (mbedtls_x509_crt_parse(&c, (const unsigned char *)str_dup(&tmp, cert_pem), cert_pem.n + 1) != 0)
		ok = err_set(e, ERR_REFUSED, "what was sent is no certificate");
	else
		ok = check_cert(k, &c, who, e) &&
		    (mbedtls_pk_verify(
			 &c.pk, MBEDTLS_MD_SHA256, h.b, sizeof(h.b), signature.p, signature.n) == 0 ||
			err_set(e, ERR_REFUSED,
			    "the certificate of '%s' was sent without its key's signature", who->name));
	mbedtls_x509_crt_free(&c);
	arena_fini(&tmp);
	return ok;
}

bool
keys_describe(const char *file, struct keys_peer *out, struct err *e)
{
	struct keys k = {0};
	mbedtls_x509_crt c;
	char *pem;
	bool ok;

	mbedtls_x509_crt_init(&c);
	ok = read_cert(&k, file, &c, &pem, e);
	if (ok)
		describe(&c, out);
	mbedtls_x509_crt_free(&c);
	arena_fini(&k.a);
	return ok;
}
