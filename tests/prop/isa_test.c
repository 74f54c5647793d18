/* tests/prop/isa_test.c: generated kernels for every x86 instruction set of isa.def against the
 * interpreter.  Vectors of 64 bytes run anywhere, compiled in halves for AVX2; with AVX-512's own
 * instructions they are compiled everywhere and run where the CPU has them.
 * KORCH_ISA_ROUNDS=N batches (default 1), KORCH_ISA_SEED=N from there.
 * label: cpu */
#include "../harness/setting.h"
#include "random_kernels.h"

#include "../../kernels/device/dev.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BATCH = 40 };

static void
run_target(struct target t, bool compile_only)
{
	uint64_t rounds = setting("KORCH_ISA_ROUNDS", 1), seed = setting("KORCH_ISA_SEED", 1);
	struct err e = {0};

	for (uint64_t s = seed; s < seed + rounds; s++) {
		struct arena a = {0};
		struct test_kernel *k = random_kernels(&a, &t, s, BATCH);

		if (!(compile_only ? kernel_builds(&a, k, BATCH, &t, &e)
				   : kernel_compile(&a, k, BATCH, &t, &e)))
			fail_msg("seed %llu: %s", (unsigned long long)s, e.msg);
		for (uint32_t i = 0; i < BATCH && !compile_only; i++)
			if (!kernel_check(&a, &k[i], 1 + i % 3, 2e-4, &e))
				fail_msg("seed %llu kernel %u, schedule \"%.*s\": %s\n%.*s",
				    (unsigned long long)s, i, STR_ARG(k[i].schedule), e.msg,
				    STR_ARG(k[i].spec.text));
		arena_fini(&a);
	}
}

static bool
cpu_has(enum isa isa)
{
	struct dev_info info;
	struct err e = {0};
	struct str needs = str_of(isa_info[isa].needs);

	return dev_cpu_describe(&info, &e) && dev_compatible(needs, &info, &e);
}

static void
sse42(void **state)
{
	(void)state;
	run_target(target_sse42, !cpu_has(ISA_sse42));
}

static void
avx2(void **state)
{
	(void)state;
	run_target(target_avx2, !cpu_has(ISA_avx2));
}

static void
vectors_of_64_bytes(void **state)
{
	struct target t = target_avx512;

	(void)state;
	t.isa = ISA_avx2;
	run_target(t, !cpu_has(ISA_avx2));
}

static void
avx512(void **state)
{
	bool has = cpu_has(ISA_avx512);

	(void)state;
	print_message("AVX-512: %s\n", has ? "compiled and run" : "compiled only, this CPU has none");
	run_target(target_avx512, !has);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sse42), cmocka_unit_test(avx2),
	    cmocka_unit_test(vectors_of_64_bytes), cmocka_unit_test(avx512)};

#ifndef __x86_64__
	(void)printf("SKIP: no x86 processor\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
