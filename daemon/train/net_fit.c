/* daemon/train/net_fit.c: rows to a network, and which rows to ask for. */
#include "net_fit.h"

#include "../../kernels/predict/kmeans.h"
#include "../../kernels/predict/net_sample.h"

#include <math.h>

const struct net_recipe net_fit_usual = {
    .epochs = 20, .batch = 64, .rate = 0.002, .decay = 0.3, .cmd = 0.1, .seed = 1};

static struct net_sample
sample_of(struct arena *a, const struct train_row *row)
{
	struct net_sample s = net_sample_of(a, &row->sample);

	s.want = (float)row->log_ratio;
	s.weight = 1;
	return s;
}

struct net
train_net(struct arena *a, const struct train_set *set, const struct net_fit *f)
{
	struct arena tmp = {0};
	struct net_sample *rows = NEW_ARRAY(&tmp, struct net_sample, set->n_rows),
			  *target = NEW_ARRAY(&tmp, struct net_sample, set->n_rows);
	uint32_t n_rows = 0, n_target = 0;
	struct net n = net_new(a, &net_usual, f->recipe.seed);

	for (uint32_t i = 0; i < set->n_rows; i++) {
		if (train_takes(set, &f->part, i)) {
			rows[n_rows] = sample_of(&tmp, &set->rows[i]);
			rows[n_rows++].weight = f->weight ? f->weight[i] : 1;
		}
		if (f->is_target && f->is_target[i])
			target[n_target++] = sample_of(&tmp, &set->rows[i]);
	}
	n.multiply = train_multiply;
	if (n_rows > 0) {
		net_centre(&n, rows, n_rows);
		net_train(&n, rows, n_rows, target, n_target, &f->recipe);
	}
	arena_fini(&tmp);
	return n;
}

void
train_net_ask(const struct net *n, const struct train_set *set, float *out)
{
	struct arena tmp = {0};
	struct net_sample *rows = NEW_ARRAY(&tmp, struct net_sample, set->n_rows);

	for (uint32_t i = 0; i < set->n_rows; i++)
		rows[i] = sample_of(&tmp, &set->rows[i]);
	net_predict(n, rows, set->n_rows, out);
	for (uint32_t i = 0; i < set->n_rows; i++)
		out[i] = fmaxf(out[i], 0);
	arena_fini(&tmp);
}

/* The numbers of the rows, each with the same spread over the set. */
static float *
points_of(struct arena *a, const struct train_set *set, const uint32_t *rows, uint32_t n)
{
	float *points = NEW_ARRAY(a, float, ck_mul(n, SAMPLE_FLAT));

	for (uint32_t k = 0; k < SAMPLE_FLAT; k++) {
		double sum = 0, square = 0, factor;

		for (uint32_t i = 0; i < n; i++) {
			double v = (double)set->rows[rows[i]].flat[HEAD_SCHEDULE][k];

			sum += v / n;
			square += v * v / n;
		}
		square -= sum * sum;
		factor = square > 1e-9 ? 1 / sqrt(square) : 0;
		for (uint32_t i = 0; i < n; i++)
			points[(size_t)i * SAMPLE_FLAT + k] =
			    (float)(((double)set->rows[rows[i]].flat[HEAD_SCHEDULE][k] - sum) * factor);
	}
	return points;
}

uint32_t
train_pick(const struct train_set *set, const bool *may, uint32_t k, uint32_t *rows)
{
	struct arena tmp = {0};
	uint32_t *all = NEW_ARRAY(&tmp, uint32_t, set->n_rows), *picks, n = 0;

	for (uint32_t i = 0; i < set->n_rows; i++)
		if (may[i])
			all[n++] = i;
	k = MIN_OF(k, n);
	picks = NEW_ARRAY(&tmp, uint32_t, k);
	(void)kmeans_pick(points_of(&tmp, set, all, n), n, SAMPLE_FLAT, k, 1, picks);
	for (uint32_t i = 0; i < k; i++)
		rows[i] = all[picks[i]];
	arena_fini(&tmp);
	return k;
}
