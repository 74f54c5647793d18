/* tests/harness/setting.c: see setting.h. */
#include "setting.h"

#include "../../kernels/base/base.h"

#include <stdlib.h>

uint64_t
setting(const char *name, uint64_t otherwise)
{
	int64_t v;

	return str_to_i64(str_of(getenv(name)), &v) ? (uint64_t)v : otherwise;
}
