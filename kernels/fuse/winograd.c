/* kernels/fuse/winograd.c: Winograd's form of a linear stage: which stages may have it, how their
 * weights are packed for it, and what a step needs.
 *
 * A form of the anchor's inside, not a rewrite of the graph: rows, columns, panel, readers in the tile
 * and all stages around stay what they are for the direct form, whatever their extents are.  (As a
 * rewrite of the graph, tiles that stick out of an image would have to be cropped before any reader
 * could join the pass.)  What makes it legal is read off the indices alone: the row factor has two
 * rows and two K axes of extent 3 only as their sums. */
#include "anchor_int.h"

static const struct winograd forms[] = {
    {.m = 2,
	.p = 4,
	.g = {{1}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
	.bt = {{1, 0, -1}, {0, 1, 1}, {0, -1, 1}, {0, 1, 0, -1}},
	.at = {{1, 1, 1}, {0, 1, -1, -1}}},
    {.m = 4,
	.p = 6,
	.g = {{1.0 / 4}, {-1.0 / 6, -1.0 / 6, -1.0 / 6}, {-1.0 / 6, 1.0 / 6, -1.0 / 6},
	    {1.0 / 24, 1.0 / 12, 1.0 / 6}, {1.0 / 24, -1.0 / 12, 1.0 / 6}, {0, 0, 1}},
	.bt = {{4, 0, -5, 0, 1}, {0, -4, -4, 1, 1}, {0, 4, -4, -1, 1}, {0, -2, -1, 2, 1}, {0, 2, -1, -2, 1},
	    {0, 4, 0, -5, 0, 1}},
	.at = {{1, 1, 1, 1, 1}, {0, 1, -1, 2, -2}, {0, 1, 1, 4, 4}, {0, 1, -1, 8, -8, 1}}},
};

const struct winograd *
winograd_form(int64_t m)
{
	for (size_t i = 0; i < COUNT_OF(forms); i++)
		if (forms[i].m == m)
			return &forms[i];
	return NULL;
}

/* ---- which stages ------------------------------------------------------------------------- */
/* Does e have axes r and q only as r + q? */
static bool
is_sum_of(struct tile_prog *p, ex_id e, const struct stage_axis *r, const struct stage_axis *q)
{
	struct tx *x = p->tx;
	axis_id u = tx_axis(x, AXIS_PAR, 0, r->extent + q->extent - 2, IX_NONE);
	uint32_t n = tx_n_axes(x);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, n);

	for (uint32_t i = 0; i < n; i++)
		to[i] = IX_NONE;
	to[r->id] = ix_const(x, 0);
	to[q->id] = ix_axis(x, u);
	ex_id over_u = ex_subst(x, &(struct tx_subst){.to = to, .n = n}, e);

	to[r->id] = to[q->id] = IX_NONE;
	to[u] = ix_add(x, ix_axis(x, r->id), ix_axis(x, q->id));
	return ex_has(x, over_u, u) && ex_subst(x, &(struct tx_subst){.to = to, .n = n}, over_u) == e;
}

/* The K axis of extent 3 that slides along row axis r; NULL: none. */
static const struct stage_axis *
tap_axis(struct tile_prog *p, const struct stage *s, const struct stage_axis *r)
{
	for (uint32_t i = s->n_par; i < s->n_par + s->n_red; i++)
		if (s->axis[i].extent == WINO_TAPS && is_sum_of(p, s->a, r, &s->axis[i]))
			return &s->axis[i];
	return NULL;
}

bool
winograd_finds(struct tile_prog *p, struct stage *s)
{
	uint32_t n_rows = 0;
	const struct stage_axis *row[2] = {NULL, NULL}, *tap[2];

	for (uint32_t i = 0; i + 1 < s->n_par; i++) {
		if (ex_has(p->tx, s->b, s->axis[i].id))
			return false;
		row[0] = row[1];
		row[1] = &s->axis[i];
		n_rows++;
	}
	if (n_rows < 2 || s->n_red < 3 || ex_has(p->tx, s->a, s->axis[s->n_par - 1].id))
		return false;
	for (int i = 0; i < 2; i++) {
		tap[i] = tap_axis(p, s, row[i]);
		if (!tap[i])
			return false;
		s->slide[i] = tap[i]->id;
		s->slides[i] = row[i]->id;
	}
	return tap[0] != tap[1];
}

bool
winograd_slides(const struct stage *s, axis_id k)
{
	return s->wino && (k == s->slide[0] || k == s->slide[1]);
}

bool
node_winograd(const struct graph *g, const struct node *n)
{
	const struct tensor *w = n->prim == PRIM_conv ? graph_tensor(g, n->in[1]) : NULL;

	if (!w || w->role != ROLE_WEIGHT || w->type != DT_f32 || w->shape.rank != 4 ||
	    at_get(&n->at, ATTR_group) != 1)
		return false;
	for (int d = 0; d < 2; d++)
		if (w->shape.dim[d] != WINO_TAPS || at_ints(&n->at, ATTR_stride)[d] != 1 ||
		    at_ints(&n->at, ATTR_dilation)[d] != 1 || at_ints(&n->at, ATTR_ldil)[d] != 1)
			return false;
	return true;
}

bool
fuse_winograd(const struct spec *s)
{
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (node_winograd(&s->g, &s->g.nodes[i]))
			return true;
	return false;
}

/* Maps cost about as much as products of eight channels, and tiles that stick out of small images are
 * computed for nothing. */
enum { LEAST_CHANNELS = 8 };
static bool
saves_products(const struct winograd *w, int64_t tiles, int64_t rows)
{
	return tiles * w->p * w->p * 10 <= rows * WINO_TAPS * WINO_TAPS * 7;
}

/* The same of a node, for the loop program, whose rule (kernels/schedule/rule_winograd.c) asks this of its
 * own blocks and wants a vector of columns, and more than one tile each way. */
static bool
node_suits(const struct graph *g, const struct node *n, const struct winograd *w, int64_t lanes)
{
	const struct shape *weight = &graph_tensor(g, n->in[1])->shape,
			   *y = &graph_tensor(g, n->out[0])->shape;
	int64_t tiles = y->dim[0];

	for (int d = 1; d < 3; d++)
		tiles *= (y->dim[d] + w->m - 1) / w->m;
	return MIN_OF(y->dim[1], y->dim[2]) > w->m && weight->dim[2] >= LEAST_CHANNELS &&
	    weight->dim[3] >= MAX_OF((int64_t)LEAST_CHANNELS, lanes) &&
	    saves_products(w, tiles, y->dim[0] * y->dim[1] * y->dim[2]);
}

static bool
some_suits(const struct spec *s, const struct winograd *w, int64_t lanes)
{
	for (uint32_t i = 0; w && i < s->g.n_nodes; i++)
		if (node_winograd(&s->g, &s->g.nodes[i]) && node_suits(&s->g, &s->g.nodes[i], w, lanes))
			return true;
	return false;
}

bool
winograd_suits(const struct spec *s, const struct target *t, int64_t m)
{
	return !t->strict && !t->is_cuda &&
	    some_suits(s, winograd_form(m), t->simd_bytes / (int64_t)sizeof(float));
}

bool
winograd_suited(const struct spec *s)
{
	return some_suits(s, winograd_form(4), 1) || some_suits(s, winograd_form(2), 1);
}

/* ---- the packed factor ---------------------------------------------------------------------- */
void
winograd_maps(const struct winograd *w, struct tile_pack *pack, int first)
{
	pack->n_maps = 2;
	for (int i = 0; i < 2; i++) {
		struct pack_map *m = &pack->map[i];

		*m = (struct pack_map){.dim = first + i, .n_taps = WINO_TAPS, .step = pack->coef[first + i]};
		pack->coef[first + i] = 0;
		for (int d = 0; d < w->p; d++)
			for (int t = 0; t < WINO_TAPS; t++)
				m->w[d][t] = w->g[d][t];
	}
}

bool
winograd_bind_b(struct binding *b)
{
	struct anchor *n = b->n;
	const struct ex *e = ex_get(b->p->tx, b->s->b);
	int64_t nr, block = b->s->wino->p * b->s->wino->p;
	const struct tile_pack *pack = e->kind == EX_READ ? b->p->tensors[e->tensor].pack : NULL;

	/* A ring's steps make any number of rows: tiles would be cut anywhere. */
	if (!pack || b->p->pass[b->s->pass].n_rings)
		return false;
	n->wino = b->s->wino;
	n->b_tensor = e->tensor;
	nr = pack->dim[pack->rank - 1];
	n->nv = (int)(nr / n->lanes);
	n->n_panels = (n->n_columns + nr - 1) / nr;
	n->panel = tx_axis(b->p->tx, AXIS_PAR, 0, n->n_panels - 1, IX_NONE);
	n->lane = tx_axis(b->p->tx, AXIS_PAR, 0, nr - 1, IX_NONE);
	for (uint32_t i = 0; i < n->n_k; i++)
		block *= winograd_slides(b->s, n->k[i].id) ? 1 : n->k[i].extent;
	n->b_at = ix_mulc(b->p->tx, ix_axis(b->p->tx, n->panel), block * nr);
	return true;
}

/* ---- the panel ---------------------------------------------------------------------------------- */
/* Is e zero wherever at >= 0, by a guard of its own?  `at` counts on by one with the panel's axis. */
static bool
is_zero_behind(struct tx *x, ex_id e, ix_id at)
{
	for (;;) {
		const struct ex g = *ex_get(x, e);
		int64_t ahead;

		if (g.kind != EX_GUARD)
			return false;
		const struct ex *no = ex_get(x, g.arg[1]);

		if (no->kind != EX_CONST || no->real != 0)
			return false;
		ix_id rest = ix_add(x, ix_addc(x, g.ix, -g.hi), ix_mulc(x, at, -1));

		if (ix_is_const(x, rest, &ahead) && ahead >= 0)
			return true;
		e = g.arg[0];
	}
}

ex_id
winograd_crop(struct tx *x, ex_id body, axis_id u, ix_id end)
{
	ix_id at = ix_add(x, ix_axis(x, u), ix_mulc(x, end, -1));

	if (is_zero_behind(x, body, at))
		return body;
	return ex_guard(x, at, MIN_OF(ix_get(x, at)->lo, (int64_t)-1), 0, body, ex_real(x, DT_f32, 0));
}

/* ---- the step ------------------------------------------------------------------------------------- */
/* An odd number of cache lines: positions of one element would else fall into the same set. */
static int64_t
pitch(int64_t n)
{
	return ((n + 15) / 16 | 1) * 16;
}

/* Are the last two rows those that the window slides along?  Then they share the panel's dimensions. */
static bool
rows_slide(const struct binding *b, const int64_t step[2])
{
	const struct anchor *n = b->n;
	ix_id at = ex_get(b->p->tx, b->s->a)->ix;
	int64_t y, x;

	return n->n_batch == 0 && n->n_row >= 2 && ix_coef(b->p->tx, at, n->row[n->n_row - 2].id, &y) &&
	    ix_coef(b->p->tx, at, n->row[n->n_row - 1].id, &x) && y == step[0] && x == step[1];
}

/* Few channels: as many tiles as leave their factor in the second cache.  Many: enough that the packed
 * factor, which comes from further away, is not read for a few tiles only; and several panels of columns
 * take a position's factor while it is in the first cache. */
enum { MANY_CHANNELS = 128, MANY_TILES = 28, MANY_WIDE = 4 };
enum { MOST_SCRATCH = 1 << 22 }; /* floats a thread */

static int64_t
tiles_upto(const struct binding *b, int64_t k, int64_t all)
{
	const struct tile_prog *p = b->p;
	int64_t mr = b->n->mr, positions = b->n->wino->p * b->n->wino->p;
	int64_t most = p->target->l2_bytes * 3 / 8 / (positions * k * 4) / mr * mr;
	int64_t t = sched_get(p->sched, KNOB_tiles, MAX_OF(most, k < MANY_CHANNELS ? 2 * mr : MANY_TILES));

	return MIN_OF(t, all);
}

bool
winograd_bind(struct binding *b)
{
	struct anchor *n = b->n;
	const struct winograd *w = n->wino;
	uint32_t kept = 0;
	int64_t k = 1, all = 1, step[2] = {0, 0};

	for (uint32_t i = 0; i < n->n_k; i++) {
		int at = n->k[i].id == b->s->slide[0] ? 0 : n->k[i].id == b->s->slide[1] ? 1 : -1;

		if (at >= 0)
			step[at] = n->k[i].a_step;
		else
			n->k[kept++] = n->k[i];
	}
	n->n_k = kept;
	for (uint32_t i = kept; i-- > 0; k *= n->k[i].extent)
		if (n->k[i].a_step != k)
			return false;
	if (!rows_slide(b, step))
		return false;
	for (uint32_t i = 0; i < n->n_row; i++)
		all *= i + 2 < n->n_row ? n->row[i].extent : (n->row[i].extent + w->m - 1) / w->m;
	n->n_k_total = k;
	n->a_y = step[0];
	n->a_x = step[1];
	n->a_row = k;
	n->tiles = tiles_upto(b, k, all);
	n->v_pitch = pitch(n->tiles * k);
	n->wide = MIN_OF(sched_get(b->p->sched, KNOB_wide, k < MANY_CHANNELS ? 1 : MANY_WIDE), n->n_panels);
	n->sums_pitch = pitch(n->tiles * n->wide * n->nv * n->lanes);
	if (w->p * w->p * (n->v_pitch + n->sums_pitch) > MOST_SCRATCH)
		return false;
	n->v = anchor_tensor(b->p, w->p * w->p * n->v_pitch, UINT32_MAX);
	take_local(b->p, n->v, w->p * w->p * n->v_pitch);
	n->sums = anchor_tensor(b->p, w->p * w->p * n->sums_pitch, UINT32_MAX);
	take_local(b->p, n->sums, w->p * w->p * n->sums_pitch);
	return true;
}

/* Elements of the first row axis in a step: whole tiles, and enough of them that the packed factor is
 * not read for a few products each time. */
int64_t
winograd_block(const struct stage *s, const struct tile_pass *t, int64_t block)
{
	enum { STEP_TILES = 24 };
	int64_t m = s->wino->m, width = 1, last = t->outer[t->n_outer - 1].extent;
	bool is_row = false;

	for (uint32_t i = 0; i < s->n_par; i++) {
		is_row |= s->axis[i].id == s->slides[0] && s->axis[i].outer == (int)t->n_outer - 1;
		if (s->axis[i].id == s->slides[1])
			width = (s->axis[i].extent + m - 1) / m;
	}
	if (!is_row)
		return block;
	block = MAX_OF(block / m, (STEP_TILES + width - 1) / width) * m;
	int64_t n = (last + block - 1) / block;

	return ((last + n - 1) / n + m - 1) / m * m;
}

bool
winograd_holds(const struct tile_prog *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_stages; i++)
		if (p->stages[i].wino && !p->stages[i].anchor)
			return err_set(
			    e, ERR_INFEASIBLE, "wino: a step of the pass holds no tiles of the convolution");
	return true;
}
