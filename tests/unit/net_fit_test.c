/* Rows become a network beside the trees: what a predictor then says of a schedule is the mean of both, and
 * so it is after the file; what to measure first is picked among what may be. */
#include "../../daemon/train/net_fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MODELS = 3, SPECS = 8, SCHEDULES = 2, N = MODELS * SPECS * SCHEDULES };

/* Kernels of one to three leaves; the time above the bound is what two of their numbers say. */
static struct train_set
rows(struct arena *a)
{
	struct train_set set = {
	    .rows = NEW_ARRAY(a, struct train_row, N), .n_rows = N, .n_models = MODELS, .n_envs = 1};
	struct rng r = {5};

	set.models = NEW_ARRAY(a, struct hash, MODELS);
	set.envs = NEW(a, struct train_env);
	for (uint32_t i = 0; i < N; i++) {
		struct train_row *row = &set.rows[i];
		struct sample *s = &row->sample;

		s->work_ns = 1000;
		s->n_leaves = 1 + i % 3;
		s->leaf = NEW_ARRAY(a, struct sample_leaf, s->n_leaves);
		for (uint32_t k = 0; k < s->n_leaves * LEAF_FEATURES; k++)
			s->leaf[k / LEAF_FEATURES].x[k % LEAF_FEATURES] = (float)rng_unit(&r);
		for (uint32_t k = 0; k < SPEC_FEATURES; k++)
			s->spec[k] = (float)rng_unit(&r);
		for (uint32_t k = 0; k < WAY_FEATURES; k++)
			s->way[k] = (float)rng_unit(&r);
		row->plain = *s;
		train_row_flatten(a, row);
		row->log_ratio = 0.3 + (double)s->spec[0] + (double)s->way[0];
		row->ns = s->work_ns * exp(row->log_ratio);
		row->spec.b[0] = (uint8_t)(i / SCHEDULES);
		row->model = i / (SPECS * SCHEDULES);
		row->is_best = i % SCHEDULES == 0;
	}
	return set;
}

static struct predictor
trained(struct arena *a, const struct train_set *set, bool with_network)
{
	struct fit how = fit_usual;
	struct predictor p;
	struct err e = {0};

	how.n_trees = 20;
	how.with_network = with_network;
	if (!train_predictor(a, set, &how, &p, &e))
		fail_msg("%s", e.msg);
	return p;
}

static void
a_schedule_is_predicted_by_the_mean_of_both(void **state)
{
	struct arena a = {0};
	struct train_set set = rows(&a);
	struct predictor both = trained(&a, &set, true), trees = trained(&a, &set, false), again;
	struct bytes file;
	struct err e = {0};
	float *by_net = NEW_ARRAY(&a, float, N);

	(void)state;
	assert_null(trees.network);
	train_net_ask(both.network, &set, by_net);
	predictor_write(&a, &both, &file);
	assert_true(predictor_read(&a, file, &again, &e));
	for (uint32_t i = 0; i < N; i++) {
		struct prediction one, mean, read;

		predict_sample(&trees, &set.rows[i].sample, &one);
		predict_sample(&both, &set.rows[i].sample, &mean);
		predict_sample(&again, &set.rows[i].sample, &read);
		assert_true(fabs(mean.log_ratio - (one.log_ratio + (double)by_net[i]) / 2) < 1e-3);
		assert_true(fabs(read.log_ratio - mean.log_ratio) < 1e-6);
	}
	assert_memory_equal(
	    &both.head[HEAD_KERNEL].interval, &trees.head[HEAD_KERNEL].interval, sizeof(struct interval));
	assert_memory_not_equal(
	    &both.head[HEAD_SCHEDULE].interval, &trees.head[HEAD_SCHEDULE].interval, sizeof(struct interval));
	arena_fini(&a);
}

static void
a_network_of_other_numbers_is_refused(void **state)
{
	struct arena a = {0};
	struct train_set set = rows(&a);
	struct predictor p = trained(&a, &set, false), out;
	struct net_shape other = net_usual;
	struct net n;
	struct bytes file;
	struct err e = {0};

	(void)state;
	other.leaf++;
	n = net_new(&a, &other, 1);
	p.network = &n;
	predictor_write(&a, &p, &file);
	assert_false(predictor_read(&a, file, &out, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_non_null(strstr(e.msg, "numbers of a leaf"));
	arena_fini(&a);
}

static void
what_is_picked_may_be(void **state)
{
	struct arena a = {0};
	struct train_set set = rows(&a);
	bool may[N] = {0}, seen[N] = {0};
	uint32_t picks[N];

	(void)state;
	for (uint32_t i = 0; i < N; i += 3)
		may[i] = true;
	assert_int_equal(train_pick(&set, may, 5, picks), 5);
	for (int i = 0; i < 5; i++) {
		assert_true(may[picks[i]] && !seen[picks[i]]);
		seen[picks[i]] = true;
	}
	assert_int_equal(train_pick(&set, may, N, picks), N / 3);
	memset(may, 0, sizeof(may));
	assert_int_equal(train_pick(&set, may, 5, picks), 0);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_schedule_is_predicted_by_the_mean_of_both),
	    cmocka_unit_test(a_network_of_other_numbers_is_refused),
	    cmocka_unit_test(what_is_picked_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
