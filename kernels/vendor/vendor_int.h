/* kernels/vendor/vendor_int.h: one library's kernels from inside, for vendor.c and the
 * libraries' own files alone. */
#ifndef KORCH_VENDOR_INT_H
#define KORCH_VENDOR_INT_H

#include "vendor.h"

enum {
#define LT_VALUE(OURS, V, THEIRS) OURS = (V),
#define DNN_VALUE(OURS, V, THEIRS) OURS = (V),
#include "cuda_value.def"
};

#endif
