/* kernels/codegen/accumulate.c: an element that a loop reads and stores again and again, and nothing else in
 * the loop touches, is kept in a register:
 *
 *   store %1[i] = 0                           alloc %1'acc
 *   for k in 0..33                            store %1'acc[0] = 0
 *     store %1[i] = add(%1[i], %0[i, k])  ->  for k in 0..33
 *                                               store %1'acc[0] = add(%1'acc[0], %0[i, k])
 *                                             store %1[i] = %1'acc[0]
 *
 * A compiler does that itself only where it sees that no other pointer reaches the element. */
#include "codegen_int.h"

struct kept {
	buf_id buf;
	ixv_id at;
};
struct reads {
	struct kept k;
	uint32_t same, other;
};

static void
note_read(void *self, const struct ex *read)
{
	struct reads *r = self;

	r->same += read->tensor == r->k.buf && read->at == r->k.at;
	r->other += read->tensor == r->k.buf && read->at != r->k.at;
}

struct looking {
	const struct tir *p;
	struct reads *r;
};

static void
look_ex(void *self, ex_id e)
{
	struct looking *l = self;

	if (ex_get(l->p->tx, e)->bufs & buf_bit(l->r->k.buf))
		ex_reads(l->p->tx, e, note_read, l->r);
}

static void
look_ix(void *self, ix_id i)
{
	struct looking *l = self;

	if (ix_get(l->p->tx, i)->bufs & buf_bit(l->r->k.buf))
		ix_reads(l->p->tx, i, note_read, l->r);
}

/* Is the element the only one of its buffer that the loop touches, the same in all iterations, and read? */
static bool
is_alone(const struct tir *p, st_id loop, struct kept k)
{
	struct reads r = {.k = k};
	struct looking l = {p, &r};
	uint32_t stores = 0;

	for (st_id i = loop; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];

		if (s->op == ST_for && ixv_has(p->tx, k.at, s->axis))
			return false;
		if (s->op == ST_call)
			return false;
		if ((s->op == ST_store || s->op == ST_alloc) && s->ref == k.buf)
			stores++;
		tir_each(p, s, look_ix, look_ex, &l);
	}
	return stores == 1 && r.same > 0 && r.other == 0;
}

/* Is the element there whether or not the loop's guards hold?  It is read before the loop and stored behind.
 */
static bool
is_inside(const struct tir *p, st_id loop, struct kept k)
{
	struct ixv at = ixv_get(p->tx, k.at);

	for (uint32_t d = 0; d < at.n; d++)
		if (!tir_prove(p, loop, at.i[d], 0, p->buf[k.buf].dim[d]))
			return false;
	return true;
}

static bool
find_kept(const struct tir *p, st_id loop, struct kept *out)
{
	if (p->st[loop].op != ST_for || is_range(p, loop))
		return false;
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];
		struct kept k = {s->ref, s->at};

		if (s->op != ST_store || p->buf[s->ref].scope == SCOPE_reg || !is_alone(p, loop, k) ||
		    !is_inside(p, loop, k))
			continue;
		*out = k;
		return true;
	}
	return false;
}

/* Does statement i store what the next one, a loop, then keeps? */
static bool
is_start(const struct tir *p, st_id i)
{
	struct kept k;

	return p->st[i].op == ST_store && i + 1 < p->n_st && same_body(p, i, i + 1) &&
	    find_kept(p, i + 1, &k) && k.buf == p->st[i].ref && k.at == p->st[i].at;
}

struct keeping {
	struct kept k;
	buf_id reg;
	ixv_id zero;
	bool changed;
};

static ex_id
load_kept(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct keeping *q = self;

	if (read->tensor == q->k.buf && at == q->k.at)
		return ex_load(x, read->type, q->reg, q->zero);
	return ex_load(x, read->type, read->tensor, at);
}

static bool
keep(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct keeping *q = self;
	struct tx_subst sub = {.load = load_kept, .self = q};
	const int64_t one = 1;
	const ix_id zero = ix_const(p->tx, 0);

	if (q->changed)
		return false;
	if (is_start(p, i))
		return true; /* the register starts with it */
	if (!find_kept(p, i, &q->k))
		return false;
	sub.bufs = buf_bit(q->k.buf);
	const enum dtype t = p->buf[q->k.buf].type;
	struct tir_buf reg = tir_buf_make(arena_printf(p->arena, "%s'r%u", p->buf[q->k.buf].name, out->n_buf),
	    t, BUF_TEMP, SCOPE_reg, 1, &one);
	ex_id first = i > 0 && is_start(p, i - 1) ? p->st[i - 1].value : ex_load(p->tx, t, q->k.buf, q->k.at);

	q->changed = true;
	q->zero = ixv_make(p->tx, 1, &zero);
	q->reg = tir_add_buf(out, &reg);
	tir_add(out, (struct st){.op = ST_alloc, .ref = q->reg});
	tir_add(out, (struct st){.op = ST_store, .ref = q->reg, .at = q->zero, .value = first});
	const st_id from = out->n_st;

	tir_copy(out, p, i, &sub);
	for (st_id k = from; k < out->n_st; k++)
		if (out->st[k].op == ST_store && out->st[k].ref == q->k.buf) {
			out->st[k].ref = q->reg;
			out->st[k].at = q->zero;
		}
	tir_add(out,
	    (struct st){
		.op = ST_store, .ref = q->k.buf, .at = q->k.at, .value = ex_load(p->tx, t, q->reg, q->zero)});
	return true;
}

enum { MOST_KEPT = 256 };

void
codegen_accumulate(const struct tir *p, struct tir *out)
{
	struct keeping q = {.changed = true};
	struct tir was = *p;

	for (int n = 0; n < MOST_KEPT && q.changed; n++) {
		q.changed = false;
		tir_rewrite(out, &was, keep, &q);
		was = *out;
	}
}
