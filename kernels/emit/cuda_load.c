/* kernels/emit/cuda_load.c: the sum of a tile: parts of both factors go to shared memory, from any
 * expression, while the part before is multiplied: by way of registers, or from sm_80 on, where a factor is
 * an array's elements, by copies that wait for nobody (cp.async). */
#include "cuda_int.h"

/* ---- one element ------------------------------------------------------------------------------------------
 */
static bool
is_zero(const struct ex *e)
{
	return e->kind == EX_CONST && dtype_is_float(e->type) && e->real == 0;
}

bool
cuda_is_plain(const struct gen *g, ex_id e)
{
	const struct ex *x = ex_get(g->tx, e);

	while (x->kind == EX_GUARD && is_zero(ex_get(g->tx, x->arg[1])))
		x = ex_get(g->tx, x->arg[0]);
	if (x->kind != EX_READ || x->type != DT_f32)
		return false;
	enum place_at at = g->p->tensors[x->tensor].at;

	return at == AT_OPERAND || at == AT_SHARED || at == AT_RESULT;
}

static const struct ex *
read_of(const struct gen *g, ex_id e)
{
	const struct ex *x = ex_get(g->tx, e);

	while (x->kind == EX_GUARD)
		x = ex_get(g->tx, x->arg[0]);
	return x;
}

static bool
goes_async(const struct gen *g, const struct tile *t, int i)
{
	return t->is_async && cuda_is_plain(g, t->f[i].ex);
}

/* The first factor that has parts: a handed one lies in shared memory as it is. */
static int
first_of(const struct tile *t)
{
	return t->is_handed;
}

static void
open_element(struct gen *g, const struct tile *t, int i)
{
	const struct tile_factor *f = &t->f[i];

	gen_open(g, "if (at < %lld && k < %lld)", (long long)f->axes.count, (long long)t->red.count);
	cuda_bind_digits(g, &f->axes, "at");
	cuda_bind_digits(g, &t->red, "k");
}

static void
close_element(struct gen *g, const struct tile *t, int i, uint32_t mark)
{
	gen_close(g);
	cuda_unbind(g, &t->f[i].axes);
	cuda_unbind(g, &t->red);
	gen_forget(g, mark);
}

/* Starts the copy of element (at, k), or of a zero. */
static void
copy_element(struct gen *g, const struct tile *t, int i)
{
	uint32_t mark = gen_mark(g), n_guards = 0;
	struct ex x = *ex_get(g->tx, t->f[i].ex);

	gen_line(g, "const int at = %c0 + e, k = k0 + kk;", letter("mn", i));
	gen_line(g, "const float *from = %s;", gen_tensor(g, read_of(g, t->f[i].ex)->tensor));
	gen_line(g, "int inside = 0;");
	open_element(g, t, i);
	for (; x.kind == EX_GUARD; x = *ex_get(g->tx, x.arg[0]), n_guards++)
		gen_open(g, "if (%s)", gen_condition(g, &x));
	gen_line(g, "from = &%s[%s];", gen_tensor(g, x.tensor), gen_ix(g, x.ix));
	gen_line(g, "inside = 1;");
	while (n_guards--)
		gen_close(g);
	close_element(g, t, i, mark);
	gen_line(g, "k_async_f32(&part_%c[into][kk][e], from, inside);", letter("ab", i));
}

/* Element (at, k) of factor i goes to `to`. */
static void
load_element(struct gen *g, const struct tile *t, int i, const char *to)
{
	uint32_t mark = gen_mark(g);

	gen_line(g, "const int at = %c0 + e, k = k0 + kk;", letter("mn", i));
	gen_line(g, "float v = 0.0f;");
	open_element(g, t, i);
	gen_line(g, "v = %s;", gen_ex(g, t->f[i].ex));
	close_element(g, t, i, mark);
	gen_line(g, "%s = v;", to);
}

/* ---- a part of a factor: the block's threads take turns ---- */
static int64_t
turns(const struct tile *t, int i)
{
	return (t->edge[i] * t->bk + TILE_THREADS - 1) / TILE_THREADS;
}

/* A copy finds its address, asks about borders, and moves four bytes: so many instructions, by the machine
 * code of today's text. */
double
cuda_copy_slots(const struct tile *t)
{
	enum { A_COPY = 17 };
	double n = 0;

	for (int i = first_of(t); i < 2; i++)
		n += A_COPY * (double)turns(t, i);
	return n;
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
		gen_line(g, "const int e = t %% %lld, kk = t / %lld;", (long long)t->edge[i],
		    (long long)t->edge[i]);
}

static void
load_part(struct gen *g, const struct tile *t, int i, bool to_registers)
{
	open_turns(g, t, i);
	load_element(g, t, i,
	    arena_printf(g->a, to_registers ? "next_%c[q]" : "part_%c[buffer][kk][e]", letter("ab", i)));
	gen_close(g);
}

static void
store_part(struct gen *g, const struct tile *t, int i)
{
	open_turns(g, t, i);
	gen_line(g, "part_%c[%s][kk][e] = next_%c[q];", letter("ab", i), t->is_async ? "into" : "buffer ^ 1",
	    letter("ab", i));
	gen_close(g);
}

/* ---- the sum ---- */
static void
load_both(struct gen *g, const struct tile *t, bool to_registers)
{
	for (int i = first_of(t); i < 2; i++)
		load_part(g, t, i, to_registers);
}

static void
sum_simple(struct gen *g, const struct tile *t)
{
	gen_line(g, "const int buffer = 0;");
	gen_open(g, "for (int k0 = 0; k0 < %lld; k0 += %lld)", (long long)t->red.count, (long long)t->bk);
	load_both(g, t, false);
	if (t->is_handed)
		gen_line(g, "const int done = k0;");
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
	for (int i = first_of(t); i < 2; i++)
		gen_line(g, "float next_%c[%lld];", letter("ab", i), (long long)turns(t, i));
	gen_open(g, "if (k0 < %lld)", k);
	load_both(g, t, true);
	gen_close(g);
	cuda_multiply(g, t);
	gen_open(g, "if (k0 < %lld)", k);
	for (int i = first_of(t); i < 2; i++)
		store_part(g, t, i);
	gen_close(g);
	gen_line(g, "K_BARRIER();");
	gen_line(g, "buffer ^= 1;");
	gen_close(g);
}

/* Buffers in a ring: part p lies in buffer p % stages.  A turn waits until its part has arrived, for all
 * threads by a barrier, which also says that nobody uses the part before any more: its buffer takes the
 * part that comes last.  Commits are counted, so there is one a turn, with or without copies. */
static void
start_parts(struct gen *g, const struct tile *t)
{
	for (int i = first_of(t); i < 2; i++) {
		open_turns(g, t, i);
		if (goes_async(g, t, i))
			copy_element(g, t, i);
		else
			load_element(g, t, i, arena_printf(g->a, "part_%c[into][kk][e]", letter("ab", i)));
		gen_close(g);
	}
}

/* Inside the loop what comes by registers is loaded before the multiplication and stored behind it. */
static void
next_parts(struct gen *g, const struct tile *t, bool before)
{
	const long long k = (long long)t->red.count;

	if (!before && (t->is_handed || goes_async(g, t, 0)) && goes_async(g, t, 1))
		return;
	gen_open(g, "if (k0 < %lld)", k);
	for (int i = first_of(t); i < 2; i++) {
		if (goes_async(g, t, i) && before) {
			open_turns(g, t, i);
			copy_element(g, t, i);
			gen_close(g);
		} else if (!goes_async(g, t, i) && before) {
			load_part(g, t, i, true);
		} else if (!goes_async(g, t, i)) {
			store_part(g, t, i);
		}
	}
	gen_close(g);
}

static void
sum_async(struct gen *g, const struct tile *t)
{
	const long long k = (long long)t->red.count, bk = (long long)t->bk;

	gen_line(g, "K_BARRIER();"); /* the tile before is done with the buffers */
	gen_open(g, "for (int into = 0; into < %d; into++)", t->stages - 1);
	gen_line(g, "const int k0 = into * %lld;", bk);
	gen_open(g, "if (k0 < %lld)", k);
	start_parts(g, t);
	gen_close(g);
	gen_line(g, "K_ASYNC_COMMIT();");
	gen_close(g);
	gen_line(g, "int buffer = 0, into = %d;", t->stages - 1);
	gen_open(g, "for (int done = 0; done < %lld; done += %lld)", k, bk);
	gen_line(g, "const int k0 = done + %lld;", bk * (t->stages - 1));
	for (int i = first_of(t); i < 2; i++)
		if (!goes_async(g, t, i))
			gen_line(g, "float next_%c[%lld];", letter("ab", i), (long long)turns(t, i));
	gen_line(g, "K_ASYNC_WAIT(%d);", t->stages - 2);
	gen_line(g, "K_BARRIER();");
	next_parts(g, t, true);
	gen_line(g, "K_ASYNC_COMMIT();");
	cuda_multiply(g, t);
	next_parts(g, t, false);
	gen_line(g, "buffer = buffer + 1 == %d ? 0 : buffer + 1;", t->stages);
	gen_line(g, "into = into + 1 == %d ? 0 : into + 1;", t->stages);
	gen_close(g);
}

void
cuda_sum(struct gen *g, const struct tile *t)
{
	if (t->is_async)
		sum_async(g, t);
	else if (t->stages > 1)
		sum_ahead(g, t);
	else
		sum_simple(g, t);
}
