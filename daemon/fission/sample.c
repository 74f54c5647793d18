/* daemon/fission/sample.c: reading at computed places: GridSample, AffineGrid, and Col2Im.
 *
 * A place is a coordinate a spatial dimension.  Along each dimension a few taps (1, 2 or 4) with
 * weights; every combination of taps is one gather from the flattened spatial dimensions. */
#include "sample_int.h"

#include <math.h>

/* -1 .. 1 to input elements */
static tensor_id
to_element(const struct grid *g, tensor_id x, int64_t n)
{
	double half = (double)n / 2;

	if (g->is_aligned)
		return b_map2n(g->f, PRIM_mul, b_map2n(g->f, PRIM_add, x, 1), (double)(n - 1) / 2);
	return b_map2n(g->f, PRIM_add, b_map2n(g->f, PRIM_mul, x, half), half - 0.5);
}

static tensor_id
clamp(struct fission *f, tensor_id x, double lo, double hi)
{
	return b_map2n(f, PRIM_min, b_map2n(f, PRIM_max, x, lo), hi);
}

/* Mirrored at lo and hi until inside: with d = |x - lo| mod 2r the place is lo + min(d, 2r - d). */
static tensor_id
reflect(struct fission *f, tensor_id x, double lo, double hi)
{
	double r = hi - lo;

	if (r <= 0)
		return b_map2n(f, PRIM_mul, x, 0);
	tensor_id d = b_map2n(f, PRIM_fmod, b_map1(f, PRIM_abs, b_map2n(f, PRIM_sub, x, lo)), 2 * r);
	tensor_id back = b_map2(f, PRIM_sub, b_num(f, b_type(f, x), 2 * r), d);
	return b_map2n(f, PRIM_add, b_map2(f, PRIM_min, d, back), lo);
}

static tensor_id
fold_border(const struct grid *g, tensor_id x, int64_t n)
{
	double last = (double)(n - 1);

	if (g->border == BORDER)
		return clamp(g->f, x, 0, last);
	if (g->border == REFLECTION)
		return clamp(g->f,
		    g->is_aligned ? reflect(g->f, x, 0, last) : reflect(g->f, x, -0.5, last + 0.5), 0, last);
	return x;
}

/* |d| of the cubic kernel with a = -0.75: tap k of 4 at fraction t */
static tensor_id
cubic_weight(struct fission *f, tensor_id t, int k)
{
	const double a = -0.75;
	/* the distance of tap k-1 from the place: t+1, t, 1-t, 2-t */
	tensor_id d = k == 0 ? b_map2n(f, PRIM_add, t, 1)
	    : k == 1         ? t
			     : b_map2(f, PRIM_sub, b_num(f, b_type(f, t), k - 1), t);
	tensor_id y;

	if (k == 1 || k == 2) {
		y = b_map2n(f, PRIM_sub, b_map2n(f, PRIM_mul, d, a + 2), a + 3);
		return b_map2n(f, PRIM_add, b_map2(f, PRIM_mul, b_map2(f, PRIM_mul, y, d), d), 1);
	}
	y = b_map2n(f, PRIM_sub, b_map2n(f, PRIM_mul, d, a), 5 * a);
	y = b_map2n(f, PRIM_add, b_map2(f, PRIM_mul, y, d), 8 * a);
	return b_map2n(f, PRIM_sub, b_map2(f, PRIM_mul, y, d), 4 * a);
}

/* One tap at the (whole) place x with a weight. */
void
sample_add_tap(const struct grid *g, struct axis_taps *t, tensor_id x, tensor_id weight, int64_t n)
{
	struct fission *f = g->f;
	double last = (double)(n - 1);

	if (g->border == ZEROS) {
		tensor_id inside = b_map2(f, PRIM_eq, x, clamp(f, x, 0, last));
		weight = b_select(f, inside, weight, b_num(f, g->type, 0));
	}
	t->at[t->n] = b_cast(f, clamp(f, fold_border(g, x, n), 0, last), DT_i64);
	t->weight[t->n++] = weight;
}

struct axis_taps
sample_linear(const struct grid *g, tensor_id x, int64_t n)
{
	struct fission *f = g->f;
	struct axis_taps t = {0};
	tensor_id low = b_map1(f, PRIM_floor, x), part = b_map2(f, PRIM_sub, x, low);

	sample_add_tap(g, &t, low, b_map2(f, PRIM_sub, b_num(f, g->type, 1), part), n);
	sample_add_tap(g, &t, b_map2n(f, PRIM_add, low, 1), part, n);
	return t;
}

static struct axis_taps
taps_along(const struct grid *g, tensor_id x, int64_t n)
{
	struct fission *f = g->f;
	struct axis_taps t = {0};

	x = to_element(g, x, n);
	if (g->mode == NEAREST) {
		sample_add_tap(g, &t, b_map1(f, PRIM_round, fold_border(g, x, n)), b_num(f, g->type, 1), n);
		return t;
	}
	if (g->mode == LINEAR)
		return sample_linear(g, fold_border(g, x, n), n);
	tensor_id low = b_map1(f, PRIM_floor, x), part = b_map2(f, PRIM_sub, x, low);
	for (int k = 0; k < 4; k++)
		sample_add_tap(g, &t, b_map2n(f, PRIM_add, low, k - 1), cubic_weight(f, part, k), n);
	return t;
}

/* The sum over all combinations of taps; x is [N, C, places of the input], result [N, C, P]. */
tensor_id
sample_gather(const struct grid *g, tensor_id x, const struct axis_taps *t, int64_t n_places)
{
	struct fission *f = g->f;
	struct shape s = {.rank = 3, .dim = {b_dim(f, x, 0), b_dim(f, x, 1), n_places}};
	struct attrs at = {0};
	int total = 1;
	tensor_id sum = f->blank;

	at_int(&at, ATTR_axis, 2);
	for (int i = 0; i < g->n; i++)
		total *= t[i].n;
	for (int k = 0; k < total && !f->failed; k++) {
		int rest = k;
		tensor_id index = f->blank, weight = f->blank;
		for (int i = 0; i < g->n; i++) {
			int tap = rest % t[i].n;
			rest /= t[i].n;
			index = i == 0 ? t[i].at[tap]
				       : b_map2(f, PRIM_add,
					     b_map2n(f, PRIM_mul, index, (double)g->extent[i]), t[i].at[tap]);
			weight = i == 0 ? t[i].weight[tap] : b_map2(f, PRIM_mul, weight, t[i].weight[tap]);
		}
		struct shape one = {.rank = 3, .dim = {s.dim[0], 1, n_places}};
		tensor_id in[2] = {x, b_expand(f, b_reshape(f, index, &one), &s)};
		tensor_id v = b_prim(f, PRIM_gather_elements, in, 2, &at);
		if (g->mode != NEAREST || g->border == ZEROS) {
			/* a tap without weight must not pass on infinities */
			struct shape w1 = b_rank(f, weight) == 2 ? one : *b_shape(f, weight);
			v = b_map2(f, PRIM_mul, v, b_reshape(f, weight, &w1));
		}
		sum = k == 0 ? v : b_map2(f, PRIM_add, sum, v);
	}
	return sum;
}

void
fiss_GridSample_16(struct fission *f)
{
	static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear", "bicubic", NULL};
	static const char *const borders[] = {"zeros", "border", "reflection", NULL};
	tensor_id x = f_in(f, 0), places = f_in(f, 1);
	const struct shape sx = *b_shape(f, x), sp = *b_shape(f, places);
	int mode = f_choice(f, "mode", modes);
	struct grid g = {.f = f,
	    .mode = (enum mode)(mode >= 3 ? mode - 2 : mode),
	    .n = sx.rank - 2,
	    .type = b_type(f, places),
	    .border = (enum border)f_choice(f, "padding_mode", borders),
	    .is_aligned = f_int(f, "align_corners") != 0};
	struct axis_taps t[MAX_SPATIAL];
	struct shape out = {.rank = sx.rank, .dim = {sx.dim[0], sx.dim[1]}};
	int64_t flat = 1, n_places = 1;

	if (!f->failed &&
	    (g.n < 1 || g.n > MAX_SPATIAL || sp.rank != sx.rank || sp.dim[sp.rank - 1] != g.n ||
		sp.dim[0] != sx.dim[0]))
		f_fail(f, "data of %d and places of %d dimensions do not go together", sx.rank, sp.rank);
	if (f->failed)
		return;
	for (int i = 0; i < g.n; i++) {
		g.extent[i] = sx.dim[2 + i];
		flat *= sx.dim[2 + i];
		n_places *= sp.dim[1 + i];
		out.dim[2 + i] = sp.dim[1 + i];
	}
	/* coordinates come innermost dimension first */
	for (int i = 0; i < g.n; i++) {
		tensor_id c = b_slice1(f, places, sp.rank - 1, g.n - 1 - i, 1);
		t[i] = taps_along(&g, b_view(f, c, 2, (int64_t[]){sx.dim[0], n_places}), g.extent[i]);
	}
	x = b_view(f, x, 3, (int64_t[]){sx.dim[0], sx.dim[1], flat});
	tensor_id y = sample_gather(&g, b_cast(f, x, g.type), t, n_places);
	f_out(f, 0, b_cast(f, b_reshape(f, y, &out), b_type(f, x)));
}

/* ---- AffineGrid -------------------------------------------------------------------------- */
/* Every place of the output as [P, n + 1]: coordinates, innermost first, and 1; times theta. */
void
fiss_AffineGrid_20(struct fission *f)
{
	tensor_id theta = f_in(f, 0);
	int n_size;
	const int64_t *size = f_const_ints(f, 1, "size", &n_size);
	bool is_aligned = f_int(f, "align_corners") != 0;
	int n = n_size - 2;
	struct shape base = {.rank = 2, .dim = {1, n + 1}}, out = {.rank = n + 2};

	if (!f->failed && (n < 2 || n > MAX_SPATIAL || b_rank(f, theta) != 3))
		f_fail(f, "operand 1 (size) has %d numbers; 4 or 5 are supported", n_size);
	for (int i = 0; i < n && !f->failed; i++) {
		if (size[2 + i] < 1)
			f_fail(f, "operand 1 (size) holds %lld", (long long)size[2 + i]);
		base.dim[0] = f_product(f, base.dim[0], size[2 + i]);
		out.dim[1 + i] = size[2 + i];
	}
	enum dtype t = b_type(f, theta);
	void *data = f->failed ? NULL : f_memory(f, f_product(f, base.dim[0], n + 1), dtype_size(t));
	if (!data || f->failed)
		return;
	for (int64_t p = 0; p < base.dim[0]; p++) {
		int64_t rest = p;
		for (int i = n - 1; i >= 0; i--) {
			double len = (double)size[2 + i], at = (double)(rest % size[2 + i]);
			rest /= size[2 + i];
			double c =
			    is_aligned ? (len > 1 ? -1 + 2 * at / (len - 1) : 0) : (2 * at + 1) / len - 1;
			elem_set(t, data, p * (n + 1) + (n - 1 - i), c);
		}
		elem_set(t, data, p * (n + 1) + n, 1);
	}
	out.dim[0] = b_dim(f, theta, 0);
	out.dim[n + 1] = n;
	tensor_id y = fs_matmul(f, b_table(f, t, &base, data), b_transpose(f, theta, (int64_t[]){0, 2, 1}));
	f_out(f, 0, b_reshape(f, y, &out));
}

/* ---- Col2Im ------------------------------------------------------------------------------ */
/* Geometry of the blocks: where they lie in the image; false after an error. */
static bool
read_blocks(struct fission *f, const int64_t *image, const int64_t *block, struct window *w, int64_t *columns)
{
	int n_dil, n_pads, n_str;
	const int64_t *dil = f_ints(f, "dilations", &n_dil), *pads = f_ints(f, "pads", &n_pads),
		      *str = f_ints(f, "strides", &n_str);

	if ((dil && n_dil != w->n) || (pads && n_pads != 2 * w->n) || (str && n_str != w->n))
		f_fail(f, "dilations, pads or strides do not have a number for each of %d dimensions", w->n);
	for (int i = 0; i < w->n && !f->failed; i++) {
		int64_t lo = pads ? pads[i] : 0, hi = pads ? pads[w->n + i] : 0;
		w->dilation[i] = dil ? dil[i] : 1;
		w->stride[i] = str ? str[i] : 1;
		if (block[i] < 1 || image[i] < 1 || w->dilation[i] < 1 || w->stride[i] < 1 || lo < 0 ||
		    hi < 0 ||
		    MAX_OF(MAX_OF(block[i], image[i]), MAX_OF(w->dilation[i], w->stride[i])) > 1 << 30 ||
		    MAX_OF(lo, hi) > 1 << 30) {
			f_fail(f, "the geometry of dimension %d is out of range", i);
			break;
		}
		int64_t reach = (block[i] - 1) * w->dilation[i];
		if (image[i] + lo + hi <= reach) {
			f_fail(f, "the block is larger than the image along dimension %d", i);
			break;
		}
		columns[i] = (image[i] + lo + hi - reach - 1) / w->stride[i] + 1;
		w->lo[i] = reach - lo;
		/* what the last column does not reach stays zero */
		w->hi[i] = image[i] - 1 - ((columns[i] - 1) * w->stride[i] - lo);
	}
	return !f->failed;
}

/* The weight [block..., rows, 1]: row j of a block is the tap that puts it at its place.  The
 * kernel of a transposed convolution is turned round. */
static tensor_id
placing_weight(struct fission *f, const int64_t *block, int n, int64_t rows)
{
	struct shape s = {.rank = n + 2};
	float *w = f_memory(f, f_product(f, rows, rows), sizeof(*w));

	if (!w)
		return f->blank;
	for (int i = 0; i < n; i++)
		s.dim[i] = block[i];
	s.dim[n] = rows;
	s.dim[n + 1] = 1;
	for (int64_t j = 0; j < rows; j++)
		w[(rows - 1 - j) * rows + j] = 1;
	return b_table(f, DT_f32, &s, w);
}

/* Columns [N, C rows, L] back to an image: overlapping blocks are added, which is a transposed
 * convolution. */
void
fiss_Col2Im_18(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int n, n_block;
	const int64_t *image = f_const_ints(f, 1, "image_shape", &n),
		      *block = f_const_ints(f, 2, "block_shape", &n_block);
	static const int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct window w = {.n = n};
	struct attrs at = {0};
	int64_t columns[MAX_RANK], rows = 1;

	if (!f->failed && (n != n_block || n < 1 || n > MAX_SPATIAL || b_rank(f, x) != 3))
		f_fail(f, "operands 1 and 2 have %d and %d numbers, operand 0 %d dimensions", n, n_block,
		    b_rank(f, x));
	if (f->failed || !read_blocks(f, image, block, &w, columns))
		return;
	struct shape cut = {.rank = n + 2, .dim = {b_dim(f, x, 0), b_dim(f, x, 1)}};
	for (int i = 0; i < n; i++) {
		rows = f_product(f, rows, block[i]);
		cut.dim[2 + i] = columns[i];
	}
	if (f->failed || cut.dim[1] % rows != 0) {
		f_fail(
		    f, "%lld rows do not divide into blocks of %lld", (long long)cut.dim[1], (long long)rows);
		return;
	}
	tensor_id weight = b_cast(f, placing_weight(f, block, n, rows), b_type(f, x));
	struct shape every = *b_shape(f, weight);
	every.dim[every.rank - 1] = cut.dim[1] / rows;
	tensor_id in[2] = {fs_to_last(f, b_reshape(f, x, &cut)), b_expand(f, weight, &every)};
	at_list(&at, ATTR_lo, n, w.lo);
	at_list(&at, ATTR_hi, n, w.hi);
	at_list(&at, ATTR_stride, n, ones);
	at_list(&at, ATTR_dilation, n, w.dilation);
	at_list(&at, ATTR_ldil, n, w.stride);
	at_int(&at, ATTR_group, cut.dim[1] / rows);
	f_out(f, 0, fs_from_last(f, b_prim(f, PRIM_conv, in, 2, &at)));
}
