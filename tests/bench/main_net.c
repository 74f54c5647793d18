/* tests/bench/main_net.c: bench-net EXPORT...: the network beside the trees and their mean, on the splits of
 * bench-predict: models and devices that training has not seen.  A device is a number of threads; of one that
 * is new a twentieth of its kernels may be measured, picked by KMeans or by chance. */
#include "../../daemon/train/net_fit.h"
#include "../../schema/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPORT = 1 << 28, ONE_IN = 20, OWN_WEIGHT = 4 };
enum way { BY_TREES, BY_NET, BY_CMD, BY_MEAN, BY_MEAN_CMD, WAYS };
static const char *const way_name[WAYS] = {
    NULL, "network", "network with CMD", "mean of both", "mean, with CMD"};

struct result {
	float *off[WAYS]; /* ln(predicted / measured) of each row of the set; NAN: not asked */
	double seconds[WAYS];
};

static struct result
new_result(struct arena *a, const struct train_set *set)
{
	struct result r;

	memset(&r, 0, sizeof(r));
	for (int w = 0; w < WAYS; w++) {
		r.off[w] = NEW_ARRAY(a, float, set->n_rows);
		for (uint32_t i = 0; i < set->n_rows; i++)
			r.off[w][i] = NAN;
	}
	return r;
}

static double
now(void)
{
	return (double)os_real()->mono_ns(NULL) / 1e9;
}

static void
keep(const struct train_set *set, const float *value, const bool *is_asked, float *off)
{
	for (uint32_t i = 0; i < set->n_rows; i++)
		if (is_asked[i])
			off[i] = value[i] - (float)set->rows[i].log_ratio;
}

static bool
ask_trees(const struct train_set *set, const struct train_part *p, float *value, struct err *e)
{
	struct arena tmp = {0};
	struct forest f;
	bool ok = train_fit(&tmp, set, p, fit_usual, &f, e);

	for (uint32_t i = 0; ok && i < set->n_rows; i++)
		value[i] = (float)fmax(forest_value(&f, set->rows[i].flat[HEAD_SCHEDULE]), 0);
	arena_fini(&tmp);
	return ok;
}

static void
ask_net(const struct train_set *set, const struct train_part *p, const bool *is_target, const float *weight,
    float *value)
{
	struct arena tmp = {0};
	struct net_fit fit = {*p, is_target, weight, net_fit_usual};
	struct net n = train_net(&tmp, set, &fit);

	train_net_ask(&n, set, value);
	arena_fini(&tmp);
}

/* Trained without what is out, asked about is_asked. */
static bool
split(const struct train_set *set, bool *is_out, const bool *is_asked, const float *weight, struct result *r,
    struct err *e)
{
	struct arena tmp = {0};
	struct train_part p = {HEAD_SCHEDULE, is_out};
	float *value[WAYS];
	bool ok;

	for (int w = 0; w < WAYS; w++)
		value[w] = NEW_ARRAY(&tmp, float, set->n_rows);
	r->seconds[BY_TREES] -= now();
	ok = ask_trees(set, &p, value[BY_TREES], e);
	r->seconds[BY_TREES] += now();
	for (int w = BY_NET; ok && w <= BY_CMD; w++) {
		r->seconds[w] -= now();
		ask_net(set, &p, w == BY_CMD ? is_asked : NULL, weight, value[w]);
		r->seconds[w] += now();
	}
	for (uint32_t i = 0; i < set->n_rows; i++) {
		value[BY_MEAN][i] = (value[BY_TREES][i] + value[BY_NET][i]) / 2;
		value[BY_MEAN_CMD][i] = (value[BY_TREES][i] + value[BY_CMD][i]) / 2;
	}
	for (int w = 0; ok && w < WAYS; w++)
		keep(set, value[w], is_asked, r->off[w]);
	arena_fini(&tmp);
	return ok;
}

static int
by_value(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static void
print_way(const struct train_set *set, const struct result *r, int w, bool best_only, double from_ns)
{
	struct arena tmp = {0};
	double *off = NEW_ARRAY(&tmp, double, set->n_rows + 1), sum = 0, bias = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n_rows; i++) {
		double x = r->off[w][i];

		if (isnan(x) || set->rows[i].ns < from_ns || (best_only && !set->rows[i].is_best))
			continue;
		off[n] = fabs(exp(x) - 1);
		sum += off[n++];
		bias += x;
	}
	qsort(off, n, sizeof(off[0]), by_value);
	if (n > 0)
		printf("| %s | %u | %.1f | %.1f | %.1f | %+.1f | %.0f |\n",
		    way_name[w] ? way_name[w] : fit_method(), n, 100 * sum / n, 100 * off[n / 2],
		    100 * off[n * 9 / 10], 100 * (exp(bias / n) - 1), r->seconds[w]);
	arena_fini(&tmp);
}

static void
print_table(
    const char *title, const struct train_set *set, const struct result *r, bool best_only, double from_ns)
{
	printf("\n**%s**\n\n| | rows | MAPE | median | P90 | bias | s of training "
	       "|\n|---|---|---|---|---|---|---|\n",
	    title);
	for (int w = 0; w < WAYS; w++)
		print_way(set, r, w, best_only, from_ns);
	(void)fflush(stdout);
}

/* All models in FOLDS parts; each part's kernels by what learned from the others'. */
static bool
by_model(const struct train_set *set, struct err *e)
{
	enum { FOLDS = 4 };
	struct arena a = {0};
	struct result r = new_result(&a, set);
	bool ok = true;

	for (uint32_t fold = 0; ok && fold < FOLDS; fold++) {
		bool *is_out = NEW_ARRAY(&a, bool, set->n_rows), *is_asked = NEW_ARRAY(&a, bool, set->n_rows);

		for (uint32_t m = fold; m < set->n_models; m += FOLDS) {
			const bool *more = train_leave_out(&a, set, m);

			for (uint32_t i = 0; i < set->n_rows; i++)
				is_out[i] |= more[i];
		}
		for (uint32_t i = 0; i < set->n_rows; i++)
			is_asked[i] = set->rows[i].model % FOLDS == fold;
		ok = split(set, is_out, is_asked, NULL, &r, e);
	}
	if (ok) {
		print_table("Another model, best schedule of a kernel, from 10 us up", set, &r, true, 1e4);
		print_table("Another model, each schedule, from 10 us up", set, &r, false, 1e4);
		print_table("Another model, each schedule, all sizes", set, &r, false, 0);
	}
	arena_fini(&a);
	return ok;
}

/* Rows of the specs that those have, on devices of so many threads, are measured. */
static void
mark_specs(const struct train_set *set, const uint32_t *picks, uint32_t n, uint32_t threads, bool *is_seen)
{
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t i = 0; i < set->n_rows; i++)
			is_seen[i] |= set->envs[set->rows[i].env].threads == threads &&
			    hash_eq(&set->rows[i].spec, &set->rows[picks[k]].spec);
}

enum seeing { SEES_NONE, BY_CHANCE, BY_KMEANS, SEEINGS };
static const char *const seeing_name[SEEINGS] = {"nothing measured there",
    "a twentieth of its kernels, by chance", "a twentieth of its kernels, by KMeans"};

static bool
by_device(const struct train_set *set, uint32_t threads, enum seeing how, struct err *e)
{
	struct arena a = {0};
	struct result r = new_result(&a, set);
	bool *may = NEW_ARRAY(&a, bool, set->n_rows), *is_seen = NEW_ARRAY(&a, bool, set->n_rows),
	     *is_out = NEW_ARRAY(&a, bool, set->n_rows), ok;
	float *weight = NEW_ARRAY(&a, float, set->n_rows);
	uint32_t *picks = NEW_ARRAY(&a, uint32_t, set->n_rows), n = 0, k = 0;
	char title[160];

	for (uint32_t i = 0; i < set->n_rows; i++) {
		may[i] = set->envs[set->rows[i].env].threads == threads && set->rows[i].is_best;
		if (may[i])
			picks[n++] = i;
	}
	if (how == BY_KMEANS)
		k = train_pick(set, may, n / ONE_IN, picks);
	for (uint32_t i = 0; how == BY_CHANCE && i < n; i++)
		if (set->rows[picks[i]].spec.b[0] < 256 / ONE_IN)
			picks[k++] = picks[i];
	mark_specs(set, picks, k, threads, is_seen);
	for (uint32_t i = 0; i < set->n_rows; i++) {
		is_out[i] = set->envs[set->rows[i].env].threads == threads && !is_seen[i];
		weight[i] = is_seen[i] ? OWN_WEIGHT : 1;
	}
	ok = n == 0 || split(set, is_out, is_out, weight, &r, e);
	(void)snprintf(title, sizeof(title), "%u threads, learned from others; %s (%u of %u)", threads,
	    seeing_name[how], k, n);
	if (ok && n)
		print_table(title, set, &r, false, 1e4);
	arena_fini(&a);
	return ok;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct train_set set = {0};
	struct err e = {0};
	bool ok = true;

	for (int i = 1; ok && i < argc; i++) {
		struct bytes file;

		ok = os_read_file(os_real(), &a, argv[i], MOST_EXPORT, &file, &e) &&
		    train_rows_add(&a, &set, argv[i], file, &e);
	}
	train_rows_end(&set);
	printf("%u rows of %u models\n", set.n_rows, set.n_models);
	ok = ok && by_model(&set, &e);
	for (int how = 0; ok && how < SEEINGS; how++)
		ok = by_device(&set, 2, (enum seeing)how, &e);
	if (!ok)
		(void)fprintf(stderr, "bench-net: %s\n", e.msg);
	arena_fini(&a);
	return ok ? 0 : err_exit_status(e.code);
}
