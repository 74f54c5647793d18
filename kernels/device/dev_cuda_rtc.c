/* kernels/device/dev_cuda_rtc.c: CUDA C becomes a cubin, by NVRTC.  No header is needed: generated text
 * has none. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

enum {
	RTC_OK = 0,
	RTC_BAD_OPTION = 5,
	RTC_COMPILATION = 6,
	RTC_BUILTIN = 7,
	LOG_MAX = 1 << 20,
	CUBIN_MAX = 64 << 20
};

/* The first lines of the log that say "error", or its beginning. */
static struct str
first_words(struct str log)
{
	struct str rest = log;

	while (rest.n) {
		struct str line = str_cut(&rest, '\n');

		for (size_t i = 0; i + 5 <= line.n; i++)
			if (memcmp(line.p + i, "error", 5) == 0)
				return str_trim(line);
	}
	log.n = MIN_OF(log.n, (size_t)300);
	return str_trim(log);
}

static struct str
read_log(const struct gpu *g, struct arena *a, void *prog)
{
	size_t n = 0;
	char *text;

	if (g->rtc.log_bytes(prog, &n) != 0 || n == 0 || n > LOG_MAX)
		return STR("no log");
	text = arena_alloc(a, n + 1);
	if (g->rtc.log(prog, text) != 0)
		return STR("no log");
	return str_of(text);
}

static bool
failed(const struct gpu *g, struct arena *a, void *prog, int status, int sm, struct err *e)
{
	struct str log = first_words(read_log(g, a, prog));

	if (status == RTC_BAD_OPTION && !gpu_rtc_knows(g, sm, e))
		return false;
	if (status == RTC_BUILTIN)
		return err_set(e, ERR_HOST,
		    "NVRTC lacks its builtins (%.*s): libnvrtc-builtins belongs beside libnvrtc",
		    (int)MIN_OF(log.n, (size_t)200), log.p);
	if (status == RTC_COMPILATION)
		return err_set(e, ERR_COMPILE, "NVRTC: %.*s", (int)MIN_OF(log.n, (size_t)400), log.p);
	return err_set(
	    e, ERR_HOST, "NVRTC ended with status %d: %.*s", status, (int)MIN_OF(log.n, (size_t)300), log.p);
}

static bool
take_cubin(const struct gpu *g, struct arena *a, void *prog, struct bytes *out, struct err *e)
{
	size_t n = 0;
	char *p;

	if (g->rtc.cubin_bytes(prog, &n) != 0 || n == 0 || n > CUBIN_MAX)
		return err_set(e, ERR_COMPILE, "NVRTC made no cubin (%zu bytes)", n);
	p = arena_alloc(a, n);
	if (g->rtc.cubin(prog, p) != 0)
		return err_set(e, ERR_COMPILE, "NVRTC does not give its cubin");
	*out = (struct bytes){(const uint8_t *)p, n};
	return true;
}

bool
gpu_compile(const struct gpu *g, struct arena *a, struct str text, int sm, bool strict, struct bytes *out,
    struct err *e)
{
	char arch[32];
	const char *options[] = {arch, "-default-device", "-w", strict ? "--fmad=false" : "--fmad=true"};
	void *prog = NULL;
	int status;
	bool ok;

	if (!g->has[GPU_NVRTC])
		return err_set(e, ERR_HOST, "no kernel can be compiled: %s", g->why[GPU_NVRTC]);
	(void)snprintf(arch, sizeof(arch), "-arch=sm_%d", sm);
	if (g->rtc.create(&prog, str_dup(a, text), "k.cu", 0, NULL, NULL) != 0)
		return err_set(e, ERR_HOST, "NVRTC does not start");
	status = g->rtc.compile(prog, (int)COUNT_OF(options), options);
	ok = status == RTC_OK ? take_cubin(g, a, prog, out, e) : failed(g, a, prog, status, sm, e);
	(void)g->rtc.free(&prog);
	return ok;
}
