/* kernels/schedule/flat.c: blocks' bindings and guards put in, by one substitution: NEST becomes FLAT.  What
 * a reduction starts from is stored before the outermost loop that counts its elements, over the result's
 * points below that loop; where guards forbid it, at its first element.
 * A nest bound `call` becomes its instruction; its reduction starts before it.
 *
 * On a GPU an iterator of a window with a border may be a digit of a thread's number.  What is read there has
 * it by a name, given at the begin of the thread's body: put into an index, digits become one number again,
 * of which the border's guard says nothing. */
#include "../tir/tensor.h"
#include "step_int.h"

#include <stdlib.h>
#include <string.h>

struct digit {
	ix_id from; /* over loops of blocks and threads */
	axis_id axis;
	st_id lane; /* the loop over threads that begins with it */
};
struct flat {
	const struct tir *p;
	struct digit *digit;
	uint32_t n_digit, cap_digit;
	st_id lane;     /* of the instance that is put in, where it has digits; ST_NONE */
	ix_id *to;      /* of all axes: iterators, while a block is put in */
	ix_id *to_read; /* the same in its values */
	uint32_t n_to;
	uint32_t n_starts;
};

/* ---- digits ------------------------------------------------------------------------------------------- */
/* The innermost loop over threads around an instance of a window with a border; ST_NONE: it is none, or over
 * what a block has, of which is kept what indices by loops say. */
static st_id
lane_of_window(const struct tir *p, st_id instance)
{
	const struct tir_block *b = &p->blk[p->st[instance].ref];
	st_id path[TIR_DEPTH];

	if (b->comb == COMB_NONE || ex_get(p->tx, b->value[0])->kind != EX_GUARD || blk_reads_local(p, b))
		return ST_NONE;
	for (uint32_t k = tir_path(p, instance, path); k-- > 0;)
		if (p->st[path[k]].op == ST_for && p->st[path[k]].bind == BIND_lane)
			return path[k];
	return ST_NONE;
}

static bool
divides(const struct tx *x, ix_id i)
{
	const struct ix *n = ix_get(x, i);
	bool any = n->kind == IX_DIV || n->kind == IX_MOD;

	for (uint32_t k = 0; k < n->n_terms && !any; k++)
		any = divides(x, n->terms[k].atom);
	return any;
}

/* Is it a digit of what loops up to the one over threads count? */
static bool
is_digit(const struct flat *f, ix_id i)
{
	if (!divides(f->p->tx, i) || ix_get(f->p->tx, i)->bufs)
		return false;
	for (st_id k = f->lane + 1; k < f->p->st[f->lane].end; k++)
		if (f->p->st[k].op == ST_for && ix_has(f->p->tx, i, f->p->st[k].axis))
			return false;
	return true;
}

/* Its name.  Threads behind the last point are kept from it by a guard: their number is the last one's. */
static ix_id
named(struct flat *f, ix_id i, axis_id iter)
{
	struct tx *x = f->p->tx;
	const ix_id from = ix_min(x, i, ix_const(x, tx_axis_get(x, iter)->hi));

	for (uint32_t k = 0; k < f->n_digit; k++)
		if (f->digit[k].from == from && f->digit[k].lane == f->lane)
			return ix_axis(x, f->digit[k].axis);
	GROW(f->p->arena, f->digit, f->n_digit, f->cap_digit);
	f->digit[f->n_digit] = (struct digit){
	    from, tx_axis(x, AXIS_OUTER, ix_get(x, from)->lo, ix_get(x, from)->hi, IX_NONE), f->lane};
	return ix_axis(x, f->digit[f->n_digit++].axis);
}

/* The loop over threads with its digits' names; of a program that is flat, its loops as they were. */
static bool
add_names(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct flat *f = self;
	bool any = false;

	for (uint32_t k = 0; k < f->n_digit; k++) {
		const struct digit *d = &f->digit[k];

		if (p->st[i].op != ST_for || p->st[i].axis != f->p->st[d->lane].axis)
			continue;
		if (!any)
			tir_add(out, p->st[i]);
		any = true;
		tir_add(out,
		    (struct st){.op = ST_index,
			.name = arena_printf(out->arena, "%s'd%u", p->st[i].name, k),
			.axis = d->axis,
			.from = d->from});
	}
	for (st_id k = i + 1; any && k < p->st[i].end; k = p->st[k].end)
		tir_copy(out, p, k, NULL);
	if (any)
		tir_close(out);
	return any;
}

/* ---- one instance ---------------------------------------------------------------------------------- */
static void
bind_iterators(struct flat *f, const struct st *s, bool bind)
{
	const struct tir_block *b = &f->p->blk[s->ref];
	struct ixv at = ixv_get(f->p->tx, s->at);

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const axis_id iter = f->p->iter[b->iter0 + k].id;
		const bool names = bind && f->lane != ST_NONE && is_digit(f, at.i[k]);

		f->to[iter] = bind ? at.i[k] : IX_NONE;
		f->to_read[iter] = names ? named(f, at.i[k], iter) : f->to[iter];
	}
}

static void
add_store(struct flat *f, struct tir *out, const struct st *s, uint32_t k, ex_id value)
{
	struct tx_subst sub = {.to = f->to, .n = f->n_to};
	const struct tir_block *b = &f->p->blk[s->ref];

	tir_add(out,
	    (struct st){
		.op = ST_store, .ref = b->out[k], .at = ixv_subst(out->tx, &sub, b->at[k]), .value = value});
}

static void
add_identity(struct flat *f, struct tir *out, const struct st *s)
{
	const struct tir_block *b = &f->p->blk[s->ref];

	for (uint32_t k = 0; k < b->n_out; k++)
		add_store(f, out, s, k, comb_identity(out->tx, b->comb, k, f->p->buf[b->out[k]].type));
}

/* All new values are taken before one is stored. */
static void
add_update(struct flat *f, struct tir *out, const struct st *s)
{
	const struct tir_block *b = &f->p->blk[s->ref];
	struct tx_subst sub = {.to = f->to, .n = f->n_to}, reads = {.to = f->to_read, .n = f->n_to};
	ex_id v[TIR_OUTS], held[TIR_OUTS];

	for (uint32_t k = 0; k < b->n_out; k++) {
		v[k] = ex_subst(out->tx, &reads, b->value[k]);
		held[k] = ex_load(
		    out->tx, f->p->buf[b->out[k]].type, b->out[k], ixv_subst(out->tx, &sub, b->at[k]));
	}
	if (b->comb != COMB_NONE)
		comb_join(out->tx, b->comb, held, v, v);
	for (uint32_t k = 0; k < b->n_out && b->n_out > 1; k++) {
		enum dtype t = ex_get(out->tx, v[k])->type;

		tir_add(out, (struct st){.op = ST_let, .ref = out->n_var, .value = v[k]});
		v[k] = ex_var(out->tx, t, out->n_var++);
	}
	for (uint32_t k = 0; k < b->n_out; k++)
		add_store(f, out, s, k, v[k]);
}

/* ---- where a reduction starts -------------------------------------------------------------------------- */
struct start {
	st_id path[TIR_DEPTH]; /* around the instance */
	uint32_t n_path;
	uint32_t outer;         /* path[outer]: the outermost loop that counts elements; n_path: none */
	bool copied[TIR_DEPTH]; /* loops below it that count points: they stand again before it */
};

static bool
counts(const struct flat *f, const struct st *s, axis_id a, bool reduces)
{
	const struct tir_block *b = &f->p->blk[s->ref];
	struct ixv at = ixv_get(f->p->tx, s->at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		if ((f->p->iter[b->iter0 + k].kind == ITER_REDUCE) == reduces && ix_has(f->p->tx, at.i[k], a))
			return true;
	return false;
}

/* Does the index hang on a loop below path[outer] (itself among them) that is, or is not, copied? */
static bool
hangs_on(const struct flat *f, const struct start *t, ix_id i, bool copied)
{
	for (uint32_t k = t->outer; k < t->n_path; k++) {
		const struct st *s = &f->p->st[t->path[k]];

		if (s->op == ST_for && t->copied[k] == copied && ix_has(f->p->tx, i, s->axis))
			return true;
	}
	return false;
}

/* Does it hang on a loop that counts points, wherever that stands? */
static bool
is_of_points(const struct flat *f, const struct start *t, const struct st *s, ix_id i)
{
	for (uint32_t k = 0; k < t->n_path; k++) {
		const struct st *l = &f->p->st[t->path[k]];

		if (l->op == ST_for && counts(f, s, l->axis, false) && ix_has(f->p->tx, i, l->axis))
			return true;
	}
	return false;
}

/* Is the first element there when all loops over elements are at their begin?  Of two instances, a tail's
 * range may hold 0 and never come to it. */
static bool
begins_at_zero(const struct flat *f, const struct start *t, const struct st *s)
{
	const struct tir_block *b = &f->p->blk[s->ref];
	struct ixv at = ixv_get(f->p->tx, s->at);
	ix_id *first = heap_alloc((f->n_to + 1) * sizeof(*first));
	struct tx_subst sub = {.to = first, .n = f->n_to};
	bool zero = true;
	int64_t v;

	memset(first, 0xff, (f->n_to + 1) * sizeof(*first));
	for (uint32_t k = t->outer; k < t->n_path; k++) {
		const struct st *l = &f->p->st[t->path[k]];

		if (l->op == ST_for && !t->copied[k])
			first[l->axis] = ix_subst(f->p->tx, &sub, l->from);
	}
	for (uint32_t k = 0; k < b->n_iter; k++)
		if (f->p->iter[b->iter0 + k].kind == ITER_REDUCE)
			zero &= ix_is_const(f->p->tx, ix_subst(f->p->tx, &sub, at.i[k]), &v) && v == 0;
	free(first);
	return zero;
}

/* May it start before that loop?  Each loop and guard on the way is of points or of elements, not of both. */
static bool
may_start_apart(const struct flat *f, const struct start *t, const struct st *s)
{
	if (!begins_at_zero(f, t, s))
		return false;
	for (uint32_t k = t->outer; k < t->n_path; k++) {
		const struct st *l = &f->p->st[t->path[k]];

		if (l->op != ST_for)
			return false;
		if (t->copied[k] &&
		    (counts(f, s, l->axis, true) || hangs_on(f, t, l->from, false) ||
			hangs_on(f, t, l->to, false)))
			return false;
	}
	for (uint32_t k = 0; k < s->n_guard; k++) {
		ix_id i = f->p->guard[s->guard0 + k].i;

		if (is_of_points(f, t, s, i) && hangs_on(f, t, i, false))
			return false;
	}
	return true;
}

static struct start
start_of(const struct flat *f, st_id i)
{
	struct start t = {.n_path = 0};
	const struct st *s = &f->p->st[i];

	t.n_path = t.outer = tir_path(f->p, i, t.path);
	for (uint32_t k = t.n_path; k-- > 0;) {
		const struct st *l = &f->p->st[t.path[k]];

		if (l->op == ST_for && (counts(f, s, l->axis, true) || l->bind == BIND_call))
			t.outer = k;
	}
	for (uint32_t k = t.outer; k < t.n_path; k++)
		t.copied[k] =
		    f->p->st[t.path[k]].op == ST_for && counts(f, s, f->p->st[t.path[k]].axis, false);
	return t;
}

/* The loops over points once more, with axes of their own; then the identities, under guards on points. */
static void
add_start(struct flat *f, struct tir *out, const struct start *t, const struct st *s)
{
	ix_id *own = heap_alloc(f->n_to * sizeof(*own));
	struct tx_subst sub = {.to = own, .n = f->n_to};
	struct tir_guard guard[TIR_DEPTH];
	struct st test = {.op = ST_if}, moved = *s;
	uint32_t n_open = 0, n_guard = 0;

	memset(own, 0xff, f->n_to * sizeof(*own));
	for (uint32_t k = t->outer; k < t->n_path; k++) {
		const struct st *l = &f->p->st[t->path[k]];

		if (!t->copied[k])
			continue;
		own[l->axis] = ix_axis(out->tx,
		    tir_for(out, arena_printf(out->arena, "%s'start%u", l->name, f->n_starts),
			ix_subst(out->tx, &sub, l->from), ix_subst(out->tx, &sub, l->to),
			l->bind == BIND_call ? BIND_serial : l->bind));
		n_open++;
	}
	for (uint32_t k = 0; k < s->n_guard && n_guard < TIR_DEPTH; k++) {
		struct tir_guard g = f->p->guard[s->guard0 + k];

		if (hangs_on(f, t, g.i, false)) /* of elements: the first one is there */
			continue;
		g.i = ix_subst(out->tx, &sub, g.i);
		guard[n_guard++] = g;
	}
	moved.at = ixv_subst(out->tx, &sub, s->at);
	if (n_guard) {
		tir_guards(out, &test, n_guard, guard);
		tir_add(out, test);
		n_open++;
	}
	bind_iterators(f, &moved, true);
	add_identity(f, out, &moved);
	bind_iterators(f, &moved, false);
	while (n_open-- > 0)
		tir_close(out);
	f->n_starts++;
	free(own);
}

/* A tail of the elements: another instance has begun. */
static bool
never_starts(const struct flat *f, const struct st *s)
{
	const struct tir_block *b = &f->p->blk[s->ref];
	struct ixv at = ixv_get(f->p->tx, s->at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (f->p->iter[b->iter0 + k].kind == ITER_REDUCE && ix_get(f->p->tx, at.i[k])->lo > 0)
			return true;
	return b->comb == COMB_NONE;
}

/* ---- the walk --------------------------------------------------------------------------------------------
 */
/* At the instance: identities where all elements' numbers are 0. */
static void
add_first(struct flat *f, struct tir *out, const struct st *s)
{
	const struct tir_block *b = &f->p->blk[s->ref];
	struct ixv at = ixv_get(f->p->tx, s->at);
	struct tir_guard guard[IXV_MAX];
	struct st test = {.op = ST_if};
	uint32_t n = 0;

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (f->p->iter[b->iter0 + k].kind == ITER_REDUCE && !ix_is_const(out->tx, at.i[k], NULL))
			guard[n++] = (struct tir_guard){at.i[k], 0, 1};
	if (n) {
		tir_guards(out, &test, n, guard);
		tir_add(out, test);
	}
	add_identity(f, out, s);
	if (n)
		tir_close(out);
}

static void
flat_block(struct flat *f, struct tir *out, st_id i)
{
	const struct st *s = &f->p->st[i];
	struct start t = start_of(f, i);
	struct st test = {.op = ST_if};

	if (s->n_guard) {
		tir_guards(out, &test, s->n_guard, f->p->guard + s->guard0);
		tir_add(out, test);
	}
	f->lane = lane_of_window(f->p, i);
	bind_iterators(f, s, true);
	f->lane = ST_NONE;
	if (!never_starts(f, s) && (t.outer == t.n_path || !may_start_apart(f, &t, s)))
		add_first(f, out, s);
	add_update(f, out, s);
	bind_iterators(f, s, false);
	if (s->n_guard)
		tir_close(out);
}

/* Starts of all instances below loop i whose outermost loop of elements it is. */
static void
add_starts(struct flat *f, struct tir *out, st_id i)
{
	for (st_id k = i + 1; k < f->p->st[i].end; k++) {
		const struct st *s = &f->p->st[k];

		if (s->op != ST_block || never_starts(f, s))
			continue;
		struct start t = start_of(f, k);

		if (t.outer < t.n_path && t.path[t.outer] == i && may_start_apart(f, &t, s))
			add_start(f, out, &t, s);
	}
}

/* Does the nest's reduction go on, or start before it?  Then its instruction stands there. */
static bool
add_call(struct flat *f, struct tir *out, st_id i)
{
	const struct tir *p = f->p;
	const struct st *s = &p->st[p->st[i].end - 1];
	struct start t = start_of(f, p->st[i].end - 1);
	ex_id arg[TENSOR_ARGS];
	const char *rule, *why;

	if (!tensor_match(p, i, (enum intrin)p->st[i].ref, arg, &rule, &why) ||
	    (!never_starts(f, s) && !may_start_apart(f, &t, s)))
		return false;
	tir_call(out, (enum intrin)p->st[i].ref, (uint32_t)strlen(intrin_info[p->st[i].ref].args), arg);
	return true;
}

static bool
flatten(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct flat *f = self;

	if (p->st[i].op == ST_for)
		add_starts(f, out, i);
	if (p->st[i].op == ST_for && p->st[i].bind == BIND_call && add_call(f, out, i))
		return true;
	if (p->st[i].op != ST_block)
		return false;
	flat_block(f, out, i);
	return true;
}

void
schedule_flat_unparted(const struct tir *p, struct tir *out)
{
	struct flat f = {.p = p, .lane = ST_NONE, .n_to = tx_n_axes(p->tx)};

	f.to = heap_alloc((f.n_to + 1) * sizeof(*f.to));
	memset(f.to, 0xff, (f.n_to + 1) * sizeof(*f.to));
	f.to_read = heap_alloc((f.n_to + 1) * sizeof(*f.to_read));
	memset(f.to_read, 0xff, (f.n_to + 1) * sizeof(*f.to_read));
	tir_rewrite(out, p, flatten, &f);
	out->level = TIR_FLAT;
	if (f.n_digit) {
		const struct tir unnamed = *out;

		tir_rewrite(out, &unnamed, add_names, &f);
	}
	free(f.to);
	free(f.to_read);
}

void
schedule_flat(const struct tir *p, struct tir *out)
{
	struct tir flat;

	schedule_flat_unparted(p, &flat);
	if (!is_for_threads(&flat) || !tir_sync(&flat, out)) /* a GPU's: starts store, too */
		*out = flat;
}
