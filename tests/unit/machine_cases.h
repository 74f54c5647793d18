/* tests/unit/machine_cases.h: words and loops of machine_cases.inc, for the processor and for the GPU's
 * compiler. */
#ifndef KORCH_MACHINE_CASES_H
#define KORCH_MACHINE_CASES_H

typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;
typedef signed char s8;
typedef short s16;
#ifdef __CUDACC__
#define FN static __device__ __forceinline__
#else
#define FN static inline
#endif

/* As often as each thread likes. */
FN u32
steps(u32 a)
{
	u32 n = 0;

	for (u32 x = a & 0x3ff; x > 1 && n < 60; n++)
		x = x & 1 ? 3 * x + 1 : x / 2;
	return n;
}

FN u32
gcd(u32 a, u32 b)
{
	while (b) {
		const u32 r = a % b;

		a = b;
		b = r;
	}
	return a;
}

#endif
