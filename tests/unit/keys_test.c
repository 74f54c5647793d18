/* Certificates: whose they are is known, a proof is worth nothing elsewhere, what is wrong with a file is
 * said. memory: yes */
#include "../../proto/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/korch-keys-XXXXXX";
static struct arena tmp;

static void
make(const char *authority, const char *role, const char *name)
{
	const char *host = "localhost";
	struct keys_order o = {.dir = arena_printf(&tmp, "%s/%s", dir, authority),
	    .role = role,
	    .name = name,
	    .host = &host,
	    .n_host = strcmp(role, "daemon") == 0,
	    .days = 30};
	struct err e = {0};

	if (!keys_make(&o, &e))
		fail_msg("%s", e.msg);
}

static struct keys *
load(const char *where, const char *role)
{
	struct keys_conf c = {.dir = arena_printf(&tmp, "%s/%s", dir, where)};
	struct keys *k = NULL;
	struct err e = {0};

	if (!keys_load(&k, &c, role, &e))
		fail_msg("%s", e.msg);
	return k;
}

static void
write_file(const char *where, const char *text)
{
	struct err e = {0};

	assert_true(os_write_file(os_real(), arena_printf(&tmp, "%s/%s", dir, where),
	    (struct bytes){(const uint8_t *)text, strlen(text)}, &e));
}

static const uint8_t word[] = "challenge", other_word[] = "challengf";
static const struct bytes said[] = {{word, 9}, {word, 4}}, other[] = {{other_word, 9}, {word, 4}},
			  moved[] = {{word, 8}, {word, 5}};

/* Who shows `show` and signs with `signer` over `over`, at the daemon of the farm. */
static bool
proves(const struct keys *show, const struct keys *signer, const struct bytes *over, size_t cut,
    struct keys_peer *who, struct err *e)
{
	struct keys *d = load("farm/daemon", "daemon");
	uint8_t proof[KEYS_SIGNATURE];
	size_t n;
	bool ok;

	*e = (struct err){0};
	keys_sign(signer, over, 2, proof, &n);
	ok = keys_check(
	    d, str_of(keys_cert_pem(show)), said, 2, (struct bytes){proof, n - MIN_OF(cut, n)}, who, e);
	keys_free(d);
	return ok;
}

static void
refused(
    const struct keys *show, const struct keys *signer, const struct bytes *over, size_t cut, const char *why)
{
	struct keys_peer who;
	struct err e;

	if (proves(show, signer, over, cut, &who, &e))
		fail_msg("taken, and not '%s'", why);
	assert_int_equal(e.code, ERR_REFUSED);
	if (!strstr(e.msg, why))
		fail_msg("'%s', not '%s'", e.msg, why);
}

static void
proofs(void **state)
{
	struct keys *w = load("farm/worker", "worker"), *c = load("farm/client", "client"),
		    *far = load("other/worker", "worker"), *d = load("farm/daemon", "daemon");
	struct keys_peer who;
	struct err e;

	(void)state;
	assert_true(proves(w, w, said, 0, &who, &e));
	assert_int_equal(who.role, AUTH_WORKER);
	assert_string_equal(who.name, "worker");
	assert_true(proves(c, c, said, 0, &who, &e));
	assert_int_equal(who.role, AUTH_CLIENT);
	refused(w, c, said, 0, "without its key's signature"); /* another's certificate */
	refused(w, w, other, 0, "without its key's signature");
	refused(w, w, moved, 0, "without its key's signature"); /* the same octets, other parts */
	refused(w, w, said, 1, "without its key's signature");
	refused(w, w, said, KEYS_SIGNATURE, "without its key's signature");
	refused(far, far, said, 0, "not signed by the authority"); /* and its name is the same */
	refused(d, d, said, 0, "no client's and no worker's");
	keys_free(w);
	keys_free(c);
	keys_free(far);
	keys_free(d);
}

static void
what_is_no_certificate(void **state)
{
	static const char *const texts[] = {"", "x",
	    "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
	    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
	struct keys *d = load("farm/daemon", "daemon");
	struct keys_peer who;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		struct err e = {0};

		assert_false(keys_check(d, str_of(texts[i]), said, 2, (struct bytes){word, 9}, &who, &e));
		assert_int_equal(e.code, ERR_REFUSED);
	}
	keys_free(d);
}

static void
revoked(void **state)
{
	struct keys *w = load("farm/worker", "worker"), *c = load("farm/client", "client");
	struct keys_peer who;
	struct err e;
	char hex[65];

	(void)state;
	assert_true(proves(c, c, said, 0, &who, &e));
	hash_hex(&who.fingerprint, hex);
	write_file("farm/daemon/revoked", arena_printf(&tmp, "# gone\n\n  %s \nworke\n", hex));
	refused(c, c, said, 0, "'client' is revoked");
	assert_true(proves(w, w, said, 0, &who, &e));
	write_file("farm/daemon/revoked", "worker");
	refused(w, w, said, 0, "'worker' is revoked");
	assert_true(proves(c, c, said, 0, &who, &e));
	assert_int_equal(unlink(arena_printf(&tmp, "%s/farm/daemon/revoked", dir)), 0);
	keys_free(w);
	keys_free(c);
}

static void
files(void **state)
{
	const char *farm = arena_printf(&tmp, "%s/farm/client", dir),
		   *expired = KORCH_SOURCE_DIR "/tests/fixtures/keys/expired",
		   *future = KORCH_SOURCE_DIR "/tests/fixtures/keys/future";
	const struct {
		struct keys_conf conf;
		const char *role, *why;
	} row[] = {
	    {{.dir = farm}, "worker", "a worker's certificate is wanted"},
	    {{.dir = farm}, "daemon", "a daemon's certificate is wanted"},
	    {{.dir = dir}, "client", "ca.crt"},
	    {{.cert = arena_printf(&tmp, "%s/tls.crt", farm)}, "client", "--ca, --cert and --key"},
	    {{.dir = farm, .key = arena_printf(&tmp, "%s/farm/worker/tls.key", dir)}, "client",
		"is not the key of"},
	    {{.dir = farm, .ca = arena_printf(&tmp, "%s/other/ca.crt", dir)}, "client",
		"not signed by the authority"},
	    {{.dir = farm, .cert = arena_printf(&tmp, "%s/tls.key", farm)}, "client", "tls.key"},
	    {{.dir = farm, .key = arena_printf(&tmp, "%s/tls.crt", farm)}, "client", "tls.crt"},
	    {{.dir = expired, .key = arena_printf(&tmp, "%s/expired.key", dir)}, "client",
		"expired on 2021-01-01"},
	    {{.dir = future, .key = arena_printf(&tmp, "%s/future.key", dir)}, "client",
		"is good from 2090-01-01 on"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct keys *k = NULL;
		struct err e = {0};

		if (keys_load(&k, &row[i].conf, row[i].role, &e))
			fail_msg("taken, and not '%s'", row[i].why);
		assert_int_equal(e.code, ERR_USAGE);
		if (!strstr(e.msg, row[i].why))
			fail_msg("'%s', not '%s'", e.msg, row[i].why);
	}
}

static int
set_up(void **state)
{
	static const char *const when[] = {"expired", "future"};
	struct err e = {0};

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_true(keys_make_ca(arena_printf(&tmp, "%s/farm", dir), 30, &e));
	assert_true(keys_make_ca(arena_printf(&tmp, "%s/other", dir), 30, &e));
	make("farm", "daemon", "daemon");
	make("farm", "worker", "worker");
	make("farm", "client", "client");
	make("other", "worker", "worker");
	for (size_t i = 0; i < COUNT_OF(when); i++) { /* a checkout's modes are not a key's */
		char *to = arena_printf(&tmp, "%s/%s.key", dir, when[i]);
		struct bytes b;

		assert_true(os_read_file(os_real(), &tmp,
		    arena_printf(&tmp, "%s/tests/fixtures/keys/%s/tls.key", KORCH_SOURCE_DIR, when[i]),
		    1 << 20, &b, &e));
		assert_true(os_write_file(os_real(), to, b, &e));
		assert_int_equal(chmod(to, 0600), 0);
	}
	return 0;
}

static int
clean_up(void **state)
{
	int rc = system(arena_printf(&tmp, "rm -rf '%s'", dir));

	(void)state;
	arena_fini(&tmp);
	return rc;
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(proofs),
	    cmocka_unit_test(what_is_no_certificate), cmocka_unit_test(revoked), cmocka_unit_test(files)};

	return cmocka_run_group_tests(tests, set_up, clean_up);
}
