/* kernels/predict/loops_leaf.c: a leaf of a loop program: what its statements do and touch.
 *
 * Statements that stand side by side are one leaf.  What is in registers is no access.  A loop is of lanes
 * where the compiler makes it so: bound `vector`, or the innermost, along what is stored. */
#include "loops_int.h"

#include <math.h>
#include <string.h>

ix_id
loops_resolve(const struct reading *r, ix_id i)
{
	return ix_subst(r->p->tx, &(struct tx_subst){.to = r->to, .n = tx_n_axes(r->p->tx)}, i);
}

static ix_id
place_of(const struct reading *r, ixv_id at)
{
	return loops_resolve(r, ixv_get(r->p->tx, at).i[0]);
}

/* ---- accesses ------------------------------------------------------------------------------------------ */
static enum leaf_home
home_of(const struct tir_buf *b)
{
	switch (b->role) {
	case BUF_OPERAND:
		return HOME_OPERAND;
	case BUF_RESULT:
		return HOME_RESULT;
	case BUF_TABLE:
		return HOME_TABLE;
	case BUF_TEMP:
		return b->scope == SCOPE_global ? HOME_SHARED : HOME_LOCAL;
	}
	bug("a buffer is nowhere that is known");
}

static struct leaf_access
access_at(const struct reading *r, struct place at, bool writes)
{
	const struct tir_buf *b = &r->p->buf[at.buf];
	struct leaf_access x = {
	    .home = home_of(b), .writes = writes, .times = 1, .element = (double)dtype_size(b->type)};

	x.whole = x.element * (double)b->dim[0];
	for (uint32_t i = 0; i < r->around->n; i++) {
		int64_t c = 1;

		x.is_irregular |= !ix_coef(r->p->tx, at.at, r->around->axis[i], &c);
		x.stride[i] = (float)c;
	}
	return x;
}

static bool
moves_alike(const struct leaf_access *x, const struct leaf_access *y, uint32_t n_loops)
{
	bool same = x->writes == y->writes && x->is_irregular == y->is_irregular;

	for (uint32_t i = 0; same && i < n_loops; i++)
		same = fabsf(x->stride[i] - y->stride[i]) < 0.5F;
	return same;
}

/* False: the leaf has touched just that. */
static bool
is_new_place(struct reading *r, struct place at)
{
	for (uint32_t i = 0; i < r->n_places; i++)
		if (r->place[i].buf == at.buf && r->place[i].at == at.at)
			return false;
	GROW(r->tmp, r->place, r->n_places, r->cap_places);
	r->place[r->n_places++] = at;
	return true;
}

/* Places of one buffer that move alike are one access, so many times: a window that is written out. */
static void
add_access(struct reading *r, struct place at, bool writes)
{
	struct program_leaf *l = r->leaf;
	struct leaf_access x;

	if (r->p->buf[at.buf].scope == SCOPE_reg || !is_new_place(r, at))
		return;
	r->is_used[at.buf] = true;
	x = access_at(r, at, writes);
	for (uint32_t i = 0; i < l->n_accesses; i++)
		if (r->first[i].buf == at.buf && moves_alike(&l->access[i], &x, r->around->n)) {
			l->access[i].times++;
			return;
		}
	if (l->n_accesses == LEAF_ACCESSES)
		return;
	r->first[l->n_accesses] = at;
	l->access[l->n_accesses++] = x;
}

struct reads {
	struct arena *a;
	struct place *at;
	uint32_t n, cap;
};

static void
note_read(void *self, const struct ex *read)
{
	struct reads *l = self;

	GROW(l->a, l->at, l->n, l->cap);
	l->at[l->n++] = (struct place){read->tensor, read->ix};
}

static struct reads
reads_of(const struct reading *r, ex_id e)
{
	struct reads l = {.a = r->tmp};

	ex_reads(r->p->tx, e, note_read, &l);
	for (uint32_t i = 0; i < l.n; i++)
		l.at[i].at = loops_resolve(r, l.at[i].at);
	return l;
}

/* ---- statements ------------------------------------------------------------------------------------------
 */
/* Does a read move by each loop?  What a turn of a loop makes for itself is another in each. */
static bool
moves(void *self, const struct ex *from)
{
	const struct reading *r = self;
	struct leaf_access x;
	bool moves;

	if (from->kind == EX_VAR)
		return r->moves_in[from->tensor] == r->around;
	x = access_at(r, (struct place){from->tensor, loops_resolve(r, from->ix)}, false);
	moves = !x.is_irregular;
	for (uint32_t i = r->made_in[from->tensor]; i < r->around->n; i++)
		moves &= r->around->loop[i].extent <= 1 || fabsf(x.stride[i]) > 0;
	return moves;
}

static void
take_value(struct reading *r, ex_id e)
{
	struct reads l = reads_of(r, e);

	program_count(r->p->tx, e, r->leaf->op);
	program_dear(r->p->tx, e, moves, r, r->leaf);
	for (uint32_t i = 0; i < l.n; i++)
		add_access(r, l.at[i], false);
}

static void
take_store(struct reading *r, const struct st *s)
{
	struct place at = {s->ref, place_of(r, s->at)};
	bool computes = ex_get(r->p->tx, s->value)->n_arg > 0;
	double *op = r->leaf->op;

	r->last = at;
	add_access(r, at, true);
	take_value(r, s->value);
	if (computes)
		r->leaf->kind = MAX_OF(r->leaf->kind, r->kind[s->ref]);
	if (computes && r->kind[s->ref] == LEAF_LINEAR && r->is_joined[s->ref]) {
		op[OP_PRODUCT]++; /* a multiplication, and a sum that it joins */
		op[OP_CHEAP] -= 2;
	}
}

static struct place
argument(const struct reading *r, const struct st *call, uint32_t k)
{
	const struct ex e = *ex_get(r->p->tx, r->p->arg[call->arg0 + k]);

	return (struct place){e.tensor, loops_resolve(r, e.ix)};
}

/* Lanes onto each other, in halves. */
static void
take_fold(struct reading *r, const struct st *call)
{
	r->leaf->kind = LEAF_REDUCE;
	r->leaf->op[OP_CHEAP] += log2((double)r->p->buf[argument(r, call, 1).buf].dim[0]);
	add_access(r, argument(r, call, 0), true);
	add_access(r, argument(r, call, 1), false);
}

static void
take_let(struct reading *r, const struct st *s)
{
	take_value(r, s->value);
	r->moves_in[s->ref] = program_moves(r->p->tx, s->value, moves, r) ? r->around : NULL;
}

static void
take(struct reading *r, const struct st *s)
{
	if (s->op == ST_store)
		take_store(r, s);
	else if (s->op == ST_let)
		take_let(r, s);
	else if (s->op == ST_call && intrin_info[s->ref].comb != COMB_NONE)
		take_fold(r, s);
}

/* ---- leaves ----------------------------------------------------------------------------------------------
 */
/* What a reduction starts from is no work of its own. */
static bool
is_start(const struct reading *r, const struct st *s)
{
	return s->op == ST_store && r->is_joined[s->ref] && ex_get(r->p->tx, s->value)->kind == EX_CONST;
}

static void
bind_loops(struct reading *r)
{
	struct program_leaf *l = r->leaf;
	bool joins = r->last.buf != BUF_NONE && r->is_joined[r->last.buf], has_lanes = false;

	for (uint32_t i = 0; i < l->n_loops; i++) {
		struct leaf_loop *x = &l->loop[i];
		int64_t c = 1;
		bool counts = r->last.buf == BUF_NONE ||
		    !ix_coef(r->p->tx, r->last.at, r->around->axis[i], &c) || c != 0;

		x->reduces = joins && !counts && i >= r->made_in[r->last.buf];
		if (i + 1 == l->n_loops && x->bind == BIND_SERIAL && counts && c == 1)
			x->bind = BIND_VECTOR;
		has_lanes |= x->bind == BIND_VECTOR;
		l->is_chain |= x->reduces;
	}
	l->is_chain &= !has_lanes;
}

static struct program_leaf *
begin_leaf(struct reading *r, const struct around *around)
{
	struct program *out = r->out;

	if (out->n_leaves == PROGRAM_MAX_LEAVES)
		return NULL;
	r->leaf = &out->leaf[out->n_leaves];
	*r->leaf = (struct program_leaf){
	    .kind = LEAF_MAP, .pass = r->pass, .is_guess = around->is_guess, .n_loops = around->n};
	memcpy(r->leaf->loop, around->loop, sizeof(around->loop));
	r->around = around;
	r->n_places = 0;
	r->last.buf = BUF_NONE;
	return r->leaf;
}

/* Where nothing is touched or done it is none. */
static void
end_leaf(struct reading *r)
{
	struct program_leaf *l = r->leaf;
	bool is_any = l->n_accesses > 0;

	for (int i = 0; i < OP_COUNT; i++) {
		l->op[i] = fmax(l->op[i], 0);
		is_any |= l->op[i] > 0;
	}
	bind_loops(r);
	if (!is_any || loops_is_row(r))
		return;
	memcpy(r->before.first, r->first, sizeof(r->first));
	r->before.around = *r->around;
	r->before.row_loop = LEAF_LOOPS;
	l->is_tiled = l->kind == LEAF_LINEAR && r->last.buf != BUF_NONE && r->is_joined[r->last.buf] &&
	    r->p->buf[r->last.buf].scope == SCOPE_reg;
	r->out->n_leaves++;
}

void
loops_add_leaf(struct reading *r, const struct around *around, st_id first, st_id end)
{
	if (!begin_leaf(r, around))
		return;
	for (st_id i = first; i < end; i++)
		if (!is_start(r, &r->p->st[i]))
			take(r, &r->p->st[i]);
	end_leaf(r);
}

/* Eight rows become columns: two loops that are written out. */
void
loops_add_turn(struct reading *r, const struct around *around, const struct st *call)
{
	enum { EDGE = 8 };
	struct place from = argument(r, call, 0), to = argument(r, call, 2);
	struct program_leaf *l = begin_leaf(r, around);
	const int64_t step[2] = {ex_get(r->p->tx, r->p->arg[call->arg0 + 1])->whole,
	    ex_get(r->p->tx, r->p->arg[call->arg0 + 3])->whole};

	if (!l || l->n_loops + 2 > LEAF_LOOPS)
		return;
	add_access(r, to, true);
	add_access(r, from, false);
	for (uint32_t k = 0; k < 2; k++) {
		l->loop[l->n_loops + k] = (struct leaf_loop){EDGE, k ? BIND_VECTOR : BIND_UNROLLED, false};
		for (uint32_t i = 0; i < l->n_accesses; i++)
			l->access[i].stride[l->n_loops + k] =
			    l->access[i].writes == (k == 1) ? 1 : (float)step[k];
	}
	end_leaf(r);
	l->n_loops += 2;
}

void
loops_find_joined(struct reading *r)
{
	for (st_id i = 0; i < r->p->n_st; i++) {
		const struct st *s = &r->p->st[i];
		struct reads l;

		if (s->op == ST_call && intrin_info[s->ref].comb != COMB_NONE)
			r->is_joined[argument(r, s, 0).buf] = true;
		if (s->op != ST_store)
			continue;
		l = reads_of(r, s->value);
		for (uint32_t k = 0; k < l.n; k++)
			r->is_joined[s->ref] |= l.at[k].buf == s->ref && l.at[k].at == place_of(r, s->at);
	}
}
