/* kernels/predict/net_product.c: products of matrices by loops: a compiler makes vectors of them, and where
 * the processor has AVX2 and FMA, of eight. */
#include "net.h"

#include <string.h>

/* y[n] += f x[n] */
static inline __attribute__((always_inline)) void
add_times(float *restrict y, const float *restrict x, float f, uint32_t n)
{
	for (uint32_t j = 0; j < n; j++)
		y[j] += f * x[j];
}

/* The sum of x[i] y[i] in eight parts, which a vector holds. */
static inline __attribute__((always_inline)) float
inner(const float *restrict x, const float *restrict y, uint32_t n)
{
	float part[8] = {0}, sum = 0;
	uint32_t i = 0;

	for (; i + 8 <= n; i += 8)
		for (uint32_t l = 0; l < 8; l++)
			part[l] += x[i + l] * y[i + l];
	for (; i < n; i++)
		sum += x[i] * y[i];
	for (int l = 0; l < 8; l++)
		sum += part[l];
	return sum;
}

static inline __attribute__((always_inline)) void
multiply(enum net_turn turn_a, enum net_turn turn_b, uint32_t m, uint32_t n, uint32_t k, const float *a,
    const float *b, float *c)
{
	for (uint32_t i = 0; i < m; i++) {
		float *row = c + (size_t)i * n;

		for (uint32_t j = 0; turn_b && j < n; j++)
			row[j] += inner(a + (size_t)i * k, b + (size_t)j * k, k);
		for (uint32_t l = 0; !turn_b && l < k; l++)
			add_times(
			    row, b + (size_t)l * n, turn_a ? a[(size_t)l * m + i] : a[(size_t)i * k + l], n);
	}
}

#ifdef __x86_64__
static __attribute__((target("avx2,fma"))) void
multiply_avx2(enum net_turn turn_a, enum net_turn turn_b, uint32_t m, uint32_t n, uint32_t k, const float *a,
    const float *b, float *c)
{
	multiply(turn_a, turn_b, m, n, k, a, b, c);
}
#endif

void
net_product(enum net_turn turn_a, enum net_turn turn_b, uint32_t m, uint32_t n, uint32_t k, const float *a,
    const float *b, bool add, float *c)
{
	if (!add)
		memset(c, 0, (size_t)m * n * sizeof(*c));
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		multiply_avx2(turn_a, turn_b, m, n, k, a, b, c);
		return;
	}
#endif
	multiply(turn_a, turn_b, m, n, k, a, b, c);
}
