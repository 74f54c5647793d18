/* tests/unit/emit_shared_test.c: tiles are named by what they do, so kernels around one convolution have them
 * in common and a file of them compiles each once (kernels/emit/linear_shared.c); other constants are other
 * tiles.  Kernels that share some go to one file (kernels/emit/files.c). */
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 64 };
struct names {
	char name[MOST][80];
	uint32_t n;
};

static struct str
text_of(struct arena *a, const char *graph, const char *schedule, const char *symbol)
{
	struct spec s;
	struct kernel_code code;
	struct err e = {0};

	if (!kernel_spec(a, graph, &s, &e) ||
	    !emit_c(a, &s, str_of(schedule), &target_avx2, symbol, &code, &e))
		fail_msg("%s\n%s", e.msg, graph);
	return code.text;
}

/* The functions that a kernel's text defines where nobody else has, in order. */
static struct names
shared_in(struct arena *a, struct str text)
{
	static const char mark[] = "#ifndef HAVE_";
	struct names out = {.n = 0};

	for (const char *at = str_dup(a, text); (at = strstr(at, mark)) != NULL;) {
		at += sizeof mark - 1;
		assert_true(out.n < MOST);
		assert_int_equal(sscanf(at, "%79s", out.name[out.n++]), 1);
	}
	return out;
}

static bool
has(const struct names *in, const char *name)
{
	for (uint32_t i = 0; i < in->n; i++)
		if (strcmp(in->name[i], name) == 0)
			return true;
	return false;
}

static uint32_t
n_common(const struct names *x, const struct names *y)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->n; i++)
		n += has(y, x->name[i]);
	return n;
}

#define CONV(C, GROUP, W)                                                                                    \
	"%0 = input f32[1,20,20," C "]\n%1 = weight f32[3,3," W "," C "]\n"                                  \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=" GROUP "\n"
#define PLAIN "output %2\n"
#define RELU "%3 = relu %2\noutput %3\n"

static const struct row {
	const char *name, *graph, *schedule, *other, *other_schedule;
	bool all; /* the same functions; else none in common */
} rows[] = {
    {"an epilogue more", CONV("32", "1", "32") PLAIN, "", CONV("32", "1", "32") RELU, "", true},
    {"another block", CONV("32", "1", "32") PLAIN, "block=2", CONV("32", "1", "32") RELU, "block=4", true},
    {"other channels", CONV("32", "1", "32") PLAIN, "", CONV("48", "1", "48") PLAIN, "", false},
    {"other columns", CONV("32", "1", "32") PLAIN, "nv=2", CONV("32", "1", "32") PLAIN, "nv=1", false},
    {"depthwise, an epilogue more", CONV("32", "32", "1") PLAIN, "", CONV("32", "32", "1") RELU, "", true},
    {"depthwise, other channels", CONV("32", "32", "1") PLAIN, "", CONV("64", "64", "1") PLAIN, "", false},
    {"Winograd, an epilogue more", CONV("32", "1", "32") PLAIN, "wino=4", CONV("32", "1", "32") RELU,
	"wino=4", true},
};

static void
test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct names x = shared_in(&a, text_of(&a, rows[i].graph, rows[i].schedule, "k0"));
		struct names y = shared_in(&a, text_of(&a, rows[i].other, rows[i].other_schedule, "k1"));
		uint32_t n = n_common(&x, &y);

		if (x.n == 0 || y.n == 0 || n != (rows[i].all ? x.n : 0) || (rows[i].all && x.n != y.n))
			fail_msg("%s: %u and %u functions, %u in common", rows[i].name, x.n, y.n, n);
		arena_fini(&a);
	}
}

/* How often the part's definition stands in the text of all files. */
static uint32_t
n_times(const struct str *text, uint32_t n, struct arena *a, const char *name)
{
	const char *mark = arena_printf(a, "#ifndef HAVE_%s\n", name);
	uint32_t times = 0;

	for (uint32_t i = 0; i < n; i++)
		times += memmem(text[i].p, text[i].n, mark, strlen(mark)) != NULL;
	return times;
}

/* Kernels of two convolutions by turns, with epilogues of their own: of two files each has all of one. */
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
	uint32_t n_files;

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		const char *words = arena_printf(&a, "%s%s", graph[i % 2], tail[i / 2]);
		struct spec s;

		if (!kernel_spec(&a, words, &s, &e) ||
		    !emit_c(&a, &s, STR(""), &target_avx2, arena_printf(&a, "k%u", i), &code[i], &e))
			fail_msg("%s\n%s", e.msg, words);
		assert_true(code[i].n_parts > 0);
		list[i] = &code[i];
	}
	n_files = emit_c_files(&a, &target_avx2, list, 8, 100, &text);
	assert_int_equal(n_files, 2);
	for (uint32_t i = 0; i < 8; i++)
		for (uint32_t k = 0; k < code[i].n_parts; k++)
			assert_int_equal(n_times(text, n_files, &a, code[i].parts[k].name), 1);
	for (uint32_t i = 0; i < 8; i++) {
		const char *name = arena_printf(&a, "k%u_p0(", i);

		assert_int_equal(!!memmem(text[0].p, text[0].n, name, strlen(name)) +
			!!memmem(text[1].p, text[1].n, name, strlen(name)),
		    1);
	}
	arena_fini(&a);
}

/* A kernel's text does not depend on its symbol beyond the symbol. */
static void
test_symbol(void **state)
{
	struct arena a = {0};
	struct names x = shared_in(&a, text_of(&a, rows[0].graph, "", "k0")),
		     y = shared_in(&a, text_of(&a, rows[0].graph, "", "long_name"));

	(void)state;
	assert_int_equal(n_common(&x, &y), x.n);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names), cmocka_unit_test(test_files), cmocka_unit_test(test_symbol)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
