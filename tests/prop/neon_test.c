/* tests/prop/neon_test.c: generated kernels for aarch64 against the interpreter: cross-compiled, run
 * under QEMU's emulation of user programs, or at home.
 * KORCH_ISA_ROUNDS=N batches (default 1), KORCH_ISA_SEED=N from there.
 * label: cpu */
#include "../harness/cross.h"
#include "../harness/setting.h"
#include "random_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BATCH = 40 };

#ifdef __aarch64__
static const struct machine neon = {"cc", "env"};
#else
static const struct machine neon = {"aarch64-linux-gnu-gcc", "qemu-aarch64"};
#endif

static void
kernels_agree(void **state)
{
	uint64_t rounds = setting("KORCH_ISA_ROUNDS", 1), seed = setting("KORCH_ISA_SEED", 1);
	struct err e = {0};

	(void)state;
	for (uint64_t s = seed; s < seed + rounds; s++) {
		struct arena a = {0};
		struct test_kernel *k = random_kernels(&a, &target_neon, s, BATCH);

		for (uint32_t i = 0; i < BATCH; i++)
			kernel_spoil(&k[i]);
		if (!cross_run(&a, &neon, &target_neon, k, BATCH, 1 + (uint32_t)(s % 3), &e))
			fail_msg("seed %llu: %s", (unsigned long long)s, e.msg);
		for (uint32_t i = 0; i < BATCH; i++)
			if (!kernel_compare(&a, &k[i], 2e-4, &e))
				fail_msg("seed %llu kernel %u, schedule \"%.*s\": %s\n%.*s",
				    (unsigned long long)s, i, STR_ARG(k[i].schedule), e.msg,
				    STR_ARG(k[i].spec.text));
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_agree)};
	const char *missing = cross_missing(&neon);

	if (missing) {
		(void)printf("SKIP: no %s here\n", missing);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
