/* tests/unit/race_test.c: kernels of a race go round their operands' copies together: no call meets a copy
 * that any of them has touched since the ring was walked.  Calls that sweep the last cache are not timed by a
 * reference that they slow down.  A device that does nothing but tell what it was asked. */
#include "../../worker/rotation.h"
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { KERNELS = 3, MOST_CALLS = 1 << 16 };
static const char conv[] = "%0 = input f32[1,8,8,64]\n%1 = weight f32[3,3,64,64]\n"
			   "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 "
			   ": f32[1,8,8,64]\noutput %2\n";

struct yard {
	const struct dev_kernel *kernels;
	const void *met[MOST_CALLS]; /* the first operand of each call of a kernel */
	uint32_t n, n_refs, of[KERNELS];
};

static void
run(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	struct yard *y = self;

	for (uint32_t i = 0; i < n; i++) {
		if (ns)
			ns[i + 1] = ns[i] + 1000;
		if (l[i].kernel < y->kernels || l[i].kernel >= y->kernels + KERNELS) {
			y->n_refs++;
			continue;
		}
		if (y->n == MOST_CALLS)
			fail_msg("more than %d calls", MOST_CALLS);
		y->of[l[i].kernel - y->kernels]++;
		y->met[y->n++] = l[i].buf[0];
	}
}

static void *
take(void *self, size_t n)
{
	(void)self;
	return calloc(1, n);
}

static void
give_back(void *self, void *p, size_t n)
{
	(void)self;
	(void)n;
	free(p);
}

static void
move(void *self, void *to, const void *from, size_t n)
{
	(void)self;
	memcpy(to, from, n);
}

static void
nothing(void *arg, uint32_t i)
{
	(void)arg;
	(void)i;
}

static void
hold(void *arg, bool take_it)
{
	(void)arg;
	(void)take_it;
}

/* Calls since the same copy was met, the fewest of all. */
static uint32_t
least_apart(const struct yard *y)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 1; i < y->n; i++)
		for (uint32_t back = 1; back <= i && back < least; back++)
			if (y->met[i - back] == y->met[i]) {
				least = back;
				break;
			}
	return least;
}

/* How the race of a graph with operands so hot went; returns the copies of its ring. */
static uint32_t
race_once(struct arena *a, const char *graph, const char *heat, bool has_third, struct yard *y)
{
	struct spec spec;
	struct kernel_code code;
	struct dev_kernel kernel[KERNELS] = {0};
	struct measure_kernel of[KERNELS];
	struct m_measured rows[KERNELS] = {0};
	struct calibration calibration = {.hw.level_bytes = {32 << 10, 256 << 10, has_third ? 256 << 10 : 0}};
	struct dev dev = {.self = y,
	    .n_threads = 1,
	    .reads_host = true,
	    .mem_new = take,
	    .mem_free = give_back,
	    .put = move,
	    .get = move,
	    .run = run};
	struct refs refs = {.dev = &dev};
	struct race race = {.arena = a,
	    .dev = &dev,
	    .refs = &refs,
	    .spec = &spec,
	    .heat = str_of(heat),
	    .kernels = kernel,
	    .of = of,
	    .n = KERNELS,
	    .calibration = &calibration,
	    .budget_ns = 1,
	    .hold = hold};
	struct rotation copies;
	struct err e = {0};

	*y = (struct yard){.kernels = kernel};
	if (!kernel_spec(a, graph, &spec, &e) ||
	    !generate_kernel(a, &spec, STR(""), &target_avx2, "k", &code, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < KERNELS; i++)
		of[i] = (struct measure_kernel){.code = &code};
	assert_true(rotation_open(a, &race, (size_t)2 << 20, (size_t)1 << 30, &copies, &e));
	rotation_close(&copies);
	assert_true(race_run(&race, nothing, NULL, rows, &e));
	for (int i = 0; i < KERNELS; i++)
		assert_true(y->of[i] > 4);
	return copies.n_walk;
}

static void
no_copy_is_met_twice(const char *heat)
{
	static struct yard y;
	struct arena a = {0};
	uint32_t n_walk = race_once(&a, conv, heat, true, &y);

	for (int i = 0; i < KERNELS; i++)
		assert_true(y.of[i] > 31);
	if (least_apart(&y) < n_walk)
		fail_msg("heat '%s': a copy is met again after %u calls, and there are %u copies", heat,
		    least_apart(&y), n_walk);
	arena_fini(&a);
}

static void
all_go_round_together(void **state)
{
	(void)state;
	no_copy_is_met_twice("");
	no_copy_is_met_twice("cnc");
	no_copy_is_met_twice("nnn");
}

/* The last cache has 256 KiB. */
static void
what_sweeps_the_last_cache_has_no_reference(void **state)
{
	static const char small[] = "%0 = input f32[4096]\n%1 = relu %0\noutput %1\n",
			  large[] = "%0 = input f32[65536]\n%1 = relu %0\noutput %1\n",
			  product[] = "%0 = input f32[128,256]\n%1 = input f32[256,128]\n"
				      "%2 = matmul %0 %1 : f32[128,128]\noutput %2\n";
	static struct yard y;
	struct arena a = {0};

	(void)state;
	(void)race_once(&a, small, "", true, &y);
	assert_true(y.n_refs > 31);
	(void)race_once(&a, large, "", true, &y);
	assert_int_equal(y.n_refs, 0);
	(void)race_once(&a, large, "", false, &y);
	assert_int_equal(y.n_refs, 0);
	(void)race_once(&a, product, "", true, &y);
	assert_true(y.n_refs > 31);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_go_round_together),
	    cmocka_unit_test(what_sweeps_the_last_cache_has_no_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
