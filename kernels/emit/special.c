/* kernels/emit/special.c: stages that are no map and no sum: positions of extremes, running sums,
 * the k largest, scatter.  Plain loops. */
#include "gen_int.h"

struct plain {
	const struct stage *s;
	const char *best, *at;
};

static void
par_nest(const struct stage *s, struct nest *n)
{
	n->n = 0;
	for (uint32_t k = 0; k < s->n_par; k++)
		n->axis[n->n++] = s->axis[k].id;
}

static void
red_nest(const struct stage *s, struct nest *n)
{
	n->n = 0;
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		n->axis[n->n++] = s->axis[k].id;
}

/* The text of "v comes before u" for extremes; a NaN is the extreme of either kind for positions,
 * the largest number for the k largest. */
static const char *
before_text(struct gen *g, enum dtype t, bool largest, bool nan_first, const char *v, const char *u)
{
	const char *op = largest ? ">" : "<";

	if (!dtype_is_float(t))
		return arena_printf(g->a, "%s %s %s", v, op, u);
	if (nan_first)
		return arena_printf(g->a, "%s %s %s || (%s != %s && %s == %s)", v, op, u, v, v, u, u);
	return arena_printf(g->a, "%s %s %s || (%s != %s && %s == %s)", v, op, u, u, u, v, v);
}

/* ---- positions -------------------------------------------------------------------------------------- */
static void
arg_step(struct gen *g, struct nest *n, void *self)
{
	struct plain *p = self;
	const struct stage *s = p->s;
	enum dtype t = ex_get(g->tx, n->ex[0])->type;
	const char *v = gen_ex(g, n->ex[0]);
	const char *cond = before_text(g, t, s->prim == PRIM_argmax, true, v, p->best);

	if (at_get(s->at, ATTR_last))
		cond = arena_printf(g->a, "%s || %s == %s", cond, v, p->best);
	ix_id k = s->n_red ? ix_axis(g->tx, n->axis[0]) : ix_const(g->tx, 0);
	const char *at = gen_ix(g, k);

	gen_open(g, "if (%s < 0 || %s)", p->at, cond);
	gen_line(g, "%s = %s;", p->best, v);
	gen_line(g, "%s = %s;", p->at, at);
	gen_close(g);
}

static void
arg_inside(struct gen *g, struct nest *n, void *self)
{
	struct plain *p = self;
	struct nest m = *n;
	uint32_t mark = gen_mark(g);

	p->best = arena_printf(g->a, "best%u", g->n_loop++);
	p->at = arena_printf(g->a, "at%u", g->n_loop++);
	gen_line(g, "%s %s = 0;", gen_type(g, ex_get(g->tx, n->ex[0])->type), p->best);
	gen_line(g, "k_i64 %s = -1;", p->at);
	red_nest(p->s, &m);
	gen_loops(g, &m, 0, m.n, arg_step, p);
	gen_store(g, p->s->tensor, n->ix[0], p->at);
	gen_forget(g, mark);
}

static void
arg_loops(struct gen *g, struct nest *n, void *self)
{
	gen_par(g, n, arg_inside, self);
}

void
gen_arg(struct gen *g, const struct stage *s)
{
	struct plain p = {.s = s};
	struct nest n = nest_of(g, s);

	par_nest(s, &n);
	arg_loops(g, &n, &p);
}

/* ---- running sums ------------------------------------------------------------------------------------ */
static void
scan_inside(struct gen *g, struct nest *n, void *self)
{
	struct plain *p = self;
	const struct stage *s = p->s;
	enum dtype t = g->p->tensors[s->tensor].type;
	bool reverse = at_get(s->at, ATTR_reverse), exclusive = at_get(s->at, ATTR_exclusive);
	const char *sum = arena_printf(g->a, "sum%u", g->n_loop++),
		   *k = arena_printf(g->a, "i%u", g->n_loop++);
	int64_t extent = s->n_red ? s->axis[s->n_par].extent : 1;
	uint32_t mark = gen_mark(g);

	gen_line(g, "%s %s = 0;", gen_type(g, s->acc), sum);
	gen_open(g, "for (%s %s_n = 0; %s_n < %lld; %s_n++)", g->index, k, k, (long long)extent, k);
	if (reverse)
		gen_line(g, "const %s %s = %lld - %s_n;", g->index, k, (long long)extent - 1, k);
	else
		gen_line(g, "const %s %s = %s_n;", g->index, k, k);
	if (s->n_red)
		gen_bind(g, s->axis[s->n_par].id, k);
	const char *v = gen_ex(g, n->ex[0]), *arg[1] = {sum};
	const char *out = s->acc == t ? sum : gen_map_text(g, PRIM_cast, t, s->acc, s->acc, arg);

	if (exclusive)
		gen_store(g, s->tensor, n->ix[0], out);
	gen_line(g, "%s += %s;", sum, v);
	if (!exclusive)
		gen_store(g, s->tensor, n->ix[0], out);
	if (s->n_red)
		gen_bind(g, s->axis[s->n_par].id, NULL);
	gen_close(g);
	gen_forget(g, mark);
}

static void
scan_loops(struct gen *g, struct nest *n, void *self)
{
	gen_par(g, n, scan_inside, self);
}

void
gen_scan(struct gen *g, const struct stage *s)
{
	struct plain p = {.s = s};
	struct nest n = nest_of(g, s);

	par_nest(s, &n);
	scan_loops(g, &n, &p);
}

/* ---- the k largest ------------------------------------------------------------------------------------- */
static const char *
load_text(struct gen *g, enum dtype t, const char *array, const char *at)
{
	if (t == DT_f16 || t == DT_bf16)
		return arena_printf(g->a, "k_load_%s(%s[%s])", dtype_name(t), array, at);
	return arena_printf(g->a, "%s[%s]", array, at);
}

/* Place i of the sorted list lies at base + i * stride; elements behind a better one move on. */
static void
topk_insert(struct gen *g, const struct stage *s, enum dtype t, const char *v, const char *i)
{
	const char *values = gen_tensor(g, s->tensor), *places = gen_tensor(g, s->tensor2);
	const char *last = arena_printf(g->a, "base + (to - 1) * %lld", (long long)s->k_stride);
	const char *u = load_text(g, t, values, last);
	const char *store =
	    t == DT_f16 || t == DT_bf16 ? arena_printf(g->a, "k_store_%s(%s)", dtype_name(t), v) : v;

	gen_line(g, "k_i64 to = n_in < %lld ? n_in : %lld;", (long long)s->k, (long long)s->k);
	gen_open(g, "while (to > 0)");
	gen_line(g, "const %s u = %s;", gen_type(g, t), u);
	gen_open(g, "if (!(%s))",
	    before_text(g, t, at_get(s->at, ATTR_largest), at_get(s->at, ATTR_largest), v, "u"));
	gen_line(g, "break;");
	gen_close(g);
	gen_open(g, "if (to < %lld)", (long long)s->k);
	gen_line(g, "%s[base + to * %lld] = %s[%s];", values, (long long)s->k_stride, values, last);
	gen_line(g, "%s[base + to * %lld] = %s[%s];", places, (long long)s->k_stride, places, last);
	gen_close(g);
	gen_line(g, "to--;");
	gen_close(g);
	gen_open(g, "if (to < %lld)", (long long)s->k);
	gen_line(g, "%s[base + to * %lld] = %s;", values, (long long)s->k_stride, store);
	gen_line(g, "%s[base + to * %lld] = %s;", places, (long long)s->k_stride, i);
	gen_close(g);
	gen_line(g, "n_in++;");
}

static void
topk_step(struct gen *g, struct nest *n, void *self)
{
	struct plain *p = self;
	enum dtype t = ex_get(g->tx, n->ex[0])->type;
	const char *v = gen_ex(g, n->ex[0]);
	const char *i = p->s->n_red ? gen_ix(g, ix_axis(g->tx, n->axis[0])) : "0";

	topk_insert(g, p->s, t, v, i);
}

static void
topk_inside(struct gen *g, struct nest *n, void *self)
{
	struct plain *p = self;
	struct nest m = *n;
	uint32_t mark = gen_mark(g);

	gen_line(g, "const %s base = %s;", g->index, gen_ix(g, n->ix[0]));
	gen_line(g, "k_i64 n_in = 0;");
	red_nest(p->s, &m);
	if (m.n == 0)
		gen_open(g, "%s", "");
	gen_loops(g, &m, 0, m.n, topk_step, p);
	if (m.n == 0)
		gen_close(g);
	gen_forget(g, mark);
}

static void
topk_loops(struct gen *g, struct nest *n, void *self)
{
	gen_par(g, n, topk_inside, self);
}

void
gen_topk(struct gen *g, const struct stage *s)
{
	struct plain p = {.s = s};
	struct nest n = nest_of(g, s);

	par_nest(s, &n);
	topk_loops(g, &n, &p);
}

/* ---- scatter ---------------------------------------------------------------------------------------------
 */
static void
scatter_update(struct gen *g, struct nest *n, void *self)
{
	static const enum prim join[] = {PRIM_COUNT, PRIM_add, PRIM_mul, PRIM_max, PRIM_min};
	struct plain *p = self;
	enum dtype t = g->p->tensors[p->s->tensor].type;
	enum prim by = join[at_get(p->s->at, ATTR_mode)];
	const char *v = gen_ex(g, n->ex[0]), *at = gen_ix(g, n->ix[0]), *array = gen_tensor(g, p->s->tensor);

	if (by != PRIM_COUNT) {
		const char *arg[2] = {load_text(g, t, array, at), v};
		v = gen_map_text(g, by, t, t, t, arg);
	}
	gen_store(g, p->s->tensor, n->ix[0], v);
}

static void
scatter_copy(struct gen *g, struct nest *n, void *self)
{
	(void)self;
	gen_store(g, n->s->tensor, n->ix[0], gen_ex(g, n->ex[0]));
}

void
gen_scatter(struct gen *g, const struct stage *s)
{
	struct plain p = {.s = s};
	struct nest n = nest_of(g, s);

	n.ex[0] = s->init;
	n.ix[0] = ix_axis(g->tx, s->init_axis);
	n.axis[0] = s->init_axis;
	n.n = 1;
	gen_par(g, &n, scatter_copy, &p);
	if (s->n_update == 0)
		return;
	if (g->cuda) { /* updates run in order: on one thread */
		gen_line(g, "K_BARRIER();");
		gen_open(g, "if (K_TID == 0)");
	}
	n = nest_of(g, s);
	n.ix[0] = s->target;
	red_nest(s, &n);
	gen_loops(g, &n, 0, n.n, scatter_update, &p);
	if (g->cuda)
		gen_close(g);
}
