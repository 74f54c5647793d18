/* kernels/base/fp.h: how a thread's floating-point unit rounds, and what it makes of numbers too small to be
 * normal: by itself it computes with these in microcode, a hundred times as slowly. */
#ifndef KORCH_FP_H
#define KORCH_FP_H

#include "base.h"

/* The calling thread's control word (x86: MXCSR without what has happened; aarch64: FPCR). */
static inline uint64_t
fp_control(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("mrs %0, fpcr" : "=r"(v));
	return v;
#else
	return 0;
#endif
}

static inline void
fp_set_control(uint64_t v)
{
#if defined(__x86_64__)
	__builtin_ia32_ldmxcsr((unsigned)v);
#elif defined(__aarch64__)
	__asm__ volatile("msr fpcr, %0" : : "r"(v));
#else
	(void)v;
#endif
}

/* The same where such numbers are zeros, as operands and as results. */
static inline uint64_t
fp_without_denormals(uint64_t v)
{
#if defined(__x86_64__)
	return v | 0x8040;
#elif defined(__aarch64__)
	return v | UINT64_C(1) << 24;
#else
	return v;
#endif
}

#endif
