/* kernels/schedule/unite.c: unite A B: two neighbouring loops that count alike become one, A's body and then
 * B's in each iteration, so that what B reads of A's is near, and what both read is read once:
 *
 *   for a in 0..4                          for a_b in 0..4
 *     for x: t1(a, x)              ->        for x: t1(a_b, x)
 *   for b in 0..4                            for x: t2(a_b, x)
 *     for x: t2(b, x)
 *
 * B's first iteration no longer waits for A's last one.  Nothing is lost where iterations of the new loop
 * touch nothing that another one stores: then they could run at the same time, which is what `bind` asks. */
#include "step_int.h"

struct unite {
	st_id a, b;
	int64_t from[2], extent[2];
};

/* (Behind the last statement of a body stands the next one of another.) */
static bool
are_neighbours(const struct tir *p, st_id a, st_id b)
{
	st_id around_a[TIR_DEPTH], around_b[TIR_DEPTH];

	return p->st[a].end == b && tir_path(p, a, around_a) == tir_path(p, b, around_b);
}

/* Below the loop, or around it: then threads would have to wait between its bodies. */
static bool
has_threads(const struct tir *p, st_id loop)
{
	st_id path[TIR_DEPTH];

	for (uint32_t k = tir_path(p, loop, path); k-- > 0;)
		if (st_is_gpu_loop(&p->st[path[k]]))
			return true;
	for (st_id i = loop; i < p->st[loop].end; i++)
		if (st_is_gpu_loop(&p->st[i]))
			return true;
	return false;
}

static bool
unite_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct unite *t = self;
	const struct st *a = &p->st[t->a], *b = &p->st[t->b];
	struct copy c;
	ix_id both;

	if (i == t->b)
		return true;
	if (i != t->a)
		return false;
	c = copy_begin(p, out);
	both = ix_axis(p->tx,
	    tir_for(out, arena_printf(p->arena, "%s_%s", a->name, b->name), a->from, a->to, BIND_serial));
	c.to[a->axis] = both;
	c.to[b->axis] = ix_addc(p->tx, both, t->from[1] - t->from[0]);
	copy_range(&c, t->a + 1, a->end);
	copy_range(&c, t->b + 1, b->end);
	tir_close(out);
	copy_end(&c);
	return true;
}

bool
step_unite(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct unite t;

	if (!find_loop(p, s, 0, &t.a, e) || !find_loop(p, s, 1, &t.b, e))
		return false;
	if (!are_neighbours(p, t.a, t.b))
		return refuse(e, s, "neighbours", "the second is not the next of the body behind the first");
	if (has_threads(p, t.a) || has_threads(p, t.b))
		return refuse(e, s, "barrier", "threads of a GPU would have to wait in it");
	if (hands_on(p, t.a) || hands_on(p, t.b))
		return refuse(e, s, "ring", "iterations hand rows on to the next");
	if (p->st[t.a].bind != BIND_serial || p->st[t.b].bind != BIND_serial)
		return refuse(e, s, "binding", "a loop is bound");
	if (!const_extent(p, &p->st[t.a], &t.from[0], &t.extent[0]) ||
	    !const_extent(p, &p->st[t.b], &t.from[1], &t.extent[1]) || t.extent[0] != t.extent[1])
		return refuse(
		    e, s, "extent", "the two count differently, or a loop's bounds hang on another loop");
	tir_rewrite(out, p, unite_here, &t);
	return loop_is_free(out, t.a, BIND_parallel, s, e);
}
