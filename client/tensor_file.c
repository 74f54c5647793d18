/* client/tensor_file.c: a tensor from a file, by the end of its name. */
#include "host_tensor.h"

#include <string.h>

static bool
ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), k = strlen(end);

	return n >= k && strcmp(path + n - k, end) == 0;
}

bool
host_tensor_read(struct arena *a, const char *path, struct host_tensor *out, struct err *e)
{
	if (ends_with(path, ".npy"))
		return npy_read(a, path, out, e);
	if (ends_with(path, ".pb"))
		return pb_read(a, path, out, e);
	return err_set(e, ERR_USAGE, "%s: a tensor comes from a .npy or a .pb file", path);
}
