/* tests/unit/objects_test.c: compiled kernels that are kept (worker/objects.h).  label: cpu, memory: yes */
#include "../../kernels/device/dev.h"
#include "../../worker/objects.h"
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 7, EXTENT = 40 };
static const char *const function[N] = {"relu", "exp", "neg", "abs", "sqrt", "floor", "ceil"};

struct kernels {
	struct arena a;
	struct kernel_code code[N];
	const struct kernel_code *list[N];
	const char *symbol[N];
	struct objects_want want;
	struct objects *objects;
};

static int
setup(void **state)
{
	struct kernels *k = heap_alloc(sizeof(*k));

	*state = k;
	*k = (struct kernels){.objects = objects_new(1 << 30),
	    .want = {.target = &target_avx2, .n = N, .codes = k->list, .symbols = k->symbol}};
	for (int i = 0; i < N; i++) {
		const char *words = arena_printf(
		    &k->a, "%%0 = input f32[%d]\n%%1 = %s %%0\noutput %%1\n", EXTENT, function[i]);
		struct spec s;
		struct err e = {0};

		if (!kernel_spec(&k->a, words, &s, &e) ||
		    !generate_kernel(&k->a, &s, STR(""), &target_avx2, KERNEL_STAND_IN, &k->code[i], &e))
			fail_msg("%s\n%s", e.msg, words);
		k->list[i] = &k->code[i];
		k->symbol[i] = arena_printf(&k->a, "k%d", i);
	}
	k->code[3].desc.is_library = true; /* of which nothing is compiled */
	k->code[3].text = STR("/* a call */\n");
	return 0;
}

static int
teardown(void **state)
{
	struct kernels *k = *state;

	objects_free(k->objects);
	arena_fini(&k->a);
	free(k);
	return 0;
}

/* What kernel `i` makes of -1.5, by the name that it has in the module. */
static float
result(const struct dev *d, struct dev_module *m, const struct kernels *k, int i)
{
	struct dev_kernel kernel = {.n_passes = k->code[i].desc.n_passes};
	float x[EXTENT], y[EXTENT] = {0};
	void *buf[] = {x, y};
	struct dev_launch l = {.kernel = &kernel, .buf = buf};
	struct err e = {0};

	memcpy(kernel.range, k->code[i].desc.range, sizeof(kernel.range));
	for (int j = 0; j < EXTENT; j++)
		x[j] = -1.5f;
	if (!d->find(d->self, m, k->symbol[i], &kernel, &e))
		fail_msg("%s", e.msg);
	d->run(d->self, &l, 1, NULL);
	return y[EXTENT - 1];
}

static void
expect(const struct kernels *k, struct bytes object, int i, float want)
{
	struct dev_kernel kernel = {.n_passes = 1};
	struct dev d;
	struct dev_module *m;
	struct err e = {0};

	if (!dev_cpu_open(1, false, &d, &e) || !d.load(d.self, object, &m, &e))
		fail_msg("%s", e.msg);
	assert_true(result(&d, m, k, i) == want);
	assert_false(d.find(d.self, m, "not_wanted", &kernel, &e));
	d.unload(d.self, m);
	d.close(d.self);
}

/* The same kernels under other names: nothing is compiled, and each name has its own. */
static void
what_is_kept_is_linked(void **state)
{
	struct kernels *k = *state;
	struct objects *o = k->objects;
	struct bytes one, two;
	int64_t each_ns;
	struct err e = {0};

	if (!objects_make(o, &k->want, &each_ns, &e))
		fail_msg("%s", e.msg);
	assert_true(each_ns > 0);
	assert_true(objects_link(o, &k->a, &k->want, &one, &e));
	expect(k, one, 0, 0.0f);
	expect(k, one, 2, 1.5f);
	expect(k, one, 6, -1.0f);
	assert_true(objects_make(o, &k->want, &each_ns, &e));
	assert_true(each_ns == 0);

	/* two of them, the one twice, and none of the others */
	k->symbol[0] = "first", k->symbol[1] = "second", k->symbol[2] = "again", k->symbol[6] = "not_wanted";
	k->list[1] = k->list[0], k->list[0] = k->list[2];
	k->want.n = 3;
	assert_true(objects_make(o, &k->want, &each_ns, &e));
	assert_true(each_ns == 0);
	assert_true(objects_link(o, &k->a, &k->want, &two, &e));
	expect(k, two, 0, 1.5f);
	expect(k, two, 1, 0.0f);
	expect(k, two, 2, 1.5f);

	/* nothing but libraries' */
	k->list[0] = &k->code[3];
	k->want.n = 1;
	assert_true(objects_link(o, &k->a, &k->want, &two, &e));
}

/* For another instruction set, or by another text, it is another kernel. */
static void
others_are_compiled(void **state)
{
	struct kernels *k = *state;
	struct objects *o = k->objects;
	struct target strict = target_avx2;
	int64_t each_ns;
	struct err e = {0};

	k->want.n = 2;
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns > 0);
	strict.strict = true;
	k->want.target = &strict;
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns > 0);
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns == 0);
	k->code[1].text = k->code[4].text;
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns > 0);
}

/* One more than the limit: what was used longest ago is gone, the rest is there; and what is linked may be
 * more than the limit. */
static void
the_limit_holds(void **state)
{
	struct kernels *k = *state;
	struct objects *o;
	struct bytes out;
	int64_t each_ns;
	struct err e = {0};

	o = objects_new(1);
	assert_true(objects_link(o, &k->a, &k->want, &out, &e));
	expect(k, out, 6, -1.0f);
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns > 0);
	objects_free(o);

	o = objects_new(6 << 10);
	for (int i = 0; i < N; i++) {
		k->want.codes = &k->list[i];
		k->want.symbols = &k->symbol[i];
		k->want.n = 1;
		assert_true(objects_link(o, &k->a, &k->want, &out, &e));
	}
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns == 0);
	k->want.codes = k->list;
	assert_true(objects_make(o, &k->want, &each_ns, &e) && each_ns > 0);
	objects_free(o);
}

/* A kernel that does not compile costs no other. */
static void
what_does_not_compile_is_told(void **state)
{
	struct kernels *k = *state;
	struct objects *o = k->objects;
	struct bytes out;
	int64_t each_ns;
	struct err e = {0};

	k->code[1].text = STR("int x = ;\n");
	k->code[1].head_bytes = 0;
	assert_false(objects_make(o, &k->want, &each_ns, &e));
	assert_int_equal(e.code, ERR_COMPILE);
	k->list[1] = k->list[0];
	assert_true(objects_link(o, &k->a, &k->want, &out, &e));
	/* a name is no place for anything else */
	k->symbol[0] = "k0 = 0; INPUT(/etc/passwd)";
	assert_false(objects_link(o, &k->a, &k->want, &out, &e));
	assert_int_equal(e.code, ERR_FORMAT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_kept_is_linked, setup, teardown),
	    cmocka_unit_test_setup_teardown(others_are_compiled, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_limit_holds, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_does_not_compile_is_told, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
