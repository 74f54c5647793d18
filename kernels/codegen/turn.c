/* kernels/codegen/turn.c: two loops that store along one axis what they read along the other are calls that
 * turn eight rows in registers:
 *
 *   for i in 0..16                                     for i in 0..2
 *     for j in 0..16                             ->      for j in 0..2
 *       store %1[16*j + i] = %0[169*i + j]                 call turn(%0[1352*i + 8*j], 169, %1[128*j + 8*i],
 * 16)
 *
 * A compiler makes gathers of them, or single elements.  The indices alone say it: rows of 4-byte elements
 * that only move. */
#include "codegen_int.h"

enum { EDGE = 8 };

struct turning {
	st_id i, j; /* the loop along what is stored, the loop along what is read; one stands in the other */
	struct ex read;
	int64_t from_stride, to_stride;
};

static bool
has_whole_edges(const struct tir *p, st_id i)
{
	int64_t from, to;

	return p->st[i].op == ST_for && p->st[i].bind == BIND_serial &&
	    ix_is_const(p->tx, p->st[i].from, &from) && ix_is_const(p->tx, p->st[i].to, &to) &&
	    (to - from) % EDGE == 0;
}

/* Does the read run along loop j and the store along loop i? */
static bool
runs_across(const struct tir *p, struct turning *t, ix_id read, ix_id store)
{
	const axis_id i = p->st[t->i].axis, j = p->st[t->j].axis;
	int64_t along_read, along_store;

	return ix_coef(p->tx, read, i, &t->from_stride) && ix_coef(p->tx, read, j, &along_read) &&
	    ix_coef(p->tx, store, i, &along_store) && ix_coef(p->tx, store, j, &t->to_stride) &&
	    along_read == 1 && along_store == 1 && t->from_stride >= EDGE && t->to_stride >= EDGE;
}

static bool
is_turn(const struct tir *p, st_id at, struct turning *t)
{
	const struct st *s = &p->st[at + 2];

	if (at + 2 >= p->n_st || p->st[at].end != at + 3 || !has_whole_edges(p, at) ||
	    !has_whole_edges(p, at + 1) || s->op != ST_store || p->buf[s->ref].scope == SCOPE_reg)
		return false;
	t->read = *ex_get(p->tx, s->value);
	if (t->read.kind != EX_READ || t->read.tensor == s->ref || dtype_size(t->read.type) != 4 ||
	    p->buf[t->read.tensor].scope == SCOPE_reg)
		return false;
	const ix_id read = ixv_get(p->tx, t->read.at).i[0], store = ixv_get(p->tx, s->at).i[0];

	for (uint32_t swap = 0; swap < 2; swap++) {
		t->i = at + swap;
		t->j = at + 1 - swap;
		if (runs_across(p, t, read, store))
			return true;
	}
	return false;
}

/* A loop over blocks; the axis becomes the first of each. */
static bool
add_blocks(struct copying *y, st_id loop)
{
	struct tx *x = y->p->tx;
	const struct st *s = &y->p->st[loop];
	int64_t from = 0, to = 0;

	if (!ix_is_const(x, s->from, &from) || !ix_is_const(x, s->to, &to))
		bug("a turned loop has no constant bounds");
	y->to[s->axis] = ix_const(x, from);
	if (to - from == EDGE)
		return false;
	ix_id b = ix_axis(
	    x, tir_for(y->out, s->name, ix_const(x, 0), ix_const(x, (to - from) / EDGE), BIND_serial));

	y->to[s->axis] = ix_addc(x, ix_mulc(x, b, EDGE), from);
	return true;
}

static bool
turn(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct turning t;
	struct copying y;
	uint32_t n_open = 0;

	(void)self;
	if (!is_turn(p, i, &t))
		return false;
	const struct st *s = &p->st[i + 2];

	copying_begin(&y, out, p, i);
	n_open += add_blocks(&y, i);
	n_open += add_blocks(&y, i + 1);
	struct tx_subst sub = {.to = y.to, .n = y.n_to};
	const ex_id arg[] = {ex_subst(p->tx, &sub, s->value), ex_whole(p->tx, DT_i64, t.from_stride),
	    ex_load(p->tx, t.read.type, s->ref, ixv_subst(p->tx, &sub, s->at)),
	    ex_whole(p->tx, DT_i64, t.to_stride)};

	tir_call(out, INTRIN_turn, COUNT_OF(arg), arg);
	while (n_open-- > 0)
		tir_close(out);
	copying_end(&y);
	return true;
}

void
codegen_turn(const struct tir *p, struct tir *out)
{
	tir_rewrite(out, p, turn, NULL);
}
