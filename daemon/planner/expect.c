/* daemon/planner/expect.c: a trained predictor's word, put right by measured kin, and this job's own line
 * over what that leaves. */
#include "expect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
read_given(struct tune *t, struct predictor *p, struct err *e)
{
	const char *path = str_dup(t->arena, t->start.predictor_path);
	struct bytes file;
	struct hash h;

	if (!os_read_file(t->os, t->arena, path, PREDICT_FILE_MAX, &file, e))
		return false;
	h = hash_bytes(file.p, file.n);
	return (hash_eq(&h, &t->start.predictor) ||
		   err_set(e, ERR_FORMAT, "its bytes are others than announced")) &&
	    predictor_read(t->arena, file, p, e);
}

/* Where none is of use, of another generator or other bounds, the job's own line does, as on a device that
 * training has not seen. */
bool
expect_open(struct tune *t, struct err *e)
{
	struct predictor *p = NEW(t->arena, struct predictor);
	struct err why = {0};

	t->predictor = p;
	if (t->start.predictor_path.n) {
		if (read_given(t, p, &why))
			return true;
		if (t->start.predictor_asked) {
			*e = why;
			return err_in(e, "--predictor");
		}
		(void)fprintf(stderr, "what was trained for this class cannot be used: %s\n", why.msg);
	}
	if (!predictor_read(t->arena, predictor_shipped(), p, &why))
		t->predictor = NULL;
	return true;
}

uint16_t *
expect_leaves(const struct tune *t, uint32_t n)
{
	return t->predictor
	    ? NEW_ARRAY(t->arena, uint16_t, ck_mul(n, MAX_OF(t->predictor->head[HEAD_KERNEL].f.n_trees, 1u)))
	    : NULL;
}

static const uint16_t *
find_leaves(const struct tune *t, const struct sample *plain, uint16_t *leaf)
{
	float x[SAMPLE_FLAT];

	sample_flat(plain, x);
	forest_leaves(&t->predictor->head[HEAD_KERNEL].f, x, leaf);
	return leaf;
}

void
expect_spec(struct tune *t, uint32_t spec, const struct cost_parts *parts, uint16_t *leaves)
{
	struct spec_cost *c = &t->cost[spec];
	const struct spec *s = &t->front.cands.specs[spec];
	struct arena tmp = {0};
	struct sample plain;
	struct prediction p = {.is_far = true};

	predict_features(s, parts, c->features);
	if (t->predictor) {
		sample_plain(&tmp, s, &t->target, &t->hw, c->heat, &plain);
		predict_kernel(t->predictor, &plain, &p);
		if (!p.is_far)
			c->leaves = find_leaves(
			    t, &plain, leaves + (size_t)spec * t->predictor->head[HEAD_KERNEL].f.n_trees);
		c->group = p.group;
		arena_fini(&tmp);
	}
	c->is_foreseen = !p.is_far;
	c->before = p.is_far ? predict_usual : p.log_ratio;
	if (!p.is_far) {
		c->less = fmin(log(predict_quantile(t->predictor, HEAD_KERNEL, &p, 0.05) / p.ns), 0);
		c->more = fmax(log(predict_quantile(t->predictor, HEAD_KERNEL, &p, 0.95) / p.ns), 0);
	}
}

static double
weight_for(const struct tune *t, const uint16_t *leaves, uint32_t to)
{
	const uint16_t *its = t->cost[to].leaves;

	return its ? kin_weight(leaves, its, t->predictor->head[HEAD_KERNEL].f.n_trees) : 0;
}

/* To all that are kin of who ends in these leaves, but `but`: what it is off by, more than they heard of it
 * before. */
static void
tell_kin(struct tune *t, const uint16_t *leaves, uint32_t but, double left, double times)
{
	for (uint32_t i = 0; i < t->front.cands.n_specs; i++) {
		double weight = i == but ? 0 : weight_for(t, leaves, i);

		t->cost[i].kin.left += weight * left;
		t->cost[i].kin.weight += weight * times;
	}
}

void
expect_room(struct tune *t, uint32_t n)
{
	t->told = NEW_ARRAY(t->arena, struct told, MAX_OF(n, 1u));
}

/* Of a kernel that the predictor knows nothing of, and that this job has not measured itself. */
static const double hearsay = 1;

static double
within_hearsay(double off)
{
	return fmin(fmax(off, -hearsay), hearsay);
}

const struct told *
expect_sibling(struct tune *t, const struct spec *s, struct str heat, int64_t measured_ns, uint32_t seat)
{
	struct told *x = &t->told[t->n_told++];
	struct arena tmp = {0};
	struct cost_parts parts;
	struct sample plain;
	struct prediction p = {.is_far = true};
	double ratio = log((double)measured_ns / (double)cost_work_ns(s, &t->hw, heat, &parts));

	*x = (struct told){.seat = seat, .ratio = ratio, .off = within_hearsay(ratio - predict_usual)};
	predict_features(s, &parts, x->x);
	if (t->predictor) {
		sample_plain(&tmp, s, &t->target, &t->hw, heat, &plain);
		predict_kernel(t->predictor, &plain, &p);
	}
	if (!p.is_far) {
		x->off = predict_heard(t->predictor, HEAD_KERNEL, &p, ratio - p.log_ratio);
		x->leaves = find_leaves(t, &plain, expect_leaves(t, 1));
		tell_kin(t, x->leaves, UINT32_MAX, x->off, 1);
	}
	arena_fini(&tmp);
	return x;
}

/* The nearest kernel of the same structure speaks for it beside the forest: with twice the weight of the
 * forest's own word (kin.c) where the two are nearly one, with seven tenths of that where height and width
 * are as 1 to 2.  A tenth is left then, about. */
static const double near_weight = 0.1, near_far = 4, near_sigma = 0.11;

void
expect_near(struct tune *t, uint32_t spec, const struct told *x, double apart)
{
	struct spec_cost *c = &t->cost[spec];
	double close = exp(-apart / near_far), was = x->leaves ? weight_for(t, x->leaves, spec) : 0;
	double more = fmax(near_weight * close - was, 0);
	/* what the forest says of one of them alone tells nothing of the other */
	double off = c->leaves && x->leaves ? x->off : within_hearsay(x->ratio - c->before);

	c->kin.left += more * off;
	c->kin.weight += more;
	c->sigma = near_sigma / close;
}

void
expect_begin(struct tune *t)
{
	for (uint32_t i = 0; i < t->front.cands.n_specs; i++) {
		t->cost[i].kin_before = t->cost[i].kin;
		t->has_foreseen |= t->cost[i].is_foreseen;
	}
}

/* Its kin may have heard another number of it before. */
static void
tell_measured(struct tune *t, uint32_t spec)
{
	struct spec_cost *c = &t->cost[spec];
	const struct prediction of = {.group = c->group};
	double left = log((double)c->measured_ns / (double)c->work_ns) - c->before;

	left = predict_heard(t->predictor, HEAD_KERNEL, &of, left);
	if (c->is_told && left == c->told)
		return;
	tell_kin(t, c->leaves, spec, left - c->told, c->is_told ? 0 : 1);
	c->told = left;
	c->is_told = true;
}

/* ln(time / bound) by the predictor and by kin. */
static double
before_line(const struct spec_cost *c)
{
	return c->before + kin_shift(&c->kin);
}

/* What its seat, which has heard it, is still expected to be off by. */
static struct predict_row
row_of_sibling(const struct tune *t, const struct told *x)
{
	struct predict_row row;

	memcpy(row.x, x->x, sizeof(row.x));
	row.left = x->off - kin_shift(&t->cost[x->seat].kin);
	return row;
}

/* What a trained predictor is off by on models that it had not seen, as a standard deviation. */
static double
trained_sigma(const struct predictor *p, uint32_t n_threads)
{
	const struct interval *v = &p->head[HEAD_KERNEL].interval;
	uint32_t from = n_threads > 1 ? INTERVAL_OF_ALIKE : 0;
	double sum = 0;

	for (uint32_t group = from; group < from + INTERVAL_OF_ALIKE; group++)
		sum += (interval_at(v, group, 0.84) - interval_at(v, group, 0.16)) / 2;
	return sum / INTERVAL_OF_ALIKE;
}

void
expect_learn(struct tune *t)
{
	struct arena tmp = {0};
	uint32_t n_specs = t->front.cands.n_specs - t->front.cands.n_views, n = 0;
	struct predict_row *rows = NEW_ARRAY(&tmp, struct predict_row, MAX_OF(n_specs + t->n_told, 1u));

	for (uint32_t i = 0; i < n_specs; i++)
		if (t->cost[i].measured_ns > 0 && t->cost[i].leaves)
			tell_measured(t, i);
	for (uint32_t i = 0; i < t->n_told; i++)
		rows[n++] = row_of_sibling(t, &t->told[i]);
	for (uint32_t i = 0; i < n_specs; i++) {
		const struct spec_cost *c = &t->cost[i];

		if (c->measured_ns <= 0)
			continue;
		memcpy(rows[n].x, c->features, sizeof(c->features));
		rows[n++].left = log((double)c->measured_ns / (double)c->work_ns) - before_line(c);
	}
	predict_fit(rows, n,
	    t->is_foreseen ? trained_sigma(t->predictor, (uint32_t)t->hw.n_threads) : predict_usual_sigma,
	    &t->predict);
	arena_fini(&tmp);
}

void
expect_anew(struct tune *t)
{
	for (uint32_t i = 0; i < t->front.cands.n_specs; i++) {
		t->cost[i].kin = t->cost[i].kin_before;
		t->cost[i].told = 0;
		t->cost[i].is_told = false;
	}
	expect_learn(t);
}

/* Of what is expected of it: the job's, or what a kernel that is nearly it leaves, if that is less. */
static double
sigma_of(const struct tune *t, const struct spec_cost *c)
{
	return c->sigma > 0 ? fmin(c->sigma, t->predict.sigma) : t->predict.sigma;
}

int64_t
expect_ns(const struct tune *t, const struct spec_cost *c, double lean)
{
	double low = before_line(c) - lean * sigma_of(t, c);
	double ns = (double)c->work_ns * predict_ratio(&t->predict, c->features, low, 0);

	return MAX_OF((int64_t)fmin(ns, 1e17), c->bound_ns);
}

/* 90 % of a normal distribution lie within so many deviations of its middle. */
static const double nine_tenths = 1.645;

/* Where the trained predictor has spoken and this job has measured little, what that one was off by on models
 * that it had not seen; else what the job's own line leaves. */
struct expect_range
expect_range(const struct tune *t, const struct spec_cost *c)
{
	enum { FEW = 16 };
	double ns = (double)expect_ns(t, c, 0);

	if (c->measured_ns > 0) {
		ns = (double)c->measured_ns;
		return (struct expect_range){
		    ns, fmax(ns - nine_tenths * c->error_ns, 1), ns + nine_tenths * c->error_ns};
	}
	if (c->more > c->less && t->predict.n < FEW)
		return (struct expect_range){
		    ns, fmax(ns * exp(c->less), (double)c->bound_ns), ns * exp(c->more)};
	return (struct expect_range){
	    ns, (double)expect_ns(t, c, nine_tenths), (double)expect_ns(t, c, -nine_tenths)};
}
