/* The real cuDNN, where this host has it: its graphs, heuristics and plans need no device, only the text of
 * a device's properties.  What it takes here is what it will be given on a GPU; nothing runs. */
#include "../../kernels/device/gpu.h"
#include "../../kernels/vendor/cudnn_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LIST = 24 };
#define DEVICE(SM, NAME, N_SM, SHARED, SHARED_OPT, L2, MHZ)                                                  \
	"{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"  \
	"\"multiProcessorCount\":" #N_SM ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"               \
	"\"maxSharedMemoryPerBlockOptin\":" #SHARED_OPT ",\"reservedSharedMemoryPerBlock\":1024,"            \
	"\"maxSharedMemoryPerSM\":" #SHARED                                                                  \
	",\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"                      \
	"\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"              \
	"\"smClockRateKHz\":" #MHZ "000,"                                                                    \
	"\"memClockRateKHz\":2619000,\"l2CacheSize\":" #L2 ",\"deviceVer\":" #SM                             \
	"0,\"driverVer\":13000,\"deviceName\":\"" NAME "\","                                                 \
	"\"cudaDeviceId\":0,\"totalGlobalMem\":42949672960}"
static const char *const devices[] = {
    DEVICE(80, "NVIDIA A100-SXM4-40GB", 108, 167936, 166912, 41943040, 1410),
    DEVICE(90, "NVIDIA H200", 132, 233472, 232448, 62914560, 1980)};

static const enum vendor_post chains[][5] = {{VENDOR_POSTS}, {VENDOR_BIAS, VENDOR_POSTS},
    {VENDOR_BIAS, VENDOR_RELU, VENDOR_POSTS}, {VENDOR_BIAS, VENDOR_ADD, VENDOR_RELU, VENDOR_POSTS},
    {VENDOR_BIAS, VENDOR_SWISH, VENDOR_ADD, VENDOR_POSTS}, {VENDOR_BIAS, VENDOR_CLIP, VENDOR_POSTS}};
enum { NO_ENGINE = 4 }; /* the chain that it has nothing for in float32 */

static struct vendor_op
conv(enum vendor_math math, int chain)
{
	struct vendor_op op = {.kind = VENDOR_CONV,
	    .math = math,
	    .rank = 4,
	    .a = {0, {1, 64, 56, 56}, {64 * 56 * 56, 1, 64 * 56, 64}},
	    .b = {1, {64, 64, 3, 3}, {9 * 64, 1, 3 * 64, 64}},
	    .d = {4, {1, 64, 56, 56}, {64 * 56 * 56, 1, 64 * 56, 64}},
	    .lo = {1, 1},
	    .hi = {1, 1},
	    .stride = {1, 1},
	    .dilation = {1, 1}};

	for (int i = 0; chains[chain][i] != VENDOR_POSTS; i++) {
		op.post[op.n_posts].what = chains[chain][i];
		if (chains[chain][i] == VENDOR_CLIP)
			op.post[op.n_posts].b = 6;
		op.post[op.n_posts++].buf = chains[chain][i] == VENDOR_ADD ? 3 : 2;
	}
	return op;
}

/* The words of a choice make the plan that they came from. */
static void
comes_back(
    const struct vendor_api *g, const char *device, const struct vendor_op *op, const struct vendor_choice *c)
{
	struct dnn d = {.g = g};
	struct err e = {0};
	uint64_t workspace;
	void *plan;

	if (!dnn_device(&d, device, &e) || !dnn_plan(&d, op, c, &plan, &workspace, &e))
		fail_msg("engine %d: %s", (int)c->word[0], e.msg);
	assert_int_equal(workspace, c->workspace);
	dnn_free(&d);
}

static void
lists(const struct vendor_api *g, const char *device, enum vendor_math math, int chain)
{
	struct vendor_op op = conv(math, chain);
	struct vendor_choice list[LIST];
	struct dnn d = {.g = g};
	struct err e = {0};
	uint32_t n = 0;

	if (!dnn_device(&d, device, &e))
		fail_msg("%s", e.msg);
	if (!dnn_list(&d, &op, (uint64_t)1 << 28, LIST, list, &n, &e) && e.code != ERR_INFEASIBLE)
		fail_msg("%s", e.msg);
	dnn_free(&d);
	if (chain == NO_ENGINE ? n > 0 : n == 0)
		fail_msg("math %d, chain %d: %u engines; %s", (int)math, chain, n, e.msg);
	for (uint32_t i = 0; i < n; i++)
		comes_back(g, device, &op, &list[i]);
}

static void
without_a_device(void **state)
{
	struct gpu g = {0};

	(void)state;
	gpu_vendor_open(&g);
	if (!g.has[GPU_CUDNN]) {
		print_message("SKIP: %s\n", g.why[GPU_CUDNN]);
		exit(77);
	}
	for (size_t i = 0; i < COUNT_OF(devices); i++)
		for (int math = VENDOR_F32; math <= VENDOR_TF32; math++)
			for (int chain = 0; chain < (int)COUNT_OF(chains); chain++)
				lists(&g.vendor, devices[i], (enum vendor_math)math, chain);
	print_message("SKIP: 1 part: running them needs a GPU\n");
}

/* cuDNN keeps memory for the process, some of it from a library that it has closed by the end, which no
 * suppression can name. */
int __lsan_is_turned_off(void);
int
__lsan_is_turned_off(void)
{
	return 1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(without_a_device)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
