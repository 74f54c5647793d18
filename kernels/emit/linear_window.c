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

	*to = (struct tap){
	    .f = f, .r = r, .k = k, .at = f * n->a_field + r * n->a_row, .row = f * n->ring_at.by_field};
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
/* A call makes several panels of columns: less than a hundred products a panel would not pay for a call each.
 */
enum { WINDOW_PANELS = 4 };
struct group {
	int64_t panels;  /* of a call */
	int64_t a, b, t; /* elements from one panel to the next */
};

static struct group
group_of(struct gen *g, const struct anchor *n)
{
	struct group r = {.panels = MIN_OF(n->n_panels, (int64_t)WINDOW_PANELS),
	    .t = (int64_t)n->mr * n->field * n->nv * n->lanes};

	if (!ix_coef(g->tx, n->a_at, n->panel, &r.a) || !ix_coef(g->tx, n->b_at, n->panel, &r.b))
		r.panels = 1;
	return r;
}

/* Rows of the ring that tiles of all fields take vectors from, in order; how many. */
static uint32_t
ring_rows(struct gen *g, const struct anchor *n, int64_t **out)
{
	struct taps t = taps_of(g, n, n->field, 1);
	uint32_t count = 0;

	*out = NEW_ARRAY(g->a, int64_t, t.n_tap);
	for (uint32_t i = 0; i < t.n_tap && n->ring; i++)
		if (count == 0 || (*out)[count - 1] != t.tap[i].row)
			(*out)[count++] = t.tap[i].row;
	return count;
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

/* (const float *a | const float *const *row, k_i64 at, const float *b, float *t[, k_i64 panels][, guards'
 * indices]) */
static void
put_head(struct gen *g, const struct anchor *n, const struct group *group, const struct taps *t, bool edge)
{
	const char *more = group->panels > 1 ? ", k_i64 panels" : "";
	int64_t *row;
	uint32_t n_rows = ring_rows(g, n, &row), tap = 0;

	for (uint32_t i = 0; edge && i < n->n_guard; i++)
		more = arena_printf(g->a, "%s, k_i64 g%u", more, i);
	gen_line(g, "(%s, k_i64 at, const float *restrict b, float *restrict t%s)",
	    n->ring ? "const float *const *row" : "const float *restrict a", more);
	gen_line(g, "{");
	g->depth++;
	for (uint32_t i = 0; i < n_rows; i++) {
		while (tap < t->n_tap && t->tap[tap].row < row[i])
			tap++;
		if (tap < t->n_tap && t->tap[tap].row == row[i])
			gen_line(g, "const float *restrict row%lld = row[%u];", (long long)row[i], i);
	}
}

static void
put_tile_text(struct gen *g, uint32_t stage, int field, int rows, bool edge)
{
	const struct anchor *n = g->p->stages[stage].anchor;
	struct taps t = taps_of(g, n, field, rows);
	struct group group = group_of(g, n);
	struct shared_text was = shared_begin(g);

	put_head(g, n, &group, &t, edge);
	if (group.panels > 1)
		gen_open(g, "for (k_i64 p = 0; p < panels; p++, at += %lld, b += %lld, t += %lld)",
		    (long long)group.a, (long long)group.b, (long long)group.t);
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
				gen_line(g, "*(kvec *)(t + %d) = c%d_%d_%d;",
				    ((f * n->mr + r) * n->nv + v) * n->lanes, f, r, v);
	gen_line(g, "__asm__ volatile(\"\" ::: \"memory\");");
	if (group.panels > 1)
		gen_close(g);
	g->depth--;
	gen_line(g, "}");
	shared_end(g, &was, stage, SHARED_TILE(field, rows, edge),
	    arena_printf(g->a, "%dx%d%s", field, rows, edge ? "_edge" : ""));
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
/* Where the rows of the ring are that tiles take their vectors from. */
static void
put_ring(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	int64_t *row;
	uint32_t n_rows = ring_rows(g, n, &row);

	gen_line(g, "const float *row[%u];", n_rows);
	for (uint32_t i = 0; i < n_rows; i++) {
		uint32_t mark = gen_mark(g);
		ix_id at = ix_mod(g->tx, ix_addc(g->tx, n->ring_at.at, row[i]), n->ring);
		const char *place = gen_ix(g, ix_mulc(g->tx, at, n->ring_pitch));

		gen_line(g, "row[%u] = %s + %s;", i, gen_tensor(g, n->a_tensor), place);
		gen_forget(g, mark);
	}
}

static void
put_case(struct tiling *t, uint32_t stage, bool edge)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t rows = tile_heights(g, n), field = fields(g, n);
	const char *more = group_of(g, n).panels > 1 ? ", panels" : "";

	for (uint32_t i = 0; edge && i < n->n_guard; i++)
		more = arena_printf(g->a, "%s, g%u", more, i);
	gen_open(g, "switch (fh * %d + h)", n->mr + 1);
	for (int f = 1; f <= n->field; f++)
		for (int r = 1; r <= n->mr; r++)
			if (field >> (f - 1) & 1 && rows >> (r - 1) & 1)
				gen_line(g, "case %d: %s(%s, at, b, t%s); break;", f * (n->mr + 1) + r,
				    shared_name(g, stage, SHARED_TILE(f, r, edge)),
				    n->ring ? "row" : gen_tensor(g, n->a_tensor), more);
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
		inside =
		    arena_printf(g->a, "%s%sg%u >= 0 && g%u + %lld*(h - 1) + %lld*(fh - 1) < %lld", inside,
			i ? " && " : "", i, i, (long long)u->by_row, (long long)u->by_field, (long long)most);
	}
	gen_line(g, "const k_bool inside = %s;", inside);
}

/* The sums of a group of panels; `name` is its first. */
static void
put_panels(struct tiling *t, const struct group *group, const char *name)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g), stage = (uint32_t)(t->s - g->p->stages);

	gen_bind(g, n->m, "m0");
	gen_bind(g, n->panel, name);
	gen_line(g, "const k_i64 at = %s;", gen_ix(g, n->a_at));
	gen_bind(g, n->m, NULL);
	gen_line(g, "const float *b = %s + %s;", gen_tensor(g, n->b_tensor), gen_ix(g, n->b_at));
	gen_bind(g, n->panel, NULL);
	gen_line(g, "float t[%lld] __attribute__((aligned(64)));", (long long)(group->t * group->panels));
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

static void
put_groups(struct tiling *t, axis_id field)
{
	struct gen *g = t->g;
	struct group group = group_of(g, t->n);

	if (group.panels == 1) {
		open_panels(t);
		put_panels(t, &group, "panel");
		gen_bind(g, t->n->panel, "panel");
		put_field(t, field);
		gen_close(g);
		return;
	}
	gen_open(g, "for (k_i64 first = 0; first < %lld; first += %lld)", (long long)t->n->n_panels,
	    (long long)group.panels);
	gen_line(g, "const k_i64 panels = k_least(%lld, %lld - first);", (long long)group.panels,
	    (long long)t->n->n_panels);
	put_panels(t, &group, "first");
	gen_open(g, "for (k_i64 p = 0; p < panels; p++)");
	gen_line(g, "const k_i64 panel = first + p;");
	gen_bind(g, t->n->panel, "panel");
	gen_line(g, "const float *u = t + %lld*p;", (long long)group.t);
	t->tile = "u";
	put_field(t, field);
	gen_close(g);
	gen_close(g);
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
	put_groups(t, f ? f->id : AXIS_NONE);
	gen_line(g, "m0 += h;");
	gen_close(g);
	gen_close(g);
	gen_forget(g, mark);
	if (f)
		gen_bind(g, f->id, NULL);
}
