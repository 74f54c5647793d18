/* worker/gpu_fake/driver.c: the driver's part of the fake GPU.
 *
 * A launch calls the kernel's host form at once; a captured launch only counts, unless replay=1.  The clock
 * is virtual: a pass takes what a hash of its kernel's text says, scaled by the model, longer while it is
 * throttled. After an illegal access or a loss every call fails, as on the real thing, until the process is
 * another one. */
#include "gpu_fake_int.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct model {
	const char *key, *name;
	int sm, n_sm, sm_mhz, mem_mhz, bus, l2_kib, shared_sm_kib, shared_kib, memory_mib, watts, rtc;
	double scale; /* of a pass's time */
} models[] = {
    {"v100", "Fake Tesla V100-SXM2-16GB", 70, 80, 1530, 877, 4096, 6144, 96, 96, 16160, 300, 12, 1.0},
    {"a100", "Fake A100-SXM4-40GB", 80, 108, 1410, 1215, 5120, 40960, 164, 163, 40536, 400, 13, 0.7},
    {"h200", "Fake H200", 90, 132, 1980, 3201, 6144, 61440, 228, 227, 143771, 700, 13, 0.4},
};

/* Settings beside gpu=: faults are per million kernels (by their text) or per million looks. */
#define SETTINGS(X)                                                                                          \
	X(n)                                                                                                 \
	X(dev)                                                                                               \
	X(seed)                                                                                              \
	X(cold)                                                                                              \
	X(compile)                                                                                           \
	X(spill)                                                                                             \
	X(unfit)                                                                                             \
	X(launch)                                                                                            \
	X(illegal)                                                                                           \
	X(hang)                                                                                              \
	X(lost)                                                                                              \
	X(wrong)                                                                                             \
	X(throttle)                                                                                          \
	X(power)                                                                                             \
	X(foreign)                                                                                           \
	X(gone)                                                                                              \
	X(mig)                                                                                               \
	X(mps)                                                                                               \
	X(memory)                                                                                            \
	X(no_builtins)                                                                                       \
	X(no_rtc)                                                                                            \
	X(no_ml)                                                                                             \
	X(rtc)                                                                                               \
	X(app_mhz)                                                                                           \
	X(kernel_ms)                                                                                         \
	X(driver)                                                                                            \
	X(old_image)                                                                                         \
	X(replay)                                                                                            \
	X(streams)                                                                                           \
	X(events)                                                                                            \
	X(no_list)                                                                                           \
	X(lost_at)                                                                                           \
	X(recode)                                                                                            \
	X(sipfault)                                                                                          \
	X(sipwrong)                                                                                          \
	X(drop_wait)                                                                                         \
	X(cross_ns)                                                                                          \
	X(no_lt)                                                                                             \
	X(no_dnn)                                                                                            \
	X(vfail)                                                                                             \
	X(vwrong)                                                                                            \
	X(vnone)                                                                                             \
	X(vwork)                                                                                             \
	X(vfast)
struct conf {
	const struct model *model;
#define X(N) uint64_t N;
	SETTINGS(X)
#undef X
};
/* The driver's functions have no handle, so the one fake driver of a process is here. */
enum { NO_CONTEXT = 201, MPS_UNTOLD = 2 }; /* mps=2: of a driver that knows no attribute for it */
static struct fake {
	struct conf c;
	int dead;    /* status of every call from now on; 0: alive */
	int pending; /* shows at the next wait */
	bool hangs;
	int64_t now_ns;
	int64_t awake_ns; /* when its context came */
	uint64_t n_calls; /* of libraries */
} fake;
static _Thread_local int at_gpu; /* 1 + the number of the GPU whose context is this thread's; 0: none is */

/* ---- devices ------------------------------------------------------------------------------ */
static int
fake_init(unsigned flags)
{
	return flags ? 1 : gpu_fake_system();
}

static int
fake_version(int *v)
{
	*v = fake.c.driver ? (int)fake.c.driver : 13000;
	return 0;
}

static int
fake_words(int status, const char **text)
{
	(void)status;
	*text = NULL; /* the table of statuses has words of its own */
	return 1;
}

static int
fake_count(int *n)
{
	*n = (int)fake.c.n;
	return 0;
}

static int
fake_device(int *dev, int number)
{
	*dev = number;
	return number >= 0 && (uint64_t)number < fake.c.n ? 0 : 101;
}

static int
fake_name(char *text, int n, int dev)
{
	(void)dev;
	(void)snprintf(text, (size_t)n, "%s%s", fake.c.model->name, fake.c.mig ? " MIG 1g.5gb" : "");
	return 0;
}

static int
fake_uuid(unsigned char *b, int dev)
{
	uint64_t h = mix64(fake.c.seed * 1000 + (uint64_t)dev + 1), k = mix64((uint64_t)fake.c.model->sm ^ h);

	memcpy(b, &h, 8);
	memcpy(b + 8, &k, 8);
	return 0;
}

static int
fake_attribute(int *v, int which, int dev)
{
	const struct model *m = fake.c.model;
	const struct {
		int which, v;
	} rows[] = {{13, m->sm_mhz * 1000}, {16, fake.c.mig ? m->n_sm / 8 : m->n_sm}, {36, m->mem_mhz * 1000},
	    {37, m->bus}, {38, m->l2_kib << 10}, {75, m->sm / 10}, {76, m->sm % 10},
	    {81, m->shared_sm_kib << 10}, {97, m->shared_kib << 10}, {32, 1}, {133, fake.c.mps == 1}};

	(void)dev;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (rows[i].which == which && !(which == 133 && fake.c.mps == MPS_UNTOLD)) {
			*v = rows[i].v;
			return 0;
		}
	return 1;
}

static uint64_t
memory_bytes(void)
{
	return (fake.c.memory ? fake.c.memory : (uint64_t)fake.c.model->memory_mib) << 20;
}

static int
fake_memory(size_t *n, int dev)
{
	(void)dev;
	*n = memory_bytes();
	return 0;
}

static int
fake_pci(char *text, int n, int dev)
{
	(void)snprintf(text, (size_t)n, "FAKE:%02x:%02x.0", (unsigned)(fake.c.seed & 0xff), (unsigned)dev);
	return 0;
}

/* ---- context ------------------------------------------------------------------------------- */
static int
fake_retain(void **ctx, int dev)
{
	*ctx = (void *)((uintptr_t)dev + 1);
	fake.awake_ns = fake.now_ns;
	gpu_fake_context(true);
	return fake.c.gone ? 46 : 0;
}

static int
fake_release(int dev)
{
	(void)dev;
	at_gpu = 0;
	gpu_fake_context(false);
	return 0;
}

static int
fake_set(void *ctx)
{
	at_gpu = (int)(uintptr_t)ctx;
	return ctx ? fake.dead : 1;
}

/* What comes late: faults of launches, and a kernel that never ends. */
static int
settle(void)
{
	while (fake.hangs)
		(void)pause();
	if (fake.pending && !fake.dead)
		fake.dead = fake.pending;
	return fake.dead;
}

static int
fake_sync(void)
{
	return settle();
}

int
gpu_fake_status(void)
{
	return fake.dead || at_gpu ? fake.dead : NO_CONTEXT;
}

int
gpu_fake_number(void)
{
	return at_gpu - 1;
}

int
gpu_fake_settle(void)
{
	return settle();
}

bool
gpu_fake_is_well(void)
{
	return !fake.dead && !fake.pending;
}

void
gpu_fake_late(int status)
{
	fake.pending = status;
}

int64_t
gpu_fake_now(void)
{
	return fake.now_ns;
}

/* cold=MS: clocks rise for so long after the context has come, from half of what they will be. */
static double
slowness(void)
{
	double rising_ns = 1e6 * (double)fake.c.cold, awake_ns = (double)(fake.now_ns - fake.awake_ns);

	return gpu_fake_slowness() * (awake_ns < rising_ns ? 2 - awake_ns / rising_ns : 1);
}

void
gpu_fake_pass(int64_t ns)
{
	fake.now_ns += (int64_t)((double)ns * slowness());
}

/* ---- modules --------------------------------------------------------------------------------- */
enum { HOST_BLOCKS = 4, FUNC_DYNAMIC_SHARED = 8, SHARED_UNASKED = 48 << 10 };

/* The file stays open as long as the object: the loader tells objects apart by their names. */
static void *
open_object(const void *p, size_t n, int *keep)
{
	int fd = memfd_create("korch-fake-gpu", MFD_CLOEXEC);
	char path[64];
	void *so = NULL;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd >= 0 && write(fd, p, n) == (ssize_t)n)
		so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (fd >= 0 && !so)
		(void)close(fd);
	*keep = fd;
	return so;
}

static int
fake_load(void **out, const void *image, unsigned n, int *options, void **values)
{
	const struct fake_code *code = gpu_fake_code(image);
	struct fake_module *m;

	(void)options;
	(void)values;
	if (fake.dead || n)
		return fake.dead ? fake.dead : 1;
	if (!code)
		return 200;
	if (fake.c.old_image)
		return 222;
	m = heap_alloc(sizeof(*m));
	memcpy(&m->head, code, sizeof(m->head));
	if ((int)m->head.sm / 10 != fake.c.model->sm / 10 || (int)m->head.sm > fake.c.model->sm) {
		free(m);
		return 209;
	}
	m->image = gpu_fake_image_copy(image);
	m->so = open_object((const char *)(code + 1), m->head.n_bytes, &m->fd);
	if (!m->so) {
		free(m->image);
		free(m);
		return 200;
	}
	*out = m;
	return 0;
}

static int
fake_unload(void *module)
{
	struct fake_module *m = module;

	(void)dlclose(m->so);
	(void)close(m->fd);
	for (struct fake_fn *f = m->fns, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	free(m->image);
	free(m);
	return fake.dead;
}

static int
fake_function(void **out, void *module, const char *name)
{
	struct fake_module *m = module;
	void *p = dlsym(m->so, name), *run = dlsym(m->so, "kk_run");
	int64_t pass;
	struct fake_fn *f;

	if (!p || !run)
		return 500;
	f = heap_alloc(sizeof(*f));
	f->module = m;
	f->next = m->fns;
	m->fns = f;
	f->pass = p;
	f->dynamic_most = SHARED_UNASKED;
	f->order.ratio = 1;
	if (str_starts(str_of(name), "k_p") && str_to_i64(str_of(name + 3), &pass) && !m->head.is_ref)
		f->order = gpu_fake_order(m->image, &m->head, (uint32_t)pass);
	memcpy(&f->run, &run, sizeof(run));
	*out = f;
	return 0;
}

static int
fake_set_function(void *fn, int which, int v)
{
	struct fake_fn *f = fn;

	if (which != FUNC_DYNAMIC_SHARED || v < 0 || v > fake.c.model->shared_kib << 10)
		return 1;
	f->dynamic_most = (unsigned)v;
	return 0;
}

/* ---- launches --------------------------------------------------------------------------------- */
/* A reference takes what the model promises: its arithmetic on all SMs, its bytes from the memory that holds
 * them; nine tenths of the data sheet's rates. */
static double
ref_ns(const struct fake_code *c, double n)
{
	const struct model *m = fake.c.model;
	double flops = (m->sm <= 80 ? 128e6 : 256e6) * m->n_sm * m->sm_mhz,
	       tensor = (m->sm < 80 ? 8 : 16) * flops, dram = 2e6 * m->mem_mhz * m->bus / 8, l2 = 3 * dram,
	       bytes = n * c->bytes;

	return 1e9 / 0.9 *
	    (n * c->flops / flops + n * c->tensor / tensor +
		bytes / (bytes > m->l2_kib * 1024.0 ? dram : l2));
}

/* About a microsecond and a half, then by the range and a factor of the text's own. */
static int64_t
pass_ns(const struct fake_fn *f, int64_t range)
{
	const struct fake_code *head = &f->module->head;
	double factor = 1 + (double)(mix64(f->module->head.text ^ mix64(fake.c.seed)) % 1000) / 250;
	double ns = 1500 + fake.c.model->scale * factor * (200 + 4 * (double)range);

	if (head->flops || head->tensor || head->bytes)
		return 1500 + (int64_t)ref_ns(head, (double)range);
	return (int64_t)(ns * f->order.ratio);
}

static int
fault_of(const struct fake_fn *f)
{
	uint64_t draw = gpu_fake_draw(fake.c.seed, f->module->head.text);
	const struct {
		uint64_t rate;
		int status;
	} rows[] = {{fake.c.launch, 701}, {fake.c.illegal, 700}, {fake.c.hang, -1}, {fake.c.lost, 46},
	    {fake.c.wrong, -2}};
	uint64_t edge = 0;
	int fault = gpu_fake_order_fault(&f->order, fake.c.seed, fake.c.sipfault, fake.c.sipwrong);

	if (fault)
		return fault;
	for (size_t i = 0; i < COUNT_OF(rows) && !f->module->head.is_ref; i++) {
		edge += rows[i].rate;
		if (draw < edge)
			return rows[i].status;
	}
	return 0;
}

static int
fake_launch(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **params, void **extra)
{
	/* any grid is right: few blocks take less of the host's time */
	const struct fake_call c = {.fn = fn,
	    .grid = {MIN_OF(gx, (unsigned)HOST_BLOCKS), gy, gz},
	    .block = {bx, by, bz},
	    .shared = shared,
	    .buf = *(void *const *const *)params[0],
	    .kernel_scratch = *(char **)params[1],
	    .block_scratch = *(char **)params[2],
	    .lo = *(int64_t *)params[3],
	    .hi = *(int64_t *)params[4]};
	int fault = fault_of(fn);

	(void)extra;
	if (gpu_fake_status())
		return gpu_fake_status();
	if ((uint64_t)bx * by * bz > 1024)
		return 701;
	if (shared > c.fn->dynamic_most) /* more than was set, or than there is unasked */
		return 1;
	if (gpu_fake_is_captured(stream)) {
		gpu_fake_record(stream, &c, pass_ns(fn, c.hi - c.lo));
		return 0;
	}
	if (fault == 701)
		return 701;
	gpu_fake_pass(pass_ns(fn, c.hi - c.lo));
	fake.hangs |= fault == -1;
	if (fault > 0)
		fake.pending = fault;
	else if (fault == 0 && !fake.pending)
		fake.pending = gpu_fake_call(&c);
	return 0;
}

int
gpu_fake_library(void *stream, int (*run)(void *arg, bool spoilt), const void *arg, size_t n, void *scratch,
    size_t n_scratch, int64_t ns)
{
	struct fake_call c = {.library = {.run = run,
				  .scratch = scratch,
				  .mark = mix64(++fake.n_calls),
				  .n_words = n_scratch / sizeof(uint64_t)}};
	bool is_captured = gpu_fake_is_captured(stream);

	ns = 1500 + (int64_t)(fake.c.model->scale * (double)ns);
	if (is_captured && c.library.n_words) {
		c.library.part = FAKE_FILL;
		gpu_fake_record(stream, &c, 0);
		c.library.part = FAKE_FINISH;
	}
	c.library.arg = heap_alloc(n);
	memcpy(c.library.arg, arg, n);
	if (is_captured) {
		gpu_fake_record(stream, &c, ns);
		return fake.dead;
	}
	gpu_fake_pass(ns);
	if (!fake.dead && !fake.pending)
		fake.pending = gpu_fake_call(&c);
	free(c.library.arg);
	return fake.dead;
}

/* ---- settings ---------------------------------------------------------------------------------- */
static bool
set_one(struct conf *c, struct str key, struct str value)
{
	int64_t v;

	for (size_t i = 0; i < COUNT_OF(models) && str_is(key, "gpu"); i++)
		if (str_is(value, models[i].key)) {
			c->model = &models[i];
			return true;
		}
	if (!str_to_i64(value, &v) || v < 0)
		return false;
#define X(N)                                                                                                 \
	if (str_is(key, #N)) {                                                                               \
		c->N = (uint64_t)v;                                                                          \
		return true;                                                                                 \
	}
	SETTINGS(X)
#undef X
	return false;
}

int64_t
gpu_fake_setting(const char *name)
{
#define X(N)                                                                                                 \
	if (strcmp(name, #N) == 0)                                                                           \
		return (int64_t)fake.c.N;
	SETTINGS(X)
#undef X
	return 0;
}

static uint32_t
per_million(uint64_t n)
{
	return (uint32_t)MIN_OF(n, (uint64_t)1000000);
}

bool
gpu_fake_make(struct str args, struct gpu *out, struct err *e)
{
	struct conf c = {.model = &models[1], .n = 1};
	struct fake_lib_conf libs;

	while (args.n) {
		struct str word = str_cut(&args, ','), value = word, key = str_cut(&value, '=');

		if (word.n && !set_one(&c, key, value))
			return err_set(e, ERR_USAGE,
			    "fake GPU: \"%.*s\" is no setting; there are gpu=v100|a100|h200, n=, dev=, "
			    "seed=, and "
			    "faults (worker/gpu_fake/driver.c)",
			    STR_ARG(word));
	}
	libs = (struct fake_lib_conf){c.seed, c.vfail, c.vwrong, c.vnone, c.vwork, c.vfast};
	fake = (struct fake){.c = c};
	*out = (struct gpu){.has = {[GPU_CUDA] = true,
				[GPU_NVRTC] = !c.no_rtc,
				[GPU_NVML] = !c.no_ml,
				[GPU_CUBLASLT] = !c.no_lt,
				[GPU_CUDNN] = !c.no_dnn},
	    .why = {[GPU_CUBLASLT] = "cuBLASLt is left out, as asked",
		[GPU_CUDNN] = "cuDNN is left out, as asked",
		[GPU_NVRTC] = "NVRTC is left out, as asked",
		[GPU_NVML] = "NVML is left out, as asked"},
	    .cu = {.init = fake_init,
		.version = fake_version,
		.words = fake_words,
		.count = fake_count,
		.device = fake_device,
		.name = fake_name,
		.uuid = fake_uuid,
		.attribute = fake_attribute,
		.memory = fake_memory,
		.pci = fake_pci,
		.retain = fake_retain,
		.release = fake_release,
		.set = fake_set,
		.sync = fake_sync,
		.load = fake_load,
		.unload = fake_unload,
		.function = fake_function,
		.set_function = fake_set_function,
		.launch = fake_launch}};
	gpu_fake_memory(memory_bytes(), &out->cu);
	gpu_fake_streams(&(struct fake_stream_conf){c.seed, c.streams, c.events, c.drop_wait, c.cross_ns,
			     c.lost_at, c.replay != 0},
	    &out->cu);
	gpu_fake_ml(&(struct fake_ml_conf){c.seed, c.throttle, c.power, c.foreign, (unsigned)c.model->sm_mhz,
			(unsigned)c.app_mhz, (unsigned)c.model->watts, c.no_list != 0, c.mps != 0},
	    &out->ml);
	gpu_fake_lt(&libs, &out->vendor.lt);
	gpu_fake_dnn(&libs, &out->vendor.dnn);
	gpu_fake_rtc(
	    &(struct fake_rtc_conf){c.seed, per_million(c.compile), per_million(c.spill),
		per_million(c.unfit), c.rtc ? (int)c.rtc : c.model->rtc, 4, c.no_builtins != 0, c.recode},
	    &out->rtc);
	return true;
}
