/* client/main_korch_run.c: korch-run: runs a plan, or a model by one made at once: inputs, checks, times,
 * profile. */
#include "host_tensor.h"
#include "plan_away.h"
#include "plan_trust.h"
#include "run_model.h"
#include "run_report.h"

#include "../kernels/base/opt.h"
#include "../kernels/device/streams.h"
#include "../kernels/run/exec.h"
#include "../schema/plan_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MIN_SAMPLES = 11, MAX_SAMPLES = 100000 };
/* Of a plan until its median is steady; of a model, whose answer somebody waits for, what this time allows.
 */
static const int64_t steady_ns = 1000000000, at_once_ns = 333000000;

struct run {
	struct arena *arena;
	const struct opts *o;
	struct run_model model; /* .model NULL: a plan was given */
	struct plan plan;
	struct plan_host host;
	struct runner *runner;
	struct host_tensor *inputs, *outputs; /* by number */
};

/* ---- inputs ------------------------------------------------------------------------------ */
static bool
fits(const struct plan_io *io, const struct host_tensor *t, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;

	if (io->type == t->type && shape_eq(&io->shape, &t->shape))
		return true;
	sb_init(&sb, &tmp);
	sb_addf(&sb, "input \"%.*s\" is %s", STR_ARG(io->name), dtype_name(io->type));
	shape_print(&sb, &io->shape);
	sb_addf(&sb, " and was given %s", dtype_name(t->type));
	shape_print(&sb, &t->shape);
	err_set(e, ERR_USAGE, "%s", sb.p);
	arena_fini(&tmp);
	return false;
}

static bool
find_input(const struct plan *p, struct str name, uint32_t *out, struct err *e)
{
	for (uint32_t i = 0; i < p->n_inputs; i++)
		if (str_eq(p->inputs[i].name, name)) {
			*out = i;
			return true;
		}
	if (!p->n_inputs)
		return err_set(e, ERR_USAGE, "--input %.*s: the plan has no inputs", STR_ARG(name));
	return err_set(e, ERR_USAGE, "--input %.*s: the plan has no such input; its first is \"%.*s\"",
	    STR_ARG(name), STR_ARG(p->inputs[0].name));
}

static bool
random_inputs(struct run *r, struct err *e)
{
	struct rng rng = {(uint64_t)opt_int(r->o, OPT_seed)};

	for (uint32_t i = 0; i < r->plan.n_inputs; i++) {
		const struct plan_io *io = &r->plan.inputs[i];

		if (!host_tensor_make(r->arena, io->type, &io->shape, &r->inputs[i], e))
			return err_in(e, "input \"%.*s\"", STR_ARG(io->name));
		host_tensor_random(&r->inputs[i], &rng);
	}
	return true;
}

static bool
given_inputs(struct run *r, struct err *e)
{
	for (uint32_t k = 0; k < opt_n(r->o, OPT_input); k++) {
		struct str from = str_of(opt_at(r->o, OPT_input, k)), name = str_cut(&from, '=');
		uint32_t i;

		if (!from.n)
			return err_set(e, ERR_USAGE,
			    "--input %.*s: write NAME=FILE.npy, NAME=FILE.pb or NAME=random", STR_ARG(name));
		if (!find_input(&r->plan, name, &i, e))
			return false;
		if (str_is(from, "random"))
			continue;
		if (!host_tensor_read(r->arena, str_dup(r->arena, from), &r->inputs[i], e) ||
		    !fits(&r->plan.inputs[i], &r->inputs[i], e))
			return false;
	}
	return true;
}

static bool
make_outputs(struct run *r, struct err *e)
{
	r->outputs = NEW_ARRAY(r->arena, struct host_tensor, r->plan.n_outputs);
	for (uint32_t i = 0; i < r->plan.n_outputs; i++) {
		const struct plan_io *io = &r->plan.outputs[i];

		if (!host_tensor_make(r->arena, io->type, &io->shape, &r->outputs[i], e))
			return err_in(e, "output \"%.*s\"", STR_ARG(io->name));
	}
	return true;
}

/* ---- running ----------------------------------------------------------------------------- */
/* *cpu_ns, where given: of all the process's threads; other work on the machine hardly shows in it. */
static bool
run_once(struct run *r, int64_t *run_ns, int64_t *step_ns, int64_t *cpu_ns, struct err *e)
{
	static const int64_t ns_a_clock = 1000000000 / CLOCKS_PER_SEC;
	struct arena_mark mark = arena_mark(r->arena);
	const void **in = NEW_ARRAY(r->arena, const void *, r->plan.n_inputs);
	void **out = NEW_ARRAY(r->arena, void *, r->plan.n_outputs);
	int64_t cpu_from;
	bool ok;

	for (uint32_t i = 0; i < r->plan.n_inputs; i++)
		in[i] = r->inputs[i].data;
	for (uint32_t i = 0; i < r->plan.n_outputs; i++)
		out[i] = r->outputs[i].data;
	cpu_from = clock();
	ok = runner_run(r->runner, in, out, run_ns, step_ns, e);
	if (cpu_ns)
		*cpu_ns = (clock() - cpu_from) * ns_a_clock;
	arena_reset(r->arena, mark);
	return ok;
}

static bool
wants_profile(const struct opts *o)
{
	return opt_flag(o, OPT_profile) || opt_int(o, OPT_top) > 0;
}

static bool
is_timed_enough(const struct run *r, const struct run_times *t, int64_t spent)
{
	int64_t repeat = opt_int(r->o, OPT_repeat);

	if (repeat > 0 || t->n >= MAX_SAMPLES)
		return repeat > 0 ? t->n >= repeat : true;
	if (r->model.model)
		return t->n > 0 && spent >= at_once_ns;
	return t->n >= MIN_SAMPLES && spent >= steady_ns;
}

static bool
time_plan(struct run *r, struct run_times *t, struct err *e)
{
	bool is_first = r->model.model && !opt_given(r->o, OPT_warmup);
	int64_t warmup = is_first ? 0 : opt_int(r->o, OPT_warmup), spent = 0, ns;
	bool is_profiled = wants_profile(r->o);
	uint32_t cap = 0, cap_cpu = 0;

	for (int64_t i = 0; i < warmup; i++)
		if (!run_once(r, &ns, NULL, NULL, e))
			return false;
	while (!is_timed_enough(r, t, spent)) {
		int64_t *step_ns = is_profiled ? NEW_ARRAY(r->arena, int64_t, r->plan.n_steps) : NULL;

		if (t->n == cap && is_profiled)
			t->step_ns =
			    arena_grow(r->arena, t->step_ns, sizeof(*t->step_ns), t->n, &(uint32_t){cap});
		GROW(r->arena, t->total_ns, t->n, cap);
		GROW(r->arena, t->cpu_ns, t->n, cap_cpu);
		if (!run_once(r, &t->total_ns[t->n], step_ns, &t->cpu_ns[t->n], e))
			return false;
		if (is_first && t->total_ns[0] < at_once_ns) { /* it warmed up what others find warm */
			is_first = false;
			continue;
		}
		spent += t->total_ns[t->n];
		if (is_profiled)
			t->step_ns[t->n] = step_ns;
		t->n++;
	}
	return true;
}

/* ---- checking ---------------------------------------------------------------------------- */
static bool
take_inputs(struct run *r, const struct case_set *s, struct err *e)
{
	if (s->n_inputs < r->plan.n_inputs)
		return err_set(e, ERR_USAGE, "%s: has %u inputs, and the plan takes %u", s->dir, s->n_inputs,
		    r->plan.n_inputs);
	for (uint32_t i = 0; i < r->plan.n_inputs; i++) {
		if (!fits(&r->plan.inputs[i], &s->inputs[i], e))
			return err_in(e, "%s/input_%u.pb", s->dir, i);
		r->inputs[i] = s->inputs[i];
	}
	return true;
}

/* A flag wins over the case's own tolerance, which wins over the default; bfloat16, with its 8 bits,
 * is never held to less than 2^-6, as in ONNX's own runner. */
static struct tolerance
tolerance_of(const struct run *r, const struct test_case *c, uint32_t output)
{
	struct tolerance t = {opt_real(r->o, OPT_rtol), opt_real(r->o, OPT_atol), opt_real(r->o, OPT_rel)};
	const struct tolerance *own = output < c->n_per_output ? &c->per_output[output]
	    : c->has_tolerance                                 ? &c->tolerance
							       : NULL;

	if (own && own->rtol + own->atol > 0) {
		t.rtol = opt_given(r->o, OPT_rtol) ? t.rtol : own->rtol;
		t.atol = opt_given(r->o, OPT_atol) ? t.atol : own->atol;
	}
	if (r->plan.outputs[output].type == DT_bf16 && !opt_given(r->o, OPT_rtol) && t.rtol < 0x1p-6)
		t.rtol = 0x1p-6;
	return t;
}

static bool
check_set(
    struct run *r, const struct test_case *c, const struct case_set *s, struct run_check *out, struct err *e)
{
	int64_t ns;

	if (s->n_outputs != r->plan.n_outputs)
		return err_set(e, ERR_WRONG, "%s: has %u outputs, and the plan makes %u", s->dir,
		    s->n_outputs, r->plan.n_outputs);
	if (!take_inputs(r, s, e) || !run_once(r, &ns, NULL, NULL, e))
		return false;
	for (uint32_t i = 0; i < s->n_outputs; i++) {
		struct tolerance tol = tolerance_of(r, c, i);
		struct difference d;
		bool ok = host_compare(&r->outputs[i], &s->outputs[i], &tol, &d, e);
		double rel = d.max_want > 0 ? d.max_error / d.max_want : d.max_error;

		out->n_outputs++;
		if (rel > out->max_rel)
			out->max_rel = rel;
		if (!ok)
			return err_in(
			    e, "%s: output %u \"%.*s\"", s->dir, i, STR_ARG(r->plan.outputs[i].name));
	}
	return true;
}

static bool
check_case(struct run *r, struct run_check *out, struct err *e)
{
	struct test_case c;

	if (!test_case_read(r->arena, opt_text(r->o, OPT_check), &c, e))
		return false;
	for (uint32_t i = 0; i < c.n_sets; i++)
		if (!check_set(r, &c, &c.sets[i], out, e))
			return false;
	out->n_sets = c.n_sets;
	return true;
}

/* ---- outputs ----------------------------------------------------------------------------- */
/* A tensor's name as the name of a file: what could leave the folder becomes "_". */
static char *
file_name(struct arena *a, struct str name, uint32_t i)
{
	char *p = name.n ? str_dup(a, name) : arena_printf(a, "output_%u", i);

	for (char *c = p; *c; c++)
		if (*c == '/' || *c == '\\' || (unsigned char)*c < 32 || (c == p && *c == '.'))
			*c = '_';
	return p;
}

static bool
write_outputs(struct run *r, struct err *e)
{
	const char *dir = opt_text(r->o, OPT_output_dir);

	if (!*dir)
		return true;
	if (mkdir(dir, 0777) != 0) {
		struct stat st;

		if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
			return err_set(e, ERR_IO, "%s: cannot be made a folder", dir);
	}
	for (uint32_t i = 0; i < r->plan.n_outputs; i++) {
		char *name = file_name(r->arena, r->plan.outputs[i].name, i);

		if (!npy_write(arena_printf(r->arena, "%s/%s.npy", dir, name), &r->outputs[i], e))
			return false;
	}
	return true;
}

/* What was fastest on one thread need not be on two: other schedules split, others reduce. */
static void
warn_threads(const struct run *r)
{
	uint32_t tuned = r->plan.n_threads, n = runner_dev(r->runner)->n_threads;

	if (tuned == n || plan_wants_gpu(&r->plan) || opt_flag(r->o, OPT_quiet))
		return;
	(void)fprintf(stderr,
	    "korch-run: tuned for %u thread%s and run on %u; --threads %u runs it as it was tuned, "
	    "korch-submit "
	    "--threads %u tunes for %u\n",
	    tuned, tuned == 1 ? "" : "s", n, tuned, n, n);
}

static void
warn_unchecked(const struct run *r)
{
	if (plan_away_is_unchecked(&r->host) && !opt_flag(r->o, OPT_quiet))
		(void)fputs("korch-run: the plan was predicted, and its kernels were compiled where no such "
			    "device was: "
			    "none was ever checked; --check DIR holds it to a test case\n",
		    stderr);
}

/* ---- the program ------------------------------------------------------------------------- */
static bool
read_plan(struct run *r, const char *path, struct err *e)
{
	const struct trust_key *by;
	bool ok = plan_load(r->arena, path, &r->plan, &r->host, e) &&
	    plan_trust_check(r->arena, r->o, path, &r->plan, &r->host, &by, e);

	run_model_end(&r->model);
	return ok;
}

/* A model's options are looked at before its plan is made. */
static bool
check_options(const struct run *r, struct err *e)
{
	int64_t n_threads = opt_int(r->o, OPT_threads), n_streams = opt_int(r->o, OPT_streams),
		gpu = opt_int(r->o, OPT_gpu);

	if (n_threads < 0 || n_threads > RUNNER_MAX_THREADS)
		return err_set(e, ERR_USAGE,
		    "--threads %lld: from 1 to %d are possible, and 0 for as many as there are cores to use",
		    (long long)n_threads, (int)RUNNER_MAX_THREADS);
	if (n_streams < 0 || n_streams > STREAMS_MAX)
		return err_set(e, ERR_USAGE, "--streams %lld: from 0 to %d are possible",
		    (long long)n_streams, (int)STREAMS_MAX);
	if (gpu < -1 || gpu >= RUNNER_MAX_GPUS)
		return err_set(e, ERR_USAGE, "--gpu %lld: from 0 to %d, or -1 for the first that fits",
		    (long long)gpu, (int)RUNNER_MAX_GPUS - 1);
	return true;
}

static bool
open_plan(struct run *r, struct err *e)
{
	const char *path = r->o->args[0];
	bool is_model;
	struct runner_opts how = {.n_threads = (uint32_t)opt_int(r->o, OPT_threads),
	    .takes = true,
	    .n_streams = (uint32_t)opt_int(r->o, OPT_streams),
	    .gpu_number = (uint32_t)(opt_int(r->o, OPT_gpu) + 1)};

	if (!check_options(r, e) || !run_model_is(path, &is_model, e) ||
	    !(is_model ? run_model_plan(&r->model, r->arena, r->o, path, e)
		       : run_model_no_options(r->o, e)) ||
	    !read_plan(r, is_model ? r->model.plan : path, e))
		return false;
	if (!runner_open(&r->plan, &how, &r->runner, e))
		return err_in(e, "%s", path);
	warn_threads(r);
	warn_unchecked(r);
	r->inputs = NEW_ARRAY(r->arena, struct host_tensor, r->plan.n_inputs);
	return true;
}

static void
warn_environment(const struct run *r)
{
	struct dev_info here;
	struct err e = {0};

	const struct dev *d = runner_dev(r->runner);

	/* The plan's environment has lines of the compiler too; those of the device must be in it. */
	if (opt_flag(r->o, OPT_quiet) || !d->describe(d->self, &here, &e) || !r->plan.environment.n)
		return;
	for (struct str rest = str_of(here.environment); rest.n;) {
		struct str line = str_cut(&rest, '\n');

		if (line.n && !memmem(r->plan.environment.p, r->plan.environment.n, line.p, line.n)) {
			(void)fprintf(stderr,
			    "korch-run: measured elsewhere (here: %.*s); it runs, but may not be the fastest "
			    "plan\n",
			    STR_ARG(line));
			return;
		}
	}
}

static bool
run_all(struct run *r, struct err *e)
{
	struct run_times times = {0};
	struct run_check check = {0};
	bool is_checking = *opt_text(r->o, OPT_check) != 0;

	if (!open_plan(r, e))
		return false;
	warn_environment(r);
	if (!random_inputs(r, e) || !given_inputs(r, e) || !make_outputs(r, e))
		return false;
	if (is_checking && !check_case(r, &check, e))
		return false;
	/* A check alone is quick; numbers come when they are asked for. */
	if (!is_checking || opt_given(r->o, OPT_repeat) || wants_profile(r->o) || opt_flag(r->o, OPT_json))
		if (!time_plan(r, &times, e))
			return false;
	if (!write_outputs(r, e))
		return false;
	times.streams = runner_streams(r->runner);
	run_report(
	    r->arena, r->o, &r->plan, &times, is_checking ? &check : NULL, r->model.model ? &r->model : NULL);
	return true;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct run r = {.arena = &a, .o = &o};
	struct err e = {0};
	int status = opts_main(&a, PROG_RUN, argc, argv, &o);

	if (status < 0) {
		if (o.n_args != 1)
			err_set(&e, ERR_USAGE, "wanted one PLAN.korch or MODEL.onnx; --help tells more");
		status = e.code || !run_all(&r, &e) ? opts_fail(&o, &e) : 0;
		run_model_end(&r.model);
		runner_close(r.runner);
	}
	arena_fini(&a);
	return status;
}
