/* kernels/codegen/accumulate.c: an element that a loop reads and stores again and again, and nothing else in
 * the loop touches, is kept in a register:
 *
 *   store %1[i] = 0                           alloc %1'acc
 *   for k in 0..33                            store %1'acc[0] = 0
 *     store %1[i] = add(%1[i], %0[i, k])  ->  for k in 0..33
 *                                               store %1'acc[0] = add(%1'acc[0], %0[i, k])
 *                                             store %1[i] = %1'acc[0]
 *
 * The first store may stand further ahead: nothing between touches the buffer, and a number does not change.
 * A compiler does that itself only where it sees that no other pointer reaches the element. */
#include "row.h"

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

/* May the element never have been stored?  One of a block that a thread asks for before it joins anything. */
static bool
may_be_missing(const struct tir *p, st_id loop, st_id store)
{
	const enum tir_scope scope = p->buf[p->st[store].ref].scope;
	st_id path[TIR_DEPTH];

	for (uint32_t k = tir_path(p, store, path); k-- > 0 && path[k] != loop;)
		if (p->st[path[k]].op == ST_if)
			return scope == SCOPE_shared || scope == SCOPE_spread;
	return false;
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
		    !row_is_inside(p, loop, k.buf, k.at) || may_be_missing(p, loop, i))
			continue;
		*out = k;
		return true;
	}
	return false;
}

/* A number, to an element whose place is no value that is stored on the way. */
static bool
may_wait(const struct tir *p, const struct st *s)
{
	const struct ixv at = ixv_get(p->tx, s->at);
	bool fixed = ex_get(p->tx, s->value)->kind == EX_CONST;

	for (uint32_t d = 0; d < at.n; d++)
		fixed &= ix_get(p->tx, at.i[d])->bufs == 0;
	return fixed;
}

/* The loop that keeps what statement i stores, with nothing between that touches it; ST_NONE: none. */
static st_id
loop_of_start(const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	const st_id end = end_of_body(p, i);
	struct kept k;
	st_id next = s->end;

	if (s->op != ST_store)
		return ST_NONE;
	if (may_wait(p, s))
		while (next < end && !touches(p, next, p->st[next].end, s->ref, false))
			next = p->st[next].end;
	return next < end && find_kept(p, next, &k) && k.buf == s->ref && k.at == s->at ? next : ST_NONE;
}

/* Where the loop's element starts; ST_NONE: as it is in its buffer. */
static st_id
start_of(const struct tir *p, st_id loop)
{
	st_id i = p->st[loop].up == ST_NONE ? 0 : p->st[loop].up + 1;

	while (i < loop && loop_of_start(p, i) != loop)
		i = p->st[i].end;
	return i < loop ? i : ST_NONE;
}

struct keeping {
	st_id loop, start; /* start_of() it */
	struct kept k;
	buf_id reg;
	ixv_id zero;
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

	if (i == q->start)
		return true; /* the register starts with it */
	if (i != q->loop)
		return false;
	sub.bufs = buf_bit(q->k.buf);
	const enum dtype t = p->buf[q->k.buf].type;
	struct tir_buf reg = tir_buf_make(arena_printf(p->arena, "%s'r%u", p->buf[q->k.buf].name, out->n_buf),
	    t, BUF_TEMP, SCOPE_reg, 1, &one);
	ex_id first = q->start != ST_NONE ? p->st[q->start].value : ex_load(p->tx, t, q->k.buf, q->k.at);

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

/* The first loop that keeps an element. */
static bool
find_loop(const struct tir *p, struct keeping *q)
{
	for (q->loop = 0; q->loop < p->n_st; q->loop++)
		if (find_kept(p, q->loop, &q->k)) {
			q->start = start_of(p, q->loop);
			return true;
		}
	return false;
}

enum { MOST_KEPT = 256 };

void
codegen_accumulate(const struct tir *p, struct tir *out)
{
	struct keeping q;
	struct tir was = *p;

	*out = *p;
	for (int n = 0; n < MOST_KEPT && find_loop(&was, &q); n++) {
		tir_rewrite(out, &was, keep, &q);
		was = *out;
	}
}
