/* kernels/emit/cuda_team.c: what a block's threads do together: indices from a flat count, and
 * reductions of which several threads take parts. */
#include "gen_int.h"

void
cuda_digits(struct gen *g, const axis_id *axis, const int64_t *extent, uint32_t n, const char *flat)
{
	int64_t below = 1;

	for (uint32_t k = n; k-- > 0;) {
		int64_t lo = tx_axis_get(g->tx, axis[k])->lo;
		const char *name = arena_printf(g->a, "i%u", g->n_loop++), *v = flat;

		if (below > 1)
			v = arena_printf(g->a, "%s / %lld", flat, (long long)below);
		if (k > 0)
			v = arena_printf(g->a, "%s %% %lld", v, (long long)extent[k]);
		if (lo)
			v = arena_printf(g->a, "%s + %lld", v, (long long)lo);
		gen_line(g, "const %s %s = %s;", g->index, name, v);
		gen_bind(g, axis[k], name);
		below *= extent[k];
	}
}

struct team_sum {
	const struct stage *s;
	enum prim join;
	enum dtype acc;
	axis_id par[STAGE_AXES], red[STAGE_AXES];
	int64_t par_extent[STAGE_AXES], red_extent[STAGE_AXES];
	int64_t n_par, n_red; /* elements */
	int group;            /* threads that join one result */
	int at_once;          /* results of the block */
	const char *name;
};

static int
power_upto(int64_t n, int most)
{
	int p = 1;

	while (p * 2 <= n && p < most)
		p *= 2;
	return p;
}

/* The reduction axis that runs through memory goes last: neighbours read neighbours. */
static void
list_axes(struct team_sum *t, int vector)
{
	const struct stage *s = t->s;
	uint32_t n = 0;

	t->n_par = t->n_red = 1;
	for (uint32_t k = 0; k < s->n_par; k++) {
		t->par[k] = s->axis[k].id;
		t->n_par *= t->par_extent[k] = s->axis[k].extent;
	}
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++) {
		t->n_red *= s->axis[k].extent;
		if ((int)k == vector)
			continue;
		t->red[n] = s->axis[k].id;
		t->red_extent[n++] = s->axis[k].extent;
	}
	if (n < s->n_red) {
		t->red[n] = s->axis[vector].id;
		t->red_extent[n] = s->axis[vector].extent;
	}
}

static void
choose_group(struct team_sum *t, int threads, bool along)
{
	const int warps = threads / 32;

	if (t->n_par >= threads && !along)
		t->group = 1;
	else if (t->n_par >= warps || t->n_red < 64)
		t->group = power_upto(t->n_red, 32);
	else
		t->group = threads;
	t->at_once = threads / t->group;
}

const char *
cuda_shuffled(struct gen *g, enum dtype t, const char *v, const char *mask)
{
	const char *word = t == DT_f64   ? "f64"
	    : t == DT_i64 || t == DT_u64 ? "i64"
	    : dtype_is_float(t)          ? "f32"
					 : "i32";

	return arena_printf(g->a, "(%s)k_shfl_xor_%s(%s, %s)", gen_type(g, t), word, v, mask);
}

static void
join_with(struct gen *g, const struct team_sum *t, const char *v)
{
	const char *arg[2] = {t->name, v};

	gen_line(g, "%s = %s;", t->name, gen_map_text(g, t->join, t->acc, t->acc, t->acc, arg));
}

/* The threads of a group hold parts; then all hold the whole.  In the same order always. */
static void
join_group(struct gen *g, const struct team_sum *t)
{
	const int lanes = t->group < 32 ? t->group : 32, warps = t->group / 32;

	for (int h = lanes / 2; h >= 1; h /= 2) {
		/* a value of its own: a join may name it twice, or in one arm only */
		const char *other = arena_printf(g->a, "other%u", g->n_loop++);

		gen_line(g, "const %s %s = %s;", gen_type(g, t->acc), other,
		    cuda_shuffled(g, t->acc, t->name, arena_printf(g->a, "%d", h)));
		join_with(g, t, other);
	}
	if (warps < 2)
		return;
	const char *part = arena_printf(g->a, "part%u", g->n_loop++),
		   *w = arena_printf(g->a, "w%u", g->n_loop++);

	gen_line(g, "K_SHARED %s %s[%d];", gen_type(g, t->acc), part, warps);
	gen_line(g, "if (K_TID %% 32 == 0)");
	gen_line(g, "\t%s[K_TID / 32] = %s;", part, t->name);
	gen_line(g, "K_BARRIER();");
	gen_line(g, "%s = %s[0];", t->name, part);
	gen_open(g, "for (int %s = 1; %s < %d; %s++)", w, w, warps, w);
	join_with(g, t, arena_printf(g->a, "%s[%s]", part, w));
	gen_close(g);
	gen_line(g, "K_BARRIER();");
}

/* This thread's part: every group-th element. */
static void
join_part(struct gen *g, struct nest *n, const struct team_sum *t)
{
	const char *r = arena_printf(g->a, "r%u", g->n_loop++);
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (%s %s = K_TID %% %d; %s < %lld; %s += %d)", g->index, r, t->group, r,
	    (long long)t->n_red, r, t->group);
	cuda_digits(g, t->red, t->red_extent, t->s->n_red, r);
	join_with(g, t, gen_cast(g, ex_get(g->tx, n->ex[0])->type, t->acc, gen_ex(g, n->ex[0])));
	gen_close(g);
	for (uint32_t k = 0; k < t->s->n_red; k++)
		gen_bind(g, t->red[k], NULL);
	gen_forget(g, mark);
}

static void
team_sum(struct gen *g, struct nest *n, struct team_sum *t)
{
	const struct stage *s = t->s;
	enum dtype type = g->p->tensors[s->tensor].type;
	const char *at = arena_printf(g->a, "p%u", g->n_loop++), *base = arena_printf(g->a, "%s_0", at);
	bool whole = t->n_par % t->at_once == 0;

	t->name = arena_printf(g->a, "acc%u", g->n_loop++);
	gen_open(g, "for (%s %s = 0; %s < %lld; %s += %d)", g->index, base, base, (long long)t->n_par, base,
	    t->at_once);
	uint32_t mark = gen_mark(g);

	gen_line(g, "const %s %s = %s + K_TID / %d;", g->index, at, base, t->group);
	gen_line(g, "%s %s = %s;", gen_type(g, t->acc), t->name, gen_identity(g, t->join, t->acc));
	if (!whole)
		gen_open(g, "if (%s < %lld)", at, (long long)t->n_par);
	cuda_digits(g, t->par, t->par_extent, s->n_par, at);
	join_part(g, n, t);
	if (!whole)
		gen_close(g);
	gen_forget(g, mark);
	join_group(g, t);
	const char *mine = t->group > 1 ? arena_printf(g->a, "K_TID %% %d == 0", t->group) : "1";

	if (whole)
		gen_open(g, "if (%s)", mine);
	else
		gen_open(g, "if (%s && %s < %lld)", mine, at, (long long)t->n_par);
	cuda_digits(g, t->par, t->par_extent, s->n_par, at);
	gen_store(g, s->tensor, n->ix[0], gen_cast(g, t->acc, type, t->name));
	gen_close(g);
	gen_close(g);
	for (uint32_t k = 0; k < s->n_par; k++)
		gen_bind(g, t->par[k], NULL);
	gen_forget(g, mark);
}

/* No reduction axis is left: the one element, by way of the accumulator's type. */
static void
single_inside(struct gen *g, struct nest *n, void *self)
{
	const struct stage *s = self;
	enum dtype t = g->p->tensors[s->tensor].type;
	const char *v = gen_cast(g, ex_get(g->tx, n->ex[0])->type, s->acc, gen_ex(g, n->ex[0]));

	gen_store(g, s->tensor, n->ix[0], gen_cast(g, s->acc, t, v));
}

bool
cuda_reduce(struct gen *g, const struct stage *s)
{
	struct team_sum t = {.s = s, .join = reduce_joiner(s->prim), .acc = s->acc};
	struct nest n = nest_of(g, s);
	bool along;

	if (s->n_red == 0) {
		struct stage *self = NEW(g->a, struct stage);

		*self = *s;
		n.n = 0;
		for (uint32_t k = 0; k < s->n_par; k++)
			n.axis[n.n++] = s->axis[k].id;
		gen_par(g, &n, single_inside, self);
		return true;
	}
	if (!g->cuda->team || g->p->target->strict)
		return false;
	list_axes(&t, stage_vector_axis(g->p, s, &along));
	choose_group(&t, g->cuda->threads, along);
	if (t.group == 1)
		return false;
	team_sum(g, &n, &t);
	return true;
}
