/* kernels/schedule/proved.c: is what a step has made proved, as it is and flat?  What is right and cannot be
 * proved is refused: nobody could say that its accesses stay in their buffers.  Nests and blocks that the
 * step left as they were are proved already. */
#include "../tir/known.h"
#include "step_int.h"

#include <string.h>

/* ---- what was left as it was ------------------------------------------------------------------------- */
static bool
same_blk(const struct tir *p, const struct tir *q, blk_id b)
{
	const struct tir_block *x = &p->blk[b], *y = &q->blk[b];
	bool same = x->n_iter == y->n_iter && x->n_out == y->n_out && x->comb == y->comb;

	for (uint32_t k = 0; same && k < x->n_out; k++)
		same = x->out[k] == y->out[k] && x->at[k] == y->at[k] && x->value[k] == y->value[k];
	for (uint32_t k = 0; same && k < x->n_iter; k++)
		same = p->iter[x->iter0 + k].id == q->iter[y->iter0 + k].id &&
		    p->iter[x->iter0 + k].kind == q->iter[y->iter0 + k].kind;
	return same;
}

static bool
same_guards(const struct tir *p, const struct st *x, const struct tir *q, const struct st *y)
{
	bool same = x->n_guard == y->n_guard;

	for (uint32_t k = 0; same && k < x->n_guard; k++) {
		const struct tir_guard *g = &p->guard[x->guard0 + k], *h = &q->guard[y->guard0 + k];

		same = g->i == h->i && g->lo == h->lo && g->hi == h->hi;
	}
	return same;
}

/* Statements i of p and k of q, with their subtrees; calls there are none of before a program is flat. */
static bool
same_nest(const struct tir *p, st_id i, const struct tir *q, st_id k)
{
	const uint32_t n = p->st[i].end - i;
	bool same = q->st[k].end - k == n;

	for (uint32_t j = 0; same && j < n; j++) {
		const struct st *x = &p->st[i + j], *y = &q->st[k + j];

		same = x->op == y->op && x->bind == y->bind && x->end - i == y->end - k &&
		    x->axis == y->axis && x->from == y->from && x->to == y->to && x->ref == y->ref &&
		    x->at == y->at && x->n_arg + y->n_arg == 0 && same_guards(p, x, q, y) &&
		    (x->op != ST_block || same_blk(p, q, x->ref));
	}
	return same;
}

static bool
stood_in(const struct tir *was, const struct tir *p, st_id i)
{
	for (st_id k = 0; k < was->n_st; k = was->st[k].end)
		if (same_nest(was, k, p, i))
			return true;
	return false;
}

/* Another buffer's shape changes what all statements may touch. */
static bool
same_bufs(const struct tir *was, const struct tir *p)
{
	return was->n_buf <= p->n_buf && was->n_blk <= p->n_blk &&
	    memcmp(was->buf, p->buf, was->n_buf * sizeof(*p->buf)) == 0;
}

static struct tir_known
left_by_step(const struct tir *was, const struct tir *p)
{
	const uint32_t n = tx_n_axes(p->tx);
	bool *blk = NEW_ARRAY(p->arena, bool, p->n_blk + 1), *loop = NEW_ARRAY(p->arena, bool, n + 1);

	if (!was->is_proved || !same_bufs(was, p))
		return (struct tir_known){.n_loop = 0};
	for (blk_id b = 0; b < was->n_blk; b++)
		blk[b] = same_blk(was, p, b);
	for (st_id i = 0; i < p->n_st; i = p->st[i].end)
		if (p->st[i].op == ST_for)
			loop[p->st[i].axis] = stood_in(was, p, i);
	return (struct tir_known){blk, loop, n};
}

bool
step_marks_hold(const struct tir *p, const struct step *s, struct err *e)
{
	struct err why = {0};

	return (tensors_match(p, &why) || refuse(e, s, "instruction", why.msg)) &&
	    (pipelines_hold(p, &why) || refuse(e, s, "pipeline", why.msg));
}

bool
nest_is_proved(const struct tir *was, const struct tir *p, struct tir *flat, struct err *e)
{
	const struct tir_known known = left_by_step(was, p);

	if (!tir_proved_but(p, &known, e))
		return false;
	schedule_flat_unparted(p, flat);
	if (!tensors_match(flat, e))
		return err_set(e, ERR_INFEASIBLE, "a reduction would start inside of an instruction");
	return tir_proved_but(flat, &known, e);
}
