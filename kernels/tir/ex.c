/* kernels/tir/ex.c: scalar expressions over reads, hash-consed, and replacement in them. */
#include "tx_int.h"

#include <string.h>

struct tx *
tx_make(struct arena *a)
{
	struct tx *x = NEW(a, struct tx);

	x->arena = a;
	return x;
}

void
tx_set_strict(struct tx *x, bool strict)
{
	x->strict = strict;
}

bool
tx_is_strict(const struct tx *x)
{
	return x->strict;
}

struct arena *
tx_arena(const struct tx *x)
{
	return x->arena;
}

axis_id
tx_axis_like(struct tx *x, const struct axis *a)
{
	GROW(x->arena, x->axis, x->n_axis, x->cap_axis);
	x->axis[x->n_axis] = *a;
	return x->n_axis++;
}

axis_id
tx_axis(struct tx *x, enum axis_role role, int64_t lo, int64_t hi, ix_id limit)
{
	struct axis a = {.role = role, .lo = lo, .hi = hi, .from = IX_NONE, .limit = limit};

	a.is_exact = limit == IX_NONE;
	return tx_axis_like(x, &a);
}

const struct axis *
tx_axis_get(const struct tx *x, axis_id a)
{
	if (a >= x->n_axis)
		bug("axis %u of %u", a, x->n_axis);
	return &x->axis[a];
}

uint32_t
tx_n_axes(const struct tx *x)
{
	return x->n_axis;
}

const struct ex *
ex_get(const struct tx *x, ex_id e)
{
	if (e >= x->n_ex)
		bug("expression %u of %u", e, x->n_ex);
	return &x->ex[e];
}

/* Reals by their bits: NaN equals itself, -0 is not 0. */
static uint64_t
real_bits(double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

static uint64_t
ex_hash(const struct ex *n)
{
	uint64_t h = mix64((uint64_t)n->kind << 32 ^ (uint64_t)n->type << 24 ^ (uint64_t)n->prim);

	h = mix64(h ^ ((uint64_t)n->tensor << 32 | n->ix));
	h = mix64(h ^ n->at);
	h = mix64(h ^ (uint64_t)n->lo * 3 ^ (uint64_t)n->hi);
	for (uint32_t i = 0; i < n->n_arg; i++)
		h = mix64(h ^ n->arg[i]);
	return mix64(h ^ real_bits(n->real) ^ (uint64_t)n->whole);
}

static bool
ex_same(const struct ex *p, const struct ex *q)
{
	if (p->kind != q->kind || p->type != q->type || p->prim != q->prim || p->tensor != q->tensor ||
	    p->at != q->at || p->ix != q->ix || p->lo != q->lo || p->hi != q->hi || p->n_arg != q->n_arg ||
	    p->whole != q->whole || real_bits(p->real) != real_bits(q->real))
		return false;
	return memcmp(p->arg, q->arg, p->n_arg * sizeof(p->arg[0])) == 0;
}

/* What is under its indices, and what it reads itself. */
static void
note_indices(const struct tx *x, struct ex *n)
{
	n->bufs = n->kind == EX_READ ? buf_bit(n->tensor) : 0;
	n->axes = 0;
	if (n->kind == EX_READ) {
		struct ixv v = ixv_get(x, n->at);

		for (uint32_t k = 0; k < v.n; k++) {
			n->axes |= x->ix[v.i[k]].axes;
			n->bufs |= x->ix[v.i[k]].bufs;
		}
	} else if (has_ix(n)) {
		n->axes = x->ix[n->ix].axes;
		n->bufs = x->ix[n->ix].bufs;
	}
}

/* A node that reads nothing has no place: `at` is set by ex_load alone. */
static ex_id
intern(struct tx *x, struct ex n)
{
	struct tx_table *t = &x->ex_met;
	uint32_t hash, k;

	if (n.kind != EX_READ)
		n.at = IXV_NONE;
	hash = (uint32_t)ex_hash(&n);
	tx_table_room(x->arena, t, x->n_ex);
	for (k = hash & (t->n - 1); t->slot[k].id; k = (k + 1) & (t->n - 1))
		if (t->slot[k].hash == hash && ex_same(&x->ex[t->slot[k].id - 1], &n))
			return t->slot[k].id - 1;
	n.size = 1;
	note_indices(x, &n);
	for (uint32_t i = 0; i < n.n_arg; i++) {
		const struct ex *a = ex_get(x, n.arg[i]);

		n.axes |= a->axes;
		n.bufs |= a->bufs;
		n.flops += a->flops;
		n.size = n.size > 1000000 ? n.size : n.size + a->size;
	}
	GROW(x->arena, x->ex, x->n_ex, x->cap_ex);
	x->ex[x->n_ex] = n;
	t->slot[k] = (struct tx_slot){.id = ++x->n_ex, .hash = hash};
	return x->n_ex - 1;
}

ex_id
ex_real(struct tx *x, enum dtype t, double v)
{
	if (!dtype_is_float(t))
		return ex_whole(x, t, real_to_int(t, v));
	if (t == DT_f32)
		v = (double)(float)v;
	return intern(x, (struct ex){.kind = EX_CONST, .type = t, .real = v});
}

ex_id
ex_whole(struct tx *x, enum dtype t, int64_t v)
{
	if (dtype_is_float(t))
		return ex_real(x, t, (double)v);
	return intern(x, (struct ex){.kind = EX_CONST, .type = t, .whole = v});
}

ex_id
ex_load(struct tx *x, enum dtype t, uint32_t buf, ixv_id at)
{
	struct ixv v = ixv_get(x, at);

	return intern(x,
	    (struct ex){
		.kind = EX_READ, .type = t, .tensor = buf, .at = at, .ix = v.n == 1 ? v.i[0] : IX_NONE});
}

ex_id
ex_read(struct tx *x, enum dtype t, uint32_t tensor, ix_id at)
{
	return ex_load(x, t, tensor, ixv_make(x, 1, &at));
}

ex_id
ex_var(struct tx *x, enum dtype t, uint32_t number)
{
	return intern(x, (struct ex){.kind = EX_VAR, .type = t, .tensor = number});
}

ex_id
ex_scratch(struct tx *x, enum dtype t, uint32_t number, ix_id at)
{
	return intern(x, (struct ex){.kind = EX_SCRATCH, .type = t, .tensor = number, .ix = at});
}

/* The operand that alone decides: what a border adds to a sum or a maximum changes nothing. */
static ex_id
neutral(const struct tx *x, enum prim p, const ex_id *arg)
{
	for (uint32_t k = 0; k < 2; k++) {
		const struct ex *c = ex_get(x, arg[k]);

		if (c->kind != EX_CONST || !dtype_is_float(c->type))
			continue;
		if (p == PRIM_max && c->real == -__builtin_inf())
			return arg[1 - k];
		if (p == PRIM_min && c->real == __builtin_inf())
			return arg[1 - k];
		if (p == PRIM_add && c->real == 0 && !x->strict)
			return arg[1 - k];
	}
	return EX_NONE;
}

ex_id
ex_map(struct tx *x, enum prim p, enum dtype t, uint32_t n, const ex_id *arg)
{
	struct ex e = {.kind = EX_MAP, .type = t, .prim = p, .n_arg = n, .flops = (float)prim_info[p].flops};

	if (n > COUNT_OF(e.arg))
		bug("a map of %u operands", n);
	memcpy(e.arg, arg, n * sizeof(*arg));
	if (p == PRIM_cast && ex_get(x, arg[0])->type == t)
		return arg[0];
	if ((p == PRIM_max || p == PRIM_min || p == PRIM_add) && neutral(x, p, arg) != EX_NONE)
		return neutral(x, p, arg);
	return intern(x, e);
}

ex_id
ex_guard(struct tx *x, ix_id i, int64_t lo, int64_t hi, ex_id yes, ex_id no)
{
	struct ix n = *ix_get(x, i);

	if (lo >= hi)
		return no;
	if (yes == no || (n.lo >= lo && n.hi < hi))
		return yes;
	if (n.hi < lo || n.lo >= hi)
		return no;
	const struct ex *y = ex_get(x, yes);

	if (y->kind == EX_GUARD && y->ix == i && y->lo == lo && y->hi == hi)
		yes = y->arg[0];
	struct ex e = {.kind = EX_GUARD,
	    .type = ex_get(x, yes)->type,
	    .ix = i,
	    .lo = lo,
	    .hi = hi,
	    .n_arg = 2,
	    .arg = {yes, no},
	    .flops = 1};

	return intern(x, e);
}

ex_id
ex_index(struct tx *x, ix_id i)
{
	int64_t v;

	if (ix_is_const(x, i, &v))
		return ex_whole(x, DT_i64, v);
	return intern(x, (struct ex){.kind = EX_INDEX, .type = DT_i64, .ix = i});
}

/* ---- replacement ------------------------------------------------------------------------- */
struct replace {
	struct tx *x;
	const struct tx_subst *s;
	struct met ex, ix;   /* what stands for it, and one more */
	uint32_t n_ex, n_ix; /* of the pool when it began */
	uint64_t axes, bufs; /* what has none of these stays */
};

static ex_id replace_ex(struct replace *r, ex_id e);
static ix_id replace_ix(struct replace *r, ix_id i);

static ixv_id
replace_ixv(struct replace *r, ixv_id v)
{
	struct ixv from = ixv_get(r->x, v);
	ix_id to[IXV_MAX];

	for (uint32_t k = 0; k < from.n; k++)
		to[k] = replace_ix(r, from.i[k]);
	return ixv_make(r->x, from.n, to);
}

static ex_id
replace_read(struct replace *r, const struct ex *n)
{
	ixv_id at = replace_ixv(r, n->at);

	if (r->s->load)
		return r->s->load(r->s->self, r->x, n, at);
	if (r->s->read)
		return r->s->read(r->s->self, r->x, n, ixv_get(r->x, at).i[0]);
	return ex_load(r->x, n->type, n->tensor, at);
}

static ix_id
replace_ix_new(struct replace *r, ix_id i)
{
	struct ix n = *ix_get(r->x, i);
	struct tx *x = r->x;

	switch (n.kind) {
	case IX_AXIS:
		/* (what is before the first is no number that small) */
		if (n.a - r->s->first < r->s->n && r->s->to[n.a - r->s->first] != IX_NONE)
			return r->s->to[n.a - r->s->first];
		return i;
	case IX_LIN: {
		struct ix_term t[IX_MAX_TERMS];
		for (uint32_t k = 0; k < n.n_terms; k++)
			t[k] = (struct ix_term){n.terms[k].coef, replace_ix(r, n.terms[k].atom)};
		return ix_sum(x, n.c, t, n.n_terms);
	}
	case IX_DIV:
		return ix_div(x, replace_ix(r, n.a), n.c);
	case IX_MOD:
		return ix_mod(x, replace_ix(r, n.a), n.c);
	case IX_MIN:
	case IX_MAX: {
		ix_id a = replace_ix(r, n.a), b = replace_ix(r, n.b);
		return n.kind == IX_MIN ? ix_min(x, a, b) : ix_max(x, a, b);
	}
	case IX_VALUE:
		return ix_value(x, replace_ex(r, n.a), n.lo, n.hi);
	}
	return i;
}

static ix_id
replace_ix(struct replace *r, ix_id i)
{
	if (!(ix_get(r->x, i)->axes & r->axes) && !(ix_get(r->x, i)->bufs & r->bufs))
		return i;
	if (i >= r->n_ix) /* made by this replacement */
		return replace_ix_new(r, i);
	ix_id to = *met_at(&r->ix, i);

	if (to == 0) {
		to = replace_ix_new(r, i) + 1;
		*met_at(&r->ix, i) = to;
	}
	return to - 1;
}

static ex_id
replace_ex_new(struct replace *r, ex_id e)
{
	struct ex n = *ex_get(r->x, e);
	ix_id at = has_ix(&n) ? replace_ix(r, n.ix) : 0;

	switch (n.kind) {
	case EX_CONST:
		return e;
	case EX_VAR:
		return e;
	case EX_READ:
		return replace_read(r, &n);
	case EX_SCRATCH:
		return ex_scratch(r->x, n.type, n.tensor, at);
	case EX_INDEX:
		return ex_index(r->x, at);
	case EX_GUARD: {
		ex_id yes = replace_ex(r, n.arg[0]), no = replace_ex(r, n.arg[1]);
		return ex_guard(r->x, at, n.lo, n.hi, yes, no);
	}
	case EX_MAP:
		for (uint32_t k = 0; k < n.n_arg; k++)
			n.arg[k] = replace_ex(r, n.arg[k]);
		return ex_map(r->x, n.prim, n.type, n.n_arg, n.arg);
	}
	return e;
}

static ex_id
replace_ex(struct replace *r, ex_id e)
{
	if (!(ex_get(r->x, e)->axes & r->axes) && !(ex_get(r->x, e)->bufs & r->bufs))
		return e;
	if (e >= r->n_ex)
		return replace_ex_new(r, e);
	ex_id to = *met_at(&r->ex, e);

	if (to == 0) {
		to = replace_ex_new(r, e) + 1;
		*met_at(&r->ex, e) = to;
	}
	return to - 1;
}

static void
replace_begin(struct replace *r, struct tx *x, const struct tx_subst *s)
{
	r->x = x;
	r->s = s;
	r->n_ex = x->n_ex;
	r->n_ix = x->n_ix;
	r->axes = 0;
	for (axis_id a = 0; a < s->n; a++)
		r->axes |= s->to[a] != IX_NONE ? axis_bit(s->first + a) : 0;
	r->bufs = !s->read && !s->load ? 0 : s->bufs ? s->bufs : UINT64_MAX;
	met_begin(&r->ex);
	met_begin(&r->ix);
}

static void
replace_end(struct replace *r)
{
	met_end(&r->ex);
	met_end(&r->ix);
}

ix_id
ix_subst(struct tx *x, const struct tx_subst *s, ix_id i)
{
	struct replace r;

	if (!ix_get(x, i)->axes && !ix_get(x, i)->bufs)
		return i;
	replace_begin(&r, x, s);
	ix_id out = replace_ix(&r, i);

	replace_end(&r);
	return out;
}

ixv_id
ixv_subst(struct tx *x, const struct tx_subst *s, ixv_id v)
{
	struct replace r;

	replace_begin(&r, x, s);
	ixv_id out = replace_ixv(&r, v);

	replace_end(&r);
	return out;
}

ex_id
ex_subst(struct tx *x, const struct tx_subst *s, ex_id e)
{
	struct replace r;

	if (!ex_get(x, e)->axes && !ex_get(x, e)->bufs)
		return e;
	replace_begin(&r, x, s);
	ex_id out = replace_ex(&r, e);

	replace_end(&r);
	return out;
}
