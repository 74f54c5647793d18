/* tests/unit/class_test.c: which classes a pattern means, and what a CPU's class is called. */
#include "../../kernels/base/class.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void
patterns(void **state)
{
	static const struct {
		const char *pattern, *class;
		bool fits;
	} row[] = {
	    {"cpu", "cpu", true}, /* of an old worker, or in an old store */
	    {"cpu", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu:*", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu:*", "cpu", false},
	    {"cpu:AMD-*", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu:amd-*", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu:AMD", "cpu:AMD-EPYC-9B14-avx512", false},
	    {"cpu:*xeon*", "cpu:Intel-Xeon-Platinum-8370C-2.80GHz-avx512", true},
	    {"cpu:xeon*", "cpu:Intel-Xeon-Platinum-8370C-2.80GHz-avx512", false},
	    {"cpu:*-avx2", "cpu:AMD-EPYC-9B14-avx512", false},
	    {"cpu:*-avx512", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu:AMD-EPYC-9B14-avx512", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu:AMD-EPYC-9B1?-avx512", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"cpu", "cuda:NVIDIA-A100-SXM4-40GB", false},
	    {"cuda", "cuda:NVIDIA-A100-SXM4-40GB", true},
	    {"cuda:*a100*", "cuda:NVIDIA-A100-SXM4-40GB", true},
	    {"cuda", "cpu:cuda-avx2", false},
	    {"c*", "cpu:AMD-EPYC-9B14-avx512", true},
	    {"*", "fake", true},
	    {"fake", "fake", true},
	    {"fak", "fake", false},
	    {"fakes", "fake", false},
	    {"", "fake", false},
	    {"*a*b*c", "aXbXcXabc", true},
	    {"*a*b*c", "aXbXcXabd", false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (class_fits(str_of(row[i].pattern), str_of(row[i].class)) != row[i].fits)
			fail_msg("'%s' %s '%s'", row[i].pattern, row[i].fits ? "does not fit" : "fits",
			    row[i].class);
}

static void
of_cpu(void **state)
{
	static const struct {
		const char *model, *isa, *class;
	} row[] = {
	    {"AMD EPYC 9B14", "avx512", "cpu:AMD-EPYC-9B14-avx512"},
	    {"Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "avx512",
		"cpu:Intel-Xeon-Platinum-8370C-2.80GHz-avx512"},
	    {"Intel(R) Xeon(R) CPU @ 2.20GHz", "avx2", "cpu:Intel-Xeon-2.20GHz-avx2"},
	    {"12th Gen Intel(R) Core(TM) i7-12700K", "avx2", "cpu:12th-Gen-Intel-Core-i7-12700K-avx2"},
	    {"  a\n\x1b[31m* ? :b  ", "avx2", "cpu:a-31m-b-avx2"},
	    {"", "neon", "cpu:unknown-neon"},
	    {"\xff\xfe", "neon", "cpu:unknown-neon"},
	};
	char out[CLASS_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		class_of_cpu(str_of(row[i].model), row[i].isa, out);
		assert_string_equal(out, row[i].class);
	}
}

static void
names_without_a_model(void **state)
{
	static const struct {
		const char *name;
		bool has;
	} row[] = {{"AMD EPYC 9B14", true}, {"AMD EPYC", false}, {"AMD EPYC-Rome Processor", false},
	    {"Intel(R) Xeon(R) Processor", false}, {"Intel(R) Xeon(R) CPU @ 2.20GHz", false},
	    {"Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", true},
	    {"Intel Xeon Processor (Skylake, IBRS)", false}, {"12th Gen Intel(R) Core(TM) i7-12700K", true},
	    {"", false}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (class_has_model(str_of(row[i].name)) != row[i].has)
			fail_msg("'%s' %s a model", row[i].name, row[i].has ? "has" : "has not");
}

/* However long they are, two models are two classes, and each says its instruction set. */
static void
long_models(void **state)
{
	char model[200], a[CLASS_MAX], b[CLASS_MAX];

	(void)state;
	for (size_t n = 40; n + 1 < sizeof(model); n++) {
		memset(model, 'm', n);
		model[n] = '\0';
		class_of_cpu(str_of(model), "avx512", a);
		model[n - 1] = 'n';
		class_of_cpu(str_of(model), "avx512", b);
		assert_string_not_equal(a, b);
		assert_string_equal(a + strlen(a) - 7, "-avx512");
		assert_true(class_fits(STR("cpu:mmm*"), str_of(a)));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(of_cpu),
	    cmocka_unit_test(names_without_a_model), cmocka_unit_test(long_models)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
