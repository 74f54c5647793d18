/* worker/main_korch_measure.c: korch-measure: loads, checks and times generated kernels for its
 * parent (measure_parent.c), which talks to it by a socket on descriptors 0 and 1.  It is a
 * program of its own because generated code may crash, hang or write anywhere: all that costs is
 * this process.  Its parent starts it in a jail (kernels/jail), so that this holds for what such code wants
 * to do as well. */
#include "child.h"

#include "../kernels/jail/jail.h"

#include "../kernels/base/opt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_SHARE = 8 }; /* of the memory, one in so many: what a kernel had and the next may have */

/* ---- hello --------------------------------------------------------------------------------- */
static bool
is_gpu(const struct m_child_hello *h)
{
	return str_starts(h->device, "cuda:") || str_starts(h->device, "nvrtc");
}

/* The fake's NVRTC is the C compiler: the one case in which a program is started here. */
static bool
starts_programs(const struct m_child_hello *h)
{
	return str_starts(h->device, "nvrtc") && h->fake.n;
}

static bool
open_device(struct child *c, struct arena *a, const struct m_child_hello *h, struct err *e)
{
	uint32_t n_threads = (uint32_t)h->threads;

	if (h->threads < 1 || h->threads > 65536)
		return err_set(e, ERR_PROTO, "%llu threads", (unsigned long long)h->threads);
	if (str_is(h->device, "fake")) {
		dev_fake_open(n_threads, &c->dev);
		c->is_fake = true;
		return fake_read(h->fake, &c->fake_seed, &c->fake_rates, e);
	}
	if (is_gpu(h)) {
		bool ok = gpu_child_open(str_dup(a, h->device), str_dup(a, h->fake), &c->gpu, e);

		c->dev = c->gpu.dev;
		c->gpu.dev.close = NULL;
		return ok;
	}
	if (!str_is(h->device, "cpu"))
		return err_set(e, ERR_DEVICE, "there is no device \"%.*s\"; cpu, cuda and fake are known",
		    STR_ARG(h->device));
	if (!dev_cpu_open(n_threads, true, &c->dev, e))
		return false;
	dev_cpu_keep(&c->dev, h->memory_bytes / KEPT_SHARE);
	return refs_open(&c->dev, h->references, &c->refs, e);
}

static bool
greet(struct child *c, struct arena *a, const struct m_child_hello *h)
{
	struct msg m = {.type = MSG_child_welcome, .child_welcome = measure_welcome()};
	struct err e = {0};

	if (!starts_programs(h))
		jail_lock();
	if (!is_gpu(h)) /* a driver reserves addresses for all memory there is */
		space_limit(h->memory_bytes);
	c->memory_bytes = h->memory_bytes;
	if (sched_getaffinity(0, sizeof(c->cores), &c->cores) != 0)
		CPU_ZERO(&c->cores);
	return open_device(c, a, h, &e) ? child_say(c, &m) : child_say_error(c, &e);
}

static bool
calibrate_gpu(struct child *c, struct bytes module, struct calibration *out, struct err *e)
{
	struct dev_module *m = NULL;
	bool ok = c->dev.load(c->dev.self, module, &m, e) && gpu_refs_open(&c->dev, m, &c->gpu_refs, e) &&
	    gpu_calibrate(&c->dev, &c->gpu_refs, out, e);

	gpu_refs_close(&c->gpu_refs);
	if (m)
		c->dev.unload(c->dev.self, m);
	return ok;
}

static bool
do_calibrate(struct child *c, struct arena *a, const struct m_calibrate_ask *q)
{
	struct msg m = {.type = MSG_calibrate_have};
	struct calibration *k = NEW(a, struct calibration);
	struct err e = {0};

	if (!(c->gpu.is_open ? calibrate_gpu(c, q->module, k, &e)
			     : calibrate(&c->dev, &c->refs, q->is_quick, k, &e)))
		return child_say_error(c, &e);
	calibration_pack(a, k, &m.calibrate_have.calibration);
	return child_say(c, &m);
}

static bool
say_module(struct child *c, bool ok, struct bytes module, const struct err *e)
{
	struct msg m = {.type = MSG_module_have, .module_have = {.module = module}};

	return ok ? child_say(c, &m) : child_say_error(c, e);
}

static bool
do_compile(struct child *c, struct arena *a, const struct m_compile_ask *q)
{
	int sm = (int)(q->sm & 0xffff);
	struct bytes cubin = {0};
	struct err e = {0};
	bool ok;

	if (!c->gpu.is_open)
		return false;
	ok = gpu_rtc_choose(&c->gpu.gpu, sm, &e) &&
	    gpu_compile(&c->gpu.gpu, a, q->text, sm, q->strict, &cubin, &e);
	return say_module(c, ok, cubin, &e);
}

static bool
do_libraries(struct child *c)
{
	struct m_library list[LIBRARY_COUNT];
	struct msg m = {.type = MSG_libraries_have, .libraries_have = {.libraries = list}};

	if (!c->gpu.is_open)
		return false;
	for (int l = 0; l < LIBRARY_COUNT; l++)
		if (library_is_cuda((enum library)l))
			list[m.libraries_have.n_libraries++] =
			    (struct m_library){.name = str_of(library_id((enum library)l)),
				.version = vendor_version(&c->gpu.gpu, (enum library)l)};
	return child_say(c, &m);
}

static bool
do_resolve(struct child *c, struct arena *a, const struct m_resolve_ask *q)
{
	struct kernel_name k = {STR("k"), q->spec, q->schedule};
	struct bytes out = {0};
	struct err e = {0};
	bool ok;

	if (c->is_fake || !c->dev.self)
		return false;
	ok = c->gpu.is_open ? vendor_resolve(&c->dev, a, k.spec, k.schedule, &out, &e)
			    : dev_binds(&c->dev, &k, &e);
	return say_module(c, ok, out, &e);
}

static bool
do_awake(struct child *c)
{
	struct msg m = {.type = MSG_awake_have};
	size_t resident;
	bool is_lost = false;
	struct err e;

	(void)space_in_use(&resident);
	m.awake_have.resident_bytes = resident;
	m.awake_have.is_well = !c->dev.fault || c->dev.fault(c->dev.self, &is_lost, &e);
	return child_say(c, &m);
}

static bool
do_plans(struct child *c, struct arena *a, const struct m_plans_ask *q)
{
	struct m_plan_timed said[MEASURE_MAX_PLANS] = {0};
	struct msg m = {.type = MSG_plans_have, .plans_have = {.plans = said, .n_plans = q->n_plans}};

	plans_time(&c->dev, c->refs.dev ? &c->refs : NULL, c->is_fake, c->gpu.is_open, a, q, said);
	return child_say(c, &m);
}

/* ---- the program ------------------------------------------------------------------------------- */
static bool
answer(struct child *c, struct arena *a, const struct msg *m)
{
	if (m->type == MSG_child_hello && !c->dev.name)
		return greet(c, a, &m->child_hello);
	if (!c->dev.name)
		return false;
	switch ((int)m->type) {
	case MSG_calibrate_ask:
		return do_calibrate(c, a, &m->calibrate_ask);
	case MSG_batch_ask:
		return child_batch_run(c, a, &m->batch_ask);
	case MSG_plans_ask:
		return do_plans(c, a, &m->plans_ask);
	case MSG_compile_ask:
		return do_compile(c, a, &m->compile_ask);
	case MSG_libraries_ask:
		return do_libraries(c);
	case MSG_resolve_ask:
		return do_resolve(c, a, &m->resolve_ask);
	case MSG_awake_ask:
		return do_awake(c);
	default:
		return false;
	}
}

/* By hand there is a terminal, a file or nothing: who reads that ends silently, as if all were well. */
static bool
is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int
main(int argc, char **argv)
{
	struct child c = {0};
	struct arena a = {0};
	struct err e = {0};
	struct msg m;
	struct opts o;
	int fd, status = opts_main(&a, PROG_MEASURE, argc, argv, &o);

	if (status >= 0)
		return status;
	/* Generated code and libraries may print: that must not reach the parent's stream. */
	fd = is_socket(0) ? fcntl(0, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd < 0 || dup2(2, 1) < 0) {
		(void)fprintf(
		    stderr, "korch-measure: is started by korch-worker, with a socket as its input\n");
		return 2;
	}
	measure_pipe_child(&c.pipe, fd);
	while (pipe_recv(&c.pipe, &a, -1, &m, &e) == PIPE_MSG) {
		if (!answer(&c, &a, &m))
			break;
		arena_fini(&a);
	}
	arena_fini(&a);
	if (c.dev.name && !c.is_fake && !c.gpu.is_open)
		refs_close(&c.refs);
	if (c.dev.close)
		c.dev.close(c.dev.self);
	gpu_child_close(&c.gpu);
	pipe_fini(&c.pipe);
	return 0;
}
