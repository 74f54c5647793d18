/* proto/keys_make.c: an authority of one's own, and the certificates that it signs: ECDSA over P-256, X.509
 * v3. The role stands in OU, the name in CN; a daemon's is for TLS servers and lists its hosts, the others'
 * are for TLS clients.  Addresses stand among the names too: mbedTLS 2.28 looks for them there alone. */
#include "keys_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <mbedtls/asn1write.h>
#include <mbedtls/bignum.h>
#include <mbedtls/ecp.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PEM_BYTES = 8192, EXT_BYTES = 4096, HOURS_BACK = 1 };
#define ORGANISATION "O=Korch"

/* ---- names ---------------------------------------------------------------------------- */
/* Of a subject and of a folder: nothing that either would read as more than a name. */
static bool
name_is_good(const char *name, struct err *e)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return (n > 0 && n < KEYS_NAME && name[n] == '\0' && name[0] != '.' && name[0] != '-') ||
	    err_set(
		e, ERR_USAGE, "'%s' is no name: letters, digits, . _ and -, at most %d", name, KEYS_NAME - 1);
}

static bool
host_is_good(const char *host, struct err *e)
{
	size_t n = strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:*");

	return (n > 0 && n < 254 && host[n] == '\0') ||
	    err_set(e, ERR_USAGE, "'%s' is neither the name nor the address of a host", host);
}

/* ---- extensions: written backwards, as mbedTLS does --------------------------------------- */
static int
put_tagged(uint8_t **p, uint8_t *start, const void *value, size_t n, uint8_t tag)
{
	int rc = mbedtls_asn1_write_raw_buffer(p, start, value, n), len = rc;

	if (rc >= 0 && (rc = mbedtls_asn1_write_len(p, start, n)) >= 0) {
		len += rc;
		rc = mbedtls_asn1_write_tag(p, start, tag);
	}
	return rc < 0 ? rc : len + rc;
}

static int
put_host(uint8_t **p, uint8_t *start, const char *host)
{
	uint8_t ip[16];
	size_t n_ip = inet_pton(AF_INET, host, ip) == 1 ? 4 : inet_pton(AF_INET6, host, ip) == 1 ? 16 : 0;
	int len = put_tagged(p, start, host, strlen(host), MBEDTLS_ASN1_CONTEXT_SPECIFIC | 2), rc = 0;

	if (len >= 0 && n_ip)
		rc = put_tagged(p, start, ip, n_ip, MBEDTLS_ASN1_CONTEXT_SPECIFIC | 7);
	return len < 0 || rc < 0 ? -1 : len + rc;
}

static bool
add_sequence(mbedtls_x509write_cert *c, const char *oid, size_t n_oid, uint8_t *buf, uint8_t *p, int len)
{
	int rc = mbedtls_asn1_write_len(&p, buf, (size_t)len);

	if (rc < 0 || mbedtls_asn1_write_tag(&p, buf, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE) < 0)
		return false;
	return mbedtls_x509write_crt_set_extension(c, oid, n_oid, 0, p, (size_t)(buf + EXT_BYTES - p)) == 0;
}

static bool
add_hosts(mbedtls_x509write_cert *c, const struct keys_order *o)
{
	uint8_t buf[EXT_BYTES], *p = buf + sizeof(buf);
	int len = 0;

	for (uint32_t i = o->n_host; i-- > 0;) {
		int rc = put_host(&p, buf, o->host[i]);

		if (rc < 0)
			return false;
		len += rc;
	}
	return add_sequence(
	    c, MBEDTLS_OID_SUBJECT_ALT_NAME, MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), buf, p, len);
}

static bool
add_purpose(mbedtls_x509write_cert *c, bool is_server)
{
	const char *oid = is_server ? MBEDTLS_OID_SERVER_AUTH : MBEDTLS_OID_CLIENT_AUTH;
	uint8_t buf[EXT_BYTES], *p = buf + sizeof(buf);
	int len = mbedtls_asn1_write_oid(&p, buf, oid, MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH));

	return len >= 0 &&
	    add_sequence(c, MBEDTLS_OID_EXTENDED_KEY_USAGE, MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE),
		buf, p, len);
}

/* ---- a certificate ---------------------------------------------------------------------- */
static bool
new_key(mbedtls_pk_context *key)
{
	return mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) == 0 &&
	    mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), random_for_mbedtls, NULL) == 0;
}

/* From an hour ago: the clock of a host that gets it may be late. */
static bool
set_common(mbedtls_x509write_cert *c, int64_t days)
{
	time_t now = time(NULL), from = now - HOURS_BACK * 3600, to = now + (time_t)days * 86400;
	struct tm a = {0}, b = {0};
	char since[16], until[16];
	uint8_t serial[16];
	mbedtls_mpi number;
	bool ok;

	(void)gmtime_r(&from, &a);
	(void)gmtime_r(&to, &b);
	(void)strftime(since, sizeof(since), "%Y%m%d%H%M%S", &a);
	(void)strftime(until, sizeof(until), "%Y%m%d%H%M%S", &b);
	random_bytes(serial, sizeof(serial));
	serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive, and of one length */
	mbedtls_x509write_crt_set_version(c, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(c, MBEDTLS_MD_SHA256);
	mbedtls_mpi_init(&number);
	ok = mbedtls_mpi_read_binary(&number, serial, sizeof(serial)) == 0 &&
	    mbedtls_x509write_crt_set_serial(c, &number) == 0 &&
	    mbedtls_x509write_crt_set_validity(c, since, until) == 0;
	mbedtls_mpi_free(&number);
	return ok;
}

static bool
write_pem(mbedtls_x509write_cert *c, mbedtls_pk_context *key, char *cert_pem, char *key_pem)
{
	return mbedtls_x509write_crt_pem(c, (unsigned char *)cert_pem, PEM_BYTES, random_for_mbedtls, NULL) ==
	    0 &&
	    mbedtls_pk_write_key_pem(key, (unsigned char *)key_pem, PEM_BYTES) == 0;
}

static bool
put_file(const char *dir, const char *name, const char *text, struct err *e)
{
	struct arena tmp = {0};
	char *path = arena_printf(&tmp, "%s/%s", dir, name);
	mode_t mask = umask(077);
	bool ok = os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text, strlen(text)}, e);

	(void)umask(mask);
	if (ok && chmod(path, 0600) != 0)
		ok = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	arena_fini(&tmp);
	return ok;
}

static bool
must_be_new(const char *dir, const char *name, struct err *e)
{
	struct arena tmp = {0};
	char *path = arena_printf(&tmp, "%s/%s", dir, name);
	bool is_new = access(path, F_OK) != 0;

	if (!is_new)
		(void)err_set(e, ERR_USAGE, "%s is there already; nothing is replaced", path);
	arena_fini(&tmp);
	return is_new;
}

bool
keys_make_ca(const char *dir, int64_t days, struct err *e)
{
	static const char subject[] = "CN=Korch authority,OU=authority," ORGANISATION;
	char cert_pem[PEM_BYTES], key_pem[PEM_BYTES];
	mbedtls_x509write_cert c;
	mbedtls_pk_context key;
	bool ok;

	if (!os_make_dirs(dir, e) || !must_be_new(dir, "ca.key", e) || !must_be_new(dir, "ca.crt", e))
		return false;
	mbedtls_x509write_crt_init(&c);
	mbedtls_pk_init(&key);
	ok = new_key(&key) && set_common(&c, days) &&
	    mbedtls_x509write_crt_set_subject_name(&c, subject) == 0 &&
	    mbedtls_x509write_crt_set_issuer_name(&c, subject) == 0;
	mbedtls_x509write_crt_set_subject_key(&c, &key);
	mbedtls_x509write_crt_set_issuer_key(&c, &key);
	ok = ok && mbedtls_x509write_crt_set_basic_constraints(&c, 1, 0) == 0 &&
	    mbedtls_x509write_crt_set_key_usage(
		&c, MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN) == 0 &&
	    mbedtls_x509write_crt_set_subject_key_identifier(&c) == 0 &&
	    write_pem(&c, &key, cert_pem, key_pem);
	mbedtls_x509write_crt_free(&c);
	mbedtls_pk_free(&key);
	if (!ok)
		return err_set(e, ERR_FAILED, "the authority's certificate cannot be made");
	return put_file(dir, "ca.key", key_pem, e) && put_file(dir, "ca.crt", cert_pem, e);
}

/* ---- what the authority signs -------------------------------------------------------------- */
struct authority {
	struct arena a;
	char *cert_pem;
	mbedtls_x509_crt cert;
	mbedtls_pk_context key;
};

static bool
authority_open(struct authority *x, const char *dir, struct err *e)
{
	struct bytes b;
	char *path = arena_printf(&x->a, "%s/ca.crt", dir);
	int rc;

	if (access(path, F_OK) != 0)
		return err_set(e, ERR_USAGE,
		    "%s: there is no authority; korch-keys make %s --host NAME makes one", dir, dir);
	if (!os_read_file(os_real(), &x->a, path, 1 << 20, &b, e))
		return false;
	x->cert_pem = str_dup(&x->a, (struct str){(const char *)b.p, b.n});
	rc = mbedtls_x509_crt_parse(&x->cert, (const unsigned char *)x->cert_pem, strlen(x->cert_pem) + 1);
	if (rc != 0)
		return keys_failed(path, rc, ERR_FAILED, e);
	path = arena_printf(&x->a, "%s/ca.key", dir);
	if (!os_read_file(os_real(), &x->a, path, 1 << 20, &b, e))
		return false;
	rc = mbedtls_pk_parse_key(&x->key,
	    (const unsigned char *)str_dup(&x->a, (struct str){(const char *)b.p, b.n}), b.n + 1, NULL, 0);
	return rc == 0 || keys_failed(path, rc, ERR_FAILED, e);
}

static bool
sign(struct authority *x, const struct keys_order *o, char *cert_pem, char *key_pem, struct err *e)
{
	bool is_server = strcmp(o->role, "daemon") == 0, ok;
	char subject[160], issuer[512];
	mbedtls_x509write_cert c;
	mbedtls_pk_context key;

	(void)snprintf(subject, sizeof(subject), "CN=%s,OU=%s," ORGANISATION, o->name, o->role);
	mbedtls_x509write_crt_init(&c);
	mbedtls_pk_init(&key);
	ok = new_key(&key) && set_common(&c, o->days) &&
	    mbedtls_x509_dn_gets(issuer, sizeof(issuer), &x->cert.subject) > 0 &&
	    mbedtls_x509write_crt_set_subject_name(&c, subject) == 0 &&
	    mbedtls_x509write_crt_set_issuer_name(&c, issuer) == 0;
	mbedtls_x509write_crt_set_subject_key(&c, &key);
	mbedtls_x509write_crt_set_issuer_key(&c, &x->key);
	ok = ok && mbedtls_x509write_crt_set_basic_constraints(&c, 0, -1) == 0 &&
	    mbedtls_x509write_crt_set_key_usage(&c, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) == 0 &&
	    mbedtls_x509write_crt_set_subject_key_identifier(&c) == 0 &&
	    mbedtls_x509write_crt_set_authority_key_identifier(&c) == 0 && add_purpose(&c, is_server) &&
	    (!is_server || add_hosts(&c, o)) && write_pem(&c, &key, cert_pem, key_pem);
	mbedtls_x509write_crt_free(&c);
	mbedtls_pk_free(&key);
	return ok ||
	    err_set(e, ERR_FAILED, "the certificate of '%s' cannot be made; too many hosts?", o->name);
}

static bool
check_order(const struct keys_order *o, struct err *e)
{
	bool is_daemon = strcmp(o->role, "daemon") == 0;

	if (!is_daemon && strcmp(o->role, "worker") != 0 && strcmp(o->role, "client") != 0)
		return err_set(e, ERR_USAGE, "'%s' is no role: client, worker or daemon", o->role);
	if (is_daemon && o->n_host == 0)
		return err_set(e, ERR_USAGE,
		    "by what names and addresses is korchd reached? give each with --host; a client looks "
		    "for the one that stands in its --daemon");
	if (!is_daemon && o->n_host)
		return err_set(
		    e, ERR_USAGE, "--host is for a daemon's certificate; a %s needs none", o->role);
	if (o->days < 1 || o->days > 36500)
		return err_set(e, ERR_USAGE, "--days %lld: 1 to 36500", (long long)o->days);
	for (uint32_t i = 0; i < o->n_host; i++)
		if (!host_is_good(o->host[i], e))
			return false;
	return name_is_good(o->name, e);
}

bool
keys_make(const struct keys_order *o, struct err *e)
{
	char cert_pem[PEM_BYTES], key_pem[PEM_BYTES];
	struct authority x = {0};
	char *folder;
	bool ok;

	if (!check_order(o, e) || !must_be_new(o->dir, o->name, e))
		return false;
	mbedtls_x509_crt_init(&x.cert);
	mbedtls_pk_init(&x.key);
	folder = arena_printf(&x.a, "%s/%s", o->dir, o->name);
	ok = authority_open(&x, o->dir, e) && sign(&x, o, cert_pem, key_pem, e) && os_make_dirs(folder, e) &&
	    put_file(folder, "ca.crt", x.cert_pem, e) && put_file(folder, "tls.key", key_pem, e) &&
	    put_file(folder, "tls.crt", cert_pem, e);
	mbedtls_x509_crt_free(&x.cert);
	mbedtls_pk_free(&x.key);
	arena_fini(&x.a);
	return ok;
}
