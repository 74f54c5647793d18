/* tests/bench/main_sure.c: bench-sure [--jobs N] EXPORT... [--teach EXPORT...]: does "within so many percent
 * of the best over all candidates with 95 % confidence" hold?  In eight parts the models' predictor,
 * quantiles and how far down they are taken (daemon/train/sure.h) come from the other models; jobs of the
 * model's own rows are made up, searched, and what would be claimed is compared with the true best.  Beside
 * it the same with medians. */
#include "../../daemon/train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPORT = 1 << 28, USUAL_JOBS = 200 };

struct tally {
	uint32_t n, n_held, n_held_by_middles;
	double *within;
};

static int
by_value(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static bool
add_job(const struct sure_model *m, uint64_t seed, const struct predictor *p, struct tally *t, struct err *e)
{
	struct arena tmp = {0};
	const struct interval *v = &p->head[HEAD_KERNEL].interval;
	struct rng r = {seed};
	struct sure_job job;
	struct sure_end end;
	struct sure_claim low = {0}, middle = {0};
	bool ok;

	sure_job_make(&tmp, &r, m->rows, m->n, &job);
	ok = sure_job_run(&tmp, &r, &job, &end, e) && sure_claim(&end, v, (double)p->sure, &low, e) &&
	    sure_claim(&end, v, 0, &middle, e);
	t->n_held += low.holds;
	t->n_held_by_middles += middle.holds;
	t->within[t->n++] = low.within;
	arena_fini(&tmp);
	return ok;
}

static void
print(const char *what, const struct tally *t)
{
	if (t->n == 0)
		return;
	qsort(t->within, t->n, sizeof(t->within[0]), by_value);
	printf("%u | %.1f | %.1f | %.1f, %.1f, %.1f |%s\n", t->n, 100.0 * t->n_held / t->n,
	    100.0 * t->n_held_by_middles / t->n, 100 * t->within[t->n / 4], 100 * t->within[t->n / 2],
	    100 * t->within[t->n * 3 / 4], what);
	fflush(stdout);
}

enum { PARTS = 8 };

static void
add_tally(struct tally *all, const struct tally *own)
{
	memcpy(all->within + all->n, own->within, own->n * sizeof(own->within[0]));
	all->n += own->n;
	all->n_held += own->n_held;
	all->n_held_by_middles += own->n_held_by_middles;
}

/* p: of what learned from other models; value: what it predicts of all rows. */
static bool
bench_model(const struct train_set *set, uint32_t model, const struct predictor *p, const float *value,
    uint32_t n_jobs, struct tally *all, struct err *e)
{
	struct arena tmp = {0};
	struct tally own = {.within = NEW_ARRAY(&tmp, double, n_jobs)};
	uint32_t n_of = 0, n_rows = 0;
	struct sure_model *of = train_sure_models(&tmp, set, p, value, model, &n_of);
	bool ok = true;

	for (uint32_t k = 0; ok && k < n_jobs && n_of > 0; k++)
		ok = add_job(&of[k % n_of], 1000003 * (uint64_t)(model + 1) + k, p, &own, e);
	for (uint32_t i = 0; ok && i < n_of; i++)
		n_rows += of[i].n;
	if (ok && own.n) {
		printf("| %u | %u | %.2f | ", model + 1, n_rows, (double)p->sure);
		print("", &own);
		add_tally(all, &own);
	}
	arena_fini(&tmp);
	return ok;
}

static bool
bench_part(const struct train_set *set, uint32_t part, uint32_t n_asked, uint32_t n_jobs, struct tally *all,
    struct err *e)
{
	struct arena tmp = {0};
	bool *is_out = NEW_ARRAY(&tmp, bool, set->n_rows), ok;
	struct train_set rest;
	struct predictor p = {0};
	float *value = NEW_ARRAY(&tmp, float, set->n_rows);

	for (uint32_t m = part; m < n_asked; m += PARTS) {
		bool *more = train_leave_out(&tmp, set, m);

		for (uint32_t i = 0; i < set->n_rows; i++)
			is_out[i] |= more[i];
	}
	rest = train_set_without(&tmp, set, is_out);
	ok = train_head(&tmp, &rest, HEAD_KERNEL, &fit_usual, &p.head[HEAD_KERNEL], value, e) &&
	    train_sure(&rest, value, &p, e);
	for (uint32_t i = 0; ok && i < set->n_rows; i++)
		value[i] = (float)forest_value(&p.head[HEAD_KERNEL].f, set->rows[i].flat[HEAD_KERNEL]);
	for (uint32_t m = part; ok && m < n_asked; m += PARTS)
		ok = bench_model(set, m, &p, value, n_jobs, all, e);
	arena_fini(&tmp);
	return ok;
}

static bool
run(struct arena *a, int n_files, char **files, uint32_t n_jobs, struct err *e)
{
	struct train_set set = {0};
	struct tally all = {0};
	uint32_t each, n_asked = UINT32_MAX;

	for (int i = 0; i < n_files; i++) {
		struct bytes file;

		if (strcmp(files[i], "--teach") == 0) {
			n_asked = set.n_models;
			continue;
		}
		if (!os_read_file(os_real(), a, files[i], MOST_EXPORT, &file, e) ||
		    (n_asked == UINT32_MAX ? !train_rows_add(a, &set, files[i], file, e)
					   : !train_rows_teach(a, &set, files[i], file, e)))
			return false;
	}
	train_rows_end(&set);
	n_asked = MIN_OF(n_asked, set.n_models);
	if (n_asked < 2)
		return err_set(e, ERR_USAGE, "rows of two models or more are wanted");
	each = (n_jobs + n_asked - 1) / n_asked;
	all.within = NEW_ARRAY(a, double, (size_t)each *n_asked);
	printf("| model | kernels | factor | jobs | held, %% | with medians | said: within %%, quartiles |\n"
	       "|---|---|---|---|---|---|---|\n");
	for (uint32_t part = 0; part < MIN_OF((uint32_t)PARTS, n_asked); part++)
		if (!bench_part(&set, part, n_asked, each, &all, e))
			return false;
	printf("| all | | | ");
	print("", &all);
	return true;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct err e = {0};
	int64_t n_jobs = USUAL_JOBS;
	int first = 1;
	bool ok = true;

	if (argc > 2 && strcmp(argv[1], "--jobs") == 0) {
		ok = str_to_i64(str_of(argv[2]), &n_jobs) && n_jobs > 0 && n_jobs <= 100000;
		first = 3;
	}
	if (!ok || first >= argc) {
		fprintf(stderr, "bench-sure [--jobs N] EXPORT... [--teach EXPORT...]\n");
		return 2;
	}
	ok = run(&a, argc - first, argv + first, (uint32_t)n_jobs, &e);
	if (!ok)
		fprintf(stderr, "bench-sure: %s\n", e.msg);
	arena_fini(&a);
	return ok ? 0 : 1;
}
