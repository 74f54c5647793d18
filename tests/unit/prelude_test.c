/* tests/unit/prelude_test.c: each scalar function of the prelude against libm, over its range
 * and at its edges, compiled as kernels are (so that the vectorised form is what is measured). */
#include "../../kernels/base/base.h"
#include "../../kernels/generate/generate.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef void loop1(const float *x, float *y, long n);
typedef void loop2(const float *x, const float *y, float *z, long n);

static double
c_relu(double x)
{
	return x < 0 ? 0 : x;
}
static double
c_sigmoid(double x)
{
	return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
static double
c_softplus(double x)
{
	return fmax(x, 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0);
}
static double
c_sign(double x)
{
	return x != x ? x : (x > 0) - (x < 0);
}

/* name, truth, from, to, largest relative error, absolute error that is forgiven */
#define FUNCTIONS(X)                                                                                         \
	X(exp, exp, -120, 90, 3e-7, 2e-38)                                                                   \
	X(log, log, 1e-30, 1e30, 3e-7, 1e-7)                                                                 \
	X(tanh, tanh, -12, 12, 4e-7, 0)                                                                      \
	X(erf, erf, -6, 6, 5e-7, 0)                                                                          \
	X(sigmoid, c_sigmoid, -80, 100, 6e-7, 1e-37)                                                         \
	X(softplus, c_softplus, -80, 100, 6e-7, 1e-37)                                                       \
	X(sqrt, sqrt, 0, 1e30, 1e-7, 0)                                                                      \
	X(relu, c_relu, -5, 5, 0, 0)                                                                         \
	X(sign, c_sign, -5, 5, 0, 0)                                                                         \
	X(floor, floor, -9, 9, 0, 0)                                                                         \
	X(ceil, ceil, -9, 9, 0, 0)                                                                           \
	X(round, nearbyint, -9, 9, 0, 0)                                                                     \
	X(abs, fabs, -9, 9, 0, 0)                                                                            \
	X(sin, sin, -50, 50, 2e-7, 1e-7)                                                                     \
	X(cos, cos, -50, 50, 2e-7, 1e-7)                                                                     \
	X(tan, tan, -1.5, 1.5, 4e-7, 0)                                                                      \
	X(asin, asin, -1, 1, 4e-7, 0)                                                                        \
	X(acos, acos, -1, 1, 4e-7, 1e-7)                                                                     \
	X(atan, atan, -9, 9, 4e-7, 0)                                                                        \
	X(sinh, sinh, -50, 50, 4e-7, 0)                                                                      \
	X(cosh, cosh, -50, 50, 4e-7, 0)                                                                      \
	X(asinh, asinh, -50, 50, 4e-7, 0)                                                                    \
	X(acosh, acosh, 1, 50, 4e-7, 1e-7)                                                                   \
	X(atanh, atanh, -0.99, 0.99, 4e-7, 0)

static const struct function {
	const char *name;
	double (*truth)(double);
	double from, to, relative, absolute;
} functions[] = {
#define X(N, F, FROM, TO, REL, ABS) {#N, F, FROM, TO, REL, ABS},
    FUNCTIONS(X)
#undef X
};

/* Two operands by vectors of W lanes. */
#define BY_VECTORS(NAME, W, VALUE)                                                                           \
	"void t_" NAME #W "(const float *p, const float *q, float *z, long n)\n"                             \
	"{ for (long i = 0; i < n; i += " #W ") { k_v" #W " x = *(k_f" #W " *)(p + i), y = *(k_f" #W         \
	" *)(q + i); *(k_f" #W " *)(z + i) = " VALUE "; } }\n"

static const char text[] =
#define X(N, F, FROM, TO, REL, ABS)                                                                          \
	"void t_" #N "(const float *restrict x, float *restrict y, long n)\n"                                \
	"{ for (long i = 0; i < n; i++) y[i] = k_" #N "_f32(x[i]); }\n"
    FUNCTIONS(X)
#undef X
	"void t_min(const float *restrict x, const float *restrict y, float *restrict z, long n)\n"
	"{ for (long i = 0; i < n; i++) z[i] = k_min_f32(x[i], y[i]); }\n"
	"void t_max(const float *restrict x, const float *restrict y, float *restrict z, long n)\n"
	"{ for (long i = 0; i < n; i++) z[i] = k_max_f32(x[i], y[i]); }\n"
	"void t_pow(const float *restrict x, const float *restrict y, float *restrict z, long n)\n"
	"{ for (long i = 0; i < n; i++) z[i] = k_pow_f32_f32(x[i], y[i]); }\n"
	"void t_foldmax(const float *x, float *y, long n) { (void)n; y[0] = k_fold_max_f32(x, 32); }\n"
	"void t_foldadd(const float *x, float *y, long n) { (void)n; y[0] = k_fold_add_f32(x, 64); }\n"
	"void t_f16(const unsigned short *restrict x, float *restrict y, unsigned short *restrict z, long "
	"n)\n"
	"{ for (long i = 0; i < n; i++) { y[i] = k_load_f16(x[i]); z[i] = k_store_f16(y[i]); } }\n"
	"void t_half(const float *restrict x, unsigned short *restrict y, unsigned short *restrict z, long "
	"n)\n"
	"{ for (long i = 0; i < n; i++) { y[i] = k_store_f16(x[i]); z[i] = k_store_bf16(x[i]); } }\n";

static const char vectors[] = BY_VECTORS("min", 4, "k_min_v4(x, y)") BY_VECTORS("min", 8, "k_min_v8(x, y)")
    BY_VECTORS("max", 4, "k_max_v4(x, y)") BY_VECTORS("max", 8, "k_max_v8(x, y)")
	BY_VECTORS("lower", 4, "k_select_lt_v4(x, y, x, y)")
	    BY_VECTORS("lower", 8, "k_select_lt_v8(x, y, x, y)") BY_VECTORS("relu", 4, "k_relu_v4(x)")
		BY_VECTORS("relu", 8, "k_relu_v8(x)");

static void *lib;

static int
setup(void **state)
{
	char dir[] = "/tmp/korch-prelude-XXXXXX";
	struct arena a = {0};
	struct strbuf sb, cmd;
	struct err e = {0};

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	const char *c = arena_printf(&a, "%s/p.c", dir), *so = arena_printf(&a, "%s/p.so", dir);

	sb_init(&sb, &a);
	sb_add(&sb, prelude_c(&a, &target_avx2));
	sb_addz(&sb, text);
	sb_addz(&sb, vectors);
	if (!os_write_file(os_real(), c, (struct bytes){(const uint8_t *)sb.p, sb.n}, &e))
		return -1;
	sb_init(&cmd, &a);
	sb_addz(&cmd, "cc -std=gnu11 -w -shared -fPIC");
	for (const char *const *f = generate_c_flags(&target_avx2); *f; f++)
		sb_addf(&cmd, " %s", *f);
	sb_addf(&cmd, " -o %s %s -lm", so, c);
	if (system(sb_str(&cmd).p) == 0)
		lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	unlink(c);
	unlink(so);
	rmdir(dir);
	arena_fini(&a);
	return lib ? 0 : -1;
}

static void *
find(const char *name)
{
	char symbol[64];

	snprintf(symbol, sizeof(symbol), "t_%s", name);
	void *p = dlsym(lib, symbol);

	assert_non_null(p);
	return p;
}

static loop1 *
find1(const char *name)
{
	void *p = find(name);
	loop1 *fn;

	memcpy(&fn, &p, sizeof(p));
	return fn;
}

static loop2 *
find2(const char *name)
{
	void *p = find(name);
	loop2 *fn;

	memcpy(&fn, &p, sizeof(p));
	return fn;
}

enum { POINTS = 4096 };
static const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 1e-38f,
    3e38f, -3e38f, 88.7f, 88.8f, -87.3f, -103.0f, 0.625f, 3.93f, 1e9f, -1e9f};

static bool
agrees(const struct function *f, float x, float have)
{
	double want = f->truth((double)x), d = fabs((double)have - want);
	bool small = fabs(want) < 1.2e-38; /* denormal results may be zero */

	if (want != want)
		return have != have;
	if (fabs(want) > (double)FLT_MAX)
		return isinf(have) && (have > 0) == (want > 0);
	return d <= f->relative * fabs(want) + f->absolute || (small && fabs((double)have) <= 1.2e-38);
}

static double
pow_of(float x, float n)
{
	return pow((double)x, (double)n);
}

/* Each edge to the power of each, then the plane. */
static void
test_powers(void **state)
{
	static const float more[] = {2, -2, 3, -3, 0.5f, -0.5f, 1.5f, 7, 16777216, 0.75f, 0.999f};
	enum { EDGES = COUNT_OF(edges) + COUNT_OF(more), N = EDGES * EDGES + POINTS };
	static float edge[EDGES], x[N], n[N], z[N];
	int bad = 0, k = 0;

	(void)state;
	memcpy(edge, edges, sizeof(edges));
	memcpy(edge + COUNT_OF(edges), more, sizeof(more));
	for (int i = 0; i < EDGES * EDGES; i++, k++) {
		x[k] = edge[i / EDGES];
		n[k] = edge[i % EDGES];
	}
	for (int i = 0; i < POINTS; i++, k++) {
		x[k] = (float)exp(-40 + 80.0 * (i % 64) / 63);
		n[k] = (float)(-3.5 + 7.0 * (i / 64) / 63);
	}
	find2("pow")(x, n, z, N);
	for (int i = 0; i < N; i++) {
		double want = pow_of(x[i], n[i]), d = fabs((double)z[i] - want);
		bool same = want != want ? z[i] != z[i]
		    : fabs(want) > (double)FLT_MAX
		    ? isinf(z[i]) && (z[i] > 0) == (want > 0)
		    : d <= 1e-7 * fabs(want) || (fabs(want) < 1.2e-38 && d < 2e-45);

		if (!same && ++bad <= 5)
			print_error("pow(%.9g, %.9g) = %.9g, not %.9g\n", x[i], n[i], (double)z[i], want);
	}
	assert_int_equal(bad, 0);
}

static void
test_functions(void **state)
{
	float x[POINTS], y[POINTS];
	int bad = 0;

	(void)state;
	for (size_t k = 0; k < COUNT_OF(functions); k++) {
		const struct function *f = &functions[k];
		loop1 *fn = find1(f->name);

		for (int i = 0; i < POINTS; i++)
			x[i] = (float)(f->from + (f->to - f->from) * i / (POINTS - 1));
		if (strcmp(f->name, "log") == 0)
			for (int i = 0; i < POINTS; i++)
				x[i] = (float)exp(-69 + 138.0 * i / (POINTS - 1));
		memcpy(x, edges, sizeof(edges));
		fn(x, y, POINTS);
		for (int i = 0; i < POINTS; i++) {
			if (agrees(f, x[i], y[i]))
				continue;
			if (bad++ < 20)
				print_error("%s(%.9g) is %.9g, not %.9g\n", f->name, (double)x[i],
				    (double)y[i], f->truth((double)x[i]));
		}
	}
	assert_int_equal(bad, 0);
}

/* Where either is no number neither is the result, of single floats and of vectors. */
static void
test_not_a_number_stays(void **state)
{
	static const char *const least[] = {"min", "min4", "min8"}, *const most[] = {"max", "max4", "max8"};
	float x[64], y[64], z[64];

	(void)state;
	for (int i = 0; i < 64; i++) {
		x[i] = i % 3 == 0 ? NAN : (float)i;
		y[i] = i % 5 == 0 ? NAN : (float)(40 - i);
	}
	for (size_t k = 0; k < COUNT_OF(least); k++) {
		find2(least[k])(x, y, z, 64);
		for (int i = 0; i < 64; i++)
			assert_true(i % 3 && i % 5 ? z[i] == fminf(x[i], y[i]) : z[i] != z[i]);
		find2(most[k])(x, y, z, 64);
		for (int i = 0; i < 64; i++)
			assert_true(i % 3 && i % 5 ? z[i] == fmaxf(x[i], y[i]) : z[i] != z[i]);
	}
	for (int at = 0; at < 32; at++) {
		for (int i = 0; i < 32; i++)
			x[i] = i == at ? NAN : (float)i;
		find1("foldmax")(x, y, 32);
		assert_true(y[0] != y[0]);
	}
	for (int i = 0; i < 64; i++)
		x[i] = (float)i;
	find1("foldadd")(x, y, 64);
	assert_true(y[0] == 64.0f * 63.0f / 2);
}

/* A choice by order takes the second where the comparison is of no number; relu keeps what is none. */
static void
test_choices_of_vectors(void **state)
{
	static const char *const lower[] = {"lower4", "lower8"}, *const relu[] = {"relu4", "relu8"};
	float x[64], y[64], z[64];

	(void)state;
	for (int i = 0; i < 64; i++) {
		x[i] = edges[i % (int)COUNT_OF(edges)];
		y[i] = edges[(i * 7 + 3) % (int)COUNT_OF(edges)];
	}
	for (size_t k = 0; k < COUNT_OF(lower); k++) {
		find2(lower[k])(x, y, z, 64);
		for (int i = 0; i < 64; i++)
			assert_memory_equal(&z[i], x[i] < y[i] ? &x[i] : &y[i], 4);
		find2(relu[k])(x, y, z, 64);
		for (int i = 0; i < 64; i++)
			assert_true(x[i] != x[i] ? z[i] != z[i] : z[i] == (x[i] < 0 ? 0 : x[i]));
	}
}

static void
test_half_floats(void **state)
{
	void (*there)(const uint16_t *, float *, uint16_t *, long);
	void (*back)(const float *, uint16_t *, uint16_t *, long);
	static uint16_t x[65536], z[65536], b[65536];
	static float y[65536];
	void *p = find("f16"), *q = find("half");

	(void)state;
	memcpy(&there, &p, sizeof(p));
	memcpy(&back, &q, sizeof(q));
	for (int i = 0; i < 65536; i++)
		x[i] = (uint16_t)i;
	there(x, y, z, 65536);
	for (int i = 0; i < 65536; i++) {
		float want = half_to_float((uint16_t)i);
		assert_true(want != want ? y[i] != y[i] : memcmp(&want, &y[i], 4) == 0);
		assert_true(want != want || z[i] == i);
	}
	struct rng r = {5};

	for (int i = 0; i < 65536; i++) {
		uint32_t u = (uint32_t)rng_next(&r);
		if (i & 1)
			u = (u & 0x8fffffffu) | 0x30000000u; /* about the range of halves */
		memcpy(&y[i], &u, 4);
	}
	back(y, z, b, 65536);
	for (int i = 0; i < 65536; i++) {
		assert_true(
		    y[i] != y[i] ? half_to_float(z[i]) != half_to_float(z[i]) : z[i] == float_to_half(y[i]));
		assert_true(
		    y[i] != y[i] ? bf16_to_float(b[i]) != bf16_to_float(b[i]) : b[i] == float_to_bf16(y[i]));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_functions),
	    cmocka_unit_test(test_powers),
	    cmocka_unit_test(test_not_a_number_stays),
	    cmocka_unit_test(test_choices_of_vectors),
	    cmocka_unit_test(test_half_floats),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
