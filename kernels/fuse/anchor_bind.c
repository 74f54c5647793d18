/* kernels/fuse/anchor_bind.c: the micro-kernel of a linear stage inside its pass: which axes are
 * what, and how its row factor is reached.
 *
 * The row factor is read in place where its index is affine in rows and K.  Else its expression
 * (pads, prologues) is evaluated once into a panel in local scratch.  Where a row axis p and a K
 * axis q occur only as s*p + d*q, the panel keeps one coordinate u = s*p + d*q instead of both:
 * the band of a convolution with its halo.  That they do is not assumed: u is put in, taken out
 * again, and the expression must be the very same. */
#include "anchor_int.h"

#include <string.h>

enum { LOCAL_MAX_BYTES = 16 << 20, PANEL_DIMS = 2 * ANCHOR_AXES + 1 };

void
binding_clear(struct binding *b)
{
	b->n_to = tx_n_axes(b->p->tx);
	b->to = NEW_ARRAY(b->p->arena, ix_id, b->n_to);
	for (uint32_t i = 0; i < b->n_to; i++)
		b->to[i] = IX_NONE;
}

struct tx_subst
binding_subst(const struct binding *b)
{
	return (struct tx_subst){.to = b->to, .n = b->n_to};
}

/* ---- axes ------------------------------------------------------------------------------- */
static bool
put_axis(struct binding *b, struct anchor_axis *list, uint32_t *n, const struct stage_axis *a)
{
	if (*n == ANCHOR_AXES)
		return false;
	list[(*n)++] = (struct anchor_axis){.id = a->id,
	    .extent = a->extent,
	    .limit = tx_axis_get(b->p->tx, a->id)->limit,
	    .stride = a->stride};
	return true;
}

static bool
is_last_row(struct binding *b, uint32_t k)
{
	for (uint32_t i = k + 1; i + 1 < b->s->n_par; i++)
		if (!ex_has(b->p->tx, b->s->b, b->s->axis[i].id))
			return false;
	return true;
}

/* Where a has the column too a tile is soon done: its rows stay along one axis, so that they lie
 * evenly apart, and the other row axes are stepped through like batch axes. */
static bool
sort_axes(struct binding *b)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	const struct stage *s = b->s;

	for (uint32_t i = 0; i + 1 < s->n_par; i++) {
		const struct stage_axis *a = &s->axis[i];
		bool in_b = ex_has(x, s->b, a->id), outside = n->a_vector && !is_last_row(b, i);

		if (in_b || outside ? !put_axis(b, n->batch, &n->n_batch, a)
				    : !put_axis(b, n->row, &n->n_row, a))
			return false;
	}
	n->n_k_total = 1;
	for (uint32_t i = s->n_par; i < s->n_par + s->n_red; i++) {
		if (!put_axis(b, n->k, &n->n_k, &s->axis[i]))
			return false;
		n->n_k_total *= s->axis[i].extent;
	}
	for (uint32_t i = 0; i < n->n_row; i++)
		if (i > 0 && n->row[i].limit != IX_NONE)
			return false;
	return n->n_k > 0;
}

/* ---- the second factor -------------------------------------------------------------------- */
/* Is b packed in blocks of nr columns, K contiguous rows of nr in each? */
static bool
is_packed_by(struct binding *b, axis_id column, int64_t nr)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	axis_id panel = tx_axis(x, AXIS_PAR, 0, (n->n_columns + nr - 1) / nr - 1, IX_NONE);
	axis_id lane = tx_axis(x, AXIS_PAR, 0, nr - 1, IX_NONE);
	int64_t k_step = nr, coef;

	binding_clear(b);
	b->to[column] = ix_add(x, ix_mulc(x, ix_axis(x, panel), nr), ix_axis(x, lane));
	struct tx_subst s = binding_subst(b);
	ix_id at = ix_subst(x, &s, ex_get(x, b->s->b)->ix);

	if (!ix_coef(x, at, lane, &coef) || coef != 1 || !ix_coef(x, at, panel, &coef))
		return false;
	for (uint32_t i = n->n_k; i-- > 0;) {
		if (!ix_coef(x, at, n->k[i].id, &coef) || coef != k_step)
			return false;
		k_step *= n->k[i].extent;
	}
	n->panel = panel;
	n->lane = lane;
	n->n_panels = (n->n_columns + nr - 1) / nr;
	binding_clear(b);
	b->to[lane] = ix_const(x, 0);
	for (uint32_t i = 0; i < n->n_k; i++)
		b->to[n->k[i].id] = ix_const(x, 0);
	s = binding_subst(b);
	n->b_at = ix_subst(x, &s, at);
	return true;
}

static bool
bind_b(struct binding *b, axis_id column)
{
	const struct ex *e = ex_get(b->p->tx, b->s->b);

	if (e->kind != EX_READ)
		return false;
	b->n->b_tensor = e->tensor;
	for (b->n->nv = 1; b->n->nv <= 4; b->n->nv++)
		if (is_packed_by(b, column, (int64_t)b->n->nv * b->n->lanes))
			return true;
	return false;
}

/* ---- the panel -------------------------------------------------------------------------- */
struct pair_search {
	struct tx *x;
	axis_id p, q;
	int64_t s, d; /* found; 0: not yet */
};

static void
look_for_pair(void *self, ix_id i)
{
	struct pair_search *f = self;
	int64_t s, d;

	if (f->s || !ix_has(f->x, i, f->p) || !ix_has(f->x, i, f->q))
		return;
	if (!ix_coef(f->x, i, f->p, &s) || !ix_coef(f->x, i, f->q, &d) || s <= 0 || d <= 0)
		return;
	int64_t g = s, h = d;

	while (h) {
		int64_t r = g % h;
		g = h;
		h = r;
	}
	f->s = s / g;
	f->d = d / g;
}

struct panel {
	ex_id body;
	struct anchor_axis dim[PANEL_DIMS];
	ix_id from[PANEL_DIMS]; /* the coordinate, over the stage's axes */
	uint32_t n;
	bool k_paired[ANCHOR_AXES];
};

/* Tries to see row axis r and K axis q as one coordinate of the panel. */
static bool
pair(struct binding *b, struct panel *pn, const struct anchor_axis *r, const struct anchor_axis *q)
{
	struct tx *x = b->p->tx;
	struct pair_search f = {.x = x, .p = r->id, .q = q->id};

	ex_indices(x, pn->body, look_for_pair, &f);
	if (!f.s || (f.s != 1 && f.d != 1))
		return false;
	ix_id limit = IX_NONE;
	int64_t extent = (r->extent - 1) * f.s + (q->extent - 1) * f.d + 1;

	/* Every flat index is such a sum; only windows that overlap gain by it. */
	if (extent >= r->extent * q->extent)
		return false;
	if (r->limit != IX_NONE)
		limit = ix_addc(x, ix_mulc(x, r->limit, f.s), (q->extent - 1) * f.d + 1 - f.s);
	ix_id end = limit == IX_NONE ? ix_const(x, extent) : limit;

	if (winograd_slides(b->s, q->id)) { /* whole tiles, the last of which may stick out */
		int64_t m = b->s->wino->m;

		extent = (r->extent + m - 1) / m * m + q->extent - 1;
		limit = IX_NONE;
	}
	axis_id u = tx_axis(x, AXIS_PAR, 0, extent - 1, limit);
	binding_clear(b);
	b->to[r->id] = f.d == 1 ? ix_const(x, 0) : ix_axis(x, u);
	b->to[q->id] = f.d == 1 ? ix_axis(x, u) : ix_const(x, 0);
	struct tx_subst in = binding_subst(b);
	ex_id body = ex_subst(x, &in, pn->body);
	ix_id sum = ix_add(x, ix_mulc(x, ix_axis(x, r->id), f.s), ix_mulc(x, ix_axis(x, q->id), f.d));

	binding_clear(b);
	b->to[u] = sum;
	struct tx_subst out = binding_subst(b);
	if (ex_subst(x, &out, body) != pn->body)
		return false;
	pn->body = winograd_slides(b->s, q->id) ? winograd_crop(x, body, u, end) : body;
	pn->from[pn->n] = sum;
	pn->dim[pn->n++] = (struct anchor_axis){.id = u, .extent = extent, .limit = limit};
	return true;
}

/* A dimension of its own for an axis of the stage, renamed: the panel's stage has its own loops. */
static void
plain_dim(struct binding *b, struct panel *pn, const struct anchor_axis *a)
{
	struct tx *x = b->p->tx;
	axis_id u = tx_axis(x, AXIS_PAR, 0, a->extent - 1, a->limit);

	binding_clear(b);
	b->to[a->id] = ix_axis(x, u);
	struct tx_subst in = binding_subst(b);
	pn->body = ex_subst(x, &in, pn->body);
	pn->from[pn->n] = ix_axis(x, a->id);
	pn->dim[pn->n++] = (struct anchor_axis){.id = u, .extent = a->extent, .limit = a->limit};
}

/* The panel's dimension for an axis of the rows, with the K axis that slides along it if any. */
static void
row_dim(struct binding *b, struct panel *pn, const struct anchor_axis *r, bool slides)
{
	const struct anchor *n = b->n;

	for (uint32_t j = 0; j < n->n_k && slides; j++)
		if (!pn->k_paired[j] && pair(b, pn, r, &n->k[j])) {
			pn->k_paired[j] = true;
			return;
		}
	if (ex_has(b->p->tx, pn->body, r->id))
		plain_dim(b, pn, r);
}

/* Dimensions of the panel, outermost first: rows (with their halos), batch, K, columns. */
static void
panel_dims(struct binding *b, struct panel *pn, const struct stage_axis *column)
{
	struct anchor *n = b->n;

	for (uint32_t i = 0; i < n->n_batch && n->a_vector; i++)
		row_dim(b, pn, &n->batch[i], true);
	for (uint32_t i = 0; i < n->n_row; i++)
		row_dim(b, pn, &n->row[i], true);
	for (uint32_t i = 0; i < n->n_batch && !n->a_vector; i++)
		row_dim(b, pn, &n->batch[i], false);
	for (uint32_t j = 0; j < n->n_k; j++)
		if (!pn->k_paired[j] && ex_has(b->p->tx, pn->body, n->k[j].id))
			plain_dim(b, pn, &n->k[j]);
	if (n->a_vector)
		plain_dim(
		    b, pn, &(struct anchor_axis){.id = column->id, .extent = n->n_columns, .limit = IX_NONE});
}

void
take_local(struct tile_prog *p, uint32_t tensor, int64_t n)
{
	struct tile_tensor *t = &p->tensors[tensor];

	t->at = AT_LOCAL;
	t->n_local = n;
	t->offset = p->local_bytes;
	p->local_bytes = ck_add(p->local_bytes, (ck_mul(ck_size(n), 4) + 63) / 64 * 64);
}

/* Evaluates the row factor into local scratch: a stage of its own before the linear one, which
 * then reads the panel. */
static bool
make_panel(struct binding *b, uint32_t pass, uint32_t step)
{
	struct tile_prog *p = b->p;
	struct tx *x = p->tx;
	struct anchor *n = b->n;
	struct panel pn = {.body = b->s->a};
	struct stage m = {.kind = STAGE_MAP,
	    .tensor2 = UINT32_MAX,
	    .node = NO_NODE,
	    .a = EX_NONE,
	    .b = EX_NONE,
	    .acc = DT_f32,
	    .init = EX_NONE,
	    .target = IX_NONE,
	    .pass = pass,
	    .level = b->s->level};
	struct tile_pass *tp = &p->pass[pass];
	ix_id at = ix_const(x, 0), out = at;
	int64_t pitch = 1;

	if (tp->n_row == PASS_STEPS)
		return false;
	panel_dims(b, &pn, &b->s->axis[b->s->n_par - 1]);
	for (uint32_t i = pn.n; i-- > 0;) {
		m.axis[i] = (struct stage_axis){.id = pn.dim[i].id,
		    .extent = pn.dim[i].extent,
		    .stride = pitch,
		    .outer = -1,
		    .local = pitch};
		out = ix_add(x, out, ix_mulc(x, ix_axis(x, pn.dim[i].id), pitch));
		at = ix_add(x, at, ix_mulc(x, pn.from[i], pitch));
		if (n->a_vector && i == pn.n - 1)
			pitch = n->n_panels * n->nv * n->lanes;
		else
			pitch *= pn.dim[i].extent;
		if (pitch > LOCAL_MAX_BYTES / 4)
			return false;
	}
	m.n_par = pn.n;
	m.body = pn.body;
	m.sweeps = online_turns(p, pn.body);
	m.out = out;
	m.tensor = anchor_tensor(p, pitch, p->n_stages);
	take_local(p, m.tensor, pitch);
	b->s->a = ex_read(x, DT_f32, m.tensor, at);
	b->s->body = ex_map(x, PRIM_mul, DT_f32, 2, (ex_id[]){b->s->a, b->s->b});
	memmove(&tp->row[step + 1], &tp->row[step], (tp->n_row - step) * sizeof *tp->row);
	tp->row[step] = p->n_stages;
	tp->n_row++;
	uint32_t self = (uint32_t)(b->s - p->stages);

	GROW(p->arena, p->stages, p->n_stages, p->cap_stages);
	p->stages[p->n_stages++] = m;
	b->s = &p->stages[self];
	return true;
}

/* ---- rows ------------------------------------------------------------------------------- */
/* All row axes become one, m. */
static void
make_rows(struct binding *b)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	ix_id limit = IX_NONE;

	n->n_m = 1;
	for (uint32_t i = 0; i < n->n_row; i++)
		n->n_m *= n->row[i].extent;
	if (n->n_row && n->row[0].limit != IX_NONE)
		limit = ix_mulc(x, n->row[0].limit, n->n_m / n->row[0].extent);
	n->m = tx_axis(x, AXIS_PAR, 0, n->n_m - 1, limit);
	n->m_limit = limit;
	n->any_rows = b->s->level > 0;
	int64_t tile = n->wino ? (int64_t)n->wino->m * n->wino->m : (int64_t)n->mr * MAX_OF(n->field, 1);

	n->tile_row = tx_axis(x, AXIS_PAR, 0, tile - 1, IX_NONE);
}

void
binding_flatten(struct binding *b, axis_id column)
{
	struct tx *x = b->p->tx;
	const struct anchor *n = b->n;
	int64_t inner = 1;

	binding_clear(b);
	for (uint32_t i = n->n_row; i-- > 0;) {
		ix_id q = ix_div(x, ix_axis(x, n->m), inner);

		b->to[n->row[i].id] = i ? ix_mod(x, q, n->row[i].extent) : q;
		inner *= n->row[i].extent;
	}
	b->to[column] =
	    ix_add(x, ix_mulc(x, ix_axis(x, n->panel), (int64_t)n->nv * n->lanes), ix_axis(x, n->lane));
}

/* The row factor as it stands: a read that is affine in K, and contiguous in the columns where
 * it has them. */
static bool
is_direct(struct binding *b, axis_id column)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	const struct ex *e = ex_get(x, b->s->a);
	ix_id at = e->ix;
	int64_t coef;

	if (e->kind != EX_READ || e->type != DT_f32)
		return false;
	for (uint32_t i = 0; i < n->n_k; i++)
		if (!ix_coef(x, at, n->k[i].id, &coef))
			return false;
	if (!n->a_vector)
		return true;
	return ix_coef(x, at, column, &coef) && coef == 1 &&
	    (n->n_columns % (n->nv * n->lanes) == 0 || b->p->tensors[e->tensor].at == AT_LOCAL);
}

/* Does K step over more than a cache line, and is it walked often enough to pay for a copy?
 * (A transposed operand: each row's next element lies in another page.) */
static bool
strides_far(struct binding *b)
{
	const struct anchor *n = b->n;
	const struct ex *e = ex_get(b->p->tx, b->s->a);
	int64_t coef;

	return !n->a_vector && n->n_panels >= 4 && ix_coef(b->p->tx, e->ix, n->k[n->n_k - 1].id, &coef) &&
	    coef > 16;
}

static void
bind_a(struct binding *b, axis_id column)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	const struct ex e = *ex_get(x, b->s->a);
	ix_id at;

	n->a_tensor = e.tensor;
	for (uint32_t i = 0; i < n->n_k; i++)
		if (!ix_coef(x, e.ix, n->k[i].id, &n->k[i].a_step))
			bug("the row factor of an anchor is not affine in K");
	binding_flatten(b, column);
	for (uint32_t i = 0; i < n->n_k; i++)
		b->to[n->k[i].id] = ix_const(x, 0);
	struct tx_subst s = binding_subst(b);
	at = ix_subst(x, &s, e.ix);
	binding_clear(b);
	b->to[n->lane] = ix_const(x, 0);
	s = binding_subst(b);
	n->a_at = ix_subst(x, &s, at);
	if (!ix_coef(x, n->a_at, n->m, &n->a_row) || n->a_row <= 0)
		n->a_row = 0;
}

/* ---- the whole ---------------------------------------------------------------------------- */
static bool
begin(struct binding *b)
{
	struct tile_prog *p = b->p;
	struct stage *s = b->s;
	struct anchor *n = b->n;
	const struct stage_axis *last = s->n_par ? &s->axis[s->n_par - 1] : NULL;

	if (!s->packed || !last || last->stride != 1 || last->outer >= 0 || !ex_has(p->tx, s->b, last->id))
		return false;
	n->lanes = p->target->simd_bytes / 4;
	n->n_columns = last->extent;
	n->a_vector = ex_has(p->tx, s->a, last->id);
	if (!sort_axes(b) || !(s->wino ? winograd_bind_b(b) : bind_b(b, last->id)))
		return false;
	n->mr = (int)sched_get(p->sched, KNOB_mr, anchor_rows(p, n->nv, n->a_vector));
	return true;
}

/* Do the elements of a row that a tile multiplies lie side by side?  No other rows are fetched ahead. */
static bool
is_row_dense(const struct anchor *n)
{
	uint32_t first = n->k_chunk > 0 ? n->n_k - n->k_inner - 1 : 0;
	int64_t step = 0;

	for (uint32_t i = first; i < n->n_k; i++) {
		int64_t trip = n->k_chunk > 0 && i == first ? n->k_chunk : n->k[i].extent;

		if (i > first && step != n->k[i].a_step * trip)
			return false;
		step = n->k[i].a_step;
	}
	return step == 1;
}

/* Returns the number of steps put before the stage. */
static uint32_t
bind_stage(struct tile_prog *p, uint32_t pass, uint32_t step)
{
	struct binding b = {
	    .p = p, .s = &p->stages[p->pass[pass].row[step]], .n = NEW(p->arena, struct anchor)};
	uint32_t before = 0;

	if (b.s->kind != STAGE_LINEAR || !begin(&b))
		return 0;
	axis_id column = b.s->axis[b.s->n_par - 1].id;

	bool window = !sched_get(p->sched, KNOB_panel, 0) && binding_window(&b, column);

	if (!window &&
	    (b.n->wino || !is_direct(&b, column) || sched_get(p->sched, KNOB_panel, strides_far(&b)))) {
		if (!make_panel(&b, pass, step))
			return 0;
		before = 1;
		(void)binding_window(&b, column);
	}
	make_rows(&b);
	bind_a(&b, column);
	if (b.n->wino && !winograd_bind(&b))
		return before;
	binding_guards(&b, column);
	binding_k_blocks(&b);
	binding_fold(&b, pass, step + before, column);
	binding_flatten(&b, column);
	b.n->prefetch = !before && b.n->a_row > 0 && !b.n->is_window && is_row_dense(b.n) &&
	    sched_get(p->sched, KNOB_ahead, 1);
	struct tx_subst s = binding_subst(&b);
	b.n->result_at = ix_subst(p->tx, &s, b.s->out);
	b.s->anchor = b.n;
	return before;
}

void
anchors_bind(struct tile_prog *p, uint32_t pass)
{
	for (uint32_t i = 0; i < p->pass[pass].n_row; i++)
		i += bind_stage(p, pass, i);
}
