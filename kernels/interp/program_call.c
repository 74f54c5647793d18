/* kernels/interp/program_call.c: instructions that a loop program calls, one element after the other. */
#include "program_int.h"

enum { EDGE = 8 };

struct place {
	buf_id buf;
	int64_t i; /* of the first element */
};

static struct place
place_at(struct run_state *r, struct thread *t, ex_id e)
{
	const struct ex n = *ex_get(r->p->tx, e);

	return (struct place){n.tensor, place_of(r, t, n.tensor, n.at)};
}

/* Eight rows as columns. */
static void
run_turn(struct run_state *r, struct thread *t, const ex_id *arg)
{
	struct place from = place_at(r, t, arg[0]), to = place_at(r, t, arg[2]);
	int64_t row = eval_ex(r, t, arg[1]).i, column = eval_ex(r, t, arg[3]).i;
	union val v[EDGE][EDGE];

	for (int i = 0; i < EDGE; i++)
		for (int j = 0; j < EDGE; j++)
			v[i][j] = load_element(r, t, from.buf, from.i + i * row + j);
	for (int i = 0; i < EDGE; i++)
		for (int j = 0; j < EDGE; j++)
			store_element(r, t, to.buf, to.i + j * column + i, v[i][j]);
}

/* In the order of the lanes. */
static void
run_fold(struct run_state *r, struct thread *t, enum comb comb, const ex_id *arg)
{
	struct place held = place_at(r, t, arg[0]), lane = place_at(r, t, arg[1]);
	const enum dtype to = r->p->buf[held.buf].type, types[2] = {to, r->p->buf[lane.buf].type};
	union val x[3] = {load_element(r, t, held.buf, held.i)};

	for (int64_t k = 0; k < r->p->buf[lane.buf].dim[0] && !r->failed; k++) {
		x[1] = load_element(r, t, lane.buf, k);
		x[0] = val_rounded(to, map_scalar(comb_prim(comb), types, to, x));
	}
	store_element(r, t, held.buf, held.i, x[0]);
}

void
run_call(struct run_state *r, struct thread *t, const struct st *s)
{
	switch ((enum intrin)s->ref) {
	case INTRIN_prefetch: /* nothing that a program can see */
	case INTRIN_COUNT:
		return;
	case INTRIN_turn:
		run_turn(r, t, r->p->arg + s->arg0);
		return;
	case INTRIN_fold_sum:
	case INTRIN_fold_prod:
	case INTRIN_fold_max:
	case INTRIN_fold_min:
	case INTRIN_team_sum:
	case INTRIN_team_prod:
	case INTRIN_team_max:
	case INTRIN_team_min:
		run_fold(r, t, intrin_info[s->ref].comb, r->p->arg + s->arg0);
		return;
	}
}
