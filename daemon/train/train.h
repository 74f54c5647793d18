/* daemon/train/train.h: rows to a predictor.  Pure: equal rows give equal bytes. */
#ifndef KORCH_TRAIN_H
#define KORCH_TRAIN_H

#include "fit.h"
#include "rows.h"
#include "sure.h"

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
/* ln(time / bound) of each row, at least 0, by what learned from models without its own. */
bool train_left_out(const struct train_set *set, enum predict_head head, const struct fit *how, float *value,
    struct err *e) MUST_CHECK;
/* One head on all rows, and in `value` what train_left_out() says of each. */
bool train_head(struct arena *a, const struct train_set *set, enum predict_head head, const struct fit *how,
    struct predict_model *out, float *value, struct err *e) MUST_CHECK;
/* The rows that jobs of a model are made of, apart by device; value: of train_left_out() for HEAD_KERNEL. */
struct sure_model *train_sure_models(struct arena *a, const struct train_set *set, const struct predictor *p,
    const float *value, uint32_t model, uint32_t *n);
/* p->sure, by the interval that is there. */
bool train_sure(
    const struct train_set *set, const float *value, struct predictor *p, struct err *e) MUST_CHECK;
/* Both heads on all rows; intervals from what each model's kernels are off by, predicted from the other
 * models' rows. ERR_USAGE: rows of fewer than two models. */
bool train_predictor(struct arena *a, const struct train_set *set, const struct fit *how,
    struct predictor *out, struct err *e) MUST_CHECK;

#endif
