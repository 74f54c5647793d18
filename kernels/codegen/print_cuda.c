/* kernels/codegen/print_cuda.c: a loop program as CUDA C, over kernels/generate's prelude, by the same ABI: a
 * pass is a kernel; its range are the blocks, which any grid shares out.
 *
 *   for b in 0..79 block        for (int i0 = lo + K_BLOCK; i0 < hi; i0 += K_BLOCKS) {
 *     for l in 0..128 lane   ->         { const int i1 = K_TID; ... }
 *       ...                     }
 *
 * What stands outside of a loop over threads all threads do, each in registers of its own; what it stores to
 * memory one of them stores. */
#include "codegen_int.h"

enum { GRID_MOST = 1 << 20 };

/* ---- statements ---------------------------------------------------------------------------------------- */
/* The number of the thread among those of the loop. */
static const char *
number_of(struct printing *g, const struct st *s)
{
	const struct threads *t = g->threads;
	const char *tid = "K_TID";
	int64_t from;

	if (t->warps > 1 && t->lanes > 1)
		tid = arena_printf(
		    g->a, "K_TID %c %lld", s->bind == BIND_warp ? '/' : '%', (long long)t->lanes);
	if (ix_is_const(g->p->tx, s->from, &from) && from)
		tid = arena_printf(g->a, "%s + %lld", tid, (long long)from);
	return tid;
}

static void
print_own_threads(struct printing *g, st_id i)
{
	const struct st *s = &g->p->st[i];

	print_line(g, "{");
	g->depth++;
	g->n_threads++;
	print_line(g, "const %s %s = %s;", g->d->index, print_axis(g, s->axis), number_of(g, s));
	print_body(g, i + 1, s->end);
	g->n_threads--;
	g->depth--;
	print_line(g, "}");
	g->axis[s->axis] = NULL;
}

/* What lies in memory is stored once. */
static void
print_own_store(struct printing *g, const struct st *s)
{
	const bool once = g->n_threads == 0 && g->threads->warps * g->threads->lanes > 1 &&
	    g->p->buf[s->ref].scope >= SCOPE_pack;

	if (once)
		print_line(g, "if (K_TID == 0)");
	g->depth += once;
	print_store(g, s);
	g->depth -= once;
}

static bool
print_own(struct printing *g, st_id i)
{
	const struct st *s = &g->p->st[i];
	const struct tir_buf *b = s->op == ST_alloc ? &g->p->buf[s->ref] : NULL;

	if (st_is_thread(s)) {
		print_own_threads(g, i);
		return true;
	}
	if (s->op == ST_sync) {
		print_line(g, "K_BARRIER();");
		return true;
	}
	if (s->op == ST_store) {
		print_own_store(g, s);
		return true;
	}
	if (s->op == ST_for && s->bind == BIND_vector)
		print_line(g, "K_UNROLL");
	if (b && b->scope == SCOPE_local)
		print_line(g, "%s%s %s[%lld];", b->align ? "K_WORDS " : "", print_stored_type(b->type),
		    print_buf(g, s->ref), (long long)b->dim[0]);
	return b && !in_register(b);
}

/* ---- passes -------------------------------------------------------------------------------------------- */
static void
print_shared(struct printing *g, st_id first, st_id end)
{
	for (buf_id b = 0; b < g->p->n_buf; b++) {
		const struct tir_buf *f = &g->p->buf[b];

		if (f->scope == SCOPE_shared && is_within(g->p, first, end, ST_alloc, b))
			print_line(g, "K_SHARED K_WORDS %s %s[%lld];", print_stored_type(f->type),
			    print_buf(g, b), (long long)f->dim[0]);
	}
}

static void
print_work(struct printing *g, st_id first, st_id end)
{
	const struct st *s = &g->p->st[first];
	const bool blocks = s->op == ST_for && s->bind == BIND_block;
	int64_t from = 0;

	if (!blocks) {
		print_line(g, "if (lo + K_BLOCK < hi) {");
		g->depth++;
		print_body(g, first, end);
	} else {
		const char *v = print_axis(g, s->axis);

		(void)ix_is_const(g->p->tx, s->from, &from);
		print_line(g, "for (%s o = lo + K_BLOCK; o < hi; o += K_BLOCKS) {", g->d->index);
		g->depth++;
		print_line(g, from ? "const %s %s = o + %lld;" : "const %s %s = o;", g->d->index, v,
		    (long long)from);
		print_body(g, first + 1, end);
	}
	g->depth--;
	print_line(g, "}");
}

static bool
print_pass(struct program *q, st_id first, st_id end, uint32_t n, struct err *e)
{
	struct printing *g = &q->g;
	const struct st *s = &g->p->st[first];
	const struct threads t = threads_of(g->p, first, end);
	struct use u = uses(q, first, end);
	int64_t from = 0, to = 1;

	(void)e;
	if (s->op == ST_for && s->bind == BIND_block) {
		(void)ix_is_const(g->p->tx, s->from, &from);
		(void)ix_is_const(g->p->tx, s->to, &to);
	}
	g->threads = &t;
	q->k->range[n] = to - from;
	q->k->grid[n] = (uint32_t)MIN_OF(to - from, (int64_t)GRID_MOST);
	q->k->threads[n] = (uint32_t)(t.warps * t.lanes);
	q->k->work[n] = work_of(g->p, first, end);
	sb_addf(&g->sb, "\nK_DEVICE void\n%s_b%u(\n", g->symbol, n);
	g->depth = 1;
	print_arrays(q, &u, false);
	print_line(g, "%s lo, %s hi)", g->d->index, g->d->index);
	g->depth = 0;
	print_line(g, "{");
	g->depth = 1;
	print_shared(g, first, end);
	print_work(g, first, end);
	g->depth = 0;
	print_line(g, "}");
	sb_addf(&g->sb, "\nK_KERNEL K_BOUNDS(%lld)\n", (long long)(t.warps * t.lanes));
	print_entry(q, &u, n, arena_printf(g->a, "(%s)lo, (%s)hi", g->d->index, g->d->index));
	g->threads = NULL;
	return true;
}

/* ---- dialects ------------------------------------------------------------------------------------------ */
/* The words of one whose indices are of a type with functions of a suffix. */
#define CUDA(INDEX, CONSTANT, SUFFIX)                                                                        \
	{                                                                                                    \
		.table = "K_TABLE", .index = (INDEX), .of_constant = (CONSTANT), .restrict_ = "K_RESTRICT ", \
		.unroll = "K_UNROLL", .global = "K_GLOBAL", .quotient = "k_quotient" SUFFIX,                 \
		.rest = "k_rest" SUFFIX, .floordiv = "k_floordiv" SUFFIX, .floormod = "k_floormod" SUFFIX,   \
		.least = "k_least" SUFFIX, .most = "k_most" SUFFIX, .own = print_own, .pass = print_pass,    \
		.is_cuda = true, .declares = true                                                            \
	}
static const struct dialect dialect_cuda = CUDA("int", "", "_i32"), dialect_wide = CUDA("k_i64", "L", "");

/* Do 32 bits count every element? */
static bool
is_small(const struct tir *p)
{
	for (buf_id b = 0; b < p->n_buf; b++) {
		int64_t n = 1;

		for (int d = 0; d < p->buf[b].rank; d++)
			n *= p->buf[b].dim[d];
		if (n >= INT32_MAX / 2)
			return false;
	}
	return true;
}

/* What is spread over lanes is touched by these, or by an instruction. */
static bool
is_dealt_out(const struct tir *p, struct err *e)
{
	st_id path[TIR_DEPTH];
	struct accesses l = {.n = 0};

	for (st_id i = 0; i < p->n_st; i++) {
		bool in_lanes = p->st[i].op == ST_call || p->st[i].op == ST_alloc;

		for (uint32_t k = tir_path(p, i, path); k-- > 0;)
			in_lanes |= p->st[path[k]].op == ST_for && p->st[path[k]].bind == BIND_lane;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n && !in_lanes; k++)
			if (p->buf[l.at[k].buf].scope == SCOPE_spread)
				return err_set(e, ERR_INFEASIBLE, "spread: %%%s is not dealt out to lanes",
				    p->buf[l.at[k].buf].name);
	}
	return true;
}

bool
codegen_cuda(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    struct codegen_kernel *out, struct err *e)
{
	const struct codegen_form form = {.indices = true};

	return is_dealt_out(p, e) &&
	    print_program(
		a, p, n_operands, symbol, is_small(p) ? &dialect_cuda : &dialect_wide, &form, out, e);
}
