/* kernels/codegen/print_pass.c: a loop program as functions, one a pass, in any dialect: what a pass is,
 * which arrays it is given, where temps lie. */
#include "codegen_int.h"

#include <string.h>

/* ---- what a pass is ----------------------------------------------------------------------------------- */
bool
is_range(const struct tir *p, st_id i)
{
	return p->st[i].op == ST_for && (p->st[i].bind == BIND_parallel || st_is_gpu_loop(&p->st[i]));
}

bool
is_for_gpu(const struct tir *p)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (st_is_gpu_loop(&p->st[i]))
			return true;
	return false;
}

st_id
end_of_pass(const struct tir *p, st_id i)
{
	if (is_range(p, i))
		return p->st[i].end;
	while (i < p->n_st && !is_range(p, i))
		i = p->st[i].end;
	return i;
}

/* ---- arrays ------------------------------------------------------------------------------------------- */
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

	ix_reads(u->p->tx, i, use_read, u);
}

/* (What an instruction only writes is no read: of its place, the index alone.) */
static void
use_call(struct use *u, const struct st *s)
{
	for (uint32_t k = 0; k < s->n_arg; k++) {
		const ex_id e = u->p->arg[s->arg0 + k];
		const struct ex n = *ex_get(u->p->tx, e);

		if (!tir_arg_is(s, k, "wu")) {
			use_ex(u, e);
			continue;
		}
		u->written[n.tensor] = true;
		u->read[n.tensor] |= tir_arg_is(s, k, "u");
		for (uint32_t d = 0; d < ixv_get(u->p->tx, n.at).n; d++)
			use_ix(u, ixv_get(u->p->tx, n.at).i[d]);
	}
}

struct use
uses(struct program *q, st_id first, st_id end)
{
	const struct tir *p = q->g.p;
	struct use u = {
	    .p = p, .read = NEW_ARRAY(q->g.a, bool, p->n_buf), .written = NEW_ARRAY(q->g.a, bool, p->n_buf)};

	for (st_id i = first; i < end; i++) {
		if (p->st[i].op == ST_call)
			use_call(&u, &p->st[i]);
		else
			tir_each(p, &p->st[i], use_ix, use_ex, &u);
		if (p->st[i].op == ST_store)
			u.written[p->st[i].ref] = true;
	}
	return u;
}

/* Does a pass get the array, or does it declare it? */
static bool
is_given(const struct program *q, const struct tir_buf *f)
{
	if (f->role == BUF_TABLE || in_register(f))
		return false;
	return f->scope == SCOPE_global || f->scope == SCOPE_pack || !q->g.d->declares;
}

/* Bytes of both blocks that temps lie in; threads of a GPU declare their own. */
static void
add_up(struct program *q)
{
	struct use u = uses(q, 0, q->g.p->n_st);

	for (buf_id b = 0; b < q->g.p->n_buf; b++) {
		const struct tir_buf *f = &q->g.p->buf[b];
		size_t *used = f->scope == SCOPE_global ? &q->k->shared_bytes : &q->k->local_bytes;

		if (is_scratch(f) && (u.read[b] || u.written[b]) && is_given(q, f))
			*used = MAX_OF(*used,
			    ck_add((size_t)f->offset, ck_mul(ck_size(f->dim[0]), dtype_size(f->type))));
	}
}

/* Does no other pointer reach it?  What a GPU's threads store and read again comes from others of them: with
 * that word compilers read it before the barrier. */
static bool
is_restricted(const struct program *q, const struct use *u, buf_id b)
{
	return !q->g.sharing.is_shared[b] && !(q->g.d->is_cuda && u->read[b] && u->written[b]);
}

void
print_arrays(struct program *q, const struct use *u, bool call)
{
	struct printing *g = &q->g;

	for (buf_id b = 0; b < g->p->n_buf; b++) {
		const struct tir_buf *f = &g->p->buf[b];
		const char *type = print_stored_type(f->type), *is_const = u->written[b] ? "" : "const ";
		const char *at = f->scope == SCOPE_global ? "shared" : "local";

		if ((!u->read[b] && !u->written[b]) || !is_given(q, f))
			continue;
		if (!call)
			print_line(g, "%s%s *%s%s,", is_const, type,
			    is_restricted(q, u, b) ? g->d->restrict_ : "", print_buf(g, b));
		else if (is_scratch(f))
			print_line(g, "(%s%s *)%s(%s + %lld),", is_const, type, g->d->global, at,
			    (long long)f->offset);
		else
			print_line(g, g->d->global[0] ? "(%s%s *)%s(buf[%u])," : "(%s%s *)%sbuf[%u],",
			    is_const, type, g->d->global,
			    f->index + (f->role == BUF_RESULT ? q->n_operands : 0));
	}
}

/* Is there a text for all instructions? */
static bool
has_calls(const struct tir *p, const struct dialect *d, struct err *e)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_call && !call_text(d, &p->st[i]))
			return err_set(e, ERR_INFEASIBLE, "call: no %s for %s", d->is_cuda ? "CUDA" : "C",
			    intrin_info[p->st[i].ref].name);
	return true;
}

void
print_entry(struct program *q, const struct use *u, uint32_t n, const char *range)
{
	struct printing *g = &q->g;

	sb_addf(&g->sb, "%s_p%u(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n",
	    g->symbol, n);
	g->depth = 1;
	print_line(g, "(void)shared;");
	print_line(g, "(void)local;");
	print_line(g, "%s_b%u(", g->symbol, n);
	g->depth = 2;
	print_arrays(q, u, true);
	print_line(g, "%s);", range);
	g->depth = 0;
	print_line(g, "}");
}

bool
print_program(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    const struct dialect *d, const struct codegen_form *form, struct codegen_kernel *out, struct err *e)
{
	struct program q = {.g = {.a = a, .p = p, .symbol = symbol, .d = d, .form = form, .lane = AXIS_NONE},
	    .k = out,
	    .n_operands = n_operands};

	*out = (struct codegen_kernel){.n_passes = 0};
	if (!codegen_packs(a, p, out, e))
		return false;
	q.g.axis = NEW_ARRAY(a, const char *, tx_n_axes(p->tx) + 1);
	q.g.number = NEW_ARRAY(a, uint32_t, tx_n_axes(p->tx) + 1);
	q.g.again = NEW_ARRAY(a, const char *, p->n_buf + 1);
	sb_init(&q.g.sb, a);
	if (!has_calls(p, d, e))
		return false;
	find_overlaps(a, p, &q.g.sharing);
	find_wide(a, p, &q.g.sharing, form->lanes, &q.g.wide);
	out->overlaps = q.g.sharing.pair;
	out->n_overlaps = q.g.sharing.n;
	add_up(&q);
	for (buf_id b = 0; b < p->n_buf; b++)
		if (p->buf[b].role == BUF_TABLE)
			print_table(&q.g, b);
	for (st_id i = 0, end; i < p->n_st; i = end) {
		end = end_of_pass(p, i);
		q.g.n_axes = q.g.n_bases = 0;
		if (out->n_passes == CODEGEN_MOST_PASSES)
			return err_set(
			    e, ERR_INFEASIBLE, "passes: a kernel has at most %d", CODEGEN_MOST_PASSES);
		if (!d->pass(&q, i, end, out->n_passes, e))
			return false;
		out->n_passes++;
	}
	out->text = sb_str(&q.g.sb);
	return true;
}
