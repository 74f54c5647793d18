/* kernels/fuse/online_build.c: the stages of a sweep (online.c says which) in place of those of whole rows.
 */
#include "online_int.h"

#include <float.h>
#include <string.h>

struct building {
	struct online *o;
	struct tile_prog *p;
	struct tx *x;
	ix_id turn;     /* the sweep's axis */
	int64_t padded; /* keys, in whole blocks */
	struct stage list[16];
	uint32_t n;
	uint32_t scores, xs, top, fade, m, e, part, l, product, sums; /* tensors */
};

static uint32_t
new_tensor(struct building *b, int64_t count)
{
	struct tile_prog *p = b->p;

	GROW(p->arena, p->tensors, p->n_tensors, p->cap_tensors);
	p->tensors[p->n_tensors] =
	    (struct tile_tensor){.at = AT_NOWHERE, .type = DT_f32, .count = count, .stage = UINT32_MAX};
	return p->n_tensors++;
}

static void
carry(struct building *b, uint32_t tensor, float first)
{
	b->p->tensors[tensor].carried = true;
	b->p->tensors[tensor].first = first;
}

/* A key of this turn's block, by its place in it. */
static ix_id
key_at(const struct building *b, ix_id place)
{
	return ix_add(b->x, ix_mulc(b->x, b->turn, b->o->block), place);
}

/* Behind the last key: `otherwise`. */
static ex_id
inside_keys(const struct building *b, ix_id key, ex_id e, double otherwise)
{
	if (b->padded == b->o->keys)
		return e;
	return ex_guard(b->x, key, 0, b->o->keys, e, ex_real(b->x, DT_f32, otherwise));
}

/* A stage of the sweep over copies of the first n axes of another; at[]: those. */
static struct stage *
new_stage(struct building *b, enum stage_kind kind, uint32_t tensor, const struct stage *like, uint32_t n,
    ix_id *at)
{
	struct stage *s = &b->list[b->n++];

	*s = (struct stage){.kind = kind,
	    .prim = like->prim,
	    .tensor = tensor,
	    .tensor2 = UINT32_MAX,
	    .node = like->node,
	    .body = EX_NONE,
	    .a = EX_NONE,
	    .b = EX_NONE,
	    .init = EX_NONE,
	    .target = IX_NONE,
	    .acc = DT_f32,
	    .at = like->at,
	    .sweeps = true,
	    .n_par = n};
	for (uint32_t k = 0; k < n; k++) {
		s->axis[k] = like->axis[k];
		s->axis[k].id = tx_axis(b->x, AXIS_PAR, 0, like->axis[k].extent - 1, IX_NONE);
		at[k] = ix_axis(b->x, s->axis[k].id);
	}
	return s;
}

static ix_id
flat_of(struct building *b, const struct stage *s)
{
	ix_id i = ix_const(b->x, 0);

	for (uint32_t k = 0; k < s->n_par; k++)
		i = ix_add(b->x, i, ix_mulc(b->x, ix_axis(b->x, s->axis[k].id), s->axis[k].stride));
	return i;
}

/* Rows of the maximum, and places in a block behind them as an axis of that role. */
static struct stage *
new_rows(struct building *b, enum stage_kind kind, uint32_t tensor, const struct stage *like,
    ix_id at[STAGE_AXES], ix_id *row)
{
	const struct stage *rows = &b->p->stages[b->o->max];
	struct stage *s = new_stage(b, kind, tensor, rows, rows->n_par, at);

	s->node = like->node;
	s->prim = like->prim;
	s->at = like->at;
	*row = flat_of(b, s);
	return s;
}

static ix_id
add_places(struct building *b, struct stage *s, enum axis_role role)
{
	axis_id id = tx_axis(b->x, role, 0, b->o->block - 1, IX_NONE);

	for (uint32_t k = 0; k < s->n_par && role == AXIS_PAR; k++)
		s->axis[k].stride *= b->o->block;
	s->axis[s->n_par + s->n_red] =
	    (struct stage_axis){.id = id, .extent = b->o->block, .stride = role == AXIS_PAR, .outer = -1};
	s->n_par += role == AXIS_PAR;
	s->n_red += role == AXIS_RED;
	return ix_axis(b->x, id);
}

static ex_id
get(const struct building *b, uint32_t tensor, ix_id at)
{
	return ex_read(b->x, DT_f32, tensor, at);
}

static ex_id
get_in_block(const struct building *b, uint32_t tensor, ix_id row, ix_id place)
{
	return get(b, tensor, ix_add(b->x, ix_mulc(b->x, row, b->o->block), place));
}

static ex_id
map2(const struct building *b, enum prim p, ex_id u, ex_id v)
{
	return ex_map(b->x, p, DT_f32, 2, (ex_id[]){u, v});
}

static ex_id
exp_of(const struct building *b, ex_id e)
{
	return ex_map(b->x, PRIM_exp, DT_f32, 1, &e);
}

/* The linear stage with a block of keys in place of axis k, and one factor that ends with the keys. */
static struct stage *
block_linear(struct building *b, const struct stage *from, uint32_t k, enum axis_role role, bool ends_b)
{
	struct stage *s = &b->list[b->n++];
	axis_id place = tx_axis(b->x, role, 0, b->o->block - 1, IX_NONE);
	ix_id *at = NEW_ARRAY(b->p->arena, ix_id, STAGE_AXES);
	ix_id key = key_at(b, ix_axis(b->x, place));

	*s = *from;
	s->sweeps = true;
	for (uint32_t i = 0; i < s->n_par + s->n_red; i++)
		at[i] = i == k ? key : ix_axis(b->x, s->axis[i].id);
	s->a = online_over(b->p, from, from->a, at);
	s->b = online_over(b->p, from, from->b, at);
	*(ends_b ? &s->b : &s->a) = inside_keys(b, key, ends_b ? s->b : s->a, 0);
	s->axis[k].id = place;
	s->axis[k].extent = b->o->block;
	return s;
}

static void
close_linear(struct building *b, struct stage *s)
{
	s->body = map2(b, PRIM_mul, s->a, s->b);
}

static void
make_scores(struct building *b)
{
	struct online *o = b->o;
	const struct stage *from = &b->p->stages[o->first];
	uint32_t last = from->n_par - 1;
	struct stage *s = block_linear(b, from, last, AXIS_PAR, ex_has(b->x, from->b, from->axis[last].id));

	for (uint32_t k = 0; k < last; k++)
		s->axis[k].stride = s->axis[k].stride / o->keys * o->block;
	b->scores = s->tensor = new_tensor(b, b->p->tensors[from->tensor].count / o->keys * o->block);
	close_linear(b, s);
}

struct rescore {
	struct building *b;
	ix_id place;
};

/* The first linear stage's result lies in blocks now. */
static ex_id
rescored(void *self, struct tx *x, const struct ex *read, ix_id at)
{
	const struct rescore *r = self;
	const struct ex was = *read;
	struct building *b = r->b;
	const struct stage *from = &b->p->stages[b->o->first];
	ix_id i = r->place;

	if (was.tensor != from->tensor)
		return ex_read(x, was.type, was.tensor, at);
	for (uint32_t k = 0; k + 1 < from->n_par; k++)
		i = ix_add(x, i,
		    ix_mulc(
			x, decode_axis(b->p, from, k, at), from->axis[k].stride / b->o->keys * b->o->block));
	return get(b, b->scores, i);
}

static void
make_rows(struct building *b)
{
	struct tile_prog *p = b->p;
	struct online *o = b->o;
	const struct stage *first = &p->stages[o->first], *max = &p->stages[o->max];
	struct stage some = *max;
	const struct stage *sum = o->sum == UINT32_MAX ? &some : &p->stages[o->sum];
	int64_t rows = p->tensors[max->tensor].count;
	ix_id at[STAGE_AXES], row, place;
	struct stage *s;

	some.prim = PRIM_sum;
	b->xs = new_tensor(b, rows * o->block);
	s = new_rows(b, STAGE_MAP, b->xs, first, at, &row);
	place = add_places(b, s, AXIS_PAR);
	ix_id key = key_at(b, place);

	/* Over the keys themselves first: what is read there is told by them. */
	ix_id whole = ix_axis(b->x, max->axis[max->n_par].id);
	at[max->n_par] = whole;
	ex_id x = online_expand(o, online_over(p, max, max->body, at), max->axis[max->n_par].id);
	struct rescore r = {b, place};

	x = ex_subst(b->x, &(struct tx_subst){.read = rescored, .self = &r}, x);
	at[0] = key;
	x = online_over(p, &(struct stage){.axis = {[0] = max->axis[max->n_par]}, .n_red = 1}, x, at);
	s->body = inside_keys(b, key, x, -__builtin_inf());

	b->top = new_tensor(b, rows);
	s = new_rows(b, STAGE_REDUCE, b->top, max, at, &row);
	s->body = get_in_block(b, b->xs, row, add_places(b, s, AXIS_RED));

	b->m = new_tensor(b, rows);
	carry(b, b->m, -FLT_MAX);
	b->fade = new_tensor(b, rows);
	s = new_rows(b, STAGE_MAP, b->fade, max, at, &row);
	s->body = exp_of(b,
	    map2(b, PRIM_sub, get(b, b->m, row), map2(b, PRIM_max, get(b, b->m, row), get(b, b->top, row))));
	s = new_rows(b, STAGE_MAP, b->m, max, at, &row);
	s->body = map2(b, PRIM_max, get(b, b->m, row), get(b, b->top, row));

	b->e = new_tensor(b, rows * o->block);
	s = new_rows(b, STAGE_MAP, b->e, sum, at, &row);
	place = add_places(b, s, AXIS_PAR);
	s->body = exp_of(b, map2(b, PRIM_sub, get_in_block(b, b->xs, row, place), get(b, b->m, row)));

	b->part = new_tensor(b, rows);
	s = new_rows(b, STAGE_REDUCE, b->part, sum, at, &row);
	s->body = get_in_block(b, b->e, row, add_places(b, s, AXIS_RED));
	b->l = new_tensor(b, rows);
	carry(b, b->l, 0);
	s = new_rows(b, STAGE_MAP, b->l, sum, at, &row);
	s->body = map2(
	    b, PRIM_add, map2(b, PRIM_mul, get(b, b->l, row), get(b, b->fade, row)), get(b, b->part, row));
}

/* An index over the second's parallel axes, over their copies. */
static ix_id
copied(struct building *b, const struct stage *second, ix_id i, const ix_id *at)
{
	uint32_t n = tx_n_axes(b->x);
	ix_id *to = NEW_ARRAY(b->p->arena, ix_id, n);

	for (uint32_t k = 0; k < n; k++)
		to[k] = IX_NONE;
	for (uint32_t k = 0; k < second->n_par; k++)
		to[second->axis[k].id] = at[k];
	return ix_subst(b->x, &(struct tx_subst){.to = to, .n = n}, i);
}

static void
make_product(struct building *b)
{
	struct online *o = b->o;
	const struct stage *from = &b->p->stages[o->second];
	int64_t count = b->p->tensors[from->tensor].count;
	struct stage *s = block_linear(b, from, from->n_par, AXIS_RED, !o->in_b);
	ix_id at[STAGE_AXES], row, flat;

	b->product = s->tensor = new_tensor(b, count);
	*(o->in_b ? &s->b : &s->a) = get_in_block(b, b->e, o->row, ix_axis(b->x, s->axis[s->n_par].id));
	close_linear(b, s);

	b->sums = new_tensor(b, count);
	carry(b, b->sums, 0);
	s = new_stage(b, STAGE_MAP, b->sums, from, from->n_par, at);
	row = copied(b, from, o->row, at);
	flat = flat_of(b, s);
	s->body = map2(b, PRIM_add, map2(b, PRIM_mul, get(b, b->sums, flat), get(b, b->fade, row)),
	    get(b, b->product, flat));

	s = new_stage(b, STAGE_MAP, from->tensor, from, from->n_par, at);
	row = copied(b, from, o->row, at);
	ex_id l = get(b, b->l, row), sums = get(b, b->sums, flat_of(b, s));

	s->body = o->divides ? map2(b, PRIM_div, sums, l) : map2(b, PRIM_mul, sums, map2(b, PRIM_div, l, l));
	s->sweeps = false;
}

/* The sum for those behind the sweep. */
static void
hand_out_sum(struct building *b)
{
	const struct stage *sum = &b->p->stages[b->o->sum];
	ix_id at[STAGE_AXES], row;
	struct stage *s = new_rows(b, STAGE_MAP, sum->tensor, sum, at, &row);
	ex_id l = get(b, b->l, row);

	s->body = map2(b, PRIM_div, l, map2(b, PRIM_div, l, l));
	s->sweeps = false;
}

/* The sweep's stages stand where the second linear stage was; those that they replace are gone. */
void
online_build(struct online *o)
{
	struct tile_prog *p = o->p;
	struct building *b = NEW(p->arena, struct building);
	const struct stage *old = p->stages;
	uint32_t n_old = p->n_stages;

	*b = (struct building){.o = o, .p = p, .x = p->tx};
	p->n_turns = (o->keys + o->block - 1) / o->block;
	p->turn = tx_axis(p->tx, AXIS_OUTER, 0, p->n_turns - 1, IX_NONE);
	b->turn = ix_axis(p->tx, p->turn);
	b->padded = p->n_turns * o->block;
	make_scores(b);
	make_rows(b);
	make_product(b);
	if (!o->divides && o->sum != UINT32_MAX)
		hand_out_sum(b);
	p->stages = NULL;
	p->n_stages = p->cap_stages = 0;
	for (uint32_t i = 0; i < n_old; i++)
		if (o->in[i])
			p->tensors[old[i].tensor].stage = UINT32_MAX;
	for (uint32_t i = 0; i < n_old; i++) {
		for (uint32_t k = 0; k < b->n && i == o->second; k++)
			stage_append(p, &b->list[k]);
		for (uint32_t k = 0; k < i && i == o->second; k++)
			if (o->late[k])
				stage_append(p, &old[k]);
		if (!o->in[i] && !o->late[i])
			stage_append(p, &old[i]);
	}
}
