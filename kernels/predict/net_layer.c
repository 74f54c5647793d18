/* kernels/predict/net_layer.c: the layers that work on each row, or each kernel's rows, alone. */
#include "net_int.h"

#include <math.h>
#include <string.h>

void
net_linear_run(const struct net_linear *l, const float *w, const float *x, uint32_t rows, float *y)
{
	const float *offset = w + l->begin + (size_t)l->in * l->out;

	for (uint32_t i = 0; i < rows; i++)
		memcpy(y + (size_t)i * l->out, offset, l->out * sizeof(*y));
	l->multiply(NET_AS_IS, NET_AS_IS, rows, l->out, l->in, x, w + l->begin, true, y);
}

void
net_linear_back(const struct net_linear *l, const float *w, const float *x, const float *dy, uint32_t rows,
    float *dx, float *dw)
{
	float *doffset = dw + l->begin + (size_t)l->in * l->out;

	l->multiply(NET_TURNED, NET_AS_IS, l->in, l->out, rows, x, dy, true, dw + l->begin);
	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t j = 0; j < l->out; j++)
			doffset[j] += dy[(size_t)i * l->out + j];
	if (dx)
		l->multiply(NET_AS_IS, NET_TURNED, rows, l->in, l->out, dy, w + l->begin, false, dx);
}

void
net_norm_run(const float *x, uint32_t rows, uint32_t width, float *y, float *inverse)
{
	for (uint32_t i = 0; i < rows; i++, x += width, y += width) {
		double sum = 0, square = 0;

		for (uint32_t j = 0; j < width; j++)
			sum += x[j];
		sum /= width;
		for (uint32_t j = 0; j < width; j++)
			square += (x[j] - sum) * (x[j] - sum);
		inverse[i] = (float)(1 / sqrt(square / width + 1e-5));
		for (uint32_t j = 0; j < width; j++)
			y[j] = (x[j] - (float)sum) * inverse[i];
	}
}

void
net_norm_back(const float *y, const float *inverse, const float *dy, uint32_t rows, uint32_t width, float *dx)
{
	for (uint32_t i = 0; i < rows; i++, y += width, dy += width, dx += width) {
		double mean = 0, along = 0;

		for (uint32_t j = 0; j < width; j++) {
			mean += dy[j];
			along += dy[j] * y[j];
		}
		mean /= width;
		along /= width;
		for (uint32_t j = 0; j < width; j++)
			dx[j] += inverse[i] * (dy[j] - (float)mean - y[j] * (float)along);
	}
}

void
net_bend_run(const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = 0.5F * (x[i] + sqrtf(x[i] * x[i] + 1) - 1);
}

void
net_bend_back(const float *x, const float *dy, size_t n, float *dx)
{
	for (size_t i = 0; i < n; i++)
		dx[i] = dy[i] * 0.5F * (1 + x[i] / sqrtf(x[i] * x[i] + 1));
}

void
net_squash_run(const float *x, size_t n, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = tanhf(x[i]);
}

void
net_squash_back(const float *y, const float *dy, size_t n, float *dx)
{
	for (size_t i = 0; i < n; i++)
		dx[i] = dy[i] * (1 - y[i] * y[i]);
}

void
net_place_add(float *row, uint32_t width, uint32_t place)
{
	for (uint32_t i = 0; i + 1 < width; i += 2) {
		float angle = (float)place * powf(10000, -(float)i / (float)width);

		row[i] += sinf(angle);
		row[i + 1] += cosf(angle);
	}
}

/* One kernel's rows begin..end of x: their mean, then their maximum; both 0 where there are none. */
static void
pool(const float *x, uint32_t begin, uint32_t end, uint32_t width, float *y, uint32_t *from)
{
	for (uint32_t j = 0; j < width; j++) {
		float sum = 0, most = begin < end ? x[(size_t)begin * width + j] : 0;

		from[j] = begin;
		for (uint32_t i = begin; i < end; i++) {
			float v = x[(size_t)i * width + j];

			sum += v;
			if (v > most) {
				most = v;
				from[j] = i;
			}
		}
		y[j] = sum / (float)MAX_OF(end - begin, 1U);
		y[width + j] = most;
	}
}

void
net_pool_run(
    const float *x, const uint32_t *first, uint32_t kernels, uint32_t width, float *y, uint32_t *from)
{
	for (uint32_t k = 0; k < kernels; k++)
		pool(x, first[k], first[k + 1], width, y + (size_t)k * 2 * width, from + (size_t)k * width);
}

void
net_pool_back(
    const float *dy, const uint32_t *from, const uint32_t *first, uint32_t kernels, uint32_t width, float *dx)
{
	for (uint32_t k = 0; k < kernels; k++, dy += 2 * (size_t)width, from += width) {
		float share = 1 / (float)MAX_OF(first[k + 1] - first[k], 1U);

		for (uint32_t i = first[k]; i < first[k + 1]; i++)
			for (uint32_t j = 0; j < width; j++)
				dx[(size_t)i * width + j] =
				    dy[j] * share + (from[j] == i ? dy[width + j] : 0);
	}
}

void
net_film_run(const float *x, const float *film, uint32_t rows, uint32_t width, float *y)
{
	for (uint32_t i = 0; i < rows; i++, x += width, y += width, film += 2 * (size_t)width)
		for (uint32_t j = 0; j < width; j++)
			y[j] = x[j] * (1 + film[j]) + film[width + j];
}

void
net_film_back(const float *x, const float *film, const float *dy, uint32_t rows, uint32_t width, float *dx,
    float *dfilm)
{
	for (uint32_t i = 0; i < rows; i++, x += width, dx += width, dy += width) {
		for (uint32_t j = 0; j < width; j++) {
			dx[j] = dy[j] * (1 + film[j]);
			dfilm[j] = dy[j] * x[j];
			dfilm[width + j] = dy[j];
		}
		film += 2 * (size_t)width;
		dfilm += 2 * (size_t)width;
	}
}
