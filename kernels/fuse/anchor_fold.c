/* kernels/fuse/anchor_fold.c: who takes the result of a linear stage out of the tile.
 *
 * A map stage of the same pass that reads the result through a bijection is evaluated on the tile:
 * its axes become forms of the anchor's, by matching strides where they match, else by taking the
 * flat index apart.  Whether that is the bijection wanted is not argued but checked: put into the
 * reader's index, the forms must give the very index at which the result is made. */
#include "anchor_int.h"

/* ---- readers in the tile -------------------------------------------------------------------- */
struct use {
	struct tx *x;
	uint32_t tensor;
	ix_id at;      /* of its reads, where all agree */
	uint32_t n;    /* distinct places read */
	bool too_late; /* reads what a step behind `step` makes, other than itself the turn before */
	uint32_t self; /* tensor that the reader makes */
	const struct tile_prog *p;
	const struct tile_pass *pass;
	uint32_t step;
};

static void
note_use(void *self, const struct ex *read)
{
	struct use *u = self;

	if (read->tensor == u->tensor) {
		u->n += u->n == 0 || read->ix != u->at;
		u->at = read->ix;
		return;
	}
	if (read->tensor == u->self)
		return;
	for (uint32_t i = u->step + 1; i < u->pass->n_row; i++)
		if (u->p->stages[u->pass->row[i]].tensor == read->tensor ||
		    u->p->stages[u->pass->row[i]].tensor2 == read->tensor)
			u->too_late = true;
}

static void
note_stage(struct use *u, const struct stage *s)
{
	const ex_id all[] = {s->body, s->a, s->b, s->init};

	for (uint32_t i = 0; i < COUNT_OF(all); i++)
		if (all[i] != EX_NONE)
			ex_reads(u->x, all[i], note_use, u);
	if (s->target != IX_NONE)
		ex_reads(u->x, ex_index(u->x, s->target), note_use, u);
}

/* An index without the stage's own axes: what the pass binds. */
static ix_id
outer_part(struct binding *b, const struct stage *s, ix_id i)
{
	binding_clear(b);
	for (uint32_t k = 0; k < s->n_par; k++)
		b->to[s->axis[k].id] = ix_const(b->p->tx, 0);
	struct tx_subst z = binding_subst(b);
	return ix_subst(b->p->tx, &z, i);
}

/* Each axis of reader c as a form of the linear stage's axes, in to[]; false: no bijection, or
 * none that is seen. */
static bool
invert(struct binding *b, const struct stage *c, ix_id read_at, ix_id *to, uint32_t n_to)
{
	struct tx *x = b->p->tx;
	const struct stage *s = b->s;
	ix_id base = outer_part(b, s, s->out);
	int64_t mine = 1, theirs = 1;

	if (outer_part(b, c, read_at) != base)
		return false;
	ix_id flat = ix_add(x, s->out, ix_mulc(x, base, -1));

	for (uint32_t k = 0; k < s->n_par; k++)
		mine *= s->axis[k].extent;
	for (uint32_t i = 0; i < c->n_par; i++) {
		int64_t coef, own;
		ix_id at = IX_NONE;

		theirs *= c->axis[i].extent;
		if (!ix_coef(x, read_at, c->axis[i].id, &coef) || coef <= 0)
			return false;
		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].extent == c->axis[i].extent &&
			    ix_coef(x, s->out, s->axis[k].id, &own) && own == coef)
				at = ix_axis(x, s->axis[k].id);
		if (at == IX_NONE)
			at = ix_mod(x, ix_div(x, flat, coef), c->axis[i].extent);
		to[c->axis[i].id] = at;
	}
	if (mine != theirs)
		return false;
	return ix_subst(x, &(struct tx_subst){.to = to, .n = n_to}, read_at) == s->out;
}

static ex_id
tile_read(void *self, struct tx *x, const struct ex *read, ix_id at)
{
	const struct binding *b = self;

	if (read->tensor != b->s->tensor)
		return ex_read(x, read->type, read->tensor, at);
	int64_t nr = (int64_t)b->n->nv * b->n->lanes;
	return ex_scratch(
	    x, DT_f32, 0, ix_add(x, ix_mulc(x, ix_axis(x, b->n->tile_row), nr), ix_axis(x, b->n->lane)));
}

/* Takes reader c into the tile. */
static bool
fold(struct binding *b, uint32_t stage, ix_id read_at, axis_id column)
{
	struct tx *x = b->p->tx;
	struct anchor *n = b->n;
	const struct stage *c = &b->p->stages[stage];
	uint32_t n_axes = tx_n_axes(x);
	ix_id *to = NEW_ARRAY(b->p->arena, ix_id, n_axes);

	for (uint32_t i = 0; i < n_axes; i++)
		to[i] = IX_NONE;
	if (n->n_epilogue == ANCHOR_EPILOGUES || !invert(b, c, read_at, to, n_axes))
		return false;
	struct tx_subst first = {.to = to, .n = n_axes, .read = tile_read, .self = b};
	ex_id body = ex_subst(x, &first, c->body);
	ix_id at = ix_subst(x, &(struct tx_subst){.to = to, .n = n_axes}, c->out);

	binding_flatten(b, column);
	struct tx_subst second = binding_subst(b);
	n->epilogue[n->n_epilogue++] = (struct anchor_epilogue){
	    .stage = stage, .body = ex_subst(x, &second, body), .at = ix_subst(x, &second, at)};
	return true;
}
void
binding_fold(struct binding *b, uint32_t pass, uint32_t step, axis_id column)
{
	struct tile_prog *p = b->p;
	struct tile_pass *tp = &p->pass[pass];
	uint32_t kept = step + 1;

	for (uint32_t i = step + 1; i < tp->n_row; i++) {
		const struct stage *c = &p->stages[tp->row[i]];
		struct use u = {
		    .x = p->tx, .tensor = b->s->tensor, .p = p, .pass = tp, .step = step, .self = c->tensor};

		note_stage(&u, c);
		if (c->kind != STAGE_MAP || u.n != 1 || u.too_late || !fold(b, tp->row[i], u.at, column))
			tp->row[kept++] = tp->row[i];
	}
	tp->n_row = kept;
	struct use rest = {
	    .x = p->tx, .tensor = b->s->tensor, .p = p, .pass = tp, .step = PASS_STEPS, .self = UINT32_MAX};

	for (uint32_t i = 0; i < p->n_stages; i++) {
		bool folded = false;

		for (uint32_t k = 0; k < b->n->n_epilogue; k++)
			folded |= b->n->epilogue[k].stage == i;
		if (!folded)
			note_stage(&rest, &p->stages[i]);
	}
	b->n->keeps_result = rest.n > 0 || p->tensors[b->s->tensor].at == AT_RESULT;
}
