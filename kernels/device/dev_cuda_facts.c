/* kernels/device/dev_cuda_facts.c: what a GPU is (its class and the environment its measurements are
 * kept under) and what NVML sees of it while it works. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

enum {
	ATTR_CLOCK = 13,
	ATTR_SMS = 16,
	ATTR_ECC = 32,
	ATTR_MEM_CLOCK = 36,
	ATTR_BUS = 37,
	ATTR_L2 = 38,
	ATTR_MAJOR = 75,
	ATTR_MINOR = 76,
	ATTR_SHARED_SM = 81,
	ATTR_SHARED_BLOCK = 97,
	ATTR_MPS = 133
};
enum { NVML_SM = 1, NVML_SENSOR = 0, NVML_MORE = 7, MAX_PROCESSES = 64, GPU_METHOD = 3 };

static int
attribute(const struct gpu *g, int which, int dev)
{
	int v = 0;

	return g->cu.attribute(&v, which, dev) == 0 && v > 0 ? v : 0;
}

/* "GPU-8-4-4-4-12", as NVML spells it; a MIG slice's begins with "MIG". */
static void
uuid_words(const unsigned char *b, bool is_mig, char *out, size_t cap)
{
	size_t at = (size_t)snprintf(out, cap, is_mig ? "MIG-" : "GPU-");

	for (int i = 0; i < 16 && at < cap; i++)
		at += (size_t)snprintf(
		    out + at, cap - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

/* "NVIDIA A100-SXM4-40GB MIG 1g.5gb": the slice's profile stands in the name. */
static void
take_mig(struct gpu_facts *f)
{
	char *at = strstr(f->name, " MIG ");

	if (!at)
		return;
	f->is_mig = true;
	(void)snprintf(f->mig, sizeof(f->mig), "%s", at + 5);
	*at = '\0';
}

static void *
ml_device(const struct gpu *g, const char *uuid)
{
	void *dev = NULL;

	return g->has[GPU_NVML] && g->ml.by_uuid(uuid, &dev) == 0 ? dev : NULL;
}

/* A MIG slice has processes of its own; clocks, heat and power are the whole GPU's, and asked of that. */
static void *
ml_whole(const struct gpu *g, void *dev, const char *uuid)
{
	void *whole = NULL;

	if (!dev || strncmp(uuid, "MIG-", 4) != 0 || !g->ml.parent)
		return dev;
	return g->ml.parent(dev, &whole) == 0 ? whole : dev;
}

/* The branch: "535" of "535.129.03". */
static void
take_ml(const struct gpu *g, struct gpu_facts *f)
{
	void *dev = ml_whole(g, ml_device(g, f->uuid), f->uuid);
	unsigned v = 0, w = 0;
	char *dot;

	if (!g->has[GPU_NVML])
		return;
	if (g->ml.driver(f->driver, sizeof(f->driver)) != 0)
		f->driver[0] = '\0';
	f->driver[sizeof(f->driver) - 1] = '\0';
	dot = strchr(f->driver, '.');
	if (dot)
		*dot = '\0';
	if (!dev)
		return;
	f->has_ml = true;
	if (g->ml.power_limit && g->ml.power_limit(dev, &v) == 0)
		f->power_limit_w = v / 1000;
	if (g->ml.ecc && g->ml.ecc(dev, &v, &w) == 0)
		f->has_ecc = v != 0;
	if (g->ml.app_clock && g->ml.app_clock(dev, NVML_SM, &v) == 0)
		f->app_mhz = v;
	if (g->ml.default_clock && g->ml.default_clock(dev, NVML_SM, &v) == 0)
		f->default_mhz = v;
}

bool
gpu_refuse_mps(const struct gpu_facts *f, struct err *e)
{
	return err_set(e, ERR_HOST,
	    "%s is served by MPS: kernels of other clients would run beside those that are timed; end "
	    "nvidia-cuda-mps-control, or keep this GPU out of CUDA_VISIBLE_DEVICES",
	    f->name);
}

bool
gpu_facts(const struct gpu *g, int number, struct gpu_facts *out, struct err *e)
{
	unsigned char uuid[16] = {0};
	int dev = 0, major, minor;

	*out = (struct gpu_facts){0};
	if (!gpu_ok(g, g->cu.device(&dev, number), "cuDeviceGet", e) ||
	    !gpu_ok(g, g->cu.name(out->name, (int)sizeof(out->name) - 1, dev), "cuDeviceGetName", e) ||
	    !gpu_ok(g, g->cu.uuid(uuid, dev), "cuDeviceGetUuid", e) ||
	    !gpu_ok(g, g->cu.memory(&out->memory, dev), "cuDeviceTotalMem", e) ||
	    !gpu_ok(g, g->cu.pci(out->pci, (int)sizeof(out->pci) - 1, dev), "cuDeviceGetPCIBusId", e) ||
	    !gpu_ok(g, g->cu.version(&out->cuda), "cuDriverGetVersion", e)) {
		e->code = ERR_HOST;
		return err_in(e, "GPU %d", number);
	}
	take_mig(out);
	uuid_words(uuid, out->is_mig, out->uuid, sizeof(out->uuid));
	out->sm = attribute(g, ATTR_MAJOR, dev) * 10 + attribute(g, ATTR_MINOR, dev);
	out->n_sm = attribute(g, ATTR_SMS, dev);
	out->sm_mhz = attribute(g, ATTR_CLOCK, dev) / 1000;
	out->mem_mhz = attribute(g, ATTR_MEM_CLOCK, dev) / 1000;
	out->bus_bits = attribute(g, ATTR_BUS, dev);
	out->l2_bytes = attribute(g, ATTR_L2, dev);
	out->shared_per_sm = attribute(g, ATTR_SHARED_SM, dev);
	out->shared_per_block = attribute(g, ATTR_SHARED_BLOCK, dev);
	out->has_ecc = attribute(g, ATTR_ECC, dev) != 0;
	out->is_mps = attribute(g, ATTR_MPS, dev) != 0 || gpu_has_mps(g, out->uuid);
	take_ml(g, out);
	if (g->has[GPU_NVRTC] && g->rtc.version(&major, &minor) == 0)
		out->rtc = major * 1000 + minor * 10;
	if (out->is_mps)
		return gpu_refuse_mps(out, e);
	return (out->sm > 0 && out->n_sm > 0) ||
	    err_set(e, ERR_HOST, "GPU %d (%s) does not say its architecture", number, out->name);
}

/* ---- words --------------------------------------------------------------------------------- */
/* A cubin runs on its own major architecture, from its minor one on. */
static void
feature_words(int sm, char *out, size_t cap)
{
	size_t at = (size_t)snprintf(out, cap, "cuda");

	for (int minor = sm / 10 * 10; minor <= sm && at < cap; minor++)
		at += (size_t)snprintf(out + at, cap - at, " sm_%d", minor);
}

void
gpu_describe(const struct gpu_facts *f, struct dev_info *out)
{
	char clocks[64] = "default";

	*out = (struct dev_info){0};
	class_of_gpu(str_of(f->name), str_of(f->is_mig ? f->mig : ""), out->device_class);
	(void)snprintf(out->run_compat, sizeof(out->run_compat), "cuda sm_%d", f->sm);
	feature_words(f->sm, out->features, sizeof(out->features));
	if (!f->has_ml)
		(void)snprintf(clocks, sizeof(clocks), "unknown");
	else if (f->app_mhz && f->app_mhz != f->default_mhz)
		(void)snprintf(clocks, sizeof(clocks), "application-%u", f->app_mhz);
	(void)snprintf(out->environment, sizeof(out->environment),
	    "clocks=%s\ndriver=%s\necc=%d\ngpu=%s\nl2_bytes=%d\nmemory_mib=%zu\nmethod=gpu-%d\nmig=%s\nnvrtc="
	    "%d.%d\n"
	    "power_limit_w=%u\nsm=%d\nsms=%d\n",
	    clocks, f->driver[0] ? f->driver : "unknown", f->has_ecc, f->name, f->l2_bytes, f->memory >> 20,
	    GPU_METHOD, f->is_mig ? f->mig : "none", f->rtc / 1000, f->rtc / 10 % 100, f->power_limit_w,
	    f->sm, f->n_sm);
	out->fact[DEV_FACT_cores] = f->n_sm;
	out->fact[DEV_FACT_max_mhz] = f->sm_mhz;
	out->fact[DEV_FACT_l1_bytes] = f->shared_per_sm;
	out->fact[DEV_FACT_l2_bytes] = f->l2_bytes;
	out->fact[DEV_FACT_memory_bytes] = (double)f->memory;
}

bool
gpu_rtc_knows(const struct gpu *g, int sm, struct err *e)
{
	int n = 0, archs[64], major = 0, minor = 0;
	struct arena tmp = {0};
	struct strbuf sb;
	bool knows = false;

	if (!g->has[GPU_NVRTC])
		return err_set(e, ERR_HOST, "no kernel can be compiled: %s", g->why[GPU_NVRTC]);
	if (g->rtc.version(&major, &minor) != 0 || g->rtc.n_archs(&n) != 0 || n < 0 ||
	    n > (int)COUNT_OF(archs) || g->rtc.archs(archs) != 0)
		return err_set(e, ERR_HOST, "NVRTC does not say which architectures it knows");
	sb_init(&sb, &tmp);
	for (int i = 0; i < n; i++) {
		knows |= archs[i] == sm;
		sb_addf(&sb, " %d", archs[i]);
	}
	if (!knows)
		(void)err_set(e, ERR_HOST, "NVRTC %d.%d knows no sm_%d (it knows%s)%s", major, minor, sm,
		    sb.n ? sb.p : " none",
		    sm < 75 && major > 12 ? "; CUDA 13 has dropped Volta: put NVRTC 12 into KORCH_CUDA_LIB"
					  : "");
	arena_fini(&tmp);
	return knows;
}

/* ---- while it works ------------------------------------------------------------------------- */
static const struct {
	unsigned long long bit;
	bool is_own; /* the kernel's own doing: as fast as this GPU runs it, for as long as it likes */
	const char *words;
} reasons[] = {{0x4, true, "power cap"}, {0x8, false, "slowed by hardware"},
    {0x20, false, "thermal (software)"}, {0x40, false, "thermal (hardware)"}, {0x80, false, "power brake"}};

void
gpu_throttle_words(unsigned long long bits, char *out, size_t cap)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < COUNT_OF(reasons); i++)
		if (bits & reasons[i].bit && at < cap)
			at += (size_t)snprintf(out + at, cap - at, "%s%s", at ? ", " : "", reasons[i].words);
}

/* As NVML fills it from version 2 of the call on. */
struct ml_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned instance, compute_instance;
};

/* More than fit are as many as fit; any other status says nothing of how many there are. */
static bool
count_processes(int (*list_them)(void *dev, unsigned *n, void *list), void *dev, uint32_t *n)
{
	struct ml_process list[MAX_PROCESSES];
	unsigned have = MAX_PROCESSES;
	int status = dev && list_them ? list_them(dev, &have, list) : -1;

	*n = status == 0 ? MIN_OF(have, (unsigned)MAX_PROCESSES) : status == NVML_MORE ? MAX_PROCESSES : 0;
	return status == 0 || status == NVML_MORE;
}

bool
gpu_processes(const struct gpu *g, const char *uuid, uint32_t *n)
{
	return count_processes(g->ml.processes, ml_device(g, uuid), n);
}

bool
gpu_has_mps(const struct gpu *g, const char *uuid)
{
	uint32_t n;

	return count_processes(g->ml.mps, ml_device(g, uuid), &n) && n > 0;
}

void
gpu_look(const struct gpu *g, const char *uuid, uint32_t own, struct gpu_state *out)
{
	void *dev = ml_whole(g, ml_device(g, uuid), uuid);
	unsigned long long bits = 0;
	uint32_t n;

	*out = (struct gpu_state){0};
	if (!dev)
		return;
	out->is_seen = g->ml.throttle(dev, &bits) == 0;
	(void)g->ml.clock(dev, NVML_SM, &out->sm_mhz);
	(void)g->ml.temperature(dev, NVML_SENSOR, &out->celsius);
	if (g->ml.power)
		(void)g->ml.power(dev, &out->milliwatt);
	for (size_t i = 0; i < COUNT_OF(reasons); i++)
		*(reasons[i].is_own ? &out->own_limits : &out->throttle) |= bits & reasons[i].bit;
	out->hides_others = !gpu_processes(g, uuid, &n);
	out->n_foreign = n > own ? n - own : 0;
}
