/* kernels/codegen/hold.c: a row that several loops of one body multiply by an element each is loaded once,
 * and the compiler is told to know nothing of it:
 *
 *                                                    for i in 0..32
 *                                                      store %9[i] = %0[k + i]
 *                                                    call hold(%9[0], 32)
 *   for i in 0..32                                   for i in 0..32
 *     store %5[i] = add(%5[i], mul(%0[k + i], ..))     store %5[i] = add(%5[i], mul(%9[i], ..))
 *   for i in 0..32                             ->    for i in 0..32
 *     store %6[i] = add(%6[i], mul(%0[k + i], ..))     store %6[i] = add(%6[i], mul(%9[i], ..))
 *
 * gcc 12 knows else that it can be loaded again, and each multiply-add of a few columns has it from memory:
 * of 512 bits, where it lies over the end of a line as often as not, twice the time (a window of 9 x 9, three
 * columns). */
#include "codegen_int.h"

#include <string.h>

enum { LEAST_HELD = 8, MOST_HELD = 64, MOST_ROWS = 8, MOST_SHARING = 4 };

struct hold {
	const struct tir *p;
	struct held {
		buf_id from, reg;
		ixv_id at;        /* over `axis` */
		uint32_t n_loops; /* that read it; 0: it is loaded */
	} row[MOST_ROWS];
	uint32_t n;
	axis_id axis; /* of the first loop of the run */
	int64_t count;
	st_id end; /* of the run */
};

/* Is it a loop over a row of f32 that joins products to registers?  Elements in it: */
static int64_t
row_of_products(const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i], *store = s + 1;
	const struct ex *v, *mul;
	int64_t from, to;

	if (s->op != ST_for || s->end != i + 2 || is_range(p, i) || store->op != ST_store ||
	    p->buf[store->ref].scope != SCOPE_reg || !ix_is_const(p->tx, s->from, &from) || from != 0 ||
	    !ix_is_const(p->tx, s->to, &to) || to < LEAST_HELD || to > MOST_HELD)
		return 0;
	v = ex_get(p->tx, store->value);
	if (v->kind != EX_MAP || v->prim != PRIM_add || v->type != DT_f32)
		return 0;
	mul = ex_get(p->tx, v->arg[1]);
	return mul->kind == EX_MAP && mul->prim == PRIM_mul ? to : 0;
}

/* The place with another loop's axis in place of one's own. */
static ixv_id
by_axis(const struct tir *p, axis_id own, axis_id other, ixv_id at)
{
	const ix_id to = ix_axis(p->tx, other);
	const struct tx_subst sub = {.to = &to, .first = own, .n = 1};

	return ixv_subst(p->tx, &sub, at);
}

static struct held *
find_held(struct hold *h, buf_id from, ixv_id at)
{
	for (uint32_t k = 0; k < h->n; k++)
		if (h->row[k].from == from && h->row[k].at == at)
			return &h->row[k];
	return NULL;
}

/* A factor that goes along memory with the loop is one more reader of its row. */
static void
note_factor(struct hold *h, axis_id own, ex_id factor)
{
	const struct ex *r = ex_get(h->p->tx, factor);
	struct held *of;
	int64_t coef;
	ixv_id at;

	if (r->kind != EX_READ || r->type != DT_f32 || h->p->buf[r->tensor].type != DT_f32 ||
	    h->p->buf[r->tensor].scope == SCOPE_reg || ixv_get(h->p->tx, r->at).n != 1 ||
	    !ix_coef(h->p->tx, ixv_get(h->p->tx, r->at).i[0], own, &coef) || coef != 1)
		return;
	at = by_axis(h->p, own, h->axis, r->at);
	of = find_held(h, r->tensor, at);
	if (of)
		of->n_loops++;
	else if (h->n < MOST_ROWS)
		h->row[h->n++] = (struct held){.from = r->tensor, .at = at, .n_loops = 1};
}

/* Rows that a few loops, one behind the other, have in common. */
static void
find_run(struct hold *h, st_id i)
{
	const struct tir *p = h->p;
	uint32_t n = 0;

	h->n = 0;
	h->axis = p->st[i].axis;
	h->count = row_of_products(p, i);
	for (h->end = i;
	     h->end < p->n_st && same_body(p, i, h->end) && row_of_products(p, h->end) == h->count;
	     h->end += 2) {
		const struct ex sum = *ex_get(p->tx, p->st[h->end + 1].value);
		const struct ex mul = *ex_get(p->tx, sum.arg[1]);

		note_factor(h, p->st[h->end].axis, mul.arg[0]);
		note_factor(h, p->st[h->end].axis, mul.arg[1]);
	}
	for (uint32_t k = 0; k < h->n; k++)
		if (h->row[k].n_loops > 1 && h->row[k].n_loops <= MOST_SHARING)
			h->row[n++] = h->row[k];
	h->n = n;
}

static void
load_row(const struct hold *h, struct tir *out, struct held *r)
{
	struct tx *x = out->tx;
	const char *name = arena_printf(out->arena, "%s'h%u", h->p->buf[r->from].name, out->n_buf);
	const struct tir_buf reg = tir_buf_make(name, DT_f32, BUF_TEMP, SCOPE_reg, 1, &h->count);
	const ix_id zero = ix_const(x, 0);
	ix_id i;
	axis_id a;

	r->reg = tir_add_buf(out, &reg);
	tir_add(out, (struct st){.op = ST_alloc, .ref = r->reg});
	a = tir_for(out, name, zero, ix_const(x, h->count), BIND_vector);
	i = ix_axis(x, a);
	tir_add(out,
	    (struct st){.op = ST_store,
		.ref = r->reg,
		.at = ixv_make(x, 1, &i),
		.value = ex_load(x, DT_f32, r->from, by_axis(h->p, h->axis, a, r->at))});
	tir_close(out);
	const ex_id arg[] = {
	    ex_load(x, DT_f32, r->reg, ixv_make(x, 1, &zero)), ex_whole(x, DT_i64, h->count)};

	tir_call(out, INTRIN_hold, COUNT_OF(arg), arg);
}

/* Where the first loop reads them: of several rows one after the other is in registers. */
static void
load_rows(struct hold *h, struct tir *out, st_id i)
{
	const struct tir *p = h->p;
	const struct ex sum = *ex_get(p->tx, p->st[i + 1].value), mul = *ex_get(p->tx, sum.arg[1]);

	for (uint32_t k = 0; k < mul.n_arg; k++) {
		const struct ex f = *ex_get(p->tx, mul.arg[k]);
		struct held *r = f.kind == EX_READ
		    ? find_held(h, f.tensor, by_axis(p, p->st[i].axis, h->axis, f.at))
		    : NULL;

		if (r && r->n_loops) {
			load_row(h, out, r);
			r->n_loops = 0;
		}
	}
}

struct reading {
	struct hold *h;
	axis_id own;
};

static ex_id
read_held(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct reading *d = self;
	const struct held *r = find_held(d->h, read->tensor, by_axis(d->h->p, d->own, d->h->axis, at));
	const ix_id i = ix_axis(x, d->own);

	return r ? ex_load(x, DT_f32, r->reg, ixv_make(x, 1, &i)) : ex_load(x, read->type, read->tensor, at);
}

static bool
hold(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct hold *h = self;
	struct reading d = {h, p->st[i].axis};
	const struct tx_subst sub = {.load = read_held, .self = &d};

	if (i >= h->end) {
		h->n = 0;
		if (row_of_products(p, i))
			find_run(h, i);
	}
	if (h->n == 0)
		return false;
	load_rows(h, out, i);
	tir_copy(out, p, i, &sub);
	return true;
}

void
codegen_hold(const struct tir *p, struct tir *out)
{
	struct hold h = {.p = p};

	tir_rewrite(out, p, hold, &h);
}
