/* kernels/fuse/anchor_wide.c: a convolution with few output channels fills a fraction of the
 * register tile's columns.  Its last window axis q becomes columns too:
 *   T[.., u, q * C + c] = sum over the other K axes of a(u) * b(q, c)      for u = r + q
 *   result[.., r, c]    = sum over q of T[.., r + q, q * C + c]
 * which does the same products, at q times as many columns; the second stage only adds.  The
 * result of 32 channels to 3, 9x9, needs a third of the time (tests/bench/main_linear.c). */
#include "anchor_int.h"
#include "lower_int.h"

enum { WIDE_LEAST = 3, WIDE_MOST = 16 };

struct wide {
	struct tile_prog *p;
	const struct stage *s;
	uint32_t r, q;  /* numbers of the row axis and of the K axis that slides along it */
	axis_id u, w;   /* T's row and column */
	ex_id a;        /* first factor over u */
	struct stage t; /* makes T */
	int64_t columns;
};

static ix_id *
no_change(struct tile_prog *p, uint32_t *n)
{
	*n = tx_n_axes(p->tx);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, *n);

	for (uint32_t i = 0; i < *n; i++)
		to[i] = IX_NONE;
	return to;
}

/* Does the first factor have r and q as r + q only?  Then w->a is it over u. */
static bool
slides(struct wide *w)
{
	struct tx *x = w->p->tx;
	axis_id r = w->s->axis[w->r].id, q = w->s->axis[w->q].id;
	uint32_t n;

	w->u = tx_axis(x, AXIS_PAR, 0, w->s->axis[w->r].extent + w->s->axis[w->q].extent - 2, IX_NONE);
	ix_id *to = no_change(w->p, &n);

	to[r] = ix_const(x, 0);
	to[q] = ix_axis(x, w->u);
	w->a = ex_subst(x, &(struct tx_subst){.to = to, .n = n}, w->s->a);
	to[r] = to[q] = IX_NONE;
	to[w->u] = ix_add(x, ix_axis(x, r), ix_axis(x, q));
	return ex_has(x, w->a, w->u) && ex_subst(x, &(struct tx_subst){.to = to, .n = n}, w->a) == w->s->a;
}

/* The last row axis and a K axis that slides along it. */
static bool
find_axes(struct wide *w)
{
	const struct stage *s = w->s;
	struct tx *x = w->p->tx;
	uint32_t last = s->n_par - 1, r = last;

	while (r > 0 && (r == last || ex_has(x, s->b, s->axis[r].id)))
		r--;
	if (r == last || ex_has(x, s->b, s->axis[r].id))
		return false;
	for (uint32_t q = s->n_par; q < s->n_par + s->n_red; q++) {
		w->r = r;
		w->q = q;
		if (s->n_red > 1 && s->axis[q].extent >= WIDE_LEAST && s->axis[q].extent <= WIDE_MOST &&
		    s->axis[r].extent >= 4 * s->axis[q].extent && slides(w))
			return true;
	}
	return false;
}

static struct stage_axis
fresh(struct tx *x, enum axis_role role, struct stage_axis a)
{
	a.id = tx_axis(x, role, 0, a.extent - 1, IX_NONE);
	return a;
}

/* The stage that makes T: axes of its own, u for r, w for the column, no q. */
static void
make_wide(struct wide *w)
{
	struct tile_prog *p = w->p;
	struct tx *x = p->tx;
	const struct stage *s = w->s;
	struct stage *t = &w->t;
	int64_t stride = 1;
	uint32_t n;

	*t = *s;
	t->n_par = t->n_red = 0;
	for (uint32_t i = 0; i < s->n_par + s->n_red; i++) {
		bool red = i >= s->n_par;

		if (i == w->q)
			continue;
		struct stage_axis a = fresh(x, red ? AXIS_RED : AXIS_PAR, s->axis[i]);

		if (i == w->r)
			a.id = w->u, a.extent += s->axis[w->q].extent - 1;
		if (i + 1 == s->n_par) {
			a.extent = w->columns * s->axis[w->q].extent;
			a.id = w->w = tx_axis(x, AXIS_PAR, 0, a.extent - 1, IX_NONE);
		}
		t->axis[t->n_par + t->n_red] = a;
		t->n_red += red;
		t->n_par += !red;
	}
	for (uint32_t i = t->n_par; i-- > 0; stride *= t->axis[i].extent)
		t->axis[i].stride = stride;
	ix_id *to = no_change(p, &n);

	for (uint32_t i = 0, k = 0; i < s->n_par + s->n_red; i++)
		if (i != w->q)
			to[s->axis[i].id] = ix_axis(x, t->axis[k++].id);
	t->a = ex_subst(x, &(struct tx_subst){.to = to, .n = n}, w->a);
	to[s->axis[s->n_par - 1].id] = ix_mod(x, ix_axis(x, w->w), w->columns);
	to[s->axis[w->q].id] = ix_div(x, ix_axis(x, w->w), w->columns);
	t->b = ex_subst(x, &(struct tx_subst){.to = to, .n = n}, s->b);
	t->body = ex_map(x, PRIM_mul, DT_f32, 2, (ex_id[]){t->a, t->b});
	t->tensor = anchor_tensor(p, stride, UINT32_MAX);
}

/* What is left of the stage: the sum along q. */
static void
make_sum(const struct wide *w, struct stage *s)
{
	struct tx *x = w->p->tx;
	ix_id at = ix_const(x, 0);
	ex_id sum = EX_NONE;

	for (uint32_t i = 0; i < s->n_par; i++)
		at = ix_add(x, at, ix_mulc(x, ix_axis(x, s->axis[i].id), w->t.axis[i].stride));
	for (int64_t q = 0; q < s->axis[w->q].extent; q++) {
		ex_id e = ex_read(
		    x, DT_f32, w->t.tensor, ix_addc(x, at, q * (w->t.axis[w->r].stride + w->columns)));

		sum = q ? ex_map(x, PRIM_add, DT_f32, 2, (ex_id[]){sum, e}) : e;
	}
	s->kind = STAGE_MAP;
	s->body = sum;
	s->a = s->b = EX_NONE;
	s->n_red = 0;
}

bool
anchor_widen(struct tile_prog *p, struct stage *s, struct stage *wide)
{
	struct wide w = {.p = p, .s = s};
	int lanes = p->target->simd_bytes / 4;

	if (s->n_par < 2 || s->axis[s->n_par - 1].stride != 1 ||
	    ex_has(p->tx, s->a, s->axis[s->n_par - 1].id))
		return false;
	w.columns = s->axis[s->n_par - 1].extent;
	if (w.columns * 2 > lanes || !find_axes(&w))
		return false;
	make_wide(&w);
	make_sum(&w, s);
	*wide = w.t;
	return true;
}
