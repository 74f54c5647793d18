/* worker/gpu_refs.c: small kernels of known kind.  They prove that the device computes rightly, show
 * its clock beside every measurement, and calibrate what a launch and a byte cost at best. */
#include "gpu_child.h"
#include "../kernels/device/gpu_fake.h"

#include "../kernels/cost/gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	COMPUTE_BLOCKS = 4,  /* of an SM: enough to keep its units busy */
	COMPUTE_FLOPS = 512, /* of an element */
	COMPUTE_TURNS = 256, /* of all SMs, for their rate */
	STREAM_N = 1 << 18,  /* what is proved; for rates it is as long as a level asks for */
	BLOCK = 128,
	SAMPLES = 15,
	MAX_CALLS = 512,
	LAUNCHES = 256,
	L2_CALLS = 64
};
static const int64_t sample_ns = 200000, window_ns = 5000000, patience_ns = 2000000000;
static const double margin = 1.1, steady = 0.01;
/* Read and written by one copy through memory, at least: nothing of it is left in a cache from the last. */
static const size_t dram_bytes = (size_t)512 << 20, ref_bytes = (size_t)64 << 20;
#define PARAMS                                                                                               \
	"void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n\t(void)shared, "              \
	"(void)local;\n"

/* Products of zeros, eight sums a thread: the units are never idle. */
#define TENSOR(FLOPS, N_D, MULTIPLY)                                                                         \
	GPU_FAKE_SPARED FLOPS                                                                                \
	    "K_KERNEL\nk_p0(" PARAMS "\tfloat *y = (float *)buf[1], d[8][" #N_D "] = {{0}}, s = 0;\n"        \
	    "\tunsigned a[4] = {0}, b[2] = {0};\n"                                                           \
	    "\tfor (k_i64 o = lo + K_BLOCK * 128l + K_TID; o < hi; o += K_BLOCKS * 128l) {\n"                \
	    "\t\tfor (int i = 0; i < 64; i++)\n\t\t\tfor (int j = 0; j < 8; j++)\n\t\t\t\t" #MULTIPLY        \
	    "(d[j], a, b);\n\t\tfor (int j = 0; j < 8; j++)\n\t\t\ts += d[j][0];\n\t\ty[o] = s;\n\t}\n}\n"
/* By architecture: one of them is 64 operations a thread on Volta and Turing, 128 from Ampere on. */
static const struct products {
	int sm; /* from this one on */
	const char *text;
	double flops; /* of an element */
} tensors[] = {{80, TENSOR(GPU_FAKE_TENSOR, 4, k_mma_f16), 65536},
    {75, TENSOR(GPU_FAKE_TENSOR_SMALL, 4, k_mma_f16_k8), 32768},
    {0, TENSOR(GPU_FAKE_TENSOR_SMALL, 8, k_mma_f16_k4), 32768}};

static const char *const texts[GPU_REFS] = {
    [GPU_REF_COMPUTE] = GPU_FAKE_SPARED GPU_FAKE_COMPUTE
    "K_KERNEL\nk_p0(" PARAMS "\tconst float *x = (const float *)buf[0];\n\tfloat *y = (float *)buf[1];\n"
    "\tfor (k_i64 o = lo + K_BLOCK * 128l + K_TID; o < hi; o += K_BLOCKS * 128l) {\n"
    "\t\tfloat a = x[o], b = a + 1, c = a + 2, d = a + 3;\n"
    "\t\tfor (int i = 0; i < 64; i++) {\n"
    "\t\t\ta = a * 0.5f + 0.25f;\n\t\t\tb = b * 0.5f + 0.25f;\n\t\t\tc = c * 0.5f + 0.25f;\n\t\t\td = d * "
    "0.5f + 0.25f;\n"
    "\t\t}\n\t\ty[o] = a + b + c + d;\n\t}\n}\n",
    [GPU_REF_STREAM] = GPU_FAKE_SPARED GPU_FAKE_STREAM
    "K_KERNEL\nk_p0(" PARAMS "\tconst float *x = (const float *)buf[0];\n\tfloat *y = (float *)buf[1];\n"
    "\tfor (k_i64 o = lo + K_BLOCK * 128l + K_TID; o < hi; o += K_BLOCKS * 128l)\n\t\ty[o] = x[o] + 1;\n}\n",
    [GPU_REF_NOTHING] = GPU_FAKE_SPARED "K_KERNEL\nk_p0(" PARAMS "\t(void)buf, (void)lo, (void)hi;\n}\n",
};
static const char *const symbols[GPU_REFS] = {
    GPU_REF_SYMBOL "compute", GPU_REF_SYMBOL "stream", GPU_REF_SYMBOL "nothing", GPU_REF_SYMBOL "tensor"};

static const struct products *
tensor_of(int sm)
{
	const struct products *t = tensors;

	while (t->sm > sm)
		t++;
	return t;
}

struct str
gpu_ref_text(enum gpu_ref r, int sm)
{
	return str_of(r == GPU_REF_TENSOR ? tensor_of(sm)->text : texts[r]);
}

/* Elements of a call: the compute reference keeps every SM busy, on whatever device. */
static int64_t
range_of(enum gpu_ref r, int n_sm)
{
	const int64_t all = (int64_t)n_sm * COMPUTE_BLOCKS * BLOCK,
		      n[GPU_REFS] = {[GPU_REF_COMPUTE] = all,
			  [GPU_REF_STREAM] = STREAM_N,
			  [GPU_REF_TENSOR] = all,
			  [GPU_REF_NOTHING] = 1};

	return n[r];
}

/* As many blocks as an SM holds, of every SM: a longer range goes round. */
struct gpu_pass
gpu_ref_pass(enum gpu_ref r, int n_sm)
{
	uint32_t blocks =
	    r == GPU_REF_NOTHING ? 1 : (uint32_t)n_sm * (r == GPU_REF_STREAM ? 16 : COMPUTE_BLOCKS);

	return (struct gpu_pass){.grid = {blocks, 1, 1}, .block = {BLOCK, 1, 1}};
}

/* ---- are they right? ------------------------------------------------------------------------ */
static bool
run_one(struct gpu_refs *r, enum gpu_ref which, float *y, struct err *e)
{
	const struct dev *d = r->dev;
	struct dev_launch l = {.kernel = &r->kernel[which], .buf = r->buf};
	size_t n = (size_t)r->kernel[which].range[0] * sizeof(*y);
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
	float *x = heap_alloc(r->n_bytes), *y = heap_alloc(r->n_bytes);
	int64_t n_compute = r->kernel[GPU_REF_COMPUTE].range[0];
	bool ok;

	for (size_t i = 0; i < r->n_bytes / sizeof(*x); i++)
		x[i] = (float)(i % 1009);
	d->put(d->self, r->buf[0], x, r->n_bytes);
	ok = run_one(r, GPU_REF_STREAM, y, e);
	for (int i = 0; i < STREAM_N && ok; i++)
		ok = y[i] == x[i] + 1 ||
		    err_set(e, ERR_DEVLOST, "the GPU adds 1 to %g and gets %g", (double)x[i], (double)y[i]);
	ok = ok && run_one(r, GPU_REF_COMPUTE, y, e);
	for (int64_t i = 0; i < n_compute && ok; i++)
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
	int n_sm = dev_cuda_facts(r->dev)->n_sm;

	for (int i = 0; i < GPU_REFS; i++) {
		r->kernel[i] = (struct dev_kernel){
		    .n_passes = 1, .n_bufs = 2, .range = {range_of((enum gpu_ref)i, n_sm)}};
		if (r->dev->find(r->dev->self, m, symbols[i], &r->kernel[i], e))
			continue;
		if (i != GPU_REF_TENSOR)
			return err_in(e, "the reference kernels");
		r->kernel[i] = (struct dev_kernel){0}; /* the module has none */
		*e = (struct err){0};
	}
	return true;
}

/* As many calls as make a sample long enough for the events. */
static bool
make_graph(struct gpu_refs *r, struct err *e)
{
	struct dev_launch l[MAX_CALLS];
	int64_t ns;

	for (int i = 0; i < MAX_CALLS; i++)
		l[i] = (struct dev_launch){.kernel = &r->kernel[GPU_REF_COMPUTE], .buf = r->buf};
	r->calls = 16;
	for (int i = 0; i < 2; i++) {
		if (!gpu_graph_make(r->dev, l, r->calls, NULL, &r->graph, e) ||
		    !gpu_graph_time(r->dev, r->graph, &ns, e))
			return false;
		if (ns >= sample_ns || i)
			break;
		gpu_graph_free(r->dev, r->graph);
		r->graph = NULL;
		r->calls = (uint32_t)MIN_OF(16 * sample_ns / MAX_OF(ns, (int64_t)1) + 1, (int64_t)MAX_CALLS);
	}
	return true;
}

bool
gpu_refs_open(const struct dev *d, struct dev_module *m, struct gpu_refs *r, struct err *e)
{
	int64_t n = MAX_OF(range_of(GPU_REF_COMPUTE, dev_cuda_facts(d)->n_sm), (int64_t)STREAM_N);

	*r = (struct gpu_refs){.dev = d, .n_bytes = (size_t)n * sizeof(float)};
	for (int i = 0; i < 2; i++) {
		r->buf[i] = d->mem_new(d->self, r->n_bytes);
		if (!r->buf[i])
			return err_set(e, ERR_MEMORY, "the GPU has no memory for the reference kernels");
	}
	return find_all(r, m, e) && prove(r, e) && make_graph(r, e);
}

void
gpu_refs_close(struct gpu_refs *r)
{
	if (!r->dev)
		return;
	gpu_graph_free(r->dev, r->graph);
	for (int i = 0; i < 2; i++)
		r->dev->mem_free(r->dev->self, r->buf[i], r->n_bytes);
	*r = (struct gpu_refs){0};
}

bool
gpu_refs_time(struct gpu_refs *r, int64_t *ns, struct err *e)
{
	if (!gpu_graph_time(r->dev, r->graph, ns, e))
		return false;
	*ns = MAX_OF(*ns / r->calls, (int64_t)1);
	return true;
}

/* ---- clocks ------------------------------------------------------------------------------------- */
/* Mean of the compute reference over at least `window_ns` of the GPU's time. */
static bool
see_window(struct gpu_refs *r, double *mean_ns, int64_t *spent_ns, struct err *e)
{
	int64_t sum = 0, n = 0, ns;

	for (; sum < window_ns; n++) {
		if (!gpu_graph_time(r->dev, r->graph, &ns, e))
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

/* What the references reach at most, in the GPU's memory and out of it. */
struct rates {
	double flops, tensor, dram, l2, call_ns; /* a second; 0: there was no room to see it */
	int64_t ref_ns[REF_COUNT];
};
struct field {
	const struct dev *d;
	const struct gpu_refs *refs;
	void *buf[2];
	size_t n_bytes; /* of each */
	double call_ns;
};

/* Elements a second of `calls` launches of a reference over n elements, without what launching them takes:
 * three quarters of the time at most. */
static bool
see_rate(const struct field *f, enum gpu_ref which, int64_t n, uint32_t calls, double *rate, struct err *e)
{
	struct dev_kernel k = f->refs->kernel[which];
	struct dev_launch l[L2_CALLS];
	void *buf[2] = {f->buf[0], f->buf[1]};
	int64_t ns = 1;

	k.range[0] = n;
	for (uint32_t i = 0; i < calls; i++)
		l[i] = (struct dev_launch){.kernel = &k, .buf = buf};
	if (!best_of(f->d, l, calls, &ns, e))
		return false;
	*rate = (double)n * calls / fmax((double)ns - calls * f->call_ns, fmax((double)ns / 4, 1)) * 1e9;
	return true;
}

/* One copy that no cache holds, copies that the second level does hold, arithmetic on all SMs. */
static bool
see_rates(const struct field *f, struct rates *out, struct err *e)
{
	const struct gpu_facts *facts = dev_cuda_facts(f->d);
	int64_t n = (int64_t)(f->n_bytes / sizeof(float)),
		n_l2 = MIN_OF(MAX_OF(facts->l2_bytes, 4 << 20) / 4 / (int64_t)(2 * sizeof(float)), n),
		n_compute =
		    MIN_OF(f->refs->kernel[GPU_REF_COMPUTE].range[0] * COMPUTE_TURNS / COMPUTE_BLOCKS, n);
	double dram, l2, compute, tensor = 0;

	if (!see_rate(f, GPU_REF_STREAM, n, 1, &dram, e) ||
	    !see_rate(f, GPU_REF_STREAM, n_l2, L2_CALLS, &l2, e) ||
	    !see_rate(f, GPU_REF_COMPUTE, n_compute, 1, &compute, e) ||
	    (f->refs->kernel[GPU_REF_TENSOR].n_passes &&
		!see_rate(f, GPU_REF_TENSOR, n_compute, 1, &tensor, e)))
		return false;
	out->dram = dram * 2 * sizeof(float);
	out->l2 = l2 * 2 * sizeof(float);
	out->flops = compute * COMPUTE_FLOPS;
	out->tensor = tensor * tensor_of(facts->sm)->flops;
	out->ref_ns[REF_STREAM] = MAX_OF((int64_t)((double)ref_bytes / out->dram * 1e9), (int64_t)1);
	return true;
}

/* The same where there is room for it: several times the second level, half of it read, half of it written.
 */
static bool
see_memory(const struct dev *d, const struct gpu_refs *r, struct rates *out, struct err *e)
{
	size_t l2 = (size_t)MAX_OF(dev_cuda_facts(d)->l2_bytes, 4 << 20), n = MAX_OF(dram_bytes, 8 * l2) / 2;
	struct field f = {.d = d, .refs = r, .n_bytes = n, .call_ns = out->call_ns};
	bool ok = true;

	for (int i = 0; i < 2; i++)
		f.buf[i] = d->mem_new(d->self, n);
	if (f.buf[0] && f.buf[1])
		ok = see_rates(&f, out, e);
	for (int i = 0; i < 2; i++)
		d->mem_free(d->self, f.buf[i], n);
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

static bool
see_clock(struct gpu_refs *r, int64_t *best, struct err *e)
{
	*best = INT64_MAX;
	for (int i = 0; i < SAMPLES; i++) {
		int64_t ns;

		if (!gpu_refs_time(r, &ns, e))
			return false;
		*best = MIN_OF(*best, ns);
	}
	return true;
}

/* The data sheet is the floor of what bounds count on; what was seen beyond it raises them. */
static void
raise(struct hw *hw, const struct rates *seen)
{
	hw->flops_peak = fmax(hw->flops_peak, seen->flops * margin);
	hw->bytes_per_s[3] = fmax(hw->bytes_per_s[3], seen->dram * margin);
	for (int i = 2; i >= 0; i--)
		hw->bytes_per_s[i] =
		    fmax(hw->bytes_per_s[i], fmax(hw->bytes_per_s[i + 1], seen->l2 * margin));
	hw->call_ns = fmin(hw->call_ns, seen->call_ns / margin);
	hw->barrier_ns = hw->call_ns;
}

bool
gpu_calibrate(const struct dev *d, struct gpu_refs *r, struct calibration *out, struct err *e)
{
	const struct gpu_facts *f = dev_cuda_facts(d);
	struct rates seen = {0};

	*out = (struct calibration){.target = target_cuda};
	out->hw = cost_gpu_hw(
	    f->name, f->sm, f->n_sm, f->sm_mhz, 2.0 * f->mem_mhz * 1e6 * f->bus_bits / 8, f->l2_bytes);
	if (!gpu_refs_warm(r, e) || !see_launch(d, r, &seen.call_ns, e) || !see_memory(d, r, &seen, e) ||
	    !see_clock(r, &seen.ref_ns[REF_COMPUTE], e))
		return false;
	raise(&out->hw, &seen);
	out->hw.tensor_peak = seen.tensor;
	gpu_describe(f, &out->info);
	out->info.fact[DEV_FACT_flops_peak] = seen.flops;
	out->info.fact[DEV_FACT_dram_bytes_per_s] = seen.dram;
	out->info.fact[DEV_FACT_l2_bytes_per_s] = seen.l2;
	out->info.fact[DEV_FACT_call_ns] = seen.call_ns;
	memcpy(out->ref_ns, seen.ref_ns, sizeof(out->ref_ns));
	return true;
}
