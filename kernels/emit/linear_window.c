/* kernels/emit/linear_window.c: the tile of a depthwise convolution as C text: `field` x `mr` rows by
 * one panel of columns, all of K written out.  Each vector of the row factor that the tile sees is
 * loaded once and multiplied into every row that wants it; the weights come from the first cache.
 *
 * At borders the same tile asks for each vector whether it is there.  Tiles inside do not: which
 * kind a tile is, is found once for all its panels. */
#include "linear_int.h"

#include <stdlib.h>

/* One product: row (f, r) takes the vector at `at` times b's vector number k. */
struct tap {
	int64_t row; /* of the ring, from the tile's first */
	int64_t at, k;
	int f, r;
	int64_t guard[ANCHOR_GUARDS]; /* what the guards' indices have more than at the tile's first */
};
struct taps {
	const struct anchor *n;
	struct tap *tap;
	uint32_t n_tap;
};

static int
by_place(const void *a, const void *b)
{
	const struct tap *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	for (int i = 0; i < ANCHOR_GUARDS; i++)
		if (x->guard[i] != y->guard[i])
			return x->guard[i] < y->guard[i] ? -1 : 1;
	if (x->f != y->f)
		return x->f < y->f ? -1 : 1;
	return x->r != y->r ? (x->r < y->r ? -1 : 1) : (x->k > y->k) - (x->k < y->k);
}

static bool
same_vector(const struct tap *x, const struct tap *y)
{
	for (int i = 0; i < ANCHOR_GUARDS; i++)
		if (x->guard[i] != y->guard[i])
			return false;
	return x->at == y->at && x->row == y->row;
}

static void
add_tap(struct taps *t, int f, int r, int64_t k)
{
	const struct anchor *n = t->n;
	struct tap *to = &t->tap[t->n_tap++];
	int64_t rest = k;

	*to = (struct tap){.f = f, .r = r, .k = k, .at = f * n->a_field + r * n->a_row,
	    .row = f * n->ring_at.by_field};
	for (uint32_t i = 0; i < n->n_guard; i++)
		to->guard[i] = f * n->guard[i].by_field + r * n->guard[i].by_row;
	for (uint32_t j = n->n_k; j-- > 0; rest /= n->k[j].extent) {
		int64_t i = rest % n->k[j].extent;

		to->at += i * n->k[j].a_step;
		to->row += i * n->ring_at.by_k[j];
		for (uint32_t q = 0; q < n->n_guard; q++)
			to->guard[q] += i * n->guard[q].by_k[j];
	}
}

static struct taps
taps_of(struct gen *g, const struct anchor *n, int field, int rows)
{
	struct taps t = {.n = n, .tap = NEW_ARRAY(g->a, struct tap, (size_t)(n->n_k_total * field * rows))};

	for (int f = 0; f < field; f++)
		for (int r = 0; r < rows; r++)
			for (int64_t k = 0; k < n->n_k_total; k++)
				add_tap(&t, f, r, k);
	qsort(t.tap, t.n_tap, sizeof *t.tap, by_place);
	return t;
}

/* ---- a tile ------------------------------------------------------------------------------------ */
static const char *
tile_name(struct gen *g, uint32_t stage, int field, int rows, bool edge)
{
	return arena_printf(g->a, "%s_s%u_%dx%d%s", g->symbol, stage, field, rows, edge ? "_edge" : "");
}

/* The vectors at one place, and what they are multiplied into. */
static void
put_vector(struct gen *g, const struct anchor *n, const struct tap *tap, uint32_t n_tap, bool edge)
{
	gen_open(g, "%s", "");
	for (int v = 0; v < n->nv; v++) {
		const char *a = n->ring ? arena_printf(g->a, "row%lld", (long long)tap->row) : "a";
		const char *load = arena_printf(g->a, "*(const kvec *)(%s + (at + %lld))", a,
		    (long long)(tap->at + (int64_t)v * n->lanes));
		const char *cond = "";

		for (uint32_t i = 0; edge && i < n->n_guard; i++)
			cond = arena_printf(g->a, "%s%s(k_u64)(g%u + %lld) < %lld", cond, i ? " && " : "", i,
			    (long long)tap->guard[i], (long long)(n->guard[i].hi - n->guard[i].lo));
		if (edge)
			gen_line(g, "const kvec x%d = %s ? %s : (kvec){0};", v, cond, load);
		else
			gen_line(g, "const kvec x%d = %s;", v, load);
	}
	for (uint32_t i = 0; i < n_tap; i++)
		for (int v = 0; v < n->nv; v++)
			gen_line(g, "c%d_%d_%d += x%d * *(const kvec *)(b + %lld);", tap[i].f, tap[i].r, v, v,
			    (long long)(tap[i].k * n->nv + v) * n->lanes);
	gen_close(g);
}

static void
put_tile_text(struct gen *g, uint32_t stage, int field, int rows, bool edge)
{
	const struct anchor *n = g->p->stages[stage].anchor;
	struct taps t = taps_of(g, n, field, rows);
	const char *guards = "", *factor = n->ring ? "" : "const float *restrict a, ";

	for (uint32_t i = 0; edge && i < n->n_guard; i++)
		guards = arena_printf(g->a, "%s, k_i64 g%u", guards, i);
	for (uint32_t i = 0; n->ring && i < t.n_tap; i++)
		if (i == 0 || t.tap[i].row != t.tap[i - 1].row)
			factor = arena_printf(g->a, "%sconst float *restrict row%lld, ", factor, (long long)t.tap[i].row);
	gen_line(g, "static inline __attribute__((always_inline)) void");
	gen_line(g, "%s(%sk_i64 at, const float *restrict b, float *restrict t%s)",
	    tile_name(g, stage, field, rows, edge), factor, guards);
	gen_line(g, "{");
	g->depth++;
	gen_line(g, "kvec zero = {0};");
	gen_line(g, "K_HIDE(zero);");
	gen_line(g, "K_HIDE_PLACE(b);");
	for (int f = 0; f < field; f++)
		for (int r = 0; r < rows; r++)
			for (int v = 0; v < n->nv; v++)
				gen_line(g, "kvec c%d_%d_%d = zero;", f, r, v);
	for (uint32_t i = 0, last; i < t.n_tap; i = last) {
		for (last = i; last < t.n_tap && same_vector(&t.tap[i], &t.tap[last]);)
			last++;
		put_vector(g, n, &t.tap[i], last - i, edge);
	}
	for (int f = 0; f < field; f++)
		for (int r = 0; r < rows; r++)
			for (int v = 0; v < n->nv; v++)
				gen_line(g, "*(kvec *)(t + %d) = c%d_%d_%d;", ((f * n->mr + r) * n->nv + v) * n->lanes, f,
				    r, v);
	gen_line(g, "__asm__ volatile(\"\" ::: \"memory\");");
	g->depth--;
	gen_line(g, "}");
	gen_line(g, "%s", "");
}

/* Which counts of rows along the field axis occur: bit f - 1. */
static uint32_t
fields(struct gen *g, const struct anchor *n)
{
	const struct anchor_axis *a = n->field > 1 ? &n->batch[n->n_batch - 1] : NULL;
	uint32_t set = 1u << (n->field - 1);

	if (!a)
		return set;
	if (n->any_rows)
		return (1u << n->field) - 1;
	int64_t count[2] = {a->extent, a->limit == IX_NONE ? a->extent : ix_get(g->tx, a->limit)->lo};

	for (int i = 0; i < 2; i++)
		if (count[i] > 0 && count[i] % n->field)
			set |= 1u << (count[i] % n->field - 1);
	return set;
}

void
window_tiles(struct gen *g, uint32_t stage)
{
	const struct anchor *n = g->p->stages[stage].anchor;
	uint32_t rows = tile_heights(g, n), field = fields(g, n);

	for (int f = 1; f <= n->field; f++)
		for (int r = 1; r <= n->mr; r++)
			for (int edge = 0; edge <= (n->n_guard > 0); edge++)
				if (field >> (f - 1) & 1 && rows >> (r - 1) & 1)
					put_tile_text(g, stage, f, r, edge);
}

/* ---- loops ------------------------------------------------------------------------------------------ */
/* What a tile of so many fields takes the row factor from: its array, or rows of a ring. */
static const char *
factor_text(struct gen *g, const struct anchor *n, int field)
{
	struct taps t = taps_of(g, n, field, 1);
	const char *text = n->ring ? "" : gen_tensor(g, n->a_tensor);

	for (uint32_t i = 0; n->ring && i < t.n_tap; i++)
		if (i == 0 || t.tap[i].row != t.tap[i - 1].row)
			text = arena_printf(g->a, "%s%srow%lld", text, i ? ", " : "", (long long)t.tap[i].row);
	return text;
}

/* Where the rows of the ring are that tiles take their vectors from. */
static void
put_ring(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	struct taps all = taps_of(g, n, n->field, 1);

	for (uint32_t i = 0; i < all.n_tap; i++) {
		int64_t row = all.tap[i].row;
		uint32_t mark = gen_mark(g);

		if (i && row == all.tap[i - 1].row)
			continue;
		ix_id at = ix_mod(g->tx, ix_addc(g->tx, n->ring_at.at, row), n->ring);
		const char *place = gen_ix(g, ix_mulc(g->tx, at, n->ring_pitch));

		gen_line(g, "const float *row%lld = %s + %s;", (long long)row, gen_tensor(g, n->a_tensor), place);
		gen_forget(g, mark);
	}
}

static void
put_case(struct tiling *t, uint32_t stage, bool edge)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t rows = tile_heights(g, n), field = fields(g, n);
	const char *guards = "";

	for (uint32_t i = 0; edge && i < n->n_guard; i++)
		guards = arena_printf(g->a, "%s, g%u", guards, i);
	gen_open(g, "switch (fh * %d + h)", n->mr + 1);
	for (int f = 1; f <= n->field; f++)
		for (int r = 1; r <= n->mr; r++)
			if (field >> (f - 1) & 1 && rows >> (r - 1) & 1)
				gen_line(g, "case %d: %s(%s, at, b, t%s); break;", f * (n->mr + 1) + r,
				    tile_name(g, stage, f, r, edge), factor_text(g, n, f), guards);
	gen_close(g);
}

/* The guards' indices at the tile's first vector, above their lower bound; do all vectors pass? */
static void
put_guards(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	const char *inside = "";

	for (uint32_t i = 0; i < n->n_guard; i++) {
		const struct anchor_guard *u = &n->guard[i];
		int64_t most = u->hi - u->lo;

		for (uint32_t k = 0; k < n->n_k; k++)
			most -= u->by_k[k] * (n->k[k].extent - 1);
		gen_line(g, "const k_i64 g%u = %s;", i, gen_ix(g, ix_addc(g->tx, u->at, -u->lo)));
		inside = arena_printf(g->a, "%s%sg%u >= 0 && g%u + %lld*(h - 1) + %lld*(fh - 1) < %lld", inside,
		    i ? " && " : "", i, i, (long long)u->by_row, (long long)u->by_field, (long long)most);
	}
	gen_line(g, "const k_bool inside = %s;", inside);
}

static void
put_panel(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g), stage = (uint32_t)(t->s - g->p->stages);

	gen_bind(g, n->m, "m0");
	gen_line(g, "const k_i64 at = %s;", gen_ix(g, n->a_at));
	gen_bind(g, n->m, NULL);
	gen_line(g, "const float *b = %s + %s;", gen_tensor(g, n->b_tensor), gen_ix(g, n->b_at));
	gen_line(g, "float t[%lld] __attribute__((aligned(64)));", (long long)n->mr * n->field * t->nr);
	gen_forget(g, mark);
	if (n->n_guard) {
		gen_open(g, "if (inside)");
		put_case(t, stage, false);
		g->depth--;
		gen_open(g, "} else");
		put_case(t, stage, true);
		gen_close(g);
	} else {
		put_case(t, stage, false);
	}
}

static void
put_field(struct tiling *t, axis_id field)
{
	struct gen *g = t->g;
	uint32_t mark = gen_mark(g);

	if (t->n->field > 1) {
		gen_open(g, "for (k_i64 f = 0; f < fh; f++)");
		gen_line(g, "const k_i64 ff = f0 + f;");
		gen_bind(g, field, "ff");
		t->row = arena_printf(g->a, "(%d*f + r)", t->n->mr);
	}
	put_epilogue(t);
	if (t->n->field > 1)
		gen_close(g);
	gen_forget(g, mark);
}

void
window_loops(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	const struct anchor_axis *f = n->field > 1 ? &n->batch[n->n_batch - 1] : NULL;
	uint32_t mark = gen_mark(g);

	if (f) {
		const char *end = batch_end(g, f);

		gen_open(g, "for (k_i64 f0 = 0; f0 < %s; f0 += %d)", end, n->field);
		gen_line(g, "const k_i64 fh = k_least(%d, %s - f0);", n->field, end);
	} else {
		gen_open(g, "%s", "");
		gen_line(g, "const k_i64 fh = 1;");
	}
	if (f)
		gen_bind(g, f->id, "f0");
	if (n->ring)
		put_ring(t);
	open_rows(t);
	uint32_t inner = gen_mark(g);

	gen_bind(g, n->m, "m0");
	if (n->n_guard)
		put_guards(t);
	gen_forget(g, inner);
	gen_bind(g, n->m, NULL);
	open_panels(t);
	put_panel(t);
	put_field(t, f ? f->id : AXIS_NONE);
	gen_close(g);
	gen_line(g, "m0 += h;");
	gen_close(g);
	gen_close(g);
	gen_forget(g, mark);
	if (f)
		gen_bind(g, f->id, NULL);
}
