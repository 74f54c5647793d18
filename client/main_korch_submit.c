/* client/main_korch_submit.c: korch-submit: tunes a model and writes its plan.  Without a daemon
 * it starts a private one; the programs and the protocol are the same. */
#include "bindings.h"
#include "dump.h"
#include "external.h"
#include "job_result.h"
#include "model_check.h"
#include "output.h"
#include "report.h"

#include "../kernels/base/class.h"
#include "../kernels/base/host.h"
#include "../kernels/base/out.h"
#include "../kernels/jail/jail.h"
#include "../kernels/run/dev.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CONDITIONS = 32, MAX_THREADS = 1024 };

struct submit {
	struct arena *arena;
	const struct opts *o;
	const char *model, *plan;
	int status; /* of a check: 1 where the model would not be tuned */
	uint64_t job;
	struct session session;
};

/* Conditions on the plan; without -o their price alone is wanted. */
static bool
read_what_if(struct submit *s, struct m_options *out, struct err *e)
{
	static const struct {
		enum opt_id id;
		const char *name;
	} row[] = {{OPT_forbid, "forbid"}, {OPT_force, "force"}};
	uint32_t n = opt_n(s->o, OPT_forbid) + opt_n(s->o, OPT_force);

	if (n > MAX_CONDITIONS)
		return err_set(
		    e, ERR_USAGE, "--forbid and --force: %d kernels at most, got %u", MAX_CONDITIONS, n);
	out->extra = NEW_ARRAY(s->arena, struct m_kv, n + 1);
	for (size_t r = 0; r < COUNT_OF(row); r++)
		for (uint32_t i = 0; i < opt_n(s->o, row[r].id); i++)
			out->extra[out->n_extra++] = (struct m_kv){
			    .name = str_of(row[r].name), .value = str_of(opt_at(s->o, row[r].id, i))};
	if (n && !*s->plan)
		out->extra[out->n_extra++] = (struct m_kv){.name = STR("plan"), .value = STR("none")};
	if (n)
		out->budget_ns = 0;
	return true;
}

/* A job is for a class of devices, or a pattern of them ("cuda": any GPU).  On this machine, by a private
 * daemon, a worker's own names are understood too: cuda:0, cuda:all, cuda-fake:SETTINGS. */
static bool
read_device(const struct submit *s, const char **worker, const char **class, struct err *e)
{
	const char *device = opt_text(s->o, OPT_device);
	struct str rest = str_of(device), kind = str_cut(&rest, ':');
	bool is_gpu = str_is(kind, "cuda") && rest.n, is_fake = str_is(kind, "cuda-fake"),
	     is_number = rest.n > 0;

	for (size_t i = 0; i < rest.n; i++)
		is_number &= (rest.p[i] >= '0' && rest.p[i] <= '9') || rest.p[i] == ',';
	is_number |= str_is(rest, "all");
	*worker = is_gpu && !is_number ? "cuda:all" : str_is(kind, "cpu") ? "cpu" : device;
	*class = is_fake || (is_gpu && is_number) ? "cuda" : device;
	return !*opt_text(s->o, OPT_daemon) || strcmp(*class, device) == 0 ||
	    err_set(e, ERR_USAGE,
		"--device %s: that is a worker's name for it; a job on a daemon is for a class: cuda (any "
		"GPU), one that korch-jobs workers lists, or a pattern of them",
		device);
}

/* Tensor cores round the factors of a product: a GPU's, and not where nothing may be rounded. */
static bool
check_precision(const struct opts *o, struct str precision, struct err *e)
{
	static const char *const known[] = {"f32", "tf32", "f16", "bf16"};
	bool found = false;

	for (size_t i = 0; i < COUNT_OF(known); i++)
		found |= str_is(precision, known[i]);
	if (!found)
		return err_set(
		    e, ERR_USAGE, "--precision %s: it is one of f32, tf32, f16, bf16", precision.p);
	if (str_is(precision, "f32"))
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
	bool is_here = !*opt_text(o, OPT_daemon) && strncmp(opt_text(o, OPT_device), "cuda", 4) != 0;

	if (n < 0 || n > MAX_THREADS)
		return err_set(e, ERR_USAGE,
		    "--threads %" PRId64 ": it is 1 to %d, or 0 for as many as there are cores to use", n,
		    (int)MAX_THREADS);
	if (is_here && n > cores && !opt_flag(o, OPT_quiet))
		(void)fprintf(stderr,
		    "korch-submit: --threads %" PRId64 ": this process may use %" PRId64
		    " core%s, so threads take turns while kernels are timed\n",
		    n, cores, cores == 1 ? "" : "s");
	*out = (uint64_t)(n || !is_here ? n : cores);
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
		    "daemon "
		    "have what korch-worker --memory gives them",
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

static bool
read_options(struct submit *s, struct m_options *out, struct err *e)
{
	const struct opts *o = s->o;
	uint64_t threads;
	struct str fusion = str_of(opt_text(o, OPT_fusion)), rewrites = str_of(opt_text(o, OPT_rewrites));
	struct str winograd = str_of(opt_text(o, OPT_winograd));
	struct str precision = str_of(opt_text(o, OPT_precision));

	if (!read_threads(o, &threads, e))
		return false;
	if (opt_real(o, OPT_budget) < 0 || opt_real(o, OPT_budget) > 1e8)
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
	if (!check_precision(o, precision, e) || !check_memory(o, e))
		return false;
	if (opt_int(o, OPT_effort) < 0)
		return err_set(e, ERR_USAGE, "--effort %s: it is 0 or more", opt_text(o, OPT_effort));
	*out = (struct m_options){
	    .device = str_of(opt_text(o, OPT_device)),
	    .threads = threads,
	    .budget_ns = (int64_t)(opt_real(o, OPT_budget) * 1e9),
	    .tolerance = opt_real(o, OPT_tolerance),
	    .strict = opt_flag(o, OPT_strict),
	    .precision = precision,
	    .prove = opt_flag(o, OPT_prove),
	    .offline = opt_flag(o, OPT_offline),
	    .fusion = fusion,
	    .only_form = str_is(rewrites, "off"),
	    .no_winograd = str_is(winograd, "off"),
	    .effort = (uint64_t)opt_int(o, OPT_effort),
	    .dump = stages_wanted(o),
	    .unplaceable_ns = (int64_t)(opt_real(o, OPT_unplaceable_timeout) * 1e9),
	};
	return bindings_read(s->arena, o, out, e) && read_what_if(s, out, e) && check_dump(o, e);
}

/* A price alone writes no plan, and who leaves does not wait for one; else it is named after the model. */
static const char *
where_to(const struct submit *s)
{
	const char *given = opt_text(s->o, OPT_output);

	if (opt_flag(s->o, OPT_check_model))
		return "";
	if (*given || opt_flag(s->o, OPT_detach) || opt_n(s->o, OPT_forbid) || opt_n(s->o, OPT_force))
		return given;
	return output_of_model(s->arena, s->model);
}

/* The place of the plan is looked at now rather than after ten minutes of tuning. */
static bool
read_call(struct submit *s, struct err *e)
{
	if (s->o->n_args != 1)
		return err_set(
		    e, ERR_USAGE, "wanted one MODEL.onnx, got %u; see korch-submit --help", s->o->n_args);
	if (!report_check(s->o, e))
		return false;
	s->model = s->o->args[0];
	s->plan = where_to(s);
	if (opt_flag(s->o, OPT_detach) && !*opt_text(s->o, OPT_daemon))
		return err_set(e, ERR_USAGE,
		    "-d needs --daemon: a private korchd leaves when its clients have left, and ends their "
		    "jobs");
	if (access(s->model, R_OK) != 0)
		return err_set(e, ERR_IO, "%s: cannot read: %s", s->model, strerror(errno));
	return !*s->plan || output_check(s->o, s->plan, e);
}

/* External data is found before the upload; the model itself is judged by the planner. */
static bool
send_model(struct submit *s, const struct m_options *options, uint64_t *job, struct err *e)
{
	static const size_t max_bytes = (size_t)2 << 30;
	struct arena tmp = {0};
	struct bytes onnx;
	struct str *files = NULL;
	uint32_t n = 0;
	bool ok = os_read_file(os_real(), &tmp, s->model, max_bytes, &onnx, e);

	if (ok) {
		external_list(s->arena, onnx, &files, &n);
		arena_fini(&tmp);
		ok = client_submit(s->session.client, s->model, files, n, options, job, e);
	}
	arena_fini(&tmp);
	return ok;
}

/* A daemon that stays goes on with the job; a private one has no other reason to live. */
static bool
left_running(const struct submit *s, uint64_t job, struct err *e)
{
	char *jobs = output_program(s->arena, "korch-jobs"),
	     *where = session_words(&s->session, s->arena, s->o);
	const char *plan = *s->plan ? s->plan : output_of_model(s->arena, s->model);

	return err_set(e, ERR_INTERRUPTED,
	    "job %" PRIu64 " goes on without you; come back with: %s watch %" PRIu64
	    "%s, take its plan with: "
	    "%s fetch %" PRIu64 " -o %s%s, end it with: %s cancel %" PRIu64 "%s",
	    job, jobs, job, where, jobs, job, output_shell(s->arena, plan), where, jobs, job, where);
}

/* A second Ctrl-C ends that too. */
static bool
cancelled(struct submit *s, uint64_t job, struct err *e)
{
	struct err why = {0};

	if (!opt_flag(s->o, OPT_quiet))
		(void)fprintf(
		    stderr, "korch-submit: cancelling job %" PRIu64 "; Ctrl-C again leaves at once\n", job);
	s->session.n_forgiven = s->session.n_stops;
	if (!client_cancel(s->session.client, job, &why))
		return err_set(e, ERR_INTERRUPTED,
		    "left before job %" PRIu64
		    " was cancelled (%.200s); its private korchd ends it when it leaves, after 10 s",
		    job, why.msg);
	return err_set(e, ERR_INTERRUPTED,
	    "job %" PRIu64 " is cancelled; what was measured is kept, so the same command goes on from here",
	    job);
}

/* What runs the plan: a folder that was named for this call alone has the key that signed it. */
static char *
next_command(const struct submit *s)
{
	const char *data = opt_text(s->o, OPT_data);
	bool is_told = !s->session.is_named && s->o->value[OPT_data].source == FROM_FLAG;

	return arena_printf(s->arena, "%s %s%s%s", output_program(s->arena, "korch-run"),
	    output_shell(s->arena, s->plan), is_told ? " --data " : "",
	    is_told ? output_shell(s->arena, data) : "");
}

static void
say_result(const struct submit *s, const struct m_progress *p)
{
	struct job_result r = {.model = s->model,
	    .plan = s->plan,
	    .subject = *s->plan && out_is_stdout(s->plan) ? "the plan"
		: *s->plan                                ? s->plan
							  : "nothing written (-o writes that plan): it",
	    .next = "",
	    .progress = p};
	FILE *to = output_words(s->plan);
	struct stat st;

	if (*s->plan && stat(s->plan, &st) == 0 && S_ISREG(st.st_mode))
		r.next = next_command(s);
	if (opt_flag(s->o, OPT_json))
		job_result_json(&r);
	else
		job_result_words(to, &r);
}

/* Of a job that failed: the stages before its end are what one wants to see. */
static bool
save_what_there_is(struct submit *s, uint64_t job)
{
	struct err why = {0};

	if (!dump_save(s->session.client, s->o, job, s->model, &why) && why.code != ERR_FAILED)
		(void)fprintf(stderr, "korch-submit: %s\n", why.msg);
	return false;
}

static bool
follow(struct submit *s, uint64_t job, struct err *e)
{
	struct m_event last;
	bool ok = session_follow(&s->session, s->arena, s->o, job, &last, e);

	if (!ok)
		return e->code != ERR_INTERRUPTED ? save_what_there_is(s, job)
		    : s->session.stays            ? left_running(s, job, e)
						  : cancelled(s, job, e);
	if (!dump_save(s->session.client, s->o, job, s->model, e) ||
	    (*s->plan && !client_fetch(s->session.client, job, s->plan, e)))
		return false;
	say_result(s, &last.progress);
	return last.progress.measured + last.progress.cached > 0 || !last.progress.trouble.n ||
	    err_set(e, ERR_PARTIAL, "nothing could be measured, so the plan rests on bounds alone: %.*s",
		STR_ARG(last.progress.trouble));
}

static bool
check(struct submit *s, const struct m_options *options, struct err *e)
{
	bool would_tune;

	if (!model_check(s->arena, s->o, s->model, options, &would_tune, e))
		return false;
	s->status = would_tune ? 0 : err_exit_status(ERR_MODEL);
	return true;
}

/* A private daemon has this host's CPU and no other: that needs no worker, which measures the host first. */
static bool
check_cpu(const struct submit *s, const char *class, struct err *e)
{
	struct str asked = str_of(class);
	struct dev_info here;
	struct err none = {0};

	if (s->session.stays || !str_is(class_kind(asked), "cpu") || !dev_cpu_describe(&here, &none) ||
	    class_fits(asked, str_of(here.device_class)))
		return true;
	return err_set(e, ERR_UNPLACEABLE,
	    "--device %s: this host is of device class '%s'; take it with --device cpu, or name a farm that "
	    "has "
	    "the other with --daemon",
	    class, here.device_class);
}

static bool
run(struct submit *s, struct err *e)
{
	struct m_options options;
	struct session_want want;
	const char *worker, *class;

	if (!jail_settings(opt_text(s->o, OPT_sandbox), opt_text(s->o, OPT_sandbox_read), e) ||
	    !read_call(s, e) || !read_options(s, &options, e) || !read_device(s, &worker, &class, e))
		return false;
	options.device = str_of(class);
	if (opt_flag(s->o, OPT_check_model))
		return check(s, &options, e);
	want = (struct session_want){.device = worker,
	    .class = class,
	    .may_wait = options.offline || opt_given(s->o, OPT_unplaceable_timeout)};
	if (!session_open(&s->session, s->arena, s->o, &want, e) || !check_cpu(s, class, e) ||
	    !send_model(s, &options, &s->job, e))
		return false;
	if (opt_flag(s->o, OPT_detach)) {
		(void)printf(opt_flag(s->o, OPT_json) ? "{\"job\": %" PRIu64 "}\n" : "%" PRIu64 "\n", s->job);
		return true;
	}
	return follow(s, s->job, e);
}

/* Of any end but that of a wrong call.  Its own failure is told beside the call's. */
static int
report(struct submit *s, const struct err *end, int status)
{
	struct report r = {
	    .model = s->model, .plan = s->plan, .session = &s->session, .job = s->job, .end = end};
	struct err e = {0};

	if (!*opt_text(s->o, OPT_report) || (end->code == ERR_USAGE && !s->job) || report_write(s->o, &r, &e))
		return status;
	(void)err_in(&e, "--report");
	return status ? status : opts_fail(s->o, &e);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};
	struct submit s = {.arena = &a, .o = &o, .session = {.signal_fd = -1}};
	int rc = opts_main(&a, PROG_SUBMIT, argc, argv, &o);

	if (rc < 0) {
		rc = run(&s, &e) ? s.status : opts_fail(&o, &e);
		rc = report(&s, &e, rc);
		session_close(&s.session);
	}
	arena_fini(&a);
	return rc;
}
