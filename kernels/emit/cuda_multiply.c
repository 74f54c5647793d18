/* kernels/emit/cuda_multiply.c: the inside of a tile.  FMA: 16 x 16 threads, each with every 16th
 * row and column.  Tensor cores: 2 x 4 warps, each with fragments of 16 x 8 (Volta: 16 x 16); who holds which
 * element is PTX's documented layout (g = lane / 4, t = lane % 4). */
#include "cuda_int.h"

static const struct tile_layout by_fma = {
    .lines = {"const int ty = K_TID / 16, tx = K_TID % 16;"},
    .unit = {16, 16},
    .most = {8, 8},
    .points = 1,
    .slots = {1, 1},
    .at = {"ty + 16 * i", "tx + 16 * j"},
    .slot = {"0", "0"},
    .mask = {{16}, {1, 2, 4, 8}},
    .leader = {"K_TID % 32 < 16", "tx == 0"},
    .groups = {8, 1},
    .group = {"K_TID / 32", "0"},
};
static const struct tile_layout mma_16x8 = {
    .lines = {"const int lane_g = K_TID % 32 / 4, lane_t = K_TID % 4;"},
    .unit = {32, 32},
    .most = {4, 4},
    .warp = {16, 8},
    .points = 4,
    .slots = {2, 2},
    .step = {{8, 0}, {1, 0}},
    .at = {"warp_m + 16 * i + lane_g", "warp_n + 8 * j + 2 * lane_t"},
    .slot = {"c / 2", "c % 2"},
    .mask = {{4, 8, 16}, {1, 2}},
    .leader = {"lane_g == 0", "lane_t == 0"},
    .groups = {2, 4},
    .group = {"K_TID / 128", "K_TID / 32 % 4"},
};

/* Volta: four products of 8 x 8 in a warp, each by four lanes and those 16 further on, laid out as 16 x 16.
 */
static const struct tile_layout mma_8x8 = {
    .lines = {"const int lane = K_TID % 32, lane_k = lane % 4 + lane / 16 * 4;",
	"const int lane_a = lane_k + lane / 8 % 2 * 8, lane_b = lane_k + lane / 4 % 2 * 8;",
	"const int lane_m = lane % 2 + lane / 16 * 4 + lane / 8 % 2 * 8, lane_n = lane % 4 / 2 * 2 + lane / "
	"4 % 2 * 8;"},
    .unit = {32, 64},
    .most = {4, 2},
    .warp = {16, 16},
    .points = 8,
    .slots = {2, 4},
    .step = {{2, 0}, {1, 4}},
    .at = {"warp_m + 16 * i + lane_m", "warp_n + 16 * j + lane_n"},
    .slot = {"c / 2 % 2", "(c % 2 + c / 4 * 2)"},
    .mask = {{1, 8, 16}, {2, 4}},
    .leader = {"(K_TID & 25) == 0", "(K_TID & 6) == 0"},
    .groups = {2, 4},
    .group = {"K_TID / 128", "K_TID / 32 % 4"},
};

static bool
is_volta(enum precision p, int sm)
{
	return p == PRECISION_F16 && sm < 75;
}

const struct tile_layout *
cuda_layout(enum precision p, int sm)
{
	return p == PRECISION_F32 ? &by_fma : is_volta(p, sm) ? &mma_8x8 : &mma_16x8;
}

int
cuda_k_step(enum precision p, int sm)
{
	return is_volta(p, sm) ? 4 : p == PRECISION_F32 || p == PRECISION_TF32 ? 8 : 16;
}

void
cuda_loop(struct gen *g, char i, int64_t n)
{
	gen_line(g, "K_UNROLL");
	gen_open(g, "for (int %c = 0; %c < %lld; %c++)", i, i, (long long)n, i);
}

void
cuda_place(struct gen *g, const struct tile *t)
{
	const struct tile_layout *l = t->layout;
	const long long tm = (long long)t->per[0], tn = (long long)t->per[1];

	if (l->warp[0])
		gen_line(g, "const int warp_m = K_TID / 128 * %lld, warp_n = K_TID / 32 %% 4 * %lld;",
		    l->warp[0] * tm, l->warp[1] * tn);
	for (size_t i = 0; i < COUNT_OF(l->lines) && l->lines[i]; i++)
		gen_line(g, "%s", l->lines[i]);
	gen_line(
	    g, l->points > 1 ? "float acc[%lld][%lld][%d];" : "float acc[%lld][%lld];", tm, tn, l->points);
}

void
cuda_clear(struct gen *g, const struct tile *t)
{
	cuda_loop(g, 'i', t->per[0]);
	cuda_loop(g, 'j', t->per[1]);
	if (t->layout->points > 1)
		cuda_loop(g, 'c', t->layout->points);
	gen_line(g, t->layout->points > 1 ? "acc[i][j][c] = 0.0f;" : "acc[i][j] = 0.0f;");
	for (int i = t->layout->points > 1 ? 3 : 2; i > 0; i--)
		gen_close(g);
}

/* Where the rows of the part begin. */
static const char *
part_text(const struct tile *t, char name)
{
	return t->is_handed && name == 'a' ? "hand[done + "
	    : name == 'a'                  ? "part_a[buffer]["
					   : "part_b[buffer][";
}

static void
multiply_fma(struct gen *g, const struct tile *t)
{
	gen_line(g, "K_UNROLL");
	gen_open(g, "for (int kk = 0; kk < %lld; kk++)", (long long)t->bk);
	gen_line(g, "float a[%lld], b[%lld];", (long long)t->per[0], (long long)t->per[1]);
	cuda_loop(g, 'i', t->per[0]);
	gen_line(g, "a[i] = %skk][ty + 16 * i];", part_text(t, 'a'));
	gen_close(g);
	cuda_loop(g, 'j', t->per[1]);
	gen_line(g, "b[j] = part_b[buffer][kk][tx + 16 * j];");
	gen_close(g);
	cuda_loop(g, 'i', t->per[0]);
	cuda_loop(g, 'j', t->per[1]);
	gen_line(g, "acc[i][j] += a[i] * b[j];");
	gen_close(g);
	gen_close(g);
	gen_close(g);
}

/* One row of a table for each kind of tensor core instruction. */
static const struct mma {
	const char *multiply, *pack;
	int n_a, n_b; /* registers of a fragment */
	int per_reg;  /* elements in one, neighbours in k */
	int k_step;
	int n_steps; /* instructions of a multiplication; mma_on() fills in the rest */
	const char *suffix;
} mma_of[PRECISION_COUNT] = {
    [PRECISION_TF32] = {"k_mma_tf32", "k_pack_tf32", 4, 2, 1, 8},
    [PRECISION_F16] = {"k_mma_f16", "k_pack_f16", 4, 2, 2, 16},
    [PRECISION_BF16] = {"k_mma_bf16", "k_pack_bf16", 4, 2, 2, 16},
};

/* Register r of a fragment: rows g (+8 for odd r of a), k of t (+ half a step from register 2 of a, 1 of b).
 */
static void
load_fragment(struct gen *g, const struct tile *tile, const struct mma *x, char name, char i, int n_reg)
{
	const char *warp = name == 'a' ? "warp_m" : "warp_n";
	const int rows = name == 'a' ? 16 : 8, half = x->k_step / 2;

	for (int r = 0; r < n_reg; r++) {
		const int down = name == 'a' ? r % 2 * 8 : 0, later = (name == 'a' ? r / 2 : r) * half;
		const char *at = arena_printf(g->a, "[%s + %d * %c + lane_g + %d]", warp, rows, i, down);
		const char *k =
		    arena_printf(g->a, "%skk + %d * lane_t + %d", part_text(tile, name), x->per_reg, later);

		if (x->per_reg == 1)
			gen_line(g, "%c[%c][%d] = %s(%s]%s);", name, i, r, x->pack, k, at);
		else
			gen_line(g, "%c[%c][%d] = %s(%s]%s, %s + 1]%s);", name, i, r, x->pack, k, at, k, at);
	}
}

/* Volta's fragments: a lane has a row of a and a column of b, two registers of two neighbours in k. */
static void
load_short_fragment(struct gen *g, const struct tile *t, char name, char i)
{
	const char *part = part_text(t, name);

	for (int r = 0; r < 2; r++) {
		const char *at =
		    arena_printf(g->a, "[warp_%c + 16 * %c + lane_%c]", name == 'a' ? 'm' : 'n', i, name);

		gen_line(g, "%c[%c][%d] = k_pack_f16(%skk + %d]%s, %skk + %d]%s);", name, i, r, part, 2 * r,
		    at, part, 2 * r + 1, at);
	}
}

/* What the architecture multiplies by. */
static struct mma
mma_on(enum precision p, int sm)
{
	struct mma x = mma_of[p];

	x.suffix = "";
	x.n_steps = 1;
	if (is_volta(p, sm)) {
		x.n_a = x.n_b = 2;
		x.k_step = 4;
		x.suffix = "_k4";
		x.n_steps = 4;
	} else if (p == PRECISION_F16 && sm < 80) { /* half as deep */
		x.n_a = 2;
		x.n_b = 1;
		x.k_step = 8;
		x.suffix = "_k8";
	}
	return x;
}

double
cuda_multiply_slots(const struct tile *t, int sm)
{
	const double m = (double)t->per[0], n = (double)t->per[1], k = (double)t->bk;

	if (t->precision == PRECISION_F32)
		return k * (m * n + m + n);
	const struct mma x = mma_on(t->precision, sm);

	/* a register of a fragment is loaded element by element and converted */
	return k / x.k_step * (m * n * x.n_steps + (m * x.n_a + n * x.n_b) * (x.per_reg + 1));
}

static void
multiply_mma(struct gen *g, const struct tile *t)
{
	const struct mma x = mma_on(t->precision, g->p->target->sm);
	const bool volta = is_volta(t->precision, g->p->target->sm);

	gen_line(g, "K_UNROLL");
	gen_open(g, "for (int kk = 0; kk < %lld; kk += %d)", (long long)t->bk, x.k_step);
	gen_line(
	    g, "k_u32 a[%lld][%d], b[%lld][%d];", (long long)t->per[0], x.n_a, (long long)t->per[1], x.n_b);
	cuda_loop(g, 'i', t->per[0]);
	if (volta)
		load_short_fragment(g, t, 'a', 'i');
	else
		load_fragment(g, t, &x, 'a', 'i', x.n_a);
	gen_close(g);
	cuda_loop(g, 'j', t->per[1]);
	if (volta)
		load_short_fragment(g, t, 'b', 'j');
	else
		load_fragment(g, t, &x, 'b', 'j', x.n_b);
	gen_close(g);
	cuda_loop(g, 'i', t->per[0]);
	cuda_loop(g, 'j', t->per[1]);
	gen_line(g, "%s%s(acc[i][j], a[i], b[j]);", x.multiply, x.suffix);
	gen_close(g);
	gen_close(g);
	gen_close(g);
}

void
cuda_multiply(struct gen *g, const struct tile *t)
{
	if (t->precision == PRECISION_F32)
		multiply_fma(g, t);
	else
		multiply_mma(g, t);
}

/* Row or column number of value (i, j, c) in its tile. */
static const char *
place_text(struct gen *g, const struct tile_layout *l, int i)
{
	const char *at = l->at[i];

	if (l->step[i][0])
		at = arena_printf(g->a, "%s + (%s) %% 2 * %d", at, l->slot[i], l->step[i][0]);
	if (l->step[i][1])
		at = arena_printf(g->a, "%s + (%s) / 2 * %d", at, l->slot[i], l->step[i][1]);
	return at;
}

void
cuda_open_points(struct gen *g, const struct tile *t)
{
	const struct tile_layout *l = t->layout;

	cuda_loop(g, 'i', t->per[0]);
	cuda_loop(g, 'j', t->per[1]);
	if (l->points > 1)
		cuda_loop(g, 'c', l->points);
	gen_line(g, "const int m = m0 + %s, n = n0 + %s;", place_text(g, l, 0), place_text(g, l, 1));
	gen_line(g, l->points > 1 ? "const float value = acc[i][j][c];" : "const float value = acc[i][j];");
}

void
cuda_close_points(struct gen *g, const struct tile *t)
{
	for (int i = t->layout->points > 1 ? 3 : 2; i > 0; i--)
		gen_close(g);
}
