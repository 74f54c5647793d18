/* kernels/codegen/print_c.c: a loop program as C: a function for each outermost statement, arrays as
 * parameters of a body that is not inlined (where compilers believe `restrict`), scratch by offsets. */
#include "codegen_int.h"

#include <stdarg.h>
#include <string.h>

struct program {
	struct printing g;
	struct codegen_kernel *k;
	uint32_t n_operands;
};

static void __attribute__((format(printf, 2, 3))) line(struct printing *g, const char *fmt, ...)
{
	va_list ap;

	for (int i = 0; i < g->depth; i++)
		sb_addc(&g->sb, '\t');
	va_start(ap, fmt);
	sb_vaddf(&g->sb, fmt, ap);
	va_end(ap);
	sb_addc(&g->sb, '\n');
}

/* ---- buffers ------------------------------------------------------------------------------------------ */
const char *
print_buf(struct printing *g, buf_id b)
{
	const struct tir_buf *f = &g->p->buf[b];

	if (f->role == BUF_OPERAND)
		return arena_printf(g->a, "x%u", f->index);
	if (f->role == BUF_RESULT)
		return arena_printf(g->a, "y%u", f->index);
	if (f->role == BUF_TABLE)
		return arena_printf(g->a, "%s_t%u", g->symbol, b);
	return arena_printf(g->a,
	    f->scope == SCOPE_reg          ? "r%u"
		: f->scope == SCOPE_global ? "s%u"
					   : "l%u",
	    b);
}

bool
is_array(const struct tir_buf *b)
{
	return b->dim[0] > 1;
}

bool
is_scratch(const struct tir_buf *b)
{
	return b->role == BUF_TEMP && b->scope != SCOPE_reg;
}

static void
print_table(struct printing *g, buf_id b)
{
	const struct tir_buf *f = &g->p->buf[b];

	line(g, "static const %s %s[%lld] = {", print_stored_type(f->type), print_buf(g, b),
	    (long long)f->dim[0]);
	g->depth++;
	for (int64_t i = 0; i < f->dim[0]; i++) {
		ex_id c = dtype_is_float(f->type)
		    ? ex_real(g->p->tx, f->type, elem_get(f->type, f->data, i))
		    : ex_whole(g->p->tx, f->type, elem_get_int(f->type, f->data, i));

		if (f->type == DT_f16 || f->type == DT_bf16)
			line(g, "%u,", ((const uint16_t *)f->data)[i]);
		else
			line(g, "%s,", print_ex(g, c));
	}
	g->depth--;
	line(g, "};");
}

/* ---- statements ---------------------------------------------------------------------------------------- */
static void
print_store(struct printing *g, const struct st *s)
{
	const struct tir_buf *b = &g->p->buf[s->ref];
	const struct ex v = *ex_get(g->p->tx, s->value);
	const bool is_half = b->scope != SCOPE_reg && (b->type == DT_f16 || b->type == DT_bf16);
	const char *to = print_element(g, s->ref, s->at);

	if (is_half && v.kind == EX_READ && g->p->buf[v.tensor].scope != SCOPE_reg) /* its bits */
		line(g, "%s = %s;", to, print_element(g, v.tensor, v.at));
	else if (is_half)
		line(g, "%s = k_store_%s(%s);", to, dtype_name(b->type), print_ex(g, s->value));
	else
		line(g, "%s = %s;", to, print_ex(g, s->value));
}

/* intrin.def says what $0 and #0 are. */
static void
print_call(struct printing *g, const struct st *s)
{
	struct strbuf sb;

	sb_init(&sb, g->a);
	for (const char *t = intrin_info[s->ref].text; *t; t++) {
		if (*t != '$' && *t != '#') {
			sb_addc(&sb, *t);
			continue;
		}
		const bool counts = *t == '#';
		const ex_id e = g->p->arg[s->arg0 + (uint32_t)(*++t - '0')];
		const struct ex n = *ex_get(g->p->tx, e);

		if (counts)
			sb_addf(&sb, "%lld", (long long)g->p->buf[n.tensor].dim[0]);
		else
			sb_addz(&sb, n.kind == EX_READ ? print_element(g, n.tensor, n.at) : print_ex(g, e));
	}
	line(g, "%s;", sb_str(&sb).p);
}

static void print_body(struct printing *g, st_id first, st_id end);

static void
print_loop(struct printing *g, st_id i, const char *from, const char *to)
{
	const struct st *s = &g->p->st[i];
	const char *v = arena_printf(g->a, "i%u", s->axis);

	g->axis[s->axis] = v;
	line(g, "for (k_i64 %s = %s; %s < %s; %s++) {", v, from, v, to, v);
	g->depth++;
	print_body(g, i + 1, s->end);
	g->depth--;
	line(g, "}");
	g->axis[s->axis] = NULL;
}

static void
print_if(struct printing *g, st_id i)
{
	const struct st *s = &g->p->st[i];
	struct strbuf sb;

	sb_init(&sb, g->a);
	for (uint32_t k = 0; k < s->n_guard; k++) {
		const struct tir_guard *t = &g->p->guard[s->guard0 + k];

		sb_addf(&sb, "%s%s", k ? " && " : "", print_condition(g, t->i, t->lo, t->hi));
	}
	line(g, "if (%s) {", s->n_guard ? sb_str(&sb).p : "1");
	g->depth++;
	print_body(g, i + 1, s->end);
	g->depth--;
	line(g, "}");
}

static void
print_alloc(struct printing *g, const struct tir_buf *b, const char *name)
{
	if (b->scope != SCOPE_reg)
		return;
	if (is_array(b))
		line(g, "%s %s[%lld];", print_computed_type(b->type), name, (long long)b->dim[0]);
	else
		line(g, "%s %s;", print_computed_type(b->type), name);
}

static void
print_statement(struct printing *g, st_id i)
{
	const struct st *s = &g->p->st[i];

	switch (s->op) {
	case ST_for:
		print_loop(g, i, print_ix(g, s->from), print_ix(g, s->to));
		return;
	case ST_if:
		print_if(g, i);
		return;
	case ST_let:
		line(g, "const %s v%u = %s;", print_computed_type(ex_get(g->p->tx, s->value)->type), s->ref,
		    print_ex(g, s->value));
		return;
	case ST_store:
		print_store(g, s);
		return;
	case ST_alloc:
		print_alloc(g, &g->p->buf[s->ref], print_buf(g, s->ref));
		return;
	case ST_call:
		print_call(g, s);
		return;
	case ST_index:
		g->axis[s->axis] = arena_printf(g->a, "i%u", s->axis);
		line(g, "const k_i64 %s = %s;", g->axis[s->axis], print_ix(g, s->from));
		return;
	case ST_sync:
	case ST_block:
	case ST_COUNT:
		break;
	}
	bug("statement %s has no C", st_info[s->op].name);
}

/* Pieces of a loop, side by side, allocate what it did: one declaration does for all. */
static bool
is_declared(const struct tir *p, st_id first, st_id i)
{
	for (st_id k = first; k < i; k = p->st[k].end)
		if (p->st[k].op == ST_alloc && p->st[i].op == ST_alloc && p->st[k].ref == p->st[i].ref)
			return true;
	return false;
}

static void
print_body(struct printing *g, st_id first, st_id end)
{
	for (st_id i = first; i < end; i = g->p->st[i].end)
		if (!is_declared(g->p, first, i))
			print_statement(g, i);
}

/* Is there C for all instructions? */
static bool
has_calls(const struct tir *p, struct err *e)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_call && !intrin_info[p->st[i].ref].text)
			return err_set(
			    e, ERR_INFEASIBLE, "call: no C for %s", intrin_info[p->st[i].ref].name);
	return true;
}

static bool
is_parallel(const struct tir *p, st_id i)
{
	return p->st[i].op == ST_for && p->st[i].bind == BIND_parallel;
}

st_id
end_of_pass(const struct tir *p, st_id i)
{
	if (is_parallel(p, i))
		return p->st[i].end;
	while (i < p->n_st && !is_parallel(p, i))
		i = p->st[i].end;
	return i;
}

/* ---- passes ----------------------------------------------------------------------------------------------
 */
struct use {
	const struct tir *p;
	bool *read, *written;
};

static void
use_read(void *self, const struct ex *read)
{
	((struct use *)self)->read[read->tensor] = true;
}

static void
use_ex(void *self, ex_id e)
{
	struct use *u = self;

	ex_reads(u->p->tx, e, use_read, u);
}

static void
use_ix(void *self, ix_id i)
{
	struct use *u = self;

	ex_reads(u->p->tx, ex_index(u->p->tx, i), use_read, u);
}

static struct use
uses(struct program *q, st_id first, st_id end)
{
	const struct tir *p = q->g.p;
	struct use u = {
	    .p = p, .read = NEW_ARRAY(q->g.a, bool, p->n_buf), .written = NEW_ARRAY(q->g.a, bool, p->n_buf)};

	for (st_id i = first; i < end; i++) {
		tir_each(p, &p->st[i], use_ix, use_ex, &u);
		if (p->st[i].op == ST_store)
			u.written[p->st[i].ref] = true;
		for (uint32_t k = 0; k < p->st[i].n_arg; k++)
			if (tir_arg_is(&p->st[i], k, "wu"))
				u.written[ex_get(p->tx, p->arg[p->st[i].arg0 + k])->tensor] = true;
	}
	return u;
}

/* Bytes of both blocks that temps lie in. */
static void
add_up(struct program *q)
{
	struct use u = uses(q, 0, q->g.p->n_st);

	for (buf_id b = 0; b < q->g.p->n_buf; b++) {
		const struct tir_buf *f = &q->g.p->buf[b];
		size_t *used = f->scope == SCOPE_global ? &q->k->shared_bytes : &q->k->local_bytes;

		if (is_scratch(f) && (u.read[b] || u.written[b]))
			*used = MAX_OF(*used,
			    ck_add((size_t)f->offset, ck_mul(ck_size(f->dim[0]), dtype_size(f->type))));
	}
}

/* Parameters of the body (call false), or what it is called with. */
static void
print_arrays(struct program *q, const struct use *u, bool call)
{
	struct printing *g = &q->g;

	for (buf_id b = 0; b < g->p->n_buf; b++) {
		const struct tir_buf *f = &g->p->buf[b];
		const char *type = print_stored_type(f->type), *is_const = u->written[b] ? "" : "const ";

		if ((!u->read[b] && !u->written[b]) || f->role == BUF_TABLE || f->scope == SCOPE_reg)
			continue;
		if (!call)
			line(g, "%s%s *restrict %s,", is_const, type, print_buf(g, b));
		else if (!is_scratch(f))
			line(g, "(%s%s *)buf[%u],", is_const, type,
			    f->index + (f->role == BUF_RESULT ? q->n_operands : 0));
		else
			line(g, "(%s%s *)(%s + %lld),", is_const, type,
			    f->scope == SCOPE_global ? "shared" : "local", (long long)f->offset);
	}
	line(g, call ? "lo, hi);" : "k_i64 lo, k_i64 hi)");
}

static void
print_head(struct program *q, const struct use *u, uint32_t n)
{
	struct printing *g = &q->g;

	sb_addf(&g->sb, "\nstatic __attribute__((noinline)) void\n%s_b%u(\n", g->symbol, n);
	g->depth = 1;
	print_arrays(q, u, false);
	g->depth = 0;
	line(g, "{");
	g->depth = 1;
}

static void
print_function(struct program *q, const struct use *u, uint32_t n)
{
	struct printing *g = &q->g;

	sb_addf(&g->sb,
	    "}\n\nvoid\n%s_p%u(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n",
	    g->symbol, n);
	line(g, "(void)shared;");
	line(g, "(void)local;");
	line(g, "%s_b%u(", g->symbol, n);
	g->depth = 2;
	print_arrays(q, u, true);
	g->depth = 0;
	line(g, "}");
}

/* Statements first .. end - 1 as pass number n. */
static bool
print_pass(struct program *q, st_id first, st_id end, uint32_t n, struct err *e)
{
	struct printing *g = &q->g;
	const struct st *s = &g->p->st[first];
	struct use u = uses(q, first, end);
	int64_t from = 0, to = 1;

	if (is_parallel(g->p, first) &&
	    (!ix_is_const(g->p->tx, s->from, &from) || !ix_is_const(g->p->tx, s->to, &to)))
		return err_set(e, ERR_INFEASIBLE, "range: a pass's loop has no constant bounds");
	q->k->range[n] = to - from;
	print_head(q, &u, n);
	if (is_parallel(g->p, first)) {
		print_loop(g, first, arena_printf(g->a, from ? "lo + %lld" : "lo", (long long)from),
		    arena_printf(g->a, from ? "hi + %lld" : "hi", (long long)from));
	} else {
		line(g, "if (lo < hi) {");
		g->depth++;
		print_body(g, first, end);
		g->depth--;
		line(g, "}");
	}
	print_function(q, &u, n);
	return true;
}

bool
codegen_c(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    struct codegen_kernel *out, struct err *e)
{
	struct program q = {.g = {.a = a, .p = p, .symbol = symbol}, .k = out, .n_operands = n_operands};

	*out = (struct codegen_kernel){.n_passes = 0};
	q.g.axis = NEW_ARRAY(a, const char *, tx_n_axes(p->tx) + 1);
	sb_init(&q.g.sb, a);
	if (!has_calls(p, e))
		return false;
	add_up(&q);
	for (buf_id b = 0; b < p->n_buf; b++)
		if (p->buf[b].role == BUF_TABLE)
			print_table(&q.g, b);
	for (st_id i = 0, end; i < p->n_st; i = end) {
		end = end_of_pass(p, i);
		if (out->n_passes == CODEGEN_MOST_PASSES)
			return err_set(
			    e, ERR_INFEASIBLE, "passes: a kernel has at most %d", CODEGEN_MOST_PASSES);
		if (!print_pass(&q, i, end, out->n_passes, e))
			return false;
		out->n_passes++;
	}
	out->text = sb_str(&q.g.sb);
	return true;
}
