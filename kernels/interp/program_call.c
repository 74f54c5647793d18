/* kernels/interp/program_call.c: instructions that a loop program calls, one element after the other. */
#include "program_int.h"

#include <string.h>

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

/* A word of several elements. */
static void
run_move(struct run_state *r, struct thread *t, int64_t bytes, const ex_id *arg)
{
	struct place to = place_at(r, t, arg[0]), from = place_at(r, t, arg[1]);

	for (int64_t i = 0; i < bytes / (int64_t)dtype_size(r->p->buf[to.buf].type); i++)
		store_element(r, t, to.buf, to.i + i, load_element(r, t, from.buf, from.i + i));
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

/* ---- instructions over small nests ------------------------------------------------------------------ */
struct tensor_run {
	const struct tensor_row *t;
	int64_t i['z' - 'a' + 1]; /* of each iterator, while it runs */
	struct place at[TENSOR_OFS];
	int64_t row[TENSOR_OFS];
};

/* The element that the iterators are at. */
static int64_t
element_of(const struct tensor_run *n, uint32_t of)
{
	const char *letters = n->t->of[of].at;
	const int64_t first = n->at[of].i, i = letters[0] ? n->i[letters[0] - 'a'] : 0;

	return letters[0] && letters[1] ? first + tensor_element(i, n->i[letters[1] - 'a'], n->row[of])
					: first + i;
}

static void
join_point(struct run_state *r, struct thread *t, const struct tensor_run *n)
{
	const enum dtype to = n->t->of[0].type, types[2] = {to, to};
	union val x[2], v[2];

	for (uint32_t k = 0; k < 2; k++) {
		x[k] = load_element(r, t, n->at[k + 1].buf, element_of(n, k + 1));
		x[k] = val_rounded(to, map_scalar(PRIM_cast, &n->t->of[k + 1].type, to, &x[k]));
	}
	v[0] = load_element(r, t, n->at[0].buf, element_of(n, 0));
	v[1] = val_rounded(to, map_scalar(PRIM_mul, types, to, x));
	v[0] = val_rounded(to, map_scalar(comb_prim(n->t->comb), types, to, v));
	store_element(r, t, n->at[0].buf, element_of(n, 0), v[0]);
}

/* At each point of the iterators, the last one the innermost. */
static void
run_tensor(struct run_state *r, struct thread *t, struct tensor_run *n, const char *iters)
{
	while (*iters && (*iters < 'a' || *iters > 'z'))
		iters++;
	if (!*iters) {
		join_point(r, t, n);
		return;
	}
	for (int64_t v = 0; v < tensor_extent(n->t, *iters) && !r->failed; v++) {
		n->i[*iters - 'a'] = v;
		run_tensor(r, t, n, iters + 1);
	}
}

static void
start_tensor(struct run_state *r, struct thread *t, const struct tensor_row *row, const ex_id *arg)
{
	struct tensor_run n = {.t = row};

	for (uint32_t of = 0; of < TENSOR_OFS; of++) {
		uint32_t k = tensor_arg(row, of);

		n.at[of] = place_at(r, t, arg[k]);
		if (strlen(row->of[of].at) > 1)
			n.row[of] = eval_ex(r, t, arg[k + 1]).i;
	}
	run_tensor(r, t, &n, row->iters);
}

/* What is no row of these (prefetch) does nothing that a program can see. */
void
run_call(struct run_state *r, struct thread *t, const struct st *s)
{
	const struct tensor_row *row = tensor_row_of(s->ref);
	const ex_id *arg = r->p->arg + s->arg0;

	if (row)
		start_tensor(r, t, row, arg);
	else if (s->ref == INTRIN_turn)
		run_turn(r, t, arg);
	else if (intrin_moves(s->ref))
		run_move(r, t, intrin_moves(s->ref), arg);
	else if (intrin_info[s->ref].comb != COMB_NONE)
		run_fold(r, t, intrin_info[s->ref].comb, arg);
}
