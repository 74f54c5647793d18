/* kernels/device/cpu_memory.c: see cpu_memory.h. */
#include "cpu_memory.h"

#include "dev.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t large_bytes = (size_t)4 << 20;

/* What is asked for in whole lines; 0: more than there can be. */
static size_t
rounded(const struct cpu_memory *m, size_t n_bytes)
{
	size_t n = (n_bytes + DEV_ALIGN) & ~(size_t)(DEV_ALIGN - 1), step = large_bytes / 4;

	if (n <= n_bytes)
		return 0;
	if (!m->most || n < large_bytes)
		return n;
	/* few sizes, so that a block often suits another: eight to the power of two */
	while (step < n / 16)
		step *= 2;
	return n > SIZE_MAX - step ? 0 : (n + step - 1) / step * step;
}

static void
forget(struct cpu_memory *m, uint32_t at)
{
	m->kept_bytes -= m->kept[at].n_bytes;
	m->n_kept--;
	memmove(&m->kept[at], &m->kept[at + 1], (m->n_kept - at) * sizeof(m->kept[0]));
}

static void
drop_first(struct cpu_memory *m)
{
	(void)munmap(m->kept[0].p, m->kept[0].n_bytes);
	forget(m, 0);
}

static void *
from_kept(struct cpu_memory *m, size_t n)
{
	for (uint32_t i = m->n_kept; i-- > 0;)
		if (m->kept[i].n_bytes == n) {
			void *p = m->kept[i].p;

			forget(m, i);
			memset(p, 0, n);
			return p;
		}
	return NULL;
}

/* Huge pages spare the page table. */
static void *
from_system(struct cpu_memory *m, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (; p == MAP_FAILED && m->n_kept > 0;
	     p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
		drop_first(m);
	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, n, MADV_HUGEPAGE);
	return p;
}

void *
cpu_memory_new(struct cpu_memory *m, size_t n_bytes)
{
	size_t n = rounded(m, n_bytes);
	void *p;

	if (!n)
		return NULL;
	if (n >= large_bytes) {
		p = from_kept(m, n);
		return p ? p : from_system(m, n);
	}
	p = aligned_alloc(DEV_ALIGN, n);
	if (p)
		memset(p, 0, n);
	return p;
}

void
cpu_memory_free(struct cpu_memory *m, void *p, size_t n_bytes)
{
	size_t n = rounded(m, n_bytes);

	if (!p || n < large_bytes) {
		free(p);
		return;
	}
	if (n > m->most) {
		(void)munmap(p, n);
		return;
	}
	while (m->n_kept == CPU_MEMORY_KEPT || m->kept_bytes + n > m->most)
		drop_first(m);
	m->kept[m->n_kept].p = p;
	m->kept[m->n_kept++].n_bytes = n;
	m->kept_bytes += n;
}

void
cpu_memory_close(struct cpu_memory *m)
{
	while (m->n_kept > 0)
		drop_first(m);
}
