/* kernels/codegen/print_ex.c: expressions of a loop program as C over kernels/generate's prelude. */
#include "codegen_int.h"

#include <stdio.h>
#include <string.h>

/* ---- types ------------------------------------------------------------------------------------------ */
/* Half floats are floats that are rounded behind each primitive. */
static bool
is_half(enum dtype t)
{
	return t == DT_f16 || t == DT_bf16;
}

const char *
print_computed_type(enum dtype t)
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

	return names[t];
}

const char *
print_stored_type(enum dtype t)
{
	return is_half(t) ? "k_u16" : t == DT_bool ? "k_u8" : print_computed_type(t);
}

static const char *
suffix(enum dtype t)
{
	return is_half(t) ? "f32" : dtype_name(t);
}

/* Of functions of f32. */
static const char *
width(struct printing *g, bool wide)
{
	return wide ? arena_printf(g->a, "v%u", g->vec) : "f32";
}

/* ---- constants --------------------------------------------------------------------------------------- */
static const char *
real_text(struct printing *g, double v, bool is_double)
{
	const char *const type = is_double ? "(double)" : "";
	char s[64];

	if (v != v)
		return arena_printf(g->a, "(%s__builtin_nanf(\"\"))", type);
	if (v == __builtin_inf() || v == -__builtin_inf())
		return arena_printf(g->a, "(%s%s__builtin_inff())", v < 0 ? "-" : "", type);
	(void)snprintf(s, sizeof(s), is_double ? "%.17g" : "%.9g", v);
	return arena_printf(
	    g->a, s[0] == '-' ? "(%s%s%s)" : "%s%s%s", s, strpbrk(s, ".e") ? "" : ".0", is_double ? "" : "f");
}

static const char *
const_text(struct printing *g, const struct ex *c)
{
	const int64_t v = c->whole;

	if (dtype_is_float(c->type))
		return real_text(g, c->real, c->type == DT_f64);
	if (c->type == DT_u64 || c->type == DT_u32)
		return arena_printf(g->a, c->type == DT_u64 ? "%lluUL" : "%lluU", (unsigned long long)v);
	if (v == INT64_MIN)
		return "(-0x7fffffffffffffffL - 1)";
	if (v == INT32_MIN && c->type == DT_i32)
		return "(-0x7fffffff - 1)";
	return arena_printf(g->a, v < 0 ? "(%lld%s)" : "%lld%s", (long long)v, c->type == DT_i64 ? "L" : "");
}

/* ---- indices ------------------------------------------------------------------------------------------ */
const char *
print_axis(struct printing *g, axis_id axis)
{
	g->number[axis] = g->n_axes++;
	return g->axis[axis] = arena_printf(g->a, "i%u", g->number[axis]);
}

/* Variables of loops first, outer ones before inner ones: the numbers of atoms hang on what else was built.
 */
static uint32_t
rank_of(const struct printing *g, ix_id atom)
{
	const struct ix *n = ix_get(g->p->tx, atom);

	return n->kind == IX_AXIS ? g->number[n->a] : UINT32_MAX;
}

static const struct ix_term *
sorted_terms(const struct printing *g, const struct ix *n)
{
	struct ix_term *terms = NEW_ARRAY(g->a, struct ix_term, n->n_terms + 1);

	for (uint32_t k = 0; k < n->n_terms; k++) {
		const struct ix_term t = n->terms[k];
		uint32_t to = k;

		for (; to > 0 && rank_of(g, terms[to - 1].atom) > rank_of(g, t.atom); to--)
			terms[to] = terms[to - 1];
		terms[to] = t;
	}
	return terms;
}

static const char *
sum_text(struct printing *g, const struct ix *n)
{
	const struct ix_term *terms = sorted_terms(g, n);
	struct strbuf sb;
	uint32_t done = 0;

	sb_init(&sb, g->a);
	for (uint32_t k = 0; k < n->n_terms; k++) {
		const int64_t c = terms[k].coef;

		sb_addz(&sb, done++ ? (c < 0 ? " - " : " + ") : (c < 0 ? "-" : ""));
		if (c != 1 && c != -1)
			sb_addf(&sb, "%lld*", (long long)(c < 0 ? -c : c));
		sb_addz(&sb, print_ix(g, terms[k].atom));
	}
	if (done && n->c)
		sb_addf(&sb, n->c < 0 ? " - %lld" : " + %lld", (long long)(n->c < 0 ? -n->c : n->c));
	else if (!done)
		sb_addf(&sb, "%lld%s", (long long)n->c, g->d->of_constant);
	return sb_str(&sb).p;
}

/* By the dialect's function, or (NULL) its operator. */
static const char *
divided(struct printing *g, const char *fn, bool rest, const char *a, long long c)
{
	if (fn)
		return arena_printf(g->a, "%s(%s, %lld)", fn, a, c);
	return arena_printf(g->a, rest ? "((%s) %% %lld)" : "((%s) / %lld)", a, c);
}

/* A constant stands first: which of the two has the smaller number hangs on what else was built. */
static const char *
side_text(struct printing *g, const struct ix *n, const char *a, const char *b)
{
	const bool swap = ix_is_const(g->p->tx, n->b, NULL);

	return arena_printf(
	    g->a, "%s(%s, %s)", n->kind == IX_MIN ? g->d->least : g->d->most, swap ? b : a, swap ? a : b);
}

const char *
print_ix(struct printing *g, ix_id i)
{
	const struct ix n = *ix_get(g->p->tx, i);
	const long long c = (long long)n.c;
	bool below;

	if (n.kind == IX_LIN)
		return sum_text(g, &n);
	if (n.kind == IX_AXIS) {
		if (!g->axis[n.a])
			bug("axis %u has no loop here", n.a);
		return g->axis[n.a];
	}
	if (n.kind == IX_VALUE)
		return arena_printf(g->a, "(%s)%s", g->d->index, print_ex(g, n.a));
	const char *a = print_ix(g, n.a);

	below = ix_get(g->p->tx, n.a)->lo < 0;
	if (n.kind == IX_DIV)
		return divided(g, below ? g->d->floordiv : g->d->quotient, false, a, c);
	if (n.kind == IX_MOD)
		return divided(g, below ? g->d->floormod : g->d->rest, true, a, c);
	return side_text(g, &n, a, print_ix(g, n.b));
}

const char *
print_condition(struct printing *g, ix_id i, int64_t lo, int64_t hi)
{
	const struct ix n = *ix_get(g->p->tx, i);
	const char *at = print_ix(g, i);

	if (n.lo >= lo)
		return arena_printf(g->a, "%s < %lld", at, (long long)hi);
	if (n.hi < hi)
		return arena_printf(g->a, "%s >= %lld", at, (long long)lo);
	return arena_printf(g->a, "%s >= %lld && %s < %lld", at, (long long)lo, at, (long long)hi);
}

/* ---- values -------------------------------------------------------------------------------------------- */
/* A row's text with operands put in (prim.def says what $0, $T and $S are). */
static const char *
filled(struct printing *g, const struct ex *n, bool wide, const char *const *arg)
{
	const enum dtype of = ex_get(g->p->tx, n->arg[n->prim == PRIM_pow && n->n_arg > 1])->type;
	struct strbuf sb;

	sb_init(&sb, g->a);
	for (const char *t = wide ? wide_text(n->prim) : prim_info[n->prim].text; *t; t++) {
		if (*t != '$')
			sb_addc(&sb, *t);
		else if (*++t == 'T' || *t == 'S')
			sb_addz(&sb, wide ? width(g, wide) : suffix(*t == 'T' ? n->type : of));
		else
			sb_addz(&sb, arg[*t - '0']);
	}
	return sb_str(&sb).p;
}

/* min and max with a constant need not ask whether that is a number. */
static const char *
bound_text(struct printing *g, const struct ex *n, bool wide)
{
	for (uint32_t k = 0; k < 2; k++) {
		const struct ex *c = ex_get(g->p->tx, n->arg[k]);

		if (c->kind == EX_CONST && c->real == c->real)
			return arena_printf(g->a, "k_%s1_%s(%s, %s)", prim_info[n->prim].name, width(g, wide),
			    print_ex(g, n->arg[1 - k]), print_ex(g, n->arg[k]));
	}
	return NULL;
}

/* Forms that a last bit may differ in. */
static const char *
fast_text(struct printing *g, const struct ex *n, bool wide)
{
	if (n->type != DT_f32 || tx_is_strict(g->p->tx))
		return NULL;
	if (n->prim == PRIM_min || n->prim == PRIM_max)
		return bound_text(g, n, wide);
	const struct ex *inner = n->prim == PRIM_tanh ? ex_get(g->p->tx, n->arg[0]) : NULL;

	if (inner && inner->kind == EX_MAP && inner->prim == PRIM_softplus) /* one e^x does for both */
		return arena_printf(
		    g->a, "k_tanh_softplus_%s(%s)", width(g, wide), print_ex(g, inner->arg[0]));
	return NULL;
}

/* Its operands have one type: scalars do not stand beside vectors. */
static bool
is_function(enum prim p)
{
	return strchr(wide_text(p), '_') != NULL;
}

static const char *
choice_text(struct printing *g, const struct ex *n)
{
	struct ex how;

	if (!chooses_by_order(g->p, n, &how))
		bug("a choice of vectors by what is no order of floats");
	return arena_printf(g->a, "k_select_%s_v%u(%s, %s, %s, %s)", prim_info[how.prim].name, g->vec,
	    vector_text(g, how.arg[0]), vector_text(g, how.arg[1]), vector_text(g, n->arg[1]),
	    vector_text(g, n->arg[2]));
}

static const char *
map_text(struct printing *g, const struct ex *n)
{
	bool wide = false;

	for (uint32_t k = 0; k < n->n_arg; k++)
		wide |= is_vector(g, n->arg[k]);
	const char *arg[3], *fast = fast_text(g, n, wide);

	if (fast)
		return fast;
	if (wide && n->prim == PRIM_select)
		return choice_text(g, n);
	for (uint32_t k = 0; k < n->n_arg; k++)
		arg[k] = wide && is_function(n->prim) ? vector_text(g, n->arg[k]) : print_ex(g, n->arg[k]);
	if (n->prim == PRIM_cast)
		return arena_printf(g->a, "k_cast_%s_%s(%s)", suffix(ex_get(g->p->tx, n->arg[0])->type),
		    dtype_name(n->type), arg[0]);
	const char *v = filled(g, n, wide, arg);

	if (is_half(n->type))
		return n->prim == PRIM_select ? v
					      : arena_printf(g->a, "k_round_%s(%s)", dtype_name(n->type), v);
	if (n->type != DT_bool && !dtype_is_float(n->type) && dtype_size(n->type) < 4)
		return arena_printf(g->a, "((%s)%s)", print_computed_type(n->type), v);
	return v;
}

const char *
print_place(struct printing *g, buf_id b, ix_id i)
{
	const struct base *base = find_base(&g->bases, g->p->tx, b, i);

	if (base)
		return arena_printf(
		    g->a, "p%u[%lld]", base->number, (long long)(ix_base(g->p->tx, i) - base->first));
	return arena_printf(g->a, "%s[%s]", print_buf(g, b), print_ix(g, i));
}

const char *
print_element(struct printing *g, buf_id b, ixv_id at)
{
	const struct tir_buf *f = &g->p->buf[b];
	const char *array = print_buf(g, b);
	ix_id i = ixv_get(g->p->tx, at).i[0];

	if (g->lane != AXIS_NONE && ix_has(g->p->tx, i, g->lane))
		return print_lanes(g, b, i);
	if (g->wide.buf[b]) /* one lane of a vector */
		return arena_printf(g->a, "K_LANE(%s, %s)", array, print_ix(g, i));
	if (registers_of(g, f) == 1)
		return array;
	if (f->scope == SCOPE_spread) /* a thread's are so many elements apart as there are threads */
		i = ix_div(g->p->tx, i, g->threads->warps * g->threads->lanes);
	return print_place(g, b, i);
}

static const char *
read_text(struct printing *g, const struct ex *n)
{
	const char *element = print_element(g, n->tensor, n->at);

	if (in_register(&g->p->buf[n->tensor]))
		return element;
	if (is_half(n->type))
		return arena_printf(g->a, "k_load_%s(%s)", dtype_name(n->type), element);
	if (n->type == DT_bool)
		return arena_printf(g->a, "(%s != 0)", element);
	return element;
}

const char *
print_ex(struct printing *g, ex_id e)
{
	const struct ex n = *ex_get(g->p->tx, e);

	switch (n.kind) {
	case EX_CONST:
		return const_text(g, &n);
	case EX_READ:
		return read_text(g, &n);
	case EX_VAR:
		return arena_printf(g->a, "v%u", n.tensor);
	case EX_INDEX:
		return arena_printf(g->a, "(k_i64)(%s)", print_ix(g, n.ix));
	case EX_GUARD:
		return arena_printf(g->a, "(%s ? %s : %s)", print_condition(g, n.ix, n.lo, n.hi),
		    print_ex(g, n.arg[0]), print_ex(g, n.arg[1]));
	case EX_MAP:
		return map_text(g, &n);
	case EX_SCRATCH:
		break;
	}
	bug("an expression of kind %d has no text", (int)n.kind);
}
