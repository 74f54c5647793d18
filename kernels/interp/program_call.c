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
	}
}
