/* tests/bench/main_predict.c: bench-predict EXPORT...: how well times are predicted, on models and devices
 * that training has not seen.  Splits are by model or by device, never by row; a spec of the left-out model
 * is in no training row, whatever model it came with.  Baselines beside: the bound alone, the line of a dozen
 * counts, nearest neighbour.
 *   --teach          the exports behind it are only learned from: blocks, not networks
 *   --only KIND      of its tables: models, kernels, schedules, devices
 *   --again EXPORT...  instead: how far the same kernels are apart that were measured once more: no
 * prediction is nearer than that
 *   --plot FILE.svg  predicted against measured times of left-out models
 *   --speed          instead: how many of the rows, already samples, the shipped predictor answers a second
 */
#include "../../daemon/train/reliability.h"
#include "../../daemon/train/train.h"
#include "../../kernels/predict/first.h"
#include "../../kernels/predict/kin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPORT = 1 << 28 };
enum way { BY_BOUND, BY_LINE, BY_OWN_LINE, BY_NEAREST, BY_WIDE_LINE, BY_PREDICTOR, BY_KIN, WAYS };
static const char *const way_name[WAYS] = {"the bound alone", "the line of 12 counts, other models",
    "... of 50 kernels of the model itself", "nearest neighbour", "a ridge line on all numbers", NULL,
    "... put right by kin among 50 kernels of the model itself"};

struct result {
	double *ratio[WAYS];                /* ln(predicted / measured) of each row asked about */
	double *bound, *truth, *low, *high; /* truth: ln(measured / bound) */
	double *above;                      /* ln(bound / analytic): what is of physics in both */
	uint32_t *row;
	uint32_t n;
	double seconds;
};

static double
distance(const float *a, const float *b, const double *scale)
{
	double sum = 0;

	for (uint32_t k = 0; k < SAMPLE_FLAT; k++) {
		double x = ((double)a[k] - (double)b[k]) * scale[k];

		sum += x * x;
	}
	return sum;
}

static void
find_scale(const struct train_set *set, enum predict_head head, double *scale)
{
	for (uint32_t k = 0; k < SAMPLE_FLAT; k++) {
		double sum = 0, square = 0, n = set->n_rows;

		for (uint32_t i = 0; i < set->n_rows; i++) {
			double v = (double)set->rows[i].flat[head][k];

			sum += v;
			square += v * v;
		}
		square = square / n - sum / n * (sum / n);
		scale[k] = square > 1e-9 ? 1 / sqrt(square) : 0;
	}
}

static double
nearest(
    const struct train_set *set, const struct train_part *p, const struct train_row *row, const double *scale)
{
	double least = INFINITY, value = 0;

	for (uint32_t i = 0; i < set->n_rows; i++) {
		double x;

		if (!train_takes(set, p, i))
			continue;
		x = distance(set->rows[i].flat[p->head], row->flat[p->head], scale);
		if (x < least) {
			least = x;
			value = set->rows[i].log_ratio;
		}
	}
	return value;
}

static uint16_t *
all_leaves(struct arena *a, const struct train_set *set, const struct forest *f)
{
	uint16_t *leaves = NEW_ARRAY(a, uint16_t, (size_t)set->n_rows * MAX_OF(f->n_trees, 1u));

	for (uint32_t i = 0; i < set->n_rows; i++)
		forest_leaves(f, set->rows[i].flat[HEAD_KERNEL], leaves + (size_t)i * f->n_trees);
	return leaves;
}

/* As a job does it (daemon/planner/expect.c): by those of its kernels that are measured. */
static double
shift_of(const struct train_set *set, const struct predictor *p, const uint16_t *leaves, const bool *is_used,
    uint32_t row)
{
	const struct forest *f = &p->head[HEAD_KERNEL].f;
	struct kin kin = {0};

	for (uint32_t i = 0; i < set->n_rows; i++) {
		struct prediction x;
		double weight;

		if (!is_used[i] || i == row || set->rows[i].model != set->rows[row].model)
			continue;
		predict_kernel(p, &set->rows[i].plain, &x);
		weight = kin_weight(
		    leaves + (size_t)i * f->n_trees, leaves + (size_t)row * f->n_trees, f->n_trees);
		kin.left += weight * predict_heard(p, HEAD_KERNEL, &x, set->rows[i].log_ratio - x.log_ratio);
		kin.weight += weight;
	}
	return kin_shift(&kin);
}

/* The line as a job learns it: from others' kernels, or of fifty of its own. */
static void
fit_old_line(const struct train_set *set, const struct train_part *p, bool is_own, uint32_t model,
    struct predict *out, bool *is_used)
{
	enum { OWN = 50 };
	struct arena tmp = {0};
	struct predict_row *rows = NEW_ARRAY(&tmp, struct predict_row, set->n_rows);
	struct train_part all = {HEAD_KERNEL, NULL};
	uint32_t n = 0, n_model = 0, k = 0;

	for (uint32_t i = 0; i < set->n_rows; i++)
		n_model += set->rows[i].model == model && p->is_out[i] && train_takes(set, &all, i);
	for (uint32_t i = 0; i < set->n_rows; i++) {
		bool is_row = is_own
		    ? set->rows[i].model == model && p->is_out[i] && train_takes(set, &all, i)
		    : train_takes(set, p, i);

		if (is_row && is_own) /* spread over them; at most half */
			is_row = (k++ * MIN_OF((uint32_t)OWN, n_model / 2)) % n_model <
			    MIN_OF((uint32_t)OWN, n_model / 2);
		if (!is_row)
			continue;
		is_used[i] |= is_own;
		memcpy(rows[n].x, set->rows[i].line, sizeof(rows[n].x));
		rows[n++].left = set->rows[i].log_ratio - predict_usual;
	}
	predict_fit(rows, n, predict_usual_sigma, out);
	arena_fini(&tmp);
}

static bool
wide_line(struct arena *a, const struct train_set *set, const struct train_part *p, struct forest *out)
{
	uint32_t d = SAMPLE_FLAT, n = 0;
	float *x = NEW_ARRAY(a, float, (size_t)d * set->n_rows), *y = NEW_ARRAY(a, float, set->n_rows);

	for (uint32_t i = 0; i < set->n_rows; i++)
		if (train_takes(set, p, i)) {
			memcpy(x + (size_t)n * d, set->rows[i].flat[p->head], d * sizeof(x[0]));
			y[n++] = (float)set->rows[i].log_ratio;
		}
	fit_line(a, &(struct fit){.x = x, .y = y, .n = n, .d = d, .share = 0.5}, out);
	return true;
}

static void
ask_row(const struct train_set *set, uint32_t i, const struct predictor *p, enum predict_head head,
    struct result *r)
{
	const struct train_row *row = &set->rows[i];
	struct prediction x;

	if (head == HEAD_KERNEL)
		predict_kernel(p, &row->plain, &x);
	else
		predict_sample(p, &row->sample, &x);
	r->ratio[BY_PREDICTOR][r->n] = log(x.ns / row->ns);
	r->low[r->n] = log(predict_quantile(p, head, &x, 0.05) / row->ns);
	r->high[r->n] = log(predict_quantile(p, head, &x, 0.95) / row->ns);
	r->bound[r->n] = row->sample.work_ns;
	r->above[r->n] = (double)row->plain.spec[SPEC_above];
	r->truth[r->n] = row->log_ratio;
	r->row[r->n] = i;
}

/* Everything about the rows left out, added to what there is. */
static bool
split(const struct train_set *set, enum predict_head head, const bool *is_out, const bool *is_asked,
    bool baselines, struct result *r, struct err *e)
{
	struct arena tmp = {0};
	struct train_part p = {head, (bool *)(uintptr_t)is_out}, all = {head, NULL};
	struct train_set rest = train_set_without(&tmp, set, is_out);
	struct predictor trained = {0};
	struct predict line, *own = NEW_ARRAY(&tmp, struct predict, set->n_models);
	uint16_t *leaves = NULL;
	struct forest wide;
	float *value = NEW_ARRAY(&tmp, float, rest.n_rows + 1);
	bool *is_used = NEW_ARRAY(&tmp, bool, set->n_rows);
	double *scale = NEW_ARRAY(&tmp, double, SAMPLE_FLAT);
	bool ok = train_head(&tmp, &rest, head, &fit_usual, &trained.head[head], value, e);

	find_scale(set, head, scale);
	fit_old_line(set, &p, false, 0, &line, is_used);
	for (uint32_t m = 0; m < set->n_models; m++)
		fit_old_line(set, &p, true, m, &own[m], is_used);
	if (ok && head == HEAD_KERNEL)
		leaves = all_leaves(&tmp, set, &trained.head[head].f);
	ok = ok && wide_line(&tmp, set, &p, &wide);
	for (uint32_t i = 0; ok && i < set->n_rows; i++) {
		const struct train_row *row = &set->rows[i];

		if (!is_asked[i] || !train_takes(set, &all, i))
			continue;
		ask_row(set, i, &trained, head, r);
		r->ratio[BY_BOUND][r->n] = -row->log_ratio;
		r->ratio[BY_LINE][r->n] =
		    log(predict_ratio(&line, row->line, predict_usual, 0)) - row->log_ratio;
		r->ratio[BY_OWN_LINE][r->n] = is_used[i]
		    ? NAN
		    : log(predict_ratio(&own[row->model], row->line, predict_usual, 0)) - row->log_ratio;
		r->ratio[BY_KIN][r->n] = is_used[i] || head != HEAD_KERNEL
		    ? NAN
		    : r->ratio[BY_PREDICTOR][r->n] + shift_of(set, &trained, leaves, is_used, i);
		r->ratio[BY_NEAREST][r->n] = baselines ? nearest(set, &p, row, scale) - row->log_ratio : NAN;
		r->ratio[BY_WIDE_LINE][r->n] = fmax(forest_value(&wide, row->flat[head]), 0) - row->log_ratio;
		r->n++;
	}
	arena_fini(&tmp);
	return ok;
}

/* ---- the table ---------------------------------------------------------------------- */
static int
by_value(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static void
ranks(struct arena *a, const double *v, uint32_t n, double *out)
{
	double *sorted = arena_dup(a, v, n * sizeof(v[0]));

	qsort(sorted, n, sizeof(v[0]), by_value);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t lo = 0, hi = n;

		while (lo < hi) {
			uint32_t mid = (lo + hi) / 2;

			if (sorted[mid] < v[i])
				lo = mid + 1;
			else
				hi = mid;
		}
		out[i] = lo;
	}
}

static double
spearman(const double *x, const double *y, uint32_t n)
{
	struct arena tmp = {0};
	double *a = NEW_ARRAY(&tmp, double, n + 1), *b = NEW_ARRAY(&tmp, double, n + 1), xy = 0, xx = 0,
	       yy = 0;

	ranks(&tmp, x, n, a);
	ranks(&tmp, y, n, b);
	for (uint32_t i = 0; i < n; i++) {
		double u = a[i] - (n - 1) / 2.0, v = b[i] - (n - 1) / 2.0;

		xy += u * v;
		xx += u * u;
		yy += v * v;
	}
	arena_fini(&tmp);
	return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

/* Of measured times over what peaks and bandwidths alone say, and over the work that is learned against: the
 * nearer the physics, the less is left to be told in order. */
static void
print_order(double by_analytic, double by_work)
{
	printf(isnan(by_analytic) ? " - |" : " %.3f |", by_analytic);
	printf(isnan(by_work) ? " - |\n" : " %.3f |\n", by_work);
}

static void
print_way(const char *name, const struct result *r, enum way w, double from_ns)
{
	struct arena tmp = {0};
	double *off = NEW_ARRAY(&tmp, double, r->n + 1), *say[2], *truth[2], sum = 0, bias = 0;
	uint32_t n = 0;

	for (int k = 0; k < 2; k++) {
		say[k] = NEW_ARRAY(&tmp, double, r->n + 1);
		truth[k] = NEW_ARRAY(&tmp, double, r->n + 1);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		double x = r->ratio[w][i];

		if (isnan(x) || r->bound[i] * exp(r->truth[i]) < from_ns)
			continue;
		off[n] = fabs(exp(x) - 1);
		for (int k = 0; k < 2; k++) {
			truth[k][n] = r->truth[i] + (k == 0 ? r->above[i] : 0);
			say[k][n] = x + truth[k][n];
		}
		sum += off[n++];
		bias += x;
	}
	if (n > 0) {
		double rho[2] = {spearman(say[0], truth[0], n), spearman(say[1], truth[1], n)};

		qsort(off, n, sizeof(off[0]), by_value);
		printf("| %s | %u | %.1f | %.1f | %.1f | %+.1f |", name, n, 100 * sum / n, 100 * off[n / 2],
		    100 * off[n * 9 / 10], 100 * (exp(bias / n) - 1));
		print_order(rho[0], w == BY_BOUND ? NAN : rho[1]);
	}
	arena_fini(&tmp);
}

static void
print_coverage(const struct result *r, double from_ns)
{
	struct arena tmp = {0};
	double *width = NEW_ARRAY(&tmp, double, r->n + 1);
	uint32_t n = 0, in = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		if (r->bound[i] * exp(r->truth[i]) < from_ns)
			continue;
		width[n++] = exp((r->high[i] - r->low[i]) / 2);
		in += r->low[i] <= 0 && r->high[i] >= 0;
	}
	qsort(width, n, sizeof(width[0]), by_value);
	if (n)
		printf("\n90 %% intervals, calibrated on models left out of the other models: %.1f %% of %u "
		       "covered, width x/ %.2f "
		       "(median)\n",
		    100.0 * in / n, n, width[n / 2]);
	arena_fini(&tmp);
}

/* Of each spec with four schedules or more in one race: the best of the first k as they would be tried, over
 * the true best. */
enum { FIRST = 3, FEWEST = 4 };
struct score {
	double share[FIRST], time[FIRST], best_time;
	uint32_t n;
};

/* Rows from .. end - 1 of the result are one race. */
static void
score_race(const struct train_set *set, const struct result *r, uint32_t from, uint32_t end, struct score *s)
{
	struct arena tmp = {0};
	uint32_t n = end - from, *order = NEW_ARRAY(&tmp, uint32_t, n);
	struct str *schedule = NEW_ARRAY(&tmp, struct str, n);
	double *expected = NEW_ARRAY(&tmp, double, n), best = INFINITY, have = INFINITY;

	for (uint32_t i = 0; i < n; i++) {
		const struct train_row *row = &set->rows[r->row[from + i]];

		schedule[i] = row->schedule;
		expected[i] = row->ns * exp(r->ratio[BY_PREDICTOR][from + i]);
		best = fmin(best, row->ns);
	}
	predict_first(schedule, expected, n, order);
	for (int k = 0; k < FIRST; k++) {
		have = fmin(have, set->rows[r->row[from + order[k]]].ns);
		s->share[k] += best / have;
		s->time[k] += have;
	}
	s->best_time += best;
	s->n++;
	arena_fini(&tmp);
}

static void
print_scores(const struct train_set *set, const struct result *r)
{
	struct score s = {.n = 0};

	for (uint32_t i = 0, end; i < r->n; i = end) {
		for (end = i; end < r->n && train_same_race(&set->rows[r->row[i]], &set->rows[r->row[end]]);)
			end++;
		if (end - i >= FEWEST)
			score_race(set, r, i, end, &s);
	}
	printf("\nSchedules of %u kernels with 4 or more, as they would be tried:", s.n);
	for (int k = 0; k < FIRST && s.n; k++)
		printf(" @%d %.3f (%.1f %% of the sum lost)%s", k + 1, s.share[k] / s.n,
		    100 * (s.time[k] / s.best_time - 1), k + 1 < FIRST ? "," : "\n");
}

static void
print_head(const char *title)
{
	printf("\n**%s**\n\n| | kernels | MAPE | median | P90 | bias | Spearman of time/analytic "
	       "| of time/bound |\n|---|---|---|---|---|---|---|---|\n",
	    title);
}

static void
print_table(const char *title, const struct result *r, double from_ns)
{
	print_head(title);
	for (int w = 0; w < WAYS; w++)
		print_way(way_name[w] ? way_name[w] : fit_method(), r, (enum way)w, from_ns);
}

static struct result
new_result(struct arena *a, uint32_t n)
{
	struct result r = {0};

	for (int w = 0; w < WAYS; w++)
		r.ratio[w] = NEW_ARRAY(a, double, n);
	r.bound = NEW_ARRAY(a, double, n);
	r.above = NEW_ARRAY(a, double, n);
	r.truth = NEW_ARRAY(a, double, n);
	r.low = NEW_ARRAY(a, double, n);
	r.high = NEW_ARRAY(a, double, n);
	r.row = NEW_ARRAY(a, uint32_t, n);
	return r;
}

enum { PARTS = 8 };

/* In eight parts, the specs dealt out: other kernels of the same models are known. */
static bool
by_spec(struct arena *a, const struct train_set *set, uint32_t n_asked, struct result *r, struct err *e)
{
	bool ok = true;

	*r = new_result(a, set->n_rows + 1);
	for (uint32_t part = 0; ok && part < PARTS; part++) {
		struct arena tmp = {0};
		bool *is_out = NEW_ARRAY(&tmp, bool, set->n_rows),
		     *is_asked = NEW_ARRAY(&tmp, bool, set->n_rows);

		for (uint32_t i = 0; i < set->n_rows; i++) {
			is_out[i] = set->rows[i].spec.b[0] % PARTS == part;
			is_asked[i] = is_out[i] && set->rows[i].model < n_asked;
		}
		ok = split(set, HEAD_KERNEL, is_out, is_asked, true, r, e);
		arena_fini(&tmp);
	}
	return ok;
}

/* In eight parts, the first n_asked models dealt out; what a part's models share with others is in no
 * training row. */
static bool
by_model(struct arena *a, const struct train_set *set, uint32_t n_asked, enum predict_head head,
    struct result *r, struct err *e)
{
	bool ok = true;

	*r = new_result(a, set->n_rows + 1);
	for (uint32_t part = 0; ok && part < MIN_OF((uint32_t)PARTS, n_asked); part++) {
		struct arena tmp = {0};
		bool *is_out = NEW_ARRAY(&tmp, bool, set->n_rows),
		     *is_asked = NEW_ARRAY(&tmp, bool, set->n_rows);

		for (uint32_t m = part; m < n_asked; m += PARTS) {
			bool *more = train_leave_out(&tmp, set, m);

			for (uint32_t i = 0; i < set->n_rows; i++) {
				is_out[i] |= more[i];
				is_asked[i] |= set->rows[i].model == m;
			}
		}
		ok = split(set, head, is_out, is_asked, head == HEAD_KERNEL, r, e);
		arena_fini(&tmp);
	}
	return ok;
}

/* A class without its instruction set: "cpu:AMD-EPYC". */
static struct str
machine_of(struct str device_class)
{
	size_t n = device_class.n;

	while (n && device_class.p[n - 1] != '-')
		n--;
	return n ? (struct str){device_class.p, n - 1} : device_class;
}

/* A device is a class of machines, on a number of threads; or a machine with all its classes. */
struct device {
	struct str device_class; /* of no bytes: all */
	uint32_t threads;        /* 0: all */
	bool is_machine;         /* device_class is machine_of() them */
};

static bool
is_of(const struct train_env *env, const struct device *d)
{
	bool is_class = d->is_machine ? str_eq(machine_of(env->device_class), d->device_class)
				      : str_eq(env->device_class, d->device_class);

	return (d->device_class.n == 0 || is_class) && (d->threads == 0 || env->threads == d->threads);
}

/* The first of the device's environments? */
static bool
is_first(const struct train_set *set, uint32_t env, const struct device *d)
{
	for (uint32_t i = 0; i < env; i++)
		if (is_of(&set->envs[i], d))
			return false;
	return true;
}

/* The device is in no training row, but for a twentieth of its kernels where some are seen: those weigh as
 * what a class's own store holds. */
static bool
by_device(struct arena *a, const struct train_set *all, const struct device *d, bool sees_some,
    struct result *r, struct err *e)
{
	struct arena tmp = {0};
	struct train_set set = *all;
	bool *is_out = NEW_ARRAY(&tmp, bool, set.n_rows), ok;

	*r = new_result(a, set.n_rows + 1);
	set.rows = arena_dup(&tmp, all->rows, sizeof(set.rows[0]) * set.n_rows);
	for (uint32_t i = 0; i < set.n_rows; i++) {
		bool is_seen = sees_some && set.rows[i].spec.b[0] < 13; /* of 256 */

		is_out[i] = is_of(&set.envs[set.rows[i].env], d) && !is_seen;
		set.rows[i].is_own = is_of(&set.envs[set.rows[i].env], d) && is_seen;
	}
	ok = split(&set, HEAD_KERNEL, is_out, is_out, true, r, e);
	arena_fini(&tmp);
	return ok;
}

static bool
table_of_device(
    struct arena *a, const struct train_set *set, const struct device *d, const char *name, struct err *e)
{
	static const char *const seen[] = {
	    "learned from the others", "learned from the others and a twentieth of its own kernels"};

	for (int sees = 0; sees < (int)COUNT_OF(seen); sees++) {
		struct result r;

		if (!by_device(a, set, d, sees, &r, e))
			return false;
		print_table(arena_printf(a, "%s, %s, from 10 us up", name, seen[sees]), &r, 1e4);
		print_coverage(&r, 1e4);
	}
	return true;
}

/* Each class on so many threads by the others, other classes of its machine among them; then each machine by
 * other machines. */
static bool
tables_of_devices(
    struct arena *a, const struct train_set *set, uint32_t n_asked, const char *svg, struct err *e)
{
	bool ok = true;

	(void)n_asked;
	(void)svg;
	for (uint32_t i = 1; ok && i < set->n_envs; i++) {
		struct device d = {set->envs[i].device_class, set->envs[i].threads, false};

		if (is_first(set, i, &d))
			ok = table_of_device(a, set, &d,
			    arena_printf(a, "%.*s, threads: %u", STR_ARG(d.device_class), d.threads), e);
	}
	for (uint32_t i = 1; ok && i < set->n_envs; i++) {
		struct device d = {machine_of(set->envs[i].device_class), 0, true};

		if (is_first(set, i, &d))
			ok = table_of_device(
			    a, set, &d, arena_printf(a, "all of %.*s", STR_ARG(d.device_class)), e);
	}
	return ok;
}

static void
plot(const char *path, const struct result *r)
{
	struct arena tmp = {0};
	struct reliability_point *p = NEW_ARRAY(&tmp, struct reliability_point, r->n + 1);
	struct strbuf sb;
	struct err e = {0};

	for (uint32_t i = 0; i < r->n; i++) {
		p[i].measured_ns = r->bound[i] * exp(r->truth[i]);
		p[i].predicted_ns = p[i].measured_ns * exp(r->ratio[BY_PREDICTOR][i]);
	}
	sb_init(&sb, &tmp);
	reliability_svg(&sb, "Kernels of models that were left out", p, r->n);
	if (!os_write_file(os_real(), path, (struct bytes){(const uint8_t *)sb.p, sb.n}, &e)) {
		fprintf(stderr, "bench-predict: %s\n", e.msg);
		exit(74);
	}
	arena_fini(&tmp);
}

/* Those of rows of the device. */
static struct result
part_of(struct arena *a, const struct train_set *set, const struct result *r, const struct device *d)
{
	struct result out = new_result(a, r->n + 1);

	for (uint32_t i = 0; i < r->n; i++) {
		if (!is_of(&set->envs[set->rows[r->row[i]].env], d))
			continue;
		for (int w = 0; w < WAYS; w++)
			out.ratio[w][out.n] = r->ratio[w][i];
		out.bound[out.n] = r->bound[i];
		out.above[out.n] = r->above[i];
		out.truth[out.n] = r->truth[i];
		out.low[out.n] = r->low[i];
		out.high[out.n] = r->high[i];
		out.row[out.n++] = r->row[i];
	}
	return out;
}

static void
table_by_device(struct arena *a, const struct train_set *set, const char *what, const struct result *r)
{
	static const char *const how_many[] = {"one thread", "two threads"};

	for (uint32_t t = 1; t <= COUNT_OF(how_many); t++) {
		struct result all = part_of(a, set, r, &(struct device){.threads = t});

		if (all.n == 0)
			continue;
		print_table(arena_printf(a, "%s, from 10 us up, %s", what, how_many[t - 1]), &all, 1e4);
		print_coverage(&all, 1e4);
		for (uint32_t i = 0; i < set->n_envs; i++) {
			struct device d = {set->envs[i].device_class, t, false};
			struct result part = part_of(a, set, r, &d);

			if (set->envs[i].threads != t || !is_first(set, i, &d) || part.n == 0 ||
			    part.n == all.n)
				continue;
			print_head(
			    arena_printf(a, "... of %.*s, %s", STR_ARG(d.device_class), how_many[t - 1]));
			print_way(fit_method(), &part, BY_PREDICTOR, 1e4);
			print_way(way_name[BY_KIN], &part, BY_KIN, 1e4);
			print_coverage(&part, 1e4);
		}
	}
}

static bool
tables_of_models(
    struct arena *a, const struct train_set *set, uint32_t n_asked, const char *svg, struct err *e)
{
	struct result r;

	if (!by_model(a, set, n_asked, HEAD_KERNEL, &r, e))
		return false;
	table_by_device(a, set, "Another model, best schedule of a kernel", &r);
	print_table("Both", &r, 1e4);
	print_coverage(&r, 1e4);
	print_table("The same, all sizes", &r, 0);
	print_coverage(&r, 0);
	if (svg)
		plot(svg, &r);
	return true;
}

static bool
tables_of_kernels(
    struct arena *a, const struct train_set *set, uint32_t n_asked, const char *svg, struct err *e)
{
	struct result r;

	(void)svg;
	if (!by_spec(a, set, n_asked, &r, e))
		return false;
	table_by_device(a, set, "Other kernels of the same models", &r);
	return true;
}

static bool
tables_of_schedules(
    struct arena *a, const struct train_set *set, uint32_t n_asked, const char *svg, struct err *e)
{
	struct result r;

	(void)svg;
	if (!by_model(a, set, n_asked, HEAD_SCHEDULE, &r, e))
		return false;
	table_by_device(a, set, "Another model, each schedule", &r);
	print_scores(set, &r);
	print_coverage(&r, 1e4);
	return true;
}

static const struct {
	const char *name;
	bool (*print)(
	    struct arena *a, const struct train_set *set, uint32_t n_asked, const char *svg, struct err *e);
} table[] = {{"models", tables_of_models}, {"kernels", tables_of_kernels}, {"schedules", tables_of_schedules},
    {"devices", tables_of_devices}};

/* only: the name of one kind; NULL: all. */
static bool
tables(struct arena *a, const struct train_set *set, uint32_t n_asked, const char *svg, const char *only,
    struct err *e)
{
	bool ok = true, is_any = false;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%u rows of %u models, %u of them asked about; %s\n", set->n_rows, set->n_models, n_asked,
	    fit_method());
	for (size_t i = 0; ok && i < COUNT_OF(table); i++) {
		if (only && strcmp(only, table[i].name) != 0)
			continue;
		is_any = true;
		ok = table[i].print(a, set, n_asked, svg, e);
	}
	return ok &&
	    (is_any || err_set(e, ERR_USAGE, "--only %s: it is models, kernels, schedules or devices", only));
}

/* ---- how sure the times themselves are ---------------------------------------------------------- */
static bool
is_same(const struct train_set *a, const struct train_row *x, const struct train_set *b,
    const struct train_row *y)
{
	return hash_eq(&x->spec, &y->spec) && str_eq(x->schedule, y->schedule) && str_eq(x->heat, y->heat) &&
	    a->envs[x->env].threads == b->envs[y->env].threads &&
	    str_eq(a->envs[x->env].device_class, b->envs[y->env].device_class);
}

/* Both are sorted by spec. */
static void
print_again(const struct train_set *first, const struct train_set *second, uint32_t threads)
{
	struct arena tmp = {0};
	double *off = NEW_ARRAY(&tmp, double, first->n_rows + 1), sum = 0;
	uint32_t n = 0, from = 0;

	for (uint32_t i = 0; i < first->n_rows; i++) {
		const struct train_row *x = &first->rows[i];

		while (from < second->n_rows && hash_cmp(&second->rows[from].spec, &x->spec) < 0)
			from++;
		if (first->envs[x->env].threads != threads || x->ns < 1e4)
			continue;
		for (uint32_t k = from; k < second->n_rows && hash_eq(&second->rows[k].spec, &x->spec); k++)
			if (is_same(first, x, second, &second->rows[k])) {
				off[n] = fabs(second->rows[k].ns / x->ns - 1);
				sum += off[n++];
				break;
			}
	}
	qsort(off, n, sizeof(off[0]), by_value);
	if (n)
		printf("| %u | %u | %.1f | %.1f | %.1f |\n", threads, n, 100 * sum / n, 100 * off[n / 2],
		    100 * off[n * 9 / 10]);
	arena_fini(&tmp);
}

static void
print_both(const struct train_set *first, const struct train_set *second)
{
	enum { MOST_THREADS = 64 };

	printf("The same kernels measured once more, from 10 us up, %% apart\n\n"
	       "| threads | kernels | mean | median | P90 |\n|---|---|---|---|---|\n");
	for (uint32_t t = 1; t <= MOST_THREADS; t++)
		print_again(first, second, t);
}

/* ---- how fast --------------------------------------------------------------------------------- */
static double
a_second(const struct train_set *set, const struct predictor *p, enum predict_head head)
{
	static const double enough = 1; /* second */
	int64_t from = os_real()->mono_ns(NULL);
	double n = 0, seconds = 0;

	while (seconds < enough && set->n_rows > 0) {
		for (uint32_t i = 0; i < set->n_rows; i++) {
			struct prediction x;

			if (head == HEAD_KERNEL)
				predict_kernel(p, &set->rows[i].plain, &x);
			else
				predict_sample(p, &set->rows[i].sample, &x);
		}
		n += set->n_rows;
		seconds = (double)(os_real()->mono_ns(NULL) - from) / 1e9;
	}
	return n / fmax(seconds, 1e-9);
}

static bool
speed(struct arena *a, const struct train_set *set, struct err *e)
{
	struct predictor p;

	if (!predictor_read(a, predictor_shipped(), &p, e))
		return false;
	(void)printf("predictions a second, of %u rows: %.0f of a schedule, %.0f of a kernel's best\n",
	    set->n_rows, a_second(set, &p, HEAD_SCHEDULE), a_second(set, &p, HEAD_KERNEL));
	return true;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct train_set set = {0}, second = {0};
	struct err e = {0};
	const char *svg = NULL, *only = NULL;
	bool ok = true, is_speed = false, is_again = false;
	uint32_t n_asked = UINT32_MAX;

	for (int i = 1; ok && i < argc; i++) {
		struct bytes file;

		if (strcmp(argv[i], "--speed") == 0)
			is_speed = true;
		else if (strcmp(argv[i], "--again") == 0)
			is_again = true;
		else if (strcmp(argv[i], "--teach") == 0)
			n_asked = MIN_OF(n_asked, set.n_models);
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			only = argv[++i];
		else if (strcmp(argv[i], "--plot") == 0 && i + 1 < argc)
			svg = argv[++i];
		else
			ok = os_read_file(os_real(), &a, argv[i], MOST_EXPORT, &file, &e) &&
			    (n_asked == UINT32_MAX
				    ? train_rows_add(&a, is_again ? &second : &set, argv[i], file, &e)
				    : train_rows_teach(&a, &set, argv[i], file, &e));
	}
	train_rows_end(&set);
	train_rows_end(&second);
	if (ok && is_again && second.n_rows == 0)
		ok = err_set(&e, ERR_USAGE, "--again: name exports of the second time behind it");
	if (ok && set.n_rows == 0)
		ok = err_set(&e, ERR_USAGE, "no rows: name files of korch-cache export");
	if (ok && is_again)
		print_both(&set, &second);
	else
		ok = ok &&
		    (is_speed ? speed(&a, &set, &e)
			      : tables(&a, &set, MIN_OF(n_asked, set.n_models), svg, only, &e));
	if (!ok)
		(void)fprintf(stderr, "bench-predict: %s\n", e.msg);
	arena_fini(&a);
	return ok ? 0 : err_exit_status(e.code);
}
