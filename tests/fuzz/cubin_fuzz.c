/* Cubins: any bytes are read or refused, and what is read can be judged.  bytes: 16384 */
#include "../../kernels/sass/cubin.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cubin c;
	struct err e = {0};

	if (!cubin_read((struct bytes){data, n}, &c, &e)) {
		if (!e.code)
			abort();
		return 0;
	}
	for (uint32_t i = 0; i < c.n_kernels; i++)
		if (cubin_occupancy(&c.kernel[i], c.sm, 256, 0) > 32 ||
		    (!cubin_worth(&c.kernel[i], c.sm, 256, 0, &e) && !e.code))
			abort();
	return 0;
}
