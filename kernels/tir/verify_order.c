/* kernels/tir/verify_order.c: what is read was stored before, and blocks are computed whole: each point of
 * what is a result, each reduction from its identity on and over all its elements. */
#include "verify_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a statement touches ------------------------------------------------------------------ */
struct touches {
	touch_fn *fn;
	void *self;
};

static void
touch_read(void *self, const struct ex *read)
{
	const struct touches *t = self;

	t->fn(t->self, &(struct touch){.buf = read->tensor, .at = read->at});
}

struct reads_of {
	const struct tir *p;
	struct touches t;
};

static void
reads_in_ex(void *self, ex_id e)
{
	struct reads_of *r = self;

	ex_reads(r->p->tx, e, touch_read, &r->t);
}

static void
reads_in_ix(void *self, ix_id i)
{
	struct reads_of *r = self;

	ix_reads(r->p->tx, i, touch_read, &r->t);
}

static void
reads_in_place(struct reads_of *r, ixv_id place)
{
	const struct ixv at = ixv_get(r->p->tx, place);

	for (uint32_t d = 0; d < at.n; d++)
		reads_in_ix(r, at.i[d]);
}

/* Reads first; a place that is written alone is none of them, but what its indices are read of. */
static void
touch_call(struct reads_of *r, const struct st *s)
{
	const ex_id *arg = r->p->arg + s->arg0;

	for (uint32_t k = 0; k < s->n_arg; k++) {
		if (tir_arg_is(s, k, "w"))
			reads_in_place(r, ex_get(r->p->tx, arg[k])->at);
		else
			reads_in_ex(r, arg[k]);
	}
	for (uint32_t k = 0; k < s->n_arg; k++)
		if (tir_arg_is(s, k, "wu")) {
			const struct ex *n = ex_get(r->p->tx, arg[k]);

			r->t.fn(r->t.self, &(struct touch){.buf = n->tensor, .at = n->at, .stores = true});
		}
}

void
tir_touches(const struct tir *p, st_id i, touch_fn *fn, void *self)
{
	const struct st *s = &p->st[i];
	struct reads_of r = {p, {fn, self}};

	if (s->op == ST_call) {
		touch_call(&r, s);
		return;
	}
	tir_each(p, s, reads_in_ix, reads_in_ex, &r);
	if (s->op == ST_store)
		fn(self, &(struct touch){.buf = s->ref, .at = s->at, .stores = true});
	if (s->op != ST_block)
		return;
	const struct tir_block *b = &p->blk[s->ref];

	for (uint32_t k = 0; k < b->n_out; k++) {
		reads_in_place(&r, b->at[k]);
		reads_in_ex(&r, b->value[k]);
	}
	for (uint32_t k = 0; k < b->n_out; k++)
		fn(self, &(struct touch){.buf = b->out[k], .at = b->at[k], .stores = true});
}

/* ---- order --------------------------------------------------------------------------------------- */
struct order {
	const struct tir *p;
	st_id st;
	uint8_t *stored; /* by a statement that stands before */
	st_id *alloc;    /* of each buffer: the alloc that is in sight; ST_NONE */
	const char *fault;
	const char *rule;
};

/* What carries may read what it has stored itself, at another place. */
static bool
stores_itself(const struct order *o, const struct touch *t)
{
	const struct st *s = &o->p->st[o->st];
	const struct tir_block *b;

	if (s->op == ST_store)
		return s->ref == t->buf && s->at != t->at;
	if (s->op != ST_block)
		return false;
	b = &o->p->blk[s->ref];
	for (uint32_t k = 0; k < b->n_out; k++)
		if (b->out[k] == t->buf && b->at[k] != t->at)
			return true;
	return false;
}

static void
touch_in_order(void *self, const struct touch *t)
{
	struct order *o = self;
	const struct tir_buf *b = &o->p->buf[t->buf];

	if (b->role == BUF_TEMP && b->scope != SCOPE_global && o->alloc[t->buf] == ST_NONE) {
		o->rule = "alloc";
		o->fault = "a buffer is used where it is not allocated";
	}
	if (t->stores)
		o->stored[t->buf] = 1;
	else if ((b->role == BUF_TEMP || b->role == BUF_RESULT) && !o->stored[t->buf] &&
	    !stores_itself(o, t)) {
		o->rule = "order";
		o->fault = "a buffer is read before anything is stored in it";
	}
}

static bool
order_body(struct order *o, st_id i, st_id end, struct err *e)
{
	for (st_id k = i; k < end; k = o->p->st[k].end) {
		const struct st *s = &o->p->st[k];

		o->st = k;
		if (s->op == ST_alloc) {
			o->alloc[s->ref] = k;
			o->stored[s->ref] = 0;
		}
		tir_touches(o->p, k, touch_in_order, o);
		if (o->fault)
			return broken(e, o->rule, o->p, k, o->fault);
		if (st_info[s->op].body && !order_body(o, k + 1, s->end, e))
			return false;
	}
	for (st_id k = i; k < end; k = o->p->st[k].end)
		if (o->p->st[k].op == ST_alloc)
			o->alloc[o->p->st[k].ref] = ST_NONE;
	return true;
}

static bool
verify_uses(const struct tir *p, struct err *e)
{
	struct order o = {.p = p};
	bool ok;

	o.stored = heap_alloc(p->n_buf + 1);
	o.alloc = heap_alloc((p->n_buf + 1) * sizeof(*o.alloc));
	memset(o.alloc, 0xff, p->n_buf * sizeof(*o.alloc));
	ok = order_body(&o, 0, p->n_st, e);
	free(o.stored);
	free(o.alloc);
	return ok;
}

/* ---- coverage --------------------------------------------------------------------------------------
 * By counting visits, in order; programs of more are left to the interpreter. */
enum { COUNT_VISITS = 1 << 17 };
struct counts {
	uint32_t n_point, n_red; /* of one block: points of the result, elements of a reduction */
	uint32_t *seen;          /* of a point: elements since its identity */
	uint64_t *sum;           /* of their numbers: twice the same does not make up for one left out */
};
struct count {
	const struct tir *p;
	struct counts *blk;
	int64_t *axis, *iter;
	uint64_t visits;
	bool too_many;
	const char *fault;
};

static int64_t
no_value(void *self, ex_id e)
{
	struct count *c = self;

	(void)e;
	c->too_many = true; /* places that hang on values are not counted */
	return 0;
}

static void
visit(struct count *c, const struct st *s)
{
	const struct tir_block *b = &c->p->blk[s->ref];
	struct counts *n = &c->blk[s->ref];
	struct ixv at = ixv_get(c->p->tx, s->at);
	uint64_t point = 0, red = 0;

	for (uint32_t k = 0; k < s->n_guard; k++) {
		const struct tir_guard *g = &c->p->guard[s->guard0 + k];
		int64_t v = ix_eval(c->p->tx, g->i, c->axis, no_value, c);

		if (v < g->lo || v >= g->hi)
			return;
	}
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &c->p->iter[b->iter0 + k];
		uint64_t extent = (uint64_t)tx_axis_get(c->p->tx, it->id)->hi + 1;
		uint64_t v = (uint64_t)ix_eval(c->p->tx, at.i[k], c->axis, no_value, c);

		if (it->kind == ITER_REDUCE)
			red = red * extent + v;
		else
			point = point * extent + v;
	}
	if (point >= n->n_point || red >= n->n_red)
		return; /* refused by another rule */
	if (red == 0)
		n->seen[point] = 0, n->sum[point] = 0;
	else if (n->seen[point] == 0)
		c->fault = "a reduction goes on before its first element";
	n->seen[point]++;
	n->sum[point] += red;
	c->visits++;
}

static void
count_range(struct count *c, st_id i, st_id end)
{
	for (st_id k = i; k < end && !c->too_many && !c->fault; k = c->p->st[k].end) {
		const struct st *s = &c->p->st[k];

		c->too_many |= c->visits > COUNT_VISITS;
		if (s->op == ST_block)
			visit(c, s);
		if (s->op == ST_if) {
			const struct tir_guard *g = &c->p->guard[s->guard0];
			bool holds = true;

			for (uint32_t q = 0; q < s->n_guard; q++) {
				int64_t v = ix_eval(c->p->tx, g[q].i, c->axis, no_value, c);

				holds &= v >= g[q].lo && v < g[q].hi;
			}
			if (holds)
				count_range(c, k + 1, s->end);
		}
		if (s->op != ST_for)
			continue;
		int64_t to = ix_eval(c->p->tx, s->to, c->axis, no_value, c);

		for (int64_t v = ix_eval(c->p->tx, s->from, c->axis, no_value, c); v < to; v++) {
			c->axis[s->axis] = v;
			c->visits++; /* empty bodies count as well */
			count_range(c, k + 1, s->end);
			if (c->too_many || c->fault)
				break;
		}
	}
}

/* Is every point of a result there, and every reduction that was begun complete? */
static bool
is_whole(const struct count *c, blk_id b)
{
	const struct counts *n = &c->blk[b];
	bool is_result = false;
	uint64_t sum = (uint64_t)n->n_red * (n->n_red - 1) / 2;

	for (uint32_t k = 0; k < c->p->blk[b].n_out; k++)
		is_result |= c->p->buf[c->p->blk[b].out[k]].role == BUF_RESULT;
	for (uint32_t i = 0; i < n->n_point; i++)
		if ((is_result || n->seen[i]) && (n->seen[i] != n->n_red || n->sum[i] != sum))
			return false;
	return true;
}

static bool
has_instance(const struct tir *p, blk_id b)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == b)
			return true;
	return false;
}

/* Room for the counts; false: too many. */
static bool
count_begin(struct count *c, struct arena *a)
{
	uint64_t total = 0;

	c->blk = NEW_ARRAY(a, struct counts, c->p->n_blk);
	c->axis = NEW_ARRAY(a, int64_t, tx_n_axes(c->p->tx));
	for (blk_id b = 0; b < c->p->n_blk; b++) {
		uint64_t point = 1, red = 1;

		for (uint32_t k = 0; k < c->p->blk[b].n_iter; k++) {
			const struct tir_iter *it = &c->p->iter[c->p->blk[b].iter0 + k];
			uint64_t *n = it->kind == ITER_REDUCE ? &red : &point;

			*n *= (uint64_t)tx_axis_get(c->p->tx, it->id)->hi + 1;
			if (*n > COUNT_VISITS)
				return false;
		}
		total += point * red;
		if (total > COUNT_VISITS)
			return false;
		c->blk[b] = (struct counts){.n_point = (uint32_t)point, .n_red = (uint32_t)red};
		c->blk[b].seen = NEW_ARRAY(a, uint32_t, point);
		c->blk[b].sum = NEW_ARRAY(a, uint64_t, point);
	}
	return true;
}

bool
verify_order(const struct tir *p, struct err *e)
{
	struct arena a = {0};
	struct count c = {.p = p};
	bool ok = true;

	if (!verify_uses(p, e))
		return false;
	if (p->level == TIR_NEST && count_begin(&c, &a)) {
		count_range(&c, 0, p->n_st);
		if (c.fault)
			ok = err_set(e, ERR_FAILED, "cover: %s", c.fault);
		for (blk_id b = 0; b < p->n_blk && ok && !c.too_many; b++)
			if (has_instance(p, b) && !is_whole(&c, b))
				ok = err_set(e, ERR_FAILED,
				    "cover: block %s: points of it are left out, or made in part",
				    p->blk[b].name);
	}
	arena_fini(&a);
	return ok;
}
