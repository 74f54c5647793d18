/* kernels/fuse/tile_print.c: the tile program as text, for people and golden tests. */
#include "tile.h"

static void ex_print(struct strbuf *sb, const struct tx *x, ex_id e);

static void
ix_print(struct strbuf *sb, const struct tx *x, ix_id i)
{
	static const char *const two[] = {
	    [IX_DIV] = "div", [IX_MOD] = "mod", [IX_MIN] = "min", [IX_MAX] = "max"};
	const struct ix *n = ix_get(x, i);

	switch (n->kind) {
	case IX_AXIS:
		sb_addf(sb, "a%u", n->a);
		return;
	case IX_VALUE:
		sb_addz(sb, "value(");
		ex_print(sb, x, n->a);
		sb_addz(sb, ")");
		return;
	case IX_LIN:
		for (uint32_t k = 0; k < n->n_terms; k++) {
			sb_addf(sb, "%s%lld*", k ? " + " : "", (long long)n->terms[k].coef);
			ix_print(sb, x, n->terms[k].atom);
		}
		if (n->c || n->n_terms == 0)
			sb_addf(sb, "%s%lld", n->n_terms ? " + " : "", (long long)n->c);
		return;
	case IX_DIV:
	case IX_MOD:
	case IX_MIN:
	case IX_MAX:
		sb_addf(sb, "%s(", two[n->kind]);
		ix_print(sb, x, n->a);
		if (n->kind == IX_DIV || n->kind == IX_MOD)
			sb_addf(sb, ", %lld)", (long long)n->c);
		else {
			sb_addz(sb, ", ");
			ix_print(sb, x, n->b);
			sb_addz(sb, ")");
		}
		return;
	}
}

static void
ex_print(struct strbuf *sb, const struct tx *x, ex_id e)
{
	const struct ex *n = ex_get(x, e);

	switch (n->kind) {
	case EX_CONST:
		if (dtype_is_float(n->type))
			sb_addf(sb, "%g", n->real);
		else
			sb_addf(sb, "%lld", (long long)n->whole);
		return;
	case EX_VAR:
	case EX_READ:
	case EX_SCRATCH:
		sb_addf(sb, "%c%u[", n->kind == EX_READ ? 't' : 's', n->tensor);
		ix_print(sb, x, n->ix);
		sb_addz(sb, "]");
		return;
	case EX_INDEX:
		ix_print(sb, x, n->ix);
		return;
	case EX_GUARD:
		sb_addf(sb, "guard(%lld <= ", (long long)n->lo);
		ix_print(sb, x, n->ix);
		sb_addf(sb, " < %lld, ", (long long)n->hi);
		break;
	case EX_MAP:
		sb_addf(sb, "%s(", prim_info[n->prim].name);
		break;
	}
	for (uint32_t k = 0; k < n->n_arg; k++) {
		sb_addz(sb, k ? ", " : "");
		ex_print(sb, x, n->arg[k]);
	}
	sb_addz(sb, ")");
}

static const char *const kind_names[] = {[STAGE_MAP] = "map",
    [STAGE_REDUCE] = "reduce",
    [STAGE_ARG] = "arg",
    [STAGE_LINEAR] = "linear",
    [STAGE_SCAN] = "scan",
    [STAGE_TOPK] = "topk",
    [STAGE_SCATTER] = "scatter"};
static const char *const place_names[] = {[AT_NOWHERE] = "nowhere",
    [AT_OPERAND] = "operand",
    [AT_RESULT] = "result",
    [AT_TABLE] = "table",
    [AT_SHARED] = "shared",
    [AT_LOCAL] = "local"};

static void
print_axes(struct strbuf *sb, const struct stage *s, uint32_t from, uint32_t n)
{
	for (uint32_t k = from; k < from + n; k++)
		sb_addf(sb, "%sa%u<%lld", k > from ? " " : "", s->axis[k].id, (long long)s->axis[k].extent);
}

static void
print_stage(
    struct strbuf *sb, const struct tile_prog *p, const struct stage *s, const char *when, bool is_bound)
{
	const struct tile_tensor *t = &p->tensors[s->tensor];

	sb_addf(sb, "  %s t%u %s %s[", when, s->tensor, kind_names[s->kind], place_names[t->at]);
	if (is_bound && s->out != IX_NONE)
		ix_print(sb, p->tx, s->out);
	sb_addz(sb, "] over (");
	print_axes(sb, s, 0, s->n_par);
	if (s->n_red) {
		sb_addz(sb, " | ");
		print_axes(sb, s, s->n_par, s->n_red);
	}
	sb_addz(sb, ") = ");
	if (s->body != EX_NONE)
		ex_print(sb, p->tx, s->body);
	sb_addc(sb, '\n');
}

void
tile_print(struct strbuf *sb, const struct tile_prog *p)
{
	tile_print_level(sb, p, TILE_BOUND);
}

static void
print_unplaced(struct strbuf *sb, const struct tile_prog *p)
{
	for (uint32_t i = 0; i < p->n_stages; i++)
		print_stage(sb, p, &p->stages[i], p->stages[i].sweeps ? "turn" : "stage", false);
}

void
tile_print_level(struct strbuf *sb, const struct tile_prog *p, enum tile_form level)
{
	if (level == TILE_STAGES) {
		print_unplaced(sb, p);
		return;
	}
	if (level == TILE_BOUND)
		sb_addf(sb, "shared %zu local %zu\n", p->shared_bytes, p->local_bytes);
	if (p->n_turns)
		sb_addf(sb, "a%u counts %lld turns of a step's sweep\n", p->turn, (long long)p->n_turns);
	for (uint32_t q = 0; q < p->n_passes; q++) {
		const struct tile_pass *tp = &p->pass[q];

		sb_addf(sb, "pass %u range %lld outer (", q, (long long)tp->range);
		for (uint32_t u = 0; u < tp->n_outer; u++)
			sb_addf(
			    sb, "%sa%u:%lld", u ? " " : "", tp->outer[u].id, (long long)tp->outer[u].extent);
		sb_addz(sb, ")\n");
		for (uint32_t i = 0; i < tp->n_call; i++)
			print_stage(sb, p, &p->stages[tp->call[i]], "call", level == TILE_BOUND);
		for (uint32_t i = 0; i < tp->n_row; i++)
			print_stage(sb, p, &p->stages[tp->row[i]],
			    p->stages[tp->row[i]].sweeps ? "turn" : "row", level == TILE_BOUND);
	}
}
