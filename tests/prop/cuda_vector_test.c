/* tests/prop/cuda_vector_test.c: pointwise passes that move words: where it is proved that they may, and
 * nowhere else; their results are the interpreter's, and NVRTC takes the text.  The shim traps a word that
 * does not begin at a multiple of its size. */
#include "../../kernels/base/base.h"
#include "../harness/cuda_nvrtc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const struct row {
	const char *name, *text, *schedule;
	uint32_t loads, stores; /* of words, in the text */
} rows[] = {
    {"plain", "%0 = input f32[1024]\n%1 = relu %0 : f32[1024]\noutput %1\n", "vector=4 trace=1", 1, 1},
    {"by default one at a time", "%0 = input f32[1024]\n%1 = relu %0 : f32[1024]\noutput %1\n", "trace=1", 0,
	0},
    {"two words of eight", "%0 = input f32[1024]\n%1 = relu %0 : f32[1024]\noutput %1\n",
	"threads=64 vector=8 trace=1", 2, 2},
    {"half a word", "%0 = input f32[1026]\n%1 = relu %0 : f32[1026]\noutput %1\n", "vector=2 trace=1", 1, 1},
    {"not a multiple", "%0 = input f32[1026]\n%1 = relu %0 : f32[1026]\noutput %1\n", "vector=4 trace=1", 0,
	0},
    {"eight halves", "%0 = input f16[64,24]\n%1 = relu %0 : f16[64,24]\noutput %1\n", "vector=8 trace=1", 1,
	1},
    {"two bytes are no word", "%0 = input u8[64,24]\n%1 = neg %0 : u8[64,24]\noutput %1\n",
	"vector=2 trace=1", 0, 0},
    {"doubles", "%0 = input f64[32]\n%1 = relu %0 : f64[32]\noutput %1\n", "vector=4 trace=1", 2, 2},
    {"a row for all rows, a number for each",
	"%0 = input f32[32,64]\n%1 = input f32[1,64]\n%2 = input f32[32,1]\n"
	"%3 = bcast %1 shape=[32,64] : f32[32,64]\n%4 = bcast %2 shape=[32,64] : f32[32,64]\n"
	"%5 = add %0 %3 : f32[32,64]\n%6 = mul %5 %4 : f32[32,64]\noutput %6\n",
	"vector=4 trace=1", 2, 1},
    {"rows of six: of their one row four are not side by side",
	"%0 = input f32[32,6]\n%1 = input f32[1,6]\n"
	"%3 = bcast %1 shape=[32,6] : f32[32,6]\n%5 = add %0 %3 : f32[32,6]\noutput %5\n",
	"vector=4 trace=1", 1, 1},
    {"columns: only the result is side by side",
	"%0 = input f32[16,64]\n%1 = transpose %0 perm=[1,0] : f32[64,16]\n"
	"%2 = relu %1 : f32[64,16]\noutput %2\n",
	"vector=4 trace=1", 0, 1},
    {"from the second element on",
	"%0 = input f32[68]\n%1 = slice %0 start=[1] step=[1] shape=[64] : f32[64]\n"
	"%2 = relu %1 : f32[64]\noutput %2\n",
	"vector=4 trace=1", 0, 1},
    {"from the fifth element on",
	"%0 = input f32[68]\n%1 = slice %0 start=[4] step=[1] shape=[64] : f32[64]\n"
	"%2 = relu %1 : f32[64]\noutput %2\n",
	"vector=4 trace=1", 1, 1},
    {"of an array that ends inside a word",
	"%0 = input f32[67]\n%1 = slice %0 start=[0] step=[1] shape=[64] : f32[64]\n"
	"%2 = relu %1 : f32[64]\noutput %2\n",
	"vector=4 trace=1", 0, 1},
    {"every other element",
	"%0 = input f32[128]\n%1 = slice %0 start=[0] step=[2] shape=[64] : f32[64]\n"
	"%2 = relu %1 : f32[64]\noutput %2\n",
	"vector=4 trace=1", 0, 1},
    {"behind a border",
	"%0 = input f32[64]\n%1 = pad %0 lo=[4] hi=[4] mode=0 value=0x1p+0 : f32[72]\n"
	"%2 = relu %1 : f32[72]\noutput %2\n",
	"vector=4 trace=1", 0, 1},
};

static void
case_of(struct arena *a, struct cuda_case *c, const struct row *row)
{
	*c = (struct cuda_case){.seed = 1, .schedule = row->schedule};
	cuda_case_read(a, c, row->text);
}

static uint32_t
count(const char *text, const char *what)
{
	uint32_t n = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		n++;
	return n;
}

static void
test_words(void **state)
{
	struct arena a = {0};
	struct cuda_case list[COUNT_OF(rows)];

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
		const char *text;
		uint32_t loads, all;

		case_of(&a, &list[i], &rows[i]);
		cuda_case_make(&a, &list[i], &target_cuda, i);
		assert_false(list[i].refused);
		text = list[i].code.text.p;
		all = count(text, "\tk_move_");
		loads = count(text, "(&l"); /* to a thread's own */
		if (loads != rows[i].loads || all - loads != rows[i].stores)
			fail_msg("%s: %u loads and %u stores of words, not %u and %u:\n%s", rows[i].name,
			    loads, all - loads, rows[i].loads, rows[i].stores, text);
	}
	assert_int_equal(cuda_cases_check(&a, list, COUNT_OF(rows)), 0);
	arena_fini(&a);
}

static void
test_nvrtc_compiles_words(void **state)
{
	static const int sms[] = {70, 75, 80, 90, 100};
	struct gpu gpu;
	struct err e;

	(void)state;
	gpu_open(&gpu);
	for (uint32_t k = 0; k < COUNT_OF(sms); k++) {
		struct arena a = {0};
		struct cuda_case list[COUNT_OF(rows)];
		struct nvrtc_totals totals = {0};

		if (!gpu_rtc_choose(&gpu, sms[k], &e)) {
			print_message("not compiled for sm_%d: %s\n", sms[k], e.msg);
			continue;
		}
		for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
			case_of(&a, &list[i], &rows[i]);
			cuda_case_make(&a, &list[i], &target_cuda, i);
		}
		cuda_nvrtc_compile(&gpu, list, COUNT_OF(rows), 0, sms[k], &totals);
		cuda_nvrtc_print(&totals, sms[k], "words");
		assert_int_equal(totals.failed + totals.spilling + totals.unfit, 0);
		arena_fini(&a);
	}
	gpu_close(&gpu);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_nvrtc_compiles_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
