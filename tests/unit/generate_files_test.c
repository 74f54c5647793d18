/* tests/unit/generate_files_test.c: many kernels as several files (kernels/generate/files.c). */
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CONV(C, GROUP, W)                                                                                    \
	"%0 = input f32[1,20,20," C "]\n%1 = weight f32[3,3," W "," C "]\n"                                  \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=" GROUP "\n"
/* Kernels of two convolutions, with epilogues of their own: each is in one file, and files are about as
 * large. */
static void
test_files(void **state)
{
	static const char *const graph[2] = {CONV("32", "1", "32"), CONV("48", "1", "48")};
	static const char *const tail[] = {"output %2\n", "%3 = relu %2\noutput %3\n",
	    "%3 = exp %2\noutput %3\n", "%3 = neg %2\noutput %3\n"};
	struct arena a = {0};
	struct kernel_code code[8];
	const struct kernel_code *list[8];
	struct str *text;
	struct err e = {0};
	const uint32_t *file;
	uint32_t n_files;

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		const char *words = arena_printf(&a, "%s%s", graph[i % 2], tail[i / 2]);
		struct spec s;

		if (!kernel_spec(&a, words, &s, &e) ||
		    !generate_kernel(&a, &s, STR(""), &target_avx2, arena_printf(&a, "k%u", i), &code[i], &e))
			fail_msg("%s\n%s", e.msg, words);
		list[i] = &code[i];
	}
	n_files = 2;
	generate_c_files(&a, &target_avx2, list, 8, n_files, &text, &file);
	assert_true(text[0].n < text[1].n * 3 / 2 && text[1].n < text[0].n * 3 / 2);
	for (uint32_t i = 0; i < 8; i++) {
		const char *name = arena_printf(&a, "k%u_p0(", i);

		for (uint32_t f = 0; f < 2; f++)
			assert_int_equal(
			    memmem(text[f].p, text[f].n, name, strlen(name)) != NULL, f == file[i]);
	}
	arena_fini(&a);
}

/* Each compiler has as many files as another, few of them, and no file is empty. */
static void
test_counts(void **state)
{
	static const uint32_t want[][4] = {/* kernels, hands, most, files */
	    {0, 2, 100, 1}, {1, 2, 100, 1}, {2, 2, 100, 2}, {14, 2, 100, 2}, {30, 2, 100, 4},
	    {30, 64, 100, 30}, {100, 1, 100, 9}, {100, 1, 5, 5}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(want); i++)
		assert_int_equal(generate_n_files(want[i][0], want[i][1], want[i][2]), want[i][3]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_counts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
