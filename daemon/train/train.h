/* daemon/train/train.h: rows to a predictor.  Pure: equal rows give equal bytes. */
#ifndef KORCH_TRAIN_H
#define KORCH_TRAIN_H

#include "fit.h"
#include "rows.h"

/* Which rows a fit takes or is asked about. */
struct train_part {
	enum predict_head head; /* HEAD_KERNEL: the best schedule of each spec alone */
	bool *is_out;           /* of each row: left out; NULL: none is */
};
enum { NO_MODEL = -1 };
/* Marks the rows of a model's specs, and all rows of those specs that came with others: what a fit must not
 * see to be asked about that model. */
bool *train_leave_out(struct arena *a, const struct train_set *set, uint32_t model);
/* Does the head learn from that row? */
bool train_takes(const struct train_set *set, const struct train_part *p, uint32_t row);
/* `how`: trees, leaves, share; its rows are these. */
bool train_fit(struct arena *a, const struct train_set *set, const struct train_part *p, struct fit how,
    struct forest *out, struct err *e) MUST_CHECK;
/* One head on all rows. */
bool train_head(struct arena *a, const struct train_set *set, enum predict_head head, const struct fit *how,
    struct predict_model *out, struct err *e) MUST_CHECK;
/* Both heads on all rows; intervals from what each model's kernels are off by, predicted from the other
 * models' rows. ERR_USAGE: rows of fewer than two models. */
bool train_predictor(struct arena *a, const struct train_set *set, const struct fit *how,
    struct predictor *out, struct err *e) MUST_CHECK;

#endif
