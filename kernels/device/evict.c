/* kernels/device/evict.c: lines written back and dropped, one by one, by the instruction that each
 * architecture has for it; on either it is done for all cores and all levels. */
#include "evict.h"

#include "../base/base.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { LINE = 64 };

/* clflush waits for the one before it, line by line; clflushopt does not. */
static bool
has_clflushopt(void)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_CLFLUSHOPT);
}

__attribute__((target("clflushopt"))) static void
drop_lines(const char *from, const char *to)
{
	for (; from < to; from += LINE)
		_mm_clflushopt((void *)(uintptr_t)from);
}

static void
drop_lines_in_order(const char *from, const char *to)
{
	for (; from < to; from += LINE)
		_mm_clflush(from);
}

bool
evict_is_here(void)
{
	return true; /* clflush came with SSE2 */
}

void
evict(const void *p, size_t n)
{
	const char *from = (const char *)((uintptr_t)p & ~(uintptr_t)(LINE - 1)), *to = (const char *)p + n;

	if (n == 0)
		return;
	if (has_clflushopt())
		drop_lines(from, to);
	else
		drop_lines_in_order(from, to);
	_mm_mfence();
}

#elif defined(__aarch64__) && defined(__linux__) /* which lets programs do it */

/* Smallest line of all levels: CTR_EL0.DminLine, the logarithm of its words of four bytes. */
static uintptr_t
line_bytes(void)
{
	uint64_t type;

	__asm__("mrs %0, ctr_el0" : "=r"(type));
	return (uintptr_t)4 << (type >> 16 & 15);
}

bool
evict_is_here(void)
{
	return true;
}

void
evict(const void *p, size_t n)
{
	const uintptr_t line = line_bytes(), to = (uintptr_t)p + n;

	for (uintptr_t at = (uintptr_t)p & ~(line - 1); n && at < to; at += line)
		__asm__ volatile("dc civac, %0" ::"r"(at) : "memory");
	__asm__ volatile("dsb sy" ::: "memory");
}

#else

bool
evict_is_here(void)
{
	return false;
}

void
evict(const void *p, size_t n)
{
	(void)p, (void)n;
	bug("this CPU drops no lines for programs");
}
#endif
