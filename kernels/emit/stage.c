/* kernels/emit/stage.c: the loop nests of stages: maps; reductions along memory (partial sums in
 * lanes) and across it (a row of sums); positions of extremes; scans; the k largest; scatter. */
#include "gen_int.h"
#include "linear_int.h"

#include <string.h>

enum { ROW_OF_SUMS = 64, LONG_SUM = 512, IN_CACHE = 128 << 10, ROW_MOST = 1024 };

static void
axes_by_stride(struct gen *g, const struct stage *s, struct nest *n, int last, bool with_red)
{
	int64_t key[NEST_AXES];

	n->n = 0;
	for (uint32_t k = 0; k < s->n_par; k++) {
		uint32_t j = n->n;
		int64_t coef;

		if ((int)k == last)
			continue;
		if (!ix_coef(g->tx, s->out, s->axis[k].id, &coef))
			coef = 0;
		for (; j > 0 && key[j - 1] < coef; j--) {
			key[j] = key[j - 1];
			n->axis[j] = n->axis[j - 1];
		}
		key[j] = coef;
		n->axis[j] = s->axis[k].id;
		n->n++;
	}
	for (uint32_t k = s->n_par; with_red && k < s->n_par + s->n_red; k++)
		if ((int)k != last)
			n->axis[n->n++] = s->axis[k].id;
	if (last >= 0)
		n->axis[n->n++] = s->axis[last].id;
}

/* ---- maps ------------------------------------------------------------------------------------------- */
static void
map_inside(struct gen *g, struct nest *n, void *self)
{
	(void)self;
	gen_store(g, n->s->tensor, n->ix[0], gen_ex(g, n->ex[0]));
}

static void
map_loops(struct gen *g, struct nest *n, void *self)
{
	gen_par(g, n, map_inside, self);
}

static void
gen_map(struct gen *g, const struct stage *s)
{
	struct nest n = nest_of(g, s);
	bool is_red;

	if (gen_transposed(g, s))
		return;
	axes_by_stride(g, s, &n, stage_vector_axis(g->p, s, &is_red), false);
	n.independent = true;
	gen_outer_parts(g, &n, map_loops, NULL);
}

/* ---- reductions --------------------------------------------------------------------------------------- */
struct reduction {
	const struct stage *s;
	enum prim join;
	enum dtype acc;
	const char *name; /* of the accumulators */
	int vector;       /* place of the vector axis in s->axis, -1 */
	axis_id lane_axis;
	int64_t lanes;
	const char *lane;
	uint32_t level;          /* loops of the reduction that are open */
	const struct stage *map; /* made in the same loop: its element is nest.ex[1], its place nest.ix[1] */
};

const char *
gen_identity(struct gen *g, enum prim join, enum dtype t)
{
	struct ex c = {.kind = EX_CONST, .type = t};
	int bits = (int)dtype_size(t) * 8;
	int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
	bool high = join == PRIM_min;

	if (join == PRIM_add || join == PRIM_mul) {
		c.real = join == PRIM_mul;
		c.whole = join == PRIM_mul;
		return gen_const(g, &c);
	}
	if (dtype_is_float(t))
		c.real = high ? __builtin_inf() : -__builtin_inf();
	else if (t == DT_bool)
		c.whole = high;
	else if (dtype_is_signed(t))
		c.whole = high ? top : -top - 1;
	else
		c.whole = !high ? 0 : bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
	return gen_const(g, &c);
}

const char *
gen_cast(struct gen *g, enum dtype from, enum dtype to, const char *v)
{
	return from == to ? v : gen_map_text(g, PRIM_cast, to, from, from, &v);
}

static void
accumulate(struct gen *g, const struct reduction *r, ex_id e, const char *at)
{
	const char *v = gen_cast(g, ex_get(g->tx, e)->type, r->acc, gen_ex(g, e));
	const char *cell = arena_printf(g->a, "%s[%s]", r->name, at), *arg[2] = {cell, v};

	gen_line(g, "%s = %s;", cell, gen_map_text(g, r->join, r->acc, r->acc, r->acc, arg));
}

static int64_t
depth_of(const struct stage *s, int but)
{
	int64_t d = 1;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		d *= (int)k == but ? 1 : s->axis[k].extent;
	return d;
}

/* ---- along memory: lane l joins elements l, l + lanes, ... ------------------------------------------------
 */
static void
lane_steps(struct gen *g, struct nest *n, struct reduction *r, const char *base, const char *count)
{
	const char *l = arena_printf(g->a, "n%u", g->n_loop++), *i = arena_printf(g->a, "i%u", g->n_loop++);
	uint32_t mark = gen_mark(g);

	if (r->map)
		gen_independent(g, r->map->tensor);
	gen_open(g, "for (%s %s = 0; %s < %s; %s++)", g->index, l, l, count, l);
	gen_line(g, "const %s %s = %s + %s;", g->index, i, base, l);
	gen_bind(g, r->lane_axis, i);
	if (r->map) {
		const char *v = gen_ex(g, n->ex[1]);
		gen_store(g, r->map->tensor, n->ix[1], v);
		gen_name_read(g, g->p->tensors[r->map->tensor].type, r->map->tensor, n->ix[1], v);
	}
	accumulate(g, r, n->ex[0], l);
	gen_bind(g, r->lane_axis, NULL);
	gen_close(g);
	gen_forget(g, mark);
}

static void
lanes_over(struct gen *g, struct nest *n, struct reduction *r)
{
	int64_t lo = tx_axis_get(g->tx, r->lane_axis)->lo, hi = tx_axis_get(g->tx, r->lane_axis)->hi + 1;
	int64_t whole = (hi - lo) / r->lanes * r->lanes;

	if (whole == r->lanes) {
		lane_steps(g, n, r, arena_printf(g->a, "%lld", (long long)lo),
		    arena_printf(g->a, "%lld", (long long)r->lanes));
	} else if (whole) {
		const char *k = arena_printf(g->a, "k%u", g->n_loop++);
		gen_open(g, "for (%s %s = %lld; %s < %lld; %s += %lld)", g->index, k, (long long)lo, k,
		    (long long)(lo + whole), k, (long long)r->lanes);
		lane_steps(g, n, r, k, arena_printf(g->a, "%lld", (long long)r->lanes));
		gen_close(g);
	}
	if (lo + whole < hi)
		lane_steps(g, n, r, arena_printf(g->a, "%lld", (long long)(lo + whole)),
		    arena_printf(g->a, "%lld", (long long)(hi - lo - whole)));
}

static void
lanes_inside(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	int64_t cut[NEST_CUTS + 1];
	axis_id a = r->s->axis[r->vector].id;
	int parts = nest_cuts(g, n, a, cut), copies = g->copies;

	g->copies *= parts;
	for (int k = 0; k < parts; k++) {
		struct nest m = nest_part(g, n, a, cut[k], cut[k + 1], &r->lane_axis);
		lanes_over(g, &m, r);
	}
	g->copies = copies;
}

/* Halves fold onto each other: the same order whatever the compiler does. */
static void
fold_lanes(struct gen *g, const struct reduction *r)
{
	if (r->acc == DT_f32 && r->lanes >= 8 && r->lanes <= 64) {
		gen_line(g, "%s[0] = k_fold_%s_f32(%s, %lld);", r->name, prim_info[r->join].name, r->name,
		    (long long)r->lanes);
		return;
	}
	for (int64_t h = r->lanes / 2; h >= 1; h /= 2) {
		const char *l = arena_printf(g->a, "n%u", g->n_loop++);
		const char *arg[2] = {arena_printf(g->a, "%s[%s]", r->name, l),
		    arena_printf(g->a, "%s[%s + %lld]", r->name, l, (long long)h)};

		gen_open(g, "for (%s %s = 0; %s < %lld; %s++)", g->index, l, l, (long long)h, l);
		gen_line(g, "%s = %s;", arg[0], gen_map_text(g, r->join, r->acc, r->acc, r->acc, arg));
		gen_close(g);
	}
}

static void
declare_accumulators(struct gen *g, const struct reduction *r)
{
	const char *l = arena_printf(g->a, "n%u", g->n_loop++);

	gen_line(g, "%s %s[%lld];", gen_type(g, r->acc), r->name, (long long)r->lanes);
	gen_open(g, "for (%s %s = 0; %s < %lld; %s++)", g->index, l, l, (long long)r->lanes, l);
	gen_line(g, "%s[%s] = %s;", r->name, l, gen_identity(g, r->join, r->acc));
	gen_close(g);
}

static void
along_inside(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	const struct stage *s = r->s;
	struct nest m = *n;
	enum dtype t = g->p->tensors[s->tensor].type;
	uint32_t mark = gen_mark(g);

	r->name = arena_printf(g->a, "acc%u", g->n_loop++);
	declare_accumulators(g, r);
	m.n = 0;
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		if ((int)k != r->vector)
			m.axis[m.n++] = s->axis[k].id;
	gen_loops(g, &m, 0, m.n, lanes_inside, r);
	fold_lanes(g, r);
	gen_store(g, s->tensor, n->ix[0], gen_cast(g, r->acc, t, arena_printf(g->a, "%s[0]", r->name)));
	gen_forget(g, mark);
}

static void
along_loops(struct gen *g, struct nest *n, void *self)
{
	gen_par(g, n, along_inside, self);
}

/* ---- across memory: a row of sums ------------------------------------------------------------------------
 */
static void
across_lane(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	const char *i = arena_printf(g->a, "i%u", g->n_loop++), *l = arena_printf(g->a, "n%u", g->n_loop++);
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (%s %s = 0; %s < %s; %s++)", g->index, l, l, r->lane, l);
	gen_line(g, "const %s %s = %s_at + %s;", g->index, i, r->name, l);
	gen_bind(g, r->lane_axis, i);
	accumulate(g, r, n->ex[0], l);
	gen_bind(g, r->lane_axis, NULL);
	gen_close(g);
	gen_forget(g, mark);
}

static bool
is_identity(struct gen *g, ex_id e, enum prim join)
{
	const struct ex *c = ex_get(g->tx, e);
	bool is_high = join == PRIM_min;

	if (c->kind != EX_CONST || !dtype_is_float(c->type))
		return false;
	if (join == PRIM_add || join == PRIM_mul)
		return c->real == (join == PRIM_mul) && !__builtin_signbit(c->real);
	return c->real == (is_high ? __builtin_inf() : -__builtin_inf());
}

/* Where a border gives what changes nothing, the whole row of sums is left out: the lanes ask no more.
 * (No sum is ever -0, so 0 changes none.) */
static void
across_skip(struct gen *g, struct nest *n, const struct reduction *r)
{
	for (;;) {
		const struct ex e = *ex_get(g->tx, n->ex[0]);

		if (e.kind != EX_GUARD || !is_identity(g, e.arg[1], r->join) || !gen_knows(g, e.ix))
			return;
		gen_line(g, "if (!(%s))", gen_condition(g, &e));
		gen_line(g, "\tcontinue;");
		n->ex[0] = e.arg[0];
	}
}

static void
across_level(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	struct nest m = *n;

	across_skip(g, &m, r);
	if (++r->level == m.n)
		across_lane(g, &m, r);
	else
		gen_loops(g, &m, r->level, r->level + 1, across_level, r);
	r->level--;
}

static void
across_store(struct gen *g, struct nest *n, struct reduction *r)
{
	const char *i = arena_printf(g->a, "i%u", g->n_loop++), *l = arena_printf(g->a, "n%u", g->n_loop++);
	enum dtype t = g->p->tensors[r->s->tensor].type;
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (%s %s = 0; %s < %s; %s++)", g->index, l, l, r->lane, l);
	gen_line(g, "const %s %s = %s_at + %s;", g->index, i, r->name, l);
	gen_bind(g, r->lane_axis, i);
	gen_store(
	    g, r->s->tensor, n->ix[0], gen_cast(g, r->acc, t, arena_printf(g->a, "%s[%s]", r->name, l)));
	gen_bind(g, r->lane_axis, NULL);
	gen_close(g);
	gen_forget(g, mark);
}

/* One chunk of at most r->lanes results from `at` on; `count` of them. */
static void
across_chunk(struct gen *g, struct nest *n, struct reduction *r, const char *at, const char *count)
{
	const struct stage *s = r->s;
	struct nest m = *n;
	uint32_t mark = gen_mark(g);

	r->name = arena_printf(g->a, "acc%u", g->n_loop++);
	r->lane = count;
	gen_line(g, "const %s %s_at = %s;", g->index, r->name, at);
	declare_accumulators(g, r);
	m.n = 0;
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		m.axis[m.n++] = s->axis[k].id;
	r->level = 0;
	if (m.n)
		gen_loops(g, &m, 0, 1, across_level, r);
	else
		across_lane(g, &m, r);
	across_store(g, n, r);
	gen_forget(g, mark);
}

static void
across_inside(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	axis_id a = r->s->axis[r->vector].id;
	const char *from = loop_from(g, a), *to = loop_to(g, a);
	int64_t extent = loop_extent(g, a), tail = extent % r->lanes;
	uint32_t mark = gen_mark(g);

	r->lane_axis = a;
	if (extent == r->lanes) {
		across_chunk(g, n, r, from, arena_printf(g->a, "%lld", (long long)extent));
		return;
	}
	const char *c = arena_printf(g->a, "c%u", g->n_loop++);

	if (extent < 0 || tail == 0) {
		gen_open(g, "for (%s %s = %s; %s < %s; %s += %lld)", g->index, c, from, c, to, c,
		    (long long)r->lanes);
		across_chunk(g, n, r, c,
		    extent < 0 ? arena_printf(g->a, "k_least(%lld, %s - %s)", (long long)r->lanes, to, c)
			       : arena_printf(g->a, "%lld", (long long)r->lanes));
		gen_close(g);
		gen_forget(g, mark);
		return;
	}
	if (extent > r->lanes) {
		gen_open(g, "for (%s %s = %s; %s + %lld <= %s; %s += %lld)", g->index, c, from, c,
		    (long long)r->lanes, to, c, (long long)r->lanes);
		across_chunk(g, n, r, c, arena_printf(g->a, "%lld", (long long)r->lanes));
		gen_close(g);
		gen_forget(g, mark);
	}
	across_chunk(g, n, r, arena_printf(g->a, "%s - %lld", to, (long long)tail),
	    arena_printf(g->a, "%lld", (long long)tail));
}

static void
across_loops(struct gen *g, struct nest *n, void *self)
{
	gen_loops(g, n, 0, n->n, across_inside, self);
}

/* ---- which of the two ---- */
static bool
is_long_sum(const struct gen *g, const struct stage *s, enum prim join, int64_t depth)
{
	(void)g;
	return s->acc == DT_f32 && join == PRIM_add && depth > LONG_SUM;
}

/* Where the reduction runs along memory: lanes of which type, over which axis. */
static bool
plan_along(struct gen *g, const struct stage *s, struct reduction *r)
{
	bool is_red;

	*r = (struct reduction){.s = s, .join = reduce_joiner(s->prim), .acc = s->acc};
	r->vector = stage_vector_axis(g->p, s, &is_red);
	if (r->vector < 0) { /* nothing runs through memory: any reduction axis, one lane */
		r->vector = (int)(s->n_par + s->n_red) - 1;
		is_red = s->n_red > 0;
	}
	if (g->cuda)
		r->vector = (int)(s->n_par + s->n_red) - 1;
	else if (!is_red)
		return false;
	if (g->p->target->strict && s->n_red > 1)
		r->vector = (int)(s->n_par + s->n_red) - 1; /* row-major order */
	r->lanes = stage_lanes(g->p, s, s->axis[r->vector].extent);
	if (is_long_sum(g, s, r->join, depth_of(s, -1) / r->lanes))
		r->acc = DT_f64;
	return true;
}

void
gen_reduce(struct gen *g, const struct stage *s)
{
	struct reduction r;
	struct nest n = nest_of(g, s);

	if (g->cuda && cuda_reduce(g, s))
		return;
	if (plan_along(g, s, &r)) {
		axes_by_stride(g, s, &n, -1, false);
		gen_outer_parts(g, &n, along_loops, &r);
		return;
	}
	int64_t extent = s->axis[r.vector].extent, depth = depth_of(s, -1), bytes = depth * extent * 4;

	r.lanes = MIN_OF(extent, (int64_t)(bytes <= IN_CACHE ? ROW_OF_SUMS : ROW_MOST));
	if (is_long_sum(g, s, r.join, depth))
		r.acc = DT_f64;
	axes_by_stride(g, s, &n, r.vector, false);
	n.n--;
	gen_outer_parts(g, &n, across_loops, &r);
}

/* ---- a map and the reduction behind it ---- */
struct reads_of {
	uint32_t tensor;
	ix_id at;
	bool found, differ;
};

static void
note_at(void *self, const struct ex *read)
{
	struct reads_of *r = self;

	if (read->tensor != r->tensor)
		return;
	r->differ |= r->found && r->at != read->ix;
	r->found = true;
	r->at = read->ix;
}

/* The reduction's axis that steps through the map's result as axis a of the map does. */
static axis_id
same_axis(struct gen *g, const struct stage *map, uint32_t a, const struct stage *s, ix_id at)
{
	const struct axis *p = tx_axis_get(g->tx, map->axis[a].id);
	int64_t step, other;

	if (!ix_coef(g->tx, map->out, map->axis[a].id, &step))
		return AXIS_NONE;
	for (uint32_t k = 0; k < s->n_par + s->n_red; k++) {
		const struct axis *q = tx_axis_get(g->tx, s->axis[k].id);
		if (ix_coef(g->tx, at, s->axis[k].id, &other) && other == step && p->lo == q->lo &&
		    p->hi == q->hi && p->from == q->from && p->limit == q->limit)
			return s->axis[k].id;
	}
	return AXIS_NONE;
}

bool
gen_map_reduce(struct gen *g, const struct stage *map, const struct stage *s)
{
	struct reads_of r = {.tensor = map->tensor};
	struct reduction plan;
	struct nest n = nest_of(g, s);
	uint32_t n_axes = tx_n_axes(g->tx);
	ix_id *to = NEW_ARRAY(g->a, ix_id, n_axes);

	if (g->cuda || map->kind != STAGE_MAP || s->kind != STAGE_REDUCE || map->at_call != s->at_call ||
	    map->n_par != s->n_par + s->n_red)
		return false;
	ex_reads(g->tx, s->body, note_at, &r);
	if (!r.found || r.differ || !plan_along(g, s, &plan))
		return false;
	for (uint32_t k = 0; k < n_axes; k++)
		to[k] = IX_NONE;
	for (uint32_t k = 0; k < map->n_par; k++) {
		axis_id a = same_axis(g, map, k, s, r.at);
		if (a == AXIS_NONE)
			return false;
		to[map->axis[k].id] = ix_axis(g->tx, a);
	}
	struct tx_subst sub = {.to = to, .n = n_axes};

	if (ix_subst(g->tx, &sub, map->out) != r.at)
		return false;
	n.ex[1] = ex_subst(g->tx, &sub, map->body);
	n.ix[1] = r.at;
	plan.map = map;
	g->copies = 1;
	uint32_t mark = gen_mark(g);

	gen_open(g, "%s", "");
	axes_by_stride(g, s, &n, -1, false);
	gen_outer_parts(g, &n, along_loops, &plan);
	gen_close(g);
	gen_forget(g, mark);
	return true;
}

void
gen_stage(struct gen *g, const struct stage *s)
{
	static void (*const by_kind[])(struct gen *, const struct stage *) = {[STAGE_MAP] = gen_map,
	    [STAGE_REDUCE] = gen_reduce,
	    [STAGE_ARG] = gen_arg,
	    [STAGE_LINEAR] = gen_reduce,
	    [STAGE_SCAN] = gen_scan,
	    [STAGE_TOPK] = gen_topk,
	    [STAGE_SCATTER] = gen_scatter};

	if (s->anchor) {
		linear_stage(g, s);
		return;
	}
	g->copies = 1;
	uint32_t mark = gen_mark(g);

	gen_open(g, "%s", "");
	by_kind[s->kind](g, s);
	gen_close(g);
	gen_forget(g, mark);
}
