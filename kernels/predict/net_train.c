/* kernels/predict/net_train.c: AdamW on Huber's loss of ln(time / work) plus CMD, in a seeded order. */
#include "net_int.h"

#include <math.h>

/* Deviations beyond which an error pulls no harder. */
static const double huber = 1, first_moment = 0.9, second_moment = 0.999;

struct training {
	struct net *n;
	const struct net_recipe *recipe;
	const struct net_sample *rows, *target;
	uint32_t n_rows, n_target;
	uint32_t *order; /* of rows, shuffled anew for each epoch */
	uint32_t *pick;  /* of target, a batch */
	float *gradient, *m, *v;
	uint32_t step, steps;
	struct rng rng;
	double loss;
};

static void
shuffle(uint32_t *order, uint32_t n, struct rng *r)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = rng_below(r, i), v = order[i - 1];

		order[i - 1] = order[j];
		order[j] = v;
	}
}

/* A tenth of the way up from nothing, then half a cosine down. */
static double
rate_now(const struct training *t)
{
	double at = (double)t->step / t->steps;

	return t->recipe->rate *
	    (at < 0.1 ? at / 0.1 : 0.5 * (1 + cos(3.14159265358979323846 * (at - 0.1) / 0.9)));
}

static void
adam_step(struct training *t)
{
	double rate = rate_now(t), c1, c2;
	float keep = (float)(1 - rate * t->recipe->decay);

	t->step++;
	c1 = 1 / (1 - pow(first_moment, t->step));
	c2 = 1 / (1 - pow(second_moment, t->step));
	for (uint32_t i = 0; i < t->n->n_weights; i++) {
		float g = t->gradient[i];

		t->m[i] = (float)first_moment * t->m[i] + (float)(1 - first_moment) * g;
		t->v[i] = (float)second_moment * t->v[i] + (float)(1 - second_moment) * g * g;
		t->n->w[i] =
		    keep * t->n->w[i] - (float)(rate * c1) * t->m[i] / (sqrtf((float)c2 * t->v[i]) + 1e-8F);
		t->gradient[i] = 0;
	}
}

/* dy of each kernel of the batch; adds their losses to t->loss. */
static void
pull_of_times(struct training *t, const struct net_run *r, const uint32_t *pick, float *dy)
{
	double all = 0;

	for (uint32_t i = 0; i < r->kernels; i++)
		all += t->rows[pick[i]].weight;
	for (uint32_t i = 0; i < r->kernels && all > 0; i++) {
		const struct net_sample *s = &t->rows[pick[i]];
		double miss = r->y[i] - (s->want - t->n->want.mean) * t->n->want.factor, size = fabs(miss);

		t->loss += s->weight * (size < huber ? miss * miss / 2 : huber * (size - huber / 2));
		dy[i] = (float)(s->weight / all * fmin(fmax(miss, -huber), huber));
	}
}

/* The target's hidden units pull on those of the batch and are pulled by them. */
static void
pull_of_domains(struct training *t, struct arena *a, const struct net_run *r, float *dhidden)
{
	uint32_t n = MIN_OF(t->recipe->batch, t->n_target), hidden = t->n->shape.hidden;
	const struct net_run *other;
	float *dother = NEW_ARRAY(a, float, (size_t)n *hidden), *still = NEW_ARRAY(a, float, n);

	for (uint32_t i = 0; i < n; i++)
		t->pick[i] = rng_below(&t->rng, t->n_target);
	other = net_run(a, t->n, t->target, t->pick, n);
	net_cmd_back(r->hidden, r->kernels, other->hidden, n, hidden, t->recipe->cmd, dhidden, dother);
	net_run_back(a, other, still, dother, t->gradient);
}

static void
batch(struct training *t, uint32_t from, uint32_t n)
{
	struct arena a = {0};
	const uint32_t *pick = t->order + from;
	const struct net_run *r = net_run(&a, t->n, t->rows, pick, n);
	float *dy = NEW_ARRAY(&a, float, n), *dhidden = NEW_ARRAY(&a, float, (size_t)n * t->n->shape.hidden);

	pull_of_times(t, r, pick, dy);
	if (t->n_target > 0 && t->recipe->cmd > 0)
		pull_of_domains(t, &a, r, dhidden);
	net_run_back(&a, r, dy, dhidden, t->gradient);
	adam_step(t);
	arena_fini(&a);
}

static struct training
begin(struct arena *a, struct net *n, const struct net_recipe *recipe, uint32_t n_rows)
{
	struct training t = {.n = n, .recipe = recipe, .n_rows = n_rows, .rng = {mix64(recipe->seed)}};

	t.order = NEW_ARRAY(a, uint32_t, n_rows);
	for (uint32_t i = 0; i < n_rows; i++)
		t.order[i] = i;
	t.pick = NEW_ARRAY(a, uint32_t, recipe->batch);
	t.gradient = NEW_ARRAY(a, float, n->n_weights);
	t.m = NEW_ARRAY(a, float, n->n_weights);
	t.v = NEW_ARRAY(a, float, n->n_weights);
	t.steps = ck_u32(ck_mul(recipe->epochs, (n_rows + (size_t)recipe->batch - 1) / recipe->batch));
	return t;
}

double
net_train(struct net *n, const struct net_sample *rows, uint32_t n_rows, const struct net_sample *target,
    uint32_t n_target, const struct net_recipe *recipe)
{
	struct arena a = {0};
	struct training t = begin(&a, n, recipe, n_rows);
	double weight = 0, loss;

	t.rows = rows;
	t.target = target;
	t.n_target = n_target;
	for (uint32_t i = 0; i < n_rows; i++)
		weight += rows[i].weight;
	for (uint32_t epoch = 0; epoch < recipe->epochs; epoch++) {
		t.loss = 0;
		shuffle(t.order, n_rows, &t.rng);
		for (uint32_t at = 0; at < n_rows; at += recipe->batch)
			batch(&t, at, MIN_OF(recipe->batch, n_rows - at));
	}
	loss = weight > 0 ? t.loss / weight : 0;
	arena_fini(&a);
	return loss;
}
