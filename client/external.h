/* client/external.h: which files besides the model itself have to travel with it. */
#ifndef KORCH_EXTERNAL_H
#define KORCH_EXTERNAL_H

#include "../kernels/base/base.h"

/* The distinct locations of external tensor data in ONNX bytes, relative to the model's folder,
 * in order of first mention.  Bytes that are no ONNX give what was found before the damage: the
 * planner is the one that judges the file. */
void external_list(struct arena *a, struct bytes onnx, struct str **out, uint32_t *n);

#endif
