/* tests/harness/onnx_case.h: a folder with model.onnx and test_data_set_K/{input,output}_J.pb, as
 * ONNX's backend tests have it, and the rule by which outputs agree. */
#ifndef KORCH_ONNX_CASE_H
#define KORCH_ONNX_CASE_H

#include "../../daemon/model/model.h"

struct tolerance {
	double rtol, atol; /* |have - want| <= atol + rtol * |want| */
};
/* That of data.json beside the model for output `i`, else ONNX's own 1e-3 and 1e-7. */
bool case_tolerance(
    struct arena *a, const char *dir, uint32_t i, struct tolerance *out, struct err *e) MUST_CHECK;
/* Tensor FILE_J.pb of data set K; false with e untouched where there is no such file. */
bool case_tensor(struct arena *a, const char *dir, uint32_t set, const char *file, uint32_t j,
    struct model_tensor *out, struct err *e) MUST_CHECK;
bool case_has_set(const char *dir, uint32_t set);
/* Same type and shape, every element within the tolerance, integers equal, NaN equals NaN.
 * ERR_WRONG names the first element that differs. */
bool case_agrees(const struct model_tensor *want, const struct tensor *t, const void *have,
    struct tolerance tol, struct err *e) MUST_CHECK;

#endif
