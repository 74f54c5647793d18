/* daemon/planner/tune.c: one job, first message to last. */
#include "away.h"
#include "device.h"
#include "result_cache.h"
#include "perturb.h"
#include "sure.h"

#include "../../proto/hw.h"

#include <string.h>

enum { DEFAULT_UNPLACEABLE_S = 120, MOST_ASSUMED = 256 /* msg.def */ };

/* Winograd's form errs by up to a kernel's whole allowance (D12), so a job must allow as much. */
static bool
allows_winograd(const struct m_plan_start *start)
{
	const struct m_options *o = &start->options;

	return !o->strict && !o->no_winograd && o->tolerance >= 1e-4 && start->env.hw.sm == 0;
}

/* Not told: the cores that the device's worker may use.  A GPU's kernels are started by one. */
static uint64_t
threads_of(const struct m_plan_start *start)
{
	enum { MOST = 1024 };
	const struct m_hw *h = &start->env.hw;

	if (h->sm > 0)
		return 1;
	if (start->options.threads)
		return start->options.threads;
	return (uint64_t)MIN_OF(MAX_OF(h->n_cores, (int64_t)1), (int64_t)MOST);
}

/* What kernels may do to numbers; part of the key of their measurements, so that jobs that allow
 * Winograd's form and jobs that do not never take each other's for theirs. */
static struct str
f32_words(const struct tune *t)
{
	if (t->start.options.strict)
		return STR("f32-strict");
	return t->target.is_cuda || t->target.winograd ? STR("f32") : STR("f32-direct");
}

/* What the job's products are computed in, and what the device can do. */
static bool
choose_precision(struct tune *t, struct err *e)
{
	const struct m_options *o = &t->start.options;
	const struct m_hw *h = &t->start.env.hw;
	enum precision p = PRECISION_F32;

	if (o->precision.n && !precision_read(o->precision, &p))
		return err_set(e, ERR_USAGE, "--precision %.*s: it is one of f32, tf32, f16, bf16",
		    STR_ARG(o->precision));
	if (!precision_on((int)MIN_OF(h->sm, (int64_t)9999), p))
		return h->sm > 0
		    ? err_set(e, ERR_USAGE,
			  "--precision %s: device %.*s, of compute capability %d.%d, has no tensor cores for "
			  "it",
			  precision_name(p), STR_ARG(t->start.env.class), (int)h->sm / 10, (int)h->sm % 10)
		    : err_set(e, ERR_USAGE,
			  "--precision %s: device %.*s computes in f32; the others are for a GPU's tensor "
			  "cores",
			  precision_name(p), STR_ARG(t->start.env.class));
	if (p != PRECISION_F32 && (o->strict || o->tolerance <= 0))
		return err_set(e, ERR_USAGE, "--precision %s rounds products, and %s allows none of that",
		    precision_name(p), o->strict ? "--strict" : "--tolerance 0");
	t->target = env_target(&t->start.env, o->strict, allows_winograd(&t->start), p);
	if (p != PRECISION_F32)
		t->hw.tensor_peak = p == PRECISION_TF32 ? h->tf32_flops : h->half_flops;
	t->precision = p == PRECISION_F32
	    ? f32_words(t)
	    : str_of(arena_printf(t->arena, "%s:%.6g", precision_name(p), o->tolerance));
	return true;
}

static bool
mode_of(struct str fusion, enum identify_mode *out, struct err *e)
{
	static const char *const name[] = {
	    [IDENTIFY_FULL] = "full", [IDENTIFY_OPERATOR] = "operator", [IDENTIFY_NONE] = "none"};

	for (size_t i = 0; i < COUNT_OF(name); i++) {
		if (str_is(fusion, name[i])) {
			*out = (enum identify_mode)i;
			return true;
		}
	}
	return err_set(e, ERR_USAGE, "--fusion %.*s: it is one of full, operator, none", STR_ARG(fusion));
}

/* The folder of `path`, for external data. */
static const char *
folder_of(struct arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? str_dup(a, (struct str){path, (size_t)(slash - path)}) : ".";
}

static struct str
cut(const char *text, size_t most)
{
	return (struct str){text, MIN_OF(strlen(text), most)};
}

/* For who asked: with another number all may be otherwise. */
static void
note_assumed(struct tune *t)
{
	struct m_progress *p = &t->progress;
	uint32_t n = MIN_OF(t->front.n_assumed, (uint32_t)MOST_ASSUMED);

	p->assumed = NEW_ARRAY(t->arena, struct m_assumed, MAX_OF(n, 1u));
	for (p->n_assumed = 0; p->n_assumed < n; p->n_assumed++) {
		const struct model_assumed *x = &t->front.assumed[p->n_assumed];

		p->assumed[p->n_assumed] = (struct m_assumed){
		    .input = cut(x->input, 1024), .name = cut(x->name, 1024), .value = cut(x->value, 256)};
	}
}

static bool
run_front(struct tune *t, struct err *e)
{
	const struct m_options *o = &t->start.options;
	const char *path = str_dup(t->arena, t->start.model_path);
	struct front_opts fo = {
	    .file = str_dup(t->arena, t->start.model_name),
	    .dir = folder_of(t->arena, path),
	    .tolerance = o->tolerance,
	    .strict = o->strict,
	    .only_form = o->only_form,
	    .dump = &t->dump,
	};
	struct arena file = {0}; /* of the model's bytes: not needed behind the front */
	struct bytes onnx;

	if (!mode_of(o->fusion, &fo.mode, e) || !front_asked(t->arena, o, &fo, e))
		return false;
	bool ok = os_read_file(t->os, &file, path, model_limits_default.max_file_bytes, &onnx, e);
	if (ok) {
		t->model_digest = hash_bytes(onnx.p, onnx.n);
		ok = front_run(t->arena, onnx, &fo, &t->front, e);
		note_assumed(t);
	}
	arena_fini(&file);
	return ok;
}

static void
note_counts(struct tune *t)
{
	t->progress.operators = t->front.fission.n_operators;
	t->progress.primitives = t->front.graph.n_nodes;
	t->progress.candidates = t->front.cands.n_cands;
	t->progress.distinct = t->front.cands.n_specs;
}

/* korchd has looked at what its workers say; this may come from an old store. */
static bool
take_device(struct tune *t, struct err *e)
{
	const struct m_env *env = &t->start.env;

	if (!hw_check(&env->hw, e))
		return err_in(e, "device %.*s", STR_ARG(env->class));
	if (t->start.options.perturb_ns > 0 && env->hw.sm == 0)
		return err_set(e, ERR_USAGE,
		    "--perturb is for a GPU's machine code; device %.*s has none that Korch reads",
		    STR_ARG(env->class));
	t->hw = env_hw(env, t->start.options.threads, allows_winograd(&t->start));
	return choose_precision(t, e) &&
	    (target_check(&t->target, e) || err_in(e, "device %.*s", STR_ARG(env->class)));
}

static bool
run(struct tune *t, struct err *e)
{
	if (t->start.options.port)
		return port_run(t, e);
	if (!cached_find(t, e))
		return false;
	if (cached_is_answer(t) && !t->dump.stages)
		return finish_again(t, e);
	if (!progress_say(t, cached_words(t), true, e) || !run_front(t, e))
		return false;
	note_counts(t);
	program_make(t->arena, &t->front.graph, &t->front.cands, &t->program);
	views_find(t->arena, &t->front.graph, &t->front.cands, &t->program);
	/* before the search too: what the solver met, should it fail */
	return costs_open(t, e) && stages_program(t, e) && tune_search(t, e) && perturb(t, e) &&
	    sure_find(t, e) && stages_program(t, e) && stages_choice(t, e) && finish_run(t, e);
}

bool
tune_run(struct arena *a, struct pipe *p, const struct m_plan_start *start, const char *dump,
    const struct os *real, struct err *e)
{
	const struct os *os = tape_os(p->tape, real);
	int64_t now = os->mono_ns(os->self);
	struct tune t = {
	    .arena = a,
	    .plan_arena = a,
	    .pipe = p,
	    .os = os,
	    .start = *start,
	    .began_ns = now,
	    .deadline_ns = now + start->options.budget_ns,
	    .n_workers = start->n_workers,
	    .alone_since_ns = now,
	    .build_pace = 1.25,
	    .effort = start->options.effort ? start->options.effort : TUNE_EFFORT,
	};
	bool ok;

	t.start.options.threads = threads_of(start);
	if (start->options.predict && !start->options.samples)
		t.start.options.budget_ns = 0;
	t.hw = env_hw(&start->env, t.start.options.threads, allows_winograd(start));
	t.dump = (struct dump){.dir = dump ? dump : dump_dir(a, str_dup(a, start->work_dir)),
	    .model = str_dup(a, start->model_name),
	    .os = os};
	if (!stages_read(start->options.dump, &t.dump.stages, e))
		return false;
	if (t.start.options.unplaceable_ns <= 0)
		t.start.options.unplaceable_ns = (int64_t)DEFAULT_UNPLACEABLE_S * 1000000000;
	ok = blp_solver_read(start->options.solver, &t.solver_asked, e) && take_device(&t, e) && run(&t, e);
	if (t.solver)
		blp_state_free(t.solver);
	arena_fini(&t.choice_arena);
	return ok;
}
