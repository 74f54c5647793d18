/* kernels/emit/emit_c.c: a whole kernel: head comment, tables, one function a pass or group of passes. */
#include "gen_int.h"
#include "library_int.h"
#include "linear_int.h"

#include <string.h>

/* ---- head ------------------------------------------------------------------------------------------ */
void
gen_head(struct gen *g, const struct spec *s, struct str schedule)
{
	char hex[65];
	struct strbuf text = {0};
	struct str rest;

	hash_hex(&s->hash, hex);
	gen_line(g, "/* spec %s", hex);
	gen_line(g, " * schedule \"%.*s\", generator epoch %d", STR_ARG(schedule), GENERATOR_EPOCH);
	sb_init(&text, g->a);
	graph_print(&text, &s->g);
	rest = sb_str(&text);
	while (rest.n) {
		struct str row = str_cut(&rest, '\n');
		const bool is_long = row.n > 100;

		if (row.n)
			gen_line(
			    g, " *   %.*s%s", (int)(is_long ? 100 : row.n), row.p, is_long ? " ..." : "");
	}
	gen_line(g, " */");
}

struct table_use {
	struct gen *g;
	bool *used;
};

static void
note_table(void *self, const struct ex *read)
{
	struct table_use *u = self;

	if (u->g->p->tensors[read->tensor].at == AT_TABLE)
		u->used[read->tensor] = true;
}

static void
note_stage_tensors(struct table_use *u, const struct stage *s)
{
	const struct tx *x = u->g->tx;

	if (s->body != EX_NONE)
		ex_reads(x, s->body, note_table, u);
	if (s->init != EX_NONE)
		ex_reads(x, s->init, note_table, u);
	if (s->target != IX_NONE)
		ex_reads(x, ex_index(u->g->tx, s->target), note_table, u);
}

static void
write_table(struct gen *g, uint32_t t)
{
	const struct tile_tensor *x = &g->p->tensors[t];
	const int a_row = 8;

	gen_open(g, "%s %s %s[%lld] =", g->d->table, gen_stored_type(g, x->type), gen_tensor(g, t),
	    (long long)x->count);
	for (int64_t i = 0; i < x->count; i += a_row) {
		struct strbuf sb;

		sb_init(&sb, g->a);
		for (int64_t k = i; k < MIN_OF(i + a_row, x->count); k++) {
			struct ex c = {.kind = EX_CONST, .type = x->type};

			if (x->type == DT_f16 || x->type == DT_bf16) {
				sb_addf(&sb, "%u, ", ((const uint16_t *)x->data)[k]);
				continue;
			}
			if (dtype_is_float(x->type))
				c.real = elem_get(x->type, x->data, k);
			else
				c.whole = elem_get_int(x->type, x->data, k);
			sb_addf(&sb, "%s, ", gen_const(g, &c));
		}
		gen_line(g, "%s", sb_str(&sb).p);
	}
	g->depth--;
	gen_line(g, "};");
}

static void
tables(struct gen *g)
{
	struct table_use u = {.g = g, .used = NEW_ARRAY(g->a, bool, g->p->n_tensors)};

	for (uint32_t i = 0; i < g->p->n_stages; i++)
		note_stage_tensors(&u, &g->p->stages[i]);
	for (uint32_t t = 0; t < g->p->n_tensors; t++)
		if (u.used[t])
			write_table(g, t);
}

/* ---- a pass ----------------------------------------------------------------------------------------------
 */
static void
note_read(void *self, const struct ex *read)
{
	((struct array_use *)self)->read[read->tensor] = true;
}

void
gen_note_stage(struct array_use *u, const struct stage *s)
{
	struct tx *x = u->g->tx;
	const ex_id all[] = {s->body, s->init};

	for (uint32_t k = 0; k < COUNT_OF(all); k++)
		if (all[k] != EX_NONE)
			ex_reads(x, all[k], note_read, u);
	if (s->target != IX_NONE)
		ex_reads(x, ex_index(x, s->target), note_read, u);
	u->written[s->tensor] = true;
	if (s->tensor2 != UINT32_MAX)
		u->written[s->tensor2] = true;
	if (s->anchor && (s->anchor->k_chunk || s->anchor->wino))
		u->written[s->anchor->sums] = true;
	if (s->anchor && s->anchor->wino)
		u->written[s->anchor->v] = true;
	for (uint32_t k = 0; s->anchor && k < s->anchor->n_epilogue; k++)
		gen_note_stage(u, &u->g->p->stages[s->anchor->epilogue[k].stage]);
}

/* An operand and a result that may be the same bytes are not promised to be apart. */
static const char *
restrict_text(struct gen *g, const struct tile_tensor *x)
{
	return x->shares ? "" : arena_printf(g->a, "%s ", g->d->restrict_);
}

/* The arrays that the pass touches, as parameters of its body (from NULL), or as what they are called with.
 * (Parameters, because that is where compilers believe `restrict`.) */
static void
arrays(struct gen *g, const struct array_use *u, const char *from, const char *to)
{
	const bool call = from != NULL;
	uint32_t n_in = g->p->spec->g.n_inputs;

	for (uint32_t t = 0; t < g->p->n_tensors; t++) {
		const struct tile_tensor *x = &g->p->tensors[t];
		const char *type = gen_stored_type(g, x->type), *is_const = u->written[t] ? "" : "const ";

		if ((!u->read[t] && !u->written[t]) || x->at == AT_TABLE)
			continue;
		if (!call)
			gen_line(g, "%s%s *%s%s,", is_const, type, restrict_text(g, x), gen_tensor(g, t));
		else if (x->at == AT_OPERAND || x->at == AT_RESULT)
			gen_line(g, "(%s%s *)buf[%u],", is_const, type,
			    x->index + (x->at == AT_RESULT ? n_in : 0));
		else
			gen_line(g, "(%s%s *)(%s + %zu),", is_const, type,
			    x->at == AT_SHARED ? "shared" : "local", x->offset);
	}
	if (call)
		gen_line(g, "%s, %s);", from, to);
	else
		gen_line(g, "k_i64 lo, k_i64 hi)");
}

const char *
gen_stage_words(struct gen *g, const struct stage *s)
{
	if (s->node == NO_NODE && s->packs)
		return "a factor, packed by columns";
	if (s->node == NO_NODE)
		return g->p->tensors[s->tensor].at == AT_RESULT
		    ? "copy"
		    : "rows of a factor, with what stands before it";
	return arena_printf(g->a, "%%%u = %s", s->tensor, prim_info[s->prim].name);
}

/* o counts the range; the outer axes are its digits. */
void
gen_bind_outer(struct gen *g, const struct tile_pass *tp)
{
	int64_t below = tp->range;

	for (uint32_t u = 0; u < tp->n_outer; u++) {
		int64_t n = tx_axis_get(g->tx, tp->outer[u].id)->hi + 1;
		const char *name = arena_printf(g->a, "o%u", u);

		below /= n;
		if (n == 1)
			continue;
		if (u == 0 && below == 1)
			gen_line(g, "const %s o0 = o;", g->index);
		else if (u == 0)
			gen_line(g, "const %s o0 = o / %lld;", g->index, (long long)below);
		else if (below == 1)
			gen_line(g, "const %s %s = o %% %lld;", g->index, name, (long long)n);
		else
			gen_line(g, "const %s %s = o / %lld %% %lld;", g->index, name, (long long)below,
			    (long long)n);
		gen_bind(g, tp->outer[u].id, name);
	}
}

/* Rings of rows: which rows this step makes.  A call begins anywhere, and each image begins anew. */
static void
bind_rings(struct gen *g, const struct tile_pass *tp)
{
	const struct pass_outer *last = tp->n_outer ? &tp->outer[tp->n_outer - 1] : NULL;

	for (uint32_t k = 0; k < tp->n_rings; k++) {
		const struct pass_ring *r = &tp->ring[k];
		ix_id o = ix_axis(g->tx, last->id), first = ix_mulc(g->tx, o, r->scale * tp->block);
		int64_t end = MIN_OF(r->scale * (last->extent - 1) + r->hi + 1, r->extent);
		const char *at = arena_printf(g->a, "from%u", k), *n = arena_printf(g->a, "rows%u", k);

		gen_line(g, "if (o == lo%s)",
		    tp->n_outer == 1 ? "" : arena_printf(g->a, " || (%s) == 0", gen_ix(g, o)));
		gen_line(g, "\tupto%u = 0;", k);
		gen_line(g, "const %s %s = k_most(upto%u, %s);", g->index, at, k,
		    gen_ix(g, ix_addc(g->tx, first, r->lo)));
		gen_line(g, "upto%u = k_least(%s, %lld);", k,
		    gen_ix(g, ix_addc(g->tx, first, r->scale * (tp->block - 1) + r->hi + 1)), (long long)end);
		gen_line(g, "const %s %s = upto%u - %s;", g->index, n, k, at);
		gen_bind(g, r->at, at);
		gen_bind(g, r->n, n);
	}
}

/* Stage i of the pass's row, perhaps with the one behind it; returns the last one's number. */
static uint32_t
row_stage(struct gen *g, const struct tile_pass *tp, uint32_t i)
{
	const struct stage *s = &g->p->stages[tp->row[i]];
	const struct stage *next = i + 1 < tp->n_row ? &g->p->stages[tp->row[i + 1]] : NULL;

	gen_line(g, "/* %s */", gen_stage_words(g, s));
	if (s->level)
		gen_open(g, "if (rows%u > 0)", s->level - 1);
	if (next && next->level == s->level && next->sweeps == s->sweeps && gen_map_reduce(g, s, next)) {
		gen_line(g, "/* and %s */", gen_stage_words(g, next));
		i++;
	} else {
		gen_stage(g, s);
	}
	if (s->level)
		gen_close(g);
	return i;
}

/* What the sweep's turns hand on, before the first. */
static void
open_sweep(struct gen *g, const struct tile_pass *tp)
{
	for (uint32_t i = 0; i < g->p->n_stages; i++) {
		const struct tile_tensor *t = &g->p->tensors[g->p->stages[i].tensor];
		const struct ex first = {.kind = EX_CONST, .type = t->type, .real = t->first};

		if (!t->carried || &g->p->pass[g->p->stages[i].pass] != tp)
			continue;
		gen_open(g, "for (%s i = 0; i < %lld; i++)", g->index, (long long)t->n_local);
		gen_line(g, "%s[i] = %s;", gen_tensor(g, g->p->stages[i].tensor), gen_const(g, &first));
		gen_close(g);
	}
	gen_open(g, "for (%s turn = 0; turn < %lld; turn++)", g->index, (long long)g->p->n_turns);
	gen_bind(g, g->p->turn, "turn");
}

static void
close_sweep(struct gen *g)
{
	gen_bind(g, g->p->turn, NULL);
	gen_close(g);
}

/* The stages of a step; those that sweep follow each other. */
static void
pass_steps(struct gen *g, const struct tile_pass *tp)
{
	bool in_sweep = false;

	for (uint32_t i = 0; i < tp->n_row; i++) {
		const bool sweeps = g->p->stages[tp->row[i]].sweeps;

		if (sweeps && !in_sweep)
			open_sweep(g, tp);
		if (!sweeps && in_sweep)
			close_sweep(g);
		in_sweep = sweeps;
		i = row_stage(g, tp, i);
	}
	if (in_sweep)
		close_sweep(g);
}

static void
pass_body(struct gen *g, const struct tile_pass *tp)
{
	uint32_t mark = gen_mark(g);

	gen_line(g, "{");
	g->depth++;
	for (uint32_t i = 0; i < tp->n_call; i++) {
		gen_line(g, "/* %s, once a call */", gen_stage_words(g, &g->p->stages[tp->call[i]]));
		gen_stage(g, &g->p->stages[tp->call[i]]);
	}
	for (uint32_t k = 0; k < tp->n_rings; k++)
		gen_line(g, "%s upto%u = 0; /* rows of ring %u made so far */", g->index, k, k);
	gen_open(g, "for (%s o = lo; o < hi; o += 1)", g->index);
	gen_bind_outer(g, tp);
	bind_rings(g, tp);
	pass_steps(g, tp);
	gen_close(g);
	gen_close(g);
	gen_forget(g, mark);
}

/* The body of pass q, a function of its own. */
static struct array_use
body(struct gen *g, uint32_t q)
{
	const struct tile_pass *tp = &g->p->pass[q];
	struct array_use u = {.g = g,
	    .read = NEW_ARRAY(g->a, bool, g->p->n_tensors),
	    .written = NEW_ARRAY(g->a, bool, g->p->n_tensors)};

	for (uint32_t i = 0; i < tp->n_call; i++)
		gen_note_stage(&u, &g->p->stages[tp->call[i]]);
	for (uint32_t i = 0; i < tp->n_row; i++)
		gen_note_stage(&u, &g->p->stages[tp->row[i]]);
	gen_line(g, "%s", "");
	gen_line(g, "%s", g->d->body);
	gen_line(g, "%s_b%u(", g->symbol, q);
	g->depth++;
	arrays(g, &u, NULL, NULL);
	g->depth--;
	pass_body(g, tp);
	return u;
}

static void
call_body(struct gen *g, uint32_t q, const struct array_use *u, const char *from, const char *to)
{
	gen_line(g, "%s_b%u(", g->symbol, q);
	g->depth++;
	arrays(g, u, from, to);
	g->depth--;
}

/* The steps of pass q that units lo .. hi of the group stand for, cut at the nearest step; its own units
 * begin at `first`. */
static void
call_share(struct gen *g, uint32_t q, const struct array_use *u, int64_t first, int64_t units)
{
	const int64_t steps = g->p->pass[q].range;
	const char *const end[] = {"lo", "hi"}, *const name[] = {"from", "to"};

	gen_open(g, "/* units %lld .. %lld are the %lld steps of pass %u */", (long long)first,
	    (long long)(first + units - 1), (long long)steps, q);
	for (uint32_t k = 0; k < 2; k++)
		gen_line(g, "const k_i64 %s = (k_least(k_most(%s - %lld, 0), %lld) * %lld + %lld) / %lld;",
		    name[k], end[k], (long long)first, (long long)units, (long long)steps,
		    (long long)units / 2, (long long)units);
	gen_open(g, "if (from < to)");
	call_body(g, q, u, "from", "to");
	gen_close(g);
	gen_close(g);
}

/* What runs between two barriers: a pass, or several side by side. */
static void
group(struct gen *g, uint32_t i)
{
	const struct tile_group *tg = &g->p->group[i];
	struct array_use *use = NEW_ARRAY(g->a, struct array_use, tg->n);
	int64_t first = 0;

	for (uint32_t k = 0; k < tg->n; k++)
		use[k] = body(g, tg->pass[k]);
	gen_line(g, "%s", "");
	gen_line(g, "%s", g->d->function);
	gen_line(g, "%s_p%u(%s)", g->symbol, i, g->d->params);
	gen_line(g, "{");
	g->depth++;
	gen_line(g, "(void)shared;");
	gen_line(g, "(void)local;");
	if (tg->n == 1)
		call_body(g, tg->pass[0], &use[0], "lo", "hi");
	for (uint32_t k = 0; k < tg->n && tg->n > 1; first += tg->units[k++])
		call_share(g, tg->pass[k], &use[k], first, tg->units[k]);
	gen_close(g);
}

/* The forms that packed operands come in. */
static void
packs(struct arena *a, const struct tile_prog *p, struct kernel_code *out)
{
	out->desc.packs = NEW_ARRAY(a, struct pack, p->n_tensors);
	for (uint32_t t = 0; t < p->n_tensors; t++) {
		const struct tile_pack *from = p->tensors[t].pack;

		if (!from)
			continue;
		struct pack *to = &out->desc.packs[out->desc.n_packs++];

		*to = (struct pack){.operand = p->tensors[t].index,
		    .rank = from->rank,
		    .base = from->base,
		    .n_columns = from->n_columns,
		    .n_maps = from->n_maps};
		memcpy(to->map, from->map, sizeof to->map);
		memcpy(to->dim, from->dim, sizeof to->dim);
		memcpy(to->coef, from->coef, sizeof to->coef);
		memcpy(to->column, from->column, sizeof to->column);
	}
}

/* The functions that it may share with other kernels, each once. */
static void
parts(const struct gen *g, struct kernel_code *out)
{
	struct kernel_part *list = NEW_ARRAY(g->a, struct kernel_part, MAX_OF(g->n_shared, 1u));

	for (uint32_t i = 0; i < g->n_shared; i++) {
		const struct gen_shared *f = &g->shared[i];
		uint32_t k = 0;

		while (k < out->n_parts && strcmp(list[k].name, f->name) != 0)
			k++;
		if (k == out->n_parts)
			list[out->n_parts++] = (struct kernel_part){f->name, f->bytes};
	}
	out->parts = list;
}

/* Do 32 bits count every element? */
static bool
is_small(const struct tile_prog *p)
{
	for (uint32_t t = 0; t < p->n_tensors; t++)
		if (p->tensors[t].count >= INT32_MAX / 2)
			return false;
	return true;
}

static bool
emit(struct gen *g, const struct spec *s, struct str schedule, const struct target *t,
    struct kernel_code *out, struct err *e)
{
	struct sched *sched = NEW(g->a, struct sched);
	struct tile_prog *made = NEW(g->a, struct tile_prog);
	const struct tile_prog *p = made;
	enum library library;
	int64_t version;

	*out = (struct kernel_code){.n_parts = 0};
	if (!sched_read(schedule, sched, e))
		return false;
	if (sched_library(sched, &library, &version))
		return emit_library(g, s, schedule, library, out, e);
	if (sched_get(sched, KNOB_trace, 0))
		return emit_traced(g, s, schedule, t, out, e);
	if (!tile_make(g->a, s, sched, t, made, e))
		return false;
	if (t->is_cuda)
		p = cuda_part(g, p);
	g->p = p;
	g->tx = p->tx;
	g->copies = 1;
	g->index = t->is_cuda && is_small(p) ? "int" : "k_i64";
	sb_init(&g->sb, g->a);
	gen_head(g, s, schedule);
	out->head_bytes = g->sb.n;
	tables(g);
	linear_tiles(g);
	for (uint32_t q = 0; q < p->n_groups; q++) { /* on a GPU each has one pass */
		if (t->is_cuda)
			cuda_pass(g, q, out);
		else
			group(g, q);
	}
	out->text = sb_str(&g->sb);
	out->desc.n_passes = p->n_groups;
	for (uint32_t q = 0; q < p->n_groups && !t->is_cuda; q++)
		out->desc.range[q] = group_range(p, &p->group[q]);
	parts(g, out);
	packs(g->a, p, out);
	out->desc.overlaps = p->overlaps;
	out->desc.n_overlaps = p->n_overlaps;
	out->desc.shared_bytes = p->shared_bytes;
	if (!t->is_cuda)
		out->desc.local_bytes = p->local_bytes;
	return true;
}

bool
emit_c(struct arena *a, const struct spec *s, struct str schedule, const struct target *t, const char *symbol,
    struct kernel_code *out, struct err *e)
{
	struct gen g = {.a = a, .d = &dialect_c, .symbol = symbol};

	return emit(&g, s, schedule, t, out, e);
}

bool
emit_cuda(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct gen g = {.a = a, .d = &dialect_cuda, .symbol = symbol};

	return emit(&g, s, schedule, t, out, e);
}
