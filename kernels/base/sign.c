/* kernels/base/sign.c: see sign.h; by mbedTLS. */
#include "sign.h"

#include <errno.h>
#include <mbedtls/md.h>
#include <string.h>
#include <sys/random.h>

void
hmac_of(struct bytes key, struct bytes data, uint8_t out[HMAC_BYTES])
{
	if (mbedtls_md_hmac(
		mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), key.p, key.n, data.p, data.n, out) != 0)
		bug("HMAC-SHA256 is missing");
}

bool
hmac_same(const uint8_t want[HMAC_BYTES], struct bytes have)
{
	unsigned differ = 0;

	if (have.n != HMAC_BYTES)
		return false;
	for (size_t i = 0; i < HMAC_BYTES; i++)
		differ |= (unsigned)(want[i] ^ have.p[i]);
	return differ == 0;
}

void
random_bytes(void *p, size_t n)
{
	uint8_t *at = p;

	while (n) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno != EINTR)
			bug("the system gives no random numbers: %s", strerror(errno));
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		}
	}
}

int
random_for_mbedtls(void *self, unsigned char *out, size_t n)
{
	(void)self;
	random_bytes(out, n);
	return 0;
}
