/* kernels/device/dev_cuda_open.c: NVIDIA's libraries by lists of sonames, their functions by lists of
 * names.  What is missing is kept as a sentence; nothing here fails. */
#include "dev_cuda_int.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum need { MAY, MUST };
struct name {
	size_t at; /* of the function pointer in struct gpu */
	enum need need;
	const char *names; /* by blanks */
};
static const struct name cuda_names[] =
    {
#define CU(F, ARGS, NEED, NAMES) {offsetof(struct gpu, cu.F), NEED, NAMES},
#include "dev_cuda_api.def"
},
			 rtc_names[] =
			     {
#define RTC(F, ARGS, NEED, NAMES) {offsetof(struct gpu, rtc.F), NEED, NAMES},
#include "dev_cuda_api.def"
},
			 ml_names[] =
			     {
#define ML(F, ARGS, NEED, NAMES) {offsetof(struct gpu, ml.F), NEED, NAMES},
#include "dev_cuda_api.def"
},
			 lt_names[] =
			     {
#define LT(F, ARGS, NEED, NAMES) {offsetof(struct gpu, vendor.lt.F), NEED, NAMES},
#include "../vendor/cuda_library.def"
},
			 dnn_names[] = {
#define DNN(F, ARGS, NEED, NAMES) {offsetof(struct gpu, vendor.dnn.F), NEED, NAMES},
#include "../vendor/cuda_library.def"
};
static const struct {
	const char *words, *sonames, *install;
	const struct name *names;
	size_t n;
} libs[GPU_LIBS] = {
    [GPU_CUDA] = {"the NVIDIA driver", "libcuda.so.1", "install the NVIDIA driver (450 or later)", cuda_names,
	COUNT_OF(cuda_names)},
    [GPU_NVRTC] = {"NVRTC", "libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so.11.2 libnvrtc.so",
	"install the CUDA toolkit, or name a folder with libnvrtc in KORCH_CUDA_LIB", rtc_names,
	COUNT_OF(rtc_names)},
    [GPU_NVML] = {"NVML", "libnvidia-ml.so.1", "it comes with the NVIDIA driver", ml_names,
	COUNT_OF(ml_names)},
    [GPU_CUBLASLT] = {"cuBLASLt", "libcublasLt.so.13 libcublasLt.so.12 libcublasLt.so.11",
	"it is part of the CUDA toolkit", lt_names, COUNT_OF(lt_names)},
    [GPU_CUDNN] = {"cuDNN", "libcudnn.so.9", "install cuDNN 9", dnn_names, COUNT_OF(dnn_names)},
};

/* NVRTC opens its builtins by name when it compiles: found then only if they are loaded already, or
 * in the loader's own folders. */
static void
open_builtins(const char *dir)
{
	char pattern[4096];
	glob_t found;

	(void)snprintf(pattern, sizeof(pattern), "%s/libnvrtc-builtins.so.*", dir);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		(void)dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
	globfree(&found);
}

/* The folder that is asked for comes before the system's. */
static void *
open_one(const char *soname)
{
	const char *dir = getenv("KORCH_CUDA_LIB");
	char path[4096];
	void *h = NULL;

	if (dir && *dir) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, soname);
		h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (h && strncmp(soname, "libnvrtc", 8) == 0)
			open_builtins(dir);
	}
	return h ? h : dlopen(soname, RTLD_NOW | RTLD_LOCAL);
}

static void *
find_real(void *handle, enum gpu_lib lib, const char *name)
{
	(void)lib;
	return dlsym(handle, name);
}

static void *
find_any(gpu_find *find, void *self, enum gpu_lib lib, struct str names)
{
	char name[96];

	while (names.n) {
		struct str one = str_cut(&names, ' ');
		void *p;

		(void)snprintf(name, sizeof(name), "%.*s", STR_ARG(one));
		p = find(self, lib, name);
		if (p)
			return p;
	}
	return NULL;
}

bool
gpu_fill(struct gpu *g, enum gpu_lib lib, const char *soname, gpu_find *find, void *self)
{
	for (size_t i = 0; i < libs[lib].n; i++) {
		const struct name *n = &libs[lib].names[i];
		void *p = find_any(find, self, lib, str_of(n->names));

		if (!p && n->need == MUST) {
			(void)snprintf(g->why[lib], sizeof(g->why[lib]),
			    "%s (%s) is too old: it has no %s; %s", libs[lib].words, soname, n->names,
			    libs[lib].install);
			return false;
		}
		memcpy((char *)g + n->at, &p, sizeof(p));
	}
	return true;
}

static void
open_lib(struct gpu *g, enum gpu_lib lib)
{
	struct str sonames = str_of(libs[lib].sonames);
	char soname[64];

	(void)snprintf(g->why[lib], sizeof(g->why[lib]), "%s is not here (looked for %s); %s",
	    libs[lib].words, libs[lib].sonames, libs[lib].install);
	while (sonames.n && !g->has[lib]) {
		struct str one = str_cut(&sonames, ' ');

		(void)snprintf(soname, sizeof(soname), "%.*s", STR_ARG(one));
		g->handle[lib] = open_one(soname);
		if (!g->handle[lib])
			continue;
		g->has[lib] = gpu_fill(g, lib, soname, find_real, g->handle[lib]);
		if (!g->has[lib]) {
			(void)dlclose(g->handle[lib]);
			g->handle[lib] = NULL;
		}
	}
}

void
gpu_open(struct gpu *out)
{
	*out = (struct gpu){0};
	for (int i = GPU_CUDA; i <= GPU_NVML; i++)
		open_lib(out, (enum gpu_lib)i);
	out->first_rtc = out->handle[GPU_NVRTC];
	if (out->has[GPU_NVML] && out->ml.init() != 0) {
		out->has[GPU_NVML] = false;
		(void)snprintf(
		    out->why[GPU_NVML], sizeof(out->why[GPU_NVML]), "NVML does not start on this host");
	}
}

/* ---- which NVRTC ----------------------------------------------------------------------------- */
static bool
rtc_fits(const struct gpu *g, int sm, struct err *e)
{
	int driver = 0, major = 0, minor = 0;

	if (!gpu_rtc_knows(g, sm, e))
		return false;
	if (!g->has[GPU_CUDA] || g->cu.version(&driver) != 0 || g->rtc.version(&major, &minor) != 0)
		return true;
	return major <= driver / 1000 ||
	    err_set(e, ERR_HOST,
		"the driver is for CUDA %d.%d and cannot load what NVRTC %d.%d makes; install a newer "
		"driver, "
		"or NVRTC %d (its folder in KORCH_CUDA_LIB)",
		driver / 1000, driver / 10 % 100, major, minor, driver / 1000);
}

/* The table's NVRTC is the library behind this soname. */
static bool
take_rtc(struct gpu *g, const char *soname)
{
	void *h = open_one(soname);

	if (!h)
		return false;
	if (h == g->handle[GPU_NVRTC]) { /* it is already */
		(void)dlclose(h);
		return true;
	}
	g->handle[GPU_NVRTC] = h;
	g->has[GPU_NVRTC] = gpu_fill(g, GPU_NVRTC, soname, find_real, h);
	return g->has[GPU_NVRTC];
}

bool
gpu_rtc_choose(struct gpu *g, int sm, struct err *e)
{
	const struct gpu before = *g;
	struct str sonames = str_of(libs[GPU_NVRTC].sonames);
	struct err first = {0}, why;
	char soname[64];

	if (g->handle[GPU_NVRTC] == g->first_rtc && rtc_fits(g, sm, &first))
		return true;
	while (sonames.n && g->first_rtc) { /* the fake's table stands on no library */
		struct str one = str_cut(&sonames, ' ');

		why = (struct err){0};
		(void)snprintf(soname, sizeof(soname), "%.*s", STR_ARG(one));
		if (take_rtc(g, soname) && rtc_fits(g, sm, &why))
			return true;
		if (!first.code)
			first = why;
		*g = before;
	}
	*e = first;
	return false;
}

void
gpu_vendor_open(struct gpu *g)
{
	for (int i = GPU_CUBLASLT; i <= GPU_CUDNN; i++)
		if (!g->has[i] && !g->why[i][0]) /* asked for before, or given by the fake */
			open_lib(g, (enum gpu_lib)i);
}

void
gpu_close(struct gpu *g)
{
	if (g->has[GPU_NVML])
		(void)g->ml.shutdown();
	/* The libraries stay: they keep threads and memory of their own, and what NVRTC's C++ runtime has
	 * taken would be lost with it. */
	*g = (struct gpu){0};
}

/* ---- statuses ------------------------------------------------------------------------------- */
struct status {
	int number;
	enum err_code code;
	bool is_sticky;
	const char *words;
};
static const struct status statuses[] = {
#define STATUS(N, CODE, STICKY, WORDS) {N, ERR_##CODE, STICKY, WORDS},
#include "dev_cuda_status.def"
};

static struct status
status_of(int number)
{
	for (size_t i = 0; i < COUNT_OF(statuses); i++)
		if (statuses[i].number == number)
			return statuses[i];
	return (struct status){number, ERR_LAUNCH, true, "an error that is not known here"};
}

bool
gpu_is_sticky(int status)
{
	return status_of(status).is_sticky;
}

bool
gpu_ok(const struct gpu *g, int status, const char *what, struct err *e)
{
	struct status s = status_of(status);
	const char *words = NULL;

	if (status == 0)
		return true;
	if (!g->cu.words || g->cu.words(status, &words) != 0 || !words)
		words = s.words;
	return err_set(e, s.code, "%s: %s (driver's status %d)", what, words, status);
}

bool
gpu_ready(const struct gpu *g, bool with_rtc, int *n_devices, struct err *e)
{
	*n_devices = 0;
	if (!g->has[GPU_CUDA])
		return err_set(e, ERR_HOST, "no GPU can be used: %s", g->why[GPU_CUDA]);
	if (!gpu_ok(g, g->cu.init(0), "cuInit", e) ||
	    !gpu_ok(g, g->cu.count(n_devices), "cuDeviceGetCount", e)) {
		e->code = ERR_HOST;
		return err_in(e, "no GPU can be used");
	}
	if (*n_devices <= 0)
		return err_set(e, ERR_HOST,
		    "no GPU can be used: the driver sees no device (is CUDA_VISIBLE_DEVICES empty?)");
	return !with_rtc || g->has[GPU_NVRTC] ||
	    err_set(e, ERR_HOST, "no kernel can be compiled: %s", g->why[GPU_NVRTC]);
}
