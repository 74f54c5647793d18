/* kernels/vendor/onednn_kept.c: constants in the form that a primitive wants, made once for each constant and
 * form, however many launches read it.  A constant is known by where it lies: whoever prepares a launch
 * leaves its operands in place and unchanged until the release (dev.h). */
#include "onednn_int.h"

#include "../base/base.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGN = 64 };

struct kept_store {
	pthread_mutex_t turn;
	struct kept *first;
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

static void
kept_free(struct kept *k)
{
	md_drop(&k->ours);
	md_drop(&k->its);
	free(k->data);
	free(k);
}

struct kept *
kept_add(struct kept_store *s, const void *from, const struct md *ours, const struct md *its)
{
	struct kept *k = heap_alloc(sizeof(*k));

	*k = (struct kept){.next = s->first,
	    .from = from,
	    .n_users = 1,
	    .n_bytes = ck_add(md_bytes(its), ALIGN - 1) & ~(size_t)(ALIGN - 1)};
	k->data = aligned_alloc(ALIGN, MAX_OF(k->n_bytes, (size_t)ALIGN));
	if (!k->data || !md_copy(&k->ours, MD_REF(ours)) || !md_copy(&k->its, MD_REF(its))) {
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
	kept_free(k);
}
