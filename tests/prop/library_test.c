/* tests/prop/library_test.c: calls of a CPU's library.  Random specs that one can be asked for: its results
 * are those of the interpreter, in each of its ways; and on shapes that are too large for the interpreter it
 * is the oracle of generated kernels.  Skipped where the program is built without one. KORCH_LIBRARY_ROUNDS=N
 * specs (default 300), KORCH_LIBRARY_SEED=N from there. label: cpu */
#include "../../kernels/vendor/cpu_library.h"
#include "../harness/library.h"
#include "../harness/plan_sample.h"
#include "../harness/setting.h"
#include "random_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ERR_INFEASIBLE where the library has no such call. */
static bool
run_once(const struct dev *d, const struct test_kernel *k, struct err *e)
{
	struct test_library l;

	if (!library_open(d, k, &l, e))
		return false;
	library_run(&l);
	library_close(&l);
	return true;
}

static void
open_device(struct dev *d, uint32_t n_threads)
{
	struct err e;

	if (!dev_cpu_open(n_threads, false, d, &e))
		fail_msg("%s", e.msg);
}

/* Counts those that the library has, by its way. */
static void
agrees_with_interp(const struct dev *d, uint64_t seed, uint32_t n_had[2])
{
	struct arena a = {0};
	struct rng r = {seed};
	struct spec s;

	for (uint32_t algo = 0; random_call(&a, &r, 20, &s) && algo < 2; algo++) {
		struct test_kernel k;
		struct err e = {0};
		struct rng values = {seed};

		if (!kernel_make(
			&a, &s, str_of(library_schedule(&a, algo)), &target_avx2, 0, &values, &k, &e)) {
			if (e.code != ERR_INFEASIBLE)
				fail_msg(
				    "seed %llu: %s\n%.*s", (unsigned long long)seed, e.msg, STR_ARG(s.text));
			break;
		}
		kernel_spoil(&k);
		if (!run_once(d, &k, &e)) {
			if (e.code != ERR_INFEASIBLE)
				fail_msg(
				    "seed %llu: %s\n%.*s", (unsigned long long)seed, e.msg, STR_ARG(s.text));
			continue;
		}
		n_had[algo]++;
		if (!kernel_compare(&a, &k, 2e-4, &e))
			fail_msg("seed %llu, %.*s: %s\n%.*s%.*s", (unsigned long long)seed,
			    STR_ARG(k.schedule), e.msg, STR_ARG(s.text), STR_ARG(k.code.text));
	}
	arena_fini(&a);
}

static void
test_calls_mean_what_the_spec_means(void **state)
{
	uint64_t rounds = setting("KORCH_LIBRARY_ROUNDS", 300), seed = setting("KORCH_LIBRARY_SEED", 1);
	uint32_t n_had[2] = {0, 0};
	struct dev d[3]; /* with more threads a call is several, each for some of the rows */

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(d); i++)
		open_device(&d[i], i + 1);
	for (uint64_t i = 0; i < rounds; i++)
		agrees_with_interp(&d[(seed + i) % COUNT_OF(d)], seed + i, n_had);
	for (uint32_t i = 0; i < COUNT_OF(d); i++)
		d[i].close(d[i].self);
	printf("%u calls with activations as they lie, %u in the library's own form, of %llu\n", n_had[0],
	    n_had[1], (unsigned long long)rounds);
	assert_true(n_had[0] * 3 > rounds);
}

static double
largest_difference(const struct tensor *t, const float *x, const float *y, double *top)
{
	double worst = 0;

	*top = 1e-6;
	for (int64_t i = 0; i < shape_count(&t->shape); i++) {
		*top = fmax(*top, fabs((double)y[i]));
		worst = fmax(
		    worst, isnan(x[i]) || isnan(y[i]) ? (double)INFINITY : fabs((double)x[i] - (double)y[i]));
	}
	return worst;
}

enum { ORACLE_KERNELS = 24 };

static void
test_oracle_of_generated_kernels(void **state)
{
	uint64_t seed = setting("KORCH_LIBRARY_SEED", 1000);
	struct arena a = {0};
	struct test_kernel *k = NEW_ARRAY(&a, struct test_kernel, ORACLE_KERNELS);
	struct rng r = {seed};
	struct err e = {0};
	uint32_t n = 0, n_compared = 0;
	struct dev d;

	(void)state;
	open_device(&d, 2);
	while (n < ORACLE_KERNELS) {
		struct spec s;

		if (random_call(&a, &r, 130, &s) &&
		    kernel_make(&a, &s, STR(""), &target_avx2, n, &r, &k[n], &e))
			n++;
	}
	if (!kernel_compile(&a, k, n, &target_avx2, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	for (uint32_t i = 0; i < n; i++) {
		struct test_kernel lib = k[i];
		const struct tensor *t = graph_tensor(&lib.spec.g, lib.spec.g.outputs[0]);
		void **at = NEW_ARRAY(&a, void *, lib.spec.g.n_inputs + 1);
		size_t bytes = kernel_buf_bytes(&lib, lib.spec.g.n_inputs);
		double worst, top;

		memcpy(at, lib.operand, lib.spec.g.n_inputs * sizeof(*at)); /* not packed */
		at[lib.spec.g.n_inputs] = memset(arena_alloc(&a, bytes), 0xff, bytes);
		lib.buf = at;
		lib.schedule = str_of(library_schedule(&a, 0));
		if (!run_once(&d, &lib, &e))
			continue;
		kernel_spoil(&k[i]);
		kernel_run(&k[i], 3);
		n_compared++;
		worst = largest_difference(t, k[i].buf[lib.spec.g.n_inputs], at[lib.spec.g.n_inputs], &top);
		if (worst > 2e-4 * top)
			fail_msg("seed %llu, kernel %u: off by %g of %g\n%.*s", (unsigned long long)seed, i,
			    worst, top, STR_ARG(lib.spec.text));
	}
	d.close(d.self);
	printf("%u of %u generated kernels compared with oneDNN\n", n_compared, n);
	assert_true(n_compared * 3 > n);
	arena_fini(&a);
}

/* 2 x + w of the sample plan, as products with a constant by value. */
static void
test_plans_mix_calls_and_code(void **state)
{
	static const char graph[] =
	    "%0 = input f32[37]\n%1 = weight f32[37]\n%2 = reshape %0 shape=[37,1]\n"
	    "%3 = const f32[1,1] 0x1p+1\n%4 = matmul %2 %3\n%5 = reshape %4 shape=[37]\n"
	    "%6 = add %5 %1\noutput %6\n";

	(void)state;
	for (uint32_t threads = 1; threads <= 3; threads++) {
		float x[SAMPLE_N], want[SAMPLE_N], z[SAMPLE_N], same[SAMPLE_N];
		const void *in[] = {x};
		void *out[] = {z, same};
		struct arena a = {0};
		struct plan_exec *exec;
		struct spec s;
		struct plan p;
		struct dev d;
		struct err e = {0};

		if (!plan_sample(&a, &p, &e) || !kernel_spec(&a, graph, &s, &e) ||
		    !dev_cpu_open(threads, false, &d, &e))
			fail_msg("%s", e.msg);
		p.kernels[0].spec = s.text;
		p.kernels[0].schedule = str_of(library_schedule(&a, 0));
		p.kernels[0].range[0] = 1;
		if (s.g.tensors[0].role == ROLE_WEIGHT) {
			p.steps[0].places[0] = 1;
			p.steps[0].places[1] = 0;
		}
		if (!plan_exec_open(&d, &p, &exec, &e))
			fail_msg("%s", e.msg);
		for (int i = 0; i < SAMPLE_N; i++)
			x[i] = (float)(i * i);
		plan_sample_expect(x, want);
		plan_exec_run(exec, in, out, NULL);
		assert_memory_equal(z, want, sizeof(z));
		plan_exec_close(exec);
		d.close(d.self);
		arena_fini(&a);
	}
}

/* Forms of weights of 64 KiB. */
enum { FORMS = 96, INPUTS = 16, OUTPUTS = 1024 };
struct forms {
	const struct cpu_library *of;
	void *store, *kernel, *kept[FORMS];
	const char *at[FORMS];
	size_t n_bytes[FORMS];
};

/* false: this version reads the weight as it lies. */
static bool
keep_one(struct forms *f, int i)
{
	static float x[7 * INPUTS], y[7 * OUTPUTS], w[FORMS][INPUTS * OUTPUTS];
	void *buf[3] = {x, w[i], y};
	const void *at;
	struct err e = {0};

	if (!f->of->prepare(f->kernel, f->store, buf, &f->kept[i], &e))
		fail_msg("%s", e.msg);
	if (!f->of->kept_at(f->kernel, f->kept[i], 1, &at, &f->n_bytes[i])) {
		assert_true(f->of->reads(f->kernel, 1));
		f->of->release(f->kernel, f->store, f->kept[i]);
		return false;
	}
	assert_true(!f->of->reads(f->kernel, 1) && f->n_bytes[i] >= INPUTS * OUTPUTS * sizeof(float));
	assert_true((uintptr_t)at % CPU_LIBRARY_ALIGN == 0);
	f->at[i] = at;
	return true;
}

/* They lie one behind the other, none over another, and are gone with their last user, in whatever order. */
static void
keep_and_release_all(struct forms *f)
{
	int n_next = 0;

	for (int i = 1; i < FORMS; i++) {
		assert_true(keep_one(f, i));
		for (int k = 0; k < i; k++)
			assert_true(
			    f->at[k] + f->n_bytes[k] <= f->at[i] || f->at[i] + f->n_bytes[i] <= f->at[k]);
		n_next += f->at[i] == f->at[i - 1] + f->n_bytes[i - 1];
	}
	assert_true(n_next > FORMS * 3 / 4);
	for (int i = 0; i < FORMS; i++) /* every third first */
		f->of->release(f->kernel, f->store, f->kept[i * 3 % FORMS + i * 3 / FORMS]);
	assert_int_equal(f->of->kept_bytes(f->store), 0);
}

static void
test_kept_forms_lie_together(void **state)
{
	static const char graph[] =
	    "%0 = input f32[7,16]\n%1 = weight f32[16,1024]\n%2 = matmul %0 %1\noutput %2\n";
	struct forms f = {.of = cpu_library(LIBRARY_onednn)};
	struct arena a = {0};
	struct spec s;
	struct library_call call;
	size_t scratch;
	bool has_forms;
	struct err e = {0};

	(void)state;
	f.store = f.of->open();
	if (!kernel_spec(&a, graph, &s, &e) || !library_call_of(&s, &call, &e) ||
	    !f.of->bind(&call, 0, &f.kernel, &scratch, &e))
		fail_msg("%s", e.msg);
	has_forms = keep_one(&f, 0);
	if (has_forms)
		keep_and_release_all(&f);
	f.of->unbind(f.kernel);
	f.of->close(f.store);
	arena_fini(&a);
	if (!has_forms)
		skip();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_mix_calls_and_code),
	    cmocka_unit_test(test_calls_mean_what_the_spec_means),
	    cmocka_unit_test(test_oracle_of_generated_kernels),
	    cmocka_unit_test(test_kept_forms_lie_together)};

	if (!dev_cpu_library(LIBRARY_onednn)) {
		puts("SKIP prop/library_test: built without oneDNN (cmake -DKORCH_ONEDNN=ON)");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
