/* kernels/schedule/zip.c: zip A B: two neighbouring loops of equal extent that do not wait for each other
 * become one with both bodies: what both read, or count, is there once.
 *
 *   for a in 0..4                 for a in 0..4
 *     t1(a)                ->       t1(a)
 *   for b in 0..4                   t2(a)
 *     t2(b)                                      */
#include "step_int.h"

struct zip {
	st_id a, b;
	int64_t from[2], extent[2];
};

/* Does a block below loop `from` store what one below `to` reads or stores? */
bool
loop_waits(const struct tir *p, st_id from, st_id to)
{
	for (st_id i = from + 1; i < p->st[from].end; i++)
		for (st_id k = to + 1; k < p->st[to].end; k++) {
			if (p->st[i].op != ST_block || p->st[k].op != ST_block)
				continue;
			const struct tir_block *b = &p->blk[p->st[i].ref], *r = &p->blk[p->st[k].ref];

			for (uint32_t o = 0; o < b->n_out; o++)
				if (blk_reads_buf(p, r, b->out[o]) || blk_stores_buf(r, b->out[o]))
					return true;
		}
	return false;
}

static bool
zip_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct zip *t = self;
	const struct st *a = &p->st[t->a], *b = &p->st[t->b];
	struct copy c;

	if (i == t->b)
		return true;
	if (i != t->a)
		return false;
	c = copy_begin(p, out);
	const ix_id both = ix_axis(p->tx, tir_for(out, a->name, a->from, a->to, a->bind));

	c.to[a->axis] = both;
	copy_range(&c, t->a + 1, a->end);
	c.to[b->axis] = ix_addc(p->tx, both, t->from[1] - t->from[0]);
	copy_range(&c, t->b + 1, b->end);
	tir_close(out);
	copy_end(&c);
	return true;
}

bool
step_zip(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct zip t;

	if (!find_loop(p, s, 0, &t.a, e) || !find_loop(p, s, 1, &t.b, e))
		return false;
	if (p->st[t.a].end != t.b)
		return refuse(e, s, "neighbours", "the second does not stand behind the first");
	if (!const_extent(p, &p->st[t.a], &t.from[0], &t.extent[0]) ||
	    !const_extent(p, &p->st[t.b], &t.from[1], &t.extent[1]) || t.extent[0] != t.extent[1])
		return refuse(e, s, "extent", "the loops do not have one extent");
	if (p->st[t.a].bind != p->st[t.b].bind || p->st[t.a].bind == BIND_pipeline || is_of_gpu(&p->st[t.a]))
		return refuse(e, s, "binding", "the two are bound in different ways, or to a GPU's axis");
	if (loop_waits(p, t.a, t.b) || loop_waits(p, t.b, t.a))
		return refuse(e, s, "waits", "one stores what the other reads or stores");
	tir_rewrite(out, p, zip_here, &t);
	return true;
}
