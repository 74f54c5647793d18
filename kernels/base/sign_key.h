/* kernels/base/sign_key.h: signatures by ECDSA over P-256 and SHA-256, and the files that keys are kept in
 * (PEM, as openssl reads and writes them). */
#ifndef KORCH_SIGN_KEY_H
#define KORCH_SIGN_KEY_H

#include "base.h"

enum {
	SIGN_PUB_BYTES = 91,     /* a public key: DER, SubjectPublicKeyInfo */
	SIGN_SECRET_BYTES = 160, /* a whole key has at most so many: DER */
	SIGN_BYTES = 80,         /* so has a signature */
	SIGN_PRINT = 51          /* "SHA256:..." with its NUL */
};
struct sign_pub {
	uint8_t der[SIGN_PUB_BYTES];
};
struct sign_key {
	struct sign_pub pub;
	uint8_t secret[SIGN_SECRET_BYTES];
	size_t n_secret;
};
struct signature {
	uint8_t b[SIGN_BYTES];
	size_t n; /* 0: there is none */
};

/* The key of a data folder, DIR/sign.key (mode 0600) and DIR/sign.pub; made where it is not there.  Who comes
 * first makes it, however many come at once.  ERR_IO, ERR_FULL, ERR_HOST: others may read it. */
bool sign_key_open(const char *dir, struct sign_key *out, struct err *e) MUST_CHECK;
/* From a file with one in PEM, text before and after it allowed; from DER: false: it is none of P-256. */
bool sign_pub_read(const char *path, struct sign_pub *out, struct err *e) MUST_CHECK;
bool sign_pub_of(struct bytes der, struct sign_pub *out) MUST_CHECK;
bool sign_pub_eq(const struct sign_pub *a, const struct sign_pub *b);
struct str sign_pub_pem(struct arena *a, const struct sign_pub *k);
/* What people compare: SHA-256 of the DER in base64, as ssh prints its own. */
void sign_print(const struct sign_pub *k, char out[SIGN_PRINT]);

/* Equal keys and digests give equal signatures (RFC 6979). */
void sign_make(const struct sign_key *k, const struct hash *what, struct signature *out);
bool sign_holds(const struct sign_pub *k, const struct hash *what, struct bytes signature);

#endif
