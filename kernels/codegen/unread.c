/* kernels/codegen/unread.c: what goes into a temp that nothing reads before it is gone is not computed:
 *
 *   alloc %5                                  for c in 0..16
 *   call turn(%0[..], %5[..])          ->       store %9[c] = 1
 *   for c in 0..16
 *     store %9[c] = 1
 *
 * (Where a loop was cut, a piece may have the arm of a guard that takes nothing from there.) */
#include "codegen_int.h"

struct unread {
	bool *gone; /* of each statement: an alloc, or a store or call into what is not read */
};

/* Does the statement store into the buffer, and nowhere else? */
static bool
stores_only(const struct tir *p, st_id i, buf_id buf)
{
	struct accesses l = {.n = 0};
	bool any = false;

	list_accesses(p, i, &l);
	for (uint32_t k = 0; k < l.n; k++) {
		if (l.at[k].stores && l.at[k].buf != buf)
			return false;
		any |= l.at[k].stores;
	}
	return any;
}

/* Until its body ends, is the buffer stored alone? */
static bool
is_unread(const struct tir *p, st_id alloc)
{
	const buf_id buf = p->st[alloc].ref;
	struct accesses l = {.n = 0};

	for (st_id i = alloc + 1; i < end_of_body(p, alloc); i++) {
		if (p->st[i].op == ST_alloc && p->st[i].ref == buf)
			return false;
		if (!may_touch(p, i, buf))
			continue;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			if (l.at[k].buf == buf && (!l.at[k].stores || !stores_only(p, i, buf)))
				return false;
	}
	return true;
}

/* A loop or if in which nothing is left goes, too. */
static bool
leave_out(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct unread *q = self;
	bool any = q->gone[i];

	(void)out;
	for (st_id k = i + 1; k < p->st[i].end; k++) {
		if (!st_info[p->st[k].op].body && !q->gone[k])
			return false;
		any |= q->gone[k];
	}
	return any;
}

void
codegen_unread(const struct tir *p, struct tir *out)
{
	struct unread q = {.gone = NEW_ARRAY(p->arena, bool, p->n_st + 1)};

	for (st_id a = 0; a < p->n_st; a++) {
		if (p->st[a].op != ST_alloc || p->buf[p->st[a].ref].role != BUF_TEMP ||
		    p->buf[p->st[a].ref].scope == SCOPE_global || !is_unread(p, a))
			continue;
		q.gone[a] = true;
		for (st_id i = a + 1; i < end_of_body(p, a); i++)
			q.gone[i] |= stores_only(p, i, p->st[a].ref);
	}
	tir_rewrite(out, p, leave_out, &q);
}
