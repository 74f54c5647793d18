/* kernels/emit/linear_wino.c: Winograd's form of a convolution as C text.
 *
 *   for each block of tiles of the step:
 *     v[position][tile][k] = the panel's p x p elements of each tile, mapped
 *     for each panel of columns:
 *       sums[position][tile][column] = v * the packed factor of that position    (register tiles)
 *       for each tile: t = its positions' sums, mapped to m x m rows; results = their expressions over t
 *
 * v stays in the second cache, the sums of one panel of columns in the first.  The maps are written
 * out: zeros vanish, ones cost nothing, and of two rows (or columns) that differ in signs alone the
 * common parts are made once. */
#include "linear_int.h"

#include <math.h>

/* ---- small maps -------------------------------------------------------------------------------- */
/* out[i] = sum over k of m[i][k] * in[k], as lines of C. */
struct small_map {
	struct gen *g;
	const char *type;
	int rows, columns;
	double m[WINO_P][WINO_P];
	const char *in[WINO_P], *out[WINO_P];
};

static const char *
fresh(struct gen *g)
{
	return arena_printf(g->a, "w%u", g->n_temp++);
}

/* The sum of a row; entries of size 1 first, so that the others become fused multiply-adds. */
static const char *
row_text(struct gen *g, const double *row, const char *const *in, int n)
{
	const char *s = "";

	for (int turn = 0; turn < 2; turn++)
		for (int k = 0; k < n; k++) {
			double c = fabs(row[k]);

			if (c == 0 || (c == 1) != (turn == 0))
				continue;
			const char *sign = row[k] < 0 ? (*s ? " - " : "-") : *s ? " + " : "";

			s = turn == 0 ? arena_printf(g->a, "%s%s%s", s, sign, in[k])
				      : arena_printf(g->a, "%s%s%s * %af", s, sign, in[k], c);
		}
	return *s ? s : "0";
}

static int
n_entries(const double *row, int n)
{
	int count = 0;

	for (int k = 0; k < n; k++)
		count += row[k] != 0;
	return count;
}

/* Do the columns differ in signs alone?  Then their sum and their difference take their places. */
static bool
pair_columns(struct small_map *s, int k)
{
	const char *in[2] = {s->in[k], s->in[k + 1]}, *name[2];

	for (int i = 0; i < s->rows; i++)
		if (fabs(s->m[i][k]) != fabs(s->m[i][k + 1]))
			return false;
	for (int i = 0; i < 2; i++) {
		name[i] = fresh(s->g);
		gen_line(s->g, "const %s %s = %s %c %s;", s->type, name[i], in[0], i ? '-' : '+', in[1]);
		s->in[k + i] = name[i];
	}
	for (int i = 0; i < s->rows; i++) {
		bool differ = s->m[i][k] != s->m[i][k + 1];

		s->m[i][k + differ] = s->m[i][k];
		s->m[i][k + !differ] = 0;
	}
	return true;
}

/* Rows i and i + 1 as even + odd and even - odd, where that is less work. */
static bool
pair_rows(struct small_map *s, int i)
{
	double even[WINO_P], odd[WINO_P], most = 0;
	const double *x = s->m[i], *y = s->m[i + 1];

	for (int k = 0; k < s->columns; k++) {
		even[k] = (x[k] + y[k]) / 2;
		odd[k] = (x[k] - y[k]) / 2;
		most = fmax(most, fabs(odd[k]));
	}
	for (int k = 0; k < s->columns; k++) {
		if (odd[k] != 0 && fabs(odd[k]) != most)
			most = 1;
	}
	for (int k = 0; k < s->columns && most > 0; k++)
		odd[k] /= most;
	if (n_entries(even, s->columns) + n_entries(odd, s->columns) + 2 >=
	    n_entries(x, s->columns) + n_entries(y, s->columns))
		return false;
	const char *e = fresh(s->g), *o = fresh(s->g);

	gen_line(s->g, "const %s %s = %s;", s->type, e, row_text(s->g, even, s->in, s->columns));
	gen_line(s->g, "const %s %s = %s;", s->type, o, row_text(s->g, odd, s->in, s->columns));
	for (int k = 0; k < 2; k++)
		gen_line(s->g, "const %s %s = %s;", s->type, s->out[i + k],
		    row_text(s->g, (double[]){1, k ? -most : most}, (const char *[]){e, o}, 2));
	return true;
}

static void
put_map(struct small_map *s)
{
	for (int k = 0; k + 1 < s->columns; k++)
		if (pair_columns(s, k))
			k++;
	for (int i = 0; i < s->rows; i++) {
		if (i + 1 < s->rows && pair_rows(s, i))
			i++;
		else
			gen_line(s->g, "const %s %s = %s;", s->type, s->out[i],
			    row_text(s->g, s->m[i], s->in, s->columns));
	}
}

/* A plane of values through the map along both of its sides. */
struct plane {
	struct gen *g;
	const char *type;
	int rows, columns; /* of the map */
	double m[WINO_P][WINO_P];
	const char *v[WINO_P][WINO_P];
};

static void
map_side(struct plane *p, bool down, int count)
{
	for (int j = 0; j < count; j++) {
		struct small_map s = {.g = p->g, .type = p->type, .rows = p->rows, .columns = p->columns};

		for (int i = 0; i < WINO_P; i++)
			for (int k = 0; k < WINO_P; k++)
				s.m[i][k] = p->m[i][k];
		for (int k = 0; k < p->columns; k++)
			s.in[k] = down ? p->v[k][j] : p->v[j][k];
		for (int i = 0; i < p->rows; i++)
			s.out[i] = fresh(p->g);
		put_map(&s);
		for (int i = 0; i < p->rows; i++)
			*(down ? &p->v[i][j] : &p->v[j][i]) = s.out[i];
	}
}

/* ---- the tiles' functions ----------------------------------------------------------------------- */
static const char *
element(struct gen *g, bool vector, const char *array, int64_t at)
{
	return vector ? arena_printf(g->a, "*(%skvec *)(%s + (c + %lld))",
			    *array == 's' || *array == 'a' ? "const " : "", array, (long long)at)
		      : arena_printf(g->a, "%s[c + %lld]", array, (long long)at);
}

struct transform {
	enum shared_what what;
	const char *from, *to;
	int64_t n;         /* elements along memory */
	int rows, columns; /* of the map: columns x columns places become rows x rows */
	int64_t y, x, out; /* elements between places, and between those that are made (along x) */
};

static void
put_plane(struct gen *g, const struct transform *t, double m[WINO_P][WINO_P], bool vector)
{
	struct plane p = {.g = g, .type = vector ? "kvec" : "float", .rows = t->rows, .columns = t->columns};

	for (int i = 0; i < WINO_P; i++)
		for (int k = 0; k < WINO_P; k++)
			p.m[i][k] = m[i][k];
	for (int j = 0; j < t->columns; j++)
		for (int i = 0; i < t->columns; i++) {
			p.v[i][j] = fresh(g);
			gen_line(g, "const %s %s = %s;", p.type, p.v[i][j],
			    element(g, vector, t->from, i * t->y + j * t->x));
		}
	map_side(&p, true, t->columns);
	map_side(&p, false, t->rows);
	for (int i = 0; i < t->rows; i++)
		for (int j = 0; j < t->rows; j++)
			gen_line(
			    g, "%s = %s;", element(g, vector, t->to, (i * t->rows + j) * t->out), p.v[i][j]);
}

static void
put_transform(struct gen *g, uint32_t stage, const struct transform *t, double m[WINO_P][WINO_P], int lanes)
{
	int64_t whole = t->n / lanes * lanes;
	struct shared_text was = shared_begin(g);

	gen_line(g, "(const float *restrict %s, float *restrict %s)", t->from, t->to);
	gen_line(g, "{");
	g->depth++;
	for (int tail = 0; tail < 2; tail++) {
		if (tail ? whole == t->n : whole == 0)
			continue;
		if (tail)
			gen_open(g, "for (k_i64 c = %lld; c < %lld; c++)", (long long)whole, (long long)t->n);
		else
			gen_open(g, "for (k_i64 c = 0; c < %lld; c += %d)", (long long)whole, lanes);
		put_plane(g, t, m, !tail);
		gen_close(g);
	}
	gen_line(g, "__asm__ volatile(\"\" ::: \"memory\");");
	g->depth--;
	gen_line(g, "}");
	shared_end(g, &was, stage, t->what, t->what == SHARED_WINO_IN ? "in" : "out");
}

void
wino_transforms(struct gen *g, uint32_t stage)
{
	const struct anchor *n = g->p->stages[stage].anchor;
	const struct winograd *w = n->wino;
	int64_t nr = (int64_t)n->nv * n->lanes;
	double m[WINO_P][WINO_P] = {{0}};

	for (int i = 0; i < w->p; i++)
		for (int k = 0; k < w->p; k++)
			m[i][k] = w->bt[i][k];
	put_transform(g, stage,
	    &(struct transform){.what = SHARED_WINO_IN,
		.from = "a",
		.to = "v",
		.n = n->n_k_total,
		.rows = w->p,
		.columns = w->p,
		.y = n->a_y,
		.x = n->a_x,
		.out = n->v_pitch},
	    m, n->lanes);
	for (int i = 0; i < w->m; i++)
		for (int k = 0; k < w->p; k++)
			m[i][k] = w->at[i][k];
	put_transform(g, stage,
	    &(struct transform){.what = SHARED_WINO_OUT,
		.from = "s",
		.to = "t",
		.n = nr,
		.rows = w->m,
		.columns = w->p,
		.y = w->p * n->sums_pitch,
		.x = n->sums_pitch,
		.out = nr},
	    m, n->lanes);
}

/* ---- how many ------------------------------------------------------------------------------------ */
static void
note_even(int64_t count, int64_t most, void (*fn)(void *self, int64_t n), void *self)
{
	int64_t parts = (count + most - 1) / most;

	if (count <= 0)
		return;
	fn(self, count / parts);
	if (count % parts)
		fn(self, count / parts + 1);
}

struct heights {
	const struct anchor *n;
	uint32_t set;
};

static void
note_height(void *self, int64_t height)
{
	struct heights *h = self;

	h->set |= 1u << (height - 1);
}

static void
note_block(void *self, int64_t tiles)
{
	struct heights *h = self;

	note_even(tiles, h->n->mr, note_height, h);
}

/* Tiles of a step whose first row axis has `first` elements. */
static int64_t
n_tiles(const struct anchor *n, int64_t first)
{
	int64_t all = 1;

	for (uint32_t i = 0; i < n->n_row; i++) {
		int64_t e = i ? n->row[i].extent : first;

		all *= i + 2 < n->n_row ? e : (e + n->wino->m - 1) / n->wino->m;
	}
	return all;
}

uint32_t
wino_heights(struct gen *g, const struct anchor *n)
{
	struct heights h = {.n = n};

	note_even(n_tiles(n, n->row[0].extent), n->tiles, note_block, &h);
	if (n->row[0].limit != IX_NONE)
		note_even(n_tiles(n, ix_get(g->tx, n->row[0].limit)->lo), n->tiles, note_block, &h);
	return h.set;
}

/* ---- loops --------------------------------------------------------------------------------------- */
/* Elements along row axis i in this step. */
static const char *
row_end(struct tiling *t, uint32_t i)
{
	return batch_end(t->g, &t->n->row[i]);
}

static void
put_sizes(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t y = n->n_row - 2;
	int m = n->wino->m;
	const char *others = "1";

	for (uint32_t i = 0; i < y; i++)
		others = arena_printf(g->a, "%s * %s", others, row_end(t, i));
	gen_line(g, "const k_i64 n_y = %s, n_x = %s;", row_end(t, y), row_end(t, y + 1));
	gen_line(g, "const k_i64 t_y = (n_y + %d) / %d, t_x = (n_x + %d) / %d;", m - 1, m, m - 1, m);
	gen_line(g, "const k_i64 n_all = %s * t_y * t_x;", others);
	gen_line(g,
	    "const k_i64 n_blocks = (n_all + %lld) / %lld, size = n_all / n_blocks, larger = n_all %% "
	    "n_blocks;",
	    (long long)n->tiles - 1, (long long)n->tiles);
}

/* Tile q of the block: its first row of results. */
static void
put_place(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	int m = n->wino->m;

	gen_line(g, "const k_i64 at = b0 + q, tile_y = at / t_x %% t_y * %d, tile_x = at %% t_x * %d;", m, m);
	gen_line(g, "const k_i64 m0 = (at / (t_x * t_y) * %lld + tile_y) * %lld + tile_x;",
	    (long long)n->row[n->n_row - 2].extent, (long long)n->row[n->n_row - 1].extent);
}

static void
put_inputs(struct tiling *t, uint32_t stage)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (k_i64 q = 0; q < n_rows; q++)");
	put_place(t);
	gen_bind(g, n->m, "m0");
	gen_line(g, "%s(%s + %s, %s + q * %lld);", shared_name(g, stage, SHARED_WINO_IN),
	    gen_tensor(g, n->a_tensor), gen_ix(g, n->a_at), gen_tensor(g, n->v), (long long)n->n_k_total);
	gen_bind(g, n->m, NULL);
	gen_forget(g, mark);
	gen_close(g);
}

/* ---- panels of columns: one, or several of them in turn ---------------------------------------------- */
static void
open_group(struct tiling *t)
{
	if (t->n->wide == 1)
		return;
	gen_open(t->g, "for (k_i64 panel = first; panel < k_least(first + %lld, %lld); panel++)",
	    (long long)t->n->wide, (long long)t->n->n_panels);
	gen_bind(t->g, t->n->panel, "panel");
}

static void
close_group(struct tiling *t)
{
	if (t->n->wide > 1)
		gen_close(t->g);
}

/* Rows of the sums before this panel's: text to add to. */
static const char *
in_group(struct tiling *t)
{
	return t->n->wide == 1 ? ""
			       : arena_printf(t->g->a, "(panel - first) * %lld + ", (long long)t->n->tiles);
}

static void
open_groups(struct tiling *t)
{
	if (t->n->wide == 1)
		open_panels(t);
	else
		gen_open(t->g, "for (k_i64 first = 0; first < %lld; first += %lld)",
		    (long long)t->n->n_panels, (long long)t->n->wide);
}

static void
put_products(struct tiling *t, uint32_t stage)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t set = wino_heights(g, n);

	gen_open(g, "for (k_i64 position = 0; position < %d; position++)", n->wino->p * n->wino->p);
	open_group(t);
	gen_line(g, "const float *b = %s + (%s + position * %lld);", gen_tensor(g, n->b_tensor),
	    gen_ix(g, n->b_at), (long long)(n->n_k_total * t->nr));
	open_rows(t);
	gen_line(g, "const float *a = %s + (position * %lld + m0 * %lld);", gen_tensor(g, n->v),
	    (long long)n->v_pitch, (long long)n->n_k_total);
	gen_line(g, "float *s = %s + (position * %lld + (%sm0) * %lld);", gen_tensor(g, n->sums),
	    (long long)n->sums_pitch, in_group(t), (long long)t->nr);
	gen_open(g, "switch (h)");
	for (int h = 1; h <= n->mr; h++)
		if (set >> (h - 1) & 1)
			gen_line(g, "case %d: %s(a, b, s); break;", h,
			    shared_name(g, stage, SHARED_TILE(1, h, 0)));
	gen_close(g);
	gen_line(g, "m0 += h;");
	gen_close(g);
	close_group(t);
	gen_close(g);
}

static void
put_results(struct tiling *t, uint32_t stage)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	int m = n->wino->m;
	uint32_t mark = gen_mark(g);

	open_group(t);
	gen_open(g, "for (k_i64 q = 0; q < n_rows; q++)");
	gen_line(g, "float t[%lld] __attribute__((aligned(64)));", (long long)m * m * t->nr);
	put_place(t);
	gen_line(g, "%s(%s + (%sq) * %lld, t);", shared_name(g, stage, SHARED_WINO_OUT),
	    gen_tensor(g, n->sums), in_group(t), (long long)t->nr);
	gen_open(g, "for (k_i64 i = 0; i < k_least(%d, n_y - tile_y); i++)", m);
	gen_open(g, "for (k_i64 j = 0; j < k_least(%d, n_x - tile_x); j++)", m);
	gen_line(g, "const k_i64 r = i * %d + j, m = m0 + i * %lld + j;", m,
	    (long long)n->row[n->n_row - 1].extent);
	put_row(t);
	gen_close(g);
	gen_close(g);
	gen_forget(g, mark);
	gen_close(g);
	close_group(t);
}

void
wino_loops(struct tiling *t)
{
	struct gen *g = t->g;
	const struct anchor *n = t->n;
	uint32_t stage = (uint32_t)(t->s - g->p->stages);

	put_sizes(t);
	gen_open(g, "for (k_i64 block = 0, b0 = 0; block < n_blocks; block++)");
	gen_line(g, "const k_i64 n_rows = size + (block < larger);");
	gen_line(g,
	    "const k_i64 n_tiles = (n_rows + %d) / %d, height = n_rows / n_tiles, taller = n_rows %% "
	    "n_tiles;",
	    n->mr - 1, n->mr);
	put_inputs(t, stage);
	open_groups(t);
	put_products(t, stage);
	put_results(t, stage);
	gen_close(g);
	gen_line(g, "b0 += n_rows;");
	gen_close(g);
}
