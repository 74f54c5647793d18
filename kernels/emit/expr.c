/* kernels/emit/expr.c: expressions as text.  What is used twice, or is long, becomes a temporary
 * on a line of its own; a guarded arm is evaluated inside its own braces. */
#include "gen_int.h"

#include <stdio.h>
#include <string.h>

enum { LONG_TEXT = 72 };

/* ---- names ----------------------------------------------------------------------------------- */
static const char **
slot(struct gen *g, uint32_t id, bool is_ix)
{
	const char ***names = is_ix ? &g->ix_name : &g->ex_name;
	uint32_t *cap = is_ix ? &g->cap_ix : &g->cap_ex;

	while (*cap <= id) {
		uint32_t was = *cap;
		*names = arena_grow(g->a, *names, sizeof(**names), was, cap);
		memset(&(*names)[was], 0, (*cap - was) * sizeof(**names));
	}
	return &(*names)[id];
}

static const char *
remember(struct gen *g, uint32_t id, bool is_ix, const char *name)
{
	const char **s = slot(g, id, is_ix);

	GROW(g->a, g->undo, g->n_undo, g->cap_undo);
	g->undo[g->n_undo++] = (struct gen_name){.id = id, .is_ix = is_ix, .was = *s};
	*s = name;
	return name;
}

static const char *
temp(struct gen *g, char letter)
{
	return arena_printf(g->a, "%c%u", letter, g->n_temp++);
}

const char *
gen_type(const struct gen *g, enum dtype t)
{
	static const char *const names[DT_COUNT] = {[DT_f32] = "float",
	    [DT_f64] = "double",
	    [DT_f16] = "float",
	    [DT_bf16] = "float",
	    [DT_u8] = "k_u8",
	    [DT_i8] = "k_i8",
	    [DT_u16] = "k_u16",
	    [DT_i16] = "k_i16",
	    [DT_i32] = "int",
	    [DT_u32] = "k_u32",
	    [DT_i64] = "k_i64",
	    [DT_u64] = "k_u64",
	    [DT_bool] = "k_bool"};

	(void)g;
	return names[t];
}

const char *
gen_stored_type(const struct gen *g, enum dtype t)
{
	if (t == DT_f16 || t == DT_bf16)
		return "k_u16";
	return t == DT_bool ? "k_u8" : gen_type(g, t);
}

const char *
gen_tensor(struct gen *g, uint32_t tensor)
{
	const struct tile_tensor *t = &g->p->tensors[tensor];

	if (g->cuda && g->cuda->home[tensor])
		return g->cuda->home[tensor];
	switch (t->at) {
	case AT_OPERAND:
		return arena_printf(g->a, "x%u", t->index);
	case AT_RESULT:
		return arena_printf(g->a, "y%u", t->index);
	case AT_TABLE:
		return arena_printf(g->a, "%s_t%u", g->symbol, tensor);
	case AT_SHARED:
		return arena_printf(g->a, "s%u", tensor);
	case AT_LOCAL:
		return arena_printf(g->a, "l%u", tensor);
	case AT_NOWHERE:
		break;
	}
	bug("tensor %u has no place", tensor);
}

/* ---- constants ---------------------------------------------------------------------------------- */
static const char *
real_text(struct gen *g, double v, bool is_double)
{
	char s[64];

	if (v != v)
		return is_double ? arena_printf(g->a, "((double)%s)", g->d->nan) : g->d->nan;
	if (v == __builtin_inf() || v == -__builtin_inf())
		return arena_printf(
		    g->a, "(%s%s%s)", v < 0 ? "-" : "", is_double ? "(double)" : "", g->d->infinity);
	(void)snprintf(s, sizeof(s), is_double ? "%.17g" : "%.9g", v);
	const char *dot = strpbrk(s, ".e") ? "" : ".0";

	return arena_printf(g->a, v < 0 || s[0] == '-' ? "(%s%s%s)" : "%s%s%s", s, dot, is_double ? "" : "f");
}

static const char *
whole_text(struct gen *g, enum dtype t, int64_t v)
{
	if (t == DT_i64 && v == INT64_MIN)
		return "(-0x7fffffffffffffffL - 1)";
	if (t == DT_i32 && v == INT32_MIN)
		return "(-0x7fffffff - 1)";
	if (t == DT_u64 || t == DT_u32)
		return arena_printf(g->a, t == DT_u64 ? "%lluUL" : "%lluU", (unsigned long long)v);
	return arena_printf(g->a, v < 0 ? "(%lld%s)" : "%lld%s", (long long)v, t == DT_i64 ? "L" : "");
}

const char *
gen_const(struct gen *g, const struct ex *c)
{
	if (dtype_is_float(c->type))
		return real_text(g, c->real, c->type == DT_f64);
	return whole_text(g, c->type, c->whole);
}

/* ---- indices -------------------------------------------------------------------------------------- */
static bool is_bound_ix(struct gen *g, ix_id i);

struct bound_check {
	struct gen *g;
	bool ok;
};

static void
check_axis(void *self, ix_id i)
{
	struct bound_check *c = self;
	const struct ix *n = ix_get(c->g->tx, i);

	if (n->kind == IX_AXIS && !gen_is_bound(c->g, n->a))
		c->ok = false;
}

static bool
is_bound_ex(struct gen *g, ex_id e)
{
	struct bound_check c = {g, true};

	ex_indices(g->tx, e, check_axis, &c);
	return c.ok;
}

static bool
is_bound_ix(struct gen *g, ix_id i)
{
	struct bound_check c = {g, true};
	int64_t v;

	if (ix_is_const(g->tx, i, &v))
		return true;
	ex_indices(g->tx, ex_index(g->tx, i), check_axis, &c);
	return c.ok;
}

static const char *
sum_text(struct gen *g, const struct ix *n)
{
	struct strbuf sb;
	uint32_t done = 0;

	sb_init(&sb, g->a);
	for (int pass = 0; pass < 2; pass++) { /* large strides first: they change slowest */
		for (uint32_t k = n->n_terms; k-- > 0;) {
			int64_t c = n->terms[k].coef;
			if ((c == 1) != (pass == 1))
				continue;
			const char *atom = gen_ix(g, n->terms[k].atom);
			sb_addz(&sb, done++ ? (c < 0 ? " - " : " + ") : (c < 0 ? "-" : ""));
			if (c != 1 && c != -1)
				sb_addf(&sb, "%lld*", (long long)(c < 0 ? -c : c));
			sb_addz(&sb, atom);
		}
	}
	if (n->c || !done)
		sb_addf(&sb, done ? (n->c < 0 ? " - %lld" : " + %lld") : "%lld",
		    (long long)(done && n->c < 0 ? -n->c : n->c));
	return sb_str(&sb).p;
}

static const char *
atom_text(struct gen *g, const struct ix *n)
{
	const char *a = n->kind == IX_VALUE ? gen_ex(g, n->a) : gen_ix(g, n->a);
	bool below = n->kind != IX_VALUE && ix_get(g->tx, n->a)->lo < 0;

	switch (n->kind) {
	case IX_DIV:
		return arena_printf(g->a, below ? "k_floordiv(%s, %lld)" : "(%s) / %lld", a, (long long)n->c);
	case IX_MOD:
		return arena_printf(
		    g->a, below ? "k_floormod(%s, %lld)" : "(%s) %% %lld", a, (long long)n->c);
	case IX_MIN:
		return arena_printf(g->a, "k_least(%s, %s)", a, gen_ix(g, n->b));
	case IX_MAX:
		return arena_printf(g->a, "k_most(%s, %s)", a, gen_ix(g, n->b));
	case IX_VALUE:
		return arena_printf(g->a, "(k_i64)%s", a);
	default:
		bug("index atom of kind %d", (int)n->kind);
	}
}

const char *
gen_ix(struct gen *g, ix_id i)
{
	struct ix n = *ix_get(g->tx, i);

	if (n.kind == IX_AXIS) {
		if (!gen_is_bound(g, n.a))
			bug("axis %u has no loop here", n.a);
		return g->axis_name[n.a];
	}
	if (n.kind == IX_LIN)
		return sum_text(g, &n);
	if (*slot(g, i, true))
		return *slot(g, i, true);
	const char *text = atom_text(g, &n), *name = temp(g, 'j');

	gen_line(g, "const %s %s = %s;", g->index, name, text);
	return remember(g, i, true, name);
}

/* ---- values --------------------------------------------------------------------------------------- */
static const char *
computing_name(enum dtype t)
{
	return t == DT_f16 || t == DT_bf16 ? "f32" : dtype_name(t);
}

const char *
gen_map_text(
    struct gen *g, enum prim p, enum dtype out, enum dtype in, enum dtype in1, const char *const *arg)
{
	const char *t = prim_info[p].text;
	struct strbuf sb;

	if (p == PRIM_cast)
		return arena_printf(g->a, "k_cast_%s_%s(%s)", computing_name(in), dtype_name(out), arg[0]);
	sb_init(&sb, g->a);
	for (; *t; t++) {
		if (*t != '$') {
			sb_addc(&sb, *t);
			continue;
		}
		t++;
		if (*t == 'T')
			sb_addz(&sb, computing_name(out));
		else if (*t == 'S')
			sb_addz(&sb, computing_name(p == PRIM_pow ? in1 : in));
		else
			sb_addz(&sb, arg[*t - '0']);
	}
	const char *v = sb_str(&sb).p;

	if (out == DT_f16 || out == DT_bf16)
		return p == PRIM_select ? v : arena_printf(g->a, "k_round_%s(%s)", dtype_name(out), v);
	if (out != DT_bool && !dtype_is_float(out) && dtype_size(out) < 4)
		return arena_printf(g->a, "((%s)%s)", gen_type(g, out), v);
	return v;
}

static const char *
read_text(struct gen *g, const struct ex *n)
{
	const char *at = gen_ix(g, n->ix);
	const char *array = n->kind == EX_SCRATCH ? g->scratch[n->tensor] : gen_tensor(g, n->tensor);

	if (n->kind == EX_READ && (n->type == DT_f16 || n->type == DT_bf16))
		return arena_printf(g->a, "k_load_%s(%s[%s])", dtype_name(n->type), array, at);
	if (n->kind == EX_READ && n->type == DT_bool)
		return arena_printf(g->a, "(%s[%s] != 0)", array, at);
	return arena_printf(g->a, "%s[%s]", array, at);
}

const char *
gen_condition(struct gen *g, const struct ex *n)
{
	struct ix i = *ix_get(g->tx, n->ix);
	const char *at = gen_ix(g, n->ix);

	if (i.lo >= n->lo)
		return arena_printf(g->a, "%s < %lld", at, (long long)n->hi);
	if (i.hi < n->hi)
		return arena_printf(g->a, "%s >= %lld", at, (long long)n->lo);
	return arena_printf(g->a, "%s >= %lld && %s < %lld", at, (long long)n->lo, at, (long long)n->hi);
}

static bool
is_leaf(struct gen *g, ex_id e)
{
	const struct ex *n = ex_get(g->tx, e);

	return n->kind == EX_CONST || *slot(g, e, false);
}

/* A read whose index needs no temporary. */
static bool
is_plain_read(struct gen *g, ex_id e)
{
	const struct ex *n = ex_get(g->tx, e);

	if (n->kind != EX_READ)
		return false;
	const struct ix *i = ix_get(g->tx, n->ix);

	if (i->kind != IX_LIN)
		return i->kind == IX_AXIS || *slot(g, n->ix, true);
	for (uint32_t k = 0; k < i->n_terms; k++)
		if (ix_get(g->tx, i->terms[k].atom)->kind != IX_AXIS && !*slot(g, i->terms[k].atom, true))
			return false;
	return true;
}

/* Inside the conditional expression: a line before it would read where it must not. */
static const char *
arm_text(struct gen *g, ex_id e)
{
	struct ex n = *ex_get(g->tx, e);

	return is_leaf(g, e) ? gen_ex(g, e) : read_text(g, &n);
}

static void
arm(struct gen *g, const char *name, ex_id e)
{
	uint32_t mark = gen_mark(g);

	g->lazy++;
	gen_line(g, "%s = %s;", name, gen_ex(g, e));
	g->lazy--;
	gen_forget(g, mark);
}

static const char *
guard_text(struct gen *g, ex_id e, const struct ex *n)
{
	const char *cond = gen_condition(g, n), *name = temp(g, 'v'), *type = gen_type(g, n->type);
	bool easy_yes = is_leaf(g, n->arg[0]) || is_plain_read(g, n->arg[0]);
	bool easy_no = is_leaf(g, n->arg[1]) || is_plain_read(g, n->arg[1]);

	if (easy_yes && easy_no) {
		const char *yes = arm_text(g, n->arg[0]), *no = arm_text(g, n->arg[1]);
		gen_line(g, "const %s %s = %s ? %s : %s;", type, name, cond, yes, no);
		return remember(g, e, false, name);
	}
	gen_line(g, "%s %s;", type, name);
	gen_open(g, "if (%s)", cond);
	arm(g, name, n->arg[0]);
	g->depth--;
	gen_open(g, "} else");
	arm(g, name, n->arg[1]);
	gen_close(g);
	return remember(g, e, false, name);
}

/* x / d with a d that the loop does not change, where a last bit may differ: x * (1 / d).  Only for
 * divisors that come out of sums and roots; the reciprocal of a tiny one could overflow. */
static bool
divides_by_invariant(struct gen *g, const struct ex *n)
{
	if (n->prim != PRIM_div || n->type != DT_f32 || g->p->target->strict)
		return false;
	const struct ex *d = ex_get(g->tx, n->arg[1]);

	if (!*slot(g, n->arg[1], false) || ex_get(g->tx, n->arg[0])->kind == EX_CONST)
		return false;
	if (d->kind == EX_MAP)
		return d->prim == PRIM_sqrt;
	if (d->kind != EX_READ || g->p->tensors[d->tensor].stage == UINT32_MAX)
		return false;
	enum prim p = g->p->stages[g->p->tensors[d->tensor].stage].prim;

	return p == PRIM_sum || p == PRIM_sqrt;
}

static const char *
reciprocal(struct gen *g, ex_id d)
{
	ex_id one = ex_real(g->tx, DT_f32, 1), arg[2] = {one, d};
	ex_id r = ex_map(g->tx, PRIM_div, DT_f32, 2, arg);

	return gen_ex(g, r);
}

/* min and max with a constant need not ask whether that is a number. */
static const char *
bound_text(struct gen *g, const struct ex *n, const char *const *arg)
{
	for (uint32_t k = 0; k < 2; k++) {
		const struct ex *c = ex_get(g->tx, n->arg[k]);
		if (c->kind == EX_CONST && c->real == c->real)
			return arena_printf(
			    g->a, "k_%s1_f32(%s, %s)", prim_info[n->prim].name, arg[1 - k], arg[k]);
	}
	return NULL;
}

/* tanh(softplus(x)): one e^x does for both. */
static bool
is_mish_factor(struct gen *g, const struct ex *n)
{
	const struct ex *inner = ex_get(g->tx, n->arg[0]);

	return n->prim == PRIM_tanh && n->type == DT_f32 && inner->kind == EX_MAP &&
	    inner->prim == PRIM_softplus && !g->p->target->strict && !*slot(g, n->arg[0], false);
}

static const char *
map_text(struct gen *g, const struct ex *n)
{
	const char *arg[3];
	enum dtype in[3];

	if (is_mish_factor(g, n)) {
		arg[0] = gen_ex(g, ex_get(g->tx, n->arg[0])->arg[0]);
		return arena_printf(g->a, "k_tanh_softplus_f32(%s)", arg[0]);
	}
	if (divides_by_invariant(g, n)) {
		arg[0] = gen_ex(g, n->arg[0]);
		return arena_printf(g->a, "(%s * %s)", arg[0], reciprocal(g, n->arg[1]));
	}

	for (uint32_t k = 0; k < n->n_arg; k++) {
		arg[k] = gen_ex(g, n->arg[k]);
		in[k] = ex_get(g->tx, n->arg[k])->type;
	}
	if ((n->prim == PRIM_min || n->prim == PRIM_max) && n->type == DT_f32 && !g->p->target->strict) {
		const char *v = bound_text(g, n, arg);
		if (v)
			return v;
	}
	return gen_map_text(g, n->prim, n->type, in[0], n->n_arg > 1 ? in[1] : in[0], arg);
}

const char *
gen_ex(struct gen *g, ex_id e)
{
	struct ex n = *ex_get(g->tx, e);
	const char *text;

	if (n.kind == EX_CONST)
		return gen_const(g, &n);
	if (*slot(g, e, false))
		return *slot(g, e, false);
	if (n.kind == EX_GUARD)
		return guard_text(g, e, &n);
	if (n.kind == EX_READ || n.kind == EX_SCRATCH)
		text = read_text(g, &n);
	else if (n.kind == EX_INDEX)
		text = arena_printf(g->a, "(k_i64)(%s)", gen_ix(g, n.ix));
	else
		text = map_text(g, &n);
	const char *name = temp(g, 'v');

	gen_line(g, "const %s %s = %s;", gen_type(g, n.type), name, text);
	return remember(g, e, false, name);
}

void
gen_name_read(struct gen *g, enum dtype t, uint32_t tensor, ix_id at, const char *name)
{
	remember(g, ex_read(g->tx, t, tensor, at), false, name);
}

/* ---- what a loop need not repeat ------------------------------------------------------------------ */
void
gen_hoist_ix(struct gen *g, ix_id i)
{
	struct ix n = *ix_get(g->tx, i);
	int64_t v;

	if (ix_is_const(g->tx, i, &v) || n.kind == IX_AXIS)
		return;
	if (n.kind == IX_LIN) {
		for (uint32_t k = 0; k < n.n_terms; k++)
			gen_hoist_ix(g, n.terms[k].atom);
		return;
	}
	if (is_bound_ix(g, i)) {
		gen_ix(g, i);
		return;
	}
	if (n.kind == IX_VALUE) {
		gen_hoist(g, n.a);
		return;
	}
	gen_hoist_ix(g, n.a);
	if (n.kind == IX_MIN || n.kind == IX_MAX)
		gen_hoist_ix(g, n.b);
}

void
gen_hoist(struct gen *g, ex_id e)
{
	struct ex n = *ex_get(g->tx, e);

	if (n.kind == EX_CONST || *slot(g, e, false))
		return;
	if (n.kind != EX_GUARD && is_bound_ex(g, e)) {
		gen_ex(g, e);
		return;
	}
	if (n.kind == EX_READ || n.kind == EX_GUARD || n.kind == EX_INDEX || n.kind == EX_SCRATCH)
		gen_hoist_ix(g, n.ix);
	if (n.kind != EX_MAP)
		return;
	for (uint32_t k = 0; k < n.n_arg; k++)
		gen_hoist(g, n.arg[k]);
	if (divides_by_invariant(g, &n))
		reciprocal(g, n.arg[1]);
}

void
gen_store(struct gen *g, uint32_t tensor, ix_id at, const char *value)
{
	const struct tile_tensor *t = &g->p->tensors[tensor];
	const char *to = g->cuda ? g->cuda->held[tensor] : NULL;

	if (!to) {
		const char *i = gen_ix(g, at);

		to = arena_printf(g->a, "%s[%s]", gen_tensor(g, tensor), i);
	}
	if (t->type == DT_f16 || t->type == DT_bf16)
		gen_line(g, "%s = k_store_%s(%s);", to, dtype_name(t->type), value);
	else
		gen_line(g, "%s = %s;", to, value);
}
