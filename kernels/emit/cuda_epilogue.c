/* kernels/emit/cuda_epilogue.c: what happens to a tile's points while they are in registers: the pass's
 * maps, and where rows or columns of the result stay within a block, their sums and what is made of them.
 *
 * A phase makes all its points first, each thread its own, and joins them in registers; then lanes, then
 * warps by way of shared memory join in a fixed order, and steps with an element a row or a column follow. */
#include "cuda_int.h"

void
cuda_unbind(struct gen *g, const struct tile_axes *x)
{
	for (uint32_t k = 0; k < x->n; k++)
		gen_bind(g, x->id[k], NULL);
}

void
cuda_bind_digits(struct gen *g, const struct tile_axes *x, const char *flat)
{
	cuda_digits(g, x->id, x->extent, x->n, flat);
}

/* ---- no inner axes ---------------------------------------------------------------------------------------
 */
/* All steps of the pass at one point; the linear stage's value is `value`. */
static void
point(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];

		gen_line(g, "/* %s */", gen_stage_words(g, s));
		if (s != t->s) {
			gen_stage(g, s);
			continue;
		}
		gen_store(g, s->tensor, s->out, gen_cast(g, DT_f32, g->p->tensors[s->tensor].type, "value"));
	}
}

static void
open_inside(struct gen *g, const struct tile *t)
{
	gen_open(
	    g, "if (m < %lld && n < %lld)", (long long)t->f[0].axes.count, (long long)t->f[1].axes.count);
	cuda_bind_digits(g, &t->f[0].axes, "m");
	cuda_bind_digits(g, &t->f[1].axes, "n");
}

static void
close_inside(struct gen *g, const struct tile *t)
{
	gen_close(g);
	cuda_unbind(g, &t->f[0].axes);
	cuda_unbind(g, &t->f[1].axes);
}

void
cuda_points(struct gen *g, const struct tile_pass *tp, const struct tile *t)
{
	uint32_t mark = gen_mark(g);

	cuda_open_points(g, t);
	open_inside(g, t);
	point(g, tp, t);
	close_inside(g, t);
	cuda_close_points(g, t);
	gen_forget(g, mark);
}

/* ---- names of what steps have made ---- */
/* Elements of a level in a tile. */
static int64_t
count_of(const struct tile *t, enum tile_level l)
{
	return (l & LEVEL_ROW ? t->edge[0] : 1) * (l & LEVEL_COLUMN ? t->edge[1] : 1);
}

static int64_t
slots_of(const struct tile *t, enum tile_level l)
{
	return (l & LEVEL_ROW ? t->per[0] * t->layout->slots[0] : 1) *
	    (l & LEVEL_COLUMN ? t->per[1] * t->layout->slots[1] : 1);
}

static const char *
type_of(const struct gen *g, const struct tile_step *s)
{
	return gen_type(g, g->p->tensors[s->s->tensor].type);
}

/* The value of a lower level, in shared memory; of an earlier phase's point, in a register. */
static const char *
kept_text(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	if (s->s == t->s)
		return gen_cast(g, DT_f32, g->p->tensors[s->s->tensor].type, "value");
	if (s->level == LEVEL_POINT)
		return arena_printf(g->a, t->layout->points > 1 ? "p%u[i][j][c]" : "p%u[i][j]", s->s->tensor);
	return arena_printf(g->a, "r%u[%s]", s->s->tensor,
	    s->level == LEVEL_ROW          ? "m - m0"
		: s->level == LEVEL_COLUMN ? "n - n0"
					   : "0");
}

static bool
is_carried(const struct gen *g, const struct tile_step *s)
{
	return g->p->tensors[s->s->tensor].carried;
}

/* Points of this phase are named where they are made, but for what the turn before has left. */
static void
name_made(struct gen *g, const struct tile *t, uint32_t phase, bool points)
{
	for (uint32_t i = 0; t->turns && t->before && i < t->before->n_steps; i++) {
		const struct tile_step *s = &t->before->step[i];

		if (s->is_read && s->level == LEVEL_ROW)
			gen_name_read(g, g->p->tensors[s->s->tensor].type, s->s->tensor, s->out,
			    kept_text(g, t->before, s));
	}
	for (uint32_t i = 0; i < t->n_steps; i++) {
		const struct tile_step *s = &t->step[i];
		const bool is_point = s->level == LEVEL_POINT;

		if (s->is_read &&
		    (is_point ? points && (s->phase < phase || s->s == t->s || is_carried(g, s))
			      : s->phase < phase + !points))
			gen_name_read(
			    g, g->p->tensors[s->s->tensor].type, s->s->tensor, s->out, kept_text(g, t, s));
	}
}

/* Where somebody outside the pass sees it. */
static void
store_out(struct gen *g, const struct tile_step *s, const char *v)
{
	if (g->p->tensors[s->s->tensor].at != AT_LOCAL)
		gen_store(g, s->s->tensor, s->out, v);
}

/* ---- points ---- */
static const char *
joined_name(struct gen *g, const struct tile_step *s)
{
	return arena_printf(g->a, "j%u", s->s->tensor);
}

/* Which of the thread's partial results the point belongs to. */
static const char *
slot_text(struct gen *g, const struct tile *t, enum tile_level l)
{
	const struct tile_layout *x = t->layout;

	if (l == LEVEL_TILE)
		return "0";
	const int i = l == LEVEL_COLUMN;

	if (x->slots[i] == 1)
		return i ? "j" : "i";
	return arena_printf(g->a, "%d * %c + %s", x->slots[i], letter("ij", i), x->slot[i]);
}

static void
join_into(struct gen *g, const struct tile_step *s, const char *cell, const char *v)
{
	const char *arg[2] = {cell, v};

	gen_line(g, "%s = %s;", cell,
	    gen_map_text(g, reduce_joiner(s->s->prim), s->s->acc, s->s->acc, s->s->acc, arg));
}

static void
point_step(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	gen_line(g, "/* %s */", gen_stage_words(g, s->s));
	if (s->s == t->s) {
		store_out(g, s, kept_text(g, t, s));
		return;
	}
	const char *v = gen_ex(g, s->body);
	enum dtype type = ex_get(g->tx, s->body)->type;

	if (s->joins) {
		join_into(g, s, arena_printf(g->a, "%s[%s]", joined_name(g, s), slot_text(g, t, s->level)),
		    gen_cast(g, type, s->s->acc, v));
		return;
	}
	store_out(g, s, v);
	if (!s->is_read)
		return;
	if (t->n_phases > 1 || is_carried(g, s))
		gen_line(g, "%s = %s;", kept_text(g, t, s), v);
	gen_name_read(g, type, s->s->tensor, s->out, v);
}

static bool
has_points(const struct tile *t, uint32_t phase)
{
	if (t->next && t->hand_phase == phase)
		return true;
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].phase == phase && (t->step[i].joins || t->step[i].level == LEVEL_POINT))
			return true;
	return false;
}

static void
phase_points(struct gen *g, const struct tile *t, uint32_t phase)
{
	uint32_t mark = gen_mark(g);

	const bool hands = t->next && t->hand_phase == phase;

	if (!has_points(t, phase))
		return;
	cuda_open_points(g, t);
	if (hands) /* outside of the tile's rows and columns: zero */
		gen_line(g, "float handed = 0.0f;");
	open_inside(g, t);
	name_made(g, t, phase, true);
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].phase == phase && (t->step[i].joins || t->step[i].level == LEVEL_POINT))
			point_step(g, t, &t->step[i]);
	if (hands)
		gen_line(g, "handed = %s;", gen_ex(g, t->hand));
	close_inside(g, t);
	if (hands)
		gen_line(g, "hand[n - n0][m - m0] = handed;");
	cuda_close_points(g, t);
	gen_forget(g, mark);
}

/* ---- joins
 * ------------------------------------------------------------------------------------------------------------
 */
static int
groups_of(const struct tile *t, enum tile_level l)
{
	return l == LEVEL_TILE ? TILE_THREADS / 32 : t->layout->groups[l == LEVEL_ROW];
}

/* Lanes that hold parts of the same result. */
static void
join_lanes(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	static const int whole[] = {16, 8, 4, 2, 1, 0};
	const int *mask = s->level == LEVEL_TILE ? whole : t->layout->mask[s->level == LEVEL_ROW];
	const char *cell = arena_printf(g->a, "%s[h]", joined_name(g, s));

	cuda_loop(g, 'h', slots_of(t, s->level));
	for (; *mask; mask++) {
		const char *other = arena_printf(g->a, "other%u", g->n_loop++);

		gen_line(g, "const %s %s = %s;", gen_type(g, s->s->acc), other,
		    cuda_shuffled(g, s->s->acc, cell, arena_printf(g->a, "%d", *mask)));
		join_into(g, s, cell, other);
	}
	gen_close(g);
}

/* One lane of a warp leaves the warp's part in fold[warp][result]. */
static void
leave_parts(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	const struct tile_layout *x = t->layout;
	const int i = s->level == LEVEL_COLUMN;

	if (s->level == LEVEL_TILE) {
		gen_line(g, "if (K_TID %% 32 == 0)");
		gen_line(g, "\tf%u[K_TID / 32][0] = %s[0];", s->s->tensor, joined_name(g, s));
		return;
	}
	gen_open(g, "if (%s)", x->leader[s->level == LEVEL_ROW]);
	cuda_loop(g, letter("ij", i), t->per[i]);
	for (int h = 0; h < x->slots[i]; h++)
		gen_line(g, "f%u[%s][%s + %d] = %s[%d * %c + %d];", s->s->tensor,
		    x->group[s->level == LEVEL_ROW], x->at[i], h % 2 * x->step[i][0] + h / 2 * x->step[i][1],
		    joined_name(g, s), x->slots[i], letter("ij", i), h);
	gen_close(g);
	gen_close(g);
}

/* A thread an element of the step's level, where it is inside: `e` is its number in the tile. */
static void
open_elements(struct gen *g, const struct tile *t, enum tile_level l)
{
	gen_line(g, "const int e = K_TID;");
	if (l == LEVEL_ROW) {
		gen_line(g, "const int m = m0 + e;");
		gen_open(
		    g, "if (e < %lld && m < %lld)", (long long)t->edge[0], (long long)t->f[0].axes.count);
		cuda_bind_digits(g, &t->f[0].axes, "m");
	} else if (l == LEVEL_COLUMN) {
		gen_line(g, "const int n = n0 + e;");
		gen_open(
		    g, "if (e < %lld && n < %lld)", (long long)t->edge[1], (long long)t->f[1].axes.count);
		cuda_bind_digits(g, &t->f[1].axes, "n");
	} else {
		gen_open(g, "if (e == 0)");
	}
}

static void
close_elements(struct gen *g, const struct tile *t, enum tile_level l)
{
	gen_close(g);
	if (l == LEVEL_ROW)
		cuda_unbind(g, &t->f[0].axes);
	if (l == LEVEL_COLUMN)
		cuda_unbind(g, &t->f[1].axes);
}

static void
finish_element(struct gen *g, const struct tile_step *s, const char *v)
{
	store_out(g, s, v);
	if (s->is_read)
		gen_line(g, "r%u[e] = %s;", s->s->tensor, v);
}

static void
join(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	uint32_t mark = gen_mark(g);

	gen_line(g, "/* %s: lanes, then warps */", gen_stage_words(g, s->s));
	join_lanes(g, t, s);
	leave_parts(g, t, s);
	gen_line(g, "K_BARRIER();");
	gen_open(g, "%s", "");
	open_elements(g, t, s->level);
	gen_line(g, "%s all = f%u[0][e];", gen_type(g, s->s->acc), s->s->tensor);
	for (int w = 1; w < groups_of(t, s->level); w++)
		join_into(g, s, "all", arena_printf(g->a, "f%u[%d][e]", s->s->tensor, w));
	finish_element(g, s, gen_cast(g, s->s->acc, g->p->tensors[s->s->tensor].type, "all"));
	close_elements(g, t, s->level);
	gen_close(g);
	if (s->is_read)
		gen_line(g, "K_BARRIER();");
	gen_forget(g, mark);
}

static void
lower_step(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	uint32_t mark = gen_mark(g);

	gen_line(g, "/* %s */", gen_stage_words(g, s->s));
	gen_open(g, "%s", "");
	open_elements(g, t, s->level);
	name_made(g, t, s->phase, false);
	finish_element(g, s, gen_ex(g, s->body));
	close_elements(g, t, s->level);
	gen_close(g);
	if (s->is_read)
		gen_line(g, "K_BARRIER();");
	gen_forget(g, mark);
}

static void
phase_lower(struct gen *g, const struct tile *t, uint32_t phase)
{
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].phase == phase && t->step[i].joins)
			join(g, t, &t->step[i]);
	for (uint32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].phase == phase && !t->step[i].joins && t->step[i].level != LEVEL_POINT)
			lower_step(g, t, &t->step[i]);
}

/* ---- a block's tiles ---- */
void
cuda_steps_shared(struct gen *g, const struct tile *t)
{
	for (uint32_t i = 0; i < t->n_steps; i++) {
		const struct tile_step *s = &t->step[i];

		if (s->joins)
			gen_line(g, "K_SHARED %s f%u[%d][%lld];", gen_type(g, s->s->acc), s->s->tensor,
			    groups_of(t, s->level), (long long)count_of(t, s->level));
		if (s->is_read && s->level != LEVEL_POINT)
			gen_line(g, "K_SHARED %s r%u[%lld];", type_of(g, s), s->s->tensor,
			    (long long)count_of(t, s->level));
	}
}

size_t
cuda_steps_bytes(const struct gen *g, const struct tile *t)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < t->n_steps; i++) {
		const struct tile_step *s = &t->step[i];
		const size_t n = (size_t)count_of(t, s->level);

		if (s->joins)
			bytes += n * (size_t)groups_of(t, s->level) * dtype_size(s->s->acc);
		if (s->is_read && s->level != LEVEL_POINT)
			bytes += n * MAX_OF(dtype_size(g->p->tensors[s->s->tensor].type), (size_t)4);
	}
	return bytes;
}

/* Registers for points. */
static void
declare_points(struct gen *g, const struct tile *t, const struct tile_step *s)
{
	const struct tile_layout *l = t->layout;

	gen_line(g, l->points > 1 ? "%s p%u[%lld][%lld][%d];" : "%s p%u[%lld][%lld];", type_of(g, s),
	    s->s->tensor, (long long)t->per[0], (long long)t->per[1], l->points);
}

void
cuda_steps_begin(struct gen *g, const struct tile *t, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < t->n_steps; i++) {
		const struct tile_step *s = &t->step[i];

		if (s->phase < from || s->phase >= to)
			continue;
		if (s->joins) {
			gen_line(g, "%s %s[%lld];", gen_type(g, s->s->acc), joined_name(g, s),
			    (long long)slots_of(t, s->level));
			cuda_loop(g, 'h', slots_of(t, s->level));
			gen_line(g, "%s[h] = %s;", joined_name(g, s),
			    gen_identity(g, reduce_joiner(s->s->prim), s->s->acc));
			gen_close(g);
		} else if (s->is_read && s->level == LEVEL_POINT && s->s != t->s && t->n_phases > 1 &&
		    !is_carried(g, s)) {
			declare_points(g, t, s);
		}
	}
}

static void
first_points(struct gen *g, const struct tile *t, const struct tile_step *s, const char *first)
{
	const int points = t->layout->points;

	declare_points(g, t, s);
	cuda_loop(g, 'i', t->per[0]);
	cuda_loop(g, 'j', t->per[1]);
	if (points > 1)
		cuda_loop(g, 'c', points);
	gen_line(g, "%s = %s;", kept_text(g, t, s), first);
	for (int i = points > 1 ? 3 : 2; i > 0; i--)
		gen_close(g);
}

void
cuda_steps_carry(struct gen *g, const struct tile *t)
{
	for (uint32_t i = 0; i < t->n_steps; i++) {
		const struct tile_step *s = &t->step[i];
		const struct tile_tensor *x = &g->p->tensors[s->s->tensor];
		const struct ex value = {.kind = EX_CONST, .type = x->type, .real = x->first};
		const char *first = gen_const(g, &value);

		if (!x->carried)
			continue;
		if (s->level == LEVEL_POINT) {
			first_points(g, t, s, first);
			continue;
		}
		gen_line(g, "if (K_TID < %lld)", (long long)count_of(t, s->level));
		gen_line(g, "\tr%u[K_TID] = %s;", s->s->tensor, first);
	}
}

void
cuda_steps_tile(struct gen *g, const struct tile *t)
{
	phase_points(g, t, 0);
}

void
cuda_steps_end(struct gen *g, const struct tile *t, uint32_t from, uint32_t to)
{
	for (uint32_t p = from; p < to; p++) {
		if (p > 0)
			phase_points(g, t, p);
		phase_lower(g, t, p);
	}
}
