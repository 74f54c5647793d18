/* kernels/device/gpu.h: NVIDIA GPUs.  The libraries are opened at run time as tables of functions
 * (dev_cuda_api.def, kernels/vendor/cuda_library.def), declared here and not by NVIDIA's headers: one binary
 * serves hosts with and without a GPU, and a fake driver (worker/gpu_fake) stands behind the same tables. */
#ifndef KORCH_GPU_H
#define KORCH_GPU_H

#include "dev.h"
#include "../vendor/vendor.h"
#include "streams.h"

/* ---- the tables ------------------------------------------------------------------------ */
struct gpu_cu {
#define CU(F, ARGS, NEED, NAMES) int(*F) ARGS;
#include "dev_cuda_api.def"
};
struct gpu_rtc {
#define RTC(F, ARGS, NEED, NAMES) int(*F) ARGS;
#include "dev_cuda_api.def"
};
struct gpu_ml {
#define ML(F, ARGS, NEED, NAMES) int(*F) ARGS;
#include "dev_cuda_api.def"
};
enum gpu_lib { GPU_CUDA, GPU_NVRTC, GPU_NVML, GPU_CUBLASLT, GPU_CUDNN, GPU_LIBS };
struct gpu {
	struct gpu_cu cu;
	struct gpu_rtc rtc;
	struct gpu_ml ml;
	struct vendor_api vendor; /* of cuBLASLt and cuDNN */
	bool has[GPU_LIBS];
	char why[GPU_LIBS][256]; /* what is missing, where has is false */
	void *handle[GPU_LIBS];  /* of the real libraries */
	void *first_rtc; /* handle of the NVRTC that comes first; gpu_rtc_choose may have taken another */
};
/* Opens what this host has; never fails: has[] and why[] say what came of it.  cuBLASLt
 * and cuDNN are only looked up when gpu_vendor_open asks, because they are large. */
void gpu_open(struct gpu *out);
void gpu_vendor_open(struct gpu *g);
/* Closes what gpu_open opened. */
void gpu_close(struct gpu *g);
/* A driver that works and at least one device, and (with_rtc) an NVRTC.  ERR_HOST says which
 * library or device is missing and what to install. */
bool gpu_ready(const struct gpu *g, bool with_rtc, int *n_devices, struct err *e) MUST_CHECK;
/* The error behind a driver's status; true for 0.  `what` names the call. */
bool gpu_ok(const struct gpu *g, int status, const char *what, struct err *e);
bool gpu_is_sticky(int status); /* the context is lost: only another process helps */

/* ---- what a device is ------------------------------------------------------------------- */
struct gpu_facts {
	char name[96], uuid[48], pci[32], mig[32], driver[32];
	int sm; /* 70, 80, 90 ... */
	int n_sm, sm_mhz, mem_mhz, bus_bits, cuda, rtc;
	int l2_bytes, shared_per_sm, shared_per_block;
	size_t memory;
	unsigned power_limit_w, app_mhz, default_mhz; /* 0: not known */
	bool is_mig, has_ecc, has_ml, is_mps;
};
/* ERR_HOST: no such device; MPS serves it.  with_rtc: NVRTC's version is part of the facts. */
bool gpu_facts(const struct gpu *g, int number, struct gpu_facts *out, struct err *e) MUST_CHECK;
bool gpu_refuse_mps(const struct gpu_facts *f, struct err *e);
/* Class ("cuda:NVIDIA-A100-SXM4-40GB"), run compatibility and the measuring environment's lines. */
void gpu_describe(const struct gpu_facts *f, struct dev_info *out);
/* Does NVRTC know the architecture?  ERR_HOST naming what it knows. */
bool gpu_rtc_knows(const struct gpu *g, int sm, struct err *e) MUST_CHECK;
/* Takes the first NVRTC of this host that knows the architecture and whose code the driver (where
 * there is one) can load: CUDA 13's knows no sm_70, and a driver of CUDA 12 loads nothing of CUDA 13's.
 * Which one that is does not depend on what was chosen before; the table keeps it until the next call.
 * ERR_HOST: what is wrong with the first. */
bool gpu_rtc_choose(struct gpu *g, int sm, struct err *e) MUST_CHECK;

/* ---- compiling ---------------------------------------------------------------------------- */
/* CUDA C -> a cubin.  ERR_COMPILE with the first lines of the log, ERR_HOST where NVRTC lacks its
 * builtins or the architecture. */
bool gpu_compile(const struct gpu *g, struct arena *a, struct str text, int sm, bool strict,
    struct bytes *out, struct err *e) MUST_CHECK;

/* ---- modules: several cubins and how each of their passes is started ------------------------ */
enum { GPU_MAX_KERNELS = 16384, GPU_MAX_BLOCK = 1024 };
struct gpu_pass {
	uint32_t grid[3], block[3], shared; /* shared: bytes asked for at the launch */
};
struct gpu_kernel {
	struct str symbol; /* in the module; in its own cubin every kernel is called "k" */
	struct bytes cubin;
	uint32_t n_passes;
	struct gpu_pass pass[DEV_MAX_PASSES];
};
void gpu_module_pack(struct arena *a, int sm, const struct gpu_kernel *k, uint32_t n, struct bytes *out);
/* Everything is checked and points into `b`.  ERR_FORMAT. */
bool gpu_module_read(
    struct arena *a, struct bytes b, int *sm, struct gpu_kernel **k, uint32_t *n, struct err *e) MUST_CHECK;

/* ---- the device ----------------------------------------------------------------------------- */
/* A struct dev whose memory is the GPU's: put and get move it.  Borrows `g`. */
bool dev_cuda_open(const struct gpu *g, int number, struct dev *out, struct err *e) MUST_CHECK;
const struct gpu_facts *dev_cuda_facts(const struct dev *d);

/* Launches captured once and replayed between two events.  order: on which streams, and borrowed; NULL: one
 * behind the other. */
struct gpu_graph;
bool gpu_graph_make(const struct dev *d, const struct dev_launch *l, uint32_t n, const struct streams *order,
    struct gpu_graph **out, struct err *e) MUST_CHECK;
bool gpu_graph_time(const struct dev *d, struct gpu_graph *g, int64_t *ns, struct err *e) MUST_CHECK;
/* The same launches on other buffers. */
void gpu_graph_point(const struct dev *d, struct gpu_graph *g, const struct dev_launch *l, uint32_t n);
/* Copies, the graph (NULL: none), copies; waits once.  ns: of the graph. */
bool gpu_graph_run(const struct dev *d, struct gpu_graph *g, const struct dev_copy *in, uint32_t n_in,
    const struct dev_copy *out, uint32_t n_out, int64_t *ns, struct err *e) MUST_CHECK;
void gpu_graph_free(const struct dev *d, struct gpu_graph *g);
/* Writes over the second-level cache, outside any timed region. */
bool gpu_flush(const struct dev *d, struct err *e) MUST_CHECK;

/* Fills the scratch that kernels outside of plans run with: who reads what nobody wrote shall see it. */
bool gpu_poison(const struct dev *d, int byte, struct err *e) MUST_CHECK;

/* The host's memory that the GPU copies by itself; NULL where there is none left. */
void *gpu_host_new(const struct dev *d, size_t n_bytes);
void gpu_host_free(const struct dev *d, void *p);

/* Where a pointer leads: *number: the GPU in whose memory it lies, as the driver counts; -1: what the driver
 * does not know, or pinned for the host, is the host's. */
bool gpu_where(const struct dev *d, const void *at, int *number, struct err *e) MUST_CHECK;
int gpu_number(const struct dev *d);
/* The device becomes this thread's: the driver knows one for each thread, and callers may be several. */
bool gpu_enter(const struct dev *d);

/* ---- kernels of cuBLASLt and cuDNN (kernels/vendor/vendor.h) ---------------------------------- */
/* The library's algorithms for the operation on this device, its best guess first, none with more
 * scratch than max_workspace.  ERR_HOST: the library is not here; ERR_INFEASIBLE: it has none. */
bool vendor_list(const struct dev *d, enum library lib, const struct vendor_op *op, uint64_t max_workspace,
    uint32_t max, struct vendor_choice *out, uint32_t *n, struct err *e) MUST_CHECK;

/* Of a library of CUDA's: its version where this host has it and it is to compete (KORCH_LIBRARIES=none:
 * none), else 0.  Opens it: it is large. */
int64_t vendor_version(struct gpu *g, enum library l);
/* What a spec's kernel by a schedule with lib= is here, as bytes: the library is asked for its list, and
 * `algo` counts in it. */
bool vendor_resolve(const struct dev *d, struct arena *a, struct str spec, struct str schedule,
    struct bytes *out, struct err *e) MUST_CHECK;

/* ---- what NVML sees -------------------------------------------------------------------------- */
struct gpu_state {
	unsigned sm_mhz, celsius, milliwatt;
	unsigned long long throttle;   /* reasons that slow it; idle and set clocks are none */
	unsigned long long own_limits; /* what the work itself brings about: the power cap, at full load */
	uint32_t n_foreign;            /* other processes with a context */
	bool is_seen;                  /* false: no NVML here, or none that tells what slows this GPU */
	bool hides_others;             /* it does not list processes */
};
void gpu_state(const struct dev *d, struct gpu_state *out);
/* The same without a context of our own: `own` of the processes are no strangers. */
void gpu_look(const struct gpu *g, const char *uuid, uint32_t own, struct gpu_state *out);
/* Processes with a context; false where NVML does not list them. */
bool gpu_processes(const struct gpu *g, const char *uuid, uint32_t *n);
/* Has MPS clients: for drivers that know no attribute for that. */
bool gpu_has_mps(const struct gpu *g, const char *uuid);
/* "power cap, thermal": words for the reasons. */
void gpu_throttle_words(unsigned long long reasons, char *out, size_t cap);

#endif
