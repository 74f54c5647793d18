/* worker/gpu_fake/memory.c: the fake GPU's memory: the heap's, each block with a head that says how long it
 * is and whose, so that a pointer can be told from the host's own. */
#include "gpu_fake_int.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	HEAD = 64,
	NO_MEMORY = 2,
	INVALID = 1,
	POINTER_TYPE = 2,
	POINTER_NUMBER = 9,
	TYPE_HOST = 1,
	TYPE_DEVICE = 2,
	MANY_ZEROS = 16 << 20
};
struct block { /* HEAD bytes before what it is for */
	struct block *next, **link;
	size_t n;
	int type, number; /* of the GPU */
};
_Static_assert(sizeof(struct block) <= HEAD, "the head of a block");

/* The driver's functions have no handle: one memory a process.  Plans on several threads come here at once.
 */
static struct {
	pthread_mutex_t turn;
	struct block *blocks;
	uint64_t most_bytes, used_bytes;
} mem = {.turn = PTHREAD_MUTEX_INITIALIZER};

static char *
bytes_of(const struct block *b)
{
	return (char *)(uintptr_t)b + HEAD;
}

/* NULL: no memory, or no room on the GPU. */
static void *
add(int type, size_t n)
{
	struct block *b = n <= SIZE_MAX - HEAD - 63 ? aligned_alloc(64, (n + HEAD + 63) & ~(size_t)63) : NULL;
	bool fits;

	if (!b)
		return NULL;
	(void)pthread_mutex_lock(&mem.turn);
	fits = type == TYPE_HOST || n <= mem.most_bytes - MIN_OF(mem.used_bytes, mem.most_bytes);
	if (fits) {
		*b = (struct block){mem.blocks, &mem.blocks, n, type, gpu_fake_number()};
		if (mem.blocks)
			mem.blocks->link = &b->next;
		mem.blocks = b;
		mem.used_bytes += type == TYPE_DEVICE ? n : 0;
	}
	(void)pthread_mutex_unlock(&mem.turn);
	if (fits)
		return bytes_of(b);
	free(b);
	return NULL;
}

static void
drop(void *p)
{
	struct block *b = (struct block *)(void *)((char *)p - HEAD);

	(void)pthread_mutex_lock(&mem.turn);
	*b->link = b->next;
	if (b->next)
		b->next->link = b->link;
	mem.used_bytes -= b->type == TYPE_DEVICE ? b->n : 0;
	(void)pthread_mutex_unlock(&mem.turn);
	free(b);
}

static int
fake_mem_new(uint64_t *p, size_t n)
{
	void *bytes;

	if (gpu_fake_status())
		return gpu_fake_status();
	bytes = add(TYPE_DEVICE, n);
	*p = (uint64_t)(uintptr_t)bytes;
	return bytes ? 0 : NO_MEMORY;
}

static int
fake_mem_free(uint64_t p)
{
	drop((void *)(uintptr_t)p);
	return gpu_fake_status();
}

static int
fake_host_new(void **p, size_t n, unsigned flags)
{
	(void)flags;
	*p = add(TYPE_HOST, n);
	return *p ? gpu_fake_status() : NO_MEMORY;
}

static int
fake_host_free(void *p)
{
	drop(p);
	return 0;
}

/* What the driver knows nothing of is the host's own, and an invalid value. */
static int
fake_pointer(void *out, int which, uint64_t p)
{
	int status = gpu_fake_status(), v = 0;

	if (status)
		return status;
	(void)pthread_mutex_lock(&mem.turn);
	for (const struct block *b = mem.blocks; b && !v; b = b->next)
		if (p >= (uintptr_t)bytes_of(b) && p - (uintptr_t)bytes_of(b) < MAX_OF(b->n, (size_t)1))
			v = 1 + (which == POINTER_TYPE ? b->type : b->number);
	(void)pthread_mutex_unlock(&mem.turn);
	if (v == 0 || (which != POINTER_TYPE && which != POINTER_NUMBER))
		return INVALID;
	v--;
	memcpy(out, &v, sizeof(v));
	return 0;
}

static int
fake_copy(uint64_t to, uint64_t from, size_t n, void *stream)
{
	(void)stream;
	if (gpu_fake_status() == 0)
		memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, n);
	return gpu_fake_status();
}

/* Many zeros are pages that nobody has touched: a calibration's buffers take no memory of the host. */
static void
clear(char *p, size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) & ~(page - 1),
		  to = ((uintptr_t)p + n) & ~(page - 1);

	if (n < MANY_ZEROS || madvise((char *)from, to - from, MADV_DONTNEED) != 0) {
		memset(p, 0, n);
		return;
	}
	memset(p, 0, from - (uintptr_t)p);
	memset((char *)to, 0, (uintptr_t)p + n - to);
}

static int
fake_fill(uint64_t to, unsigned char v, size_t n, void *stream)
{
	(void)stream;
	if (gpu_fake_status() == 0 && v == 0)
		clear((char *)(uintptr_t)to, n);
	else if (gpu_fake_status() == 0)
		memset((void *)(uintptr_t)to, v, n);
	return gpu_fake_status();
}

void
gpu_fake_memory(uint64_t n_bytes, struct gpu_cu *out)
{
	mem.most_bytes = n_bytes;
	mem.used_bytes = 0;
	out->mem_new = fake_mem_new;
	out->mem_free = fake_mem_free;
	out->host_new = fake_host_new;
	out->host_free = fake_host_free;
	out->pointer = fake_pointer;
	out->copy = fake_copy;
	out->fill = fake_fill;
}
