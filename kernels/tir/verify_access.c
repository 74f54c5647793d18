/* kernels/tir/verify_access.c: every read and store stays inside its buffer, every binding inside its
 * iterator, by the loops and guards around it; where an expression has guards, its arms know them. */
#include "known.h"
#include "verify_int.h"

enum { LANES = 32 };

struct access {
	const struct tir *p;
	struct tir_facts f;
	const struct tir_known *known;
	bool ok;
};

static void
check_at(struct access *a, buf_id buf, ixv_id at)
{
	const struct tir_buf *b = &a->p->buf[buf];
	struct ixv v = ixv_get(a->p->tx, at);

	for (uint32_t d = 0; d < v.n && a->ok; d++)
		a->ok = facts_hold(&a->f, v.i[d], 0, b->dim[d]);
}

static void check_value(struct access *a, ex_id e);

/* Values inside an index. */
static void
check_index(struct access *a, ix_id i)
{
	const struct ix n = *ix_get(a->p->tx, i);

	for (uint32_t k = 0; k < n.n_terms && a->ok; k++)
		check_index(a, n.terms[k].atom);
	if (n.kind == IX_DIV || n.kind == IX_MOD || n.kind == IX_MIN || n.kind == IX_MAX)
		check_index(a, n.a);
	if (n.kind == IX_MIN || n.kind == IX_MAX)
		check_index(a, n.b);
	if (n.kind == IX_VALUE)
		check_value(a, n.a);
}

static void
check_arms(struct access *a, const struct ex *n)
{
	struct tir_guard g = {n->ix, n->lo, n->hi};
	uint32_t known = a->f.n_guard;
	bool never = a->f.never;

	facts_add(&a->f, g, true);
	check_value(a, n->arg[0]);
	a->f.n_guard = known;
	facts_add(&a->f, g, false);
	check_value(a, n->arg[1]);
	a->f.n_guard = known;
	a->f.never = never;
}

static void
check_value(struct access *a, ex_id e)
{
	const struct ex n = *ex_get(a->p->tx, e);
	struct ixv v = ixv_get(a->p->tx, n.at);

	if (!a->ok)
		return;
	if (n.kind == EX_GUARD || n.kind == EX_INDEX)
		check_index(a, n.ix);
	if (n.kind == EX_READ) {
		for (uint32_t d = 0; d < v.n; d++)
			check_index(a, v.i[d]);
		check_at(a, n.tensor, n.at);
	}
	if (n.kind == EX_GUARD)
		check_arms(a, &n);
	else
		for (uint32_t k = 0; k < n.n_arg; k++)
			check_value(a, n.arg[k]);
}

/* From the place on, the last element of 8 rows a stride apart; the buffer is flat. */
static void
check_rows(struct access *a, ex_id place, ex_id stride)
{
	const struct ex *s = ex_get(a->p->tx, stride);
	const struct ex n = *ex_get(a->p->tx, place);
	struct ixv at = ixv_get(a->p->tx, n.at);
	const bool counts = s->kind == EX_CONST && s->whole >= 8 && s->whole < INT32_MAX;
	const int64_t last = 7 * (counts ? s->whole : 0) + 7;
	ix_id i;

	a->ok = a->ok && counts && at.n == 1 && dtype_size(n.type) == 4;
	if (!a->ok)
		return;
	i = ix_addc(a->p->tx, at.i[0], last);
	check_at(a, n.tensor, ixv_make(a->p->tx, 1, &i));
}

/* The last element of a word that is moved from the place on; the buffer is flat, and begins and ends at
 * whole words. */
static void
check_word(struct access *a, ex_id place, int64_t bytes)
{
	const struct ex n = *ex_get(a->p->tx, place);
	const struct ixv at = ixv_get(a->p->tx, n.at);
	const int64_t size = (int64_t)dtype_size(n.type);
	int64_t over;

	a->ok = a->ok && at.n == 1 && bytes % size == 0 && a->p->buf[n.tensor].dim[0] * size % bytes == 0 &&
	    ix_is_const(a->p->tx, ix_mod(a->p->tx, at.i[0], bytes / size), &over) && over == 0;
	if (!a->ok)
		return;
	const ix_id i = ix_addc(a->p->tx, at.i[0], bytes / size - 1);

	check_at(a, n.tensor, ixv_make(a->p->tx, 1, &i));
}

/* The last element that an instruction over a nest touches of one buffer, by dimensions or of a flat one. */
static void
check_tensor(struct access *a, const struct tensor_row *t, uint32_t of, const ex_id *arg)
{
	struct tx *x = a->p->tx;
	const char *letters = t->of[of].at;
	const struct ex n = *ex_get(x, arg[tensor_arg(t, of)]);
	struct ixv at = ixv_get(x, n.at);
	const int64_t last[] = {letters[0] ? tensor_extent(t, letters[0]) - 1 : 0,
	    letters[0] && letters[1] ? tensor_extent(t, letters[1]) - 1 : 0};
	ix_id i[MAX_RANK];

	for (uint32_t d = 0; d < at.n; d++)
		i[d] = at.i[d];
	const bool is_matrix = letters[0] && letters[1];
	const int64_t row = is_matrix ? ex_get(x, arg[tensor_arg(t, of) + 1])->whole : 0;

	if (is_matrix && at.n == 1)
		i[0] = ix_addc(x, i[0], tensor_element(last[0], last[1], row));
	else if (is_matrix && row <= 0) /* spread: of a warp's lanes */
		i[at.n - 1] = ix_addc(x, i[at.n - 1], LANES - 1);
	else
		for (uint32_t k = 0, n_at = letters[0] && letters[1] ? 2 : letters[0] != 0; k < n_at; k++)
			i[at.n - n_at + k] = ix_addc(x, i[at.n - n_at + k], last[k]);
	check_at(a, n.tensor, ixv_make(x, at.n, i));
}

static void
check_call(struct access *a, const struct st *s)
{
	const ex_id *arg = a->p->arg + s->arg0;
	const struct tensor_row *t = tensor_row_of(s->ref);

	for (uint32_t k = 0; k < s->n_arg; k++)
		check_value(a, arg[k]);
	for (uint32_t of = 0; t && of < TENSOR_OFS; of++)
		check_tensor(a, t, of, arg);
	for (uint32_t k = 0; intrin_moves(s->ref) && k < s->n_arg; k++)
		check_word(a, arg[k], intrin_moves(s->ref));
	if (s->ref != INTRIN_turn)
		return;
	check_rows(a, arg[0], arg[1]);
	check_rows(a, arg[2], arg[3]);
}

static bool
check_block(const struct tir *p, const struct tir_block *b)
{
	struct access a = {.p = p, .f = {.x = p->tx}, .ok = true};

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &p->iter[b->iter0 + k];

		a.f.range[a.f.n_range++] = (struct tir_range){
		    it->id, ix_const(p->tx, 0), ix_const(p->tx, tx_axis_get(p->tx, it->id)->hi + 1)};
	}
	for (uint32_t o = 0; o < b->n_out; o++) {
		struct ixv v = ixv_get(p->tx, b->at[o]);

		for (uint32_t d = 0; d < v.n; d++)
			check_index(&a, v.i[d]);
		check_at(&a, b->out[o], b->at[o]);
		check_value(&a, b->value[o]);
	}
	return a.ok;
}

static bool
check_bindings(const struct access *a, const struct st *s)
{
	const struct tir_block *b = &a->p->blk[s->ref];
	struct ixv v = ixv_get(a->p->tx, s->at);

	for (uint32_t k = 0; k < v.n; k++)
		if (!facts_hold(&a->f, v.i[k], 0, tx_axis_get(a->p->tx, a->p->iter[b->iter0 + k].id)->hi + 1))
			return false;
	return true;
}

/* Statement i, with what holds there. */
static bool
check_one(struct access *a, st_id i, struct err *e)
{
	const struct st *s = &a->p->st[i];

	if (s->op == ST_block && !check_bindings(a, s))
		return broken(e, "binding", a->p, i, "an iterator may leave its range");
	if (s->op == ST_store)
		check_at(a, s->ref, s->at);
	if (s->op == ST_store || s->op == ST_let)
		check_value(a, s->value);
	if (s->op == ST_call)
		check_call(a, s);
	return a->ok || broken(e, "bounds", a->p, i, "an access may leave its buffer");
}

struct known {
	uint32_t n_range, n_guard;
	bool never;
};

static struct known
known_now(const struct access *a)
{
	return (struct known){a->f.n_range, a->f.n_guard, a->f.never};
}

static void
forget_since(struct access *a, struct known k)
{
	a->f.n_range = k.n_range;
	a->f.n_guard = k.n_guard;
	a->f.never = k.never;
}

/* What holds is gathered on the way down, once for all statements of a body. */
static bool
check_body(struct access *a, st_id i, st_id end, struct err *e)
{
	const struct known before = known_now(a);

	for (st_id k = i; k < end; k = a->p->st[k].end) {
		const struct st *s = &a->p->st[k];
		const struct known here = known_now(a);

		if (s->op == ST_for && s->up == ST_NONE && s->axis < a->known->n_loop &&
		    a->known->loop[s->axis])
			continue;
		facts_add_statement(&a->f, a->p, k);
		if (st_info[s->op].body ? !check_body(a, k + 1, s->end, e) : !check_one(a, k, e))
			return false;
		if (s->op != ST_index)
			forget_since(a, here);
	}
	forget_since(a, before);
	return true;
}

bool
tir_proved_but(const struct tir *p, const struct tir_known *known, struct err *e)
{
	struct access a = {.p = p, .f = {.x = p->tx}, .ok = true, .known = known};

	for (blk_id b = 0; b < p->n_blk && p->level == TIR_NEST; b++)
		if (!(known->n_loop && known->blk[b]) && !check_block(p, &p->blk[b]))
			return err_set(e, ERR_FAILED, "bounds: block %s: an access may leave its buffer",
			    p->blk[b].name);
	return check_body(&a, 0, p->n_st, e);
}

bool
tir_proved(const struct tir *p, struct err *e)
{
	const struct tir_known none = {.n_loop = 0};

	return tir_proved_but(p, &none, e);
}
