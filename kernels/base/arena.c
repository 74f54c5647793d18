/* kernels/base/arena.c: memory that is freed together.  Blocks grow with use, so that a
 * small pass costs one malloc and a large one a handful. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 16, FIRST_BLOCK = 1 << 12, LARGEST_BLOCK = 1 << 22 };

struct arena_block {
	struct arena_block *below;
	size_t cap;
	_Alignas(ALIGN) unsigned char data[];
};

_Noreturn static void
out_of_memory(size_t n_bytes)
{
	bug("out of memory asking for %zu bytes; set a smaller limit or use a larger machine", n_bytes);
}

void *
heap_alloc(size_t n_bytes)
{
	void *p = calloc(1, MAX_OF(n_bytes, (size_t)1));

	if (!p)
		out_of_memory(n_bytes);
	return p;
}

void *
heap_resize(void *p, size_t n_bytes)
{
	void *q = realloc(p, MAX_OF(n_bytes, (size_t)1));

	if (!q)
		out_of_memory(n_bytes);
	return q;
}

void
prefer_huge(void *p, size_t n)
{
	uintptr_t from = ((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1),
		  to = ((uintptr_t)p + n) & ~(uintptr_t)(HUGE_PAGE - 1);

	if (from < to)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

static void
push_block(struct arena *a, size_t need)
{
	size_t cap = a->top ? MIN_OF(a->top->cap * 2, (size_t)LARGEST_BLOCK) : (size_t)FIRST_BLOCK;
	struct arena_block *b;

	cap = MAX_OF(cap, need);
	b = malloc(ck_add(sizeof(*b), cap));
	if (!b)
		out_of_memory(cap);
	prefer_huge(b, cap);
	b->below = a->top;
	b->cap = cap;
	a->top = b;
	a->used_bytes = 0;
}

/* Bytes that hold nothing yet. */
static void *
take(struct arena *a, size_t n_bytes)
{
	size_t n = ck_add(n_bytes, ALIGN - 1) & ~(size_t)(ALIGN - 1);
	void *p;

	if (!a->top || a->top->cap - a->used_bytes < n)
		push_block(a, n);
	p = a->top->data + a->used_bytes;
	a->used_bytes += n;
	a->total_bytes += n;
	return p;
}

void *
arena_alloc(struct arena *a, size_t n_bytes)
{
	return memset(take(a, n_bytes), 0, n_bytes);
}

void *
arena_dup(struct arena *a, const void *p, size_t n_bytes)
{
	void *q = take(a, n_bytes);

	if (n_bytes)
		memcpy(q, p, n_bytes);
	return q;
}

char *
arena_printf(struct arena *a, const char *fmt, ...)
{
	struct strbuf sb;
	va_list ap;

	sb_init(&sb, a);
	va_start(ap, fmt);
	sb_vaddf(&sb, fmt, ap);
	va_end(ap);
	return sb.p;
}

void *
arena_grow(struct arena *a, const void *p, size_t size, uint32_t len, uint32_t *cap)
{
	uint32_t want = *cap ? ck_u32((size_t)*cap * 2) : 8;
	const size_t n = ck_mul(want, size), had = ck_mul(len, size);
	unsigned char *q = take(a, n);

	if (len)
		memcpy(q, p, had);
	memset(q + had, 0, n - had);
	*cap = want;
	return q;
}

struct arena_mark
arena_mark(const struct arena *a)
{
	return (struct arena_mark){a->top, a->used_bytes, a->total_bytes};
}

void
arena_reset(struct arena *a, struct arena_mark m)
{
	while (a->top != m.top) {
		struct arena_block *below = a->top->below;

		free(a->top);
		a->top = below;
	}
	a->used_bytes = m.used_bytes;
	a->total_bytes = m.total_bytes;
}

void
arena_fini(struct arena *a)
{
	arena_reset(a, (struct arena_mark){0});
}

void
arena_join(struct arena *into, struct arena *from)
{
	struct arena_block *last = from->top;

	if (!last)
		return;
	while (last->below)
		last = last->below;
	last->below = into->top;
	into->top = from->top;
	into->used_bytes = from->used_bytes;
	into->total_bytes += from->total_bytes;
	*from = (struct arena){0};
}
