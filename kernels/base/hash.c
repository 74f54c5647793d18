/* kernels/base/hash.c: SHA-256 from mbedTLS for identity, a mixer for tables. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/md.h>
#include <mbedtls/sha256.h>
#include <mbedtls/version.h>
#include <string.h>
#include <unistd.h>

struct hash
hash_bytes(const void *p, size_t n)
{
	struct hash h;
#if MBEDTLS_VERSION_NUMBER < 0x03000000
	int rc = mbedtls_sha256_ret(p, n, h.b, 0);
#else
	int rc = mbedtls_sha256(p, n, h.b, 0);
#endif

	if (rc != 0)
		bug("SHA-256 failed with %d", rc);
	return h;
}

/* The message-digest interface has the same names in mbedTLS 2 and 3. */
static bool
hash_fd(int fd, mbedtls_md_context_t *md, uint64_t *n_bytes)
{
	uint8_t buf[65536];

	for (;;) {
		ssize_t got = read(fd, buf, sizeof(buf));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0;
		if (mbedtls_md_update(md, buf, (size_t)got) != 0)
			bug("SHA-256 failed");
		*n_bytes += (uint64_t)got;
	}
}

bool
hash_file(const char *path, struct hash *out, uint64_t *n_bytes, struct err *e)
{
	mbedtls_md_context_t md;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
	mbedtls_md_init(&md);
	if (mbedtls_md_setup(&md, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), 0) != 0 ||
	    mbedtls_md_starts(&md) != 0)
		bug("SHA-256 is missing");
	*n_bytes = 0;
	ok = hash_fd(fd, &md, n_bytes) || err_set(e, ERR_IO, "%s: cannot read: %s", path, strerror(errno));
	if (mbedtls_md_finish(&md, out->b) != 0)
		bug("SHA-256 failed");
	mbedtls_md_free(&md);
	(void)close(fd);
	return ok;
}

int
hash_cmp(const struct hash *a, const struct hash *b)
{
	return memcmp(a->b, b->b, sizeof(a->b));
}

bool
hash_eq(const struct hash *a, const struct hash *b)
{
	return hash_cmp(a, b) == 0;
}

void
hash_hex(const struct hash *h, char out[65])
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < sizeof(h->b); i++) {
		out[2 * i] = digit[h->b[i] >> 4];
		out[2 * i + 1] = digit[h->b[i] & 15];
	}
	out[64] = '\0';
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool
hash_of_hex(struct str hex, struct hash *out)
{
	struct hash h;

	if (hex.n != 64)
		return false;
	for (size_t i = 0; i < 32; i++) {
		int hi = hex_value(hex.p[2 * i]), lo = hex_value(hex.p[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return false;
		h.b[i] = (uint8_t)(hi * 16 + lo);
	}
	*out = h;
	return true;
}

uint64_t
mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t
hash64(const void *p, size_t n, uint64_t seed)
{
	const uint8_t *b = p;
	uint64_t h = mix64(seed ^ (n * 0x9e3779b97f4a7c15u));

	for (; n >= 8; n -= 8, b += 8) {
		uint64_t w;

		memcpy(&w, b, 8);
		h = mix64(h ^ w) + 0x9e3779b97f4a7c15u;
	}
	for (; n; n--, b++)
		h = mix64(h ^ *b) + 1;
	return h;
}
