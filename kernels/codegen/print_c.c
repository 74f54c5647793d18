/* kernels/codegen/print_c.c: a loop program as C: a function for each pass, arrays as parameters of a body
 * that is not inlined (where compilers believe `restrict`), scratch by offsets. */
#include "codegen_int.h"

static void
print_head(struct program *q, const struct use *u, uint32_t n)
{
	struct printing *g = &q->g;

	sb_addf(&g->sb, "\nstatic __attribute__((noinline)) void\n%s_b%u(\n", g->symbol, n);
	g->depth = 1;
	print_arrays(q, u, false);
	print_line(g, "k_i64 lo, k_i64 hi)");
	g->depth = 0;
	print_line(g, "{");
	g->depth = 1;
}

/* Statements first .. end - 1 as pass number n. */
static bool
print_pass(struct program *q, st_id first, st_id end, uint32_t n, struct err *e)
{
	struct printing *g = &q->g;
	const struct st *s = &g->p->st[first];
	struct use u = uses(q, first, end);
	int64_t from = 0, to = 1;

	if (is_range(g->p, first) &&
	    (!ix_is_const(g->p->tx, s->from, &from) || !ix_is_const(g->p->tx, s->to, &to)))
		return err_set(e, ERR_INFEASIBLE, "range: a pass's loop has no constant bounds");
	q->k->range[n] = to - from;
	g->written = u.written;
	print_head(q, &u, n);
	if (is_range(g->p, first)) {
		print_loop(g, first, arena_printf(g->a, from ? "lo + %lld" : "lo", (long long)from),
		    arena_printf(g->a, from ? "hi + %lld" : "hi", (long long)from));
	} else {
		print_line(g, "if (lo < hi) {");
		g->depth++;
		print_body(g, first, end);
		g->depth--;
		print_line(g, "}");
	}
	sb_addz(&g->sb, "}\n\nvoid\n");
	print_entry(q, &u, n, "lo, hi");
	return true;
}

static const struct dialect dialect_c = {
    .table = "static",
    .index = "k_i64",
    .of_constant = "L",
    .restrict_ = "restrict ",
    .independent = "K_INDEPENDENT",
    .written_out = "K_WRITTEN_OUT",
    .global = "",
    .least = "k_least",
    .most = "k_most",
    .floordiv = "k_floordiv",
    .floormod = "k_floormod",
    .pass = print_pass,
};

bool
codegen_c(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    const struct codegen_form *form, struct codegen_kernel *out, struct err *e)
{
	return print_program(a, p, n_operands, symbol, &dialect_c, form, out, e);
}
