/* kernels/codegen/unroll.c: loops bound `unroll` become their bodies, one after the other.  The schedule
 * decides; this refuses what would be too much text, or names a value twice. */
#include "codegen_int.h"

enum { MOST_STATEMENTS = 64 }; /* of one loop, unrolled */

/* Of products in tiles: thousands of lines that say no more than their loops. */
static bool
is_of_tiles(const struct tir *p, st_id loop)
{
	for (buf_id b = 0; b < p->n_buf; b++)
		if ((p->buf[b].scope == SCOPE_spread || p->buf[b].scope == SCOPE_shared) &&
		    touches(p, loop, p->st[loop].end, b, false))
			return true;
	return false;
}

static bool
may_unroll(const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	int64_t from, to;

	if (s->op != ST_for || s->bind != BIND_unroll || !ix_is_const(p->tx, s->from, &from) ||
	    !ix_is_const(p->tx, s->to, &to) || (to - from) * (s->end - i - 1) > MOST_STATEMENTS)
		return false;
	for (st_id k = i + 1; k < s->end; k++)
		if (p->st[k].op == ST_let)
			return false;
	return !is_of_tiles(p, i);
}

static bool
unroll(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	int64_t from, to;

	if (!may_unroll(p, i))
		return false;
	*(bool *)self = true;
	if (!ix_is_const(p->tx, s->from, &from) || !ix_is_const(p->tx, s->to, &to))
		bug("an unrolled loop has no constant bounds");
	copy_each(out, p, i, from, to);
	return true;
}

/* Outer loops first; what is left inside is asked again. */
void
codegen_unroll(const struct tir *p, struct tir *out)
{
	rewrite_all(out, p, unroll);
}
