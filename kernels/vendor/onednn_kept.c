/* kernels/vendor/onednn_kept.c: constants in the form that a primitive wants, made once for each constant and
 * form, however many launches read it.  A constant is known by where it lies: whoever prepares a launch
 * leaves its operands in place and unchanged until the release (dev.h). */
#include "onednn_int.h"

#include "../base/base.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGN = 64, FIRST_SLAB = 1 << 18, LARGEST_SLAB = 1 << 22 };

/* Forms lie one behind the other in slabs, the larger ones in huge pages: each in pages of its own, runs took
 * up to 5 % longer.  A slab ends with its last form. */
struct slab {
	struct slab *next;
	char *p;
	size_t n_bytes, used;
	uint32_t n_forms;
};
struct kept_store {
	pthread_mutex_t turn;
	struct kept *first;
	struct slab *slabs; /* the last one first: new forms go there */
	size_t n_bytes;
};

void *
kept_store_new(void)
{
	struct kept_store *s = heap_alloc(sizeof(*s));

	(void)pthread_mutex_init(&s->turn, NULL);
	return s;
}

void
kept_store_free(void *store)
{
	struct kept_store *s = store;

	if (s->first)
		bug("a device was closed before a launch of a library's kernel was released");
	(void)pthread_mutex_destroy(&s->turn);
	free(s);
}

void
kept_store_hold(struct kept_store *s, bool take)
{
	(void)(take ? pthread_mutex_lock(&s->turn) : pthread_mutex_unlock(&s->turn));
}

size_t
kept_store_bytes(void *store)
{
	struct kept_store *s = store;
	size_t n;

	kept_store_hold(s, true);
	n = s->n_bytes;
	kept_store_hold(s, false);
	return n;
}

struct kept *
kept_find(struct kept_store *s, const void *from, const struct md *ours, const struct md *its)
{
	for (struct kept *k = s->first; k; k = k->next)
		if (k->from == from && md_same(&k->ours, ours) && md_same(&k->its, its)) {
			k->n_users++;
			return k;
		}
	return NULL;
}

/* Each twice as large as the one before, so that a small plan takes little. */
static struct slab *
slab_new(struct kept_store *s, size_t n)
{
	size_t size = s->slabs ? MIN_OF(s->slabs->n_bytes * 2, (size_t)LARGEST_SLAB) : (size_t)FIRST_SLAB,
	       align = MAX_OF(size, n) < HUGE_PAGE ? ALIGN : HUGE_PAGE;
	struct slab *new = heap_alloc(sizeof(*new));

	*new = (struct slab){.next = s->slabs, .n_bytes = ck_add(MAX_OF(size, n), align - 1) & ~(align - 1)};
	new->p = aligned_alloc(align, new->n_bytes);
	if (!new->p) {
		free(new);
		return NULL;
	}
	prefer_huge(new->p, new->n_bytes);
	s->slabs = new;
	return new;
}

static bool
place(struct kept_store *s, struct kept *k)
{
	struct slab *in = s->slabs;

	if (!in || in->n_bytes - in->used < k->n_bytes)
		in = slab_new(s, k->n_bytes);
	if (!in)
		return false;
	k->data = in->p + in->used;
	in->used += k->n_bytes;
	in->n_forms++;
	return true;
}

static void
slab_leave(struct kept_store *s, const void *data)
{
	struct slab **at = &s->slabs, *in;

	while ((uintptr_t)data - (uintptr_t)(*at)->p >= (*at)->n_bytes)
		at = &(*at)->next;
	in = *at;
	if (--in->n_forms)
		return;
	*at = in->next;
	free(in->p);
	free(in);
}

static void
kept_free(struct kept *k)
{
	md_drop(&k->ours);
	md_drop(&k->its);
	free(k);
}

struct kept *
kept_add(struct kept_store *s, const void *from, const struct md *ours, const struct md *its)
{
	struct kept *k = heap_alloc(sizeof(*k));

	*k = (struct kept){.next = s->first,
	    .from = from,
	    .n_users = 1,
	    .n_bytes = ck_add(MAX_OF(md_bytes(its), (size_t)1), ALIGN - 1) & ~(size_t)(ALIGN - 1)};
	if (!md_copy(&k->ours, MD_REF(ours)) || !md_copy(&k->its, MD_REF(its)) || !place(s, k)) {
		kept_free(k);
		return NULL;
	}
	s->first = k;
	s->n_bytes += k->n_bytes;
	return k;
}

void
kept_drop(struct kept_store *s, struct kept *k)
{
	struct kept **at = &s->first;

	if (!k || --k->n_users)
		return;
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	s->n_bytes -= k->n_bytes;
	slab_leave(s, k->data);
	kept_free(k);
}
