/* client/python/dlpack.h: the structs of DLPack 0.8's ABI, as its specification gives them: a tensor that one
 * library hands to another in a capsule named "dltensor". */
#ifndef KORCH_DLPACK_H
#define KORCH_DLPACK_H

#include <stdint.h>

enum dl_device_type { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum dl_type_code { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

struct dl_device {
	int32_t type, id;
};
struct dl_type {
	uint8_t code, bits;
	uint16_t lanes;
};
struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t ndim;
	struct dl_type type;
	int64_t *shape;
	int64_t *strides; /* in elements; NULL: dense, row-major */
	uint64_t byte_offset;
};
struct dl_managed {
	struct dl_tensor tensor;
	void *manager;
	void (*deleter)(struct dl_managed *self);
};

#endif
