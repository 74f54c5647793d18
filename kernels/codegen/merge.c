/* kernels/codegen/merge.c: a loop that is all of another's body becomes one with it, where every index counts
 * through both as through one:
 *
 *   for y in 0..56                                 for k in 0..3136
 *     for c in 0..56                          ->     store %1[k] = neg(%0[k])
 *       store %1[56*y + c] = neg(%0[56*y + c])
 *
 * The order of iterations stays.  A parallel loop takes in one whose iterations are as free of each other. */
#include "codegen_int.h"

struct merging {
	const struct tir *p;
	struct tx *x;
	axis_id k;
	struct tx_subst sub;
	bool ok;
	uint32_t buf; /* whose reads are looked for */
	ixv_id at;
};

static void
look_index(void *self, ix_id i)
{
	struct merging *m = self;
	const struct ix *n = ix_get(m->x, i);

	if ((n->kind == IX_DIV || n->kind == IX_MOD) && ix_has(m->x, n->a, m->k))
		m->ok = false;
}

static void
look_ex(void *self, ex_id e)
{
	struct merging *m = self;

	ex_indices(m->x, ex_subst(m->x, &m->sub, e), look_index, m);
}

static void
look_ix(void *self, ix_id i)
{
	struct merging *m = self;

	ix_indices(m->x, ix_subst(m->x, &m->sub, i), look_index, m);
}

static void
look_read(void *self, const struct ex *read)
{
	struct merging *m = self;

	if (read->tensor == m->buf && read->at != m->at)
		m->ok = false;
}

static void
look_reads(void *self, ex_id e)
{
	ex_reads(((struct merging *)self)->x, e, look_read, self);
}

static void
look_index_reads(void *self, ix_id i)
{
	ix_reads(((struct merging *)self)->x, i, look_read, self);
}

/* Does each iteration of the merged loop store to elements of its own, and read no other's? */
static bool
is_free(struct merging *m, st_id body, st_id end)
{
	for (st_id i = body; i < end; i++) {
		const struct st *s = &m->p->st[i];
		int64_t coef;

		if (s->op == ST_call)
			return false;
		if (s->op != ST_store || is_within(m->p, body, end, ST_alloc, s->ref))
			continue; /* each iteration has its own */
		ix_id at = ix_subst(m->x, &m->sub, ixv_get(m->x, s->at).i[0]);

		if (!ix_coef(m->x, at, m->k, &coef) || coef == 0)
			return false;
		const struct ix *rest =
		    ix_get(m->x, ix_add(m->x, at, ix_mulc(m->x, ix_axis(m->x, m->k), -coef)));

		if (rest->hi - rest->lo >= (coef < 0 ? -coef : coef))
			return false;
		m->buf = s->ref;
		m->at = s->at;
		for (st_id k = body; k < end; k++) {
			if (m->p->st[k].op == ST_store && m->p->st[k].ref == s->ref &&
			    m->p->st[k].at != s->at)
				return false;
			tir_each(m->p, &m->p->st[k], look_index_reads, look_reads, m);
		}
	}
	return m->ok;
}

static bool
has_constant_bounds(const struct tir *p, st_id i, int64_t *from, int64_t *to)
{
	return ix_is_const(p->tx, p->st[i].from, from) && ix_is_const(p->tx, p->st[i].to, to);
}

/* The whole body of loop i is a loop. */
static bool
is_pair(const struct tir *p, st_id i)
{
	return p->st[i].op == ST_for && i + 1 < p->st[i].end && p->st[i + 1].op == ST_for &&
	    p->st[i + 1].end == p->st[i].end && p->st[i + 1].bind == BIND_serial &&
	    (p->st[i].bind == BIND_serial || p->st[i].bind == BIND_parallel);
}

static bool
merge(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct merging m = {.p = p, .x = p->tx, .ok = true};
	int64_t from, to, first, n;
	ix_id *map;

	if (!is_pair(p, i) || !has_constant_bounds(p, i, &from, &to) ||
	    !has_constant_bounds(p, i + 1, &first, &n) || first != 0)
		return false;
	m.k = tx_axis(p->tx, AXIS_OUTER, from * n, to * n - 1, IX_NONE);
	m.sub = (struct tx_subst){.n = tx_n_axes(p->tx)};
	m.sub.to = map = NEW_ARRAY(p->arena, ix_id, m.sub.n);
	for (uint32_t a = 0; a < m.sub.n; a++)
		map[a] = IX_NONE;
	map[s->axis] = ix_div(p->tx, ix_axis(p->tx, m.k), n);
	map[p->st[i + 1].axis] = ix_mod(p->tx, ix_axis(p->tx, m.k), n);
	for (st_id k = i + 2; k < s->end && m.ok; k++)
		tir_each(p, &p->st[k], look_ix, look_ex, &m);
	if (!m.ok || (s->bind == BIND_parallel && !is_free(&m, i + 2, s->end)))
		return false;
	*(bool *)self = true;
	tir_add(out,
	    (struct st){.op = ST_for,
		.name = s->name,
		.axis = m.k,
		.bind = s->bind,
		.from = ix_const(p->tx, from * n),
		.to = ix_const(p->tx, to * n)});
	for (st_id k = i + 2; k < s->end; k = p->st[k].end)
		tir_copy(out, p, k, &m.sub);
	tir_close(out);
	return true;
}

void
codegen_merge(const struct tir *p, struct tir *out)
{
	rewrite_all(out, p, merge);
}
