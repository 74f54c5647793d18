/* kernels/emit/emit_c.c: a whole kernel: head comment, tables, one function a pass or group of passes. */
#include "gen_int.h"
#include "library_int.h"

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
}

const char *
gen_stage_words(struct gen *g, const struct stage *s)
{
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

/* Do 32 bits count every element? */
static bool
is_small(const struct tile_prog *p)
{
	for (uint32_t t = 0; t < p->n_tensors; t++)
		if (p->tensors[t].count >= INT32_MAX / 2)
			return false;
	return true;
}

/* What is no call of a library, and by way of the tile program: of a GPU alone. */
static bool
emit_tiles(struct gen *g, const struct spec *s, struct str schedule, const struct sched *sched,
    const struct target *t, struct kernel_code *out, struct err *e)
{
	struct tile_prog *made = NEW(g->a, struct tile_prog);

	if (!tile_make(g->a, s, sched, t, made, e))
		return false;
	g->p = cuda_part(g, made);
	g->tx = g->p->tx;
	g->index = is_small(g->p) ? "int" : "k_i64";
	sb_init(&g->sb, g->a);
	gen_head(g, s, schedule);
	out->head_bytes = g->sb.n;
	tables(g);
	for (uint32_t q = 0; q < g->p->n_passes; q++)
		cuda_pass(g, q, out);
	out->text = sb_str(&g->sb);
	out->desc.n_passes = g->p->n_passes;
	out->desc.shared_bytes = g->p->shared_bytes;
	return true;
}

static bool
emit(struct gen *g, const struct spec *s, struct str schedule, const struct target *t,
    struct kernel_code *out, struct err *e)
{
	struct sched *sched = NEW(g->a, struct sched);
	enum library library;
	int64_t version;

	*out = (struct kernel_code){.head_bytes = 0};
	if (!sched_read(schedule, sched, e))
		return false;
	if (sched_library(sched, &library, &version))
		return emit_library(g, s, schedule, library, out, e);
	return fuse_by_trace(sched, t) ? emit_traced(g, s, schedule, t, out, e)
				       : emit_tiles(g, s, schedule, sched, t, out, e);
}

bool
emit_c(struct arena *a, const struct spec *s, struct str schedule, const struct target *t, const char *symbol,
    struct kernel_code *out, struct err *e)
{
	struct gen g = {.a = a, .symbol = symbol};

	return emit(&g, s, schedule, t, out, e);
}

bool
emit_cuda(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct gen g = {.a = a, .d = &dialect_cuda, .symbol = symbol};

	return emit(&g, s, schedule, t, out, e);
}
