/* tests/bench/main_runtime.c: bench-runtime PLAN.korch: how long the plan takes to open; its
 * kernels measured twice in two processes: how many agree within 2 % and 5 %, and whether any is
 * below its bound (D16: then the bound's constants are wrong). */
#include "../../kernels/generate/generate.h"
#include "../../schema/plan_file.h"
#include "../../worker/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPENINGS = 7 };

static int
quit(const struct err *e)
{
	(void)fprintf(stderr, "bench-runtime: %s\n", e->msg);
	return err_exit_status(e->code);
}

static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static bool
time_opening(const char *path, struct err *e)
{
	const struct os *os = os_real();
	int64_t ns[OPENINGS];

	for (int i = 0; i < OPENINGS; i++) {
		struct arena a = {0};
		struct plan_exec *x = NULL;
		struct plan p;
		struct dev d = {0};
		int64_t from = os->mono_ns(os->self);
		bool ok = plan_load(&a, path, &p, NULL, e) && dev_cpu_open(p.n_threads, false, &d, e) &&
		    plan_exec_open(&d, &p, &x, e);

		ns[i] = os->mono_ns(os->self) - from;
		plan_exec_close(x);
		if (d.close)
			d.close(d.self);
		arena_fini(&a);
		if (!ok)
			return false;
	}
	qsort(ns, OPENINGS, sizeof(ns[0]), by_value);
	printf("open: median %.1f ms, min %.1f ms\n", (double)ns[OPENINGS / 2] / 1e6, (double)ns[0] / 1e6);
	return true;
}

struct set { /* the plan's kernels, generated and compiled again */
	struct measure_item *items;
	struct measure_kernel *kernels;
	struct kernel_code *codes;
	struct spec *specs;
	uint32_t n;
	struct bytes module;
};

static bool
make_set(struct arena *a, const struct plan *p, const struct target *t, struct set *s, struct err *e)
{
	struct compile_opts o = {.flags = generate_c_flags(t)};
	struct strbuf sb;

	*s = (struct set){.items = NEW_ARRAY(a, struct measure_item, p->n_kernels),
	    .kernels = NEW_ARRAY(a, struct measure_kernel, p->n_kernels),
	    .codes = NEW_ARRAY(a, struct kernel_code, p->n_kernels),
	    .specs = NEW_ARRAY(a, struct spec, p->n_kernels),
	    .n = p->n_kernels};
	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, t));
	for (uint32_t i = 0; i < s->n; i++) {
		char *symbol = arena_printf(a, "k%u", i);

		if (!spec_read(a, p->kernels[i].spec, &s->specs[i], e) ||
		    !generate_kernel(a, &s->specs[i], p->kernels[i].schedule, t, symbol, &s->codes[i], e))
			return false;
		sb_add(&sb, s->codes[i].text);
		s->kernels[i] = (struct measure_kernel){
		    .schedule = p->kernels[i].schedule, .symbol = str_of(symbol), .code = &s->codes[i]};
		s->items[i] =
		    (struct measure_item){.spec = &s->specs[i], .kernels = &s->kernels[i], .n_kernels = 1};
	}
	return compile_c(a, sb_str(&sb), &o, &s->module, e);
}

/* In a child of its own. */
static bool
measure(struct arena *a, const struct set *s, const struct calibration *c, uint32_t threads,
    struct m_measured **rows, struct err *e)
{
	struct measure_opts o = {.n_threads = threads};
	struct measure_batch b = {
	    .module = s->module, .items = s->items, .n_items = s->n, .calibration = c, .seed = 1};
	struct measure_child *child;
	bool ok;

	if (!measure_open(&o, &child, e))
		return false;
	ok = measure_batch_run(child, a, &b, rows, e);
	measure_close(child);
	return ok;
}

static void
report(
    const struct set *s, const struct calibration *c, const struct m_measured *x, const struct m_measured *y)
{
	uint32_t n = 0, near2 = 0, near5 = 0, below = 0;

	printf("%6s %12s %12s %8s %10s\n", "kernel", "first us", "second us", "ratio", "of bound");
	for (uint32_t i = 0; i < s->n; i++) {
		int64_t bound = cost_bound_ns(&s->specs[i], &c->hw, NULL),
			best = MIN_OF(x[i].row.median_ns, y[i].row.median_ns);
		double ratio = (double)y[i].row.median_ns / (double)MAX_OF(x[i].row.median_ns, (int64_t)1),
		       off = ratio < 1 ? 1 / ratio : ratio;

		if (x[i].row.fail || y[i].row.fail) {
			printf("%6u %.*s%.*s\n", i, STR_ARG(x[i].row.cause), STR_ARG(y[i].row.cause));
			continue;
		}
		n++;
		near2 += off <= 1.02;
		near5 += off <= 1.05;
		below += best < bound;
		printf("%6u %12.2f %12.2f %8.3f %9.0f%%%s\n", i, (double)x[i].row.median_ns / 1e3,
		    (double)y[i].row.median_ns / 1e3, ratio,
		    100 * (double)bound / (double)MAX_OF(best, (int64_t)1),
		    best < bound ? "  BELOW ITS BOUND" : "");
	}
	printf("%u kernels: %u agree within 2 %%, %u within 5 %%, %u below their bound\n", n, near2, near5,
	    below);
}

static bool
time_kernels(struct arena *a, const char *path, struct err *e)
{
	struct measure_opts o = {.n_threads = 1};
	struct m_measured *x, *y;
	struct measure_child *child;
	struct calibration c;
	struct plan p;
	struct set s;
	bool ok;

	if (!plan_load(a, path, &p, NULL, e))
		return false;
	o.n_threads = p.n_threads;
	if (!measure_open(&o, &child, e))
		return false;
	ok = measure_calibrate(child, false, &c, e);
	measure_close(child);
	if (!ok || !make_set(a, &p, &c.target, &s, e) || !measure(a, &s, &c, p.n_threads, &x, e) ||
	    !measure(a, &s, &c, p.n_threads, &y, e))
		return false;
	report(&s, &c, x, y);
	return true;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct err e = {0};

	if (argc != 2) {
		(void)fprintf(stderr, "usage: bench-runtime PLAN.korch\n");
		return 2;
	}
	if (!time_opening(argv[1], &e) || !time_kernels(&a, argv[1], &e))
		return quit(&e);
	arena_fini(&a);
	return 0;
}
