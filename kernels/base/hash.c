/* kernels/base/hash.c: SHA-256 from mbedTLS for identity, a mixer for tables. */
#include "sha_ni.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/md.h>
#include <mbedtls/sha256.h>
#include <mbedtls/version.h>
#include <string.h>
#include <unistd.h>

static const uint32_t first_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* p: what follows the blocks taken, the last n of n_all bytes. */
static struct hash
finish_by_cpu(uint32_t state[8], const uint8_t *p, size_t n, uint64_t n_all)
{
	size_t rest = n % 64, n_end = rest < 56 ? 1 : 2;
	uint8_t end[128] = {0};
	struct hash h;

	sha_ni_blocks(state, p, n / 64);
	if (rest)
		memcpy(end, p + (n - rest), rest);
	end[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		end[n_end * 64 - 1 - (size_t)i] = (uint8_t)(n_all * 8 >> (8 * i));
	sha_ni_blocks(state, end, n_end);
	for (int i = 0; i < 32; i++)
		h.b[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
	return h;
}

static struct hash
hash_by_cpu(const void *p, size_t n)
{
	uint32_t state[8];

	memcpy(state, first_state, sizeof(state));
	return finish_by_cpu(state, p, n, n);
}

static struct hash
hash_by_library(const void *p, size_t n)
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

struct hash
hash_bytes(const void *p, size_t n)
{
	return sha_ni_works() ? hash_by_cpu(p, n) : hash_by_library(p, n);
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

static bool
hash_fd_by_cpu(int fd, struct hash *out, uint64_t *n_bytes)
{
	uint8_t buf[65536];
	uint32_t state[8];
	size_t n = 0;

	memcpy(state, first_state, sizeof(state));
	for (;;) {
		ssize_t got = read(fd, buf + n, sizeof(buf) - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return false;
		n += (size_t)got;
		*n_bytes += (uint64_t)got;
		if (got == 0) {
			*out = finish_by_cpu(state, buf, n, *n_bytes);
			return true;
		}
		if (n == sizeof(buf)) {
			sha_ni_blocks(state, buf, n / 64);
			n = 0;
		}
	}
}

static bool
hash_fd_by_library(int fd, struct hash *out, uint64_t *n_bytes)
{
	mbedtls_md_context_t md;
	bool ok;

	mbedtls_md_init(&md);
	if (mbedtls_md_setup(&md, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), 0) != 0 ||
	    mbedtls_md_starts(&md) != 0)
		bug("SHA-256 is missing");
	ok = hash_fd(fd, &md, n_bytes);
	if (mbedtls_md_finish(&md, out->b) != 0)
		bug("SHA-256 failed");
	mbedtls_md_free(&md);
	return ok;
}

bool
hash_file(const char *path, struct hash *out, uint64_t *n_bytes, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
	*n_bytes = 0;
	ok = (sha_ni_works() ? hash_fd_by_cpu : hash_fd_by_library)(fd, out, n_bytes) ||
	    err_set(e, ERR_IO, "%s: cannot read: %s", path, strerror(errno));
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
