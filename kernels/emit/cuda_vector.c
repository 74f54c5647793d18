/* kernels/emit/cuda_vector.c: a thread of a pointwise pass takes several neighbours along memory at once, and
 * moves what lies side by side in words of up to 16 bytes.
 *
 * The pass's last axis a becomes V q + u.  An array is moved in words where its index, so divided, is u and a
 * multiple of V, for certain: neighbours lie side by side and the first of them at a whole word.  Arrays
 * themselves begin at multiples of 16 bytes; one that does not end at a whole word is left alone, so that
 * nothing hangs on what lies behind it.  All other reads stay as they are, one for each neighbour. */
#include "gen_int.h"

enum { WORD = 16, MOST_MOVES = 32 };

struct cuda_move {
	uint32_t tensor;
	ix_id at; /* the first neighbour's place when the axis is at that */
	enum dtype type;
	const char *name;
};
struct cuda_vector {
	struct gen *g;
	const struct array_use *use;
	axis_id axis; /* the pass's last */
	int64_t n;
	ix_id divided;  /* V q + u */
	axis_id within; /* u */
	struct cuda_move load[MOST_MOVES], store[MOST_MOVES];
	uint32_t n_load, n_store;
};

/* ---- what may be moved ------------------------------------------------------------------------- */
static bool
is_multiple(const struct tx *x, const struct ix *i, axis_id but, int64_t by)
{
	for (uint32_t k = 0; i->kind == IX_LIN && k < i->n_terms; k++) {
		axis_id a;

		if (!(ix_is_axis(x, i->terms[k].atom, &a) && a == but) && i->terms[k].coef % by)
			return false;
	}
	return i->kind == IX_LIN ? i->c % by == 0 : i->kind == IX_AXIS && i->a == but;
}

/* A multiple of V, and u. */
static bool
is_side_by_side(struct cuda_vector *v, ix_id at)
{
	struct tx *x = v->g->tx;
	ix_id *to = NEW_ARRAY(v->g->a, ix_id, v->axis + 1);
	int64_t coef;

	for (axis_id a = 0; a < v->axis; a++)
		to[a] = IX_NONE;
	to[v->axis] = v->divided;
	at = ix_subst(x, &(struct tx_subst){.to = to, .n = v->axis + 1}, at);
	return ix_coef(x, at, v->within, &coef) && coef == 1 &&
	    is_multiple(x, ix_get(x, at), v->within, v->n);
}

static bool
may_move(struct cuda_vector *v, uint32_t tensor, ix_id at)
{
	const struct tile_tensor *t = &v->g->p->tensors[tensor];
	const int64_t word = MIN_OF(v->n * (int64_t)dtype_size(t->type), (int64_t)WORD);

	return (t->at == AT_OPERAND || t->at == AT_RESULT || t->at == AT_SHARED) && word >= 4 &&
	    t->count * (int64_t)dtype_size(t->type) % word == 0 && is_side_by_side(v, at);
}

static void
add_load(struct cuda_vector *v, const struct ex *read)
{
	for (uint32_t i = 0; i < v->n_load; i++)
		if (v->load[i].tensor == read->tensor && v->load[i].at == read->ix)
			return;
	if (v->n_load < MOST_MOVES && !v->use->written[read->tensor] && may_move(v, read->tensor, read->ix))
		v->load[v->n_load++] =
		    (struct cuda_move){.tensor = read->tensor, .at = read->ix, .type = read->type};
}

/* What is read for certain: not what a border's question stands before. */
static void
find_loads(struct cuda_vector *v, ex_id e)
{
	struct ex x = *ex_get(v->g->tx, e);

	if (x.kind == EX_READ)
		add_load(v, &x);
	for (uint32_t k = 0; x.kind == EX_MAP && k < x.n_arg; k++)
		find_loads(v, x.arg[k]);
}

static void
find_moves(struct cuda_vector *v, const struct tile_pass *tp)
{
	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &v->g->p->stages[tp->row[i]];

		if (s->kind != STAGE_MAP)
			continue;
		find_loads(v, s->body);
		if (v->n_store < MOST_MOVES && !v->use->read[s->tensor] && may_move(v, s->tensor, s->out))
			v->store[v->n_store++] = (struct cuda_move){
			    .tensor = s->tensor, .at = s->out, .type = v->g->p->tensors[s->tensor].type};
	}
}

struct cuda_vector *
cuda_vector(struct gen *g, const struct tile_pass *tp, const struct array_use *use)
{
	const int64_t n = sched_get(g->p->sched, KNOB_vector, 1);
	struct cuda_vector *v = NEW(g->a, struct cuda_vector);
	int64_t most = 1;

	for (uint32_t i = 0; i < tp->n_row; i++)
		if (g->p->stages[tp->row[i]].sweeps)
			return NULL;
	if (n == 1 || tp->n_outer == 0 || tp->outer[tp->n_outer - 1].extent % n)
		return NULL;
	*v = (struct cuda_vector){.g = g, .use = use, .axis = tp->outer[tp->n_outer - 1].id, .n = n};
	most = tp->outer[tp->n_outer - 1].extent / n;
	v->within = tx_axis(g->tx, AXIS_OUTER, 0, n - 1, IX_NONE);
	v->divided =
	    ix_add(g->tx, ix_mulc(g->tx, ix_axis(g->tx, tx_axis(g->tx, AXIS_OUTER, 0, most - 1, IX_NONE)), n),
		ix_axis(g->tx, v->within));
	find_moves(v, tp);
	return v->n_load + v->n_store ? v : NULL;
}

int64_t
cuda_vector_n(const struct cuda_vector *v)
{
	return v ? v->n : 1;
}

/* ---- text ------------------------------------------------------------------------------------------ */
/* Between the name and the array from `at` on, in words. */
static void
move(struct cuda_vector *v, const struct cuda_move *m, bool is_load)
{
	struct gen *g = v->g;
	const int64_t size = (int64_t)dtype_size(m->type), word = MIN_OF(v->n * size, (int64_t)WORD);
	const char *array = gen_tensor(g, m->tensor), *at = gen_ix(g, m->at);

	for (int64_t i = 0; i < v->n; i += word / size) {
		const char *there =
		    arena_printf(g->a, i ? "&%s[%s + %lld]" : "&%s[%s]", array, at, (long long)i);

		if (is_load)
			gen_line(
			    g, "k_move_%lld(&%s[%lld], %s);", (long long)word, m->name, (long long)i, there);
		else
			gen_line(
			    g, "k_move_%lld(%s, &%s[%lld]);", (long long)word, there, m->name, (long long)i);
	}
}

static void
declare(struct cuda_vector *v, struct cuda_move *m, const char *prefix)
{
	struct gen *g = v->g;

	m->name = arena_printf(g->a, "%s%u", prefix, g->n_temp++);
	gen_line(g, "K_WORDS %s %s[%lld];", gen_stored_type(g, m->type), m->name, (long long)v->n);
}

void
cuda_vector_load(struct cuda_vector *v)
{
	uint32_t mark = gen_mark(v->g);

	for (uint32_t i = 0; i < v->n_load; i++) {
		declare(v, &v->load[i], "word");
		move(v, &v->load[i], true);
	}
	for (uint32_t i = 0; i < v->n_store; i++)
		declare(v, &v->store[i], "made");
	gen_forget(v->g, mark); /* indices of the first neighbour are not the others' */
}

static const char *
element_text(struct gen *g, const struct cuda_move *m, int64_t u)
{
	const char *text = arena_printf(g->a, "%s[%lld]", m->name, (long long)u);

	if (m->type == DT_f16 || m->type == DT_bf16)
		return arena_printf(g->a, "k_load_%s(%s)", dtype_name(m->type), text);
	return m->type == DT_bool ? arena_printf(g->a, "(%s != 0)", text) : text;
}

void
cuda_vector_open(struct cuda_vector *v, int64_t u)
{
	struct gen *g = v->g;
	const char *first = g->axis_name[v->axis];

	gen_open(g, "%s", "");
	if (u)
		gen_line(
		    g, "const %s %s_%lld = %s + %lld;", g->index, first, (long long)u, first, (long long)u);
	gen_bind(g, v->axis, u ? arena_printf(g->a, "%s_%lld", first, (long long)u) : first);
	for (uint32_t i = 0; i < v->n_load; i++) {
		const struct cuda_move *m = &v->load[i];
		const char *name = arena_printf(g->a, "%s_%lld", m->name, (long long)u);

		gen_line(g, "const %s %s = %s;", gen_type(g, m->type), name, element_text(g, m, u));
		gen_name_read(g, m->type, m->tensor, m->at, name);
	}
	for (uint32_t i = 0; i < v->n_store; i++)
		g->cuda->held[v->store[i].tensor] =
		    arena_printf(g->a, "%s[%lld]", v->store[i].name, (long long)u);
}

void
cuda_vector_close(struct cuda_vector *v, const char *first)
{
	struct gen *g = v->g;

	gen_close(g);
	gen_bind(g, v->axis, first);
	for (uint32_t i = 0; i < v->n_store; i++)
		g->cuda->held[v->store[i].tensor] = NULL;
}

void
cuda_vector_store(struct cuda_vector *v)
{
	uint32_t mark = gen_mark(v->g);

	for (uint32_t i = 0; i < v->n_store; i++)
		move(v, &v->store[i], false);
	gen_forget(v->g, mark);
}
