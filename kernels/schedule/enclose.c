/* kernels/schedule/enclose.c: enclose A B: all outermost nests from that of block A to that of block B become
 * the body of a loop of one iteration, and temps that they alone touch are its own.  So a single row is a row
 * like others:
 *
 *   for k in 0..1600              for t1.one in 0..1
 *     t1(k)                         alloc %1
 *   for i in 0..1600       ->       for k in 0..1600
 *     t2(i)                           t1(k)
 *                                   for i in 0..1600
 *                                     t2(i)         */
#include "step_int.h"

struct enclose {
	const struct tir *p;
	st_id first, end;
	const char *name;
};

static st_id
root_of(const struct tir *p, blk_id b, uint32_t *n)
{
	st_id path[TIR_DEPTH], root = ST_NONE;

	*n = 0;
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == b && (*n)++ == 0)
			root = tir_path(p, i, path) ? path[0] : i;
	return root;
}

static bool
touches(const struct tir *p, st_id i, buf_id buf)
{
	const struct tir_block *b = p->st[i].op == ST_block ? &p->blk[p->st[i].ref] : NULL;

	return b && (blk_reads_buf(p, b, buf) || blk_stores_buf(b, buf));
}

/* A temp of the kernel that nothing outside touches. */
static bool
is_inside(const struct enclose *t, buf_id buf)
{
	bool any = false;

	if (t->p->buf[buf].role != BUF_TEMP || t->p->buf[buf].scope != SCOPE_global)
		return false;
	for (st_id i = 0; i < t->p->n_st; i++) {
		const bool inside = i >= t->first && i < t->end;

		if (touches(t->p, i, buf) && !inside)
			return false;
		any |= touches(t->p, i, buf);
	}
	return any;
}

static bool
enclose_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct enclose *t = self;

	if (i > t->first && i < t->end)
		return true;
	if (i != t->first)
		return false;
	(void)tir_for(out, t->name, ix_const(p->tx, 0), ix_const(p->tx, 1), BIND_serial);
	for (buf_id b = 0; b < p->n_buf; b++)
		if (is_inside(t, b))
			tir_add(out, (struct st){.op = ST_alloc, .ref = b});
	for (st_id k = t->first; k < t->end; k = p->st[k].end)
		tir_copy(out, p, k, NULL);
	tir_close(out);
	return true;
}

bool
step_enclose(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct enclose t = {.p = p};
	blk_id a, b;
	uint32_t n, m;
	st_id last;

	if (!find_blk(p, s, 0, &a, e) || !find_blk(p, s, 1, &b, e))
		return false;
	t.first = root_of(p, a, &n);
	last = root_of(p, b, &m);
	t.end = p->st[last].end;
	t.name = arena_printf(p->arena, "%s.one", p->blk[a].name);
	if (n != 1 || m != 1 || t.first > last)
		return refuse(
		    e, s, "order", "the blocks do not stand once each, the first before the second");
	for (st_id i = t.first; i < t.end; i++)
		if (p->st[i].op == ST_for && (is_of_threads(&p->st[i]) || p->st[i].bind == BIND_pipeline))
			return refuse(e, s, "binding", "a loop in it is of threads");
	if (tir_find_loop(p, str_of(t.name)) != ST_NONE)
		return refuse(e, s, "name", "they are enclosed");
	tir_rewrite(out, p, enclose_here, &t);
	for (buf_id k = 0; k < p->n_buf; k++)
		if (is_inside(&t, k))
			out->buf[k].scope = SCOPE_local;
	return true;
}
