/* worker/gpu_child.c: opens a driver, real or fake, and a device of it. */
#include "gpu_child.h"

#include "../kernels/device/gpu_fake.h"

#include <stdlib.h>
#include <string.h>

bool
gpu_child_open(const char *device, const char *fake, struct gpu_child *out, struct err *e)
{
	struct str rest = str_of(device), kind = str_cut(&rest, ':');
	int64_t number = 0;

	*out = (struct gpu_child){.is_open = true};
	if (!*fake)
		gpu_open(&out->gpu);
	else if (!gpu_fake_open(str_of(fake), &out->gpu, e))
		return false;
	if (str_is(kind, "nvrtc")) {
		out->dev = (struct dev){.name = "nvrtc"};
		return out->gpu.has[GPU_NVRTC] ||
		    err_set(e, ERR_HOST, "no kernel can be compiled: %s", out->gpu.why[GPU_NVRTC]);
	}
	if (!str_to_i64(rest, &number) || number < 0 || number > 1024)
		return err_set(e, ERR_USAGE, "\"%s\" names no GPU; it is cuda:0, cuda:1 ...", device);
	return dev_cuda_open(&out->gpu, (int)number, &out->dev, e);
}

void
gpu_child_close(struct gpu_child *c)
{
	if (!c->is_open)
		return;
	if (c->dev.close)
		c->dev.close(c->dev.self);
	gpu_close(&c->gpu);
}
