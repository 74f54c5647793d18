/* worker/gpu_child.h: the measuring child's part for GPUs: its driver, its references, its race.
 * For this folder alone. */
#ifndef KORCH_GPU_CHILD_H
#define KORCH_GPU_CHILD_H

#include "../kernels/device/gpu.h"
#include "measure_int.h"

#define GPU_REF_SYMBOL "reference_"

/* "cuda:0" or "nvrtc"; settings of the fake driver, or "" for the real one. */
struct gpu_child {
	struct gpu gpu;
	struct dev dev;
	bool is_open;
};
bool gpu_child_open(const char *device, const char *fake, struct gpu_child *out, struct err *e) MUST_CHECK;
void gpu_child_close(struct gpu_child *c);

/* ---- references: kernels of known kind and an empty one, in every module (gpu_refs.c); the tensor cores'
 * only in the one of a calibration that is to be kept ---- */
enum gpu_ref { GPU_REF_COMPUTE, GPU_REF_STREAM, GPU_REF_NOTHING, GPU_REF_TENSOR, GPU_REFS };
struct str gpu_ref_text(enum gpu_ref r, int sm); /* behind the prelude */
struct gpu_pass gpu_ref_pass(enum gpu_ref r, int n_sm);
struct gpu_refs {
	const struct dev *dev;
	struct dev_kernel kernel[GPU_REFS];
	void *buf[2];
	size_t n_bytes;          /* of each */
	struct gpu_graph *graph; /* of so many calls of the compute reference */
	uint32_t calls;
};
/* From a loaded module; proves the device by their results.  ERR_DEVLOST where they are wrong. */
bool gpu_refs_open(const struct dev *d, struct dev_module *m, struct gpu_refs *r, struct err *e) MUST_CHECK;
void gpu_refs_close(struct gpu_refs *r);
/* One call of the compute reference, which every SM works on, in ns. */
bool gpu_refs_time(struct gpu_refs *r, int64_t *ns, struct err *e) MUST_CHECK;
/* Works until two windows of its time agree within 1 %, 2 s at most: an idle GPU's clocks take a while to
 * rise. */
bool gpu_refs_warm(struct gpu_refs *r, struct err *e) MUST_CHECK;
/* What was seen goes to the facts (0: no memory to see it with), what is beyond the data sheet to the bounds
 * too. ref_ns[REF_STREAM]: 64 MiB through the GPU's memory, 0 likewise.  hw.tensor_peak: of float16, as seen.
 */
bool gpu_calibrate(
    const struct dev *d, struct gpu_refs *r, struct calibration *out, struct err *e) MUST_CHECK;

/* ---- samples that do not count: the clock was slowed, or somebody else was there (gpu_race.c) ---- */
struct gpu_voids {
	uint32_t n_throttled, n_disturbed;
	unsigned long long reasons;
};
bool gpu_is_clean(const struct gpu_state *s);
void gpu_void(struct gpu_voids *v, const struct gpu_state *s);
/* ERR_THROTTLED or ERR_BUSY with their number, where there are any. */
bool gpu_voids_told(const struct gpu_voids *v, uint32_t n_good, struct err *e) MUST_CHECK;

/* As race_run, on a GPU (gpu_race.c).  Faults of kernels are rows; false where the context is lost,
 * with the kernel it was at: rows[*at] has the cause. */
bool gpu_race_run(const struct race *r, struct gpu_refs *refs, void (*before)(void *arg, uint32_t i),
    void *arg, struct m_measured *rows, struct err *e) MUST_CHECK;

/* rows[0] is a kernel, the others are the same with its instructions in other orders (gpu_pair.c).  As
 * gpu_race_run otherwise. */
bool gpu_pairs_run(const struct race *r, struct gpu_refs *refs, void (*before)(void *arg, uint32_t i),
    void *arg, struct m_measured *rows, struct err *e) MUST_CHECK;

#endif
