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
	uint8_t mac[AUTH_MAC];
	struct bytes proof = {mac, sizeof(mac)};

	(void)state;
	write_tokens(
	    "# two\nworker wwwwwwwwwwwwwwwwwwww\nclient cccccccccccccccccccc\nclient dddddddddddddddddddd\n",
	    0600);
	assert_true(auth_load(&a, path, true, &d, &e));
	auth_mac(STR("dddddddddddddddddddd"), AUTH_CLIENT, n, c, mac);
	assert_true(auth_check(&d, AUTH_CLIENT, n, c, proof));
	assert_false(auth_check(&d, AUTH_WORKER, n, c, proof)); /* another right */
	assert_false(auth_check(&d, AUTH_CLIENT, n, o, proof)); /* replayed to another challenge */
	assert_false(auth_check(&d, AUTH_CLIENT, o, c, proof));
	auth_mac(STR("wwwwwwwwwwwwwwwwwwww"), AUTH_CLIENT, n, c, mac);
	assert_false(auth_check(&d, AUTH_CLIENT, n, c, proof)); /* a worker's token is no client's */
	auth_mac(STR(""), AUTH_CLIENT, n, c, mac);
	assert_false(auth_check(&d, AUTH_CLIENT, n, c, proof));
	proof.n = 5;
	assert_false(auth_check(&d, AUTH_CLIENT, n, c, proof));
	arena_fini(&a);
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(proofs), cmocka_unit_test(files)};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	(void)close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return failed;
}
