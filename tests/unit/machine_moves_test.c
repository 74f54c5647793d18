/* tests/unit/machine_moves_test.c: 20,000 random moves on golden kernels: every one that legal.h takes leaves
 * the kernel without hazards and with its traces; with a rule switched off the same judges find that it was
 * needed.  The million is bench-sip-legal's.  memory: yes */
#include "../harness/moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static struct sass_kernel
kernel_of(struct arena *a, const char *file, const char *name)
{
	struct sass_kernel k;
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), a, arena_printf(a, "%s/tests/golden/sass/%s", KORCH_SOURCE_DIR, file),
		1 << 24, &b, &e) ||
	    !sass_read(a, b, name, &k, &e))
		fail_msg("%s: %s", file, e.msg);
	return k;
}

static const struct {
	const char *file, *name;
} kernels[] = {
    {"hand_v3_sm80.cubin", "k"},
    {"softmax_sm90.cubin", "k_p0"},
    {"chain_sm80.cubin", "k_p0"},
    {"depthwise_sm70.cubin", "k_p0"},
    {"conv_f16_sm80.cubin", "k_p0"},
};

static void
test_legal_moves_are_right(void **state)
{
	enum { MOVES = 20000 / 5 };
	struct moves_count c = {.tried = 0};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(kernels); i++) {
		struct arena a = {0};
		const struct sass_kernel k = kernel_of(&a, kernels[i].file, kernels[i].name);
		const struct moves_ask ask = {.moves = MOVES, .seed = 77 + i, .anyway = 100, .inputs = 2};

		moves_try(&k, &ask, &c);
		arena_fini(&a);
	}
	if (c.hazards + c.traces + c.kept)
		fail_msg("%llu hazards, %llu other traces, %llu displaced; %s", (unsigned long long)c.hazards,
		    (unsigned long long)c.traces, (unsigned long long)c.kept, c.first);
	assert_int_equal(c.tried, MOVES * COUNT_OF(kernels));
	assert_true(c.legal > c.tried / 10);
	/* Most refusals are needed: the judges are not blind. */
	assert_true(c.done_anyway > 50 && 5 * c.wrong > c.done_anyway);
	print_message("%llu of %llu moves legal; of %llu refused ones done all the same %llu are wrong\n",
	    (unsigned long long)c.legal, (unsigned long long)c.tried, (unsigned long long)c.done_anyway,
	    (unsigned long long)c.wrong);
}

/* Rules that the machine sees the want of; the others have cases in legal_cases.txt (bench-sip-legal prints
 * which). */
static void
test_a_rule_switched_off_is_missed(void **state)
{
	static const enum sass_rule rules[] = {SASS_RULE_block, SASS_RULE_data, SASS_RULE_waits,
	    SASS_RULE_inherits, SASS_RULE_before, SASS_RULE_behind, SASS_RULE_empty};
	struct arena a = {0};
	const struct sass_kernel k = kernel_of(&a, "hand_v3_sm80.cubin", "k");

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(rules); i++) {
		struct moves_count c = {.tried = 0};

		for (uint64_t seed = 1; seed <= 8 && c.hazards + c.traces + c.kept == 0; seed++) {
			const struct moves_ask ask = {.moves = 4000,
			    .seed = seed,
			    .without = 1u << rules[i],
			    .inputs = 2,
			    .at_most = 1};

			moves_try(&k, &ask, &c);
		}
		if (c.hazards + c.traces + c.kept == 0)
			fail_msg("%s is not missed in %llu moves", sass_rule_name(rules[i]),
			    (unsigned long long)c.tried);
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_legal_moves_are_right),
	    cmocka_unit_test(test_a_rule_switched_off_is_missed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
