/* kernels/codegen/overlap.c: which result may lie on an operand's bytes, and which loops may be told so.
 *
 * Operand x may be result y's memory where
 *   - both have the same element type and extents;
 *   - each element of y is stored once: as many stores run as it has elements, and a program makes all of
 * them;
 *   - the body that reads an element of x stores the same element of y there or later on.  As no other store
 *     is of that element, nobody reads it behind the one that overwrites it.
 * So a halo, a broadcast, a transpose, a row's second look, a sum that is kept in memory, and an
 * instruction's block exclude themselves. */
#include "codegen_int.h"

#include <string.h>

struct looking {
	const struct tir *p;
	struct accesses l;
	bool *refused; /* [operand * n_buf + result] */
	bool *is_read;
	bool *is_called; /* an instruction touches it */
	int64_t *stores; /* of each buffer, over all loops; -1: nobody knows */
};

/* ---- how often a statement runs ------------------------------------------------------------------------ */
struct counted { /* a loop around it, and the part of it that guards leave */
	axis_id axis;
	int64_t from, to;
};

static bool
narrow_by(const struct tir *p, const struct st *s, struct counted *loop, uint32_t n)
{
	for (uint32_t k = 0; k < s->n_guard; k++) {
		const struct tir_guard *g = &p->guard[s->guard0 + k];
		uint32_t q = 0;

		while (q < n && g->i != ix_axis(p->tx, loop[q].axis))
			q++;
		if (q == n)
			return false;
		loop[q].from = MAX_OF(loop[q].from, g->lo);
		loop[q].to = MIN_OF(loop[q].to, g->hi);
	}
	return true;
}

/* -1: bounds or guards hang on more than one loop's axis, or it is more than `most`. */
static int64_t
times_run(const struct tir *p, st_id i, int64_t most)
{
	st_id path[TIR_DEPTH];
	struct counted loop[TIR_DEPTH];
	uint32_t n_path = tir_path(p, i, path), n = 0;
	int64_t times = 1;

	for (uint32_t k = 0; k < n_path; k++) {
		const struct st *s = &p->st[path[k]];

		if (s->op == ST_if && !narrow_by(p, s, loop, n))
			return -1;
		if (s->op != ST_for)
			continue;
		loop[n].axis = s->axis;
		if (!ix_is_const(p->tx, s->from, &loop[n].from) || !ix_is_const(p->tx, s->to, &loop[n].to))
			return -1;
		n++;
	}
	for (uint32_t k = 0; k < n; k++) {
		int64_t trips = MAX_OF(loop[k].to - loop[k].from, (int64_t)0);

		if (times > 0 && trips > most / times)
			return -1;
		times *= trips;
	}
	return times;
}

/* ---- pairs -----------------------------------------------------------------------------------------------
 */
static int64_t
count_of(const struct tir_buf *b)
{
	int64_t n = 1;

	for (int d = 0; d < b->rank; d++)
		n *= b->dim[d];
	return n;
}

/* Does a statement of the body, i or one behind it, store that element? */
static bool
is_stored_then(const struct tir *p, st_id i, st_id end, buf_id y, ixv_id at)
{
	for (; i < end; i = p->st[i].end)
		if (p->st[i].op == ST_store && p->st[i].ref == y && p->st[i].at == at)
			return true;
	return false;
}

static void
note_operand(struct looking *g, st_id i, const struct access *x)
{
	const struct tir *p = g->p;
	const st_id end = end_of_body(p, i);

	g->is_read[x->buf] = true;
	for (buf_id y = 0; y < p->n_buf; y++)
		if (p->buf[y].role == BUF_RESULT && !is_stored_then(p, i, end, y, x->place))
			g->refused[x->buf * p->n_buf + y] = true;
}

static void
note_stores(struct looking *g, st_id i, buf_id y)
{
	const int64_t most = count_of(&g->p->buf[y]), times = times_run(g->p, i, most);

	g->stores[y] = times < 0 || g->stores[y] < 0 ? -1 : MIN_OF(g->stores[y] + times, most + 1);
}

static void
note_statement(struct looking *g, st_id i)
{
	list_accesses(g->p, i, &g->l);
	for (uint32_t k = 0; k < g->l.n; k++) {
		const struct access *a = &g->l.at[k];
		const enum buf_role role = g->p->buf[a->buf].role;

		g->is_called[a->buf] |= a->goes_on;
		if (role == BUF_OPERAND)
			note_operand(g, i, a);
		else if (role == BUF_RESULT && a->stores)
			note_stores(g, i, a->buf);
	}
}

static bool
may_lie_on(const struct looking *g, buf_id y, buf_id x)
{
	const struct tir_buf *to = &g->p->buf[y], *from = &g->p->buf[x];

	return to->role == BUF_RESULT && from->role == BUF_OPERAND && from->scope == SCOPE_global &&
	    to->type == from->type && to->rank == from->rank &&
	    memcmp(to->dim, from->dim, sizeof(to->dim[0]) * (size_t)to->rank) == 0 && g->is_read[x] &&
	    !g->is_called[x] && !g->is_called[y] && !g->refused[x * g->p->n_buf + y] &&
	    g->stores[y] == count_of(to);
}

void
find_overlaps(struct arena *a, const struct tir *p, struct sharing *out)
{
	struct looking g = {.p = p,
	    .refused = NEW_ARRAY(a, bool, (size_t)p->n_buf * p->n_buf + 1),
	    .is_read = NEW_ARRAY(a, bool, p->n_buf + 1),
	    .is_called = NEW_ARRAY(a, bool, p->n_buf + 1),
	    .stores = NEW_ARRAY(a, int64_t, p->n_buf + 1)};
	uint32_t cap = 0;

	*out = (struct sharing){.is_shared = NEW_ARRAY(a, bool, p->n_buf + 1)};
	for (st_id i = 0; i < p->n_st; i++)
		note_statement(&g, i);
	for (buf_id y = 0; y < p->n_buf; y++)
		for (buf_id x = 0; x < p->n_buf; x++) {
			if (!may_lie_on(&g, y, x))
				continue;
			GROW(a, out->pair, out->n, cap);
			out->pair[out->n++] = (struct overlap){p->buf[y].index, p->buf[x].index};
			out->is_shared[y] = out->is_shared[x] = true;
		}
}

/* ---- loops -----------------------------------------------------------------------------------------------
 */
/* Is the place another one in each iteration?  It is where the axis stands in it once, times a number. */
static bool
moves_with(const struct tir *p, ixv_id at, axis_id a)
{
	const struct ixv v = ixv_get(p->tx, at);
	const ix_id own = ix_axis(p->tx, a);
	bool moves = false;

	if (v.n != 1 || v.i[0] == own)
		return v.n == 1;
	const struct ix n = *ix_get(p->tx, v.i[0]);

	for (uint32_t k = 0; n.kind == IX_LIN && k < n.n_terms; k++) {
		if (n.terms[k].atom != own && ix_has(p->tx, n.terms[k].atom, a))
			return false;
		moves |= n.terms[k].atom == own;
	}
	return moves;
}

/* Is the place another one in each iteration, and so far from the other one that both are of it alone? */
static bool
keeps_apart(const struct tir *p, ixv_id at, ixv_id other, axis_id a)
{
	const struct ixv v = ixv_get(p->tx, at), w = ixv_get(p->tx, other);
	int64_t by, off;

	return at != other && v.n == 1 && w.n == 1 && moves_with(p, at, a) &&
	    ix_coef(p->tx, v.i[0], a, &by) &&
	    ix_is_const(p->tx, ix_add(p->tx, v.i[0], ix_mulc(p->tx, w.i[0], -1)), &off) && off < by &&
	    -off < by;
}

/* May the two be of one element, though not in one iteration?  Elements of two buffers are apart, but for
 * those of pairs. */
static bool
may_meet(const struct tir *p, const struct sharing *g, const struct access *store, const struct access *a,
    axis_id loop)
{
	if (store->buf != a->buf && !(g->is_shared[store->buf] && g->is_shared[a->buf]))
		return false;
	return a->goes_on ||
	    ((store->place != a->place || !moves_with(p, store->place, loop)) &&
		!keeps_apart(p, store->place, a->place, loop));
}

static bool
is_in_memory(const struct tir_buf *b)
{
	return b->scope != SCOPE_reg || b->dim[0] > 1;
}

/* All that the loop's body touches in memory. */
static struct accesses
list_memory(const struct tir *p, st_id loop)
{
	struct accesses all = {.n = 0}, l = {.n = 0};

	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++) {
			if (!is_in_memory(&p->buf[l.at[k].buf]))
				continue;
			GROW(p->arena, all.at, all.n, all.cap);
			all.at[all.n++] = l.at[k];
		}
	}
	return all;
}

static bool
is_innermost(const struct tir *p, st_id loop)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++)
		if (p->st[i].op == ST_for || p->st[i].op == ST_index)
			return false;
	return true;
}

bool
is_apart(const struct tir *p, st_id loop, const struct sharing *g)
{
	if (!is_innermost(p, loop))
		return false;
	const struct accesses l = list_memory(p, loop);

	for (uint32_t k = 0; k < l.n; k++)
		for (uint32_t q = 0; l.at[k].stores && q < l.n; q++)
			if (may_meet(p, g, &l.at[k], &l.at[q], p->st[loop].axis))
				return false;
	return true;
}

bool
is_independent(const struct tir *p, st_id loop, const struct sharing *g)
{
	bool any = false;

	for (st_id i = loop + 1; g->n > 0 && i < p->st[loop].end; i++)
		any |= p->st[i].op == ST_store && g->is_shared[p->st[i].ref];
	return any && is_apart(p, loop, g);
}
