/* kernels/schedule/rule_unite.c: where nothing is joined, neighbouring nests that count alike go through
 * their rows together: a pass less, and what the second one reads of the first, or what both read, is still
 * in the cache.
 *
 *   for i in 0..14, for k in 0..14, for c: %2[i, k, c] = ..         for r in 0..196
 *   for r in 0..196                                           ->      for c: %2[r div 14, r mod 14, c] = ..
 *     for h: %3[r, h] = .. %2[r div 14, r mod 14, ..] ..              for h: %3[r, h] = ..
 */
#include "rule_int.h"

enum { MOST_NODES = 2000 }; /* of a value as a tree */

static bool
joins_nothing(const struct tir *p)
{
	for (blk_id b = 0; b < p->n_blk; b++)
		for (uint32_t k = 0; blk_stands(p, b) && k < p->blk[b].n_iter; k++)
			if (p->iter[p->blk[b].iter0 + k].kind != ITER_SPACE)
				return false;
	return true;
}

/* Does a block below loop a touch what one below loop b does? */
static bool
have_common(const struct tir *p, st_id a, st_id b)
{
	for (buf_id buf = 0; buf < p->n_buf; buf++) {
		bool touched[2] = {false, false};

		for (int side = 0; side < 2; side++)
			for (st_id l = side ? b : a, i = l; i < p->st[l].end; i++)
				touched[side] |= p->st[i].op == ST_block &&
				    (blk_reads_buf(p, &p->blk[p->st[i].ref], buf) ||
					blk_stores_buf(&p->blk[p->st[i].ref], buf));
		if (touched[0] && touched[1])
			return true;
	}
	return false;
}

/* ---- loops that count alike ---------------------------------------------------------------------------- */
/* Does a guard of the value ask about the axis? */
static bool
asks_about(const struct tir *p, ex_id e, axis_id a)
{
	const struct ex n = *ex_get(p->tx, e);
	bool asks = n.kind == EX_GUARD && ix_has(p->tx, n.ix, a);

	for (uint32_t k = 0; k < n.n_arg && !asks; k++)
		asks = asks_about(p, n.arg[k], a);
	return asks;
}

/* Would the loop's guards be about a part of its number, once it is one with its child? */
static bool
is_asked_about(const struct tir *p, st_id loop)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];

		if (s->op != ST_block)
			continue;
		const struct tir_block *b = &p->blk[s->ref];
		const struct ixv at = ixv_get(p->tx, s->at);

		for (uint32_t o = 0; o < b->n_out; o++) {
			if (ex_get(p->tx, b->value[o])->size > MOST_NODES)
				return true;
			for (uint32_t k = 0; k < b->n_iter; k++)
				if (ix_has(p->tx, at.i[k], p->st[loop].axis) &&
				    asks_about(p, b->value[o], p->iter[b->iter0 + k].id))
					return true;
		}
	}
	return false;
}

/* Makes the loop one with its only child, and so on, until it counts that far; NULL: it does not. */
static const char *
counting_to(struct proposing *q, const char *loop, int64_t trips)
{
	for (;;) {
		const struct st *st = q->p.st;
		const st_id l = tir_find_loop(&q->p, str_of(loop)), child = l + 1;
		const int64_t n = loop_trips(&q->p, l);

		if (n >= trips)
			return n == trips ? loop : NULL;
		if (st[child].op != ST_for || st[child].end != st[l].end || is_asked_about(&q->p, l) ||
		    is_asked_about(&q->p, child))
			return NULL;
		const char *both = arena_printf(q->p.arena, "%s~%s", loop, st[child].name);

		if (!propose(q, "fuse %s %s", loop, st[child].name))
			return NULL;
		loop = both;
	}
}

/* The loop's only child before the loop, where that is not the row; NULL: it is not so. */
static const char *
child_first(struct proposing *q, const char *loop)
{
	const struct st *st = q->p.st;
	const st_id l = tir_find_loop(&q->p, str_of(loop)), child = l + 1;

	if (st[child].op != ST_for || st[child].end != st[l].end || st[child + 1].op != ST_for)
		return NULL;
	const char *name = st[child].name;

	return propose(q, "reorder %s %s", name, loop) ? name : NULL;
}

static bool
unite_counting(struct proposing *q, const char *a, const char *b)
{
	const int64_t trips = MAX_OF(loop_trips(&q->p, tir_find_loop(&q->p, str_of(a))),
	    loop_trips(&q->p, tir_find_loop(&q->p, str_of(b))));

	a = counting_to(q, a, trips);
	b = a ? counting_to(q, b, trips) : NULL;
	return b && propose(q, "unite %s %s", a, b);
}

/* As they are, or the second one's two outer loops the other way round. */
static bool
unite(struct proposing *q, st_id first, st_id second)
{
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	const char *a = was.st[first].name, *b = was.st[second].name;

	if (unite_counting(q, a, b))
		return true;
	take_back(q, &was, n);
	b = child_first(q, b);
	if (b && unite_counting(q, a, b))
		return true;
	take_back(q, &was, n);
	return false;
}

/* ---- as deep as a row is near -----------------------------------------------------------------------------
 */
/* What an iteration stores, and about as much that it reads. */
static bool
is_near(const struct proposing *q, st_id loop)
{
	const struct tir *p = &q->p;
	double bytes = 0;
	st_id path[TIR_DEPTH];

	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		double n = 2 * sizeof(float);

		if (p->st[i].op != ST_block)
			continue;
		for (uint32_t k = tir_path(p, i, path); k-- > 0 && path[k] > loop;)
			n *= p->st[path[k]].op == ST_for ? (double)loop_trips(p, path[k]) : 1;
		bytes += n;
	}
	return bytes <= (double)q->target->l1_bytes;
}

/* Loops among the statements from `i` on, as far as `end`, of one body. */
static void
unite_body(struct proposing *q, st_id i, const char *around)
{
	bool united = false;

	for (;;) {
		const struct tir *p = &q->p;
		const st_id end = around ? p->st[tir_find_loop(p, str_of(around))].end : p->n_st,
			    next = i < end ? p->st[i].end : end;

		if (next < end && p->st[i].op == ST_for && p->st[next].op == ST_for &&
		    have_common(p, i, next) && unite(q, i, next)) {
			united = true;
			continue;
		}
		if (united && !is_near(q, i))
			unite_body(q, i + 1, q->p.st[i].name);
		if (next >= end)
			return;
		united = false;
		i = q->p.st[i].end;
	}
}

void
rule_unite(struct proposing *q)
{
	if (joins_nothing(&q->p))
		unite_body(q, 0, NULL);
}
