/* kernels/emit/cuda_tile.c: a linear stage on a block of threads: parts of both factors are staged
 * in shared memory (from any expression: a convolution's window, a prologue), each thread keeps a
 * piece of the tile in registers, and the pass's other steps run on it as epilogue.
 *
 * An axis of the result that the pass's range does not count is inner: a block has all of it, in one tile
 * or in one after another, and other steps may join over it. */
#include "cuda_int.h"

#include <string.h>

enum { LEAST_EDGE = 4, SMALL_TILE = 64 };

static bool
refuse(struct tile *t, const char *why)
{
	t->no.why = why;
	return false;
}

/* It would not, had `s` a pass of its own: what the linear stage comes behind, or itself. */
static bool
refuse_for(struct tile *t, const struct stage *s, const char *why)
{
	t->no.culprit = s < t->s ? t->s : s;
	return refuse(t, why);
}

/* ---- which axes ------------------------------------------------------------------------------------- */
/* The pass's n-th linear stage; its place in the row, tp->n_row: none. */
static uint32_t
linear_at(const struct gen *g, const struct tile_pass *tp, uint32_t n)
{
	for (uint32_t i = 0; i < tp->n_row; i++)
		if (g->p->stages[tp->row[i]].kind == STAGE_LINEAR && n-- == 0)
			return i;
	return tp->n_row;
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
		int v =
		    2 * runs_along(g, t->f[0].ex, s->axis[k].id) + runs_along(g, t->f[1].ex, s->axis[k].id);

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

/* Which factors the axis of the result stands in decides whether it counts rows, columns or batches. */
static struct tile_axes *
home_of(const struct gen *g, struct tile *t, axis_id id)
{
	bool in_a = ex_has(g->tx, t->f[0].ex, id), in_b = ex_has(g->tx, t->f[1].ex, id);

	return in_a && in_b ? &t->batch : in_b ? &t->f[1].axes : &t->f[0].axes;
}

/* The axis that runs through the result's memory belongs to the columns. */
static bool
wants_swap(const struct gen *g, const struct tile_pass *tp, const struct stage *s)
{
	axis_id last = s->n_par && (s->axis[s->n_par - 1].stride == 1 || !tp->n_outer)
	    ? s->axis[s->n_par - 1].id
	    : tp->outer[tp->n_outer - 1].id;

	return ex_has(g->tx, s->a, last) && !ex_has(g->tx, s->b, last);
}

/* False: an inner axis counts batches. */
static bool
classify(const struct gen *g, const struct tile_pass *tp, struct tile *t)
{
	const struct stage *s = t->s;
	bool swap = wants_swap(g, tp, s);

	t->f[0].ex = swap ? s->b : s->a;
	t->f[1].ex = swap ? s->a : s->b;
	t->f[0].axes.count = t->f[1].axes.count = t->batch.count = t->red.count = 1;
	for (uint32_t k = 0; k < s->n_par; k++) {
		struct tile_axes *x = home_of(g, t, s->axis[k].id);

		if (x == &t->batch)
			return refuse(t, "a block's own axis counts batches");
		t->f[x == &t->f[1].axes].inner = true;
	}
	for (uint32_t u = 0; u < tp->n_outer; u++) {
		struct tile_axes *x = home_of(g, t, tp->outer[u].id);

		if (x != &t->batch && t->f[x == &t->f[1].axes].inner)
			x = &t->batch;
		add_axis(x, tp->outer[u].id, tp->outer[u].extent);
	}
	for (uint32_t k = 0; k < s->n_par; k++)
		add_axis(home_of(g, t, s->axis[k].id), s->axis[k].id, s->axis[k].extent);
	order_red(g, t);
	return true;
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
	return sched_get(s, KNOB_exact, 0) == 0 && precision_on(t->sm, t->precision) ? t->precision
										     : PRECISION_F32;
}

static size_t
hand_bytes(const struct tile *t, int64_t rows)
{
	const int64_t unit = t->layout->unit[1];

	return (size_t)((t->f[1].axes.count + unit - 1) / unit * unit * (rows + t->pad) * 4);
}

/* Steps that need all of an inner row or column in registers get a tile of that size where one can be. */
static void
choose_edges(const struct sched *s, struct tile *t)
{
	bool large = t->f[0].axes.count >= 512 && t->f[1].axes.count >= 128;

	for (int i = 0; i < 2; i++) {
		const int most = t->layout->most[i];
		int64_t wanted = sched_get(s, i ? KNOB_tn : KNOB_tm, large ? most : most / 2),
			unit = t->layout->unit[i];
		int64_t whole = (t->f[i].axes.count + unit - 1) / unit;

		t->per[i] = per_thread(t->f[i].axes.count, MIN_OF(wanted, (int64_t)most), t->layout->unit[i]);
		if ((t->n_phases > 1 || t->next) && t->f[i].inner && whole <= most)
			t->per[i] = whole;
		while (i == 0 && t->next && t->per[0] > 1 && hand_bytes(t, t->per[0] * unit) > TILE_HAND_MOST)
			t->per[0]--;
		t->edge[i] = t->per[i] * unit;
		t->n_tiles[i] = (t->f[i].axes.count + t->edge[i] - 1) / t->edge[i];
		t->f[i].sweeps = t->f[i].inner && t->n_tiles[i] > 1;
	}
}

static size_t
part_bytes(const struct tile *t)
{
	int64_t lines = t->edge[1] + t->pad + (t->is_handed ? 0 : t->edge[0] + t->pad);

	return (size_t)(t->stages * t->bk * lines * 4);
}

/* Copies that go on beside the arithmetic need one buffer more than registers between, to be of use. */
static void
choose_depth(const struct gen *g, struct tile *t, size_t room)
{
	const struct sched *s = g->p->sched;

	t->is_async = g->p->target->sm >= 80 && sched_get(s, KNOB_stages, 2) > 1 &&
	    sched_get(s, KNOB_async, 1) &&
	    ((!t->is_handed && cuda_is_plain(g, t->f[0].ex)) || cuda_is_plain(g, t->f[1].ex));
	t->k_step = cuda_k_step(t->precision, g->p->target->sm);
	t->bk = MAX_OF(sched_get(s, KNOB_tk, 16) / t->k_step * t->k_step, (int64_t)t->k_step);
	t->stages = (int)MIN_OF(sched_get(s, KNOB_stages, 2), (int64_t)(t->is_async ? 4 : 2));
	while (part_bytes(t) > room) {
		if (t->stages > 1)
			t->stages--;
		else if (t->bk > t->k_step)
			t->bk = MAX_OF(t->bk / 2 / t->k_step * t->k_step, (int64_t)t->k_step);
		else
			break;
	}
	t->is_async &= t->stages > 1;
}

/* The first step that sums over the tile's points. */
static const struct stage *
first_join(const struct tile *t)
{
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].joins)
			return t->step[i].s;
	return t->s;
}

static bool
choose_sizes(const struct gen *g, struct tile *t)
{
	size_t folds, hand = 0, most = TILE_SHARED_MOST;

	t->precision = precision_of(g->p->target, g->p->sched);
	t->layout = cuda_layout(t->precision, g->p->target->sm);
	t->pad = t->precision == PRECISION_F32 ? 1 : 8;
	choose_edges(g->p->sched, t);
	folds = cuda_steps_bytes(g, t);
	if (t->next) {
		hand = hand_bytes(t, t->edge[0]) + TILE_NEXT_ROOM;
		most = TILE_PAIR_MOST;
		if (t->f[1].sweeps || hand > TILE_HAND_MOST + TILE_NEXT_ROOM)
			return refuse_for(
			    t, t->next->s, "the rows between two products do not fit shared memory");
	}
	if (folds > TILE_FOLD_MOST || folds + hand > most)
		return refuse_for(t, t->next ? t->next->s : first_join(t),
		    "what its steps keep does not fit shared memory");
	choose_depth(g, t, most - folds - hand);
	return part_bytes(t) <= most - folds - hand || refuse(t, "its parts do not fit shared memory");
}

/* The second tile has the first one's rows. */
static bool
choose_next_sizes(const struct gen *g, const struct tile *t, struct tile *next)
{
	size_t folds;

	next->precision = t->precision;
	next->layout = t->layout;
	next->pad = t->pad;
	choose_edges(g->p->sched, next);
	next->per[0] = t->per[0];
	next->edge[0] = t->edge[0];
	next->n_tiles[0] = t->n_tiles[0];
	while (next->per[1] > 1 && next->edge[1] > 64 && next->n_phases < 2) {
		next->per[1]--;
		next->edge[1] = next->per[1] * next->layout->unit[1];
	}
	next->n_tiles[1] = (next->f[1].axes.count + next->edge[1] - 1) / next->edge[1];
	next->f[1].sweeps = next->n_tiles[1] > 1;
	folds = cuda_steps_bytes(g, next);
	if (folds > TILE_NEXT_ROOM / 2)
		return refuse_for(
		    next, next->s, "what the second product's steps keep does not fit shared memory");
	choose_depth(g, next, TILE_NEXT_ROOM - folds);
	return (part_bytes(next) <= TILE_NEXT_ROOM - folds && t->edge[1] % next->bk == 0) ||
	    refuse_for(next, next->s, "the second product's parts do not fit shared memory");
}

/* What a block takes tile by tile is joined over all tiles, and nothing is left of a tile behind it. */
static bool
can_sweep(struct tile *t)
{
	for (uint32_t i = 0; i < t->n_steps; i++) {
		const struct tile_step *s = &t->step[i];

		if ((t->f[0].sweeps && s->level == LEVEL_ROW) || (t->f[1].sweeps && s->level == LEVEL_COLUMN))
			return refuse_for(
			    t, s->s, "a step has an element for each of many tiles' rows or columns");
		if ((t->f[0].sweeps || t->f[1].sweeps) && s->phase > 0 &&
		    (s->joins || s->level == LEVEL_POINT))
			return refuse_for(
			    t, s->s, "points of many tiles are needed again behind a sum over them");
	}
	return true;
}

/* Steps without loops of their own, but for sums: one element at each point. */
static bool
is_pointwise(const struct gen *g, const struct tile_pass *tp, const struct stage **first_not)
{
	for (uint32_t i = 0; i < tp->n_row; i++) {
		*first_not = &g->p->stages[tp->row[i]];
		if ((*first_not)->n_par || (*first_not)->kind == STAGE_SCATTER)
			return false;
	}
	return true;
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
		c->found |= c->g->p->stages[c->tp->row[i]].tensor == read->tensor ||
		    c->g->p->stages[c->tp->row[i]].tensor2 == read->tensor;
}

static bool
is_made_here(const struct gen *g, const struct tile_pass *tp, ex_id e)
{
	struct made_check made = {.g = g, .tp = tp};

	ex_reads(g->tx, e, note_made, &made);
	return made.found;
}

static bool
can_multiply(const struct gen *g, const struct stage *s)
{
	enum dtype a = ex_get(g->tx, s->a)->type, b = ex_get(g->tx, s->b)->type;

	return s->acc == DT_f32 && s->n_red > 0 && a != DT_f64 && dtype_is_float(a) && dtype_is_float(b);
}

/* Does a step of the second tile read what the first one keeps? */
static bool
reads_first(const struct gen *g, const struct tile_pass *tp, uint32_t second, ex_id e)
{
	struct tile_pass before = *tp;

	before.n_row = second;
	return is_made_here(g, &before, e);
}

/* The pass's second linear stage: its rows are the first one's, one factor is what that hands on, the
 * other comes from elsewhere. */
static bool
plan_next(const struct gen *g, const struct tile_pass *tp, struct tile *t, uint32_t at)
{
	const struct stage *s = &g->p->stages[tp->row[at]];
	struct tile *n = NEW(g->a, struct tile);
	const bool in_b = is_made_here(g, tp, s->b);

	*n = (struct tile){.s = s, .is_handed = true, .batch = t->batch, .before = t, .turns = t->turns};
	if (!can_multiply(g, s) || s->n_par == 0)
		return refuse_for(t, s, "the second product is none of floats with rows of its own");
	if (in_b == is_made_here(g, tp, s->a) || t->f[0].inner || !t->f[1].inner)
		return refuse_for(t, s, "the second product does not take a row of the first one's");
	n->f[0] = t->f[0];
	n->f[0].ex = in_b ? s->b : s->a;
	n->f[1].ex = in_b ? s->a : s->b;
	n->f[1].inner = true;
	n->f[1].axes.count = n->red.count = 1;
	for (uint32_t k = 0; k < t->f[0].axes.n; k++)
		if (ex_has(g->tx, n->f[1].ex, t->f[0].axes.id[k]))
			return refuse_for(t, s, "the second product's other factor depends on the row");
	for (uint32_t k = 0; k < s->n_par; k++)
		add_axis(&n->f[1].axes, s->axis[k].id, s->axis[k].extent);
	if (!cuda_hands_on(g, t, s, n->f[0].ex))
		return refuse_for(t, s, "the second product does not sum along the first one's columns");
	if (!cuda_steps(g, tp, n, at, tp->n_row))
		return refuse_for(t, n->no.culprit,
		    "a step behind the second product is not at its points, rows or columns");
	order_red(g, n);
	for (uint32_t i = 1; i < n->n_steps && !t->turns; i++)
		if (reads_first(g, tp, at, n->step[i].body))
			return refuse_for(t, n->step[i].s,
			    "a step behind the second product reads what the first one keeps");
	t->next = n;
	return !t->turns || cuda_carries(g, t) ||
	    refuse(t, "turns carry more than rows and points of their own");
}

/* Is there enough to multiply, of a kind that tiles multiply? */
static bool
plan_product(const struct gen *g, const struct tile_pass *tp, struct tile *t)
{
	if (g->p->target->strict || sched_get(g->p->sched, KNOB_tm, 1) == 0)
		return refuse(t, "the schedule wants none");
	if (!can_multiply(g, t->s))
		return refuse(t, "it is no sum of products of floats");
	if (linear_at(g, tp, 2) < tp->n_row)
		return refuse_for(
		    t, &g->p->stages[tp->row[linear_at(g, tp, 2)]], "three products share the pass");
	if (is_made_here(g, tp, t->s->a) || is_made_here(g, tp, t->s->b))
		return refuse_for(t, t->s, "a factor is made in the pass");
	if (tp->n_outer + t->s->n_par == 0)
		return refuse(t, "it has one element");
	if (!classify(g, tp, t))
		return false;
	if (t->f[0].axes.count < LEAST_EDGE || t->f[1].axes.count < LEAST_EDGE)
		return refuse(t, "too few rows or columns share a factor");
	return t->red.count >= LEAST_EDGE || refuse(t, "its sums are too short");
}

static bool
plan(const struct gen *g, const struct tile_pass *tp, struct tile *t)
{
	uint32_t first = linear_at(g, tp, 0), second = linear_at(g, tp, 1);

	*t = (struct tile){.s = first < tp->n_row ? &g->p->stages[tp->row[first]] : NULL};
	if (!t->s || !plan_product(g, tp, t))
		return false;
	t->turns = t->s->sweeps;
	if (t->turns && second == tp->n_row)
		return refuse(t, "one of a sweep's products is elsewhere");
	if (t->s->n_par && !cuda_steps(g, tp, t, 0, second))
		return refuse_for(t, t->no.culprit, "a step is not at the tile's points, rows or columns");
	if (!t->s->n_par && !is_pointwise(g, tp, &t->no.culprit))
		return refuse_for(t, t->no.culprit, "a step loops over what the range does not count");
	if (second < tp->n_row && (tp->n_call || !t->s->n_par))
		return refuse_for(
		    t, &g->p->stages[tp->row[second]], "two products without a row of their own");
	if (second < tp->n_row && !plan_next(g, tp, t, second))
		return false;
	if (!choose_sizes(g, t) || !can_sweep(t))
		return false;
	if (t->next && (!choose_next_sizes(g, t, t->next) || !can_sweep(t->next))) {
		t->no = t->next->no;
		return false;
	}
	return !t->turns || !t->next->f[1].sweeps || refuse(t, "what turns carry is more than one tile");
}

uint32_t
cuda_tiles(struct gen *g, const struct tile_pass *tp, struct cuda_no_tile *no)
{
	struct tile t;
	bool can = plan(g, tp, &t);

	*no = can ? (struct cuda_no_tile){0} : t.no;
	return can ? t.next ? 2 : 1 : 0;
}

int64_t
cuda_tile_range(struct gen *g, const struct tile_pass *tp)
{
	struct tile t;

	if (!plan(g, tp, &t))
		bug("a pass without a tile");
	return (t.f[0].inner ? 1 : t.n_tiles[0]) * (t.f[1].inner ? 1 : t.n_tiles[1]) * t.batch.count;
}

/* Its turns, in all tiles that a block takes one after another. */
static void
add_work(const struct tile *t, int sm, int64_t times, struct tile_work *w)
{
	int64_t turns = (t->red.count + t->bk - 1) / t->bk * times;

	for (int i = 0; i < 2; i++)
		turns *= t->f[i].sweeps ? t->n_tiles[i] : 1;
	w->turns += turns;
	w->multiply_adds += (double)turns * (double)t->bk * (double)t->edge[0] * (double)t->edge[1];
	w->slots += (double)turns * (cuda_multiply_slots(t, sm) + cuda_copy_slots(t));
	w->bytes +=
	    (double)turns * (double)t->bk * 4 * (double)((t->is_handed ? 0 : t->edge[0]) + t->edge[1]);
}

struct tile_work
cuda_tile_work(struct gen *g, const struct tile_pass *tp)
{
	struct tile_work w = {.turns = 0};
	struct tile t;

	if (!plan(g, tp, &t))
		bug("a pass without a tile");
	for (const struct tile *x = &t; x; x = x->next)
		add_work(x, g->p->target->sm, t.turns ? g->p->n_turns : 1, &w);
	return w;
}

bool
cuda_tile_keeps(struct gen *g, const struct tile_pass *tp)
{
	struct tile t;

	return plan(g, tp, &t) && t.s->n_par > 0;
}

/* ---- a block's tiles -------------------------------------------------------------------------------------
 */
static void
one_tile(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	cuda_clear(g, t);
	cuda_sum(g, t);
	if (t->s->n_par)
		cuda_steps_tile(g, t);
	else
		cuda_points(g, tp, t);
}

/* Where the tile lies, of those that the range counts. */
static void
place_tile(struct gen *g, const struct tile *t)
{
	int64_t below = 1;

	for (int i = 1; i >= 0; i--) {
		if (t->f[i].sweeps)
			continue;
		if (t->f[i].inner) {
			gen_line(g, "const int %c0 = 0;", letter("mn", i));
			continue;
		}
		const char *above = below > 1 ? arena_printf(g->a, "o / %lld", (long long)below) : "o";

		gen_line(g, "const int %c0 = %s %% %lld * %lld;", letter("mn", i), above,
		    (long long)t->n_tiles[i], (long long)t->edge[i]);
		below *= t->n_tiles[i];
	}
	if (t->batch.n) {
		gen_line(g, "const int z = o / %lld;", (long long)below);
		cuda_bind_digits(g, &t->batch, "z");
	}
}

static void
shared_parts(struct gen *g, const struct tile *t)
{
	for (int i = t->is_handed; i < 2; i++)
		gen_line(g, "K_SHARED float part_%c[%d][%lld][%lld];", letter("ab", i), t->stages,
		    (long long)t->bk, (long long)(t->edge[i] + t->pad));
}

/* What a block makes: the tile, or all that are inner. */
static void
block_of_tiles(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	const uint32_t phases = t->turns ? t->sweep_phases : t->n_phases;

	cuda_place(g, t);
	cuda_steps_begin(g, t, 0, phases);
	for (int i = 0; i < 2; i++)
		if (t->f[i].sweeps)
			gen_open(g, "for (int %c0 = 0; %c0 < %lld; %c0 += %lld)", letter("mn", i),
			    letter("mn", i), (long long)t->f[i].axes.count, letter("mn", i),
			    (long long)t->edge[i]);
	one_tile(g, tp, t);
	for (int i = 0; i < 2; i++)
		if (t->f[i].sweeps)
			gen_close(g);
	cuda_steps_end(g, t, 0, phases);
}

static void
second_product(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	gen_line(g, "/* the second product, of what the first has left */");
	gen_open(g, "%s", "");
	shared_parts(g, t); /* every sum has a barrier before it multiplies: `hand` is there by then */
	if (!t->turns)
		cuda_steps_shared(g, t);
	if (!t->f[1].sweeps)
		gen_line(g, "const int n0 = 0;");
	block_of_tiles(g, tp, t);
	gen_close(g);
}

/* Both products, turn by turn; then what becomes of the second one's points. */
static void
sweep_of_tiles(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	const struct tile *next = t->next;

	gen_line(g, "K_BARRIER();"); /* the block's rows before are done with */
	cuda_steps_carry(g, t);
	cuda_steps_carry(g, next);
	gen_line(g, "K_BARRIER();");
	gen_open(g, "for (int turn = 0; turn < %lld; turn++)", (long long)g->p->n_turns);
	gen_bind(g, g->p->turn, "turn");
	gen_open(g, "%s", "");
	block_of_tiles(g, tp, t);
	gen_close(g);
	second_product(g, tp, next);
	gen_bind(g, g->p->turn, NULL);
	gen_close(g);
	gen_line(g, "/* behind the last turn */");
	gen_open(g, "%s", "");
	cuda_place(g, next);
	cuda_clear(g, next);
	cuda_steps_begin(g, next, next->sweep_phases, next->n_phases);
	cuda_steps_end(g, next, next->sweep_phases, next->n_phases);
	gen_close(g);
}

void
cuda_tile(struct gen *g, const struct tile_pass *tp)
{
	struct tile t;
	uint32_t mark = gen_mark(g);

	if (!plan(g, tp, &t))
		bug("a pass without a tile");
	shared_parts(g, &t);
	cuda_steps_shared(g, &t);
	if (t.turns)
		cuda_steps_shared(g, t.next);
	if (t.next)
		gen_line(g, "K_SHARED float hand[%lld][%lld];", (long long)t.edge[1],
		    (long long)(t.edge[0] + t.pad));
	gen_open(g, "for (%s o = lo + K_BLOCK; o < hi; o += K_BLOCKS)", g->index);
	place_tile(g, &t);
	if (t.turns) {
		sweep_of_tiles(g, tp, &t);
	} else {
		block_of_tiles(g, tp, &t);
		if (t.next)
			second_product(g, tp, t.next);
	}
	gen_close(g);
	cuda_unbind(g, &t.batch);
	gen_forget(g, mark);
}
