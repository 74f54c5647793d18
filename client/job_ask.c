/* client/job_ask.c: see job_ask.h.  What only the planner can judge is left to it. */
#include "job_ask.h"
#include "bindings.h"
#include "external.h"

#include "../kernels/base/class.h"
#include "../kernels/base/host.h"
#include "../kernels/target/target.h"
#include "../kernels/predict/predict.h"
#include "../kernels/device/dev.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CONDITIONS = 32, MAX_THREADS = 1024, MAX_SAMPLES = 100000 };
static const double MOST_SECONDS = 1e8;

/* Conditions on the plan; without -o their price alone is wanted. */
static bool
read_what_if(struct arena *a, const struct opts *o, bool writes_plan, struct m_options *out, struct err *e)
{
	static const struct {
		enum opt_id id;
		const char *name;
	} row[] = {{OPT_forbid, "forbid"}, {OPT_force, "force"}};
	uint32_t n = opt_n(o, OPT_forbid) + opt_n(o, OPT_force);

	if (n > MAX_CONDITIONS)
		return err_set(
		    e, ERR_USAGE, "--forbid and --force: %d kernels at most, got %u", MAX_CONDITIONS, n);
	out->extra = NEW_ARRAY(a, struct m_kv, n + 1);
	for (size_t r = 0; r < COUNT_OF(row); r++)
		for (uint32_t i = 0; i < opt_n(o, row[r].id); i++)
			out->extra[out->n_extra++] = (struct m_kv){
			    .name = str_of(row[r].name), .value = str_of(opt_at(o, row[r].id, i))};
	if (n && !writes_plan)
		out->extra[out->n_extra++] = (struct m_kv){.name = STR("plan"), .value = STR("none")};
	if (n)
		out->budget_ns = 0;
	return true;
}

/* A job is for a class of devices, or a pattern of them ("cuda": any GPU).  On this machine, by a private
 * daemon, a worker's own names are understood too: cuda:0, cuda:all, cuda-fake:SETTINGS. */
static bool
read_device(const struct opts *o, const char **worker, const char **class, struct err *e)
{
	const char *device = opt_text(o, OPT_device);
	struct str rest = str_of(device), kind = str_cut(&rest, ':');
	bool is_gpu = str_is(kind, "cuda") && rest.n, is_fake = str_is(kind, "cuda-fake"),
	     is_number = rest.n > 0;

	for (size_t i = 0; i < rest.n; i++)
		is_number &= (rest.p[i] >= '0' && rest.p[i] <= '9') || rest.p[i] == ',';
	is_number |= str_is(rest, "all");
	*worker = is_gpu && !is_number ? "cuda:all" : str_is(kind, "cpu") ? "cpu" : device;
	*class = is_fake || (is_gpu && is_number) ? "cuda" : device;
	return !*opt_text(o, OPT_daemon) || strcmp(*class, device) == 0 ||
	    err_set(e, ERR_USAGE,
		"--device %s: that is a worker's name for it; a job on a daemon is for a class: cuda (any "
		"GPU), one that korch-jobs workers lists, or a pattern of them",
		device);
}

/* Tensor cores round the factors of a product: a GPU's, and not where nothing may be rounded. */
static bool
check_precision(const struct opts *o, struct str precision, struct err *e)
{
	enum precision p;

	if (!precision_read(precision, &p))
		return err_set(
		    e, ERR_USAGE, "--precision %s: it is one of f32, tf32, f16, bf16", precision.p);
	if (p == PRECISION_F32)
		return true;
	if (strncmp(opt_text(o, OPT_device), "cuda", 4) != 0)
		return err_set(e, ERR_USAGE,
		    "--precision %s: device %s computes in f32; the others are for a GPU's tensor cores",
		    precision.p, opt_text(o, OPT_device));
	if (opt_flag(o, OPT_strict))
		return err_set(e, ERR_USAGE,
		    "--precision %s rounds products, and --strict allows no rounding", precision.p);
	return opt_real(o, OPT_tolerance) > 0 ||
	    err_set(e, ERR_USAGE,
		"--precision %s rounds products, and --tolerance 0 allows no change of precision",
		precision.p);
}

/* 0: left to the planner, which knows the device: a farm's, or a GPU, which needs one. */
static bool
read_threads(const struct opts *o, uint64_t *out, struct err *e)
{
	int64_t n = opt_int(o, OPT_threads), cores = MIN_OF(host_cores(os_real()), (uint32_t)MAX_THREADS);
	bool is_here = !*opt_text(o, OPT_daemon) && !opt_flag(o, OPT_predict) &&
	    strncmp(opt_text(o, OPT_device), "cuda", 4) != 0;

	if (n < 0 || n > MAX_THREADS)
		return err_set(e, ERR_USAGE,
		    "--threads %" PRId64 ": it is 1 to %d, or 0 for as many as there are cores to use", n,
		    (int)MAX_THREADS);
	if (is_here && n > cores && !opt_flag(o, OPT_quiet))
		(void)fprintf(stderr,
		    "%s: --threads %" PRId64 ": this process may use %" PRId64
		    " core%s, so threads take turns while kernels are timed\n",
		    program_name(o->program), n, cores, cores == 1 ? "" : "s");
	*out = (uint64_t)(n || !is_here ? n : cores);
	return true;
}

/* Machine code of a GPU's kernels, within the time that the job has. */
static bool
check_perturb(const struct opts *o, struct err *e)
{
	double seconds = opt_real(o, OPT_perturb), budget = opt_real(o, OPT_budget);

	if (!(seconds >= 0 && seconds <= MOST_SECONDS))
		return err_set(e, ERR_USAGE, "--perturb %s: it is a number of seconds, 0 (none) to %.0g",
		    opt_text(o, OPT_perturb), MOST_SECONDS);
	if (!(seconds > 0))
		return true;
	if (strncmp(opt_text(o, OPT_device), "cuda", 4) != 0)
		return err_set(e, ERR_USAGE,
		    "--perturb is for a GPU's machine code; device %s has none that Korch reads",
		    opt_text(o, OPT_device));
	if (opt_flag(o, OPT_offline) || opt_n(o, OPT_forbid) + opt_n(o, OPT_force) > 0)
		return err_set(e, ERR_USAGE,
		    "--perturb times kernels, and --offline, --forbid and --force measure nothing");
	return seconds <= budget ||
	    err_set(e, ERR_USAGE,
		"--perturb %s: these seconds are part of --budget %s; give a budget that is larger",
		opt_text(o, OPT_perturb), opt_text(o, OPT_budget));
}

/* A prediction measures nothing but its samples, and proves nothing. */
static bool
read_predict(const struct opts *o, struct m_options *out, struct err *e)
{
	static const struct {
		enum opt_id id;
		const char *flag, *why;
	} row[] = {{OPT_prove, "prove", "a prediction proves nothing"},
	    {OPT_offline, "offline", "a prediction is there for what was not measured"},
	    {OPT_perturb, "perturb", "it times kernels"},
	    {OPT_forbid, "forbid", "it is answered from the cache alone"},
	    {OPT_force, "force", "it is answered from the cache alone"}};
	int64_t samples = opt_int(o, OPT_samples);

	if (samples < 0 || samples > MAX_SAMPLES)
		return err_set(e, ERR_USAGE, "--samples %s: it is a number of kernels, 0 (none) to %d",
		    opt_text(o, OPT_samples), (int)MAX_SAMPLES);
	out->predict = opt_flag(o, OPT_predict);
	out->samples = (uint64_t)samples;
	if (!out->predict)
		return !samples ||
		    err_set(e, ERR_USAGE, "--samples puts predictions right: give --predict too");
	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (opt_given(o, row[i].id))
			return err_set(
			    e, ERR_USAGE, "--predict with --%s: %s; leave one out", row[i].flag, row[i].why);
	if (samples)
		return out->budget_ns > 0 ||
		    err_set(
			e, ERR_USAGE, "--samples %" PRId64 " with --budget 0: measuring takes time", samples);
	if (o->value[OPT_budget].source == FROM_FLAG && out->budget_ns > 0)
		return err_set(e, ERR_USAGE,
		    "--predict with --budget %s: it measures nothing; leave one out, or say how many kernels "
		    "to "
		    "measure first with --samples N",
		    opt_text(o, OPT_budget));
	out->budget_ns = 0;
	return true;
}

/* A farm's workers were started with limits of their own. */
static bool
check_memory(const struct opts *o, struct err *e)
{
	uint64_t mib;

	return opt_memory(o, &mib, e) &&
	    (!mib || !*opt_text(o, OPT_daemon) ||
		err_set(e, ERR_USAGE,
		    "--memory %s: it is of the worker that korch-submit starts itself; those of a named "
		    "daemon have what korch-worker --memory gives them",
		    opt_text(o, OPT_memory)));
}

static bool
check_dump(const struct opts *o, struct err *e)
{
	uint32_t stages;

	return stages_read(str_of(opt_text(o, OPT_dump)), &stages, e);
}

/* A report shows them all, unless it is said which. */
static struct str
stages_wanted(const struct opts *o)
{
	return opt_given(o, OPT_report) && !opt_given(o, OPT_dump) ? STR("all")
								   : str_of(opt_text(o, OPT_dump));
}

/* The file is looked at now rather than by the job. */
static bool
check_predictor(const struct opts *o, struct err *e)
{
	const char *path = opt_text(o, OPT_predictor);
	struct arena tmp = {0};
	struct bytes file;
	struct predictor p;
	bool ok = !*path || os_read_file(os_real(), &tmp, path, PREDICT_FILE_MAX, &file, e);

	if (ok && *path && !predictor_read(&tmp, file, &p, e))
		ok = err_in(e, "--predictor %s", path);
	arena_fini(&tmp);
	return ok;
}

static bool
read_options(struct arena *a, const struct opts *o, struct m_options *out, struct err *e)
{
	uint64_t threads;
	struct str fusion = str_of(opt_text(o, OPT_fusion)), rewrites = str_of(opt_text(o, OPT_rewrites));
	struct str winograd = str_of(opt_text(o, OPT_winograd));
	struct str precision = str_of(opt_text(o, OPT_precision)), solver = str_of(opt_text(o, OPT_solver));

	if (!read_threads(o, &threads, e))
		return false;
	if (opt_real(o, OPT_budget) < 0 || opt_real(o, OPT_budget) > MOST_SECONDS)
		return err_set(e, ERR_USAGE, "--budget %s: it is a number of seconds, 0 or more",
		    opt_text(o, OPT_budget));
	if (opt_real(o, OPT_tolerance) < 0 || opt_real(o, OPT_tolerance) > 1)
		return err_set(e, ERR_USAGE, "--tolerance %s: it is 0 to 1", opt_text(o, OPT_tolerance));
	if (!str_is(fusion, "full") && !str_is(fusion, "operator") && !str_is(fusion, "none"))
		return err_set(e, ERR_USAGE, "--fusion %s: it is one of full, operator, none", fusion.p);
	if (!str_is(rewrites, "on") && !str_is(rewrites, "off"))
		return err_set(e, ERR_USAGE, "--rewrites %s: it is on or off", rewrites.p);
	if (!str_is(winograd, "on") && !str_is(winograd, "off"))
		return err_set(e, ERR_USAGE, "--winograd %s: it is on or off", winograd.p);
	if (!str_is(solver, "clp") && !str_is(solver, "lp_solve"))
		return err_set(e, ERR_USAGE, "--solver %s: it is clp or lp_solve", solver.p);
	if (!check_predictor(o, e) || !check_precision(o, precision, e) || !check_memory(o, e) ||
	    !check_perturb(o, e))
		return false;
	if (opt_int(o, OPT_open_extents) < 0 || opt_int(o, OPT_open_extents) > INT32_MAX)
		return err_set(e, ERR_USAGE, "--open-extents %s: it is 1 or more, or 0 for none",
		    opt_text(o, OPT_open_extents));
	if (opt_int(o, OPT_effort) < 0)
		return err_set(e, ERR_USAGE, "--effort %s: it is 0 or more", opt_text(o, OPT_effort));
	*out = (struct m_options){
	    .device = str_of(opt_text(o, OPT_device)),
	    .threads = threads,
	    .budget_ns = (int64_t)(opt_real(o, OPT_budget) * 1e9),
	    .perturb_ns = (int64_t)(opt_real(o, OPT_perturb) * 1e9),
	    .tolerance = opt_real(o, OPT_tolerance),
	    .strict = opt_flag(o, OPT_strict),
	    .precision = precision,
	    .prove = opt_flag(o, OPT_prove),
	    .offline = opt_flag(o, OPT_offline),
	    .fusion = fusion,
	    .only_form = str_is(rewrites, "off"),
	    .no_winograd = str_is(winograd, "off"),
	    .solver = str_is(solver, "clp") ? STR("") : solver,
	    .effort = (uint64_t)opt_int(o, OPT_effort),
	    .dump = stages_wanted(o),
	    .unplaceable_ns = (int64_t)(opt_real(o, OPT_unplaceable_timeout) * 1e9),
	    .open_extent = (uint64_t)opt_int(o, OPT_open_extents),
	};
	return read_predict(o, out, e) && bindings_read(a, o, out, e) && check_dump(o, e);
}

bool
job_ask_read(struct arena *a, const struct opts *o, bool writes_plan, struct m_options *out,
    struct session_want *want, struct err *e)
{
	const char *worker, *class;

	if (!read_options(a, o, out, e) || !read_what_if(a, o, writes_plan, out, e) ||
	    !read_device(o, &worker, &class, e))
		return false;
	out->device = str_of(class);
	*want = (struct session_want){.device = worker,
	    .class = class,
	    .may_wait = out->offline || opt_given(o, OPT_unplaceable_timeout),
	    .at_once = out->budget_ns == 0};
	if (out->predict && !out->samples)
		want->device = NULL; /* a class of the cache, as it calls it */
	return true;
}

/* A private daemon has this host's CPU and no other: that needs no worker, which measures the host first. */
static bool
check_cpu(const struct session *s, struct str asked, struct err *e)
{
	struct dev_info here;
	struct err none = {0};

	if (s->stays || !str_is(class_kind(asked), "cpu") || !dev_cpu_describe(&here, &none) ||
	    class_fits(asked, str_of(here.device_class)))
		return true;
	return err_set(e, ERR_UNPLACEABLE,
	    "--device %.*s: this host is of device class '%s'; take it with --device cpu, or name a farm "
	    "that has the other with --daemon",
	    STR_ARG(asked), here.device_class);
}

/* External data is found before the upload; the model itself is judged by the planner. */
bool
job_ask_send(const struct session *s, struct arena *a, const char *model, const struct m_options *options,
    uint64_t *job, struct err *e)
{
	static const size_t max_bytes = (size_t)2 << 30;
	struct arena tmp = {0};
	struct bytes onnx;
	struct str *files = NULL;
	uint32_t n = 0;
	bool ok = (options->predict || check_cpu(s, options->device, e)) &&
	    os_read_file(os_real(), &tmp, model, max_bytes, &onnx, e);

	if (ok) {
		external_list(a, onnx, &files, &n);
		arena_fini(&tmp);
		ok = client_submit(s->client, model, files, n, options, job, e);
	}
	arena_fini(&tmp);
	return ok;
}
