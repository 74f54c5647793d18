/* kernels/emit/linear.c: a linear stage as loops over panels of columns and tiles of rows around
 * the micro-kernel, and what is made of a tile before it leaves the cache.
 *
 *   for each batch element, for each panel of columns, for each tile of rows:
 *     t = register tile(rows of a, panel of b)
 *     for each row, for each column of t: results = their expressions over t
 *
 * Rows are dealt out evenly: 56 rows are ten tiles of six and five, not nine of six and one of
 * two, because a tile of two rows takes as long as one of six (facts/cpu.md section 2). */
#include "linear_int.h"

#include <string.h>

/* ---- the register tiles ------------------------------------------------------------------- */
/* K loops of the tile: neighbours that step through a without a gap become one. */
static struct micro
micro_of(struct gen *g, uint32_t stage)
{
	const struct anchor *n = g->p->stages[stage].anchor;
	struct micro m = {.lanes = n->lanes, .nv = n->nv, .row_step = n->a_row, .a_vector = n->a_vector};

	if (n->wino) /* what comes next: the same position's next panel, or the next position */
		m.b_ahead = n->n_k_total * n->nv * n->lanes * (n->wide > 1 ? n->wino->p * n->wino->p : 1);
	m.adds = n->k_chunk > 0;
	for (uint32_t i = m.adds ? n->n_k - n->k_inner - 1 : 0; i < n->n_k; i++) {
		int64_t trip = n->k[i].extent, step = n->k[i].a_step;

		if (m.adds && i == n->n_k - n->k_inner - 1)
			trip = n->k_chunk;
		if (m.n_loops && m.step[m.n_loops - 1] == step * trip) {
			m.trip[m.n_loops - 1] *= trip;
			m.step[m.n_loops - 1] = step;
			continue;
		}
		m.trip[m.n_loops] = trip;
		m.step[m.n_loops++] = step;
	}
	m.prefetch = n->prefetch && n->a_row && m.n_loops == 1 && m.step[0] == 1;
	m.unroll = n->a_vector && m.trip[m.n_loops - 1] <= 9;
	return m;
}

static uint32_t
heights_of(const struct anchor *n, int64_t rows)
{
	int64_t tiles = (rows + n->mr - 1) / n->mr;

	return 1u << (rows / tiles - 1) | (rows % tiles ? 1u << (rows / tiles) : 0);
}

/* Row counts of one step: the whole block's, and its tail's; in a ring any number of rows. */
uint32_t
tile_heights(struct gen *g, const struct anchor *n)
{
	uint32_t set = heights_of(n, n->n_m);
	int64_t tail = n->m_limit == IX_NONE ? 0 : ix_get(g->tx, n->m_limit)->lo;
	int64_t each = n->any_rows && n->n_row ? n->n_m / n->row[0].extent : n->n_m;

	if (tail > 0 && tail < n->n_m)
		set |= heights_of(n, tail);
	for (int64_t rows = each; tail && rows < n->n_m; rows += each)
		set |= heights_of(n, rows);
	return set;
}

void
linear_tiles(struct gen *g)
{
	for (uint32_t i = 0; i < g->p->n_stages; i++) {
		const struct anchor *n = g->p->stages[i].anchor;

		if (!n)
			continue;
		if (n->is_window) {
			window_tiles(g, i);
			continue;
		}
		struct micro m = micro_of(g, i);
		uint32_t set = n->wino ? wino_heights(g, n) : tile_heights(g, n);

		if (n->wino)
			wino_transforms(g, i);

		for (int h = 1; h <= n->mr; h++) {
			if (!(set >> (h - 1) & 1))
				continue;
			struct shared_text was = shared_begin(g);

			micro_emit(&g->sb, &m, h);
			shared_end(g, &was, i, SHARED_TILE(1, h, 0), arena_printf(g->a, "h%d", h));
		}
	}
}

/* ---- loops ---------------------------------------------------------------------------------- */
void
open_rows(struct tiling *t)
{
	gen_open(t->g, "for (k_i64 tile = 0, m0 = 0; tile < n_tiles; tile++)");
	gen_line(t->g, "const k_i64 h = height + (tile < taller);");
}

void
open_panels(struct tiling *t)
{
	gen_open(t->g, "for (k_i64 panel = 0; panel < %lld; panel++)", (long long)t->n->n_panels);
	gen_bind(t->g, t->n->panel, "panel");
}

/* Where the tile's rows of the first factor are: argument text. */
static const char *
put_rows(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g);
	const char *a = gen_tensor(g, n->a_tensor);

	if (n->a_row) {
		gen_bind(g, n->m, "m0");
		const char *at = gen_ix(g, n->a_at);

		gen_forget(g, mark);
		gen_bind(g, n->m, NULL);
		return arena_printf(g->a, "%s + %s%s", a, at, t->a_more);
	}
	gen_line(g, "const float *row[%d];", n->mr);
	gen_open(g, "for (k_i64 r = 0; r < h; r++)");
	gen_line(g, "const k_i64 m = m0 + r;");
	gen_bind(g, n->m, "m");
	const char *at = gen_ix(g, n->a_at);

	gen_line(g, "row[r] = %s + %s%s;", a, at, t->a_more);
	gen_forget(g, mark);
	gen_bind(g, n->m, NULL);
	gen_close(g);
	return "row";
}

static void
put_sums(struct tiling *t)
{
	gen_line(t->g, "float *restrict t = %s + m0 * %lld;", gen_tensor(t->g, t->n->sums), (long long)t->nr);
}

static void
put_call(struct tiling *t, const char *rows)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g), set = tile_heights(g, n), stage = (uint32_t)(t->s - g->p->stages);
	const char *ahead = "";
	const char *b =
	    arena_printf(g->a, "%s + %s%s", gen_tensor(g, n->b_tensor), gen_ix(g, n->b_at), t->b_more);

	if (t->m.prefetch)
		ahead = arena_printf(g->a, ", panel == 0 ? %lld : 0", (long long)t->m.trip[0]);
	if (n->k_chunk)
		put_sums(t);
	else
		gen_line(g, "float t[%lld] __attribute__((aligned(64)));", (long long)n->mr * t->nr);
	gen_open(g, "switch (h)");
	for (int h = 1; h <= n->mr; h++)
		if (set >> (h - 1) & 1)
			gen_line(g, "case %d: %s(%s, %s, t%s); break;", h,
			    shared_name(g, stage, SHARED_TILE(1, h, 0)), rows, b, ahead);
	gen_close(g);
	gen_forget(g, mark);
}

/* In a sweep, columns behind the last are told from the others by a guard; a panel on this side of them need
 * not ask: the guard, one of an epilogue; NULL: there is none. */
static const struct ex *
edge_of(const struct tiling *t, uint32_t i)
{
	const struct ex *e = ex_get(t->g->tx, t->n->epilogue[i].body);
	int64_t coef;

	return t->s->sweeps && e->kind == EX_GUARD && ix_coef(t->g->tx, e->ix, t->n->lane, &coef) &&
		coef == 1 && ix_get(t->g->tx, e->ix)->lo >= e->lo
	    ? e
	    : NULL;
}

/* One row of the tile: every result's elements in `columns` columns. */
static void
put_columns(struct tiling *t, int64_t columns)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g);

	if (*g->d->vector_loop)
		gen_line(g, "%s", g->d->vector_loop);
	for (uint32_t i = 0, told = 0; i < n->n_epilogue && !told; i++) {
		uint32_t tensor = g->p->stages[n->epilogue[i].stage].tensor;

		gen_independent(g, tensor);
		told = g->p->tensors[tensor].shares;
	}
	gen_open(g, "for (k_i64 c = 0; c < %lld; c++)", (long long)columns);
	gen_bind(g, n->lane, "c");
	if (n->keeps_result)
		gen_store(g, t->s->tensor, n->result_at,
		    arena_printf(
			g->a, "%s[%lld*%s + c]", t->tile, (long long)t->nr, g->axis_name[n->tile_row]));
	for (uint32_t i = 0; i < n->n_epilogue; i++) {
		const struct anchor_epilogue *e = &n->epilogue[i];
		const char *value = gen_ex(g, t->inside && edge_of(t, i) ? edge_of(t, i)->arg[0] : e->body);

		gen_store(g, g->p->stages[e->stage].tensor, e->at, value);
	}
	gen_forget(g, mark);
	gen_bind(g, n->lane, NULL);
	gen_close(g);
}

static void
put_panels(struct tiling *t)
{
	const struct anchor *n = t->n;
	int64_t tail = n->n_columns % t->nr;

	if (tail && n->n_panels > 1) {
		gen_open(t->g, "if (panel < %lld)", (long long)n->n_panels - 1);
		put_columns(t, t->nr);
		t->g->depth--;
		gen_open(t->g, "} else");
		put_columns(t, tail);
		gen_close(t->g);
	} else {
		put_columns(t, tail ? tail : t->nr);
	}
}

/* The panel that all guards of epilogues let through whole, and any other. */
static void
put_edge(struct tiling *t)
{
	struct gen *g = t->g;
	const char *all = NULL;

	for (uint32_t i = 0; i < t->n->n_epilogue; i++) {
		const struct ex *e = edge_of(t, i);

		if (!e)
			continue;
		int64_t hi = e->hi;
		ix_id *to = NEW_ARRAY(g->a, ix_id, t->n->lane + 1);

		for (axis_id a = 0; a < t->n->lane; a++)
			to[a] = IX_NONE;
		to[t->n->lane] = ix_const(g->tx, t->nr - 1);
		const char *last =
		    gen_ix(g, ix_subst(g->tx, &(struct tx_subst){.to = to, .n = t->n->lane + 1}, e->ix));

		all = arena_printf(
		    g->a, "%s%s%s < %lld", all ? all : "", all ? " && " : "", last, (long long)hi);
	}
	if (!all) {
		put_panels(t);
		return;
	}
	gen_open(g, "if (%s)", all);
	t->inside = true;
	put_panels(t);
	t->inside = false;
	g->depth--;
	gen_open(g, "} else");
	put_panels(t);
	gen_close(g);
}

void
put_row(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g);

	gen_bind(g, n->m, "m");
	gen_bind(g, n->tile_row, t->row);
	g->scratch[0] = t->tile;
	if (n->keeps_result)
		gen_hoist_ix(g, n->result_at);
	for (uint32_t i = 0; i < n->n_epilogue; i++) {
		gen_hoist_ix(g, n->epilogue[i].at);
		gen_hoist(g, n->epilogue[i].body);
	}
	put_edge(t);
	gen_forget(g, mark);
	gen_bind(g, n->m, NULL);
	gen_bind(g, n->tile_row, NULL);
}

void
put_epilogue(struct tiling *t)
{
	gen_open(t->g, "for (k_i64 r = 0; r < h; r++)");
	gen_line(t->g, "const k_i64 m = m0 + r;");
	put_row(t);
	gen_close(t->g);
}

static void
put_tile(struct tiling *t)
{
	put_call(t, put_rows(t));
	put_epilogue(t);
}

void
put_counts(struct tiling *t)
{
	const struct anchor *n = t->n;
	struct gen *g = t->g;

	if (n->m_limit == IX_NONE)
		gen_line(g, "const k_i64 n_rows = %lld;", (long long)n->n_m);
	else
		gen_line(
		    g, "const k_i64 n_rows = k_least(%lld, %s);", (long long)n->n_m, gen_ix(g, n->m_limit));
	gen_line(g,
	    "const k_i64 n_tiles = (n_rows + %d) / %d, height = n_rows / n_tiles, taller = n_rows %% "
	    "n_tiles;",
	    n->mr - 1, n->mr);
}

const char *
batch_end(struct gen *g, const struct anchor_axis *b)
{
	const char *end = arena_printf(g->a, "%lld", (long long)b->extent);

	return b->limit == IX_NONE ? end : arena_printf(g->a, "k_least(%s, %s)", end, gen_ix(g, b->limit));
}

static void
open_batch(struct tiling *t, uint32_t n)
{
	struct gen *g = t->g;

	for (uint32_t i = 0; i < n; i++) {
		const struct anchor_axis *b = &t->n->batch[i];
		const char *name = arena_printf(g->a, "b%u", i), *end = batch_end(g, b);

		gen_open(g, "for (k_i64 %s = 0; %s < %s; %s++)", name, name, end, name);
		gen_bind(g, b->id, name);
	}
}

/* Where block kb of K begins in the row factor: text to add to an index. */
static const char *
block_start(struct tiling *t)
{
	const struct anchor *n = t->n;
	uint32_t split = n->n_k - n->k_inner - 1;
	int64_t below = n->k[split].extent / n->k_chunk;
	const char *s = arena_printf(
	    t->g->a, " + kb %% %lld * %lld", (long long)below, (long long)(n->k_chunk * n->k[split].a_step));

	for (uint32_t i = split; i-- > 0; below *= n->k[i].extent)
		s = arena_printf(t->g->a, "%s + kb / %lld %% %lld * %lld", s, (long long)below,
		    (long long)n->k[i].extent, (long long)n->k[i].a_step);
	return s;
}

/* All rows take a block of K before the next; then all are done. */
static void
put_k_blocks(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	int64_t products = n->k_chunk;

	for (uint32_t i = n->n_k - n->k_inner; i < n->n_k; i++)
		products *= n->k[i].extent;
	gen_open(g, "for (k_i64 i = 0; i < n_rows * %lld; i++)", (long long)t->nr);
	gen_line(g, "%s[i] = 0;", gen_tensor(g, n->sums));
	gen_close(g);
	gen_open(g, "for (k_i64 kb = 0; kb < %lld; kb++)", (long long)(n->n_k_total / products));
	t->a_more = block_start(t);
	t->b_more = arena_printf(g->a, " + kb * %lld", (long long)(products * t->nr));
	open_rows(t);
	put_call(t, put_rows(t));
	gen_line(g, "m0 += h;");
	gen_close(g);
	gen_close(g);
	open_rows(t);
	put_sums(t);
	put_epilogue(t);
	gen_line(g, "m0 += h;");
	gen_close(g);
}

void
linear_stage(struct gen *g, const struct stage *s)
{
	struct tiling t = {.g = g,
	    .s = s,
	    .n = s->anchor,
	    .m = micro_of(g, (uint32_t)(s - g->p->stages)),
	    .nr = (int64_t)s->anchor->nv * s->anchor->lanes,
	    .row = "r",
	    .tile = "t",
	    .a_more = "",
	    .b_more = ""};
	uint32_t mark = gen_mark(g);

	gen_open(g, "/* %lld rows x %lld columns, %lld products each, tiles of %d x %lld */",
	    (long long)t.n->n_m, (long long)t.n->n_columns, (long long)t.n->n_k_total, t.n->mr,
	    (long long)t.nr);
	if (!t.n->wino)
		put_counts(&t);
	open_batch(&t, t.n->n_batch - (t.n->is_window && t.n->field > 1));
	/* Many rows pass by one panel of b while it is near; where a has columns of its own there is
	 * nothing to keep, and memory is walked in its order. */
	if (t.n->is_window) {
		window_loops(&t);
	} else if (t.n->wino) {
		wino_loops(&t);
	} else if (t.n->a_vector) {
		open_rows(&t);
		open_panels(&t);
		put_tile(&t);
		gen_close(g);
		gen_line(g, "m0 += h;");
		gen_close(g);
	} else if (t.n->k_chunk) {
		open_panels(&t);
		put_k_blocks(&t);
		gen_close(g);
	} else {
		open_panels(&t);
		open_rows(&t);
		put_tile(&t);
		gen_line(g, "m0 += h;");
		gen_close(g);
		gen_close(g);
	}
	gen_bind(g, t.n->panel, NULL);
	for (uint32_t i = 0; i < t.n->n_batch; i++) {
		if (gen_is_bound(g, t.n->batch[i].id))
			gen_close(g);
		gen_bind(g, t.n->batch[i].id, NULL);
	}
	gen_forget(g, mark);
	gen_close(g);
}
