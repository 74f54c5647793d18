/* tests/prop/lower_test.c: every spec of the property tests lowered, verified and interpreted, at both levels
 * and with free iterations in three orders, against the interpreter of primitives: in strict mode bit for
 * bit. KORCH_LOWER_GRAPHS=N tries N random graphs (default 300), KORCH_LOWER_SEED=N from there.  memory: yes
 */
#include "../harness/setting.h"
#include "every_prim.h"
#include "program_check.h"
#include "random_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static void
check(void *self, const struct spec *s, uint64_t seed)
{
	(void)self;
	for (int strict = 0; strict < 2; strict++) {
		struct arena a = {0};
		struct checked c;

		program_check_begin(&c, &a, s, strict != 0, seed);
		program_check(&c, &c.p);
		arena_fini(&a);
	}
}

static void
test_random_graphs(void **state)
{
	uint64_t n = setting("KORCH_LOWER_GRAPHS", 300), seed = setting("KORCH_LOWER_SEED", 1);

	(void)state;
	each_random_spec(n, seed, check, NULL);
}

static void
test_every_primitive(void **state)
{
	(void)state;
	every_prim(check, NULL);
}

static void
test_every_map(void **state)
{
	(void)state;
	every_map(check, NULL);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_map),
	    cmocka_unit_test(test_every_primitive),
	    cmocka_unit_test(test_random_graphs),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
