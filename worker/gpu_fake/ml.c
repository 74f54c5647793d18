/* worker/gpu_fake/ml.c: NVML's part of the fake GPU: clocks, heat, and who else is there. */
#include "gpu_fake_int.h"

#include <stdio.h>
#include <string.h>

/* NVML's functions have no handle for it. */
static struct {
	struct fake_ml_conf c;
	bool is_slow, is_capped; /* throttled, or at its power cap, at the last look */
	bool has_context;
	uint64_t n_looks;
} state;

double
gpu_fake_slowness(void)
{
	return state.is_slow ? 1.7 : state.is_capped ? 1.1 : 1;
}

void
gpu_fake_context(bool is_there)
{
	state.has_context = is_there;
}

static int
ml_nothing(void)
{
	return 0;
}

/* As the real thing: a slice lists processes, and knows neither clocks nor heat nor power. */
enum { NOT_SUPPORTED = 3 };
static char a_device, a_slice;

static int
ml_by_uuid(const char *uuid, void **dev)
{
	*dev = strncmp(uuid, "MIG-", 4) == 0 ? &a_slice : &a_device;
	return 0;
}

static int
ml_parent(void *slice, void **dev)
{
	*dev = &a_device;
	return slice == &a_slice ? 0 : NOT_SUPPORTED;
}

static int
ml_clock(void *dev, int which, unsigned *mhz)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	(void)which;
	*mhz = state.is_slow ? state.c.mhz * 6 / 10 : state.is_capped ? state.c.mhz * 9 / 10 : state.c.mhz;
	return 0;
}

static int
ml_temperature(void *dev, int sensor, unsigned *celsius)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	(void)sensor;
	*celsius = state.is_slow ? 92 : 55;
	return 0;
}

static int
ml_power(void *dev, unsigned *milliwatt)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	*milliwatt = state.c.watts * 700;
	return 0;
}

/* Each look may find it throttled or at its power cap, as often as was asked for. */
static int
ml_throttle(void *dev, unsigned long long *reasons)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	state.is_slow = mix64(state.c.seed ^ ++state.n_looks) % 1000000 < state.c.throttle;
	state.is_capped = mix64(state.c.seed ^ state.n_looks ^ 4) % 1000000 < state.c.power;
	*reasons = (state.is_slow ? 0x40ull : 0) | (state.is_capped ? 0x4ull : 0);
	return 0;
}

static int
ml_processes(void *dev, unsigned *n, void *list)
{
	bool stranger = mix64(state.c.seed ^ state.n_looks ^ 77) % 1000000 < state.c.foreign;

	(void)dev;
	(void)list;
	if (state.c.no_list)
		return NOT_SUPPORTED;
	*n = (unsigned)state.has_context + (unsigned)(stranger && state.has_context);
	return 0;
}

static int
ml_mps(void *dev, unsigned *n, void *list)
{
	(void)dev;
	(void)list;
	*n = state.c.has_mps && state.has_context;
	return 0;
}

static int
ml_power_limit(void *dev, unsigned *milliwatt)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	*milliwatt = state.c.watts * 1000;
	return 0;
}

static int
ml_ecc(void *dev, unsigned *now, unsigned *pending)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	*now = *pending = 1;
	return 0;
}

static int
ml_app_clock(void *dev, int which, unsigned *mhz)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	(void)which;
	*mhz = state.c.app_mhz ? state.c.app_mhz : state.c.mhz;
	return 0;
}

static int
ml_default_clock(void *dev, int which, unsigned *mhz)
{
	if (dev != &a_device)
		return NOT_SUPPORTED;
	(void)which;
	*mhz = state.c.mhz;
	return 0;
}

static int
ml_driver(char *text, unsigned n)
{
	(void)snprintf(text, n, "550-seed%llu.54.15",
	    (unsigned long long)state.c.seed); /* other times, another environment */
	return 0;
}

void
gpu_fake_ml(const struct fake_ml_conf *c, struct gpu_ml *out)
{
	state.c = *c;
	state.is_slow = state.is_capped = state.has_context = false;
	state.n_looks = 0;
	*out = (struct gpu_ml){.init = ml_nothing,
	    .shutdown = ml_nothing,
	    .by_uuid = ml_by_uuid,
	    .parent = ml_parent,
	    .mps = ml_mps,
	    .clock = ml_clock,
	    .temperature = ml_temperature,
	    .power = ml_power,
	    .throttle = ml_throttle,
	    .processes = ml_processes,
	    .power_limit = ml_power_limit,
	    .ecc = ml_ecc,
	    .app_clock = ml_app_clock,
	    .default_clock = ml_default_clock,
	    .driver = ml_driver};
}
