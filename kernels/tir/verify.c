/* kernels/tir/verify.c: is a loop program well formed: levels, nesting, axes, types, buffers. */
#include "verify_int.h"

#include <stdlib.h>
#include <string.h>

bool
broken(struct err *e, const char *rule, const struct tir *p, st_id i, const char *what)
{
	if (i >= p->n_st)
		return err_set(e, ERR_FAILED, "%s: %s", rule, what);
	const struct st *s = &p->st[i];
	const char *name = s->op == ST_block && s->ref < p->n_blk ? p->blk[s->ref].name
	    : s->name                                             ? s->name
								  : st_info[s->op].name;

	return err_set(e, ERR_FAILED, "%s: statement %u (%s): %s", rule, i, name, what);
}

/* ---- axes --------------------------------------------------------------------------------------- */
struct check {
	const struct tir *p;
	st_id st;
	uint8_t *bound; /* axes: now */
	uint8_t *used;  /* axes: by any loop, index or iterator so far */
	uint8_t *var;   /* numbers of lets: seen now */
	bool ok;
	struct err *e;
};

static void
fail(struct check *c, const char *rule, const char *what)
{
	if (c->ok)
		c->ok = broken(c->e, rule, c->p, c->st, what);
}

static void check_ex(void *self, ex_id e);

static void
check_ix_node(void *self, ix_id i)
{
	struct check *c = self;
	const struct ix *n = ix_get(c->p->tx, i);

	if (n->kind == IX_AXIS && !c->bound[n->a])
		fail(c, "axis", "an axis that nothing around it binds");
}

static void check_read(void *self, const struct ex *read);

/* Every node below an index; reads inside it too. */
static void
check_ix(void *self, ix_id i)
{
	struct check *c = self;

	ix_indices(c->p->tx, i, check_ix_node, c);
	ix_reads(c->p->tx, i, check_read, c);
}

static void
check_read(void *self, const struct ex *n)
{
	struct check *c = self;

	if (n->tensor >= c->p->n_buf)
		fail(c, "buffer", "a read of no buffer");
	else if (ixv_get(c->p->tx, n->at).n != (uint32_t)c->p->buf[n->tensor].rank ||
	    n->type != c->p->buf[n->tensor].type)
		fail(c, "type", "a read of another rank or type than its buffer");
}

static void
check_vars(struct check *c, ex_id e)
{
	const struct ex n = *ex_get(c->p->tx, e);

	if (n.kind == EX_VAR && (n.tensor >= c->p->n_var || c->var[n.tensor] != 1))
		fail(c, "let", "a value that nothing before it names");
	if (n.kind == EX_SCRATCH)
		fail(c, "buffer", "scratch of the other generator");
	for (uint32_t k = 0; k < n.n_arg && c->ok; k++)
		check_vars(c, n.arg[k]);
}

static void
check_ex(void *self, ex_id e)
{
	struct check *c = self;

	ex_indices(c->p->tx, e, check_ix_node, c);
	ex_reads(c->p->tx, e, check_read, c);
	check_vars(c, e);
}

static void
use_axis(struct check *c, axis_id a)
{
	if (a >= tx_n_axes(c->p->tx)) {
		fail(c, "axis", "no such axis");
		return;
	}
	if (c->used[a])
		fail(c, "axis", "an axis is bound twice");
	c->used[a] = c->bound[a] = 1;
}

/* An axis' range is what its bounds allow, neither more nor less: the text says nothing else of it. */
static void
check_range(struct check *c, const struct st *s)
{
	const struct axis *a = tx_axis_get(c->p->tx, s->axis);
	int64_t hi = s->op == ST_for ? ix_get(c->p->tx, s->to)->hi - 1 : ix_get(c->p->tx, s->from)->hi;

	if (a->lo != ix_get(c->p->tx, s->from)->lo || a->hi != hi || a->lo > a->hi)
		fail(c, "range", "the axis' range is not that of its bounds");
}

/* ---- statements ------------------------------------------------------------------------------------ */
static void
check_store(struct check *c, const struct st *s)
{
	const struct tir_buf *b;

	if (s->ref >= c->p->n_buf) {
		fail(c, "buffer", "no such buffer");
		return;
	}
	b = &c->p->buf[s->ref];
	if (b->role == BUF_OPERAND || b->role == BUF_TABLE)
		fail(c, "buffer", "a store into an operand or a table");
	if (s->op == ST_store &&
	    (ixv_get(c->p->tx, s->at).n != (uint32_t)b->rank || ex_get(c->p->tx, s->value)->type != b->type))
		fail(c, "type", "a store of another rank or type than its buffer");
}

static bool
is_first(const struct tir *p, const struct ex *read)
{
	int64_t i;

	return ix_is_const(p->tx, ixv_get(p->tx, read->at).i[0], &i) && i == 0;
}

/* A place is a read; what is written is no operand.  A fold is of an element and of all lanes of an array. */
static void
check_call(struct check *c, const struct st *s)
{
	if (s->ref >= INTRIN_COUNT || s->n_arg != strlen(intrin_info[s->ref].args)) {
		fail(c, "call", "no such instruction, or not its arguments");
		return;
	}
	for (uint32_t k = 0; k < s->n_arg; k++) {
		const struct ex *n = ex_get(c->p->tx, c->p->arg[s->arg0 + k]);

		if (tir_arg_is(s, k, "v"))
			continue;
		if (n->kind != EX_READ || n->tensor >= c->p->n_buf)
			fail(c, "call", "an argument that is no place");
		else if (tir_arg_is(s, k, "wu") && c->p->buf[n->tensor].role <= BUF_TABLE &&
		    c->p->buf[n->tensor].role != BUF_RESULT)
			fail(c, "buffer", "a call writes into an operand or a table");
		else if (intrin_info[s->ref].comb != COMB_NONE &&
		    (c->p->buf[n->tensor].rank != 1 || (tir_arg_is(s, k, "rt") && !is_first(c->p, n))))
			fail(c, "call", "a fold is of an element, and of an array of one dimension");
		else if (!tensor_row_of(s->ref) &&
		    tir_arg_is(s, k, "t") != (c->p->buf[n->tensor].scope == SCOPE_spread))
			fail(c, "call", "what threads hold is folded by a team, and that folds nothing else");
	}
}

/* Of an instruction over a nest: types and scopes are its row's, and rows as long as the buffer's are. */
static void
check_tensor(struct check *c, const struct st *s)
{
	const struct tensor_row *t = tensor_row_of(s->ref);
	const ex_id *arg = c->p->arg + s->arg0;

	for (uint32_t of = 0; t && of < TENSOR_OFS && c->ok; of++) {
		const struct ex n = *ex_get(c->p->tx, arg[tensor_arg(t, of)]);
		const struct tir_buf *b = &c->p->buf[n.tensor];

		if (b->type != t->of[of].type || !(t->of[of].scopes & 1U << b->scope))
			fail(c, "call", "a buffer of another type or scope than the instruction's");
		if (b->fold || b->layout != IXV_NONE || (b->rank == 0 && *t->of[of].at))
			fail(c, "call", "a buffer whose rows do not lie one behind the other");
		if (strlen(t->of[of].at) < 2 || !c->ok)
			continue;
		const struct ex row = *ex_get(c->p->tx, arg[tensor_arg(t, of) + 1]);

		if (row.kind == EX_CONST && row.whole <= 0 && b->scope == SCOPE_spread)
			continue;
		if (row.kind != EX_CONST || row.whole < tensor_extent(t, t->of[of].at[1]) ||
		    row.whole > INT32_MAX || (b->rank > 1 && row.whole != b->dim[b->rank - 1]))
			fail(c, "call", "rows of another length than the buffer's");
	}
}

static void
check_refs(struct check *c, const struct st *s)
{
	switch (s->op) {
	case ST_store:
		check_store(c, s);
		return;
	case ST_alloc:
		if (s->ref >= c->p->n_buf || c->p->buf[s->ref].role != BUF_TEMP ||
		    c->p->buf[s->ref].scope == SCOPE_global)
			fail(c, "alloc", "not a temporary buffer of a thread or a block");
		return;
	case ST_block:
		if (s->ref >= c->p->n_blk || ixv_get(c->p->tx, s->at).n != c->p->blk[s->ref].n_iter)
			fail(c, "binding", "no such block, or not one index an iterator");
		return;
	case ST_let:
		if (s->ref >= c->p->n_var || c->var[s->ref])
			fail(c, "let", "a number that is named twice");
		return;
	case ST_sync:
		if (s->ref >= SCOPE_COUNT || (s->ref != SCOPE_shared && s->ref != SCOPE_global))
			fail(c, "sync", "a barrier is of a shared scope");
		return;
	case ST_for:
		if (s->bind == BIND_call && s->ref >= INTRIN_COUNT)
			fail(c, "call", "no such instruction");
		if ((s->bind == BIND_vector || s->bind == BIND_unroll) &&
		    !ix_is_const(c->p->tx, ix_add(c->p->tx, s->to, ix_mulc(c->p->tx, s->from, -1)), NULL))
			fail(c, "extent", "a vector or unrolled loop has a constant extent");
		return;
	case ST_if:
		if (s->n_guard == 0)
			fail(c, "guard", "an if without a guard");
		return;
	case ST_call:
		check_call(c, s);
		if (c->ok)
			check_tensor(c, s);
		return;
	case ST_index:
	case ST_COUNT:
		return;
	}
}

/* Reads of a block's own axes only. */
static void
check_blocks(struct check *c)
{
	for (blk_id b = 0; b < c->p->n_blk && c->ok; b++) {
		const struct tir_block *k = &c->p->blk[b];

		c->st = ST_NONE;
		for (uint32_t i = 0; i < k->n_iter; i++)
			use_axis(c, c->p->iter[k->iter0 + i].id);
		for (uint32_t o = 0; o < k->n_out && c->ok; o++) {
			struct ixv at = ixv_get(c->p->tx, k->at[o]);
			struct st s = {
			    .op = ST_store, .ref = k->out[o], .at = k->at[o], .value = k->value[o]};

			for (uint32_t d = 0; d < at.n; d++)
				check_ix(c, at.i[d]);
			check_ex(c, k->value[o]);
			if (c->ok)
				check_store(c, &s);
		}
		if (k->n_out == 0 || (k->comb != COMB_NONE && comb_info[k->comb].arity != k->n_out))
			fail(c, "type", "a block with another number of results than its comb");
		for (uint32_t i = 0; i < k->n_iter; i++) {
			const struct tir_iter *it = &c->p->iter[k->iter0 + i];

			for (uint32_t o = 0; o < k->n_out; o++)
				if (it->kind == ITER_REDUCE && ixv_has(c->p->tx, k->at[o], it->id))
					fail(c, "binding", "a reduction's place hangs on a reduce iterator");
			if (it->kind == ITER_REDUCE && k->comb == COMB_NONE)
				fail(c, "binding", "a reduce iterator without a comb");
			c->bound[it->id] = 0;
		}
	}
}

static void check_body(struct check *c, st_id i, st_id end, uint32_t depth);

static void
check_one(struct check *c, st_id i, st_id end, uint32_t depth)
{
	const struct st *s = &c->p->st[i];
	bool level = c->p->level == TIR_NEST ? st_info[s->op].nest : st_info[s->op].flat;

	c->st = i;
	if (!level)
		fail(c, "level", "does not stand in a program of this level");
	if (s->end <= i || s->end > end || (!st_info[s->op].body && s->end != i + 1) || depth >= TIR_DEPTH)
		fail(c, "nesting", "its body ends outside of what it stands in");
	check_refs(c, s);
	if (!c->ok)
		return;
	tir_each(c->p, s, check_ix, check_ex, c);
	if (c->ok && st_has(s->op, 'N')) {
		use_axis(c, s->axis);
		if (c->ok)
			check_range(c, s);
	}
	if (s->op == ST_let)
		c->var[s->ref] = 1;
	if (st_info[s->op].body && c->ok)
		check_body(c, i + 1, s->end, depth + 1);
	if (s->op == ST_for && c->ok)
		c->bound[s->axis] = 0;
}

/* What indices and lets name ends with the body. */
static void
check_body(struct check *c, st_id i, st_id end, uint32_t depth)
{
	for (st_id k = i; k < end && c->ok; k = c->p->st[k].end)
		check_one(c, k, end, depth);
	for (st_id k = i; k < end && c->ok; k = c->p->st[k].end) {
		if (c->p->st[k].op == ST_index)
			c->bound[c->p->st[k].axis] = 0;
		if (c->p->st[k].op == ST_let)
			c->var[c->p->st[k].ref] = 2; /* named, out of sight */
	}
}

/* ---- buffers ----------------------------------------------------------------------------------------- */
/* As many elements as the buffer has, each from an element of the operand, or from behind its last one. */
static bool
form_fits(const struct tir *p, const struct tir_buf *b)
{
	const struct tir_form *f = b->form;
	const struct ixv at = ixv_get(p->tx, f->at);
	int64_t n = 1, places = 1;
	bool ok = b->role == BUF_OPERAND && b->scope == SCOPE_pack && (int)at.n == f->from_rank;

	for (int d = 0; d < b->rank; d++)
		n *= b->dim[d];
	for (int d = 0; d < f->rank; d++)
		places *= tx_axis_get(p->tx, f->place[d])->hi + 1;
	for (uint32_t d = 0; d < at.n; d++)
		ok &= ix_get(p->tx, at.i[d])->lo >= 0 &&
		    (f->map[d] == MAP_none || ix_get(p->tx, at.i[d])->hi < form_map_info[f->map[d]].rows);
	return ok && n == places;
}

static bool
verify_bufs(const struct tir *p, struct err *e)
{
	for (buf_id b = 0; b < p->n_buf; b++) {
		const struct tir_buf *f = &p->buf[b];

		for (buf_id o = 0; o < b; o++) {
			if (strcmp(p->buf[o].name, f->name) == 0)
				return broken(e, "buffer", p, ST_NONE, "two of one name");
			if (f->role <= BUF_RESULT && f->role == p->buf[o].role && f->index == p->buf[o].index)
				return broken(e, "buffer", p, ST_NONE, "two for one operand or result");
		}
		for (int d = 0; d < f->rank; d++)
			if (f->dim[d] < 1)
				return broken(e, "buffer", p, ST_NONE, "an extent below one");
		if (f->role != BUF_TEMP && f->scope != SCOPE_global && f->scope != SCOPE_pack)
			return broken(e, "buffer", p, ST_NONE, "what comes from outside is global");
		if (f->form && !form_fits(p, f))
			return broken(e, "buffer", p, ST_NONE,
			    "a form that is no constant operand's, or of another size");
		if (f->fold && (f->fold < 1 || f->fold_dim >= (uint32_t)f->rank))
			return broken(e, "buffer", p, ST_NONE, "a ring over no dimension");
		if (f->alias != BUF_NONE &&
		    (f->alias >= p->n_buf || p->buf[f->alias].alias != BUF_NONE || f->offset < 0))
			return broken(e, "buffer", p, ST_NONE, "lies in no buffer that has bytes of its own");
	}
	return true;
}

static bool
verify_names(const struct tir *p, struct err *e)
{
	for (st_id i = 0; i < p->n_st; i++)
		for (st_id k = 0; k < i && st_has(p->st[i].op, 'N'); k++)
			if (st_has(p->st[k].op, 'N') && strcmp(p->st[i].name, p->st[k].name) == 0)
				return broken(e, "name", p, i, "two loops of one name");
	return true;
}

bool
tir_verify(const struct tir *p, struct err *e)
{
	uint32_t n_axes = tx_n_axes(p->tx);
	uint8_t *flags = heap_alloc((size_t)2 * n_axes + p->n_var + 1);
	struct check c = {.p = p,
	    .bound = flags,
	    .used = flags + n_axes,
	    .var = flags + 2 * (size_t)n_axes,
	    .ok = true,
	    .e = e};

	if (p->level == TIR_NEST)
		check_blocks(&c);
	check_body(&c, 0, p->n_st, 0);
	free(flags);
	return c.ok && verify_bufs(p, e) && verify_names(p, e) && tensors_match(p, e) && tir_proved(p, e) &&
	    verify_sync(p, e) && verify_order(p, e);
}
