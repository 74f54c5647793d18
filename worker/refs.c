/* worker/refs.c: class references: short kernels of known kind, timed beside every measurement,
 * so that what slows the machine for a while cancels out (facts: the median of the ratio to an
 * alternated reference is the steadiest estimate below a millisecond). */
#include "measure_int.h"

#include <stdlib.h>
#include <string.h>

/* Both take some tens of microseconds on the CPUs of 2020. */
enum { FMA_ROUNDS = 12000, STREAM_BYTES = 1 << 20 };

typedef float v8 __attribute__((vector_size(32)));

/* In two forms, the better one chosen by the loader. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BEST_ISA __attribute__((target_clones("arch=haswell", "default")))
#else
#define BEST_ISA
#endif

/* Twelve independent chains keep two multiply-add units of five cycles busy. */
BEST_ISA static void
fma_p0(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi)
{
	v8 acc[12], a = *(const v8 *)buf[0], b = *(const v8 *)((const char *)buf[0] + 32);
	float *out = buf[1];

	(void)shared;
	(void)local;
	for (int i = 0; i < 12; i++)
		acc[i] = a * (float)i;
	for (int64_t n = lo; n < hi; n++) {
		for (int r = 0; r < FMA_ROUNDS / 12; r++)
			for (int i = 0; i < 12; i++)
				acc[i] = acc[i] * a + b;
		for (int i = 0; i < 12; i++)
			for (int k = 0; k < 8; k++)
				out[n * 16] += acc[i][k];
	}
}

BEST_ISA static void
stream_p0(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi)
{
	const v8 *x = buf[0];
	v8 *y = buf[1];

	(void)shared;
	(void)local;
	for (int64_t i = lo * 64; i < hi * 64; i++)
		y[i] = x[i] * 0.5f + 1.0f;
}

typedef void pass_fn(void *const *, char *, char *, int64_t, int64_t);

static struct dev_kernel
one_pass(pass_fn *fn, int64_t range)
{
	struct dev_kernel k = {.n_passes = 1, .range = {range}};

	memcpy(&k.pass[0], &fn, sizeof(fn));
	return k;
}

bool
refs_open(const struct dev *d, struct refs *out, struct err *e)
{
	*out = (struct refs){.dev = d};
	out->kernel[REF_COMPUTE] = one_pass(fma_p0, d->n_threads);
	out->kernel[REF_STREAM] = one_pass(stream_p0, STREAM_BYTES / 32 / 64);
	out->n_bytes[REF_COMPUTE] = 64 + d->n_threads * (size_t)64;
	out->n_bytes[REF_STREAM] = STREAM_BYTES;
	for (int i = 0; i < REF_COUNT; i++)
		for (int k = 0; k < 2; k++) {
			float *p = out->buf[i][k] = d->mem_new(d->self, out->n_bytes[i]);

			if (!p) {
				refs_close(out);
				return err_set(e, ERR_MEMORY, "no memory for the class references");
			}
			for (size_t j = 0; j < out->n_bytes[i] / sizeof(float); j++)
				p[j] = k ? 0 : 0.9f;
		}
	return d->reserve(d->self, 64, 64, e);
}

void
refs_close(struct refs *r)
{
	for (int i = 0; i < REF_COUNT; i++)
		for (int k = 0; k < 2; k++)
			if (r->buf[i][k])
				r->dev->mem_free(r->dev->self, r->buf[i][k], r->n_bytes[i]);
	memset(r->buf, 0, sizeof(r->buf));
}

int64_t
refs_time(const struct refs *r, enum measure_ref which)
{
	struct dev_launch l = {&r->kernel[which], r->buf[which]};
	int64_t ns[2];

	r->dev->run(r->dev->self, &l, 1, ns);
	return ns[1] - ns[0];
}
