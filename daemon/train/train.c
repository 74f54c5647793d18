/* daemon/train/train.c: both heads, and how far off they are of models that they have not seen. */
#include "net_fit.h"
#include "sure.h"

#include "../../kernels/base/epoch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of more models so many are left out together. */
enum { MOST_FOLDS = 4 };

bool *
train_leave_out(struct arena *a, const struct train_set *set, uint32_t model)
{
	bool *is_out = NEW_ARRAY(a, bool, MAX_OF(set->n_rows, 1u));
	uint32_t end;

	for (uint32_t i = 0; i < set->n_rows; i = end) {
		bool is_model = false;

		for (end = i; end < set->n_rows && hash_eq(&set->rows[end].spec, &set->rows[i].spec); end++)
			is_model |= set->rows[end].model == model;
		for (uint32_t k = i; k < end; k++)
			is_out[k] = is_model;
	}
	return is_out;
}

bool
train_takes(const struct train_set *set, const struct train_part *p, uint32_t row)
{
	return !(p->is_out && p->is_out[row]) && (p->head == HEAD_SCHEDULE || set->rows[row].is_best);
}

bool
train_fit(struct arena *a, const struct train_set *set, const struct train_part *p, struct fit how,
    struct forest *out, struct err *e)
{
	struct arena tmp = {0};
	uint32_t d = SAMPLE_FLAT, n = 0;
	float *x = NEW_ARRAY(&tmp, float, (size_t)d *MAX_OF(set->n_rows, 1u)),
	      *y = NEW_ARRAY(&tmp, float, MAX_OF(set->n_rows, 1u)),
	      *weight = NEW_ARRAY(&tmp, float, MAX_OF(set->n_rows, 1u));
	bool ok;

	for (uint32_t i = 0; i < set->n_rows; i++) {
		if (!train_takes(set, p, i))
			continue;
		memcpy(x + (size_t)n * d, set->rows[i].flat[p->head], d * sizeof(x[0]));
		weight[n] = train_weight(&set->rows[i]);
		y[n++] = (float)set->rows[i].log_ratio;
	}
	how.x = x;
	how.y = y;
	how.weight = weight;
	how.n = n;
	how.d = d;
	ok = fit_forest(a, &how, out, e);
	arena_fini(&tmp);
	return ok;
}

/* ln(time / bound) of every row, by what learned from the part's. */
static bool
ask_part(
    const struct train_set *set, const struct train_part *p, const struct fit *how, float *out, struct err *e)
{
	struct arena tmp = {0};
	struct forest f;
	bool has_network = how->with_network && p->head == HEAD_SCHEDULE, ok;

	if (has_network) {
		struct net n = train_net(&tmp, set, &(struct net_fit){.part = *p, .recipe = net_fit_usual});

		train_net_ask(&n, set, out);
	}
	ok = train_fit(&tmp, set, p, *how, &f, e);
	for (uint32_t i = 0; ok && i < set->n_rows; i++) {
		double value = forest_value(&f, set->rows[i].flat[p->head]);

		out[i] = (float)fmax(has_network ? predict_mean(value, (double)out[i]) : value, 0);
	}
	arena_fini(&tmp);
	return ok;
}

/* Fills in `value` where the row is of one of the fold's models. */
static bool
fold_values(const struct train_set *set, enum predict_head head, uint32_t fold, const struct fit *how,
    float *value, struct err *e)
{
	struct arena tmp = {0};
	bool *is_out = NEW_ARRAY(&tmp, bool, MAX_OF(set->n_rows, 1u));
	struct train_part part = {head, is_out};
	float *all = NEW_ARRAY(&tmp, float, MAX_OF(set->n_rows, 1u));
	bool ok, has_rows = false;

	for (uint32_t m = fold; m < set->n_models; m += MOST_FOLDS) {
		bool *more = train_leave_out(&tmp, set, m);

		for (uint32_t i = 0; i < set->n_rows; i++)
			is_out[i] |= more[i];
	}
	for (uint32_t i = 0; i < set->n_rows; i++)
		has_rows |= set->rows[i].model % MOST_FOLDS == fold;
	ok = !has_rows || ask_part(set, &part, how, all, e);
	for (uint32_t i = 0; ok && i < set->n_rows; i++)
		if (set->rows[i].model % MOST_FOLDS == fold)
			value[i] = all[i];
	arena_fini(&tmp);
	return ok;
}

bool
train_left_out(
    const struct train_set *set, enum predict_head head, const struct fit *how, float *value, struct err *e)
{
	bool ok = true;

	for (uint32_t fold = 0; ok && fold < MIN_OF(set->n_models, (uint32_t)MOST_FOLDS); fold++)
		ok = fold_values(set, head, fold, how, value, e);
	return ok;
}

/* Is every row of generated graphs?  Then there is no better measure than those. */
static bool
all_taught(const struct train_set *set)
{
	for (uint32_t i = 0; i < set->n_rows; i++)
		if (!set->rows[i].is_taught)
			return false;
	return true;
}

/* By what the left-out models' kernels are off, once for each of them.  Generated graphs say nothing there:
 * of 86 models 61 were such, and 85 % of a network's kernels lay in intervals of 90. */
static void
fit_interval(const struct train_set *set, enum predict_head head, const float *value, struct interval *out)
{
	struct arena tmp = {0};
	struct residual *r = NEW_ARRAY(&tmp, struct residual, MAX_OF(set->n_rows, 1u));
	struct train_part all = {head, NULL};
	bool takes_all = all_taught(set);
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n_rows; i++) {
		const struct train_row *row = &set->rows[i];

		if (train_takes(set, &all, i) && (takes_all || !row->is_taught))
			r[n++] = (struct residual){
			    .off = row->log_ratio - (double)value[i],
			    .group = predict_group(&row->sample),
			    .model = row->model,
			};
	}
	interval_fit(r, n, out);
	arena_fini(&tmp);
}

static void
find_limits(struct arena *a, const struct train_set *set, const struct train_part *p, struct predict_model *m)
{
	uint32_t d = SAMPLE_FLAT;
	float *least = NEW_ARRAY(a, float, d), *most = NEW_ARRAY(a, float, d);
	bool is_first = true;

	for (uint32_t i = 0; i < set->n_rows; i++) {
		if (!train_takes(set, p, i))
			continue;
		for (uint32_t k = 0; k < d; k++) {
			float v = set->rows[i].flat[p->head][k];

			least[k] = is_first ? v : fminf(least[k], v);
			most[k] = is_first ? v : fmaxf(most[k], v);
		}
		is_first = false;
	}
	m->least = least;
	m->most = most;
}

static bool
is_of_job(const struct train_row *row, uint32_t model, uint32_t env, bool takes_taught)
{
	return row->model == model && row->env == env && row->is_best && (!row->is_taught || takes_taught);
}

/* Rows of one model on one device, as its jobs would have seen them. */
static struct sure_model
model_rows(struct arena *a, const struct train_set *set, const struct predictor *p, const float *value,
    uint32_t model, uint32_t env)
{
	struct sure_model out = {0};
	bool takes_all = all_taught(set);
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n_rows; i++)
		n += is_of_job(&set->rows[i], model, env, takes_all);
	out.rows = NEW_ARRAY(a, struct sure_spec, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < set->n_rows && out.n < n; i++) {
		const struct train_row *row = &set->rows[i];
		struct sure_spec *s = &out.rows[out.n];
		struct prediction x;

		if (!is_of_job(row, model, env, takes_all))
			continue;
		predict_kernel(p, &row->plain, &x);
		*s = (struct sure_spec){
		    .bound_ns = row->sample.work_ns,
		    .before = x.is_far ? predict_usual : (double)value[i],
		    .truth = row->log_ratio,
		    .group = x.group,
		    .is_far = x.is_far,
		    .is_linear = row->sample.spec[SPEC_n_linear] > 0,
		};
		memcpy(s->line, row->line, sizeof(s->line));
		out.n++;
	}
	return out;
}

struct sure_model *
train_sure_models(struct arena *a, const struct train_set *set, const struct predictor *p, const float *value,
    uint32_t model, uint32_t *n)
{
	struct sure_model *out = NEW_ARRAY(a, struct sure_model, MAX_OF(set->n_envs, 1u));

	*n = 0;
	for (uint32_t env = 0; env < set->n_envs; env++) {
		out[*n] = model_rows(a, set, p, value, model, env);
		*n += out[*n].n > 0;
	}
	return out;
}

bool
train_sure(const struct train_set *set, const float *value, struct predictor *p, struct err *e)
{
	struct arena tmp = {0};
	struct sure_model *all = NULL;
	uint32_t n_all = 0, cap = 0, n;
	bool ok;

	for (uint32_t m = 0; m < set->n_models; m++) {
		struct sure_model *of = train_sure_models(&tmp, set, p, value, m, &n);

		for (uint32_t i = 0; i < n; i++) {
			GROW(&tmp, all, n_all, cap);
			all[n_all++] = of[i];
		}
	}
	ok = sure_fit(all, n_all, &p->head[HEAD_KERNEL].interval, &p->sure, e);
	arena_fini(&tmp);
	return ok;
}

static void
add_network(struct arena *a, const struct train_set *set, struct predictor *out)
{
	struct net *n = NEW(a, struct net);

	*n = train_net(a, set, &(struct net_fit){.part = {HEAD_SCHEDULE, NULL}, .recipe = net_fit_usual});
	out->network = n;
}

static void
describe(const struct train_set *set, struct predictor *out)
{
	out->n_rows = set->n_rows;
	out->n_models = set->n_models;
	out->epoch = SAMPLES_EPOCH;
	for (uint32_t i = 0; i < set->n_rows; i++)
		out->n_specs += i == 0 || !hash_eq(&set->rows[i].spec, &set->rows[i - 1].spec);
	if (set->n_envs)
		(void)snprintf(out->device_class, sizeof(out->device_class), "%.*s",
		    STR_ARG(set->envs[set->n_envs - 1].device_class));
}

bool
train_head(struct arena *a, const struct train_set *set, enum predict_head head, const struct fit *how,
    struct predict_model *out, float *value, struct err *e)
{
	struct train_part all = {head, NULL};

	find_limits(a, set, &all, out);
	if (!train_fit(a, set, &all, *how, &out->f, e) || !train_left_out(set, head, how, value, e))
		return false;
	fit_interval(set, head, value, &out->interval);
	return true;
}

bool
train_predictor(
    struct arena *a, const struct train_set *set, const struct fit *how, struct predictor *out, struct err *e)
{
	float *value = NEW_ARRAY(a, float, MAX_OF(set->n_rows, 1u)),
	      *more = NEW_ARRAY(a, float, MAX_OF(set->n_rows, 1u));

	*out = (struct predictor){0};
	if (set->n_models < 2)
		return err_set(e, ERR_USAGE,
		    "rows of %u models (%u rows, %u failed, %u of another generator epoch, %u unread); how "
		    "far "
		    "predictions are off is learned from models that were left out: give exports with rows "
		    "of two or "
		    "more",
		    set->n_models, set->n_rows, set->n_failed, set->n_other_epoch, set->n_unread);
	for (int h = 0; h < HEADS; h++)
		if (!train_head(
			a, set, (enum predict_head)h, how, &out->head[h], h == HEAD_KERNEL ? value : more, e))
			return false;
	if (!train_sure(set, value, out, e))
		return false;
	if (how->with_network)
		add_network(a, set, out);
	describe(set, out);
	return true;
}
