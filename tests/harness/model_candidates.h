/* tests/harness/model_candidates.h: the candidates of an ONNX file, as a full search sees them. */
#ifndef KORCH_TEST_MODEL_CANDIDATES_H
#define KORCH_TEST_MODEL_CANDIDATES_H

#include "../../daemon/fission/fission.h"
#include "../../daemon/identify/identify.h"
#include "../../daemon/rewrite/rewrite.h"

bool model_candidates(struct arena *a, const char *file, struct cand_set *out, struct err *e) MUST_CHECK;

#endif
