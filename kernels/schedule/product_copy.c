/* kernels/schedule/product_copy.c: of a product's factors what a block multiplies in a step, in shared
 * memory: which thread copies what. */
#include "product_int.h"

#include <string.h>

/* A copy's elements to threads, as they lie in memory. */
static bool
deal_copy(const struct product *w, const char *loop)
{
	const int64_t threads = product_threads(w);
	struct loop_tiles t;

	if (loop_trips(&w->q->p, tir_find_loop(&w->q->p, str_of(loop))) == threads)
		return propose(w->q, "bind %s lane", loop);
	t = product_split(w, loop, threads);
	return t.inner && propose(w->q, "bind %s lane", t.inner);
}

/* The loops of the copy, outermost first. */
static uint32_t
copy_loops(const struct product *w, const char *copy, const char **loop)
{
	const struct tir *p = &w->q->p;
	const st_id at = blk_instance(p, tir_find_blk(p, str_of(arena_printf(p->arena, "t%s", copy))));
	st_id path[TIR_DEPTH];
	const uint32_t all = tir_path(p, at, path);
	uint32_t n = 0;

	for (uint32_t k = 0; k < all; k++)
		if (p->st[path[k]].op == ST_for && p->st[path[k]].end == at + 1)
			loop[n++] = p->st[path[k]].name;
	return n;
}

/* As one; NULL: that cannot be. */
static const char *
fuse_copy(const struct product *w, const char *copy)
{
	const char *loop[TIR_DEPTH], *all = NULL;
	const uint32_t n = copy_loops(w, copy, loop);

	for (uint32_t k = 0; k < n; k++)
		if (!(all = product_fuse(w, all, loop[k])))
			return NULL;
	return all;
}

/* Of a second factor by warps: false, and as before, where its tile is too small. */
static bool
deal_turned(const struct product *w, const char *copy)
{
	const struct tir was = w->q->p;
	const size_t n = w->q->trace->n;
	const char *loop[TIR_DEPTH];

	if (copy_loops(w, copy, loop) == 2 && mma_copy_turned(w, loop[0], loop[1]))
		return true;
	take_back(w->q, &was, n);
	return false;
}

/* Neighbours of a word to one thread, where there are words for all; the loop over them. */
static const char *
add_words(const struct product *w, const char *loop)
{
	const int64_t threads = product_threads(w);
	struct loop_tiles t;

	if (!loop || loop_trips(&w->q->p, tir_find_loop(&w->q->p, str_of(loop))) % (PRODUCT_WORD * threads))
		return loop;
	t = product_split(w, loop, PRODUCT_WORD);
	return t.outer && t.inner && propose(w->q, "bind %s vector", t.inner) ? t.outer : NULL;
}

bool
product_copy(const struct product *w, const char *suffix, const char *step, const char *dims)
{
	struct proposing *q = w->q;
	const char *factor = q->p.buf[q->p.blk[product_blk(w, suffix)].out[0]].name,
		   *copy = arena_printf(q->p.arena, "%s's", factor), *all;

	if (!propose(q, "stage %%%s %s %s", factor, step, dims) ||
	    !propose(q, "inline %s", product_part(w, suffix)) || !propose(q, "share %%%s", copy))
		return false;
	if (w->mma != INTRIN_COUNT && !mma_round(w, copy))
		return false;
	if (w->mma != INTRIN_COUNT && strcmp(suffix, "'b") == 0 && deal_turned(w, copy))
		return true;
	all = add_words(w, fuse_copy(w, copy));
	return all && (w->mma == INTRIN_COUNT ? deal_copy : mma_copy)(w, all);
}
