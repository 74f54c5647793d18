/* What a class's own rows do to a training: they weigh more, those of another generator count where there is
 * nothing newer, one that lies moves nobody beyond an interval; and whether the outcome is better than what
 * serves is found out on kernels that neither has seen. */
#include "../../daemon/train/own.h"
#include "train_rig.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { MODELS = RIG_MODELS, ROWS = 140 };

/* What others measured, at environment 0, and from row `from` on the class's own, at environment 1, `extra`
 * slower. */
static void
make_set(struct arena *a, uint32_t from, double extra, struct train_set *set)
{
	static struct hash models[MODELS];
	static struct train_env envs[2];

	envs[0].device_class = STR("cpu:elsewhere");
	envs[1].device_class = STR("cpu:here");
	*set = (struct train_set){.rows = NEW_ARRAY(a, struct train_row, ROWS),
	    .n_rows = ROWS,
	    .models = models,
	    .n_models = MODELS,
	    .envs = envs,
	    .n_envs = 2};
	for (uint32_t i = 0; i < ROWS; i++) {
		rig_row(a, i, i >= from ? extra : 0, &set->rows[i]);
		set->rows[i].is_own = i >= from;
		set->rows[i].env = i >= from;
	}
	train_rows_end(set);
}

/* Of two times for the same numbers, the class's own is nearer to what is learned. */
static void
own_rows_weigh_more(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor p;
	uint32_t nearer = 0, n = 0;

	(void)state;
	make_set(&a, ROWS / 2, 0, &set);
	for (uint32_t i = 0; i < ROWS; i++) { /* both halves of the same kernels */
		uint32_t at = i % (ROWS / 2);
		bool is_own = i >= ROWS / 2;

		rig_row(&a, at, is_own ? 0.4 : 0, &set.rows[i]);
		set.rows[i].is_own = is_own;
		set.rows[i].env = is_own;
	}
	train_rows_end(&set);
	rig_train(&a, &set, &p);
	for (uint32_t i = 0; i < ROWS; i++) {
		const struct train_row *r = &set.rows[i];
		struct prediction x;

		if (!r->is_own)
			continue;
		predict_kernel(&p, &r->plain, &x);
		n++;
		nearer += fabs(x.log_ratio - r->log_ratio) < fabs(x.log_ratio - (r->log_ratio - 0.4));
	}
	assert_int_equal(n, ROWS / 2);
	assert_true(nearer > n * 9 / 10);
	arena_fini(&a);
}

static void
an_own_row_that_lies_moves_nobody_far(void **state)
{
	struct arena a = {0};
	struct train_set set;
	struct predictor honest, lied_to;
	uint32_t liar = 0;

	(void)state;
	make_set(&a, ROWS / 2, 0, &set);
	rig_train(&a, &set, &honest);
	while (!set.rows[liar].is_own)
		liar++;
	set.rows[liar].log_ratio += 5;
	set.rows[liar].ns *= exp(5);
	rig_train(&a, &set, &lied_to);
	for (uint32_t i = 0; i < ROWS; i++) {
		const struct sample *s = &set.rows[i].plain;
		struct prediction x, y;

		if (i == liar)
			continue;
		predict_kernel(&honest, s, &x);
		predict_kernel(&lied_to, s, &y);
		assert_true(y.ns >= 0.999 * predict_quantile(&lied_to, HEAD_KERNEL, &x, 0.01));
		assert_true(y.ns <= 1.001 * predict_quantile(&lied_to, HEAD_KERNEL, &x, 0.99));
	}
	arena_fini(&a);
}

static struct own_check
check(struct arena *a, double extra, int64_t since_ns)
{
	struct train_set others, set;
	struct predictor serves;
	struct own_check c;
	struct err e = {0};

	make_set(a, ROWS, 0, &others);
	rig_train(a, &others, &serves);
	make_set(a, ROWS / 2, extra, &set);
	if (!own_check(&set, &fit_usual, &serves, since_ns, &c, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* On a class that is half as fast again as others, its own rows help with models that were left out; what was
 * measured before the other was trained is not held against it. */
static void
the_better_is_found_out(void **state)
{
	struct arena a = {0};
	struct own_check c = check(&a, 0.5, 0);

	(void)state;
	assert_true(c.compared > 20 && c.compared <= ROWS / 2);
	assert_true(c.beside > 0.25 && c.error < 0.75 * c.beside);
	c = check(&a, 0.5, 1000 + ROWS - 30);
	assert_true(c.compared >= 20 && c.compared < 30);
	c = check(&a, 0.5, 1000 + ROWS - 10); /* too few: no word */
	assert_true(c.compared < 20 && c.error <= 0 && c.beside <= 0);
	arena_fini(&a);
}

/* The best of a kernel is of this generator, where there is one. */
static void
older_rows_stand_in(void **state)
{
	struct arena a = {0};
	struct train_row rows[3];
	struct train_env env = {.device_class = STR("cpu:here")};
	struct train_set set = {.rows = rows, .n_rows = 3, .envs = &env, .n_envs = 1};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		rig_row(&a, 7, 0.1 * i, &rows[i]);
		rows[i].is_own = true;
		rows[i].heat = STR("");
		rows[i].is_older = i == 0; /* the fastest */
	}
	train_rows_end(&set);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rows[i].is_best, i == 0); /* the older one is last */
		assert_true(train_weight(&rows[i]) > (rows[i].is_older ? 0.5F : 3.5F));
	}
	for (uint32_t i = 0; i < 3; i++)
		rows[i].is_best = false;
	rows[0].is_older = rows[1].is_older = rows[2].is_older = true;
	train_rows_end(&set);
	assert_true(rows[0].is_best && !rows[1].is_best && !rows[2].is_best);
	arena_fini(&a);
}

/* ln of the high end over the low one of a kernel's 90 %. */
static double
width_with(struct arena *a, struct train_set *set)
{
	struct predictor p;
	struct prediction x;

	rig_train(a, set, &p);
	predict_kernel(&p, &set->rows[0].plain, &x);
	return log(predict_quantile(&p, HEAD_KERNEL, &x, 0.95) / predict_quantile(&p, HEAD_KERNEL, &x, 0.05));
}

/* Of a hundred rows four are far from what the others say, all of them in one half: too few for intervals of
 * 90, but not where the other half is of generated graphs, which are not asked. */
static void
generated_graphs_make_no_interval_narrower(void **state)
{
	struct arena a = {0};
	struct train_set set;
	double by_all, by_networks, by_taught;

	(void)state;
	make_set(&a, ROWS, 0, &set);
	for (uint32_t i = 0; i < ROWS; i += 26)
		set.rows[i].log_ratio += 1.5;
	by_all = width_with(&a, &set);
	for (uint32_t i = 1; i < ROWS; i += 2)
		set.rows[i].is_taught = true;
	by_networks = width_with(&a, &set);
	for (uint32_t i = 0; i < ROWS; i++)
		set.rows[i].is_taught = true;
	by_taught = width_with(&a, &set);
	assert_true(by_networks > by_all + 0.01);
	assert_true(fabs(by_taught - by_all) < 1e-6);
	arena_fini(&a);
}

/* What came with Korch is inside the program. */
static void
shipped_rows_are_there(void **state)
{
	struct arena a = {0};
	struct train_set set = {0};
	struct err e = {0};
	const struct train_shipped *one = NULL;
	uint32_t n = 0;

	(void)state;
	for (const struct train_shipped *x = train_shipped; x->name; x++) {
		n += !x->is_taught;
		if (!x->is_taught && !one)
			one = x;
	}
	assert_true(n >= 2);
	assert_true(train_rows_add(
	    &a, &set, one->name, (struct bytes){one->first, (size_t)(one->last - one->first)}, &e));
	assert_true(set.n_rows > 20);
	for (uint32_t i = 0; i < set.n_rows; i++)
		assert_true(
		    !set.rows[i].is_own && !set.rows[i].is_taught && train_weight(&set.rows[i]) < 1.5F);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(own_rows_weigh_more),
	    cmocka_unit_test(an_own_row_that_lies_moves_nobody_far),
	    cmocka_unit_test(the_better_is_found_out),
	    cmocka_unit_test(older_rows_stand_in),
	    cmocka_unit_test(generated_graphs_make_no_interval_narrower),
	    cmocka_unit_test(shipped_rows_are_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
