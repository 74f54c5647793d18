/* kernels/predict/net_attend.c: attention of a kernel's leaves to each other. */
#include "net_int.h"

#include <math.h>

size_t
net_attend_kept(const struct net_attend *at)
{
	size_t n = 0;

	for (uint32_t k = 0; k < at->kernels; k++) {
		size_t leaves = at->first[k + 1] - at->first[k];

		n += leaves * leaves * at->heads;
	}
	return n;
}

static float
dot(const float *x, const float *y, uint32_t n)
{
	float sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

static void
softmax(float *p, uint32_t n)
{
	float top = p[0], sum = 0;

	for (uint32_t i = 1; i < n; i++)
		top = fmaxf(top, p[i]);
	for (uint32_t i = 0; i < n; i++)
		sum += p[i] = expf(p[i] - top);
	for (uint32_t i = 0; i < n; i++)
		p[i] /= sum;
}

/* One head of one kernel: q, its rows' queries; keys and values lie `width` and 2 `width` further; p: [n][n].
 */
static void
head(const float *q, uint32_t n, uint32_t width, uint32_t d, float *p, float *y)
{
	size_t step = 3 * (size_t)width;
	float scale = 1 / sqrtf((float)d);

	for (uint32_t i = 0; i < n; i++, p += n) {
		for (uint32_t j = 0; j < n; j++)
			p[j] = scale * dot(q + i * step, q + j * step + width, d);
		softmax(p, n);
		for (uint32_t c = 0; c < d; c++)
			y[(size_t)i * width + c] = 0;
		for (uint32_t j = 0; j < n; j++)
			for (uint32_t c = 0; c < d; c++)
				y[(size_t)i * width + c] += p[j] * q[j * step + 2 * (size_t)width + c];
	}
}

void
net_attend_run(const struct net_attend *at, const float *qkv, float *kept, float *y)
{
	uint32_t d = at->width / at->heads;

	for (uint32_t k = 0; k < at->kernels; k++) {
		uint32_t begin = at->first[k], n = at->first[k + 1] - begin;

		for (uint32_t h = 0; h < at->heads; h++, kept += (size_t)n * n)
			head(qkv + (size_t)begin * 3 * at->width + (size_t)h * d, n, at->width, d, kept,
			    y + (size_t)begin * at->width + (size_t)h * d);
	}
}

/* Of row i: from dy to the gradients of all values and keys, which it adds to, and of its query. */
static void
row_back(const float *q, uint32_t i, uint32_t n, uint32_t width, uint32_t d, const float *p, const float *dy,
    float *dq)
{
	size_t step = 3 * (size_t)width;
	float scale = 1 / sqrtf((float)d), mean = 0;

	for (uint32_t j = 0; j < n; j++)
		mean += p[j] * dot(dy, q + j * step + 2 * (size_t)width, d);
	for (uint32_t j = 0; j < n; j++) {
		float dp = scale * p[j] * (dot(dy, q + j * step + 2 * (size_t)width, d) - mean);

		for (uint32_t c = 0; c < d; c++) {
			dq[i * step + c] += dp * q[j * step + width + c];
			dq[j * step + width + c] += dp * q[i * step + c];
			dq[j * step + 2 * (size_t)width + c] += p[j] * dy[c];
		}
	}
}

void
net_attend_back(
    const struct net_attend *at, const float *qkv, const float *kept, const float *dy, float *dqkv)
{
	uint32_t d = at->width / at->heads;

	for (size_t i = 0; i < (size_t)at->first[at->kernels] * 3 * at->width; i++)
		dqkv[i] = 0;
	for (uint32_t k = 0; k < at->kernels; k++) {
		uint32_t begin = at->first[k], n = at->first[k + 1] - begin;

		for (uint32_t h = 0; h < at->heads; h++) {
			size_t at_row = (size_t)begin * 3 * at->width + (size_t)h * d;

			for (uint32_t i = 0; i < n; i++, kept += n)
				row_back(qkv + at_row, i, n, at->width, d, kept,
				    dy + (size_t)(begin + i) * at->width + (size_t)h * d, dqkv + at_row);
		}
	}
}
