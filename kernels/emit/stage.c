/* kernels/emit/stage.c: the loop nests of stages that a thread goes through: maps and reductions. */
#include "gen_int.h"

#include <string.h>

enum { LONG_SUM = 512 };

static void
axes_by_stride(struct gen *g, const struct stage *s, struct nest *n, int last)
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
gen_map(struct gen *g, const struct stage *s)
{
	struct nest n = nest_of(g, s);
	bool is_red;

	axes_by_stride(g, s, &n, stage_vector_axis(g->p, s, &is_red));
	gen_par(g, &n, map_inside, NULL);
}

/* ---- reductions --------------------------------------------------------------------------------------- */
struct reduction {
	const struct stage *s;
	enum prim join;
	enum dtype acc;
	const char *name; /* of what is joined so far */
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
join_element(struct gen *g, struct nest *n, void *self)
{
	const struct reduction *r = self;
	const char *v = gen_cast(g, ex_get(g->tx, n->ex[0])->type, r->acc, gen_ex(g, n->ex[0])),
		   *arg[2] = {r->name, v};

	gen_line(g, "%s = %s;", r->name, gen_map_text(g, r->join, r->acc, r->acc, r->acc, arg));
}

static int64_t
depth_of(const struct stage *s)
{
	int64_t d = 1;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		d *= s->axis[k].extent;
	return d;
}

static void
join_inside(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	const struct stage *s = r->s;
	struct nest m = *n;
	uint32_t mark = gen_mark(g);

	r->name = arena_printf(g->a, "acc%u", g->n_loop++);
	gen_line(g, "%s %s = %s;", gen_type(g, r->acc), r->name, gen_identity(g, r->join, r->acc));
	m.n = 0;
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		m.axis[m.n++] = s->axis[k].id;
	gen_loops(g, &m, 0, m.n, join_element, r);
	gen_store(g, s->tensor, n->ix[0], gen_cast(g, r->acc, g->p->tensors[s->tensor].type, r->name));
	gen_forget(g, mark);
}

static bool
is_long_sum(const struct stage *s, enum prim join, int64_t depth)
{
	return s->acc == DT_f32 && join == PRIM_add && depth > LONG_SUM;
}

void
gen_reduce(struct gen *g, const struct stage *s)
{
	struct reduction r = {.s = s, .join = reduce_joiner(s->prim), .acc = s->acc};
	struct nest n = nest_of(g, s);

	if (cuda_reduce(g, s))
		return;
	if (is_long_sum(s, r.join, depth_of(s)))
		r.acc = DT_f64;
	axes_by_stride(g, s, &n, -1);
	gen_par(g, &n, join_inside, &r);
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

	uint32_t mark = gen_mark(g);

	gen_open(g, "%s", "");
	by_kind[s->kind](g, s);
	gen_close(g);
	gen_forget(g, mark);
}
