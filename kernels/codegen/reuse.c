/* kernels/codegen/reuse.c: a row that goes from registers into a buffer of the same body, only to be read
 * from there, is read from the registers:
 *
 *   for c in 0..16                             for c in 0..16
 *     store %4[c] = %4'r[c]                      store %9[c] = relu(%4'r[c])
 *   for c in 0..16                     ->
 *     store %9[c] = relu(%4[c])
 *
 * So what is done to a product's tile is done while it is in registers. */
#include "row.h"

enum { MOST_ROWS = 128 };

struct reuse {
	const struct tir *p;
	struct moved {
		struct row r;
		buf_id reg;
		st_id at; /* the loop that stores the row */
	} row[MOST_ROWS];
	uint32_t n;
	st_id end; /* of the body that they stand in */
	bool changed;
};

/* A loop over all of an array of registers that stores its elements, as they lie, into a buffer. */
static bool
is_move(const struct tir *p, st_id i, struct row *r, buf_id *reg)
{
	const struct st *s = &p->st[i];
	const struct ex *v;
	int64_t from, to;
	axis_id a;

	if (s->op != ST_for || s->end != i + 2 || p->st[i + 1].op != ST_store ||
	    p->buf[p->st[i + 1].ref].scope == SCOPE_reg || p->buf[p->st[i + 1].ref].role != BUF_TEMP ||
	    !ix_is_const(p->tx, s->from, &from) || from != 0 || !ix_is_const(p->tx, s->to, &to))
		return false;
	v = ex_get(p->tx, p->st[i + 1].value);
	if (v->kind != EX_READ || p->buf[v->tensor].scope != SCOPE_reg || p->buf[v->tensor].dim[0] != to ||
	    !ix_is_axis(p->tx, ixv_get(p->tx, v->at).i[0], &a) || a != s->axis)
		return false;
	*r = (struct row){.buf = p->st[i + 1].ref, .at = p->st[i + 1].at, .lane = s->axis, .count = to};
	*reg = v->tensor;
	return row_find_dim(p, r);
}

/* The body that statement i stands in. */
static void
find_body(const struct tir *p, st_id i, st_id *first, st_id *end)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, i, path);

	*first = n ? path[n - 1] + 1 : 0;
	*end = n ? p->st[path[n - 1]].end : p->n_st;
}

/* In the body, is the buffer allocated, and behind the move nothing of the row but read, and the array as it
 * is?  Before it nothing of the row matters: the buffer is new in each turn. */
static bool
may_stay(const struct tir *p, const struct moved *q, st_id first, st_id end)
{
	struct accesses l = {.n = 0};
	bool is_new = false;

	for (st_id i = first; i < end; i = p->st[i].end)
		is_new |= p->st[i].op == ST_alloc && p->st[i].ref == q->r.buf;
	for (st_id s = q->at + 2; is_new && s < end; s = p->st[s].end)
		for (st_id i = s; i < p->st[s].end; i++) {
			if (p->st[i].op == ST_alloc && (p->st[i].ref == q->r.buf || p->st[i].ref == q->reg))
				return false;
			if (!may_touch(p, i, q->r.buf) && !may_touch(p, i, q->reg))
				continue;
			list_accesses(p, i, &l);
			for (uint32_t k = 0; k < l.n; k++) {
				if (l.at[k].buf == q->reg && l.at[k].stores)
					return false;
				if (!row_leaves(p, &q->r, &l.at[k]) &&
				    (l.at[k].stores || l.at[k].goes_on ||
					!row_has(p, &q->r, s, i, l.at[k].place)))
					return false;
			}
		}
	return is_new;
}

static ex_id
read_array(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct reuse *q = self;

	for (uint32_t k = 0; k < q->n; k++)
		if (read->tensor == q->row[k].r.buf && !row_is_apart(q->p, &q->row[k].r, at))
			return ex_load(x, read->type, q->row[k].reg, row_lane(q->p, &q->row[k].r, at));
	return ex_load(x, read->type, read->tensor, at);
}

/* Behind a row's move its body is over the array; moves of other rows there are gone, too. */
static bool
reuse(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct reuse *q = self;
	struct tx_subst sub = {.load = read_array, .self = q};
	struct moved m = {.at = i};
	st_id first;

	if (i >= q->end)
		q->n = 0;
	if (q->n < MOST_ROWS && is_move(p, i, &m.r, &m.reg)) {
		find_body(p, i, &first, &q->end);
		if (may_stay(p, &m, first, q->end)) {
			q->row[q->n++] = m;
			return q->changed = true;
		}
	}
	for (uint32_t k = 0; k < q->n; k++)
		sub.bufs |= buf_bit(q->row[k].r.buf);
	if (q->n)
		tir_copy(out, p, i, &sub);
	return q->n > 0;
}

/* A turn clears the outermost bodies that have moves; bodies in them, and rows that are moved on, are the
 * next turn's. */
void
codegen_reuse(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	struct reuse *q = NEW(p->arena, struct reuse);

	q->p = &was;
	q->changed = true;
	for (int n = 0; n < TIR_DEPTH && q->changed; n++) {
		q->changed = false;
		q->n = q->end = 0;
		tir_rewrite(out, &was, reuse, q);
		was = *out;
	}
}
