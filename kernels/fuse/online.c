/* kernels/fuse/online.c: rows between two linear stages in blocks, with an online softmax.
 *
 *   s[r][k] = sum of ..           linear
 *   m[r]    = max over k of x     x: any maps of s, at the same k (scale, mask)
 *   l[r]    = sum over k of exp(x - m)
 *   y[r][d] = sum over k of exp(x - m) / l * v[k][d]
 *
 * keeps whole rows of s.  The same with k in blocks, one turn of a loop (the sweep) after another:
 *
 *   turn:   s, x        of the block's k alone; behind the last k x is -inf and v is 0
 *           top         = max over the block of x
 *           fade        = exp(m - max(m, top));  m = max(m, top)        m begins with the least float
 *           e           = exp(x - m)
 *           l           = l * fade + sum over the block of e
 *           sums        = sums * fade + sum over the block of e * v
 *   behind: y           = sums / l;  where the division stands behind y already, y = sums * (l / l)
 *
 * Nothing here knows a shape of operators: maps between the stages are put into each other, and the three
 * expressions must come out as the very same x.  The block's number is a free axis in the expressions of the
 * turn's stages; everything behind this file treats them like any other stages.
 * A row whose x are all -inf has l = 0, so y = 0 / 0 or 0 * (0 / 0), as the whole row's exp(-inf - -inf) is
 * not a number. Source: Milakov and Gimelshein, arXiv 1805.02867; Rabe and Staats, arXiv 2112.05682. */
#include "online_int.h"

#include <string.h>

enum { MOST_INSIDE = 16, EVEN = 16 };

/* ---- maps put into each other ---------------------------------------------------------------- */
struct inside {
	struct online *o;
	axis_id key;
};

const struct stage *
online_maker(const struct tile_prog *p, uint32_t tensor)
{
	uint32_t s = p->tensors[tensor].stage;

	return s == UINT32_MAX ? NULL : &p->stages[s];
}

ex_id
online_over(struct tile_prog *p, const struct stage *s, ex_id e, const ix_id *at)
{
	uint32_t n = tx_n_axes(p->tx);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, n);

	for (uint32_t i = 0; i < n; i++)
		to[i] = IX_NONE;
	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		to[s->axis[k].id] = at[k];
	return ex_subst(p->tx, &(struct tx_subst){.to = to, .n = n}, e);
}

/* A read along the keys of what a map makes: the map itself. */
static ex_id
inside_read(void *self, struct tx *x, const struct ex *read, ix_id at)
{
	const struct inside *in = self;
	struct online *o = in->o;
	const struct ex was = *read;
	const struct stage *m = online_maker(o->p, was.tensor);
	ix_id axis[STAGE_AXES];

	if (!m || m->kind != STAGE_MAP || !ix_has(x, at, in->key) ||
	    o->p->tensors[was.tensor].at == AT_RESULT || o->depth == MOST_INSIDE)
		return ex_read(x, was.type, was.tensor, at);
	for (uint32_t k = 0; k < m->n_par; k++)
		axis[k] = decode_axis(o->p, m, k, at);
	o->in[m - o->p->stages] = true;
	o->depth++;
	ex_id e = online_expand(o, online_over(o->p, m, m->body, axis), in->key);

	o->depth--;
	return e;
}

ex_id
online_expand(struct online *o, ex_id e, axis_id key)
{
	struct inside in = {o, key};

	return ex_subst(o->p->tx, &(struct tx_subst){.read = inside_read, .self = &in}, e);
}

/* ---- is it that form? ---------------------------------------------------------------------------- */
static bool
is_map(const struct tx *x, ex_id e, enum prim p)
{
	const struct ex *n = ex_get(x, e);

	return n->kind == EX_MAP && n->prim == p && n->type == DT_f32;
}

/* A read, not along the keys, of what a reduction of f32 over as many elements makes: its stage; UINT32_MAX:
 * none. */
static uint32_t
row_of(const struct online *o, ex_id e, enum prim p)
{
	const struct ex *r = ex_get(o->p->tx, e);
	const struct stage *s = r->kind == EX_READ ? online_maker(o->p, r->tensor) : NULL;

	if (!s || s->kind != STAGE_REDUCE || s->prim != p || s->acc != DT_f32 || s->n_red != 1 ||
	    s->axis[s->n_par].extent != o->keys || ix_has(o->p->tx, r->ix, o->key) ||
	    o->p->tensors[r->tensor].at == AT_RESULT)
		return UINT32_MAX;
	return o->p->tensors[r->tensor].stage;
}

/* Does the reduction, read at `at`, join the expression over the second's axes? */
static bool
joins(struct online *o, uint32_t stage, ix_id at, ex_id what)
{
	const struct stage *s = &o->p->stages[stage];
	ix_id axis[STAGE_AXES];

	for (uint32_t k = 0; k < s->n_par; k++)
		axis[k] = decode_axis(o->p, s, k, at);
	axis[s->n_par] = ix_axis(o->p->tx, o->key);
	return online_expand(o, online_over(o->p, s, s->body, axis), o->key) == what;
}

struct scores {
	struct online *o;
	uint32_t tensor;
	ix_id at;
	uint32_t n;
};

static void
note_scores(void *self, const struct ex *read)
{
	struct scores *s = self;
	const struct stage *m = online_maker(s->o->p, read->tensor);

	if (!m || m->kind != STAGE_LINEAR || !ix_has(s->o->p->tx, read->ix, s->o->key))
		return;
	s->tensor = read->tensor;
	s->at = read->ix;
	s->n++;
}

/* The linear stage under x, its last axis the keys. */
static bool
find_first(struct online *o)
{
	struct tile_prog *p = o->p;
	struct scores r = {.o = o};

	ex_reads(p->tx, o->x, note_scores, &r);
	if (r.n != 1 || p->tensors[r.tensor].at == AT_RESULT || p->tensors[r.tensor].type != DT_f32)
		return false;
	o->first = p->tensors[r.tensor].stage;
	const struct stage *s = &p->stages[o->first];
	uint32_t last = s->n_par - 1;

	if (s->n_par == 0 || s->acc != DT_f32 || s->n_red == 0 || s->axis[last].stride != 1 ||
	    s->axis[last].extent != o->keys ||
	    ex_has(p->tx, s->a, s->axis[last].id) == ex_has(p->tx, s->b, s->axis[last].id))
		return false;
	if (decode_axis(p, s, last, r.at) != ix_axis(p->tx, o->key))
		return false;
	for (uint32_t k = 0; k < last; k++)
		if (ix_has(p->tx, decode_axis(p, s, k, r.at), o->key))
			return false;
	return true;
}

/* Stages of the sweep are read in it alone, but for the second's result and, where shares are divided behind
 * the second, the sum; what waits for that waits for all of the sweep, and nothing of the sweep may wait for
 * it. */
static bool
is_closed(struct online *o)
{
	struct tile_prog *p = o->p;
	bool ok = true;

	memset(o->late, 0, p->n_stages * sizeof *o->late);
	o->in[o->first] = o->in[o->max] = o->in[o->second] = true;
	if (o->sum != UINT32_MAX)
		o->in[o->sum] = true;
	for (uint32_t i = 0; i < p->n_stages && ok; i++) {
		struct stage_read *r;
		struct arena tmp = {0};
		uint32_t n = stage_reads(p, &p->stages[i], &tmp, &r);

		for (uint32_t k = 0; k < n; k++) {
			uint32_t from = p->tensors[r[k].tensor].stage;
			const bool of_sum = from == o->sum && !o->divides;

			ok &= o->in[i] ? !o->late[from] : !o->in[from] || from == o->second || of_sum;
			o->late[i] |= !o->in[i] && i < o->second && (of_sum || o->late[from]);
		}
		arena_fini(&tmp);
	}
	return ok;
}

/* A sum of the exponentials with a row where the maximum has it. */
static uint32_t
find_sum(struct online *o)
{
	struct tile_prog *p = o->p;
	const struct stage *max = &p->stages[o->max];
	bool *was = arena_dup(p->arena, o->in, p->n_stages * sizeof *was);

	for (uint32_t i = 0; i < p->n_stages; i++) {
		const struct stage *s = &p->stages[i];
		bool same = s->kind == STAGE_REDUCE && s->prim == PRIM_sum && s->acc == DT_f32 &&
		    s->n_red == 1 && s->n_par == max->n_par && s->axis[s->n_par].extent == o->keys &&
		    p->tensors[s->tensor].at != AT_RESULT;

		for (uint32_t k = 0; k < s->n_par && same; k++)
			same = s->axis[k].extent == max->axis[k].extent &&
			    s->axis[k].stride == max->axis[k].stride;
		if (same && joins(o, i, o->row, o->e))
			return i;
		memcpy(o->in, was, p->n_stages * sizeof *was);
	}
	return UINT32_MAX;
}

static bool
finds(struct online *o, uint32_t second, bool in_b)
{
	struct tile_prog *p = o->p;
	const struct stage *s = &p->stages[second];
	struct tx *x = p->tx;
	ix_id under = IX_NONE;

	memset(o->in, 0, p->n_stages * sizeof *o->in);
	o->second = second;
	o->in_b = in_b;
	o->sum = UINT32_MAX;
	if (s->kind != STAGE_LINEAR || s->n_red != 1 || s->acc != DT_f32 ||
	    p->tensors[s->tensor].type != DT_f32)
		return false;
	o->key = s->axis[s->n_par].id;
	o->keys = s->axis[s->n_par].extent;
	if (o->keys <= o->block || !ex_has(x, s->a, o->key) || !ex_has(x, s->b, o->key))
		return false;
	o->e = online_expand(o, in_b ? s->b : s->a, o->key);
	o->divides = is_map(x, o->e, PRIM_div);
	if (o->divides) {
		const struct ex share = *ex_get(x, o->e);

		o->e = share.arg[0];
		o->sum = row_of(o, share.arg[1], PRIM_sum);
		if (o->sum == UINT32_MAX)
			return false;
		under = ex_get(x, share.arg[1])->ix;
	}
	if (!is_map(x, o->e, PRIM_exp) || !is_map(x, ex_get(x, o->e)->arg[0], PRIM_sub))
		return false;
	const struct ex away = *ex_get(x, ex_get(x, o->e)->arg[0]);

	o->x = away.arg[0];
	o->max = row_of(o, away.arg[1], PRIM_rmax);
	if (o->max == UINT32_MAX)
		return false;
	o->row = ex_get(x, away.arg[1])->ix;
	if (!joins(o, o->max, o->row, o->x) || (o->divides && !joins(o, o->sum, under, o->e)) ||
	    !find_first(o))
		return false;
	if (!o->divides)
		o->sum = find_sum(o);
	return is_closed(o);
}

/* Blocks of the same size as far as may be: what the last one lacks is computed for nothing. */
static int64_t
even_block(int64_t keys, int64_t most)
{
	int64_t n = (keys + most - 1) / most, block = (keys + n - 1) / n,
		round = (block + EVEN - 1) / EVEN * EVEN;

	return round > most ? block : round;
}

void
online_form(struct tile_prog *p)
{
	struct online o = {.p = p, .block = sched_get(p->sched, KNOB_online, 0)};

	if (o.block == 0 || p->target->strict)
		return;
	o.in = NEW_ARRAY(p->arena, bool, p->n_stages);
	o.late = NEW_ARRAY(p->arena, bool, p->n_stages);
	for (uint32_t i = 0; i < p->n_stages; i++)
		for (int in_b = 0; in_b < 2; in_b++)
			if (finds(&o, i, in_b)) {
				o.block = even_block(o.keys, o.block);
				online_build(&o);
				return;
			}
}

/* ---- passes are formed -------------------------------------------------------------------------------- */
bool
online_holds(const struct tile_prog *p, struct err *e)
{
	uint32_t pass = UINT32_MAX;

	for (uint32_t i = 0; i < p->n_stages && p->n_turns; i++) {
		const struct stage *s = &p->stages[i];

		if (!s->sweeps)
			continue;
		if (s->at_call || (pass != UINT32_MAX && s->pass != pass))
			return err_set(e, ERR_INFEASIBLE,
			    "online: what a block of a row goes through does not share a pass");
		pass = s->pass;
	}
	if (pass == UINT32_MAX)
		return true;
	const struct tile_pass *t = &p->pass[pass];
	int changes = 0;

	for (uint32_t m = 1; m < t->n_row; m++)
		changes += p->stages[t->row[m]].sweeps != p->stages[t->row[m - 1]].sweeps;
	if (changes > 1 + !p->stages[t->row[0]].sweeps)
		return err_set(e, ERR_INFEASIBLE, "online: other steps stand between those of a block");
	return true;
}
