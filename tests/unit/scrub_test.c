/* Texts without secrets: tokens wherever they stand, names of this host only as whole words, private keys to
 * their end, and nothing else is touched. */
#include "../../client/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct scrub s;

static void
is(const char *text, const char *want)
{
	struct str have = scrub_text(&s, str_of(text));

	if (!str_is(have, want))
		fail_msg("'%s' became '%.*s', wanted '%s'", text, STR_ARG(have), want);
}

static int
setup(void **state)
{
	static struct arena a;

	(void)state;
	s = (struct scrub){.arena = &a};
	scrub_add(&s, STR("tok-0123456789"), "(token)", false);
	scrub_add(&s, STR("/home/me"), "~", true);
	scrub_add(&s, STR("vm"), "(host)", true);
	scrub_add(&s, STR("x"), "never: too short", false);
	return 0;
}

static void
names_are_whole_words(void **state)
{
	(void)state;
	is("vm-77 llvm vms (vm) vm", "(host)-77 llvm vms ((host)) (host)");
	is("/home/me/a /home/mean /home/me", "~/a /home/mean ~");
	is("", "");
	is("x", "x");
}

static void
tokens_go_wherever_they_stand(void **state)
{
	(void)state;
	is("tok-0123456789", "(token)");
	is("atok-0123456789btok-0123456789", "a(token)b(token)");
	is("tok-012345678", "tok-012345678");
}

static void
keys_go_to_their_end(void **state)
{
	(void)state;
	is("a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb", "a\n(private key)\nb");
	is("-----BEGIN PRIVATE KEY-----\nMHc\nMHd", "(private key)");
	is("-----BEGIN PRIVATE KEY-----", "(private key)");
	is("-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
	    "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----");
	is("-----BEGIN \nPRIVATE KEY-----", "-----BEGIN \nPRIVATE KEY-----");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_whole_words),
	    cmocka_unit_test(tokens_go_wherever_they_stand),
	    cmocka_unit_test(keys_go_to_their_end),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
