/* Kernels of libraries on the fake driver: they stand among the generated ones, are checked and timed, and
 * win where they are faster. memory: yes threads: yes */
#include "gpu_rig.h"

#include "../../kernels/device/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- kernels of libraries ------------------------------------------------------------------------- */
static const char PRODUCT[] =
    "spec 1\n%0 = weight f32[40]\n%1 = input f32[24,32]\n%2 = weight f32[32,40]\n"
    "%3 = reshape %0 shape=[1,40] : f32[1,40]\n%4 = bcast %3 shape=[24,40] : f32[24,40]\n"
    "%5 = matmul %1 %2 : f32[24,40]\n%6 = add %4 %5 : f32[24,40]\n%7 = relu %6 : f32[24,40]\noutput %7\n";
static const char PICTURE[] =
    "spec 1\n%0 = input f32[1,9,9,4]\n%1 = weight f32[3,3,4,8]\n%2 = input f32[1,9,9,8]\n"
    "%3 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,9,9,8]\n"
    "%4 = add %3 %2 : f32[1,9,9,8]\n%5 = sigmoid %4 : f32[1,9,9,8]\n%6 = mul %5 %4 : f32[1,9,9,8]\noutput "
    "%6\n";

static const char SCALED[] =
    "spec 1\n%0 = input f32[24,40]\n%1 = input f32[24,32]\n%2 = input f32[32,40]\n%3 = const f32[1,1] "
    "-0x1p-2\n"
    "%4 = bcast %3 shape=[24,40] : f32[24,40]\n%5 = matmul %1 %2 : f32[24,40]\n%6 = mul %4 %5 : f32[24,40]\n"
    "%7 = add %0 %6 : f32[24,40]\noutput %7\n";
static const char CLIPPED[] =
    "spec 1\n%0 = input f32[1,9,9,4]\n%1 = weight f32[3,3,4,8]\n%2 = const f32[1,1,1,1] 0x1p-1\n"
    "%3 = bcast %2 shape=[1,9,9,8] : f32[1,9,9,8]\n"
    "%4 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,9,9,8]\n"
    "%5 = const f32[1,1,1,1] -0x1p-2\n%6 = bcast %5 shape=[1,9,9,8] : f32[1,9,9,8]\n"
    "%7 = max %4 %6 : f32[1,9,9,8]\n%8 = min %3 %7 : f32[1,9,9,8]\noutput %8\n";

static void
ask_one(struct rig *r, const char *spec, const char *precision, uint32_t effort)
{
	struct err e = {0};
	struct spec s;

	if (!spec_read(&r->a, str_of(spec), &s, &e))
		fail_msg("%s", e.msg);
	r->task[0] =
	    (struct m_task){.spec = s.text, .effort = effort, .threads = 1, .precision = str_of(precision)};
	r->out[0] = (struct m_outcome){.cause = STR(""), .log = STR("")};
	r->d.measure(r->d.self, &r->a, r->task, 1, r->out);
	if (r->out[0].fail)
		fail_msg("%.*s", STR_ARG(r->out[0].cause));
}

struct tally {
	uint32_t n, good, wrong, failed, none;
	struct str best;  /* the fastest of all */
	struct str cause; /* of the first library's kernel that failed */
};

static bool
has(struct str s, const char *words)
{
	size_t n = strlen(words);

	for (size_t i = 0; i + n <= s.n; i++)
		if (memcmp(s.p + i, words, n) == 0)
			return true;
	return false;
}

/* Of the rows whose schedule has these words. */
static struct tally
tally_of(const struct m_outcome *o, const char *words)
{
	struct tally t = {.best = STR(""), .cause = STR("")};
	int64_t best = INT64_MAX;

	for (uint32_t i = 0; i < o->n_rows; i++) {
		const struct m_row *row = &o->rows[i];
		enum err_code fail = err_of_wire(row->fail);

		if (fail == ERR_NONE && row->median_ns < best) {
			best = row->median_ns;
			t.best = row->schedule;
		}
		if (!has(row->schedule, words))
			continue;
		t.n++;
		t.good += fail == ERR_NONE;
		t.wrong += fail == ERR_WRONG;
		t.failed += fail == ERR_LAUNCH;
		t.none += fail == ERR_INFEASIBLE;
		if (fail != ERR_NONE && !t.cause.n)
			t.cause = row->cause;
	}
	return t;
}

/* Good rows of kernels that are no library's. */
static uint32_t
n_generated(const struct m_outcome *o)
{
	return tally_of(o, "").good - tally_of(o, "lib=").good;
}

/* They stand among the schedules, are checked and timed like the others, and win where they are faster. */
static void
libraries_compete(void **state)
{
	static const char *const libs[] = {"lib=cublaslt-13.1.0", "lib=cudnn-9.19.0"},
				 *const specs[] = {PRODUCT, PICTURE};
	struct rig r;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tally t;

		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vfast=1", &e));
		assert_true(has(r.d.env.key, "library=cublaslt-13.1.0\nlibrary=cudnn-9.19.0\n"));
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		if (t.n < 5 || t.good + t.none < t.n || t.good < 4)
			fail_msg("%s: %u rows, %u good, %u beyond its list: %.*s", libs[i], t.n, t.good,
			    t.none, STR_ARG(t.cause));
		assert_true(has(t.best, libs[i]));
		assert_true(n_generated(&r.out[0]) > 0);
		ask_one(&r, specs[i], "tf32:0.01", 12);
		assert_true(tally_of(&r.out[0], "math=1").good >= 4);
		rig_close(&r);
		/* each fault costs its row */
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vwrong=1000000", &e));
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		assert_true(t.wrong >= 4 && t.good == 0 && has(t.cause, "reference says"));
		assert_true(n_generated(&r.out[0]) > 0);
		rig_close(&r);
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vfail=1000000", &e));
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		assert_true(t.failed >= 4 && t.good == 0 && n_generated(&r.out[0]) > 0);
		rig_close(&r);
		assert_true(rig_open(
		    &r, "cuda-fake:gpu=a100,seed=5,vwork=1000000000", &e)); /* more than is allowed */
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		assert_true(t.none == t.n && t.n > 0 && n_generated(&r.out[0]) > 0);
		rig_close(&r);
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,no_lt=1,no_dnn=1", &e));
		assert_false(has(r.d.env.key, "library="));
		ask_one(&r, specs[i], "f32", 12);
		assert_int_equal(tally_of(&r.out[0], "lib=").n, 0);
		rig_close(&r);
	}
}

/* A factor on the products, bounds of what follows: numbers that a call and its bytes carry. */
static void
library_numbers(void **state)
{
	static const char *const libs[] = {"lib=cublaslt-13.1.0", "lib=cudnn-9.19.0"},
				 *const specs[] = {SCALED, CLIPPED};
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vfast=1", &e));
	for (int i = 0; i < 2; i++) {
		struct tally t;

		ask_one(&r, specs[i], "f32", 2);
		t = tally_of(&r.out[0], libs[i]);
		if (t.good < 4 || t.wrong)
			fail_msg("%s: %u rows, %u good, %u wrong: %.*s", libs[i], t.n, t.good, t.wrong,
			    STR_ARG(t.cause));
	}
	rig_close(&r);
}

/* What is built for a plan is the algorithm itself: it loads and runs without asking for a list. */
static void
library_in_a_module(void **state)
{
	struct rig r;
	struct err e = {0};
	struct spec s;
	struct m_kernel one;
	struct m_build_ask ask = {.precision = STR("f32"), .n_kernels = 1, .kernels = &one};
	struct built built;
	struct gpu_kernel *k;
	uint32_t n;
	int sm;

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5", &e));
	assert_true(spec_read(&r.a, str_of(PICTURE), &s, &e));
	one = (struct m_kernel){
	    .symbol = STR("k0"), .spec = s.text, .schedule = STR("lib=cudnn-9.19.0 algo=2")};
	if (!r.d.build(r.d.self, &r.a, &ask, &built, &e))
		fail_msg("%s", e.msg);
	assert_true(gpu_module_read(&r.a, built.object, &sm, &k, &n, &e) && n == 1);
	assert_memory_equal(k[0].cubin.p, "KORCHLB2", 8);
	one.schedule = STR("lib=cudnn-9.18.0 algo=2");
	assert_false(r.d.build(r.d.self, &r.a, &ask, &built, &e));
	assert_int_equal(e.code, ERR_DEVICE);
	one.schedule = STR("lib=cudnn-9.19.0 algo=77");
	assert_false(r.d.build(r.d.self, &r.a, &ask, &built, &e));
	assert_int_equal(e.code, ERR_INFEASIBLE);
	rig_close(&r);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(libraries_compete),
	    cmocka_unit_test(library_numbers),
	    cmocka_unit_test(library_in_a_module),
	};
	struct rig_home home;

	return rig_enter(&home, argc > 1 ? argv[1] : NULL)
	    ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL))
	    : 1;
}
