/* kernels/schedule/join.c: join A B: two outermost loops whose iterations may run in any order, and that do
 * not wait for each other, become one: A's iterations, then B's.  Threads that are through with one go on
 * with the other, without a barrier between (horizontal fusion).
 *
 *   for a in 0..4 parallel                 for a_b in 0..7 parallel
 *     t1(a)                                  if 0 <= a_b < 4
 *   for b in 0..3 parallel        ->           t1(a_b)
 *     t2(b)                                  if 4 <= a_b < 7
 *                                              t2(a_b - 4) */
#include "step_int.h"

struct join {
	const struct tir *p;
	st_id a, b;
	int64_t from[2], extent[2];
};

/* Does a block below loop `from` store what one below `to` reads or stores? */
static bool
waits(const struct tir *p, st_id from, st_id to)
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
is_outermost(const struct tir *p, st_id i)
{
	st_id path[TIR_DEPTH];

	return tir_path(p, i, path) == 0;
}

/* The body of loop l, whose iterations begin at `at` of the joined ones. */
static void
add_part(const struct join *t, struct tir *out, ix_id joined, st_id l, int64_t at, int k)
{
	struct tx *x = t->p->tx;
	const struct tir_guard g = {joined, at, at + t->extent[k]};
	struct st test = {.op = ST_if};
	struct copy c = copy_begin(t->p, out);
	ix_id own;

	tir_guards(out, &test, 1, &g);
	tir_add(out, test);
	own = ix_addc(x, joined, -at);
	if (t->p->st[l].bind ==
	    BIND_block) /* what the guard says: digits of it come apart no further than before */
		own = ix_min(x, ix_max(x, own, ix_const(x, 0)), ix_const(x, t->extent[k] - 1));
	c.to[t->p->st[l].axis] = ix_addc(x, own, t->from[k]);
	copy_range(&c, l + 1, t->p->st[l].end);
	tir_close(out);
	copy_end(&c);
}

static bool
join_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct join *t = self;

	if (i == t->b)
		return true;
	if (i != t->a)
		return false;
	ix_id joined = ix_axis(p->tx,
	    tir_for(out, arena_printf(p->arena, "%s_%s", p->st[t->a].name, p->st[t->b].name),
		ix_const(p->tx, 0), ix_const(p->tx, t->extent[0] + t->extent[1]), p->st[t->a].bind));

	add_part(t, out, joined, t->a, 0, 0);
	add_part(t, out, joined, t->b, t->extent[0], 1);
	tir_close(out);
	return true;
}

/* Loops over warps and lanes are of one extent in both. */
static bool
have_as_many(const struct tir *p, st_id a, st_id b)
{
	for (st_id i = a; i < p->st[b].end; i++)
		for (st_id k = i; k < p->st[b].end; k++) {
			const struct st *x = &p->st[i], *y = &p->st[k];

			if (x->op == ST_for && y->op == ST_for && i != a && k != b && x->bind == y->bind &&
			    st_is_gpu_loop(x) && (x->from != y->from || x->to != y->to))
				return false;
		}
	return true;
}

bool
step_join(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct join t = {.p = p};

	if (!find_loop(p, s, 0, &t.a, e) || !find_loop(p, s, 1, &t.b, e))
		return false;
	if (!is_outermost(p, t.a) || !is_outermost(p, t.b) || p->st[t.a].end != t.b)
		return refuse(
		    e, s, "outermost", "the second is not the next outermost loop behind the first");
	if (p->st[t.a].bind != p->st[t.b].bind ||
	    (p->st[t.a].bind != BIND_parallel && p->st[t.a].bind != BIND_block))
		return refuse(e, s, "binding", "iterations of a loop run in order, or only one's are blocks");
	if (p->st[t.a].bind == BIND_block && !have_as_many(p, t.a, t.b))
		return refuse(e, s, "threads", "blocks of the one have other threads than the other's");
	if (!const_extent(p, &p->st[t.a], &t.from[0], &t.extent[0]) ||
	    !const_extent(p, &p->st[t.b], &t.from[1], &t.extent[1]))
		return refuse(e, s, "extent", "the loop's bounds hang on another loop");
	if (waits(p, t.a, t.b) || waits(p, t.b, t.a))
		return refuse(e, s, "waits", "one stores what the other reads or stores");
	tir_rewrite(out, p, join_here, &t);
	return true;
}
