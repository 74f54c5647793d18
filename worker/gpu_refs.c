/* worker/gpu_refs.c: small kernels of known kind.  They prove that the device computes rightly, show
 * its clock beside every measurement, and calibrate what a launch and a byte cost at best. */
#include "gpu_child.h"
#include "gpu_fake/gpu_fake.h"

#include "../kernels/cost/gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	COMPUTE_N = 4096,
	ROUNDS = 64,
	STREAM_N = 1 << 18,
	BLOCK = 128,
	SAMPLES = 15,
	MAX_CALLS = 512,
	LAUNCHES = 256
};
static const int64_t sample_ns = 200000, window_ns = 5000000, patience_ns = 2000000000;
static const double margin = 1.1, steady = 0.01;
#define PARAMS                                                                                               \
	"void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n\t(void)shared, "              \
	"(void)local;\n"

static const char *const texts[GPU_REFS] = {
    [GPU_REF_COMPUTE] = GPU_FAKE_SPARED
    "K_KERNEL\nk_p0(" PARAMS "\tconst float *x = (const float *)buf[0];\n\tfloat *y = (float *)buf[1];\n"
    "\tfor (k_i64 o = lo + K_BLOCK * 128l + K_TID; o < hi; o += K_BLOCKS * 128l) {\n"
    "\t\tfloat a = x[o], b = a + 1, c = a + 2, d = a + 3;\n"
    "\t\tfor (int i = 0; i < 64; i++) {\n"
    "\t\t\ta = a * 0.5f + 0.25f;\n\t\t\tb = b * 0.5f + 0.25f;\n\t\t\tc = c * 0.5f + 0.25f;\n\t\t\td = d * "
    "0.5f + 0.25f;\n"
    "\t\t}\n\t\ty[o] = a + b + c + d;\n\t}\n}\n",
    [GPU_REF_STREAM] = GPU_FAKE_SPARED
    "K_KERNEL\nk_p0(" PARAMS "\tconst float *x = (const float *)buf[0];\n\tfloat *y = (float *)buf[1];\n"
    "\tfor (k_i64 o = lo + K_BLOCK * 128l + K_TID; o < hi; o += K_BLOCKS * 128l)\n\t\ty[o] = x[o] + 1;\n}\n",
    [GPU_REF_NOTHING] = GPU_FAKE_SPARED "K_KERNEL\nk_p0(" PARAMS "\t(void)buf, (void)lo, (void)hi;\n}\n",
};
static const int64_t ranges[GPU_REFS] = {COMPUTE_N, STREAM_N, 1};
static const char *const symbols[GPU_REFS] = {
    GPU_REF_SYMBOL "compute", GPU_REF_SYMBOL "stream", GPU_REF_SYMBOL "nothing"};

struct str
gpu_ref_text(enum gpu_ref r)
{
	return str_of(texts[r]);
}

struct gpu_pass
gpu_ref_pass(enum gpu_ref r, int n_sm)
{
	int64_t blocks = (ranges[r] + BLOCK - 1) / BLOCK;

	return (struct gpu_pass){
	    .grid = {(uint32_t)MIN_OF(blocks, (int64_t)n_sm * 16), 1, 1}, .block = {BLOCK, 1, 1}};
}

/* ---- are they right? ------------------------------------------------------------------------ */
static bool
run_one(struct gpu_refs *r, enum gpu_ref which, float *y, struct err *e)
{
	const struct dev *d = r->dev;
	struct dev_launch l = {.kernel = &r->kernel[which], .buf = r->buf};
	size_t n = (size_t)ranges[which] * sizeof(*y);
	bool is_lost;

	d->run(d->self, &l, 1, NULL);
	d->get(d->self, y, r->buf[1], n);
	return d->fault(d->self, &is_lost, e);
}

/* The chains tend to a half: four of them to two, whatever the start. */
static bool
prove(struct gpu_refs *r, struct err *e)
{
	const struct dev *d = r->dev;
	float *x = heap_alloc(STREAM_N * sizeof(*x)), *y = heap_alloc(STREAM_N * sizeof(*y));
	bool ok;

	for (int i = 0; i < STREAM_N; i++)
		x[i] = (float)(i % 1009);
	d->put(d->self, r->buf[0], x, STREAM_N * sizeof(*x));
	ok = run_one(r, GPU_REF_STREAM, y, e);
	for (int i = 0; i < STREAM_N && ok; i++)
		ok = y[i] == x[i] + 1 ||
		    err_set(e, ERR_DEVLOST, "the GPU adds 1 to %g and gets %g", (double)x[i], (double)y[i]);
	ok = ok && run_one(r, GPU_REF_COMPUTE, y, e);
	for (int i = 0; i < COMPUTE_N && ok; i++)
		ok = fabsf(y[i] - 2) < 1e-4F ||
		    err_set(e, ERR_DEVLOST, "the GPU's reference kernel gives %g instead of 2", (double)y[i]);
	free(x);
	free(y);
	return ok;
}

/* ---- open, time -------------------------------------------------------------------------------- */
static bool
find_all(struct gpu_refs *r, struct dev_module *m, struct err *e)
{
	for (int i = 0; i < GPU_REFS; i++) {
		r->kernel[i] = (struct dev_kernel){.n_passes = 1, .n_bufs = 2, .range = {ranges[i]}};
		if (!r->dev->find(r->dev->self, m, symbols[i], &r->kernel[i], e))
			return err_in(e, "the reference kernels");
	}
	return true;
}

/* As many calls as make a sample long enough for the events. */
static bool
make_graph(struct gpu_refs *r, int which, struct err *e)
{
	struct dev_launch l[MAX_CALLS];
	int64_t ns;

	for (int i = 0; i < MAX_CALLS; i++)
		l[i] = (struct dev_launch){.kernel = &r->kernel[which], .buf = r->buf};
	r->calls[which] = 16;
	for (int i = 0; i < 2; i++) {
		if (!gpu_graph_make(r->dev, l, r->calls[which], NULL, &r->graph[which], e) ||
		    !gpu_graph_time(r->dev, r->graph[which], &ns, e))
			return false;
		if (ns >= sample_ns || i)
			break;
		gpu_graph_free(r->dev, r->graph[which]);
		r->graph[which] = NULL;
		r->calls[which] =
		    (uint32_t)MIN_OF(16 * sample_ns / MAX_OF(ns, (int64_t)1) + 1, (int64_t)MAX_CALLS);
	}
	return true;
}

bool
gpu_refs_open(const struct dev *d, struct dev_module *m, struct gpu_refs *r, struct err *e)
{
	*r = (struct gpu_refs){.dev = d};
	for (int i = 0; i < 2; i++) {
		r->buf[i] = d->mem_new(d->self, STREAM_N * sizeof(float));
		if (!r->buf[i])
			return err_set(e, ERR_MEMORY, "the GPU has no memory for the reference kernels");
	}
	if (!find_all(r, m, e) || !prove(r, e))
		return false;
	for (int i = 0; i < GPU_REF_NOTHING; i++)
		if (!make_graph(r, i, e))
			return false;
	return true;
}

void
gpu_refs_close(struct gpu_refs *r)
{
	if (!r->dev)
		return;
	for (int i = 0; i < GPU_REF_NOTHING; i++)
		gpu_graph_free(r->dev, r->graph[i]);
	for (int i = 0; i < 2; i++)
		r->dev->mem_free(r->dev->self, r->buf[i], STREAM_N * sizeof(float));
	*r = (struct gpu_refs){0};
}

bool
gpu_refs_time(struct gpu_refs *r, enum gpu_ref which, int64_t *ns, struct err *e)
{
	if (!gpu_graph_time(r->dev, r->graph[which], ns, e))
		return false;
	*ns = MAX_OF(*ns / r->calls[which], (int64_t)1);
	return true;
}

/* ---- clocks ------------------------------------------------------------------------------------- */
/* Mean of the compute reference over at least `window_ns` of the GPU's time. */
static bool
see_window(struct gpu_refs *r, double *mean_ns, int64_t *spent_ns, struct err *e)
{
	int64_t sum = 0, n = 0, ns;

	for (; sum < window_ns; n++) {
		if (!gpu_graph_time(r->dev, r->graph[GPU_REF_COMPUTE], &ns, e))
			return false;
		sum += MAX_OF(ns, (int64_t)1);
	}
	*mean_ns = (double)sum / (double)n;
	*spent_ns += sum;
	return true;
}

bool
gpu_refs_warm(struct gpu_refs *r, struct err *e)
{
	double last = 0, now;
	int64_t spent_ns = 0;

	do {
		if (!see_window(r, &now, &spent_ns, e))
			return false;
		if (fabs(now - last) <= steady * now)
			return true;
		last = now;
	} while (spent_ns < patience_ns);
	return true;
}

/* ---- calibration -------------------------------------------------------------------------------- */
static bool
best_of(const struct dev *d, const struct dev_launch *l, uint32_t n, int64_t *best, struct err *e)
{
	struct gpu_graph *g;
	bool ok = gpu_graph_make(d, l, n, NULL, &g, e);

	*best = INT64_MAX;
	for (int i = 0; i < SAMPLES && ok; i++) {
		int64_t ns = 0;

		ok = gpu_graph_time(d, g, &ns, e);
		*best = MIN_OF(*best, ns);
	}
	gpu_graph_free(d, g);
	return ok;
}

/* Bytes per second through memory that no cache holds; 0 where there is no room for it. */
static bool
see_stream(const struct dev *d, const struct gpu_refs *r, double *rate, struct err *e)
{
	size_t n = 4 * (size_t)MAX_OF(dev_cuda_facts(d)->l2_bytes, 4 << 20);
	void *buf[2] = {d->mem_new(d->self, n), d->mem_new(d->self, n)};
	struct dev_kernel k = r->kernel[GPU_REF_STREAM];
	struct dev_launch l = {.kernel = &k, .buf = buf};
	int64_t ns;
	bool ok = true;

	k.range[0] = (int64_t)(n / sizeof(float));
	*rate = 0;
	if (buf[0] && buf[1]) {
		ok = best_of(d, &l, 1, &ns, e);
		*rate = ok ? 2 * (double)n / (double)ns * 1e9 : 0;
	}
	for (int i = 0; i < 2; i++)
		d->mem_free(d->self, buf[i], n);
	return ok;
}

static bool
see_launch(const struct dev *d, const struct gpu_refs *r, double *call_ns, struct err *e)
{
	struct dev_launch l[LAUNCHES];
	void *none[2] = {r->buf[0], r->buf[1]};
	int64_t ns;

	for (int i = 0; i < LAUNCHES; i++)
		l[i] = (struct dev_launch){.kernel = &r->kernel[GPU_REF_NOTHING], .buf = none};
	if (!best_of(d, l, LAUNCHES, &ns, e))
		return false;
	*call_ns = (double)ns / LAUNCHES;
	return true;
}

/* The data sheet is the floor of what bounds count on; what was seen beyond it raises them. */
bool
gpu_calibrate(const struct dev *d, struct gpu_refs *r, struct calibration *out, struct err *e)
{
	const struct gpu_facts *f = dev_cuda_facts(d);
	double rate, call_ns;

	*out = (struct calibration){.target = target_cuda};
	out->hw = cost_gpu_hw(
	    f->name, f->sm, f->n_sm, f->sm_mhz, 2.0 * f->mem_mhz * 1e6 * f->bus_bits / 8, f->l2_bytes);
	if (!gpu_refs_warm(r, e) || !see_stream(d, r, &rate, e) || !see_launch(d, r, &call_ns, e))
		return false;
	out->hw.bytes_per_s[3] = fmax(out->hw.bytes_per_s[3], rate * margin);
	for (int i = 2; i >= 0; i--)
		out->hw.bytes_per_s[i] = fmax(out->hw.bytes_per_s[i], out->hw.bytes_per_s[i + 1]);
	out->hw.call_ns = fmin(out->hw.call_ns, call_ns / margin);
	out->hw.barrier_ns = out->hw.call_ns;
	gpu_describe(f, &out->info);
	out->info.fact[DEV_FACT_flops_peak] = out->hw.flops_peak;
	out->info.fact[DEV_FACT_dram_bytes_per_s] = rate;
	out->info.fact[DEV_FACT_call_ns] = call_ns;
	for (int which = 0; which < REF_COUNT; which++) {
		out->ref_ns[which] = INT64_MAX;
		for (int i = 0; i < SAMPLES; i++) {
			int64_t ns;

			if (!gpu_refs_time(
				r, which == REF_COMPUTE ? GPU_REF_COMPUTE : GPU_REF_STREAM, &ns, e))
				return false;
			out->ref_ns[which] = MIN_OF(out->ref_ns[which], ns);
		}
	}
	return true;
}
