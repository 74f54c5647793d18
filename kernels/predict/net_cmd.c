/* kernels/predict/net_cmd.c: central moment discrepancy (Zellinger and others, arXiv 1702.08811):
 *   |E x - E y| / 2 + sum over k = 2 .. 5 of |E (x - E x)^k - E (y - E y)^k| / 2^k
 * on units within (-1, 1), so that the divisors are those of the definition. */
#include "net_int.h"

#include <math.h>

enum { ORDER = 5 };

/* moment[k][j]: the k-th central one of unit j; the first: its mean. */
static void
moments(const float *x, uint32_t n, uint32_t width, double *const moment[ORDER + 1])
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < width; j++)
			moment[1][j] += x[(size_t)i * width + j] / (double)n;
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < width; j++) {
			double from = x[(size_t)i * width + j] - moment[1][j], power = from;

			for (int k = 2; k <= ORDER; k++)
				moment[k][j] += (power *= from) / (double)n;
		}
	}
}

/* Adds the gradient by x of sum over k of pull[k] . moment[k]. */
static void
pull_back(const float *x, uint32_t n, uint32_t width, double *const moment[ORDER + 1],
    double *const pull[ORDER + 1], double weight, float *dx)
{
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < width; j++) {
			double from = x[(size_t)i * width + j] - moment[1][j], power = 1, sum = pull[1][j];

			for (int k = 2; k <= ORDER; k++) {
				double below = k == 2 ? 0 : moment[k - 1][j];

				power *= from;
				sum += pull[k][j] * k * (power - below);
			}
			dx[(size_t)i * width + j] += (float)(weight * sum / n);
		}
	}
}

double
net_cmd_back(const float *x, uint32_t n_x, const float *y, uint32_t n_y, uint32_t width, double weight,
    float *dx, float *dy)
{
	struct arena a = {0};
	double *mx[ORDER + 1], *my[ORDER + 1], *pull[ORDER + 1], all = 0, divisor = 1;

	for (int k = 1; k <= ORDER; k++) {
		mx[k] = NEW_ARRAY(&a, double, width);
		my[k] = NEW_ARRAY(&a, double, width);
		pull[k] = NEW_ARRAY(&a, double, width);
	}
	moments(x, n_x, width, mx);
	moments(y, n_y, width, my);
	for (int k = 1; k <= ORDER; k++) {
		double square = 0, length;

		for (uint32_t j = 0; j < width; j++)
			square += (mx[k][j] - my[k][j]) * (mx[k][j] - my[k][j]);
		length = sqrt(square);
		divisor *= 2;
		all += length / divisor;
		for (uint32_t j = 0; j < width && length > 0; j++)
			pull[k][j] = (mx[k][j] - my[k][j]) / (length * divisor);
	}
	if (dx)
		pull_back(x, n_x, width, mx, pull, weight, dx);
	if (dy)
		pull_back(y, n_y, width, my, pull, -weight, dy);
	arena_fini(&a);
	return all;
}

double
net_cmd(const float *x, uint32_t n_x, const float *y, uint32_t n_y, uint32_t width)
{
	return net_cmd_back(x, n_x, y, n_y, width, 0, NULL, NULL);
}
