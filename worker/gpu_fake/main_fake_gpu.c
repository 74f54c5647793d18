/* worker/gpu_fake/main_fake_gpu.c: the shared object's one symbol: settings in, functions by the names of
 * NVIDIA's libraries out. */
#include "gpu_fake_int.h"

#include <stdio.h>
#include <string.h>

static struct gpu tables;

static const struct row {
	enum gpu_lib lib;
	size_t at;         /* of the function in `tables` */
	const char *names; /* by blanks */
} rows[] = {
#define CU(F, ARGS, NEED, NAMES) {GPU_CUDA, offsetof(struct gpu, cu.F), NAMES},
#define RTC(F, ARGS, NEED, NAMES) {GPU_NVRTC, offsetof(struct gpu, rtc.F), NAMES},
#define ML(F, ARGS, NEED, NAMES) {GPU_NVML, offsetof(struct gpu, ml.F), NAMES},
#include "../../kernels/device/dev_cuda_api.def"
#define LT(F, ARGS, NEED, NAMES) {GPU_CUBLASLT, offsetof(struct gpu, vendor.lt.F), NAMES},
#define DNN(F, ARGS, NEED, NAMES) {GPU_CUDNN, offsetof(struct gpu, vendor.dnn.F), NAMES},
#include "../../kernels/vendor/cuda_library.def"
};

static bool
set(const char *settings, char *why, size_t n_why)
{
	struct err e = {0};
	bool ok = gpu_fake_make(str_of(settings), &tables, &e);

	(void)snprintf(why, n_why, "%s", e.msg);
	return ok;
}

static const char *
lacks(enum gpu_lib lib)
{
	return tables.has[lib] ? NULL : tables.why[lib];
}

static void *
find(enum gpu_lib lib, const char *name)
{
	void *p = NULL;

	for (size_t i = 0; i < COUNT_OF(rows) && !p; i++) {
		struct str names = str_of(rows[i].names);

		while (names.n && rows[i].lib == lib && !p)
			if (str_is(str_cut(&names, ' '), name))
				memcpy(&p, (const char *)&tables + rows[i].at, sizeof(p));
	}
	return p;
}

extern const struct gpu_fake_object korch_fake_gpu;
__attribute__((visibility("default")))
const struct gpu_fake_object korch_fake_gpu = {KORCH_VERSION, set, gpu_fake_setting, lacks, find};
