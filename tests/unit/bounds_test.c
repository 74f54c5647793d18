/* tests/unit/bounds_test.c: bounds by the ways in which a kernel can be computed: what they count, and that
 * no kernel which was measured is faster, nor faster than its own schedule's program says. */
#include "../../daemon/planner/device.h"
#include "../../kernels/cost/cost.h"
#include "../../kernels/predict/least.h"
#include "../../schema/export_read.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

/* One operation a nanosecond; bytes and calls are free. */
static const struct hw simple = {
    .flops_peak = 1e9,
    .exp_per_s = 5e7, /* 20 ns each */
    .div_per_s = 1e8,
    .bytes_per_s = {1e18, 1e18, 1e18, 1e18},
    .level_bytes = {1000, 10000, 100000},
    .simd_bytes = 32,
    .lanes = 8,
    .n_threads = 1,
    .winograd = true,
};

static double
bound_of(const char *text, const struct hw *hw)
{
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	int64_t ns;

	if (!graph_read(&g, &a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(&a, &g, &s);
	ns = cost_bound_ns(&s, hw, NULL);
	assert_true(ns >= cost_analytic_ns(&s, hw, STR(""), NULL));
	arena_fini(&a);
	return (double)ns;
}

#define STRIDED                                                                                              \
	"%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,4,5]\n"                                                \
	"%2 = conv %0 %1 stride=[2,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
#define DENSE                                                                                                \
	"%0 = input f32[1,8,8,4]\n%1 = weight f32[3,3,4,8]\n"                                                \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"

#define DEEP                                                                                                 \
	"%0 = input f32[1,8,8,32]\n%1 = weight f32[3,3,32,8]\n"                                              \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
/* Four columns of eight, and twelve results along a window's row. */
#define FEW                                                                                                  \
	"%0 = input f32[1,14,14,64]\n%1 = weight f32[3,3,64,4]\n"                                            \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
/* A store of a result's vector counts a thirteenth of a multiply-add of one, as it goes on beside it; in
 * Winograd's form nearly two, through the stack three. */
#define STORE 0.15
#define BESIDE 0.8 /* of what joins or maps a product's results */
#define WINO_STORE 3.6
enum { THROUGH = 6 };

static void
forms_are_counted_whole(void **state)
{
	static const struct {
		const char *text;
		double ns;
	} rows[] = {
	    /* five columns: a library's call may have its vectors anywhere; each result is stored */
	    {STRIDED "output %2\n", 2.0 * 18 * 9 * 4 * 5 + 90 * STORE},
	    /* six points of a row in eight lanes, for each of the columns */
	    {STRIDED "%3 = sum %2 axes=[1,2]\noutput %3\n",
		2.0 * 18 * 9 * 4 * 5 * 8 / 6 + 90 * STORE + 45 * BESIDE},
	    /* directly; nine tiles of 2 x 2 with their maps would be more */
	    {DENSE "output %2\n", 2.0 * 36 * 9 * 4 * 8 + 288 * STORE},
	    /* nine tiles of 2 x 2, with maps and stores of what they make; four of 4 x 4 would be more,
	       directly 166118 */
	    {DEEP "output %2\n",
		9 *
		    (2.0 * 16 * 32 * 8 + 32 * (64 + 20 * WINO_STORE) +
			8 * (48 + 16 * WINO_STORE + 4 * THROUGH))},
	    /* eight lanes or four, or along the sum: of four columns all are wanted in some way */
	    {FEW "%3 = sum %2 axes=[1,2]\noutput %3\n",
		2.0 * 12 * 12 * 9 * 64 * 4 + 576 * STORE + 288 * BESIDE},
	    {FEW "output %2\n", 2.0 * 12 * 12 * 9 * 64 * 4 + 576 * STORE},
	    /* 320 columns are whole vectors */
	    {"%0 = input f32[3,7]\n%1 = input f32[7,320]\n%2 = matmul %0 %1\n%3 = sum %2 axes=[1]\noutput "
	     "%3\n",
		2.0 * 3 * 7 * 320 + 960 * STORE + 480 * BESIDE},
	    /* 3 x 5 results of 7 products: the sum of 7 of 8 wastes least */
	    {"%0 = input f32[3,7]\n%1 = input f32[7,5]\n%2 = matmul %0 %1\n%3 = sum %2 axes=[1]\noutput %3\n",
		2.0 * 3 * 8 * 5 + 15 * STORE + 7 * BESIDE},
	    /* a loop makes what its reader asks for */
	    {"%0 = input f32[64,64]\n%1 = input f32[64,64]\n%2 = matmul %0 %1\n"
	     "%3 = slice %2 shape=[8,64] start=[0,0] step=[1,1]\noutput %3\n",
		2.0 * 8 * 64 * 64 + 512 * STORE},
	    {"%0 = input f32[1000]\n%1 = exp %0\noutput %1\n", 20000},
	    /* 10 divisors, 1,000 quotients */
	    {"%0 = input f32[10,100]\n%1 = input f32[10,1]\n%2 = bcast %1 shape=[10,100]\n%3 = div %0 %2\n"
	     "output %3\n",
		4000},
	    {"%0 = input f32[1000]\n%1 = softplus %0\n%2 = tanh %1\noutput %2\n", 26000},
	    {"%0 = input f32[1000]\n%1 = recip %0\noutput %1\n", 10000},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		double ns = bound_of(rows[i].text, &simple);

		if (fabs(ns - rows[i].ns) > 1)
			fail_msg("row %zu: %.0f, not %.0f", i, ns, rows[i].ns);
	}
}

/* What no calibration has found says nothing; products have a rate of their own where it is known. */
static void
unknown_rates_leave_the_old_bound(void **state)
{
	static const char EXPS[] = "%0 = input f32[1000]\n%1 = exp %0\noutput %1\n";
	struct hw hw = simple;

	(void)state;
	hw.exp_per_s = hw.div_per_s = 0;
	assert_true(fabs(bound_of(EXPS, &hw) - 12000) < 1);
	hw.linear_flops = 5e8;
	assert_true(
	    fabs(bound_of(STRIDED "output %2\n", &hw) - 2 / 1.03 * (2.0 * 18 * 9 * 4 * 5 + 90 * STORE)) < 1);
	hw = simple;
	hw.lanes = 0; /* a GPU, or the fastest device imaginable */
	assert_true(fabs(bound_of(EXPS, &hw) - 12000) < 1);
	assert_true(fabs(bound_of(DENSE "output %2\n", &hw) - 2.0 * 36 * 9 * 4 * 8 / 4) < 1);
}

/* One byte a nanosecond from the first cache, half of one from the second; arithmetic is free. */
static const struct hw slow_memory = {
    .flops_peak = 1e15,
    .bytes_per_s = {1e9, 5e8, 1e8, 1e8},
    .level_bytes = {1000, 1000000, 1000000},
    .simd_bytes = 32,
    .lanes = 8,
    .n_threads = 1,
};

static double
hot_bound_of(const char *text, const char *heat)
{
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	int64_t ns;

	if (!graph_read(&g, &a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(&a, &g, &s);
	ns = cost_bound_heat_ns(&s, &slow_memory, str_of(heat), NULL);
	arena_fini(&a);
	return (double)ns;
}

/* What waits for a sum over a plane of 8,000 bytes reads it again: an eighth from the first cache. */
static void
what_waits_for_a_sum_reads_again(void **state)
{
	static const char SUM[] = "%0 = input f32[250,8]\n%1 = sum %0 axes=[0]\noutput %1\n",
			  SUB[] = "%0 = input f32[250,8]\n%1 = sum %0 axes=[0]\n%2 = bcast %1 shape=[250,8]\n"
				  "%3 = sub %0 %2\noutput %3\n",
			  ROWS[] =
			      "%0 = input f32[250,8]\n%1 = sum %0 axes=[1]\n%2 = bcast %1 shape=[250,8]\n"
			      "%3 = sub %0 %2\noutput %3\n";
	double once = 1000 + 7000 * 2, more;

	(void)state;
	more = hot_bound_of(SUM, "hh");
	assert_true(fabs(more - once) < 100);
	more = hot_bound_of(SUB, "hh");
	assert_true(fabs(more - (1000 + 15000 * 2 + once)) < 100);
	/* a row stays where it is */
	more = hot_bound_of(ROWS, "hh");
	assert_true(fabs(more - (1000 + 15000 * 2)) < 100);
}

/* Where no schedule of the space has Winograd's form (a ring of rows behind it), the products are direct. */
static void
winograd_counts_where_the_space_has_it(void **state)
{
	struct target t = target_avx2;
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};

	(void)state;
	t.winograd = true;
	assert_true(graph_read(&g, &a, STR(DEEP "output %2\n"), &e));
	spec_of_graph(&a, &g, &s);
	assert_true(space_winograd(&s, &t));
	assert_true(device_bound_ns(&s, &t, &simple, STR("")) == cost_bound_ns(&s, &simple, NULL));
	t.winograd = false;
	assert_false(space_winograd(&s, &t));
	assert_true(fabs((double)device_bound_ns(&s, &t, &simple, STR("")) - (165888 + 288 * STORE)) < 1);
	t.winograd = true;
	assert_true(graph_read(&g, &a, STR(FEW "output %2\n"), &e));
	spec_of_graph(&a, &g, &s);
	assert_false(space_winograd(&s, &t));
	arena_fini(&a);
}

/* ---- by the program of a schedule ------------------------------------------------------------------ */
static struct target
bare_avx512(void)
{
	struct target t = target_avx512;

	t.winograd = true;
	return t;
}

static double
least_of(const char *text, const char *schedule, int64_t bound)
{
	const struct target t = bare_avx512();
	struct hw hw = simple;
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	int64_t ns;

	hw.simd_bytes = 64;
	hw.lanes = 16;
	if (!graph_read(&g, &a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(&a, &g, &s);
	ns = schedule_least_ns(&s, str_of(schedule), &t, &hw, STR(""), bound);
	arena_fini(&a);
	return (double)ns;
}

#define POINTWISE                                                                                            \
	"%0 = input f32[1,8,8,24]\n%1 = weight f32[1,1,24,144]\n"                                            \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
#define LANES                                                                                                \
	"%0 = input f32[1,14,14,32]\n%1 = weight f32[3,3,1,32]\n"                                            \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=32\noutput %2\n"
/* Six by six tiles of Winograd's form, none of which sticks out. */
#define WHOLE_TILES                                                                                          \
	"%0 = input f32[1,26,26,32]\n%1 = weight f32[3,3,32,64]\n"                                           \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %2\n"
static void
programs_are_counted_as_they_are(void **state)
{
	static const struct {
		const char *text, *schedule;
		double ns;
	} rows[] = {
	    /* what says nothing is what rules make; products, and each result is stored */
	    {POINTWISE "output %2\n", "", 9216 * (2.0 * 24 + .8)},
	    /* what is stored or what is added up */
	    {"%0 = input f32[64,48]\n%1 = sigmoid %0\noutput %1\n", "trace=1",
		3072 * (1.8 + .9 * 20 + .7 * 10)},
	    {"%0 = input f32[64,48]\n%1 = transpose %0 perm=[1,0]\noutput %1\n", "trace=1", 3072 * 1.8},
	    {"%0 = input f32[64,256]\n%1 = sum %0 axes=[1]\noutput %1\n", "trace=1", 16384 * 1.7},
	    {"%0 = input f32[64,48]\n%1 = sum %0 axes=[1]\noutput %1\n", "trace=1", 64 * 1.8},
	    {"%0 = input f32[64,46]\n%1 = sigmoid %0\n%2 = pad %1 lo=[0,1] hi=[0,1] mode=0 value=0\noutput "
	     "%2\n",
		"trace=1", 64 * 46 * (.9 * 20 + .7 * 10) + 3072 * 1.8},
	    {"%0 = input f32[67,131]\n%1 = rmax %0 axes=[1]\n%2 = bcast %1 shape=[67,131]\n%3 = sub %0 %2\n"
	     "%4 = exp %3\noutput %4\n",
		"trace=1", 67 * 131 * (1.8 + .9 * 20)},
	    /* behind a product, whose sum has a name: both its exponential and its division; each result is
	       stored, and a tile of 8 rows in which the sums wait for them */
	    {POINTWISE "%3 = sigmoid %2\n%4 = mul %2 %3\noutput %4\n", "trace=1",
		9216 * (2.0 * 24 + .8 + .9 * 20 + .7 * 10) + 8 * 48 * .8},
	    /* loops that are cut off at a border: products are those that the spec needs */
	    {LANES, "trace=1", 14 * 14 * 32 * .8 + 40 * 40 * 32 * 2.0},
	    /* windows are cut off at borders: how often their loops turn is not known */
	    {"%0 = input f32[1,15,15,32]\n%1 = wmax %0 kernel=[1,3,3,1] stride=[1,1,1,1] dilation=[1,1,1,1] "
	     "lo=[0,1,1,0] hi=[0,1,1,0]\noutput %1\n",
		"trace=1", 7},
	    {WHOLE_TILES, "trace=1", 24 * 24 * 64 * (2.0 * 9 * 32 + .8)},
	    {POINTWISE "output %2\n", "lib=onednn-2.6.3", 9216 * 2.0 * 24 + 200},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		double ns = least_of(rows[i].text, rows[i].schedule, 7);

		if (fabs(ns - rows[i].ns) > 1)
			fail_msg("row %zu: %.0f, not %.0f", i, ns, rows[i].ns);
	}
	assert_true(least_of(POINTWISE "output %2\n", "", 1000000000) >= 1e9);
}

/* Of loops in Winograd's form: products of positions and results count at least, at most all elements of
 * tiles besides, mapped along both sides. */
static void
loops_in_winograds_form_are_bound(void **state)
{
	const double products = 36 * 36 * 64 * 2.0 * 32, results = 24 * 24 * 64, elements = 36 * 36 * 32;
	const double ns = least_of(WHOLE_TILES, "wino=4 trace=1", 7);

	(void)state;
	assert_true(ns >= products + .8 * results && ns <= products + 4 * (results + 2 * elements));
}

/* The bound of a space is that of its best schedule, and of a library's call where there is one. */
static void
a_space_has_its_best_schedule(void **state)
{
	struct target t = bare_avx512();
	struct hw hw = simple;
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	struct str *list;
	uint32_t n;
	int64_t best = INT64_MAX, bound;

	(void)state;
	hw.simd_bytes = 64;
	hw.lanes = 16;
	assert_true(graph_read(&g, &a, STR(POINTWISE "output %2\n"), &e));
	spec_of_graph(&a, &g, &s);
	bound = device_bound_ns(&s, &t, &hw, STR(""));
	space_list(&a, &s, &t, 4, trace_outcome, &list, &n);
	for (uint32_t i = 0; i < n; i++)
		best = MIN_OF(best, schedule_least_ns(&s, list[i], &t, &hw, STR(""), bound));
	assert_true(best >= bound && device_space_ns(&s, &t, &hw, STR(""), 4) == best);
	t.library[LIBRARY_onednn] = 20603;
	assert_true(device_space_ns(&s, &t, &hw, STR(""), 4) == bound);
	arena_fini(&a);
}

/* ---- what was measured ----------------------------------------------------------------------------- */
/* Exports of before those rates were looked for have them from the same machine, as it was calibrated later.
 */
static void
fill_rates(struct hw *hw)
{
	if (!(hw->linear_flops > 0))
		hw->linear_flops = hw->flops_peak * 1.04 / 1.1;
	if (!(hw->exp_per_s > 0))
		hw->exp_per_s = 6.0e9;
	if (!(hw->div_per_s > 0))
		hw->div_per_s = 11.6e9;
}

/* A row of an hour in which the processor's own clock was another than calibration's says nothing of a bound
 * that is of calibration's; where it was nearly the same, what counts is the time as it was, not as scaled,
 * and the row is known but for that by which the clock was another still. */
static const double other_clock = 0.1, same_clock = 0.05;

/* A row of an hour in which caches were faster than calibration saw them is no fault of what this test is
 * about: bandwidths may be off by a sixth, all else by nothing.  What lies in the first cache and takes
 * less than a tenth of a microsecond was told by fewer hundredths than that: copies of 18 KB at 1.5 of its
 * rate. */
static bool
is_below(double ns, double clock_ratio, int64_t bound, int64_t by_peaks)
{
	double off = bound > by_peaks ? 1 + fmax(fabs(clock_ratio - 1) - same_clock, 0)
	    : bound > 100             ? 1.2
				      : 1.6;

	return (double)bound > off * ns / clock_ratio;
}

/* All rows' programs take seconds to lower; instrumented code minutes, and takes each fourth. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EACH_ROW = 4 };
#else
enum { EACH_ROW = 1 };
#endif

static uint32_t
rows_below(const char *name, const struct export_rows *x, uint32_t *n_higher)
{
	uint32_t n_below = 0;

	for (uint32_t i = 0; i < x->n_rows; i += EACH_ROW) {
		const struct m_measurement *m = &x->rows[i];
		const struct m_env *env = &x->envs[x->env_of[i]];
		bool winograd = str_eq(m->precision, STR("f32"));
		struct hw hw = env_hw(env, m->threads, winograd);
		const struct target t = env_target(env, false, winograd, PRECISION_F32);
		struct arena tmp = {0};
		struct spec s;
		struct err e = {0};
		int64_t bound, plain;

		if (m->row.fail || fabs(m->row.clock_ratio - 1) > other_clock)
			continue;
		fill_rates(&hw);
		assert_true(spec_read(&tmp, x->specs[x->spec_of[i]].text, &s, &e));
		bound = schedule_least_ns(
		    &s, m->row.schedule, &t, &hw, m->heat, device_bound_ns(&s, &t, &hw, m->heat));
		plain = cost_analytic_ns(&s, &hw, m->heat, NULL);
		*n_higher += bound > plain;
		if (is_below((double)m->row.median_ns, m->row.clock_ratio, bound, plain)) {
			print_message("%s: %.*s '%.*s': bound %lld (by peaks %lld), took %lld, clock %.3f\n",
			    name, 300, x->specs[x->spec_of[i]].text.p, STR_ARG(m->row.schedule),
			    (long long)bound, (long long)plain, (long long)m->row.median_ns,
			    m->row.clock_ratio);
			n_below++;
		}
		arena_fini(&tmp);
	}
	return n_below;
}

static void
nothing_measured_is_below_its_bound(void **state)
{
	DIR *d = opendir(KORCH_SOURCE_DIR "/kernels/predict/trained");
	uint32_t n_below = 0, n_higher = 0, n_files = 0;

	(void)state;
	assert_non_null(d);
	for (const struct dirent *f; (f = readdir(d));) {
		struct arena a = {0};
		struct bytes file;
		struct export_rows x;
		struct err e = {0};

		if (!strstr(f->d_name, ".cache"))
			continue;
		n_files++;
		if (!os_read_file(os_real(), &a,
			arena_printf(&a, "%s/kernels/predict/trained/%s", KORCH_SOURCE_DIR, f->d_name),
			1 << 26, &file, &e) ||
		    !export_read(&a, file, &x, &e))
			fail_msg("%s", e.msg);
		n_below += rows_below(f->d_name, &x, &n_higher);
		arena_fini(&a);
	}
	closedir(d);
	assert_true(n_files > 0 && n_higher > 1000 / EACH_ROW);
	assert_int_equal(n_below, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(forms_are_counted_whole),
	    cmocka_unit_test(unknown_rates_leave_the_old_bound),
	    cmocka_unit_test(what_waits_for_a_sum_reads_again),
	    cmocka_unit_test(winograd_counts_where_the_space_has_it),
	    cmocka_unit_test(programs_are_counted_as_they_are),
	    cmocka_unit_test(loops_in_winograds_form_are_bound),
	    cmocka_unit_test(a_space_has_its_best_schedule),
	    cmocka_unit_test(nothing_measured_is_below_its_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
