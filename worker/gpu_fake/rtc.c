/* worker/gpu_fake/rtc.c: NVRTC's part of the fake: CUDA text gets the host's prelude in place of the
 * GPU's and becomes a shared object by the C compiler. */
#include "gpu_fake_int.h"

#include "../../kernels/generate/generate.h"

#include <stdlib.h>
#include <string.h>

struct prog {
	struct arena arena;
	struct str text, log;
	struct bytes cubin;
};
/* NVRTC has no handle for its settings either. */
static struct fake_rtc_conf conf;

uint32_t
gpu_fake_draw(uint64_t seed, uint64_t text)
{
	return (uint32_t)(mix64(text ^ mix64(seed + 1)) % 1000000);
}

static int
fake_version(int *major, int *minor)
{
	*major = conf.major;
	*minor = conf.minor;
	return 0;
}

/* As the real ones: 12 still knows Volta, 13 does not. */
static const int archs12[] = {50, 60, 70, 75, 80, 86, 89, 90}, archs13[] = {75, 80, 86, 89, 90, 100, 120};

static int
fake_n_archs(int *n)
{
	*n = conf.major < 13 ? (int)COUNT_OF(archs12) : (int)COUNT_OF(archs13);
	return 0;
}

static int
fake_archs(int *out)
{
	int n;

	(void)fake_n_archs(&n);
	memcpy(out, conf.major < 13 ? archs12 : archs13, (size_t)n * sizeof(*out));
	return 0;
}

static int
fake_create(void **out, const char *text, const char *name, int n, const char *const *headers,
    const char *const *names)
{
	struct prog *p = heap_alloc(sizeof(*p));

	(void)name;
	(void)headers;
	(void)names;
	p->text = str_of(str_dup(&p->arena, str_of(text)));
	p->log = STR("");
	*out = p;
	return n == 0 ? 0 : 1;
}

/* "-arch=sm_80" among the options; 0 where NVRTC does not know it. */
static int
arch_of(int n, const char *const *options)
{
	int n_known, known[16];
	int64_t have = 0;

	for (int i = 0; i < n; i++)
		if (strncmp(options[i], "-arch=sm_", 9) == 0 && !str_to_i64(str_of(options[i] + 9), &have))
			return 0;
	(void)fake_n_archs(&n_known);
	(void)fake_archs(known);
	for (int i = 0; i < n_known; i++)
		if (known[i] == have)
			return known[i];
	return 0;
}

static bool
starts(struct str s, struct str with)
{
	return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

static bool
make_object(struct prog *p, struct str kernel, struct bytes *out, struct err *e)
{
	static const char *const flags[] = {"-O0", "-w", NULL};
	struct compile_opts o = {.flags = flags};
	struct strbuf sb;

	sb_init(&sb, &p->arena);
	sb_add(&sb, prelude_cuda(&p->arena, true));
	if (str_starts(kernel, GPU_FAKE_SPARED)) /* they run with every batch: worth a better compile */
		sb_addz(&sb, "#pragma GCC optimize(\"O2\")\n");
	sb_add(&sb, kernel);
	return compile_c(&p->arena, sb_str(&sb), &o, out, e);
}

/* What the kernel is said to need: more than there is for those that fall under a rate. */
static void
figures_of(const struct fake_code *head, struct fake_figures *f)
{
	uint32_t draw = gpu_fake_draw(conf.seed, head->text * 3);

	*f = (struct fake_figures){.registers = 32};
	if (!head->is_ref && draw < conf.spill)
		f->stored_bytes = 1024;
	else if (!head->is_ref && draw < conf.spill + conf.unfit)
		f->shared_bytes = 300 << 10;
}

static void
take_ref(struct fake_code *head, struct str kernel)
{
	head->is_ref = str_starts(kernel, GPU_FAKE_SPARED);
	head->flops = str_starts(kernel, GPU_FAKE_SPARED GPU_FAKE_COMPUTE) ? 512 : 0;
	head->tensor = str_starts(kernel, GPU_FAKE_SPARED GPU_FAKE_TENSOR) ? 65536
	    : str_starts(kernel, GPU_FAKE_SPARED GPU_FAKE_TENSOR_SMALL)    ? 32768
									   : 0;
	head->bytes = str_starts(kernel, GPU_FAKE_SPARED GPU_FAKE_STREAM) ? 8 : 0;
}

static int
fake_compile(void *prog, int n, const char *const *options)
{
	struct prog *p = prog;
	struct str gpu = prelude_cuda(&p->arena, false), kernel;
	struct fake_figures f;
	struct fake_code head = {.magic = "FAKECUB", .sm = (uint32_t)arch_of(n, options)};
	struct bytes object;
	struct err e = {0};

	if (conf.no_builtins) {
		p->log = STR("nvrtc: error: failed to open libnvrtc-builtins.so.12.9.");
		return 7;
	}
	if (!head.sm) {
		p->log = STR("nvrtc: error: invalid value for --gpu-architecture (-arch)");
		return 5;
	}
	if (!starts(p->text, gpu)) {
		p->log = STR("k.cu(1): error: the text does not stand on the prelude");
		return 6;
	}
	kernel = (struct str){p->text.p + gpu.n, p->text.n - gpu.n};
	head.recode = conf.recode;
	head.text = hash64(kernel.p, kernel.n, 0);
	take_ref(&head, kernel);
	if (!head.is_ref && gpu_fake_draw(conf.seed, ~head.text) < conf.compile) {
		p->log = STR("k.cu(2): error: the fake compiler says so");
		return 6;
	}
	if (!make_object(p, kernel, &object, &e)) {
		p->log = str_of(arena_printf(&p->arena, "k.cu: error: %s", e.msg));
		return e.code == ERR_COMPILE ? 6 : 11;
	}
	head.n_bytes = object.n;
	figures_of(&head, &f);
	gpu_fake_cubin(&p->arena, &head, object, kernel, &f, &p->cubin);
	return 0;
}

static int
fake_log_bytes(void *prog, size_t *n)
{
	*n = ((struct prog *)prog)->log.n + 1;
	return 0;
}

static int
fake_log(void *prog, char *text)
{
	struct prog *p = prog;

	memcpy(text, p->log.p, p->log.n);
	text[p->log.n] = '\0';
	return 0;
}

static int
fake_cubin_bytes(void *prog, size_t *n)
{
	*n = ((struct prog *)prog)->cubin.n;
	return 0;
}

static int
fake_cubin(void *prog, char *bytes)
{
	struct prog *p = prog;

	memcpy(bytes, p->cubin.p, p->cubin.n);
	return 0;
}

static int
fake_free(void **prog)
{
	struct prog *p = *prog;

	arena_fini(&p->arena);
	free(p);
	*prog = NULL;
	return 0;
}

void
gpu_fake_rtc(const struct fake_rtc_conf *c, struct gpu_rtc *out)
{
	conf = *c;
	*out = (struct gpu_rtc){.version = fake_version,
	    .n_archs = fake_n_archs,
	    .archs = fake_archs,
	    .create = fake_create,
	    .compile = fake_compile,
	    .log_bytes = fake_log_bytes,
	    .log = fake_log,
	    .cubin_bytes = fake_cubin_bytes,
	    .cubin = fake_cubin,
	    .free = fake_free};
}
