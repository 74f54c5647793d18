/* The kernels of a build and of a batch are generated side by side: each is what it is by itself, in its own
 * place, and the first that cannot be made is named.  threads: yes */
#include "../../worker/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 12 };

/* Convolutions of i + 4 channels. */
static struct str
spec_text(struct arena *a, int i)
{
	return str_of(arena_printf(a,
	    "spec 1\n%%0 = input f32[1,9,9,%d]\n%%1 = weight f32[3,3,%d,16]\n%%2 = conv %%0 %%1 lo=[1,1] "
	    "hi=[1,1] "
	    "stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,9,9,16]\noutput %%2\n",
	    i + 4, i + 4));
}

static struct device
device_here(void)
{
	return (struct device){.class = "here", .target = *target_of_isa(ISA_avx2)};
}

static struct str
text_alone(struct arena *a, struct str spec, const char *symbol)
{
	struct spec s;
	struct kernel_code code;
	struct err e = {0};

	if (!spec_read(a, spec, &s, &e) ||
	    !generate_kernel(a, &s, STR(""), target_of_isa(ISA_avx2), symbol, &code, &e))
		fail_msg("%s", e.msg);
	return code.text;
}

static struct m_build_ask
ask_of(struct arena *a)
{
	struct m_kernel *k = NEW_ARRAY(a, struct m_kernel, N);

	for (int i = 0; i < N; i++)
		k[i] = (struct m_kernel){.spec = spec_text(a, i),
		    .schedule = STR(""),
		    .symbol = str_of(arena_printf(a, "k%d", i))};
	return (struct m_build_ask){.precision = STR("f32"), .threads = 1, .kernels = k, .n_kernels = N};
}

static void
builds_are_made_side_by_side(void **state)
{
	const struct device d = device_here();
	const struct build_how how = {.device = &d, .emit = generate_kernel};
	struct arena a = {0};
	struct err e = {0};
	struct m_build_ask ask = ask_of(&a);
	struct build b;

	(void)state;
	if (!build_make(&a, &ask, &how, &b, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < N; i++)
		assert_true(str_eq(b.codes[i].text,
		    text_alone(&a, ask.kernels[i].spec, str_dup(&a, ask.kernels[i].symbol))));
	ask.kernels[7].schedule = STR("trace=nonsense");
	ask.kernels[9].spec = STR("spec 2\n");
	assert_false(build_make(&a, &ask, &how, &b, &e));
	assert_non_null(strstr(e.msg, "k7"));
	arena_fini(&a);
}

/* Two schedules of each kernel, of which the second is none. */
static void
batches_are_made_side_by_side(void **state)
{
	const struct device d = device_here();
	struct arena a = {0};
	struct m_other named[] = {{.schedule = STR("")}, {.schedule = STR("trace=nonsense")}};
	struct m_task task[N];
	struct m_outcome out[N] = {0};
	struct unit units[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		task[i] = (struct m_task){.kind = TASK_MEASURE,
		    .spec = i == 5 ? STR("spec 2\n") : spec_text(&a, i),
		    .precision = STR("f32"),
		    .threads = 1,
		    .effort = 2,
		    .named = named,
		    .n_named = COUNT_OF(named)};
		units[i] = (struct unit){.task = &task[i], .out = &out[i]};
	}
	unit_make_all(&d, &a, units, N, generate_kernel);
	for (int i = 0; i < N; i++) {
		char *symbol = arena_printf(&a, "k%d_0", i);

		if (i == 5) {
			assert_int_equal(units[i].n, 0);
			assert_int_not_equal(out[i].fail, 0);
			continue;
		}
		assert_int_equal(units[i].n, 1);
		assert_true(str_eq(units[i].codes[0].text, text_alone(&a, task[i].spec, symbol)));
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(builds_are_made_side_by_side), cmocka_unit_test(batches_are_made_side_by_side)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
