/* kernels/predict/predict.h: what a kernel is expected to take, how sure that is, and the file that it is
 * read from. Two heads: of a kernel by the best of its schedules, which are not yet listed (every
 * candidate); and of a kernel with one schedule.  Guides and orders; never a bound (D15). */
#ifndef KORCH_PREDICT_PREDICT_H
#define KORCH_PREDICT_PREDICT_H

#include "forest.h"
#include "interval.h"
#include "net_sample.h"
#include "sample.h"

enum predict_head { HEAD_KERNEL, HEAD_SCHEDULE, HEADS };
enum { PREDICT_FILE_MAX = 2 << 20, PREDICT_CLASS_MAX = 128, PREDICT_NOTE_MAX = 512 };

struct predict_model {
	struct forest f; /* ln(time / bound) of a kernel's numbers */
	struct interval interval;
	/* Training saw numbers between these; a kernel outside is far. */
	const float *least, *most;
};
struct predictor {
	struct predict_model head[HEADS];
	uint32_t n_rows, n_specs, n_models; /* that it was trained on */
	uint32_t epoch;                     /* of the generator that made their kernels */
	/* How far down unmeasured kernels must stand for 95 of 100 jobs to cost no less
	 * (daemon/train/sure.h): for predict_sure(); 0: nobody knows. */
	float sure;
	char device_class[PREDICT_CLASS_MAX];
	/* Beside HEAD_SCHEDULE's trees: what is predicted is the mean of both logarithms; NULL: trees alone.
	 */
	const struct net *network;
};
struct prediction {
	double ns;
	double log_ratio; /* ln(ns / bound), at least 0 */
	uint32_t group;   /* for interval_at() */
	bool is_far; /* training has seen nothing like it, or below a microsecond: measure, do not predict */
};
/* That of its interval: by size of the bound, linear primitives, threads. */
uint32_t predict_group(const struct sample *s);
/* plain: sample_plain() */
void predict_kernel(const struct predictor *p, const struct sample *plain, struct prediction *out);
void predict_sample(const struct predictor *p, const struct sample *s, struct prediction *out);
/* What the two say of a schedule together, all ln(time / bound). */
double predict_mean(double trees, double network);
/* The time below which the share `level` of such kernels is. */
double predict_quantile(
    const struct predictor *p, enum predict_head head, const struct prediction *of, double level);

/* What a measured kernel is off by, ln(time / predicted), as its kin hear it: beyond what nine tenths are off
 * by it pulls no harder than those, as it may be a lie. */
double predict_heard(
    const struct predictor *p, enum predict_head head, const struct prediction *of, double left);

/* The share of jobs that predict_sure() is for. */
extern const double predict_sure_level;
/* Standard errors below its time that a measured kernel counts there. */
extern const double predict_sure_errors;
/* What a kernel counts where the sum of a whole job is to be too low in 95 of 100: expected_ns is put right
 * by what the job has measured; at least the bound. */
double predict_sure(const struct predictor *p, uint32_t group, double bound_ns, double expected_ns);

/* The file: "KORCH PREDICT 3\n" (2: one set of intervals for one thread and several), what it is of, the
 * heads, and the SHA-256 of all before it.  Hostile: sizes, digest, every node checked; ERR_FORMAT,
 * ERR_LIMIT.  ERR_NEWER: its numbers are others than these (a feature or a bound changed): train anew. */
bool predictor_read(struct arena *a, struct bytes file, struct predictor *out, struct err *e) MUST_CHECK;
void predictor_write(struct arena *a, const struct predictor *p, struct bytes *file);
/* What the vectors mean, as a number: of the names of all features, the generator's epoch, and two known
 * kernels' values. */
uint64_t predict_meaning(void);
/* The file that comes with Korch (trained/, made by the target predict-train). */
struct bytes predictor_shipped(void);

#endif
