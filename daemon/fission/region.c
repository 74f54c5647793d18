/* daemon/fission/region.c: RoiAlign and DeformConv (linear sampling at places that operands
 * decide), and Det of small matrices. */
#include "sample_int.h"

/* ---- RoiAlign ---------------------------------------------------------------------------- */
struct roi {
	struct fission *f;
	int64_t regions, out[2], per_bin; /* samples along each side of a bin */
	double scale;
	bool is_half_pixel;
};

/* Coordinates of all samples along one side: [R, out * per_bin], from columns lo and lo+2 of rois. */
static tensor_id
samples_along(const struct roi *r, tensor_id rois, int side)
{
	struct fission *f = r->f;
	int column = 1 - side;
	int64_t n = r->out[side] * r->per_bin;
	struct shape row = {.rank = 2, .dim = {1, n}};
	double shift = r->is_half_pixel ? -0.5 : 0;
	tensor_id ends[2];

	for (int k = 0; k < 2; k++) {
		ends[k] = b_map2n(f, PRIM_mul, b_slice1(f, rois, 1, column + 2 * k, 1), r->scale);
		ends[k] = b_map2n(f, PRIM_add, ends[k], shift);
	}
	tensor_id length = b_map2(f, PRIM_sub, ends[1], ends[0]);
	if (!r->is_half_pixel)
		length = b_map2n(f, PRIM_max, length, 1);
	/* sample i lies (i + 1/2) / (out * per_bin) along the side */
	tensor_id at = b_cast(f, b_iota(f, &row, 1), b_type(f, rois));
	at = b_map2n(f, PRIM_mul, b_map2n(f, PRIM_add, at, 0.5), 1 / (double)n);
	return b_map2(f, PRIM_add, ends[0], b_map2(f, PRIM_mul, length, at));
}

/* Up to one element outside the border is read; beyond, nothing. */
static struct axis_taps
roi_taps(const struct grid *g, tensor_id x, int64_t n)
{
	struct fission *f = g->f;
	tensor_id inside = b_map2(f, PRIM_and, b_map2(f, PRIM_le, b_num(f, g->type, -1), x),
	    b_map2(f, PRIM_le, x, b_num(f, g->type, (double)n)));
	tensor_id clamped = b_map2n(f, PRIM_min, b_map2n(f, PRIM_max, x, 0), (double)(n - 1));
	struct axis_taps t = sample_linear(g, clamped, n);

	for (int k = 0; k < t.n; k++)
		t.weight[k] = b_select(f, inside, t.weight[k], b_num(f, g->type, 0));
	return t;
}

/* A side's taps [R, a] seen by every place of the other side: [R, a * b]. */
static tensor_id
across(struct fission *f, tensor_id x, int64_t other, bool is_outer)
{
	const struct shape s = *b_shape(f, x);
	struct shape wide = {.rank = 3, .dim = {s.dim[0], is_outer ? s.dim[1] : 1, is_outer ? 1 : s.dim[1]}};

	x = b_reshape(f, x, &wide);
	wide.dim[is_outer ? 2 : 1] = other;
	return b_view(f, b_expand(f, x, &wide), 2, (int64_t[]){s.dim[0], s.dim[1] * other});
}

static bool
read_roi(struct fission *f, struct roi *r, tensor_id x, tensor_id rois)
{
	static const char *const modes[] = {"half_pixel", "output_half_pixel", NULL};

	*r = (struct roi){.f = f,
	    .out = {f_int(f, "output_height"), f_int(f, "output_width")},
	    .per_bin = f_int(f, "sampling_ratio"),
	    .scale = f_float(f, "spatial_scale")};
	r->is_half_pixel = f->op->since >= 16 && f_choice(f, "coordinate_transformation_mode", modes) == 0;
	if (f->failed)
		return false;
	r->regions = b_dim(f, rois, 0);
	if (b_rank(f, x) != 4 || b_rank(f, rois) != 2 || b_dim(f, rois, 1) != 4)
		f_fail(f, "operands must be [N, C, H, W] and [regions, 4]");
	if (r->per_bin < 1 || r->per_bin > 64)
		f_fail(f,
		    "attribute 'sampling_ratio' is %lld; 1 to 64 are supported (0 depends on the regions)",
		    (long long)r->per_bin);
	if (r->out[0] < 1 || r->out[1] < 1 || r->out[0] > 4096 || r->out[1] > 4096)
		f_fail(
		    f, "the output of %lldx%lld is not usable", (long long)r->out[0], (long long)r->out[1]);
	return !f->failed;
}

static void
roi_align(struct fission *f)
{
	static const char *const modes[] = {"avg", "max", NULL};
	tensor_id x = f_in(f, 0), rois = f_in(f, 1), parts[4];
	struct roi r;
	bool is_max = f_choice(f, "mode", modes) == 1;
	int n_parts = 0;

	if (!read_roi(f, &r, x, rois))
		return;
	const struct shape s = *b_shape(f, x);
	struct grid g = {.f = f,
	    .mode = LINEAR,
	    .border = BORDER,
	    .n = 2,
	    .extent = {s.dim[2], s.dim[3]},
	    .type = b_type(f, x)};
	int64_t n[2] = {r.out[0] * r.per_bin, r.out[1] * r.per_bin};
	struct axis_taps t[2];
	for (int side = 0; side < 2; side++)
		t[side] = roi_taps(&g, samples_along(&r, rois, side), g.extent[side]);
	x = b_gather(f, b_view(f, x, 3, (int64_t[]){s.dim[0], s.dim[1], s.dim[2] * s.dim[3]}), f_in(f, 2), 0);
	/* the largest is taken over the weighted neighbours themselves, so each is gathered alone */
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++) {
			struct axis_taps one[2] = {
			    {1, {across(f, t[0].at[i], n[1], true)}, {across(f, t[0].weight[i], n[1], true)}},
			    {1, {across(f, t[1].at[k], n[0], false)},
				{across(f, t[1].weight[k], n[0], false)}}};
			parts[n_parts++] = sample_gather(&g, x, one, n[0] * n[1]);
		}
	tensor_id y = parts[0];
	for (int i = 1; i < n_parts; i++)
		y = b_map2(f, is_max ? PRIM_max : PRIM_add, y, parts[i]);
	y = b_view(f, y, 6, (int64_t[]){r.regions, s.dim[1], r.out[0], r.per_bin, r.out[1], r.per_bin});
	static const int64_t within[] = {3, 5};
	y = is_max ? b_reduce(f, PRIM_rmax, y, 2, within) : b_mean(f, y, 2, within);
	f_out(f, 0, b_view(f, y, 4, (int64_t[]){r.regions, s.dim[1], r.out[0], r.out[1]}));
}

void
fiss_RoiAlign_10(struct fission *f)
{
	roi_align(f);
}

void
fiss_RoiAlign_16(struct fission *f)
{
	roi_align(f);
}

/* ---- DeformConv -------------------------------------------------------------------------- */
struct deform {
	struct window w;
	int64_t batch, channels, filters, groups, offset_groups, taps, places;
	struct shape out; /* [N, M, spatial...] */
};

/* Where tap k of every window would read without offsets: [1, taps, places] along dimension i. */
static tensor_id
regular_places(struct fission *f, const struct deform *d, int i, enum dtype t)
{
	struct shape s = {.rank = 3, .dim = {1, d->taps, d->places}};
	void *data = f_memory(f, f_product(f, d->taps, d->places), dtype_size(t));

	if (!data)
		return f->blank;
	for (int64_t e = 0; e < d->taps * d->places; e++) {
		int64_t tap = e / d->places, place = e % d->places;
		for (int k = d->w.n - 1; k > i; k--) {
			tap /= d->w.kernel[k];
			place /= d->out.dim[2 + k];
		}
		int64_t at = place % d->out.dim[2 + i] * d->w.stride[i] - d->w.lo[i] +
		    tap % d->w.kernel[i] * d->w.dilation[i];
		elem_set(t, data, e, (double)at);
	}
	return b_table(f, t, &s, data);
}

/* Sampled columns [N * offset groups, channels of one, taps * places]. */
static tensor_id
deformed_columns(struct fission *f, const struct deform *d, tensor_id x)
{
	const struct shape s = *b_shape(f, x);
	tensor_id offset = f_in(f, 2);
	int64_t n = d->batch * d->offset_groups, flat = 1;
	struct grid g = {.f = f, .mode = LINEAR, .border = ZEROS, .n = d->w.n, .type = b_type(f, x)};
	struct axis_taps t[MAX_SPATIAL];

	if (shape_count(b_shape(f, offset)) != n * d->taps * d->w.n * d->places) {
		f_fail(f, "operand 2 (offset) has the wrong size");
		return f->blank;
	}
	offset = b_view(f, offset, 4, (int64_t[]){n, d->taps, d->w.n, d->places});
	for (int i = 0; i < d->w.n; i++) {
		tensor_id moved =
		    b_view(f, b_slice1(f, offset, 2, i, 1), 3, (int64_t[]){n, d->taps, d->places});
		moved = b_map2(f, PRIM_add, moved, regular_places(f, d, i, g.type));
		g.extent[i] = s.dim[2 + i];
		flat *= s.dim[2 + i];
		t[i] =
		    sample_linear(&g, b_view(f, moved, 2, (int64_t[]){n, d->taps * d->places}), g.extent[i]);
	}
	x = b_view(f, x, 3, (int64_t[]){n, d->channels / d->offset_groups, flat});
	return sample_gather(&g, x, t, d->taps * d->places);
}

static bool
read_deform(struct fission *f, struct deform *d, tensor_id x, tensor_id w)
{
	*d = (struct deform){
	    .groups = f_int(f, "group"), .offset_groups = f_int(f, "offset_group"), .taps = 1, .places = 1};
	if (!f->failed &&
	    (b_rank(f, x) != b_rank(f, w) || b_rank(f, x) < 3 || b_rank(f, x) > 2 + MAX_SPATIAL))
		f_fail(f, "operand and weight have %d and %d dimensions", b_rank(f, x), b_rank(f, w));
	window_read(f, x, b_shape(f, w)->dim + 2, &d->w);
	if (f->failed)
		return false;
	d->batch = b_dim(f, x, 0);
	d->channels = b_dim(f, x, 1);
	d->filters = b_dim(f, w, 0);
	if (d->groups < 1 || d->offset_groups < 1 || d->channels % d->groups != 0 ||
	    d->filters % d->groups != 0 || d->channels % d->offset_groups != 0 ||
	    b_dim(f, w, 1) * d->groups != d->channels)
		f_fail(f, "%lld channels and %lld filters do not divide into the groups",
		    (long long)d->channels, (long long)d->filters);
	d->out = (struct shape){.rank = d->w.n + 2, .dim = {d->batch, d->filters}};
	for (int i = 0; i < d->w.n && !f->failed; i++) {
		d->out.dim[2 + i] = window_extent(&d->w, b_shape(f, x), i);
		d->taps = f_product(f, d->taps, d->w.kernel[i]);
		d->places = f_product(f, d->places, d->out.dim[2 + i]);
	}
	return !f->failed;
}

/* The convolution as a product: columns are sampled where the offsets say. */
void
fiss_DeformConv_19(struct fission *f)
{
	tensor_id x = f_in(f, 0), w = f_in(f, 1);
	struct deform d;

	if (!read_deform(f, &d, x, w))
		return;
	tensor_id columns = deformed_columns(f, &d, x);
	if (f_has(f, 4)) {
		tensor_id mask =
		    b_view(f, f_in(f, 4), 3, (int64_t[]){d.batch * d.offset_groups, 1, d.taps * d.places});
		columns = b_map2(f, PRIM_mul, columns, mask);
	}
	int64_t rows = d.channels / d.groups * d.taps;
	columns = b_view(f, columns, 4, (int64_t[]){d.batch, d.groups, rows, d.places});
	w = b_view(f, w, 4, (int64_t[]){1, d.groups, d.filters / d.groups, rows});
	tensor_id y = b_reshape(f, fs_matmul(f, w, columns), &d.out);
	if (f_has(f, 3))
		y = b_map2(f, PRIM_add, y, fs_per_channel(f, f_in(f, 3), d.out.rank));
	f_out(f, 0, y);
}

/* ---- Det --------------------------------------------------------------------------------- */
enum { MAX_DET = 4 };

/* x [B, n, n] without row 0 and column k */
static tensor_id
minor(struct fission *f, tensor_id x, int64_t n, int64_t k)
{
	tensor_id part[2], rows = b_slice1(f, x, 1, 1, n - 1);
	uint32_t m = 0;

	if (k > 0)
		part[m++] = b_slice1(f, rows, 2, 0, k);
	if (k < n - 1)
		part[m++] = b_slice1(f, rows, 2, k + 1, n - 1 - k);
	return b_concat(f, part, m, 2);
}

/* By the first row; [B, 1, 1] */
static tensor_id
determinant(struct fission *f, tensor_id x, int64_t n)
{
	tensor_id sum = f->blank;

	if (n == 1)
		return x;
	for (int64_t k = 0; k < n; k++) {
		tensor_id a = b_slice1(f, b_slice1(f, x, 1, 0, 1), 2, k, 1);
		tensor_id term = b_map2(f, PRIM_mul, a, determinant(f, minor(f, x, n, k), n - 1));
		sum = k == 0 ? term : b_map2(f, k % 2 ? PRIM_sub : PRIM_add, sum, term);
	}
	return sum;
}

void
fiss_Det_11(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	struct shape out = {.rank = MAX_OF(s.rank - 2, 0)};
	int64_t batch = 1, n = s.rank >= 2 ? s.dim[s.rank - 1] : 0;

	if (!f->failed && (n < 1 || n > MAX_DET || s.dim[s.rank - 2] != n))
		f_fail(f, "square matrices of up to %d rows are supported", MAX_DET);
	if (f->failed)
		return;
	for (int i = 0; i < out.rank; i++) {
		out.dim[i] = s.dim[i];
		batch *= s.dim[i];
	}
	f_out(f, 0, b_reshape(f, determinant(f, b_view(f, x, 3, (int64_t[]){batch, n, n}), n), &out));
}
