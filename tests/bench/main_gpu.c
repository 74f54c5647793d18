/* tests/bench/main_gpu.c: kernels checked and timed by a worker's device, without a farm: the candidates of
 * models, random graphs, those of a list, and how well the device repeats itself.
 *
 *   bench-gpu [--device=cuda:0] [--precision=f32] [--step=N] [--effort=N] [--graphs=N] [--from=N]
 *             [--repeat=N] [--specs=FILE] [MODEL.onnx...]
 *
 * --repeat=N: the same kernel N times, each in a batch of its own.  --specs=FILE: a list of kernels
 * (gpu_rows.h), one line a row.  Ends with 1 where a kernel is wrong or the device fails; with 78 where there
 * is no such device. */
#include "../../worker/device.h"
#include "../harness/model_candidates.h"
#include "../prop/random_graph.h"
#include "gpu_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, FEW = 4, FAILS = 64 }; /* FEW: of a list, whose rows are wanted soon */

struct args {
	int64_t step, effort, graphs, from, repeat;
	const char *device, *precision, *specs;
	int first_model, n_models;
	char **models;
};
struct totals {
	uint64_t specs, kernels, timed, failed_specs;
	uint64_t fail[FAILS]; /* rows and tasks by class */
	double worst;         /* error over magnitude */
};
struct rig {
	struct arena arena; /* the device's */
	struct device_conf conf;
	struct device d;
	const struct args *args;
	struct totals t;
	struct m_task task[BATCH];
	const struct gpu_row *row[BATCH]; /* of a list; NULL: its rows are only counted */
	uint32_t n;
};
static const atomic_bool never = false;

/* ---- a batch ------------------------------------------------------------------------------------ */
static void
note(struct totals *t, struct str spec, const struct m_outcome *o)
{
	t->specs++;
	if (o->fail) {
		enum err_code c = err_of_wire(o->fail);

		t->fail[MIN_OF((int)c, FAILS - 1)]++;
		t->failed_specs++;
		printf("task: %s: %.*s\n", err_name(c), STR_ARG(o->cause));
		return;
	}
	for (uint32_t i = 0; i < o->n_rows; i++) {
		const struct m_row *r = &o->rows[i];

		t->kernels++;
		t->timed += r->fail == 0;
		if (r->fail) {
			t->fail[MIN_OF((int)err_of_wire(r->fail), FAILS - 1)]++;
			printf("schedule '%.*s': %s: %.*s\n", STR_ARG(r->schedule),
			    err_name(err_of_wire(r->fail)), STR_ARG(r->cause));
			if (err_of_wire(r->fail) != ERR_INFEASIBLE)
				printf("of\n%.*s", STR_ARG(spec));
		} else
			t->worst = fmax(t->worst, r->error);
	}
}

static void
flush(struct rig *r)
{
	struct arena tmp = {0};
	struct m_outcome out[BATCH];

	for (uint32_t i = 0; i < r->n; i++)
		out[i] = (struct m_outcome){.cause = STR(""), .log = STR("")};
	if (r->n)
		r->d.measure(r->d.self, &tmp, r->task, r->n, out);
	for (uint32_t i = 0; i < r->n; i++) {
		note(&r->t, r->task[i].spec, &out[i]);
		for (uint32_t k = 0; r->row[i] && k < out[i].n_rows; k++)
			gpu_row_print(r->row[i], &r->d.env, &out[i].rows[k]);
	}
	(void)fflush(stdout); /* who is ended by a time limit keeps what it has */
	r->n = 0;
	arena_fini(&tmp);
}

static void
add_row(struct rig *r, struct str spec, struct str precision, struct str schedule, const struct gpu_row *row)
{
	r->row[r->n] = row;
	r->task[r->n++] = (struct m_task){.spec = spec,
	    .effort = (uint64_t)r->args->effort,
	    .threads = 1,
	    .precision = precision,
	    .schedule = schedule};
	if (r->n == (row ? FEW : BATCH))
		flush(r);
}

static void
add(struct rig *r, struct str spec)
{
	add_row(r, spec, str_of(r->args->precision), STR(""), NULL);
}

static void
print(const struct rig *r, const char *what)
{
	printf(
	    "%s: %llu specs, %llu kernels, %llu right and timed, %llu specs without any; largest error %.2g;",
	    what, (unsigned long long)r->t.specs, (unsigned long long)r->t.kernels,
	    (unsigned long long)r->t.timed, (unsigned long long)r->t.failed_specs, r->t.worst);
	for (int c = 1; c < FAILS; c++)
		if (r->t.fail[c])
			printf(" %s %llu", err_name((enum err_code)c), (unsigned long long)r->t.fail[c]);
	printf("\n");
}

/* What cannot be done is no fault; what is done wrongly is. */
static bool
is_good(const struct totals *t)
{
	for (int c = 1; c < FAILS; c++)
		if (t->fail[c] && c != ERR_INFEASIBLE)
			return false;
	return t->timed > 0;
}

/* ---- what is measured ------------------------------------------------------------------------------ */
static bool
run_model(struct rig *r, const char *file, struct err *e)
{
	struct arena a = {0};
	struct cand_set cs;
	bool ok = model_candidates(&a, file, &cs, e);

	r->t = (struct totals){0};
	for (int64_t i = 0; ok && i < cs.n_specs; i += r->args->step)
		add(r, cs.specs[i].text);
	flush(r);
	if (ok)
		print(r, file);
	ok = ok && (is_good(&r->t) || err_set(e, ERR_WRONG, "%s: not all kernels are right", file));
	arena_fini(&a);
	return ok;
}

static bool
run_graphs(struct rig *r, struct err *e)
{
	struct arena a = {0};

	r->t = (struct totals){0};
	for (int64_t i = r->args->from; i < r->args->graphs; i++) {
		struct rng rng = {(uint64_t)i + 1};
		struct random_opts o = {.n_nodes = 2 + rng_below(&rng, 14),
		    .kinds = RG_ALL & ~(uint32_t)RG_OPAQUE,
		    .chain = rng_below(&rng, 2),
		    .max_extent = rng_below(&rng, 4) ? 9 : 40,
		    .max_elements = 20000};
		struct graph g, sorted;
		struct spec *s = NEW(&a, struct spec);

		random_graph(&g, &a, &rng, &o);
		graph_sort(&sorted, &a, &g, NULL);
		spec_of_graph(&a, &sorted, s);
		add(r, s->text);
	}
	flush(r);
	print(r, "random graphs");
	arena_fini(&a);
	return is_good(&r->t) || err_set(e, ERR_WRONG, "random graphs: not all kernels are right");
}

static bool
run_specs(struct rig *r, struct err *e)
{
	struct arena a = {0};
	struct gpu_row *rows;
	uint32_t n;
	bool ok = gpu_rows_read(&a, r->args->specs, (int)r->d.env.hw.sm, &rows, &n, e);

	r->t = (struct totals){0};
	for (uint32_t i = 0; ok && i < n; i++)
		add_row(r, rows[i].spec.text, rows[i].precision, rows[i].schedule, &rows[i]);
	flush(r);
	if (ok)
		print(r, r->args->specs);
	ok = ok && (is_good(&r->t) || err_set(e, ERR_WRONG, "%s: not all kernels are right", r->args->specs));
	arena_fini(&a);
	return ok;
}

static int
by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static bool
run_repeats(struct rig *r, struct err *e)
{
	static const char text[] =
	    "spec 1\n%0 = input f32[1024,1024]\n%1 = exp %0 : f32[1024,1024]\noutput %1\n";
	struct arena a = {0};
	int64_t n = r->args->repeat, *ns = NEW_ARRAY(&a, int64_t, (size_t)MAX_OF(n, (int64_t)1));

	for (int64_t i = 0; i < n; i++) {
		struct m_task t = {.spec = str_of(text),
		    .effort = 1,
		    .threads = 1,
		    .precision = STR("f32"),
		    .schedule = STR("")};
		struct m_outcome o = {.cause = STR(""), .log = STR("")};

		r->d.measure(r->d.self, &a, &t, 1, &o);
		if (o.fail || o.n_rows != 1 || o.rows[0].fail)
			return err_set(e, ERR_FAILED, "repeat %lld: %.*s", (long long)i,
			    STR_ARG(o.fail || !o.n_rows ? o.cause : o.rows[0].cause));
		ns[i] = o.rows[0].median_ns;
	}
	if (n) {
		qsort(ns, (size_t)n, sizeof(*ns), by_size);
		printf("repeats: %lld medians from %lld to %lld ns, %.2f %% apart\n", (long long)n,
		    (long long)ns[0], (long long)ns[n - 1],
		    100.0 * (double)(ns[n - 1] - ns[0]) / (double)ns[n / 2]);
	}
	arena_fini(&a);
	return true;
}

/* ---- calling ------------------------------------------------------------------------------------------ */
static bool
read_arg(struct args *args, char *arg)
{
	struct str value = str_of(arg), name = str_cut(&value, '=');
	const struct {
		const char *name;
		int64_t *to;
	} numbers[] = {{"--step", &args->step}, {"--effort", &args->effort}, {"--graphs", &args->graphs},
	    {"--from", &args->from}, {"--repeat", &args->repeat}};

	for (size_t i = 0; i < COUNT_OF(numbers); i++)
		if (str_is(name, numbers[i].name))
			return str_to_i64(value, numbers[i].to) && *numbers[i].to >= 0 &&
			    *numbers[i].to <= 1000000;
	if (str_is(name, "--device"))
		args->device = value.p;
	else if (str_is(name, "--precision"))
		args->precision = value.p;
	else if (str_is(name, "--specs"))
		args->specs = value.p;
	else if (arg[0] != '-')
		args->models[args->n_models++] = arg;
	else
		return false;
	return true;
}

int
main(int argc, char **argv)
{
	struct args args = {.step = 1, .effort = 1, .device = "cuda:0", .precision = "f32"};
	struct rig r = {.args = &args, .conf = {.compiler = "", .cancel = &never}};
	struct err e = {0};
	bool ok = true, is_open;

	args.models = NEW_ARRAY(&r.arena, char *, (size_t)argc);
	for (int i = 1; i < argc; i++)
		if (!read_arg(&args, argv[i]) || args.step < 1) {
			fprintf(stderr,
			    "usage: bench-gpu [--device=cuda:0] [--precision=f32|tf32:TOLERANCE...] "
			    "[--step=N] [--effort=N]"
			    " [--graphs=N] [--from=N] [--repeat=N] [--specs=FILE] [MODEL.onnx...]\n");
			return 2;
		}
	ok = is_open = device_open(&r.arena, str_of(args.device), &r.conf, &r.d, &e);
	if (ok) {
		printf("device %s\n%.*s", r.d.class, STR_ARG(r.d.env.key));
		gpu_calibration_print(&r.d);
	}
	ok = ok && run_repeats(&r, &e) && (!args.specs || run_specs(&r, &e)) &&
	    (args.graphs == 0 || run_graphs(&r, &e));
	for (int i = 0; i < args.n_models && ok; i++)
		ok = run_model(&r, args.models[i], &e);
	if (!ok)
		fprintf(stderr, "bench-gpu: %s\n", e.msg);
	if (is_open)
		r.d.close(r.d.self);
	arena_fini(&r.arena);
	return ok ? 0 : err_exit_status(e.code);
}
