/* tests/bench/gpu_rows.h: lists of kernels to time on a GPU, and what is printed of each row. */
#ifndef KORCH_BENCH_GPU_ROWS_H
#define KORCH_BENCH_GPU_ROWS_H

#include "../../worker/device.h"

/* A line of the list: "name, file, schedule, precision, predictions".  The file, beside the list, holds a
 * graph or a spec; no schedule: the space's best guesses; predictions: "80=3150000 90=2310000", ns by compute
 * capability. */
struct gpu_row {
	const char *name;
	struct spec spec;
	struct str schedule, precision;
	int64_t predicted_ns; /* on this device; 0: nothing was */
};
/* ERR_FORMAT naming file and line. */
bool gpu_rows_read(
    struct arena *a, const char *file, int sm, struct gpu_row **out, uint32_t *n, struct err *e) MUST_CHECK;

/* "row NAME | SCHEDULE | PRECISION | 2310400 ns | 59.5 TFLOP/s | bound 140000 | predicted 2310000 | regs 168
 * | blocks 1 | +-0.2 % | error 1e-4": bound: of the spec on this device, whatever the schedule; what failed
 * has its class and cause in place of figures. */
void gpu_row_print(const struct gpu_row *g, const struct m_env *env, const struct m_row *r);
/* What the calibration of a GPU saw, in figures of its own. */
void gpu_calibration_print(const struct device *d);

#endif
