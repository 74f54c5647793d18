/* kernels/emit/cuda_tile.c: a linear stage on a block of threads: parts of both factors are staged
 * in shared memory (from any expression: a convolution's window, a prologue), each thread keeps a
 * piece of the tile in registers, and the pass's other steps run on it as epilogue. */
#include "cuda_int.h"

#include <string.h>

enum { LEAST_EDGE = 4, SMALL_TILE = 64 };

/* ---- which axes ------------------------------------------------------------------------------------- */
static const struct stage *
linear_of(const struct gen *g, const struct tile_pass *tp)
{
	const struct stage *found = NULL;

	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];

		if (s->kind == STAGE_LINEAR && found)
			return NULL;
		if (s->kind == STAGE_LINEAR)
			found = s;
	}
	return found;
}

static void
add_axis(struct tile_axes *x, axis_id id, int64_t extent)
{
	x->id[x->n] = id;
	x->extent[x->n++] = extent;
	x->count *= extent;
}

struct contiguous {
	const struct gen *g;
	axis_id axis;
	int votes;
};

static void
vote(void *self, const struct ex *read)
{
	struct contiguous *c = self;
	int64_t coef;

	c->votes += ix_coef(c->g->tx, read->ix, c->axis, &coef) && coef == 1;
}

static int
runs_along(const struct gen *g, ex_id e, axis_id a)
{
	struct contiguous c = {.g = g, .axis = a};

	ex_reads(g->tx, e, vote, &c);
	return c.votes;
}

/* The sum's axes, the one that a (else b) runs through contiguously last. */
static void
order_red(const struct gen *g, struct tile *t)
{
	const struct stage *s = t->s;
	uint32_t last = s->n_par + s->n_red - 1;
	int most = 0;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++) {
		int v = 2 * runs_along(g, t->f[0].ex, s->axis[k].id) + runs_along(g, t->f[1].ex, s->axis[k].id);

		if (v > most) {
			most = v;
			last = k;
		}
	}
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		if (k != last)
			add_axis(&t->red, s->axis[k].id, s->axis[k].extent);
	add_axis(&t->red, s->axis[last].id, s->axis[last].extent);
	for (int i = 0; i < 2; i++)
		t->f[i].k_fast = runs_along(g, t->f[i].ex, s->axis[last].id) > 0;
}

static void
classify(const struct gen *g, const struct tile_pass *tp, struct tile *t)
{
	const struct stage *s = t->s;
	axis_id last = tp->outer[tp->n_outer - 1].id;
	bool swap = ex_has(g->tx, s->a, last) && !ex_has(g->tx, s->b, last);

	t->f[0].ex = swap ? s->b : s->a;
	t->f[1].ex = swap ? s->a : s->b;
	t->f[0].axes.count = t->f[1].axes.count = t->batch.count = t->red.count = 1;
	for (uint32_t u = 0; u < tp->n_outer; u++) {
		axis_id id = tp->outer[u].id;
		bool in_a = ex_has(g->tx, t->f[0].ex, id), in_b = ex_has(g->tx, t->f[1].ex, id);
		struct tile_axes *x = in_a && in_b ? &t->batch : in_b ? &t->f[1].axes : &t->f[0].axes;

		add_axis(x, id, tp->outer[u].extent);
	}
	order_red(g, t);
}

/* ---- sizes -------------------------------------------------------------------------------------------- */
static int64_t
per_thread(int64_t extent, int64_t wanted, int unit)
{
	while (wanted > 1 && extent <= wanted / 2 * unit)
		wanted /= 2;
	return wanted;
}

static enum precision
precision_of(const struct target *t, const struct sched *s)
{
	return sched_get(s, KNOB_exact, 0) == 0 && precision_on(t->sm, t->precision) ? t->precision : PRECISION_F32;
}

static void
choose_sizes(const struct gen *g, struct tile *t)
{
	const struct sched *s = g->p->sched;
	bool large = t->f[0].axes.count >= 512 && t->f[1].axes.count >= 128;

	t->precision = precision_of(g->p->target, s);
	t->unit = t->precision == PRECISION_F32 ? 16 : 32;
	t->pad = t->precision == PRECISION_F32 ? 1 : 8;
	int64_t most = t->precision == PRECISION_F32 ? 8 : 4, usual = large ? most : most / 2;

	t->per[0] = per_thread(t->f[0].axes.count, MIN_OF(sched_get(s, KNOB_tm, usual), most), t->unit);
	t->per[1] = per_thread(t->f[1].axes.count, MIN_OF(sched_get(s, KNOB_tn, usual), most), t->unit);
	t->k_step = t->precision == PRECISION_F16 || t->precision == PRECISION_BF16 ? 16 : 8;
	t->bk = MAX_OF(sched_get(s, KNOB_tk, 16) / t->k_step * t->k_step, (int64_t)t->k_step);
	t->stages = (int)sched_get(s, KNOB_stages, 2);
	for (int i = 0; i < 2; i++) {
		t->edge[i] = t->per[i] * t->unit;
		t->n_tiles[i] = (t->f[i].axes.count + t->edge[i] - 1) / t->edge[i];
	}
	while (t->stages * t->bk * (t->edge[0] + t->edge[1] + 2 * t->pad) * 4 > TILE_SHARED_MOST) {
		if (t->stages == 2)
			t->stages = 1;
		else
			t->bk = MAX_OF(t->bk / 2 / t->k_step * t->k_step, (int64_t)t->k_step);
	}
}

struct made_check {
	const struct gen *g;
	const struct tile_pass *tp;
	bool found;
};

static void
note_made(void *self, const struct ex *read)
{
	struct made_check *c = self;

	for (uint32_t i = 0; i < c->tp->n_row; i++)
		c->found |= c->g->p->stages[c->tp->row[i]].tensor == read->tensor
		    || c->g->p->stages[c->tp->row[i]].tensor2 == read->tensor;
}

static bool
plan(const struct gen *g, const struct tile_pass *tp, struct tile *t)
{
	struct made_check made = {.g = g, .tp = tp};

	*t = (struct tile){.s = linear_of(g, tp)};
	if (!t->s || t->s->acc != DT_f32 || t->s->n_red == 0 || tp->n_outer == 0 || g->p->target->strict
	    || sched_get(g->p->sched, KNOB_tm, 1) == 0)
		return false;
	ex_reads(g->tx, t->s->a, note_made, &made);
	ex_reads(g->tx, t->s->b, note_made, &made);
	if (made.found || ex_get(g->tx, t->s->a)->type == DT_f64 || !dtype_is_float(ex_get(g->tx, t->s->a)->type)
	    || !dtype_is_float(ex_get(g->tx, t->s->b)->type))
		return false;
	classify(g, tp, t);
	if (t->f[0].axes.count < LEAST_EDGE || t->f[1].axes.count < LEAST_EDGE || t->red.count < LEAST_EDGE)
		return false;
	choose_sizes(g, t);
	return true;
}

bool
cuda_can_tile(struct gen *g, const struct tile_pass *tp)
{
	struct tile t;

	return plan(g, tp, &t);
}

int64_t
cuda_tile_range(struct gen *g, const struct tile_pass *tp)
{
	struct tile t;

	if (!plan(g, tp, &t))
		bug("a pass without a tile");
	return t.n_tiles[0] * t.n_tiles[1] * t.batch.count;
}

/* ---- loading -------------------------------------------------------------------------------------------- */
static void
unbind(struct gen *g, const struct tile_axes *x)
{
	for (uint32_t k = 0; k < x->n; k++)
		gen_bind(g, x->id[k], NULL);
}

/* Element (at, k) of factor i goes to `to`. */
static void
load_element(struct gen *g, const struct tile *t, int i, const char *to)
{
	const struct tile_factor *f = &t->f[i];
	uint32_t mark = gen_mark(g);

	gen_line(g, "const int at = %c0 + e, k = k0 + kk;", "mn"[i]);
	gen_line(g, "float v = 0.0f;");
	gen_open(g, "if (at < %lld && k < %lld)", (long long)f->axes.count, (long long)t->red.count);
	cuda_digits(g, f->axes.id, f->axes.extent, f->axes.n, "at");
	cuda_digits(g, t->red.id, t->red.extent, t->red.n, "k");
	gen_line(g, "v = %s;", gen_ex(g, f->ex));
	gen_close(g);
	unbind(g, &f->axes);
	unbind(g, &t->red);
	gen_forget(g, mark);
	gen_line(g, "%s = v;", to);
}

static int64_t
turns(const struct tile *t, int i)
{
	return (t->edge[i] * t->bk + TILE_THREADS - 1) / TILE_THREADS;
}

static void
open_turns(struct gen *g, const struct tile *t, int i)
{
	const bool whole = t->edge[i] * t->bk % TILE_THREADS == 0;

	gen_line(g, "K_UNROLL");
	gen_open(g, "for (int q = 0; q < %lld; q++)", (long long)turns(t, i));
	gen_line(g, "const int t = K_TID + q * %d;", TILE_THREADS);
	if (!whole)
		gen_line(g, "if (t >= %lld) break;", (long long)(t->edge[i] * t->bk));
	if (t->f[i].k_fast)
		gen_line(g, "const int kk = t %% %lld, e = t / %lld;", (long long)t->bk, (long long)t->bk);
	else
		gen_line(g, "const int e = t %% %lld, kk = t / %lld;", (long long)t->edge[i], (long long)t->edge[i]);
}

static void
load_part(struct gen *g, const struct tile *t, int i, bool to_registers)
{
	open_turns(g, t, i);
	load_element(g, t, i, arena_printf(g->a, to_registers ? "next_%c[q]" : "part_%c[buffer][kk][e]", "ab"[i]));
	gen_close(g);
}

static void
store_part(struct gen *g, const struct tile *t, int i)
{
	open_turns(g, t, i);
	gen_line(g, "part_%c[buffer ^ 1][kk][e] = next_%c[q];", "ab"[i], "ab"[i]);
	gen_close(g);
}

/* ---- the sum -------------------------------------------------------------------------------------------- */
static void
load_both(struct gen *g, const struct tile *t, bool to_registers)
{
	load_part(g, t, 0, to_registers);
	load_part(g, t, 1, to_registers);
}

static void
sum_simple(struct gen *g, const struct tile *t)
{
	gen_line(g, "const int buffer = 0;");
	gen_open(g, "for (int k0 = 0; k0 < %lld; k0 += %lld)", (long long)t->red.count, (long long)t->bk);
	load_both(g, t, false);
	gen_line(g, "K_BARRIER();");
	cuda_multiply(g, t);
	gen_line(g, "K_BARRIER();");
	gen_close(g);
}

static void
sum_ahead(struct gen *g, const struct tile *t)
{
	const long long k = (long long)t->red.count, bk = (long long)t->bk;

	gen_line(g, "int buffer = 0;");
	gen_open(g, "%s", "");
	gen_line(g, "const int k0 = 0;");
	load_both(g, t, false);
	gen_close(g);
	gen_line(g, "K_BARRIER();");
	gen_open(g, "for (int done = 0; done < %lld; done += %lld)", k, bk);
	gen_line(g, "const int k0 = done + %lld;", bk);
	gen_line(g, "float next_a[%lld], next_b[%lld];", (long long)turns(t, 0), (long long)turns(t, 1));
	gen_open(g, "if (k0 < %lld)", k);
	load_both(g, t, true);
	gen_close(g);
	cuda_multiply(g, t);
	gen_open(g, "if (k0 < %lld)", k);
	store_part(g, t, 0);
	store_part(g, t, 1);
	gen_close(g);
	gen_line(g, "K_BARRIER();");
	gen_line(g, "buffer ^= 1;");
	gen_close(g);
}

/* ---- the epilogue ------------------------------------------------------------------------------------------ */
/* All steps of the pass at one point; the linear stage's value is `value`. */
static void
point(struct gen *g, const struct tile_pass *tp, const struct tile *t, const char *value)
{
	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];

		gen_line(g, "/* %s */", gen_stage_words(g, s));
		if (s != t->s) {
			gen_stage(g, s);
			continue;
		}
		gen_store(g, s->tensor, s->out, gen_cast(g, DT_f32, g->p->tensors[s->tensor].type, value));
	}
}

static void
epilogue(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	uint32_t mark = gen_mark(g);

	cuda_open_points(g, t);
	gen_open(g, "if (m < %lld && n < %lld)", (long long)t->f[0].axes.count, (long long)t->f[1].axes.count);
	cuda_digits(g, t->f[0].axes.id, t->f[0].axes.extent, t->f[0].axes.n, "m");
	cuda_digits(g, t->f[1].axes.id, t->f[1].axes.extent, t->f[1].axes.n, "n");
	point(g, tp, t, "value");
	gen_close(g);
	cuda_close_points(g, t);
	unbind(g, &t->f[0].axes);
	unbind(g, &t->f[1].axes);
	gen_forget(g, mark);
}

void
cuda_tile(struct gen *g, const struct tile_pass *tp)
{
	struct tile t;
	uint32_t mark = gen_mark(g);

	if (!plan(g, tp, &t))
		bug("a pass without a tile");
	for (int i = 0; i < 2; i++)
		gen_line(g, "K_SHARED float part_%c[%d][%lld][%lld];", "ab"[i], t.stages, (long long)t.bk,
		    (long long)(t.edge[i] + t.pad));
	gen_open(g, "for (%s o = lo + K_BLOCK; o < hi; o += K_BLOCKS)", g->index);
	gen_line(g, "const int n0 = o %% %lld * %lld;", (long long)t.n_tiles[1], (long long)t.edge[1]);
	gen_line(g, "const int m0 = o / %lld %% %lld * %lld;", (long long)t.n_tiles[1], (long long)t.n_tiles[0],
	    (long long)t.edge[0]);
	if (t.batch.n) {
		gen_line(g, "const int z = o / %lld;", (long long)(t.n_tiles[0] * t.n_tiles[1]));
		cuda_digits(g, t.batch.id, t.batch.extent, t.batch.n, "z");
	}
	cuda_clear(g, &t);
	if (t.stages == 1)
		sum_simple(g, &t);
	else
		sum_ahead(g, &t);
	epilogue(g, tp, &t);
	gen_close(g);
	unbind(g, &t.batch);
	gen_forget(g, mark);
}
