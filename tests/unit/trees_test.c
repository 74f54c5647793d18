/* Training and what comes of it: equal rows give equal bytes, whatever their order; few rows are learned by
 * heart; a row that lies moves no other by more than its interval; files are hostile; what comes with Korch
 * speaks its language. */
#include "../../kernels/base/epoch.h"
#include "../../kernels/predict/kin.h"
#include "../../daemon/train/sure.h"
#include "../../schema/export_read.h"
#include "train_rig.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static void
make_set(struct arena *a, uint32_t n, bool backwards, struct train_set *set)
{
	static struct hash models[RIG_MODELS];

	*set = (struct train_set){
	    .rows = NEW_ARRAY(a, struct train_row, n), .n_rows = n, .models = models, .n_models = RIG_MODELS};
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = backwards ? n - 1 - i : i;

		rig_row(a, at, 0.001 * (double)(at / 13 % 11), &set->rows[i]);
	}
	train_rows_end(set);
}

enum { ROWS = RIG_ROWS };

static void
equal_rows_give_equal_bytes(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor x, y;
	struct bytes one, two;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &x);
	make_set(&a, ROWS, true, &set);
	rig_train(&a, &set, &y);
	predictor_write(&a, &x, &one);
	predictor_write(&a, &y, &two);
	assert_int_equal(one.n, two.n);
	assert_memory_equal(one.p, two.p, one.n);
	arena_fini(&a);
}

static void
fifty_rows_are_learned_by_heart(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor p;
	double worst = 0;

	(void)state;
	make_set(&a, 50, false, &set);
	rig_train(&a, &set, &p);
	if (!str_is(str_of(fit_method()), "trees")) {
		arena_fini(&a);
		skip(); /* a line has no heart */
	}
	for (uint32_t i = 0; i < set.n_rows; i++) {
		struct prediction x;

		predict_kernel(&p, &set.rows[i].plain, &x);
		worst = fmax(worst, fabs(x.ns / set.rows[i].ns - 1));
		assert_false(x.is_far);
	}
	assert_true(worst < 0.1);
	arena_fini(&a);
}

/* Of two kernels that differ in nothing that trees ask for, the one says what the other takes; a stranger
 * says nothing. */
static void
kin_put_a_prediction_right(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor p;
	uint16_t *leaf[3];
	struct kin kin = {0}, none = {0};
	double near_weight, far_weight;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &p);
	if (!str_is(str_of(fit_method()), "trees")) {
		arena_fini(&a);
		skip(); /* a line has no leaves */
	}
	for (int i = 0; i < 3; i++)
		leaf[i] = NEW_ARRAY(&a, uint16_t, p.head[HEAD_KERNEL].f.n_trees);
	forest_leaves(&p.head[HEAD_KERNEL].f, set.rows[0].flat[HEAD_KERNEL], leaf[0]);
	forest_leaves(&p.head[HEAD_KERNEL].f, set.rows[0].flat[HEAD_KERNEL], leaf[1]);
	for (uint32_t i = 1; i < set.n_rows; i++) /* the one whose time over its bound is furthest away */
		if (fabs(set.rows[i].log_ratio - set.rows[0].log_ratio) > 0.7)
			forest_leaves(&p.head[HEAD_KERNEL].f, set.rows[i].flat[HEAD_KERNEL], leaf[2]);
	near_weight = kin_weight(leaf[0], leaf[1], p.head[HEAD_KERNEL].f.n_trees);
	far_weight = kin_weight(leaf[0], leaf[2], p.head[HEAD_KERNEL].f.n_trees);
	assert_true(near_weight > 0.999 && far_weight < 0.1 * near_weight);
	kin.left = near_weight * 0.4;
	kin.weight = near_weight;
	assert_true(kin_shift(&kin) > 0.37 && kin_shift(&kin) < 0.4);
	assert_true(fabs(kin_shift(&none)) < 1e-12);
	assert_true(predict_heard(&p, HEAD_KERNEL, &(struct prediction){0}, 5) < 2.5);
	arena_fini(&a);
}

static void
one_lie_moves_nobody_far(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor honest, lied_to;
	const uint32_t liar = 40;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &honest);
	set.rows[liar].log_ratio += 5; /* 150 times its time */
	set.rows[liar].ns *= exp(5);
	rig_train(&a, &set, &lied_to);
	for (uint32_t i = 0; i < set.n_rows; i++) {
		const struct sample *s = &set.rows[i].plain;
		struct prediction x, y;

		if (i == liar)
			continue;
		predict_kernel(&honest, s, &x);
		predict_kernel(&lied_to, s, &y);
		assert_true(y.ns >= 0.999 * predict_quantile(&lied_to, HEAD_KERNEL, &x, 0.01));
		assert_true(y.ns <= 1.001 * predict_quantile(&lied_to, HEAD_KERNEL, &x, 0.99));
		assert_true(fabs(y.log_ratio - x.log_ratio) < 0.5);
	}
	arena_fini(&a);
}

static void
no_rows_and_rows_of_one_model_are_refused(void **state)
{
	struct arena a = {0};
	struct train_set set = {0};
	struct predictor p;
	struct err e = {0};

	(void)state;
	train_rows_end(&set);
	assert_false(train_predictor(&a, &set, &fit_usual, &p, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "two or more"));
	make_set(&a, 50, false, &set);
	set.n_models = 1;
	assert_false(train_predictor(&a, &set, &fit_usual, &p, &e));
	arena_fini(&a);
}

static struct bytes
shipped_rows(struct arena *a, const char *name)
{
	struct bytes file;
	struct err e = {0};
	char *path = arena_printf(a, "%s/kernels/predict/trained/%s", KORCH_SOURCE_DIR, name);

	if (!os_read_file(os_real(), a, path, 1 << 24, &file, &e))
		fail_msg("%s", e.msg);
	return file;
}

/* Of a cache: damaged bytes are an error that names the file, and rows of another generator are passed over.
 */
static void
exports_are_read(void **state)
{
	struct arena a = {0};
	struct train_set set = {0};
	struct bytes file = shipped_rows(&a, "rows_xeon.cache"),
		     bad = {arena_dup(&a, file.p, file.n), file.n};
	struct export_rows x;
	struct err e = {0};

	(void)state;
	assert_true(train_rows_add(&a, &set, "one", file, &e));
	train_rows_end(&set);
	assert_true(set.n_rows > 100 && set.n_models > 1 && set.n_unread == 0 && set.n_other_epoch == 0);
	for (uint32_t i = 1; i < set.n_rows; i++)
		assert_true(hash_cmp(&set.rows[i - 1].spec, &set.rows[i].spec) <= 0);
	((uint8_t *)(uintptr_t)bad.p)[bad.n / 2] ^= 4;
	assert_false(train_rows_add(&a, &set, "bad one", bad, &e));
	assert_non_null(strstr(e.msg, "bad one"));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_true(export_read(&a, file, &x, &e));
	assert_true(x.n_rows == set.n_rows + set.n_failed && x.n_envs > 1);
	arena_fini(&a);
}

static void
a_file_comes_back_and_no_other_bytes_do(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor p, q;
	struct bytes file, cut;
	struct err e = {0};
	uint8_t *bad;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &p);
	predictor_write(&a, &p, &file);
	assert_true(predictor_read(&a, file, &q, &e));
	for (uint32_t i = 0; i < set.n_rows; i++) {
		struct prediction x, y;

		predict_sample(&p, &set.rows[i].sample, &x);
		predict_sample(&q, &set.rows[i].sample, &y);
		assert_true(!(x.ns < y.ns) && !(x.ns > y.ns));
	}
	bad = arena_dup(&a, file.p, file.n);
	for (size_t i = 0; i < file.n; i += 97) {
		bad[i] ^= 0x55;
		assert_false(predictor_read(&a, (struct bytes){bad, file.n}, &q, &e));
		assert_true(e.code == ERR_FORMAT && e.msg[0]);
		bad[i] ^= 0x55;
	}
	for (size_t n = 0; n < file.n; n += 1 + file.n / 40) {
		cut = (struct bytes){file.p, n};
		assert_false(predictor_read(&a, cut, &q, &e));
	}
	arena_fini(&a);
}

/* The bytes of a head's intervals of one thread, which stand twice: the second of them goes, as in files of
 * before. */
static size_t
without_parallel(uint8_t *file, size_t n, const struct predict_model *m)
{
	enum { HALF = sizeof(m->interval.off) / 2 };
	uint8_t *at = memmem(file, n, m->interval.off, sizeof(m->interval.off));

	assert_non_null(at);
	memmove(at + HALF, at + (size_t)2 * HALF, n - (size_t)(at - file) - (size_t)2 * HALF);
	return n - HALF;
}

/* Files of before have one set of intervals for any number of threads. */
static void
a_file_of_before_is_read(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor p, q;
	struct bytes file;
	struct err e = {0};
	struct hash h;
	uint8_t *old;
	size_t n;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &p);
	p.sure = 1.25F;
	for (int i = 0; i < HEADS; i++)
		memcpy(p.head[i].interval.off[INTERVAL_OF_ALIKE], p.head[i].interval.off,
		    sizeof(p.head[i].interval.off) / 2);
	predictor_write(&a, &p, &file);
	n = file.n - 32;
	old = arena_dup(&a, file.p, file.n);
	old[14] = '2';
	for (int i = 0; i < HEADS; i++)
		n = without_parallel(old, n, &p.head[i]);
	h = hash_bytes(old, n);
	memcpy(old + n, h.b, 32);
	assert_true(predictor_read(&a, (struct bytes){old, n + 32}, &q, &e));
	assert_true(!(q.sure < 1.25F) && !(q.sure > 1.25F) && q.n_rows == p.n_rows);
	for (int i = 0; i < HEADS; i++)
		assert_memory_equal(&q.head[i].interval, &p.head[i].interval, sizeof(p.head[i].interval));
	old[14] = '1';
	assert_false(predictor_read(&a, (struct bytes){old, n + 32}, &q, &e));
	p.sure = -1;
	predictor_write(&a, &p, &file);
	assert_false(predictor_read(&a, file, &q, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	arena_fini(&a);
}

/* What is off on two threads makes no interval of one thread wider. */
static void
threads_have_intervals_of_their_own(void **state)
{
	enum { MANY = 400 };
	struct arena a = {0};
	struct residual *r = NEW_ARRAY(&a, struct residual, MANY);
	struct interval v;
	struct rng rng = {7};
	uint32_t one = interval_group(5e4, true, false), two = interval_group(5e4, true, true);

	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		r[i] = (struct residual){
		    .group = i % 2 ? two : one, .off = (i % 2 ? 0.3 : 0.1) * rng_normal(&rng)};
	interval_fit(r, MANY, &v);
	assert_true(one < INTERVAL_OF_ALIKE && two >= INTERVAL_OF_ALIKE && two < INTERVAL_GROUPS);
	assert_true(interval_at(&v, two, 0.95) > 2 * interval_at(&v, one, 0.95));
	assert_true(interval_low(&v, two, 1) < 2 * interval_low(&v, one, 1));
	/* nobody has measured small ones: those have all groups', widened */
	assert_true(interval_at(&v, interval_group(500, false, true), 0.95) > interval_at(&v, one, 0.95));
	arena_fini(&a);
}

/* With a digest that fits: what is inside is looked at all the same. */
static void
a_file_that_was_made_to_harm_is_refused(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor p, q;
	struct bytes file;
	struct err e = {0};
	uint32_t n_refused = 0, n_tried = 0;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &p);
	predictor_write(&a, &p, &file);
	for (size_t i = 24; i < file.n - 32; i += 61) {
		uint8_t *bad = arena_dup(&a, file.p, file.n);
		struct hash h;
		struct prediction x;

		for (size_t k = i; k < i + 4 && k < file.n - 32; k++)
			bad[k] = 0xff;
		h = hash_bytes(bad, file.n - 32);
		memcpy(bad + file.n - 32, h.b, 32);
		n_tried++;
		if (!predictor_read(&a, (struct bytes){bad, file.n}, &q, &e)) {
			n_refused++;
			continue;
		}
		predict_sample(&q, &set.rows[0].sample, &x); /* and what is taken ends, at a number */
		assert_true(isfinite(x.ns));
	}
	assert_true(n_refused > n_tried / 4);
	arena_fini(&a);
}

static void
the_shipped_file_is_of_this_korch(void **state)
{
	struct arena a = {0};
	struct predictor p;
	struct err e = {0};

	(void)state;
	if (!predictor_read(&a, predictor_shipped(), &p, &e))
		fail_msg("%s\nA bound, a number of a sample or the generator has changed: cmake --build "
			 "build --target "
			 "predict-train",
		    e.msg);
	assert_true(p.sure > 0 && p.sure < 4); /* of models enough */
	assert_true(p.n_models >= 2 && p.n_rows > 1000 && p.epoch == SAMPLES_EPOCH);
	assert_true(predictor_shipped().n <= PREDICT_FILE_MAX);
	arena_fini(&a);
}

/* Kernels of the trained rows that are known, and those of them that a machine which is otherwise would lose.
 */
static void
count_lost(const enum spec_feature *moved, const float *by, size_t n, uint32_t *n_known, uint32_t *n_lost)
{
	static const char name[] = "rows_epyc16_avx512.cache";
	struct arena a = {0};
	struct train_set set = {0};
	struct predictor p;
	struct err e = {0};

	*n_known = *n_lost = 0;
	assert_true(train_rows_add(&a, &set, name, shipped_rows(&a, name), &e));
	assert_true(predictor_read(&a, predictor_shipped(), &p, &e));
	for (uint32_t i = 0; i < set.n_rows; i++) {
		struct sample other = set.rows[i].plain;
		struct prediction x, y;

		predict_kernel(&p, &other, &x);
		for (size_t k = 0; k < n; k++)
			other.spec[moved[k]] += by[k];
		predict_kernel(&p, &other, &y);
		*n_known += !x.is_far;
		*n_lost += !x.is_far && y.is_far;
	}
	arena_fini(&a);
}

/* No two calibrations of a machine find the same: a call half as long, bandwidths a fifth less. */
static void
the_shipped_file_knows_a_machine_by_another_calibration(void **state)
{
	static const enum spec_feature moved[] = {SPEC_device_call, SPEC_device_l2, SPEC_device_dram};
	static const float by[] = {-0.4F, -0.2F, -0.2F};
	uint32_t n_known, n_lost;

	(void)state;
	count_lost(moved, by, COUNT_OF(moved), &n_known, &n_lost);
	assert_true(n_known > 100);
	assert_int_equal(n_lost, 0);
}

/* All machines of the trained rows have hundreds of MB of a last cache: most have a tenth of that, or less.
 * Another instruction set is another world. */
static void
the_shipped_file_says_something_on_a_machine_of_other_caches(void **state)
{
	static const enum spec_feature caches[] = {
	    SPEC_device_l1_bytes, SPEC_device_l2_bytes, SPEC_device_l3_bytes};
	static const enum spec_feature simd[] = {SPEC_device_simd};
	static const float smaller[] = {-0.4F, -1.4F, -3.7F}, narrower[] = {-48.0F};
	uint32_t n_known, n_lost;

	(void)state;
	count_lost(caches, smaller, COUNT_OF(caches), &n_known, &n_lost);
	assert_true(n_known > 100);
	assert_int_equal(n_lost, 0);
	count_lost(simd, narrower, 1, &n_known, &n_lost);
	assert_int_equal(n_lost, n_known);
}

/* A tenth of the kernels, trained anew, says nearly the same of the others as the shipped file, which has
 * seen them. */
static void
a_tenth_of_the_rows_says_much_the_same(void **state)
{
	static const char *const files[] = {"rows_epyc16_avx512.cache", "rows_epyc17_avx2.cache"};
	struct arena a = {0};
	struct train_set set = {0}, tenth;
	struct predictor shipped, p;
	struct err e = {0};
	double sum = 0, usual = 0;
	uint32_t n = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(files); i++)
		if (!train_rows_add(&a, &set, files[i], shipped_rows(&a, files[i]), &e))
			fail_msg("%s", e.msg);
	train_rows_end(&set);
	tenth = set;
	tenth.rows = NEW_ARRAY(&a, struct train_row, set.n_rows);
	tenth.n_rows = 0;
	for (uint32_t i = 0; i < set.n_rows; i++)
		if (set.rows[i].spec.b[0] < 51) /* a fifth of these files' specs, a tenth of all */
			tenth.rows[tenth.n_rows++] = set.rows[i];
	assert_true(predictor_read(&a, predictor_shipped(), &shipped, &e));
	rig_train(&a, &tenth, &p);
	for (uint32_t i = 0; i < set.n_rows; i++) {
		const struct sample *s = &set.rows[i].plain;
		struct prediction x, y;

		if (set.rows[i].spec.b[0] < 51 || !set.rows[i].is_best)
			continue;
		predict_kernel(&p, s, &x);
		predict_kernel(&shipped, s, &y);
		sum += fabs(x.log_ratio - y.log_ratio);
		usual += fabs(predict_usual - y.log_ratio);
		n++;
	}
	assert_true(n > 200);
	if (str_is(str_of(fit_method()), "trees"))
		assert_true(sum < 0.75 * usual);
	arena_fini(&a);
}

/* What is taken from the system; 0 where a sanitizer is in malloc's place. */
static size_t
held_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* With 230 models on 20 devices a copy of all rows for each job's was 20 GB. */
static void
the_rows_of_jobs_are_held_once(void **state)
{
	enum { DEVICES = 400 };
	struct arena a = {0}, jobs = {0};
	struct train_set set;
	struct predictor p;
	float *value;
	uint32_t n_rows = 0;
	size_t before;

	(void)state;
	make_set(&a, ROWS, false, &set);
	rig_train(&a, &set, &p);
	value = NEW_ARRAY(&a, float, ROWS);
	set.n_envs = DEVICES;
	before = held_bytes();
	for (uint32_t m = 0; m < RIG_MODELS; m++) {
		uint32_t n;
		const struct sure_model *of = train_sure_models(&jobs, &set, &p, value, m, &n);

		for (uint32_t i = 0; i < n; i++)
			n_rows += of[i].n;
	}
	assert_int_equal(n_rows, ROWS);
	assert_true(held_bytes() < before + ((size_t)4 << 20));
	arena_fini(&jobs);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_rows_of_jobs_are_held_once),
	    cmocka_unit_test(equal_rows_give_equal_bytes),
	    cmocka_unit_test(fifty_rows_are_learned_by_heart),
	    cmocka_unit_test(kin_put_a_prediction_right),
	    cmocka_unit_test(one_lie_moves_nobody_far),
	    cmocka_unit_test(no_rows_and_rows_of_one_model_are_refused),
	    cmocka_unit_test(exports_are_read),
	    cmocka_unit_test(a_file_comes_back_and_no_other_bytes_do),
	    cmocka_unit_test(a_file_of_before_is_read),
	    cmocka_unit_test(threads_have_intervals_of_their_own),
	    cmocka_unit_test(a_file_that_was_made_to_harm_is_refused),
	    cmocka_unit_test(the_shipped_file_is_of_this_korch),
	    cmocka_unit_test(the_shipped_file_knows_a_machine_by_another_calibration),
	    cmocka_unit_test(the_shipped_file_says_something_on_a_machine_of_other_caches),
	    cmocka_unit_test(a_tenth_of_the_rows_says_much_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
