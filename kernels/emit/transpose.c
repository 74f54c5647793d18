/* kernels/emit/transpose.c: a map that writes along one axis what it reads along another.  It moves
 * in square blocks: a block of each such operand is turned in scratch, then the map runs over it
 * with both sides contiguous. */
#include "gen_int.h"

enum { TILE = 16, MOST_TURNED = 4, LEAST_EXTENT = 8 };

struct turn {
	const struct stage *s;
	axis_id v, w; /* contiguous in the result; in the operands */
	struct ex read[MOST_TURNED];
	ix_id at[MOST_TURNED];
	uint32_t n;
	int64_t t;      /* edge of a block */
	axis_id v0, w0; /* where the block starts */
	bool fits;
	const struct tx *x;
};

/* ---- which operands ------------------------------------------------------------------------------ */
static void
find_axis(void *self, const struct ex *read)
{
	struct turn *t = self;
	int64_t along, across;

	for (uint32_t k = 0; k < t->s->n_par && t->w == AXIS_NONE; k++) {
		axis_id a = t->s->axis[k].id;

		if (a == t->v || t->s->axis[k].extent < LEAST_EXTENT)
			continue;
		if (ix_coef(t->x, read->ix, a, &along) && along == 1 &&
		    ix_coef(t->x, read->ix, t->v, &across) && across > 1)
			t->w = a;
	}
}

static void
take_read(void *self, const struct ex *read)
{
	struct turn *t = self;
	int64_t along, across;

	if (!ix_coef(t->x, read->ix, t->w, &along) || !ix_coef(t->x, read->ix, t->v, &across)) {
		t->fits = false;
		return;
	}
	if (along != 1 || across <= 1)
		return;
	if (t->n == MOST_TURNED) {
		t->fits = false;
		return;
	}
	t->at[t->n] = read->ix;
	t->read[t->n++] = *read;
}

static bool
has_guard(const struct tx *x, ex_id e)
{
	const struct ex *n = ex_get(x, e);

	if (n->kind == EX_GUARD)
		return true;
	for (uint32_t k = 0; k < n->n_arg; k++)
		if (has_guard(x, n->arg[k]))
			return true;
	return false;
}

static bool
plan(struct gen *g, const struct stage *s, struct turn *t)
{
	int64_t coef;

	*t = (struct turn){.s = s, .v = AXIS_NONE, .w = AXIS_NONE, .fits = true, .x = g->tx};
	t->t = sched_get(g->p->sched, KNOB_tile, TILE) / 8 * 8;
	if (t->t == 0 || g->p->target->is_cuda || ex_get(g->tx, s->body)->size > 200 ||
	    has_guard(g->tx, s->body))
		return false;
	for (uint32_t k = 0; k < s->n_par; k++)
		if (ix_coef(g->tx, s->out, s->axis[k].id, &coef) && coef == 1 &&
		    s->axis[k].extent >= LEAST_EXTENT)
			t->v = s->axis[k].id;
	if (t->v == AXIS_NONE)
		return false;
	ex_reads(g->tx, s->body, find_axis, t);
	if (t->w == AXIS_NONE)
		return false;
	ex_reads(g->tx, s->body, take_read, t);
	return t->fits && t->n > 0;
}

/* ---- text ---------------------------------------------------------------------------------------------- */
static ix_id
place(struct gen *g, const struct turn *t)
{
	struct tx *x = g->tx;
	ix_id v = ix_add(x, ix_axis(x, t->v), ix_mulc(x, ix_axis(x, t->v0), -1));
	ix_id w = ix_add(x, ix_axis(x, t->w), ix_mulc(x, ix_axis(x, t->w0), -1));

	return ix_add(x, ix_mulc(x, w, t->t), v);
}

static const char *
element(struct gen *g, const struct turn *t, uint32_t k, const char *v, const char *w)
{
	gen_bind(g, t->v, v);
	gen_bind(g, t->w, w);
	ex_id e = ex_read(g->tx, t->read[k].type, t->read[k].tensor, t->at[k]);
	uint32_t mark = gen_mark(g);
	const char *text = gen_ex(g, e);

	gen_forget(g, mark);
	return text;
}

/* Block k, turned: tile[w][v] = operand[v][w]. */
static void
load_block(struct gen *g, const struct turn *t, uint32_t k, const char *nv, const char *nw)
{
	const char *tile = g->scratch[k], *v = arena_printf(g->a, "i%u", g->n_loop++);
	const char *w = arena_printf(g->a, "i%u", g->n_loop++), *v0 = g->axis_name[t->v0],
		   *w0 = g->axis_name[t->w0];
	int64_t across = 0;

	if (!ix_coef(g->tx, t->at[k], t->v, &across))
		bug("a turned operand's index is not affine");
	if (dtype_size(t->read[k].type) == 4 && t->read[k].type != DT_bool) {
		gen_open(g, "if (%s == %lld && %s == %lld)", nv, (long long)t->t, nw, (long long)t->t);
		gen_bind(g, t->v, v0);
		gen_bind(g, t->w, w0);
		gen_line(g, "k_turn(&%s[%s], %lld, %s, %lld);", gen_tensor(g, t->read[k].tensor),
		    gen_ix(g, t->at[k]), (long long)across, tile, (long long)t->t);
		g->depth--;
		gen_open(g, "} else");
	} else {
		gen_open(g, "%s", "");
	}
	gen_open(g, "for (k_i64 %s = %s; %s < %s + %s; %s++)", v, v0, v, v0, nv, v);
	gen_open(g, "for (k_i64 %s = %s; %s < %s + %s; %s++)", w, w0, w, w0, nw, w);
	const char *text = element(g, t, k, v, w);
	gen_line(g, "%s[%lld*(%s - %s) + %s - %s] = %s;", tile, (long long)t->t, w, w0, v, v0, text);
	gen_close(g);
	gen_close(g);
	gen_close(g);
	gen_bind(g, t->v, NULL);
	gen_bind(g, t->w, NULL);
}

struct replace {
	struct turn *t;
	ix_id place;
};

static ex_id
by_tile(void *self, struct tx *x, const struct ex *read, ix_id at)
{
	struct replace *r = self;

	for (uint32_t k = 0; k < r->t->n; k++)
		if (r->t->read[k].tensor == read->tensor && r->t->at[k] == at)
			return ex_scratch(x, read->type, k, r->place);
	return ex_read(x, read->type, read->tensor, at);
}

static void
map_block(struct gen *g, struct turn *t, const struct nest *n, const char *nv, const char *nw)
{
	const char *v = arena_printf(g->a, "i%u", g->n_loop++), *w = arena_printf(g->a, "i%u", g->n_loop++);
	const char *v0 = g->axis_name[t->v0], *w0 = g->axis_name[t->w0];
	struct replace r = {t, place(g, t)};
	ex_id e = ex_subst(g->tx, &(struct tx_subst){.read = by_tile, .self = &r}, n->ex[0]);
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (k_i64 %s = %s; %s < %s + %s; %s++)", w, w0, w, w0, nw, w);
	gen_bind(g, t->w, w);
	gen_hoist(g, e);
	gen_independent(g, t->s->tensor);
	gen_open(g, "for (k_i64 %s = %s; %s < %s + %s; %s++)", v, v0, v, v0, nv, v);
	gen_bind(g, t->v, v);
	gen_store(g, t->s->tensor, n->ix[0], gen_ex(g, e));
	gen_close(g);
	gen_close(g);
	gen_bind(g, t->v, NULL);
	gen_bind(g, t->w, NULL);
	gen_forget(g, mark);
}

static void
blocks_inside(struct gen *g, struct nest *n, void *self)
{
	struct turn *t = self;
	uint32_t mark = gen_mark(g);
	const char *w0 = arena_printf(g->a, "c%u", g->n_loop++), *v0 = arena_printf(g->a, "c%u", g->n_loop++);
	const char *nw = arena_printf(g->a, "%s_n", w0), *nv = arena_printf(g->a, "%s_n", v0);
	const char *w_to = loop_to(g, t->w), *v_to = loop_to(g, t->v);
	long long edge = (long long)t->t;

	gen_open(g, "for (k_i64 %s = %s; %s < %s; %s += %lld)", w0, loop_from(g, t->w), w0, w_to, w0, edge);
	gen_line(g, "const k_i64 %s = k_least(%lld, %s - %s);", nw, edge, w_to, w0);
	gen_open(g, "for (k_i64 %s = %s; %s < %s; %s += %lld)", v0, loop_from(g, t->v), v0, v_to, v0, edge);
	gen_line(g, "const k_i64 %s = k_least(%lld, %s - %s);", nv, edge, v_to, v0);
	gen_bind(g, t->w0, w0);
	gen_bind(g, t->v0, v0);
	for (uint32_t k = 0; k < t->n; k++) {
		g->scratch[k] = arena_printf(g->a, "turned%u", g->n_loop++);
		gen_line(g, "%s %s[%lld];", gen_type(g, t->read[k].type), g->scratch[k], edge * edge);
		load_block(g, t, k, nv, nw);
	}
	map_block(g, t, n, nv, nw);
	gen_close(g);
	gen_close(g);
	gen_bind(g, t->w0, NULL);
	gen_bind(g, t->v0, NULL);
	gen_forget(g, mark);
}

static void
blocks(struct gen *g, struct nest *n, void *self)
{
	gen_loops(g, n, 0, n->n, blocks_inside, self);
}

bool
gen_transposed(struct gen *g, const struct stage *s)
{
	struct turn t;
	struct nest n = nest_of(g, s);

	if (!plan(g, s, &t))
		return false;
	t.v0 = tx_axis(g->tx, AXIS_PAR, 0, tx_axis_get(g->tx, t.v)->hi, IX_NONE);
	t.w0 = tx_axis(g->tx, AXIS_PAR, 0, tx_axis_get(g->tx, t.w)->hi, IX_NONE);
	n.n = 0;
	for (uint32_t k = 0; k < s->n_par; k++)
		if (s->axis[k].id != t.v && s->axis[k].id != t.w)
			n.axis[n.n++] = s->axis[k].id;
	blocks(g, &n, &t);
	return true;
}
