/* kernels/tir/print.c: a loop program as text.  A statement's line is its row of tir.def, with fields put in;
 * two spaces a level. */
#include "verify_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct printer {
	struct strbuf *sb;
	const struct tir *p;
	const char **axis; /* names, by number; NULL: unknown here */
};

static void print_ex(const struct printer *o, ex_id e);
static void print_ix(const struct printer *o, ix_id i, bool atom);

/* ---- expressions --------------------------------------------------------------------------- */
static void
print_axis(const struct printer *o, axis_id a)
{
	if (o->axis[a])
		sb_addz(o->sb, o->axis[a]);
	else
		sb_addf(o->sb, "unbound.%u", a);
}

/* Terms in an order that hangs on nothing but the program: numbers of expressions do not. */
struct term {
	int64_t coef;
	const char *text;
};

static int
cmp_terms(const void *pa, const void *pb)
{
	const struct term *a = pa, *b = pb;

	if (a->coef != b->coef)
		return a->coef < b->coef ? 1 : -1;
	return strcmp(a->text, b->text);
}

static const char *
text_of(const struct printer *o, ix_id i, bool atom)
{
	struct strbuf sb;
	struct printer sub = *o;

	sb_init(&sb, o->sb->a);
	sub.sb = &sb;
	print_ix(&sub, i, atom);
	return sb.p;
}

static void
print_sum(const struct printer *o, const struct ix *n)
{
	struct term t[IX_MAX_TERMS];

	for (uint32_t k = 0; k < n->n_terms; k++)
		t[k] = (struct term){n->terms[k].coef, text_of(o, n->terms[k].atom, true)};
	qsort(t, n->n_terms, sizeof(*t), cmp_terms);
	bool first = n->n_terms == 0 || (n->c > 0 && t[0].coef < 0); /* 32 - x */

	if (first)
		sb_addi(o->sb, n->c);
	for (uint32_t k = 0; k < n->n_terms; k++) {
		int64_t c = t[k].coef;

		if (k || first)
			sb_addz(o->sb, c < 0 ? " - " : " + ");
		else if (c < 0)
			sb_addc(o->sb, '-');
		if (c != 1 && c != -1)
			sb_addf(o->sb, "%lld*", (long long)(c < 0 ? -c : c));
		sb_addz(o->sb, t[k].text);
	}
	if (n->c && !first)
		sb_addf(o->sb, " %c %lld", n->c < 0 ? '-' : '+', (long long)(n->c < 0 ? -n->c : n->c));
}

static void
print_pair(const struct printer *o, const struct ix *n)
{
	const char *a = text_of(o, n->a, false), *b = text_of(o, n->b, false);
	bool swap = strcmp(a, b) > 0;

	sb_addf(o->sb, "%s(%s, %s)", n->kind == IX_MIN ? "min" : "max", swap ? b : a, swap ? a : b);
}

/* atom: in brackets where it is a sum or a quotient. */
static void
print_ix(const struct printer *o, ix_id i, bool atom)
{
	const struct ix *n = ix_get(o->p->tx, i);
	bool brackets = atom && (n->kind == IX_DIV || n->kind == IX_MOD || (n->kind == IX_LIN && n->n_terms));

	if (brackets)
		sb_addc(o->sb, '(');
	switch (n->kind) {
	case IX_AXIS:
		print_axis(o, n->a);
		break;
	case IX_LIN:
		print_sum(o, n);
		break;
	case IX_DIV:
	case IX_MOD:
		print_ix(o, n->a, true);
		sb_addf(o->sb, " %s %lld", n->kind == IX_DIV ? "div" : "mod", (long long)n->c);
		break;
	case IX_MIN:
	case IX_MAX:
		print_pair(o, n);
		break;
	case IX_VALUE:
		sb_addz(o->sb, "value(");
		print_ex(o, n->a);
		sb_addf(o->sb, ", %lld, %lld)", (long long)n->lo, (long long)n->hi);
		break;
	}
	if (brackets)
		sb_addc(o->sb, ')');
}

static void
print_tuple(const struct printer *o, ixv_id v)
{
	struct ixv t = ixv_get(o->p->tx, v);

	for (uint32_t k = 0; k < t.n; k++) {
		sb_addz(o->sb, k ? ", " : "");
		print_ix(o, t.i[k], false);
	}
}

static void
print_buf(const struct printer *o, buf_id b)
{
	sb_addf(o->sb, "%%%s", b < o->p->n_buf ? o->p->buf[b].name : "unknown");
}

static void
print_guard(const struct printer *o, const struct tir_guard *g)
{
	sb_addf(o->sb, "%lld <= ", (long long)g->lo);
	print_ix(o, g->i, false);
	sb_addf(o->sb, " < %lld", (long long)g->hi);
}

static void
print_guards(const struct printer *o, const struct st *s)
{
	for (uint32_t k = 0; k < s->n_guard; k++) {
		sb_addz(o->sb, k ? " and " : "");
		print_guard(o, &o->p->guard[s->guard0 + k]);
	}
}

/* The shortest digits that read back as the same number. */
static void
print_real(struct strbuf *sb, enum dtype t, double v)
{
	char text[40];
	double back;

	if (v != v) {
		sb_addz(sb, "nan");
		return;
	}
	for (int digits = 6; digits <= 17; digits += digits == 6 ? 3 : 8) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, v);
		if (str_to_f64(str_of(text), &back) && (t == DT_f32 ? (float)back == (float)v : back == v))
			break;
	}
	sb_addz(sb, text);
}

static void
print_args(const struct printer *o, uint32_t n, const ex_id *arg)
{
	for (uint32_t k = 0; k < n; k++) {
		sb_addz(o->sb, k ? ", " : "");
		print_ex(o, arg[k]);
	}
}

static void
print_ex(const struct printer *o, ex_id e)
{
	const struct ex *n = ex_get(o->p->tx, e);

	switch (n->kind) {
	case EX_CONST:
		sb_addf(o->sb, "%s(", dtype_name(n->type));
		if (dtype_is_float(n->type))
			print_real(o->sb, n->type, n->real);
		else
			sb_addi(o->sb, n->whole);
		break;
	case EX_VAR:
		sb_addf(o->sb, "v%u", n->tensor);
		return;
	case EX_READ:
		print_buf(o, n->tensor);
		sb_addc(o->sb, '[');
		print_tuple(o, n->at);
		sb_addc(o->sb, ']');
		return;
	case EX_SCRATCH:
		sb_addz(o->sb, "scratch(");
		break;
	case EX_INDEX:
		sb_addz(o->sb, "index(");
		print_ix(o, n->ix, false);
		break;
	case EX_GUARD:
		sb_addz(o->sb, "guard(");
		print_guard(o, &(struct tir_guard){n->ix, n->lo, n->hi});
		sb_addz(o->sb, ", ");
		print_args(o, n->n_arg, n->arg);
		break;
	case EX_MAP:
		sb_addz(o->sb, prim_info[n->prim].name);
		if (n->prim == PRIM_cast)
			sb_addf(o->sb, ".%s", dtype_name(n->type));
		sb_addc(o->sb, '(');
		print_args(o, n->n_arg, n->arg);
		break;
	}
	sb_addc(o->sb, ')');
}

/* ---- declarations ----------------------------------------------------------------------------- */
static void
print_layout(const struct printer *o, const struct tir_buf *b)
{
	sb_addz(o->sb, " layout(");
	for (int d = 0; d < b->rank; d++) {
		o->axis[b->place[d]] = arena_printf(o->sb->a, "d%d", d);
		sb_addf(o->sb, "%sd%d", d ? ", " : "", d);
	}
	sb_addz(o->sb, " to ");
	print_tuple(o, b->layout);
	sb_addc(o->sb, ')');
}

static void
print_form(const struct printer *o, const struct tir_buf *b)
{
	const struct tir_form *f = b->form;
	struct shape from = shape_make(f->from_rank, f->from_dim);

	sb_addz(o->sb, " from(");
	for (int d = 0; d < f->rank; d++) {
		o->axis[f->place[d]] = arena_printf(o->sb->a, "d%d", d);
		sb_addf(o->sb, "%sd%d < %lld", d ? ", " : "", d,
		    (long long)tx_axis_get(o->p->tx, f->place[d])->hi + 1);
	}
	sb_addz(o->sb, " of ");
	shape_print(o->sb, &from);
	for (int d = 0; d < f->from_rank; d++)
		if (f->map[d] != MAP_none)
			sb_addf(o->sb, " %s(%d)", form_map_info[f->map[d]].name, d);
	sb_addz(o->sb, " at ");
	print_tuple(o, f->at);
	sb_addc(o->sb, ')');
}

static void
print_table(const struct printer *o, const struct tir_buf *b)
{
	int64_t n = 1;

	for (int d = 0; d < b->rank; d++)
		n *= b->dim[d];
	sb_addz(o->sb, " =");
	for (int64_t i = 0; i < n; i++) {
		sb_addc(o->sb, ' ');
		if (dtype_is_float(b->type))
			print_real(o->sb, b->type, elem_get(b->type, b->data, i));
		else
			sb_addi(o->sb, elem_get_int(b->type, b->data, i));
	}
}

static void
print_buf_line(const struct printer *o, const struct tir_buf *b)
{
	static const char *const role[] = {"operand", "result", "table", "temp"};
	struct shape s = shape_make(b->rank, b->dim);

	sb_addf(o->sb, "buf %%%s %s", b->name, dtype_name(b->type));
	shape_print(o->sb, &s);
	sb_addf(o->sb, " %s %s", tir_scope_name[b->scope], role[b->role]);
	if (b->role == BUF_OPERAND || b->role == BUF_RESULT)
		sb_addf(o->sb, " %u", b->index);
	if (b->layout != IXV_NONE)
		print_layout(o, b);
	if (b->form)
		print_form(o, b);
	if (b->swizzle.bits)
		sb_addf(o->sb, " swizzle(%u, %u, %u)", b->swizzle.bits, b->swizzle.base, b->swizzle.shift);
	if (b->align)
		sb_addf(o->sb, " align %u", b->align);
	if (b->versions)
		sb_addf(o->sb, " versions %u", b->versions);
	if (b->fold)
		sb_addf(o->sb, " fold(%u, %lld)", b->fold_dim, (long long)b->fold);
	if (b->alias != BUF_NONE) {
		sb_addz(o->sb, " in ");
		print_buf(o, b->alias);
		sb_addf(o->sb, " + %lld", (long long)b->offset);
	}
	if (b->role == BUF_TABLE)
		print_table(o, b);
	sb_addc(o->sb, '\n');
}

static void
print_blk_line(const struct printer *o, const struct tir_block *b)
{
	static const char *const kind[] = {"", " reduce", " carried"};

	sb_addf(o->sb, "block %s(", b->name);
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &o->p->iter[b->iter0 + k];

		o->axis[it->id] = it->name;
		sb_addf(o->sb, "%s%s < %lld%s", k ? ", " : "", it->name,
		    (long long)(tx_axis_get(o->p->tx, it->id)->hi + 1), kind[it->kind]);
	}
	sb_addz(o->sb, "): ");
	for (uint32_t k = 0; k < b->n_out; k++) {
		sb_addz(o->sb, k ? ", " : "");
		print_buf(o, b->out[k]);
		sb_addc(o->sb, '[');
		print_tuple(o, b->at[k]);
		sb_addc(o->sb, ']');
	}
	sb_addf(o->sb, " %s= ", b->comb == COMB_NONE ? "" : comb_info[b->comb].name);
	print_args(o, b->n_out, b->value);
	sb_addc(o->sb, '\n');
}

/* ---- statements --------------------------------------------------------------------------------- */
static void
print_field(const struct printer *o, const struct st *s, char field)
{
	switch (field) {
	case 'N':
		o->axis[s->axis] = s->name;
		sb_addz(o->sb, s->name);
		return;
	case 'F':
		print_ix(o, s->from, false);
		return;
	case 'T':
		print_ix(o, s->to, false);
		return;
	case 'B':
		if (s->bind != BIND_serial)
			sb_addf(o->sb, " %s", tir_bind_name[s->bind]);
		if (s->bind == BIND_pipeline)
			sb_addf(o->sb, " %u", s->depth);
		if (s->bind == BIND_call)
			sb_addf(o->sb, " %s", intrin_info[s->ref].name);
		return;
	case 'W':
		sb_addz(o->sb, s->n_guard ? " where " : "");
		print_guards(o, s);
		return;
	case 'G':
		print_guards(o, s);
		return;
	case 'R':
		print_buf(o, s->ref);
		return;
	case 'K':
		sb_addz(o->sb, s->ref < o->p->n_blk ? o->p->blk[s->ref].name : "unknown");
		return;
	case 'C':
		sb_addz(o->sb, intrin_info[s->ref].name);
		return;
	case 'P':
		sb_addz(o->sb, tir_scope_name[s->ref]);
		return;
	case 'V':
		sb_addf(o->sb, "v%u", s->ref);
		return;
	case 'A':
		print_tuple(o, s->at);
		return;
	case 'X':
		print_ex(o, s->value);
		return;
	case 'L':
		print_args(o, s->n_arg, o->p->arg + s->arg0);
		return;
	default:
		sb_addc(o->sb, field);
	}
}

static void
print_st(const struct printer *o, const struct st *s, uint32_t depth)
{
	for (uint32_t k = 0; k < depth; k++)
		sb_addz(o->sb, "  ");
	for (const char *t = st_info[s->op].text; *t; t++)
		print_field(o, s, *t);
	if (s->stage || s->order)
		sb_addf(o->sb, " @%u.%u", s->stage, s->order);
	sb_addc(o->sb, '\n');
}

/* What statements refer to: a pass leaves behind what it has replaced. */
struct used {
	bool *buf, *blk;
};

static void
use_buf(void *self, const struct touch *t)
{
	struct used *u = self;

	u->buf[t->buf] = true;
}

static struct used
used_of(const struct tir *p, struct arena *a)
{
	struct used u = {.buf = NEW_ARRAY(a, bool, p->n_buf + 1), .blk = NEW_ARRAY(a, bool, p->n_blk + 1)};

	for (st_id i = 0; i < p->n_st; i++) {
		const struct st *s = &p->st[i];

		if (s->op == ST_block)
			u.blk[s->ref] = true;
		if (st_has(s->op, 'R'))
			u.buf[s->ref] = true;
		tir_touches(p, i, use_buf, &u);
	}
	for (buf_id b = 0; b < p->n_buf; b++)
		if (u.buf[b] && p->buf[b].alias != BUF_NONE)
			u.buf[p->buf[b].alias] = true;
	return u;
}

void
tir_print(struct strbuf *sb, const struct tir *p)
{
	struct printer o = {.sb = sb, .p = p, .axis = NEW_ARRAY(sb->a, const char *, tx_n_axes(p->tx) + 1)};
	st_id open[TIR_DEPTH];
	uint32_t n = 0;

	sb_addf(
	    sb, "tir %s%s\n", p->level == TIR_NEST ? "nest" : "flat", tx_is_strict(p->tx) ? " strict" : "");
	struct used u = used_of(p, sb->a);

	for (buf_id b = 0; b < p->n_buf; b++)
		if (u.buf[b] || p->buf[b].role != BUF_TEMP)
			print_buf_line(&o, &p->buf[b]);
	for (blk_id b = 0; b < p->n_blk && p->level == TIR_NEST; b++)
		if (u.blk[b])
			print_blk_line(&o, &p->blk[b]);
	for (st_id i = 0; i < p->n_st; i++) {
		while (n && p->st[open[n - 1]].end <= i)
			n--;
		print_st(&o, &p->st[i], n);
		if (st_info[p->st[i].op].body)
			open[n++] = i;
	}
}
