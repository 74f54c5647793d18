/* Tensors from files: .npy and TensorProto.  The first byte chooses. */
#include "../../client/host_tensor.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct host_tensor t;
	struct err e = {0};
	size_t n_bytes;
	bool ok;

	if (n == 0)
		return 0;
	ok = data[0] & 1 ? npy_parse(&a, (struct bytes){data + 1, n - 1}, &t, &e)
			 : pb_parse(&a, (struct bytes){data + 1, n - 1}, &t, &e);
	if (ok && (!shape_bytes(&t.shape, t.type, &n_bytes) || n_bytes != t.n_bytes))
		abort();
	if (!ok && !e.code)
		abort();
	arena_fini(&a);
	return 0;
}
