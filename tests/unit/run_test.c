/* tests/unit/run_test.c: the runtime: compiler call, loading from memory, plans that run
 * with one and several threads.
 * threads: yes */
#include "../harness/kernel.h"
#include "../harness/plan_sample.h"

#include "../../kernels/base/fp.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char twice[] =
    "void k_p0(void *const *b, char *s, char *l, long lo, long hi)\n"
    "{ const float *x = b[0]; float *y = b[1]; for (long i = lo; i < hi; i++) y[i] = 2 * x[i]; }\n";

static void
equal_text_gives_equal_bytes(void **state)
{
	struct arena a = {0};
	struct compile_opts o = {0};
	struct bytes one, two;
	struct str version;
	struct err e = {0};

	(void)state;
	if (!compile_c(&a, str_of(twice), &o, &one, &e) || !compile_c(&a, str_of(twice), &o, &two, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(one.n, two.n);
	assert_memory_equal(one.p, two.p, one.n);
	assert_true(compiler_version(&a, &version, &e));
	assert_true(version.n > 3);
	arena_fini(&a);
}

static void
put_file(struct arena *a, const char *dir, const char *name, const char *text, mode_t mode)
{
	const char *path = arena_printf(a, "%s/%s", dir, name);
	struct err e = {0};

	(void)unlink(path);
	if (!os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text, strlen(text)}, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(chmod(path, mode), 0);
}

/* A compiler is asked for its version once, and again when it is another file. */
static void
version_is_asked_once(void **state)
{
	static const char *const step[][3] = {/* file, text, what is said then */
	    {"share/words", "one\n", "one"}, {"share/words", "two\n", "one"},
	    {"bin/cc", "#!/bin/sh\n# another\ncat \"${0%/bin/cc}/share/words\"\n", "two"}};
	struct arena a = {0};
	char dir[OS_PATH_MAX];
	struct str version;
	struct err e = {0};

	(void)state;
	assert_true(os_temp_dir("cc-test", dir, &e));
	assert_true(os_make_dirs(arena_printf(&a, "%s/bin", dir), &e));
	assert_true(os_make_dirs(arena_printf(&a, "%s/share", dir), &e));
	put_file(&a, dir, "bin/cc", "#!/bin/sh\ncat \"${0%/bin/cc}/share/words\"\n", 0700);
	assert_int_equal(setenv("KORCH_SANDBOX", "off", 1), 0); /* a shell's script is no compiler there */
	assert_int_equal(setenv("KORCH_CC", arena_printf(&a, "%s/bin/cc", dir), 1), 0);
	for (size_t i = 0; i < COUNT_OF(step); i++) {
		put_file(&a, dir, step[i][0], step[i][1], 0700);
		if (!compiler_version(&a, &version, &e))
			fail_msg("%s", e.msg);
		assert_string_equal(str_dup(&a, version), step[i][2]);
	}
	assert_int_equal(unsetenv("KORCH_CC"), 0);
	assert_int_equal(unsetenv("KORCH_SANDBOX"), 0);
	os_remove_tree(dir);
	arena_fini(&a);
}

/* More files than cores: linked in their order whichever was ready first, and the first fault is what is
 * told. */
static void
files_become_one_object(void **state)
{
	enum { N = 9 };
	struct arena a = {0};
	struct compile_opts o = {0};
	struct bytes one, two;
	struct str text[N];
	struct dev d;
	struct dev_module *m;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N; i++)
		text[i] = str_of(arena_printf(&a,
		    "void f%d_p0(void *const *b, char *s, char *l, long lo, long hi)\n"
		    "{ for (long i = lo; i < hi; i++) ((float *)b[0])[i] = %d; }\n",
		    i, i));
	if (!compile_files(&a, text, N, &o, &one, &e) || !compile_files(&a, text, N, &o, &two, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(one.n, two.n);
	assert_memory_equal(one.p, two.p, one.n);
	assert_true(dev_cpu_open(1, false, &d, &e) && d.load(d.self, one, &m, &e));
	for (int i = 0; i < N; i++) {
		struct dev_kernel k = {.n_passes = 1, .range = {1}};
		float y = -1;
		void *buf[] = {&y};
		struct dev_launch l = {.kernel = &k, .buf = buf};

		assert_true(d.find(d.self, m, arena_printf(&a, "f%d", i), &k, &e));
		d.run(d.self, &l, 1, NULL);
		assert_true(y == (float)i);
	}
	d.unload(d.self, m);
	d.close(d.self);
	text[7] = STR("int later = ;\n");
	text[2] = STR("int first = ;\n");
	assert_false(compile_files(&a, text, N, &o, &one, &e));
	assert_int_equal(e.code, ERR_COMPILE);
	assert_non_null(strstr(e.msg, "kernels2.c"));
	e = (struct err){0};
	assert_false(compile_files(&a, text, COMPILE_MAX_FILES + 1, &o, &one, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	arena_fini(&a);
}

static void
compiler_faults_are_told_apart(void **state)
{
	/* 8^9 terms */
	static const char bomb[] =
	    "#define A(x) x x x x x x x x\n#define B(x) A(A(A(x)))\nint x = 0 B(B(B(+ 1)));\n";
	struct arena a = {0};
	struct compile_opts o = {0}, late = {.wall_ns = 1}, spent = {.cpu_ns = 1};
	struct bytes b;
	struct err e = {0};

	(void)state;
	assert_false(compile_c(&a, STR("int x = ;\n"), &o, &b, &e));
	assert_int_equal(e.code, ERR_COMPILE);
	assert_non_null(strstr(e.msg, "error"));
	e = (struct err){0};
	assert_false(compile_c(&a, str_of(bomb), &late, &b, &e));
	assert_int_equal(e.code, ERR_TIMEOUT);
	e = (struct err){0};
	assert_false(compile_c(&a, str_of(bomb), &spent, &b, &e));
	assert_int_equal(e.code, ERR_TIMEOUT);
	assert_non_null(strstr(e.msg, "1 s of CPU time"));
	e = (struct err){0};
	assert_int_equal(setenv("KORCH_CC", "no-such-compiler", 1), 0);
	assert_false(compile_c(&a, STR("int x;\n"), &o, &b, &e));
	assert_int_equal(e.code, ERR_HOST);
	assert_int_equal(unsetenv("KORCH_CC"), 0);
	arena_fini(&a);
}

static void
modules_are_told_apart(void **state)
{
	static const char thrice[] =
	    "void k_p0(void *const *b, char *s, char *l, long lo, long hi)\n"
	    "{ const float *x = b[0]; float *y = b[1]; for (long i = lo; i < hi; i++) y[i] = 3 * x[i]; }\n";
	struct arena a = {0};
	struct compile_opts o = {0};
	struct bytes code[2];
	struct dev d;
	struct err e = {0};
	float x[3] = {1, 2, 3}, y[3];

	(void)state;
	assert_true(compile_c(&a, str_of(twice), &o, &code[0], &e) &&
	    compile_c(&a, str_of(thrice), &o, &code[1], &e));
	assert_true(dev_cpu_open(1, false, &d, &e));
	/* Loaded and unloaded in turn: a loader that knows libraries by path would return the first. */
	for (int i = 0; i < 6; i++) {
		struct dev_kernel k = {.n_passes = 1, .range = {3}};
		void *buf[] = {x, y};
		struct dev_launch l = {.kernel = &k, .buf = buf};
		struct dev_module *m;

		assert_true(d.load(d.self, code[i % 2], &m, &e));
		assert_true(d.find(d.self, m, "k", &k, &e));
		d.run(d.self, &l, 1, NULL);
		assert_true(y[2] == (i % 2 ? 9 : 6));
		d.unload(d.self, m);
	}
	struct dev_module *m;
	struct dev_kernel k = {.n_passes = 1, .range = {3}};

	assert_false(d.load(d.self, (struct bytes){(const uint8_t *)twice, 20}, &m, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_true(d.load(d.self, code[0], &m, &e));
	assert_false(d.find(d.self, m, "other", &k, &e));
	d.unload(d.self, m);
	d.close(d.self);
	arena_fini(&a);
}

static void
run_plan(const struct plan *p, uint32_t n_threads)
{
	float x[SAMPLE_N], want[SAMPLE_N], z[SAMPLE_N], same[SAMPLE_N];
	const void *in[] = {x};
	void *out[] = {z, same};
	int64_t ns[2];
	struct plan_exec *exec;
	struct dev d;
	struct err e = {0};

	assert_true(dev_cpu_open(n_threads, false, &d, &e));
	if (!plan_exec_open(&d, p, &exec, &e))
		fail_msg("%s", e.msg);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < SAMPLE_N; i++)
			x[i] = (float)(i * i - round);
		plan_sample_expect(x, want);
		memset(z, 0, sizeof(z));
		plan_exec_run(exec, in, out, round % 2 ? ns : NULL);
		assert_memory_equal(z, want, sizeof(z));
		assert_memory_equal(same, x, sizeof(x));
	}
	assert_true(ns[0] >= 0 && ns[1] >= 0);
	plan_exec_close(exec);
	d.close(d.self);
}

static void
plans_run_on_any_number_of_threads(void **state)
{
	struct arena a = {0};
	struct plan p;
	struct err e = {0};

	(void)state;
	if (!plan_sample(&a, &p, &e))
		fail_msg("%s", e.msg);
	for (uint32_t n = 1; n < 6; n++)
		run_plan(&p, n);
	arena_fini(&a);
}

/* Numbers too small to be normal are zeros on all threads where a tolerance is, and the caller's own way of
 * computing is as it was. */
static void
denormals_are_zeros_within_a_tolerance(void **state)
{
	static const double tolerance[] = {0, 1e-3};
	struct arena a = {0};
	struct plan p;
	struct err e = {0};

	(void)state;
	if (!plan_sample(&a, &p, &e))
		fail_msg("%s", e.msg);
	for (uint32_t n = 1; n < 4; n++)
		for (size_t k = 0; k < COUNT_OF(tolerance); k++) {
			const uint64_t fp = fp_control();
			float x[SAMPLE_N], z[SAMPLE_N], same[SAMPLE_N];
			const void *in[] = {x};
			void *out[] = {z, same};
			struct plan_exec *exec;
			struct dev d;

			for (int i = 0; i < SAMPLE_N; i++)
				x[i] = 1e-39f;
			p.tolerance = tolerance[k];
			assert_true(dev_cpu_open(n, false, &d, &e) && plan_exec_open(&d, &p, &exec, &e));
			for (int round = 0; round < 50; round++) {
				plan_exec_run(exec, in, out, NULL);
				assert_true(z[SAMPLE_N / 2] == (k ? 0 : 4 * x[0]));
				assert_memory_equal(same, x, sizeof(x));
			}
			assert_true(fp_control() == fp);
			plan_exec_close(exec);
			d.close(d.self);
		}
	arena_fini(&a);
}

static int64_t
thread_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum { BURNT_NS = 60000000 };
static void *
burn(void *arg)
{
	while (thread_ns() < BURNT_NS)
		;
	return arg;
}

/* Another thread works, and this one waits for it. */
static void
run_another(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	pthread_t t;

	(void)self;
	(void)l;
	(void)n;
	(void)ns;
	assert_int_equal(pthread_create(&t, NULL, burn, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

/* A step that was seen to be long is told by what it takes of its own thread: others on the core are not its.
 */
static void
long_steps_are_told_by_their_own_thread(void **state)
{
	float x[SAMPLE_N] = {0}, z[SAMPLE_N], same[SAMPLE_N];
	const void *in[] = {x};
	void *out[] = {z, same};
	int64_t ns[2];
	struct arena a = {0};
	struct plan p;
	struct plan_exec *exec;
	struct dev d;
	struct err e = {0};

	(void)state;
	if (!plan_sample(&a, &p, &e) || !dev_cpu_open(1, false, &d, &e) || !plan_exec_open(&d, &p, &exec, &e))
		fail_msg("%s", e.msg);
	d.run = run_another;
	plan_exec_run(exec, in, out, ns);
	assert_true(ns[0] >= BURNT_NS);
	plan_exec_run(exec, in, out, ns);
	assert_true(ns[0] >= 0 && ns[0] < BURNT_NS);
	plan_exec_close(exec);
	d.close(d.self);
	arena_fini(&a);
}

struct racer {
	struct plan_exec *exec;
	atomic_int wrong;
};

static void *
race(void *arg)
{
	struct racer *r = arg;
	float x[SAMPLE_N], want[SAMPLE_N], z[SAMPLE_N], same[SAMPLE_N];
	const void *in[] = {x};
	void *out[] = {z, same};

	for (int i = 0; i < SAMPLE_N; i++)
		x[i] = (float)((uintptr_t)&x % 997 + (unsigned)i);
	plan_sample_expect(x, want);
	for (int round = 0; round < 200; round++) {
		plan_exec_run(r->exec, in, out, NULL);
		if (memcmp(z, want, sizeof(z)) != 0 || memcmp(same, x, sizeof(x)) != 0)
			atomic_fetch_add(&r->wrong, 1);
	}
	return NULL;
}

static void
callers_take_turns(void **state)
{
	struct arena a = {0};
	struct racer r = {0}, other = {0};
	pthread_t t[3];
	struct plan p;
	struct dev d;
	struct err e = {0};

	(void)state;
	assert_true(plan_sample(&a, &p, &e) && dev_cpu_open(2, false, &d, &e));
	assert_true(plan_exec_open(&d, &p, &r.exec, &e) && plan_exec_open(&d, &p, &other.exec, &e));
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, race, i < 2 ? &r : &other), 0);
	for (int i = 0; i < 3; i++)
		(void)pthread_join(t[i], NULL);
	assert_int_equal(r.wrong + other.wrong, 0);
	plan_exec_close(r.exec);
	plan_exec_close(other.exec);
	d.close(d.self);
	arena_fini(&a);
}

static void
foreign_plans_are_refused(void **state)
{
	struct arena a = {0};
	struct plan_exec *x;
	struct plan p;
	struct dev d;
	struct err e = {0};

	(void)state;
	plan_sample_dry(&a, &p);
	p.run_compat = STR("x86_64 avx2 fma matrix-unit elf-1");
	assert_true(dev_cpu_open(1, false, &d, &e));
	assert_false(plan_exec_open(&d, &p, &x, &e));
	assert_int_equal(e.code, ERR_DEVICE);
	assert_non_null(strstr(e.msg, "has no matrix-unit"));
	d.close(d.self);
	arena_fini(&a);
}

/* A sample whose first kernel is a call of a library: the same sum, in words that one understands. */
static bool
library_sample(struct arena *a, const char *schedule, struct plan *p, struct err *e)
{
	static const char graph[] =
	    "%0 = input f32[37]\n%1 = weight f32[37]\n%2 = reshape %0 shape=[37,1]\n"
	    "%3 = const f32[1,1] 0x1p+1\n%4 = matmul %2 %3\n%5 = reshape %4 shape=[37]\n"
	    "%6 = add %5 %1\noutput %6\n";
	struct spec s;

	if (!plan_sample(a, p, e) || !kernel_spec(a, graph, &s, e))
		return false;
	p->kernels[0].spec = s.text;
	p->kernels[0].schedule = str_of(schedule);
	return true;
}

/* One clear error each, whatever this program was built with. */
static void
missing_libraries_are_named(void **state)
{
	static const struct {
		const char *schedule, *words;
	} cases[] = {{"lib=cudnn-9.10.2", "a call of cuDNN"}, {"lib=onednn-1.4.0", "a call of oneDNN"}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct arena a = {0};
		struct plan_exec *x;
		struct plan p;
		struct dev d;
		struct err e = {0};

		assert_true(library_sample(&a, cases[i].schedule, &p, &e) && dev_cpu_open(1, false, &d, &e));
		assert_false(plan_exec_open(&d, &p, &x, &e));
		assert_int_equal(e.code, ERR_HOST);
		assert_non_null(strstr(e.msg, cases[i].words));
		d.close(d.self);
		arena_fini(&a);
	}
}

/* A library reads what the spec says: constants are no packed form of a kernel's own there. */
static void
operands_that_a_library_would_read_beyond_are_refused(void **state)
{
	static const char small[] = "spec 1\n%0 = input f32[37]\n", lib[] = "lib=onednn-2.6.3";
	struct arena a = {0};
	struct plan p;
	struct err e = {0};

	(void)state;
	assert_true(library_sample(&a, lib, &p, &e) && plan_check(&p, &e));
	p.places[1].n_bytes -= 4;
	assert_false(plan_check(&p, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_non_null(strstr(e.msg, "step 0 has an operand that is smaller than its kernel reads"));
	e = (struct err){0};
	assert_true(library_sample(&a, lib, &p, &e));
	p.kernels[0].spec = STR("spec 1\n%0 = input f32[37]\n%1 = relu %0 : f32[37]\noutput %1\n");
	assert_false(plan_check(&p, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	e = (struct err){0};
	p.kernels[0].spec = str_of(small);
	assert_false(plan_check(&p, &e));
	arena_fini(&a);
}

static void
fake_times_repeat_and_respect_the_bound(void **state)
{
	struct fake_rates none = {0}, always = {.wrong = 1000000};
	struct fake_time t, again;
	uint64_t seed;
	struct err e = {0};

	(void)state;
	t = fake_measure(STR("spec"), STR("a=1"), 1000, 3, &none);
	again = fake_measure(STR("spec"), STR("a=1"), 1000, 3, &none);
	assert_memory_equal(&t, &again, sizeof(t));
	assert_in_range(t.ns, 1000, 64000);
	again = fake_measure(STR("spec"), STR("a=2"), 1000, 3, &none);
	assert_int_not_equal(t.ns, again.ns);
	assert_int_equal(fake_measure(STR("spec"), STR("a=1"), 1000, 3, &always).status, ERR_WRONG);
	assert_true(fake_read(STR("seed=9,crash=5 hang=2"), &seed, &none, &e));
	assert_int_equal(seed, 9);
	assert_int_equal(none.crash, 5);
	assert_int_equal(none.hang, 2);
	assert_false(fake_read(STR("sneed=9"), &seed, &none, &e));
	assert_int_equal(e.code, ERR_USAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_text_gives_equal_bytes),
	    cmocka_unit_test(version_is_asked_once),
	    cmocka_unit_test(files_become_one_object),
	    cmocka_unit_test(compiler_faults_are_told_apart),
	    cmocka_unit_test(modules_are_told_apart),
	    cmocka_unit_test(plans_run_on_any_number_of_threads),
	    cmocka_unit_test(denormals_are_zeros_within_a_tolerance),
	    cmocka_unit_test(long_steps_are_told_by_their_own_thread),
	    cmocka_unit_test(callers_take_turns),
	    cmocka_unit_test(foreign_plans_are_refused),
	    cmocka_unit_test(missing_libraries_are_named),
	    cmocka_unit_test(operands_that_a_library_would_read_beyond_are_refused),
	    cmocka_unit_test(fake_times_repeat_and_respect_the_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
