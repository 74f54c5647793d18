/* kernels/codegen/print_st.c: statements of a loop program, as all dialects have them; what one has another
 * form for it prints itself (dialect.def). */
#include "codegen_int.h"

#include <stdarg.h>

void
print_line(struct printing *g, const char *fmt, ...)
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

	if (g->again[b])
		return g->again[b];
	if (f->role == BUF_OPERAND)
		return arena_printf(g->a, "x%u", f->index);
	if (f->role == BUF_RESULT)
		return arena_printf(g->a, "y%u", f->index);
	if (f->role == BUF_TABLE)
		return arena_printf(g->a, "%s_t%u", g->symbol, b);
	return arena_printf(g->a, in_register(f) ? "r%u" : f->scope == SCOPE_global ? "s%u" : "l%u", b);
}

bool
in_register(const struct tir_buf *b)
{
	return b->scope == SCOPE_reg || b->scope == SCOPE_spread;
}

int64_t
registers_of(const struct printing *g, const struct tir_buf *b)
{
	const int64_t threads = b->scope == SCOPE_spread ? g->threads->warps * g->threads->lanes : 1;

	return in_register(b) ? ceil_div(b->dim[0], threads) : 0;
}

bool
is_scratch(const struct tir_buf *b)
{
	return b->role == BUF_TEMP && !in_register(b);
}

void
print_table(struct printing *g, buf_id b)
{
	const struct tir_buf *f = &g->p->buf[b];

	print_line(g, "%s const %s %s[%lld] = {", g->d->table, print_stored_type(f->type), print_buf(g, b),
	    (long long)f->dim[0]);
	g->depth++;
	for (int64_t i = 0; i < f->dim[0]; i++) {
		ex_id c = dtype_is_float(f->type)
		    ? ex_real(g->p->tx, f->type, elem_get(f->type, f->data, i))
		    : ex_whole(g->p->tx, f->type, elem_get_int(f->type, f->data, i));

		if (f->type == DT_f16 || f->type == DT_bf16)
			print_line(g, "%u,", ((const uint16_t *)f->data)[i]);
		else
			print_line(g, "%s,", print_ex(g, c));
	}
	g->depth--;
	print_line(g, "};");
}

/* ---- statements ---------------------------------------------------------------------------------------- */
void
print_store(struct printing *g, const struct st *s)
{
	const struct tir_buf *b = &g->p->buf[s->ref];
	const struct ex v = *ex_get(g->p->tx, s->value);
	const bool is_half = !in_register(b) && (b->type == DT_f16 || b->type == DT_bf16);
	const char *to = print_element(g, s->ref, s->at);

	if (is_half && v.kind == EX_READ && !in_register(&g->p->buf[v.tensor])) /* its bits */
		print_line(g, "%s = %s;", to, print_element(g, v.tensor, v.at));
	else if (is_half)
		print_line(g, "%s = k_store_%s(%s);", to, dtype_name(b->type), print_ex(g, s->value));
	else
		print_line(g, "%s = %s;", to, g->is_wide ? vector_text(g, s->value) : print_ex(g, s->value));
}

const char *
call_text(const struct dialect *d, const struct st *s)
{
	return d->is_cuda ? intrin_info[s->ref].cuda : intrin_info[s->ref].text;
}

/* intrin.def says what $0 and #0 are. */
static void
print_call(struct printing *g, const struct st *s)
{
	struct strbuf sb;

	sb_init(&sb, g->a);
	for (const char *t = call_text(g->d, s); *t; t++) {
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
	print_line(g, "%s;", sb_str(&sb).p);
}

void
print_loop(struct printing *g, st_id i, const char *from, const char *to)
{
	const struct st *s = &g->p->st[i];
	const char *v = print_axis(g, s->axis);

	if (g->d->independent && is_independent(g->p, i, &g->sharing))
		print_line(g, "%s", g->d->independent);
	if (g->d->unroll && s->bind == BIND_unroll)
		print_line(g, "%s", g->d->unroll);
	if (g->d->written_out && is_written_out(g->p, i))
		print_line(g, "%s", g->d->written_out);
	print_line(g, "for (%s %s = %s; %s < %s; %s++) {", g->d->index, v, from, v, to, v);
	g->depth++;
	print_body(g, i + 1, s->end);
	g->depth--;
	print_line(g, "}");
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
	print_line(g, "if (%s) {", s->n_guard ? sb_str(&sb).p : "1");
	g->depth++;
	print_body(g, i + 1, s->end);
	g->depth--;
	print_line(g, "}");
}

static void
print_alloc(struct printing *g, buf_id buf)
{
	const struct tir_buf *b = &g->p->buf[buf];
	const char *name = print_buf(g, buf);

	if (!in_register(b))
		return;
	if (g->wide.buf[buf])
		print_vectors(g, buf);
	else if (registers_of(g, b) > 1)
		print_line(
		    g, "%s %s[%lld];", print_computed_type(b->type), name, (long long)registers_of(g, b));
	else
		print_line(g, "%s %s;", print_computed_type(b->type), name);
}

static void
print_let(struct printing *g, const struct st *s)
{
	if (!g->is_wide)
		print_line(g, "const %s v%u = %s;", print_computed_type(ex_get(g->p->tx, s->value)->type),
		    s->ref, print_ex(g, s->value));
	else
		print_line(g, "const k_v%u v%u = %s;", g->vec, s->ref, vector_text(g, s->value));
}

void
print_statement(struct printing *g, st_id i)
{
	const struct st *s = &g->p->st[i];
	const char *from;

	if (g->d->own && g->d->own(g, i))
		return;
	switch (s->op) {
	case ST_for:
		if (g->wide.loop[i]) {
			print_wide(g, i);
			return;
		}
		print_loop(g, i, print_ix(g, s->from), print_ix(g, s->to));
		return;
	case ST_if:
		print_if(g, i);
		return;
	case ST_let:
		print_let(g, s);
		return;
	case ST_store:
		print_store(g, s);
		return;
	case ST_alloc:
		print_alloc(g, s->ref);
		return;
	case ST_call:
		if (!print_held(g, s))
			print_call(g, s);
		return;
	case ST_index:
		from = print_ix(g, s->from);
		print_line(g, "const %s %s = %s;", g->d->index, print_axis(g, s->axis), from);
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

/* Those that statement i is the first to touch, until the body ends. */
static void
print_bases(struct printing *g, const struct bases *l, st_id i)
{
	for (uint32_t k = 0; k < l->n; k++) {
		struct base b = l->at[k];

		if (b.by != i || find_base(&g->bases, g->p->tx, b.buf, b.at))
			continue;
		b.number = g->n_bases++;
		print_line(g, "%s%s *const p%u = &%s[%s];", g->written[b.buf] ? "" : "const ",
		    print_stored_type(g->p->buf[b.buf].type), b.number, print_buf(g, b.buf),
		    print_ix(g, ix_addc(g->p->tx, b.at, b.first)));
		GROW(g->a, g->bases.at, g->bases.n, g->bases.cap);
		g->bases.at[g->bases.n++] = b;
	}
}

/* Pointers for what statements from i on read anew; where there are some: of which buffers, else NULL. */
static const bool *
print_afresh(struct printing *g, st_id first, st_id i)
{
	bool *is = NEW_ARRAY(g->a, bool, g->p->n_buf + 1);

	if (!find_afresh(g->a, g->p, &g->wide, g->form->registers, first, i, is))
		return NULL;
	for (buf_id b = 0; b < g->p->n_buf; b++) {
		is[b] &= g->again[b] == NULL;
		if (!is[b])
			continue;
		const char *name = arena_printf(g->a, "p%u", g->n_bases++);

		print_line(
		    g, "const %s *%s = %s;", print_stored_type(g->p->buf[b].type), name, print_buf(g, b));
		print_line(g, "K_HIDE_PLACE(%s);", name);
		g->again[b] = name;
	}
	return is;
}

void
print_body(struct printing *g, st_id first, st_id end)
{
	const uint32_t outer = g->bases.n;
	struct bases own = {.n = 0};
	const bool *again = NULL;
	bool is_behind = false;

	if (!g->form->indices)
		find_bases(g->p, &g->wide, first, end, &own);
	for (st_id i = first; i < end; i = g->p->st[i].end) {
		if (is_declared(g->p, first, i))
			continue;
		if (is_behind && !again)
			again = print_afresh(g, first, i);
		print_bases(g, &own, i);
		print_statement(g, i);
		is_behind = g->p->st[i].op == ST_for && !g->wide.loop[i];
	}
	for (buf_id b = 0; again && b < g->p->n_buf; b++)
		if (again[b])
			g->again[b] = NULL;
	g->bases.n = outer;
}
