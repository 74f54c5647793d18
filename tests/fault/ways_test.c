/* tests/fault/ways_test.c: kernels that nobody measured are built by a library's call where it has one, else
 * by generated code, and the plan says which: as the builder takes them (a real worker's CPU), and as the
 * planner hears of it (from a desk that says what it likes).  threads: yes */
#include "../../kernels/device/dev.h"
#include "../../kernels/run/plan.h"
#include "../../worker/device.h"
#include "desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const atomic_bool never = false;

/* ---- the builder ------------------------------------------------------------------------ */
/* Products that oneDNN computes as they lie; a field whose channels it would first have to gather, for which
 * it has its reference code only; a kernel that is no call of anything. */
#define DENSE "%0 = input f32[40,30]\n%1 = weight f32[30,48]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n"
#define SCATTERED                                                                                            \
	"%0 = input f32[1,3,24,24]\n%1 = weight f32[3,3,3,16]\n%2 = transpose %0 perm=[0,2,3,1]\n"           \
	"%3 = conv %2 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\noutput %3\n"
#define NO_CALL "%0 = input f32[40,30]\n%1 = exp %0\noutput %1\n"

static struct str
spec_text(struct arena *a, const char *graph)
{
	struct graph g;
	struct spec s;
	struct err e = {0};

	if (!graph_read(&g, a, str_of(graph), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(a, &g, &s);
	return s.text;
}

static struct str
library_here(struct arena *a, int64_t version)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "lib=");
	library_print(&sb, LIBRARY_onednn, version);
	return sb_str(&sb);
}

/* Builds the three; what was taken of each. */
static void
build_three(const struct device *d, struct arena *a, struct str library, uint64_t threads, uint8_t took[3])
{
	static const char *const graph[] = {DENSE, SCATTERED, NO_CALL};
	struct m_other others[] = {{.schedule = STR("")}};
	struct m_kernel k[COUNT_OF(graph)];
	struct m_build_ask ask = {
	    .threads = threads, .precision = STR("f32"), .kernels = k, .n_kernels = COUNT_OF(k)};
	struct built b = {0};
	struct err e = {0};

	for (uint32_t i = 0; i < COUNT_OF(k); i++)
		k[i] = (struct m_kernel){.spec = spec_text(a, graph[i]),
		    .schedule = library,
		    .symbol = str_of(arena_printf(a, "k%u", i)),
		    .others = others,
		    .n_others = 1};
	if (!d->build(d->self, a, &ask, &b, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(b.took.n, 3);
	memcpy(took, b.took.p, 3);
	assert_true(b.object.n > 0 && b.description.n > 0);
}

static void
open_cpu(struct arena *a, struct device *d, struct device_conf *conf)
{
	struct err e = {0};

	*conf = (struct device_conf){.compiler = "", .is_quick = true, .quiet = true, .cancel = &never};
	if (!device_open(a, STR("cpu"), conf, d, &e))
		fail_msg("%s", e.msg);
}

static void
builder_takes_what_it_can(void **state)
{
	int64_t version = dev_cpu_library(LIBRARY_onednn);
	struct arena a = {0};
	struct device_conf conf;
	struct device d;
	uint8_t took[3];

	(void)state;
	open_cpu(&a, &d, &conf);
	for (uint64_t threads = 1; threads <= 2; threads++) {
		build_three(&d, &a, library_here(&a, version ? version : 20603), threads, took);
		assert_int_equal(took[0], version ? 0 : 1);
		assert_int_equal(took[1], 1);
		assert_int_equal(took[2], 1);
	}
	/* one that this host lacks */
	build_three(&d, &a, library_here(&a, 990000), 1, took);
	assert_memory_equal(took, "\1\1\1", 3);
	d.close(d.self);
	arena_fini(&a);
}

/* What is not offered another way fails, and says which kernel it is. */
static void
what_has_no_other_way_fails(void **state)
{
	struct m_other none = {.schedule = STR("block=banana")};
	struct arena a = {0};
	struct m_kernel k = {.schedule = STR("lib=onednn-99.0.0"), .symbol = STR("k7")};
	struct m_build_ask ask = {.threads = 1, .precision = STR("f32"), .kernels = &k, .n_kernels = 1};
	struct device_conf conf;
	struct device d;
	struct built b = {0};
	struct err e = {0};

	(void)state;
	open_cpu(&a, &d, &conf);
	k.spec = spec_text(&a, NO_CALL);
	assert_false(d.build(d.self, &a, &ask, &b, &e));
	assert_non_null(strstr(e.msg, "k7: "));
	k.others = &none;
	k.n_others = 1;
	assert_false(d.build(d.self, &a, &ask, &b, &e));
	assert_non_null(strstr(e.msg, "knob"));
	d.close(d.self);
	arena_fini(&a);
}

/* ---- the planner -------------------------------------------------------------------------- */
static double
twice(const struct hash *spec, int64_t bound_ns)
{
	(void)spec;
	(void)bound_ns;
	return 2;
}

static uint32_t
count_calls(const struct plan *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_kernels; i++)
		n += str_starts(p->kernels[i].schedule, "lib=");
	return n;
}

static uint8_t
takes_first(const struct m_kernel *k)
{
	(void)k;
	return 0;
}

static uint8_t
takes_last(const struct m_kernel *k)
{
	return (uint8_t)k->n_others;
}

/* How many calls there are in a plan from which nothing was measured. */
static uint32_t
calls_of_guess(const char *library, desk_takes takes)
{
	struct desk d;
	struct plan plan;
	uint32_t n;

	desk_open(&d, twice);
	d.takes = takes;
	if (library)
		d.env.key = str_of(arena_printf(&d.a, "device=table\nlibrary=%s\n", library));
	(void)desk_job(&d, 0, false, &plan);
	n = count_calls(&plan);
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		if (str_starts(plan.kernels[i].schedule, "lib="))
			assert_int_equal(plan.kernels[i].range[0], 1);
	desk_close(&d);
	return n;
}

static void
the_plan_names_what_was_taken(void **state)
{
	(void)state;
	assert_int_equal(calls_of_guess(NULL, takes_first), 0);
	assert_true(calls_of_guess("onednn-2.6.3", takes_first) > 0);
	assert_true(calls_of_guess("onednn-2.6.3", NULL) > 0); /* says nothing: the first of each */
	assert_int_equal(calls_of_guess("onednn-2.6.3", takes_last), 0);
}

/* What was measured is built as it was measured, and by nothing else. */
static void
no_other_way_of_what_was_measured(void **state)
{
	struct desk d;
	struct plan plan;

	(void)state;
	desk_open(&d, twice);
	d.takes = takes_last;
	d.env.key = STR("device=table\nlibrary=onednn-2.6.3\n");
	(void)desk_job(&d, 60 * SECOND, false, &plan);
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		assert_true(
		    str_eq(plan.kernels[i].schedule, desk_look_up(&d, plan.kernels[i].spec)->cost.schedule));
	desk_close(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(builder_takes_what_it_can),
	    cmocka_unit_test(what_has_no_other_way_fails),
	    cmocka_unit_test(the_plan_names_what_was_taken),
	    cmocka_unit_test(no_other_way_of_what_was_measured),
	};
	char cache[] = "/tmp/korch-ways-test-XXXXXX", cmd[96];
	int failed;

	if (!mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1) != 0 ||
	    setenv("XDG_RUNTIME_DIR", cache, 1) != 0 ||
	    setenv("KORCH_LIBEXEC", KORCH_BINARY_DIR "/bin", 1) != 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", cache);
	return system(cmd) == 0 ? failed : 1;
}
