/* tests/bench/main_heat.c: the kernels of plans, timed as a search times them, beside the whole plans.
 *
 *   bench-heat [--rounds=N] [--threads=N] [--cold] [--kernels] [--csv] PLAN...
 *
 * A round, of each plan: every kernel by itself (a first time) and all of them in turn (timed again), with
 * their operands where the plan says (heat), with --cold all cold too; then the whole plan, and its steps
 * while it runs. What is printed are sums over the plan's steps as ratios to the whole plan of the same
 * round, the median of the rounds, and what the plan's file expected of it as a whole, where that was learned
 * from other plans; --kernels adds each kernel, --csv prints those alone.  Exit status 1 where
 * a sum of first times is further than 15 % from its plan, or their median than 5 %. */
#include "../../schema/plan_file.h"
#include "../../worker/measure_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum way { WARM_FIRST, WARM_AGAIN, COLD_FIRST, COLD_AGAIN, IN_PLAN, WAYS };
enum { MOST_ROUNDS = 15, MOST_PLANS = 64 };
static const char *const way_names[WAYS] = {"first", "again", "cold first", "cold again", "in plan"};
static const double worst = 0.15, middle = 0.05;

struct one { /* a plan with its kernels ready to be timed */
	struct arena a;
	const char *path;
	struct plan plan;
	struct spec *specs;
	struct kernel_code *codes;
	struct measure_kernel *kernels;
	struct str *heats;
	uint32_t *of, n; /* the plan's kernels that are timed: no views */
	uint32_t *steps; /* per kernel of the plan */
	struct bytes module;
	struct plan_exec *exec;
	const void **in;
	void **out;
	int64_t *step_ns;
	double sum[WAYS][MOST_ROUNDS], whole[MOST_ROUNDS],
	    *ns[WAYS]; /* ns: per timed kernel, of the last round */
};

static bool
way_is_cold(enum way w)
{
	return w == COLD_FIRST || w == COLD_AGAIN;
}

static int
by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static double
median_of(const double *v, int n)
{
	double sorted[MOST_PLANS];

	memcpy(sorted, v, (size_t)n * sizeof(*v));
	qsort(sorted, (size_t)n, sizeof(*v), by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ---- making -------------------------------------------------------------------------------------- */
static bool
make_kernels(struct one *o, const struct target *t, struct err *e)
{
	const struct plan *p = &o->plan;
	const struct kernel_code **codes =
	    NEW_ARRAY(&o->a, const struct kernel_code *, MAX_OF(p->n_kernels, 1u));
	struct compile_opts co = {.flags = generate_c_flags(t)};
	struct str *texts;
	uint32_t n_files;

	o->specs = NEW_ARRAY(&o->a, struct spec, MAX_OF(p->n_kernels, 1u));
	o->codes = NEW_ARRAY(&o->a, struct kernel_code, MAX_OF(p->n_kernels, 1u));
	o->kernels = NEW_ARRAY(&o->a, struct measure_kernel, MAX_OF(p->n_kernels, 1u));
	o->heats = NEW_ARRAY(&o->a, struct str, MAX_OF(p->n_kernels, 1u));
	o->of = NEW_ARRAY(&o->a, uint32_t, MAX_OF(p->n_kernels, 1u));
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		const char *symbol = arena_printf(&o->a, "k%u", k);
		uint32_t i = o->n;

		if (plan_kernel_is_view(&p->kernels[k]))
			continue;
		if (!spec_read(&o->a, p->kernels[k].spec, &o->specs[i], e) ||
		    !generate_kernel(&o->a, &o->specs[i], p->kernels[k].schedule, t, symbol, &o->codes[i], e))
			return false;
		o->kernels[i] = (struct measure_kernel){
		    .schedule = p->kernels[k].schedule, .symbol = str_of(symbol), .code = &o->codes[i]};
		codes[i] = &o->codes[i];
		o->heats[i] = plan_heat(p, k);
		o->of[o->n++] = k;
	}
	for (int w = 0; w < WAYS; w++)
		o->ns[w] = NEW_ARRAY(&o->a, double, MAX_OF(o->n, 1u));
	n_files = generate_n_files(o->n, 1, COMPILE_MAX_FILES);
	generate_c_files(&o->a, t, codes, o->n, n_files, &texts, NULL);
	return compile_files(&o->a, texts, n_files, &co, &o->module, e);
}

static void *
buffer(struct arena *a, const struct plan_io *io)
{
	size_t n;
	char *p;

	if (!shape_bytes(&io->shape, io->type, &n))
		bug("a checked plan has an input that does not fit");
	p = arena_alloc(a, n + PLAN_ALIGN);
	return p + (-(uintptr_t)p % PLAN_ALIGN);
}

static bool
make_runner(struct one *o, const struct dev *d, struct err *e)
{
	o->in = NEW_ARRAY(&o->a, const void *, MAX_OF(o->plan.n_inputs, 1u));
	o->out = NEW_ARRAY(&o->a, void *, MAX_OF(o->plan.n_outputs, 1u));
	o->step_ns = NEW_ARRAY(&o->a, int64_t, MAX_OF(o->plan.n_steps, 1u));
	o->steps = NEW_ARRAY(&o->a, uint32_t, MAX_OF(o->plan.n_kernels, 1u));
	for (uint32_t i = 0; i < o->plan.n_steps; i++)
		o->steps[o->plan.steps[i].kernel]++;
	for (uint32_t i = 0; i < o->plan.n_inputs; i++) {
		void *x = buffer(&o->a, &o->plan.inputs[i]);

		fill_plan_input(&o->plan.inputs[i], x, i + 1);
		o->in[i] = x;
	}
	for (uint32_t i = 0; i < o->plan.n_outputs; i++)
		o->out[i] = buffer(&o->a, &o->plan.outputs[i]);
	return plan_exec_open(d, &o->plan, &o->exec, e);
}

static bool
open_one(struct one *o, const char *path, const struct dev *d, const struct target *t, struct err *e)
{
	o->path = realpath(path, NULL); /* whoever times it stands in another folder */
	if (!o->path)
		o->path = path;
	return plan_load(&o->a, path, &o->plan, NULL, e) && /* which names the file itself */
	    ((make_kernels(o, t, e) && make_runner(o, d, e)) || err_in(e, "%s", path));
}

/* ---- a round --------------------------------------------------------------------------------------- */
static bool
time_kernels(struct one *o, struct measure_child *c, const struct calibration *cal, enum way way, int round,
    struct err *e)
{
	struct arena tmp = {0};
	struct measure_item *items = NEW_ARRAY(&tmp, struct measure_item, MAX_OF(o->n, 1u));
	struct measure_batch b = {.module = o->module,
	    .items = items,
	    .n_items = o->n,
	    .calibration = cal,
	    .together = way == WARM_AGAIN || way == COLD_AGAIN,
	    .budget_ns = 10000000,
	    .seed = 1};
	struct m_measured *rows;
	bool ok;

	for (uint32_t i = 0; i < o->n; i++)
		items[i] = (struct measure_item){.spec = &o->specs[i],
		    .heat = way_is_cold(way) ? STR("") : o->heats[i],
		    .kernels = &o->kernels[i],
		    .n_kernels = 1};
	ok = measure_batch_run(c, &tmp, &b, &rows, e);
	o->sum[way][round] = 0;
	for (uint32_t i = 0; ok && i < o->n; i++) {
		const struct m_row *row = &rows[i].row;

		ok = !row->fail ||
		    err_set(e, err_of_wire(row->fail), "kernel %u: %.*s", o->of[i], STR_ARG(row->cause));
		o->ns[way][i] = (double)row->median_ns;
		o->sum[way][round] += (double)row->median_ns * o->steps[o->of[i]];
	}
	arena_fini(&tmp);
	return ok;
}

/* The steps of runs, each by its own median: long ones by the thread's clock, as the whole plan is. */
static void
time_steps(struct one *o, int round)
{
	enum { RUNS = 25 };
	uint32_t n = o->plan.n_steps;
	double *all = heap_alloc(MAX_OF(n, 1u) * RUNS * sizeof(*all));

	for (uint32_t i = 0; i < o->n; i++)
		o->ns[IN_PLAN][i] = 0;
	o->sum[IN_PLAN][round] = 0;
	for (int r = -2; r < RUNS; r++) {
		plan_exec_run(o->exec, o->in, o->out, o->step_ns);
		for (uint32_t s = 0; r >= 0 && s < n; s++)
			all[s * RUNS + (uint32_t)r] = (double)o->step_ns[s];
	}
	for (uint32_t s = 0; s < n; s++) {
		double ns = median_of(&all[s * RUNS], RUNS);

		o->sum[IN_PLAN][round] += ns;
		for (uint32_t i = 0; i < o->n; i++)
			if (o->of[i] == o->plan.steps[s].kernel)
				o->ns[IN_PLAN][i] += ns / o->steps[o->of[i]];
	}
	free(all);
}

static bool
run_round(struct one *o, struct measure_child *c, const struct calibration *cal, int round, bool is_cold,
    struct err *e)
{
	struct m_plan_timed t = {.fail = 0};
	struct arena tmp = {0};
	bool ok;

	for (int w = 0; w < IN_PLAN; w++)
		if ((is_cold || !way_is_cold((enum way)w)) && !time_kernels(o, c, cal, (enum way)w, round, e))
			return false;
	ok = measure_plans(c, &tmp, cal, &o->path, 1, 300000000, 1, &t, e);
	if (ok && t.fail)
		ok = err_set(e, err_of_wire(t.fail), "%.*s", STR_ARG(t.cause));
	arena_fini(&tmp);
	if (!ok)
		return false;
	o->whole[round] = (double)t.timing.median_ns;
	time_steps(o, round);
	return true;
}

/* ---- what is said ------------------------------------------------------------------------------------ */
static void
print_kernels(const struct one *o, bool csv)
{
	for (uint32_t i = 0; i < o->n; i++) {
		char hex[65];

		hash_hex(&o->specs[i].hash, hex);
		printf(csv ? "%s,%.12s,%u,%.*s" : "  %s %.12s x%u %-6.*s", csv ? o->path : "", hex,
		    o->steps[o->of[i]], STR_ARG(o->heats[i]));
		for (int w = 0; w < WAYS; w++)
			printf(csv ? ",%.0f" : " %10.0f", o->ns[w][i]);
		printf(csv ? "\n" : " ns  %.*s\n", STR_ARG(o->plan.kernels[o->of[i]].schedule));
	}
}

static void
print_plan(const struct one *o, int rounds, double *off)
{
	const char *slash = strrchr(o->path, '/');

	printf("%-28s %10.1f us", slash ? slash + 1 : o->path, median_of(o->whole, rounds) / 1e3);
	for (int w = 0; w < WAYS; w++) {
		double ratio[MOST_ROUNDS];

		for (int r = 0; r < rounds; r++)
			ratio[r] = o->sum[w][r] / o->whole[r];
		if (o->sum[w][0] > 0)
			printf(" %11.3f", median_of(ratio, rounds));
		else
			printf(" %11s", "-");
		if (w == WARM_FIRST)
			*off = fabs(median_of(ratio, rounds) - 1);
	}
	if (o->plan.expected_of) /* from other plans */
		printf(" %11.3f", (double)o->plan.expected_ns / median_of(o->whole, rounds));
	printf("\n");
	(void)fflush(stdout);
}

struct asked {
	int rounds, threads; /* that the plans are for */
	bool kernels, csv, cold;
};

static bool
run_all(struct one *ones, int n, const struct asked *q, struct err *e)
{
	struct measure_opts mo = {.device = "cpu", .n_threads = (uint32_t)q->threads};
	struct measure_child *c = NULL;
	struct calibration cal;
	bool ok = measure_open(&mo, &c, e) && measure_calibrate(c, true, &cal, e);

	for (int r = 0; ok && r < q->rounds; r++)
		for (int i = 0; ok && i < n; i++)
			ok = run_round(&ones[i], c, &cal, r, q->cold, e);
	measure_close(c);
	return ok;
}

static bool
report(const struct one *ones, int n, const struct asked *q)
{
	double off[MOST_PLANS], most = 0;

	if (!q->csv) {
		printf("%-28s %13s", "sum of kernels over", "whole plan");
		for (int w = 0; w < WAYS; w++)
			printf(" %11s", way_names[w]);
		printf(" %11s\n", "expected");
	}
	for (int i = 0; i < n; i++) {
		if (!q->csv)
			print_plan(&ones[i], q->rounds, &off[i]);
		if (q->kernels || q->csv)
			print_kernels(&ones[i], q->csv);
	}
	if (q->csv)
		return true;
	for (int i = 0; i < n; i++)
		most = fmax(most, off[i]);
	printf("first times are off by %.1f %% at worst (must %.0f), %.1f %% in the middle (must %.0f)\n",
	    100 * most, 100 * worst, 100 * median_of(off, n), 100 * middle);
	return most <= worst && median_of(off, n) <= middle;
}

int
main(int argc, char **argv)
{
	static struct one ones[MOST_PLANS];
	struct asked q = {.rounds = 5, .threads = 1};
	const char *paths[MOST_PLANS];
	struct target target;
	struct err e = {0};
	struct dev dev;
	enum isa isa;
	int n = 0;
	bool ok;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--kernels") == 0)
			q.kernels = true;
		else if (strcmp(argv[i], "--cold") == 0)
			q.cold = true;
		else if (strcmp(argv[i], "--csv") == 0)
			q.csv = true;
		else if (strncmp(argv[i], "--rounds=", 9) == 0)
			q.rounds = atoi(argv[i] + 9);
		else if (strncmp(argv[i], "--threads=", 10) == 0)
			q.threads = atoi(argv[i] + 10);
		else if (n < MOST_PLANS && argv[i][0] != '-')
			paths[n++] = argv[i];
	}
	if (n == 0 || q.rounds < 1 || q.rounds > MOST_ROUNDS || q.threads < 1) {
		fprintf(stderr,
		    "usage: bench-heat [--rounds=1..%d] [--threads=N] [--cold] [--kernels] [--csv] PLAN...\n",
		    MOST_ROUNDS);
		return 2;
	}
	/* the child that times has the cores of who opened a pool that is pinned: of several threads, one */
	ok = dev_cpu_isa(&isa, &e) && dev_cpu_open((uint32_t)q.threads, q.threads == 1, &dev, &e);
	if (ok) {
		target = *target_of_isa(isa);
		target.winograd = true;
	}
	for (int i = 0; ok && i < n; i++)
		ok = open_one(&ones[i], paths[i], &dev, &target, &e);
	if (ok)
		fprintf(stderr, "bench-heat: the kernels are made; timing\n");
	if (!ok || !run_all(ones, n, &q, &e)) {
		fprintf(stderr, "bench-heat: %s\n", e.msg);
		return 1;
	}
	return report(ones, n, &q) ? 0 : 1;
}
