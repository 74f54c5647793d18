/* Tokens: who holds one is known, a proof is worth nothing elsewhere, files others may read are
 * refused. */
#include "../../proto/auth.h"
#include "../../proto/hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/korch-auth-XXXXXX";

static void
write_tokens(const char *text, mode_t mode)
{
	struct err e = {0};

	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text, strlen(text)}, &e));
	assert_int_equal(chmod(path, mode), 0);
}

static void
proofs(void **state)
{
	static const uint8_t nonce[AUTH_NONCE] = {1}, challenge[AUTH_NONCE] = {2}, other[AUTH_NONCE] = {3};
	struct bytes n = {nonce, sizeof(nonce)}, c = {challenge, sizeof(challenge)},
		     o = {other, sizeof(other)};
	struct arena a = {0};
	struct auth d;
	struct err e = {0};
	struct hash who, other_who = {{0}};
	uint8_t mac[AUTH_MAC];
	struct bytes proof = {mac, sizeof(mac)};

	(void)state;
	write_tokens(
	    "# two\nworker wwwwwwwwwwwwwwwwwwww\nclient cccccccccccccccccccc\nclient dddddddddddddddddddd\n",
	    0600);
	assert_true(auth_load(&a, path, true, &d, &e));
	auth_mac(STR("dddddddddddddddddddd"), AUTH_CLIENT, n, c, mac);
	assert_true(auth_check(&d, AUTH_CLIENT, n, c, proof, &who));
	assert_false(auth_check(&d, AUTH_WORKER, n, c, proof, &who)); /* another right */
	assert_false(auth_check(&d, AUTH_CLIENT, n, o, proof, &who)); /* replayed to another challenge */
	assert_false(auth_check(&d, AUTH_CLIENT, o, c, proof, &who));
	/* which of the tokens it was */
	auth_mac(STR("cccccccccccccccccccc"), AUTH_CLIENT, n, c, mac);
	assert_true(auth_check(&d, AUTH_CLIENT, n, c, proof, &other_who));
	assert_false(hash_eq(&who, &other_who));
	auth_mac(STR("wwwwwwwwwwwwwwwwwwww"), AUTH_CLIENT, n, c, mac);
	assert_false(auth_check(&d, AUTH_CLIENT, n, c, proof, &who)); /* a worker's token is no client's */
	auth_mac(STR(""), AUTH_CLIENT, n, c, mac);
	assert_false(auth_check(&d, AUTH_CLIENT, n, c, proof, &who));
	proof.n = 5;
	assert_false(auth_check(&d, AUTH_CLIENT, n, c, proof, &who));
	arena_fini(&a);
}

/* A challenge is good on its connection, for its nonce, in this life of the daemon, for a while; and however
 * many there are, none pushes another out. */
static void
challenges(void **state)
{
	static const uint8_t secret[AUTH_SECRET] = {7}, later_life[AUTH_SECRET] = {8}, one[AUTH_NONCE] = {1},
			     two[AUTH_NONCE] = {2};
	const int64_t second = 1000000000, now = 1000 * second;
	struct bytes n = {one, sizeof(one)}, m = {two, sizeof(two)};
	uint8_t c[AUTH_CHALLENGE], flood[AUTH_CHALLENGE];
	struct bytes challenge = {c, sizeof(c)};

	(void)state;
	auth_challenge(secret, 41, now, n, c);
	for (int i = 0; i < 10000; i++)
		auth_challenge(secret, 42, now, m, flood);
	assert_true(auth_is_ours(secret, 41, now, n, challenge));
	assert_true(auth_is_ours(secret, 41, now + 29 * second, n, challenge));
	assert_false(auth_is_ours(secret, 41, now + 31 * second, n, challenge));
	assert_false(auth_is_ours(secret, 41, now - 1, n, challenge));
	assert_false(auth_is_ours(secret, 42, now, n, challenge));
	assert_false(auth_is_ours(secret, 41, now, m, challenge));
	assert_false(auth_is_ours(later_life, 41, now, n, challenge));
	assert_false(auth_is_ours(secret, 41, now, n, (struct bytes){flood, sizeof(flood)}));
	assert_false(auth_is_ours(secret, 41, now, n, (struct bytes){c, sizeof(c) - 1}));
	for (size_t i = 0; i < sizeof(c); i++) { /* every byte counts */
		c[i] ^= 1;
		assert_false(auth_is_ours(secret, 41, now + 2, n, challenge));
		c[i] ^= 1;
	}
}

/* A second, doubling to half a minute, never the same twice for all. */
static void
waits(void **state)
{
	static const int64_t second = 1000000000, least[] = {1, 2, 4, 8, 16, 30, 30, 30};
	bool differ = false;

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(least); i++)
		for (int k = 0; k < 100; k++) {
			int64_t w = hello_wait_ns(i + 1);

			assert_true(w >= least[i] * second && w <= least[i] * second * 3 / 2);
			differ |= w != hello_wait_ns(i + 1);
		}
	assert_true(differ);
	assert_true(hello_wait_ns(UINT32_MAX) <= 45 * second);
}

static void
files(void **state)
{
	struct arena a = {0};
	struct auth d;
	struct err e = {0};

	(void)state;
	write_tokens("client cccccccccccccccccccc\n", 0644);
	assert_false(auth_load(&a, path, true, &d, &e));
	assert_non_null(strstr(e.msg, "chmod 600"));
	write_tokens("nonsense\n", 0600);
	assert_false(auth_load(&a, path, true, &d, &e));
	assert_null(strstr(e.msg, "nonsense")); /* it may be a token */
	write_tokens("client short\n", 0600);
	assert_false(auth_load(&a, path, true, &d, &e));
	write_tokens("\n#\n", 0600);
	assert_false(auth_load(&a, path, true, &d, &e));
	write_tokens("eeeeeeeeeeeeeeeeeeee\n", 0600);
	assert_true(auth_load(&a, path, false, &d, &e));
	assert_true(str_is(auth_token(&d, AUTH_WORKER), "eeeeeeeeeeeeeeeeeeee"));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(proofs), cmocka_unit_test(challenges),
	    cmocka_unit_test(waits), cmocka_unit_test(files)};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	(void)close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return failed;
}
