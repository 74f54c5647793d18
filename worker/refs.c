/* worker/refs.c: short kernels of known kind, compiled like all others: the class references that
 * are timed beside every measurement, so that what slows the machine for a while cancels out
 * (facts: the median of the ratio to an alternated reference is the steadiest estimate below a
 * millisecond), and the loops that calibration finds the device's limits with.
 *
 * They go through the generator's compiler and flags, because a build of this program without
 * optimisation must not change what a measurement means. */
#include "measure_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Both references take some tens of microseconds on the CPUs of 2020.  A stream reads and writes as much as
 * the second cache holds, each: one that fits into it takes two thirds of its time where nothing has swept
 * that cache just before. */
enum { STREAM_BYTES = 1 << 20, MOST_STREAM_BYTES = 8 << 20, BLOCK_BYTES = 2048 };

static const char text[] =
    "#define PASS(NAME) void NAME##_p0(void *const *buf, char *shared, char *local, long lo, long hi)\n"
    "/* twelve independent chains keep two multiply-add units of five cycles busy */\n"
    "#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)\n"
    "PASS(fma) {\n"
    "	const vec *in = buf[0];\n"
    "	const long *rounds = buf[2];\n"
    "	vec a = in[0], b = in[1];\n"
    "#define X(N) vec s##N = a * (float)N;\n"
    "	CHAINS(X)\n"
    "#undef X\n"
    "	for (long n = lo; n < hi; n++) {\n"
    "		for (long r = 0; r < rounds[1]; r++) {\n"
    "#define X(N) s##N = s##N * a + b;\n"
    "			CHAINS(X)\n"
    "#undef X\n"
    "		}\n"
    "		vec *out = (vec *)((float *)buf[1] + n * 16);\n"
    "#define X(N) *out += s##N;\n"
    "		CHAINS(X)\n"
    "#undef X\n"
    "	}\n"
    "}\n"
    "PASS(stream) {\n"
    "	const float *x = buf[0];\n"
    "	float *y = buf[1];\n"
    "	for (long i = lo * 512; i < hi * 512; i++)\n"
    "		y[i] = x[i] * 0.5f + 1.0f;\n"
    "}\n"
    "/* reads all: eight sums, so that the loads decide */\n"
    "PASS(read) {\n"
    "	const vec *x = buf[0];\n"
    "	const long *rounds = buf[2];\n"
    "	vec s0 = x[0], s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;\n"
    "	for (long r = 0; r < rounds[1]; r++)\n"
    "		for (long i = 0; i + 8 <= rounds[0]; i += 8) {\n"
    "			s0 += x[i]; s1 += x[i + 1]; s2 += x[i + 2]; s3 += x[i + 3];\n"
    "			s4 += x[i + 4]; s5 += x[i + 5]; s6 += x[i + 6]; s7 += x[i + 7];\n"
    "		}\n"
    "	*(vec *)buf[1] = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;\n"
    "}\n"
    "/* the second half from the first: reads and writes count */\n"
    "PASS(copy) {\n"
    "	vec *x = buf[0];\n"
    "	const long *rounds = buf[2];\n"
    "	for (long r = 0; r < rounds[1]; r++) {\n"
    "		for (long i = 0; i < rounds[0] / 2; i++)\n"
    "			x[rounds[0] / 2 + i] = x[i] * 0.5f;\n"
    "		__asm__ volatile(\"\" ::\"r\"(x) : \"memory\");\n"
    "	}\n"
    "}\n"
    "/* the second half from the first, as generated kernels do it */\n"
    "#define EACH(NAME, RESULT) PASS(NAME) { \\\n"
    "	const long *rounds = buf[2], n = rounds[0] / 2 * (long)(sizeof(vec) / 4); \\\n"
    "	const float *restrict x = buf[0]; \\\n"
    "	float *restrict y = (float *)buf[0] + n; \\\n"
    "	for (long r = 0; r < rounds[1]; r++) { \\\n"
    "		for (long i = 0; i < n; i++) \\\n"
    "			y[i] = RESULT; \\\n"
    "		__asm__ volatile(\"\" ::\"r\"(y) : \"memory\"); \\\n"
    "	} \\\n"
    "}\n"
    "EACH(exps, k_exp_f32(x[i]))\n"
    "EACH(divs, 1.0f / x[i])\n"
    "PASS(nothing) { }\n";

bool
refs_compile(struct arena *a, struct bytes *code, struct err *e)
{
	enum isa isa;
	const struct target *t;
	struct compile_opts o = {0};
	struct strbuf sb;

	if (!dev_cpu_isa(&isa, e))
		return false;
	t = target_of_isa(isa);
	o.flags = generate_c_flags(t);
	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, t));
	sb_addf(&sb, "typedef float vec __attribute__((vector_size(%d), aligned(4)));\n", t->simd_bytes);
	sb_addz(&sb, text);
	return compile_c(a, sb_str(&sb), &o, code, e) || err_in(e, "the class references");
}

static bool
find_one(struct refs *r, const char *symbol, int64_t range, struct dev_kernel *k, struct err *e)
{
	*k = (struct dev_kernel){.n_passes = 1, .range = {range}};
	return r->dev->find(r->dev->self, r->module, symbol, k, e);
}

static bool
find_all(struct refs *r, struct err *e)
{
	const int64_t blocks = (int64_t)(r->n_bytes[REF_STREAM] / BLOCK_BYTES);

	return find_one(r, "fma", r->dev->n_threads, &r->kernel[REF_COMPUTE], e) &&
	    find_one(r, "stream", blocks, &r->kernel[REF_STREAM], e) &&
	    find_one(r, "fma", 1, &r->probe[PROBE_FMA], e) &&
	    find_one(r, "read", 1, &r->probe[PROBE_READ], e) &&
	    find_one(r, "copy", 1, &r->probe[PROBE_COPY], e) &&
	    find_one(r, "exps", 1, &r->probe[PROBE_EXP], e) &&
	    find_one(r, "divs", 1, &r->probe[PROBE_DIV], e) &&
	    find_one(r, "nothing", r->dev->n_threads, &r->probe[PROBE_NOTHING], e);
}

static bool
choose_sizes(struct refs *r, struct err *e)
{
	struct dev_info info;
	size_t own;

	if (!r->dev->describe(r->dev->self, &info, e))
		return false;
	own = (size_t)fmin(info.fact[DEV_FACT_l2_bytes], MOST_STREAM_BYTES) & ~(size_t)(BLOCK_BYTES - 1);
	r->n_bytes[REF_STREAM] = MAX_OF(own, (size_t)STREAM_BYTES);
	r->n_bytes[REF_COMPUTE] = 64 + r->dev->n_threads * (size_t)64;
	return true;
}

static bool
make_buffers(struct refs *r, struct err *e)
{
	for (int i = 0; i < REF_COUNT; i++)
		for (int k = 0; k < 2; k++) {
			float *p;

			p = r->buf[i][k] = r->dev->mem_new(r->dev->self, r->n_bytes[i]);
			if (!p)
				return err_set(e, ERR_MEMORY, "no memory for the class references");
			for (size_t j = 0; j < r->n_bytes[i] / sizeof(float); j++)
				p[j] = k ? 0 : 0.5f;
		}
	r->rounds[0] = 0;
	r->rounds[1] = 10000;
	r->buf[REF_COMPUTE][2] = r->rounds;
	return true;
}

bool
refs_open(const struct dev *d, struct bytes code, struct refs *r, struct err *e)
{
	bool ok;

	*r = (struct refs){.dev = d->n_threads > 1 ? &r->own : d};
	ok = (d->n_threads == 1 || dev_cpu_open(1, false, &r->own, e)) && dev_cpu_isa(&r->isa, e) &&
	    r->dev->load(r->dev->self, code, &r->module, e) && choose_sizes(r, e) && find_all(r, e) &&
	    make_buffers(r, e) && r->dev->reserve(r->dev->self, 64, 64, e);
	if (!ok) {
		err_in(e, "the class references");
		refs_close(r);
	}
	return ok;
}

void
refs_close(struct refs *r)
{
	for (int i = 0; i < REF_COUNT; i++)
		for (int k = 0; k < 2; k++)
			if (r->buf[i][k])
				r->dev->mem_free(r->dev->self, r->buf[i][k], r->n_bytes[i]);
	if (r->module)
		r->dev->unload(r->dev->self, r->module);
	if (r->own.close)
		r->own.close(r->own.self);
	*r = (struct refs){0};
}

int64_t
refs_time(const struct refs *r, enum measure_ref which)
{
	/* The first call brings the reference's own bytes back: what was timed before it has swept the
	 * caches, and a reference that is cold after large kernels would make them look fast. */
	struct dev_launch one = {.kernel = &r->kernel[which], .buf = r->buf[which]}, l[2] = {one, one};
	int64_t ns[3];

	r->dev->run(r->dev->self, l, 2, ns);
	return ns[2] - ns[1];
}

bool
refs_evict(const struct refs *r, void *x, size_t n_bytes)
{
	const struct dev_kernel none = {.n_bufs = 1};
	void *const buf[1] = {x};
	const struct dev_launch l = {.kernel = &none, .buf = buf};

	if (r->dev->evict)
		r->dev->evict(r->dev->self, &l, &n_bytes);
	return r->dev->evict != NULL;
}

int64_t
refs_probe(const struct refs *r, enum probe which, void *x, int64_t n_vectors, int64_t rounds)
{
	int64_t how_much[2] = {n_vectors, rounds}, ns[2];
	float sink[64] __attribute__((aligned(64))) = {0};
	void *const buf[3] = {x, sink, how_much};
	struct dev_launch l = {.kernel = &r->probe[which], .buf = buf};

	r->dev->run(r->dev->self, &l, 1, ns);
	return MAX_OF(ns[1] - ns[0], (int64_t)1);
}
