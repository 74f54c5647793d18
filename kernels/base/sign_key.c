/* kernels/base/sign_key.c: see sign_key.h; by mbedTLS. */
#include "sign_key.h"
#include "out.h"
#include "sign.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/base64.h>
#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/version.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEM_BYTES = 1024, MAX_FILE = 65536 };

/* ---- between files and keys ---------------------------------------------------------------- */
static bool
parse_secret(mbedtls_pk_context *pk, const uint8_t *p, size_t n)
{
#if MBEDTLS_VERSION_NUMBER < 0x03000000
	return mbedtls_pk_parse_key(pk, p, n, NULL, 0) == 0;
#else
	return mbedtls_pk_parse_key(pk, p, n, NULL, 0, random_for_mbedtls, NULL) == 0;
#endif
}

/* Its public half; false: it is no key of P-256. */
static bool
take_pub(mbedtls_pk_context *pk, struct sign_pub *out)
{
	uint8_t der[PEM_BYTES];
	mbedtls_ecp_group_id group;
	int n;

	if (!mbedtls_pk_can_do(pk, MBEDTLS_PK_ECDSA))
		return false;
#if MBEDTLS_VERSION_NUMBER < 0x03000000
	group = mbedtls_pk_ec(*pk)->grp.id;
#else
	group = mbedtls_ecp_keypair_get_group_id(mbedtls_pk_ec(*pk));
#endif
	if (group != MBEDTLS_ECP_DP_SECP256R1)
		return false;
	n = mbedtls_pk_write_pubkey_der(pk, der, sizeof(der)); /* at the end of it */
	if (n != SIGN_PUB_BYTES)
		return false;
	memcpy(out->der, der + sizeof(der) - SIGN_PUB_BYTES, SIGN_PUB_BYTES);
	return true;
}

static bool
take_key(mbedtls_pk_context *pk, struct sign_key *out)
{
	int n = mbedtls_pk_write_key_der(pk, out->secret, sizeof(out->secret));

	if (n <= 0 || !take_pub(pk, &out->pub))
		return false;
	memmove(out->secret, out->secret + sizeof(out->secret) - (size_t)n, (size_t)n);
	out->n_secret = (size_t)n;
	return true;
}

bool
sign_pub_of(struct bytes der, struct sign_pub *out)
{
	mbedtls_pk_context pk;
	bool ok;

	mbedtls_pk_init(&pk);
	ok = der.n == SIGN_PUB_BYTES && mbedtls_pk_parse_public_key(&pk, der.p, der.n) == 0 &&
	    take_pub(&pk, out);
	mbedtls_pk_free(&pk);
	return ok;
}

bool
sign_pub_read(const char *path, struct sign_pub *out, struct err *e)
{
	struct arena tmp = {0};
	struct bytes text;
	mbedtls_pk_context pk;
	bool ok = os_read_file(os_real(), &tmp, path, MAX_FILE, &text, e);

	mbedtls_pk_init(&pk);
	if (ok) {
		char *z = str_dup(&tmp, (struct str){(const char *)text.p, text.n});

		ok =
		    (mbedtls_pk_parse_public_key(&pk, (uint8_t *)z, text.n + 1) == 0 && take_pub(&pk, out)) ||
		    err_set(e, ERR_FORMAT, "%s: holds no public key of P-256 (PEM)", path);
	}
	mbedtls_pk_free(&pk);
	arena_fini(&tmp);
	return ok;
}

bool
sign_pub_eq(const struct sign_pub *a, const struct sign_pub *b)
{
	return memcmp(a->der, b->der, sizeof(a->der)) == 0;
}

struct str
sign_pub_pem(struct arena *a, const struct sign_pub *k)
{
	char *out = arena_alloc(a, PEM_BYTES);
	mbedtls_pk_context pk;

	mbedtls_pk_init(&pk);
	if (mbedtls_pk_parse_public_key(&pk, k->der, sizeof(k->der)) != 0 ||
	    mbedtls_pk_write_pubkey_pem(&pk, (uint8_t *)out, PEM_BYTES) != 0)
		bug("a public key that was read cannot be written");
	mbedtls_pk_free(&pk);
	return str_of(out);
}

void
sign_print(const struct sign_pub *k, char out[SIGN_PRINT])
{
	struct hash h = hash_bytes(k->der, sizeof(k->der));
	uint8_t text[64];
	size_t n;

	if (mbedtls_base64_encode(text, sizeof(text), &n, h.b, sizeof(h.b)) != 0)
		bug("base64 failed");
	while (n && text[n - 1] == '=')
		n--;
	(void)snprintf(out, SIGN_PRINT, "SHA256:%.*s", (int)n, (const char *)text);
}

/* ---- the key of a folder -------------------------------------------------------------------- */
static void
make(mbedtls_pk_context *pk)
{
	if (mbedtls_pk_setup(pk, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) != 0 ||
	    mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*pk), random_for_mbedtls, NULL) != 0)
		bug("a key of P-256 cannot be made");
}

static bool
write_beside(const char *path, struct str text, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool ok;

	if (fd < 0)
		return err_set(e, os_err_code(errno), "%s: cannot be made: %s", path, strerror(errno));
	ok = out_write(fd, (struct bytes){(const uint8_t *)text.p, text.n}) && fsync(fd) == 0;
	if (!ok)
		err_set(e, os_err_code(errno), "%s: cannot be written: %s", path, strerror(errno));
	(void)close(fd);
	return ok;
}

/* A new key comes into its place whole, and only where none is yet. */
static bool
write_key(const char *path, struct err *e)
{
	struct arena tmp = {0};
	char *pem = arena_alloc(&tmp, PEM_BYTES);
	char *made = arena_printf(&tmp, "%s.%d", path, (int)getpid());
	mbedtls_pk_context pk;
	bool ok;

	mbedtls_pk_init(&pk);
	make(&pk);
	if (mbedtls_pk_write_key_pem(&pk, (uint8_t *)pem, PEM_BYTES) != 0)
		bug("a key that was made cannot be written");
	mbedtls_pk_free(&pk);
	(void)unlink(made);
	ok = write_beside(made, str_of(pem), e);
	if (ok && link(made, path) != 0 && errno != EEXIST)
		ok = err_set(e, os_err_code(errno), "%s: cannot be made: %s", path, strerror(errno));
	(void)unlink(made);
	memset(pem, 0, PEM_BYTES);
	arena_fini(&tmp);
	return ok;
}

static bool
read_key(const char *path, struct sign_key *out, struct err *e)
{
	struct arena tmp = {0};
	struct bytes text;
	struct stat st;
	mbedtls_pk_context pk;
	bool ok = os_read_file(os_real(), &tmp, path, MAX_FILE, &text, e);

	if (ok && (stat(path, &st) != 0 || (st.st_mode & 077) != 0))
		ok = err_set(e, ERR_HOST,
		    "%s: others may read this key, with which plans are signed; chmod 600 it, or delete it "
		    "for a new one",
		    path);
	mbedtls_pk_init(&pk);
	if (ok) {
		char *z = str_dup(&tmp, (struct str){(const char *)text.p, text.n});

		ok = (parse_secret(&pk, (uint8_t *)z, text.n + 1) && take_key(&pk, out)) ||
		    err_set(e, ERR_FORMAT, "%s: holds no key of P-256 (PEM); delete it for a new one", path);
		memset(z, 0, text.n);
	}
	mbedtls_pk_free(&pk);
	arena_fini(&tmp);
	return ok;
}

bool
sign_key_open(const char *dir, struct sign_key *out, struct err *e)
{
	struct arena tmp = {0};
	char *path = arena_printf(&tmp, "%s/sign.key", dir), *pub = arena_printf(&tmp, "%s/sign.pub", dir);
	struct sign_pub said;
	struct err unused = {0};
	struct str pem;
	bool ok = access(path, F_OK) == 0 || write_key(path, e);

	ok = ok && read_key(path, out, e);
	if (ok && !(sign_pub_read(pub, &said, &unused) && sign_pub_eq(&said, &out->pub))) {
		pem = sign_pub_pem(&tmp, &out->pub);
		ok = os_write_file(os_real(), pub, (struct bytes){(const uint8_t *)pem.p, pem.n}, e);
	}
	arena_fini(&tmp);
	return ok;
}

/* ---- signing ---------------------------------------------------------------------------------- */
void
sign_make(const struct sign_key *k, const struct hash *what, struct signature *out)
{
	mbedtls_pk_context pk;
	int rc;

	mbedtls_pk_init(&pk);
	if (!parse_secret(&pk, k->secret, k->n_secret))
		bug("a key that was read cannot be used");
#if MBEDTLS_VERSION_NUMBER < 0x03000000
	rc = mbedtls_pk_sign(
	    &pk, MBEDTLS_MD_SHA256, what->b, sizeof(what->b), out->b, &out->n, random_for_mbedtls, NULL);
#else
	rc = mbedtls_pk_sign(&pk, MBEDTLS_MD_SHA256, what->b, sizeof(what->b), out->b, sizeof(out->b),
	    &out->n, random_for_mbedtls, NULL);
#endif
	if (rc != 0)
		bug("signing failed with %d", rc);
	mbedtls_pk_free(&pk);
}

bool
sign_holds(const struct sign_pub *k, const struct hash *what, struct bytes signature)
{
	mbedtls_pk_context pk;
	bool ok;

	mbedtls_pk_init(&pk);
	ok = signature.n > 0 && signature.n <= SIGN_BYTES &&
	    mbedtls_pk_parse_public_key(&pk, k->der, sizeof(k->der)) == 0 &&
	    mbedtls_pk_verify(&pk, MBEDTLS_MD_SHA256, what->b, sizeof(what->b), signature.p, signature.n) ==
		0;
	mbedtls_pk_free(&pk);
	return ok;
}
