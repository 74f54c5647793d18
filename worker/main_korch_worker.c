/* worker/main_korch_worker.c: korch-worker: opens its device, then works for a korchd. */
#include "worker.h"

#include "../kernels/base/opt.h"
#include "../kernels/jail/jail.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static bool
read_conf(struct arena *a, const struct opts *o, struct worker_conf *c, struct err *e)
{
	char *host = arena_alloc(a, 256);

	(void)gethostname(host, 255);
	*c = (struct worker_conf){.url = opt_text(o, OPT_worker_daemon),
	    .cred = cred_conf_of(o),
	    .name = opt_text(o, OPT_worker_name),
	    .device = opt_text(o, OPT_worker_device),
	    .quiet = opt_flag(o, OPT_quiet),
	    .json = opt_flag(o, OPT_json),
	    .idle_exit_ns = (int64_t)(opt_real(o, OPT_idle_exit) * 1e9),
	    .ready_fd = (int)opt_int(o, OPT_ready_fd)};
	if (!c->name[0])
		c->name = arena_printf(a, "%s-%ld", host, (long)getpid());
	if (!opt_memory(o, &c->memory, e))
		return false;
	if (!c->url[0])
		return err_set(
		    e, ERR_USAGE, "which daemon? name it with --daemon tls+tcp://host:port or ipc:///path");
	return true;
}

/* Until the loop takes them: a HUP that comes early ends nothing.  No child inherits it. */
static void
no_hup(int number)
{
	(void)number;
}

/* What the settings come to on this host. */
static int
show_host(const struct opts *o)
{
	struct arena tmp = {0};
	struct rlimit files = {0};

	(void)getrlimit(RLIMIT_NOFILE, &files);
	opts_say_host(o, "files", str_of(arena_printf(&tmp, "%llu", (unsigned long long)files.rlim_cur)));
	arena_fini(&tmp);
	return jail_show(o);
}

static int
leave(struct work *work, struct arena *a, struct log *log, struct cred *cred, int status)
{
	cred_free(cred);
	log_close(log);
	free(work);
	arena_fini(a);
	return status;
}

/* --calibrate as one of its two words. */
static bool
reads_calibrate(const struct opts *o, bool *is_quick, struct err *e)
{
	const char *word = opt_text(o, OPT_calibrate);

	*is_quick = strcmp(word, "quick") == 0;
	return *is_quick || strcmp(word, "full") == 0 ||
	    err_set(e, ERR_USAGE, "--calibrate %s: it is full or quick", word);
}

int
main(int argc, char **argv)
{
	struct work *work = heap_alloc(sizeof(*work));
	struct arena a = {0};
	struct opts o;
	struct worker_conf conf = {0};
	struct lock_words waits = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	struct device_conf dc;
	struct device device;
	struct cred cred = {0};
	struct str *names;
	uint32_t n_names;
	bool is_quick;
	struct err e = {0};
	int status = opts_main(&a, PROG_WORKER, argc, argv, &o);

	if (status == 0 && opt_flag(&o, OPT_show_config))
		return show_host(&o);
	if (status >= 0)
		return status;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, no_hup);
	if (opt_flag(&o, OPT_with_parent))
		(void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (setenv("KORCH_LIBRARIES", opt_text(&o, OPT_libraries), 1) !=
	    0) /* for the measuring child as well */
		return 1;
	sandbox_enter();
	if (!device_names(&a, str_of(opt_text(&o, OPT_worker_device)), &names, &n_names, &e) ||
	    !read_conf(&a, &o, &conf, &e) || !opts_log(&o, &conf.log, &e) ||
	    !jail_begin(conf.log, opt_text(&o, OPT_sandbox), opt_text(&o, OPT_sandbox_read), &e) ||
	    !cred_load(&cred, &conf.cred, &conf.url, 1, "worker", &e))
		return leave(work, &a, conf.log, &cred, opts_fail(&o, &e));
	if (n_names > 1) {
		status = several_run(argc, argv, names, n_names, &conf);
		return leave(work, &a, conf.log, &cred, status);
	}
	/* not for what it starts: who waits for the line must see the end of a worker killed before it */
	if (conf.ready_fd >= 0)
		(void)fcntl(conf.ready_fd, F_SETFD, FD_CLOEXEC);
	conf.device = str_dup(&a, names[0]);
	if (!reads_calibrate(&o, &is_quick, &e))
		return leave(work, &a, conf.log, &cred, opts_fail(&o, &e));
	dc = (struct device_conf){.compiler = opt_text(&o, OPT_compiler),
	    .data = opt_text(&o, OPT_worker_data),
	    .memory_bytes = (size_t)conf.memory << 20,
	    .is_quick = is_quick,
	    .quiet = conf.quiet,
	    .cancel = &work->cancel,
	    .lock = {.dir = opt_text(&o, OPT_lock_dir),
		.wait_ns = (int64_t)(opt_real(&o, OPT_lock_timeout) * 1e9),
		.log = conf.log,
		.words = &waits}};
	conf.waits = &waits;
	if (!device_open(&a, str_of(conf.device), &dc, &device, &e))
		return leave(work, &a, conf.log, &cred, opts_fail(&o, &e));
	status = worker_loop(&conf, &device, work, &cred, &e);
	if (status)
		status = opts_fail(&o, &e);
	device.close(device.self);
	return leave(work, &a, conf.log, &cred, status);
}
