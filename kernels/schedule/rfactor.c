/* kernels/schedule/rfactor.c: rfactor LOOP: iterations of a loop that counts elements of a reduction become
 * places: a partial block keeps a result for each, and the block joins these in the order of the loop.
 *
 *   for k.o in 0..4                      for 'p.k.o in 0..4
 *     for k.i in 0..8                ->    for 'p.k.i in 0..8
 *       t(8*k.o + k.i)                       t'p('p.k.i, 'p.k.o)
 *                                        for k.i in 0..8
 *                                          t(k.i)
 *
 * What a tail's guard leaves out joins the identity, inside of the partial block's value: so each place has
 * all its elements, and starts with the others. */
#include "step_int.h"

#include <stdlib.h>
#include <string.h>

struct factor {
	const struct tir *p;
	const struct step *s;
	st_id loop, at; /* at: the block's one instance */
	blk_id blk;
	st_id chain[TIR_DEPTH]; /* loops from the outermost that counts elements down to the instance */
	uint32_t n_chain;
	bool counts[TIR_DEPTH]; /* elements, not points */
	bool is_inside;         /* of other loops */
	int64_t from, extent;   /* of the loop */
	struct err *e;
};
/* A block under construction. */
struct part {
	struct tir_block b;
	ix_id *to; /* axes of the old block, and of the loops it stood in: its iterators */
	uint32_t n_to;
	ix_id lane;
};

/* ---- legality ------------------------------------------------------------------------------------------ */
static bool
find_instance(struct factor *t)
{
	uint32_t n = 0;

	t->at = ST_NONE;
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++)
		if (t->p->st[i].op != ST_for) {
			t->at = i;
			n++;
		}
	if (n != 1 || t->p->st[t->at].op != ST_block)
		return refuse(t->e, t->s, "nest", "the loop is not around one block alone");
	t->blk = t->p->st[t->at].ref;
	for (st_id i = 0; i < t->p->n_st; i++)
		if (i != t->at && t->p->st[i].op == ST_block && t->p->st[i].ref == t->blk)
			return refuse(t->e, t->s, "instances", "the block does not stand in one place");
	return true;
}

static bool
is_of_places(const struct tir *p, const struct st *instance, axis_id a)
{
	return binds_kind(p, instance, a, ITER_SPACE) || binds_kind(p, instance, a, ITER_CARRIED);
}

/* From the outermost loop that counts elements on: each counts elements or points, by constant bounds. */
static bool
find_chain(struct factor *t)
{
	const struct st *s = &t->p->st[t->at];
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(t->p, t->at, path);
	int64_t from, extent;

	for (uint32_t k = 0; k < n; k++) {
		const struct st *l = &t->p->st[path[k]];
		bool counts = l->op == ST_for && binds_kind(t->p, s, l->axis, ITER_REDUCE);

		if (l->bind == BIND_vector && t->n_chain == 0)
			return refuse(t->e, t->s, "vector", "a nest inside of a vector loop");
		if (t->n_chain == 0 && !counts)
			continue;
		t->is_inside |= t->n_chain == 0 && k > 0;
		t->counts[t->n_chain] = counts;
		t->chain[t->n_chain++] = path[k];
		if (counts && is_of_places(t->p, s, l->axis))
			return refuse(t->e, t->s, "mixed", "a loop counts points and elements at once");
		if (counts && !const_extent(t->p, l, &from, &extent))
			return refuse(t->e, t->s, "extent", "a loop's bounds hang on another loop");
		if (is_of_threads(l) || l->bind == BIND_pipeline)
			return refuse(t->e, t->s, "binding", "threads would share partial results");
	}
	for (st_id i = t->chain[0]; i < t->p->st[t->chain[0]].end; i++)
		if (t->p->st[i].op != ST_for && i != t->at)
			return refuse(t->e, t->s, "nest", "another block stands among the loops");
	return true;
}

static bool
counts_elements(const struct factor *t)
{
	if (t->p->blk[t->blk].comb == COMB_NONE)
		return refuse(t->e, t->s, "combiner", "the block joins nothing");
	return binds_kind(t->p, &t->p->st[t->at], t->p->st[t->loop].axis, ITER_REDUCE) ||
	    refuse(t->e, t->s, "iterator", "the loop counts no elements");
}

static bool
block_factors(const struct factor *t)
{
	const struct tir_block *b = &t->p->blk[t->blk];

	if (tx_is_strict(t->p->tx) && !comb_info[b->comb].exact)
		return refuse(t->e, t->s, "sum", "a sum in another order is not strict");
	for (uint32_t k = 0; k < b->n_iter; k++)
		if (t->p->iter[b->iter0 + k].kind == ITER_CARRIED)
			return refuse(t->e, t->s, "carried", "an order that the block rests on");
	for (uint32_t o = 0; o < b->n_out; o++)
		if (t->p->buf[b->out[o]].rank == MAX_RANK || b->n_iter + t->n_chain >= IXV_MAX)
			return refuse(t->e, t->s, "rank", "the result has no room for a dimension more");
	return true;
}

/* Does the index hang on a loop around the instance that counts elements, or on one that does not? */
static bool
hangs_on(const struct factor *t, ix_id i, bool counts)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(t->p, t->at, path);

	for (uint32_t k = 0; k < n; k++) {
		const struct st *l = &t->p->st[path[k]];

		if (l->op == ST_for && binds_kind(t->p, &t->p->st[t->at], l->axis, ITER_REDUCE) == counts &&
		    ix_has(t->p->tx, i, l->axis))
			return true;
	}
	return false;
}

static bool
guards_part(const struct factor *t)
{
	const struct st *s = &t->p->st[t->at];

	for (uint32_t k = 0; k < s->n_guard; k++) {
		ix_id i = t->p->guard[s->guard0 + k].i;

		if (hangs_on(t, i, true) && hangs_on(t, i, false))
			return refuse(t->e, t->s, "guard", "it asks of points and elements at once");
	}
	for (uint32_t k = 0; k < t->n_chain; k++)
		if (!t->counts[k] &&
		    (hangs_on(t, t->p->st[t->chain[k]].from, true) ||
			hangs_on(t, t->p->st[t->chain[k]].to, true)))
			return refuse(t->e, t->s, "extent", "a loop over points hangs on elements");
	return true;
}

/* ---- the blocks ---------------------------------------------------------------------------------------- */
/* A name that starts as the block's loops do is the rest of it. */
static const char *
iterator_name(const struct factor *t, st_id loop)
{
	const char *name = t->p->st[loop].name, *blk = t->p->blk[t->blk].name;
	size_t n = strlen(blk);

	return strncmp(name, blk, n) == 0 && name[n] == '.' ? name + n + 1 : name;
}

static struct part
begin_part(const struct factor *t, struct tir *out, const char *name)
{
	const struct tir_block *b = &t->p->blk[t->blk];
	struct part q = {.b = {.name = name, .iter0 = out->n_iter, .n_out = b->n_out, .comb = b->comb},
	    .n_to = tx_n_axes(t->p->tx)};

	q.to = NEW_ARRAY(t->p->arena, ix_id, q.n_to);
	memset(q.to, 0xff, q.n_to * sizeof(*q.to));
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = t->p->iter[b->iter0 + k];

		if (it.kind != ITER_SPACE)
			continue;
		q.to[it.id] = ix_axis(
		    t->p->tx, tir_add_iter(out, it.name, ITER_SPACE, tx_axis_get(t->p->tx, it.id)->hi + 1));
		q.b.n_iter++;
	}
	return q;
}

/* The loop's number, from 0 on, as an iterator. */
static ix_id
add_iterator(const struct factor *t, struct part *q, struct tir *out, st_id loop, enum iter_kind kind)
{
	int64_t from = 0, extent = 1;

	if (!const_extent(t->p, &t->p->st[loop], &from, &extent))
		bug("a loop over elements has no constant bounds");
	q->b.n_iter++;
	return ix_axis(t->p->tx, tir_add_iter(out, iterator_name(t, loop), kind, extent));
}

/* The old place of result k, and the lane.  Inside a loop lanes of one result are side by side; else they are
 * parts of the whole, each in one piece: neighbours in the result are neighbours in its parts. */
static ixv_id
place_of(const struct factor *t, const struct part *q, uint32_t k, bool with_lane)
{
	struct tx *x = t->p->tx;
	struct tx_subst sub = {.to = q->to, .n = q->n_to};
	struct ixv at = ixv_get(x, t->p->blk[t->blk].at[k]);
	ix_id i[MAX_RANK + 1];
	uint32_t n = 0;

	if (with_lane && !t->is_inside)
		i[n++] = q->lane;
	for (uint32_t d = 0; d < at.n; d++)
		i[n++] = ix_subst(x, &sub, at.i[d]);
	if (with_lane && t->is_inside)
		i[n++] = q->lane;
	return ixv_make(x, n, i);
}

/* The old iterators over elements are what they were bound to. */
static void
bind_elements(const struct factor *t, struct part *q)
{
	const struct tir_block *b = &t->p->blk[t->blk];
	struct ixv at = ixv_get(t->p->tx, t->p->st[t->at].at);
	struct tx_subst sub = {.to = q->to, .n = q->n_to};

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (t->p->iter[b->iter0 + k].kind == ITER_REDUCE)
			q->to[t->p->iter[b->iter0 + k].id] = ix_subst(t->p->tx, &sub, at.i[k]);
}

static ex_id
guarded_value(const struct factor *t, const struct part *q, uint32_t k)
{
	const struct st *s = &t->p->st[t->at];
	const struct tir_block *b = &t->p->blk[t->blk];
	struct tx *x = t->p->tx;
	struct tx_subst sub = {.to = q->to, .n = q->n_to};
	ex_id v = ex_subst(x, &sub, b->value[k]),
	      none = comb_identity(x, b->comb, k, t->p->buf[b->out[k]].type);

	for (uint32_t g = 0; g < s->n_guard; g++) {
		struct tir_guard c = t->p->guard[s->guard0 + g];

		if (hangs_on(t, c.i, true))
			v = ex_guard(x, ix_subst(x, &sub, c.i), c.lo, c.hi, v, none);
	}
	return v;
}

static bool
has_buf(const struct tir *p, const char *name)
{
	for (buf_id b = 0; b < p->n_buf; b++)
		if (strcmp(p->buf[b].name, name) == 0)
			return true;
	return false;
}

static buf_id
add_partial_buf(const struct factor *t, struct tir *out, buf_id of)
{
	struct tir_buf b = t->p->buf[of];
	const char *name = arena_printf(out->arena, "%s'p", b.name);
	const int before = t->is_inside ? 0 : 1;
	int64_t dim[MAX_RANK];

	while (has_buf(out, name))
		name = arena_printf(out->arena, "%s'", name);
	dim[before ? 0 : b.rank] = t->extent;
	for (int d = 0; d < b.rank; d++)
		dim[d + before] = b.dim[d];
	b = tir_buf_make(name, b.type, BUF_TEMP, t->is_inside ? SCOPE_local : SCOPE_global, b.rank + 1, dim);
	return tir_add_buf(out, &b);
}

static const char *
partial_name(const struct factor *t)
{
	const char *name = arena_printf(t->p->arena, "%s'p", t->p->blk[t->blk].name);

	while (tir_find_blk(t->p, str_of(name)) != BLK_NONE)
		name = arena_printf(t->p->arena, "%s'", name);
	return name;
}

static blk_id
add_partial(const struct factor *t, struct tir *out)
{
	struct part q = begin_part(t, out, partial_name(t));
	const struct tir_block *b = &t->p->blk[t->blk];

	q.lane = add_iterator(t, &q, out, t->loop, ITER_SPACE);
	q.to[t->p->st[t->loop].axis] = ix_addc(t->p->tx, q.lane, t->from);
	for (uint32_t k = 0; k < t->n_chain; k++) {
		int64_t from = 0, extent;

		if (!t->counts[k] || t->chain[k] == t->loop)
			continue;
		(void)const_extent(t->p, &t->p->st[t->chain[k]], &from, &extent);
		q.to[t->p->st[t->chain[k]].axis] =
		    ix_addc(t->p->tx, add_iterator(t, &q, out, t->chain[k], ITER_REDUCE), from);
	}
	bind_elements(t, &q);
	for (uint32_t k = 0; k < b->n_out; k++) {
		q.b.out[k] = add_partial_buf(t, out, b->out[k]);
		q.b.at[k] = place_of(t, &q, k, true);
		q.b.value[k] = guarded_value(t, &q, k);
	}
	return tir_add_blk(out, &q.b);
}

/* In the old block's place: it joins what the lanes hold. */
static void
replace_block(const struct factor *t, struct tir *out, blk_id partial)
{
	struct part q = begin_part(t, out, t->p->blk[t->blk].name);

	q.lane = add_iterator(t, &q, out, t->loop, ITER_REDUCE);
	for (uint32_t k = 0; k < q.b.n_out; k++) {
		buf_id from = out->blk[partial].out[k];

		q.b.out[k] = t->p->blk[t->blk].out[k];
		q.b.at[k] = place_of(t, &q, k, false);
		q.b.value[k] = ex_load(t->p->tx, out->buf[from].type, from, place_of(t, &q, k, true));
	}
	out->blk[t->blk] = q.b;
}

/* ---- the nests ----------------------------------------------------------------------------------------- */
static const char *
loop_name(const struct factor *t, const struct tir *out, blk_id partial, st_id loop)
{
	const char *name = arena_printf(out->arena, "%s.%s", out->blk[partial].name, iterator_name(t, loop));

	while (tir_find_loop(t->p, str_of(name)) != ST_NONE || tir_find_loop(out, str_of(name)) != ST_NONE)
		name = arena_printf(out->arena, "%s'", name);
	return name;
}

/* An instance under guards on points; the others are in the value. */
static void
add_instance(const struct factor *t, struct tir *out, blk_id b, const struct tx_subst *sub, uint32_t n,
    const ix_id *at)
{
	const struct st *s = &t->p->st[t->at];
	struct st to = {.op = ST_block, .ref = b};
	struct tir_guard guard[TIR_DEPTH];
	uint32_t n_guard = 0;

	for (uint32_t k = 0; k < s->n_guard && n_guard < TIR_DEPTH; k++) {
		struct tir_guard g = t->p->guard[s->guard0 + k];

		if (hangs_on(t, g.i, true))
			continue;
		g.i = ix_subst(t->p->tx, sub, g.i);
		guard[n_guard++] = g;
	}
	to.at = ixv_make(t->p->tx, n, at);
	tir_guards(out, &to, n_guard, guard);
	tir_add(out, to);
}

/* What the old instance's iterators over points are bound to. */
static uint32_t
bind_points(const struct factor *t, const struct tx_subst *sub, ix_id *at)
{
	const struct tir_block *b = &t->p->blk[t->blk];
	struct ixv was = ixv_get(t->p->tx, t->p->st[t->at].at);
	uint32_t n = 0;

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (t->p->iter[b->iter0 + k].kind == ITER_SPACE)
			at[n++] = ix_subst(t->p->tx, sub, was.i[k]);
	return n;
}

/* A loop of the chain again, over an axis of its own. */
static ix_id
add_loop(
    const struct factor *t, struct tir *out, struct copy *c, uint32_t k, const char *name, enum tir_bind bind)
{
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	const struct st *l = &t->p->st[t->chain[k]];

	c->to[l->axis] = ix_axis(t->p->tx,
	    tir_for(out, name, ix_subst(t->p->tx, &sub, l->from), ix_subst(t->p->tx, &sub, l->to), bind));
	return c->to[l->axis];
}

static ix_id
number_in(const struct factor *t, uint32_t k, ix_id axis)
{
	int64_t from = 0, extent;

	(void)const_extent(t->p, &t->p->st[t->chain[k]], &from, &extent);
	return ix_addc(t->p->tx, axis, -from);
}

static void
add_partial_nest(const struct factor *t, struct tir *out, blk_id partial)
{
	struct copy c = copy_begin(t->p, out);
	struct tx_subst sub = {.to = c.to, .n = c.n_to};
	ix_id at[IXV_MAX], number[TIR_DEPTH], lane = IX_NONE;
	uint32_t n, n_number = 0;

	for (uint32_t k = 0; k < t->n_chain; k++) {
		ix_id i = add_loop(
		    t, out, &c, k, loop_name(t, out, partial, t->chain[k]), t->p->st[t->chain[k]].bind);

		if (t->chain[k] == t->loop)
			lane = number_in(t, k, i);
		else if (t->counts[k])
			number[n_number++] = number_in(t, k, i);
	}
	n = bind_points(t, &sub, at);
	at[n++] = lane;
	for (uint32_t k = 0; k < n_number; k++)
		at[n++] = number[k];
	add_instance(t, out, partial, &sub, n, at);
	for (uint32_t k = 0; k < t->n_chain; k++)
		tir_close(out);
	copy_end(&c);
}

static void
add_joining_nest(const struct factor *t, struct tir *out)
{
	struct copy c = copy_begin(t->p, out);
	struct tx_subst sub = {.to = c.to, .n = c.n_to};
	ix_id at[IXV_MAX];
	uint32_t n, n_open = 1;

	for (uint32_t k = 0; k < t->n_chain; k++)
		if (!t->counts[k]) {
			add_loop(t, out, &c, k, t->p->st[t->chain[k]].name, t->p->st[t->chain[k]].bind);
			n_open++;
		}
	n = bind_points(t, &sub, at);
	at[n++] = ix_axis(t->p->tx,
	    tir_for(out, t->p->st[t->loop].name, ix_const(t->p->tx, 0), ix_const(t->p->tx, t->extent),
		BIND_serial));
	add_instance(t, out, t->blk, &sub, n, at);
	while (n_open-- > 0)
		tir_close(out);
	copy_end(&c);
}

static bool
factor_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct factor *t = self;
	blk_id partial;

	(void)p;
	if (i != t->chain[0])
		return false;
	partial = add_partial(t, out);
	replace_block(t, out, partial);
	for (uint32_t k = 0; k < out->blk[partial].n_out && t->is_inside; k++)
		tir_add(out, (struct st){.op = ST_alloc, .ref = out->blk[partial].out[k]});
	add_partial_nest(t, out, partial);
	add_joining_nest(t, out);
	return true;
}

bool
step_rfactor(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct factor t = {.p = p, .s = s, .e = e};

	if (!find_loop(p, s, 0, &t.loop, e))
		return false;
	if (!const_extent(p, &p->st[t.loop], &t.from, &t.extent))
		return refuse(e, s, "extent", "the loop's bounds hang on another loop");
	if (!find_instance(&t) || !counts_elements(&t) || !find_chain(&t) || !block_factors(&t) ||
	    !guards_part(&t))
		return false;
	tir_rewrite(out, p, factor_here, &t);
	return true;
}
