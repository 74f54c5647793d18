/* kernels/interp/program.c: statements of a loop program.  The threads of a GPU's block go through them
 * together, a statement at a time; what hangs on that order is found by the stamps of accesses. */
#include "program_int.h"

#include <stdio.h>
#include <string.h>

void
run_fail(struct run_state *r, const char *rule, const char *fmt, ...)
{
	const struct st *s = r->at < r->p->n_st ? &r->p->st[r->at] : NULL;
	char what[200];
	va_list ap;

	if (r->failed)
		return;
	r->failed = true;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)(err_set)(r->e, strcmp(rule, "limit") == 0 ? ERR_LIMIT : ERR_WRONG, "%s: statement %u (%s): %s",
	    rule, r->at,
	    !s                      ? "none"
		: s->op == ST_block ? r->p->blk[s->ref].name
				    : st_info[s->op].name,
	    what);
}

static void run_range(struct run_state *r, struct team *team, st_id i, st_id end);

/* ---- blocks ---------------------------------------------------------------------------------- */
static bool
bind_iterators(struct run_state *r, struct thread *t, const struct st *s, bool *first)
{
	const struct tir_block *b = &r->p->blk[s->ref];
	struct ixv at = ixv_get(r->p->tx, s->at);

	*first = true;
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &r->p->iter[b->iter0 + k];
		int64_t v = eval_ix(r, t, at.i[k]);

		if (v < 0 || v > tx_axis_get(r->p->tx, it->id)->hi)
			run_fail(r, "binding", "iterator %s is %lld", it->name, (long long)v);
		t->axis[it->id] = v;
		*first &= it->kind != ITER_REDUCE || v == 0;
	}
	return !r->failed;
}

static void
run_block(struct run_state *r, struct thread *t, const struct st *s)
{
	const struct tir_block *b = &r->p->blk[s->ref];
	const struct joiner *j = &r->join[s->ref];
	uint32_t base = r->p->n_var;
	union val v[TIR_OUTS];
	bool first;

	if (!eval_guards(r, t, s) || !bind_iterators(r, t, s, &first))
		return;
	for (uint32_t k = 0; k < b->n_out; k++)
		v[k] = eval_ex(r, t, b->value[k]);
	if (b->comb != COMB_NONE) {
		for (uint32_t k = 0; k < b->n_out; k++) {
			t->var[base + k] =
			    first ? eval_ex(r, t, j->identity[k]) : load_at(r, t, b->out[k], b->at[k]);
			t->var[base + TIR_OUTS + k] = v[k];
		}
		for (uint32_t k = 0; k < b->n_out; k++)
			v[k] = eval_ex(r, t, j->join[k]);
	}
	for (uint32_t k = 0; k < b->n_out; k++)
		store_at(r, t, b->out[k], b->at[k], v[k]);
}

/* ---- one statement, one thread --------------------------------------------------------------------- */
static void
run_leaf(struct run_state *r, struct thread *t, const struct st *s)
{
	switch (s->op) {
	case ST_block:
		run_block(r, t, s);
		return;
	case ST_store:
		store_at(r, t, s->ref, s->at, eval_ex(r, t, s->value));
		return;
	case ST_let:
		t->var[s->ref] = eval_ex(r, t, s->value);
		return;
	case ST_index:
		t->axis[s->axis] = eval_ix(r, t, s->from);
		return;
	case ST_alloc:
		t->mem[s->ref] = memory_new(r, &r->p->buf[s->ref], NULL);
		return;
	case ST_call:
		run_call(r, t, s);
		return;
	case ST_sync:
	case ST_for:
	case ST_if:
	case ST_COUNT:
		return;
	}
}

/* ---- orders ------------------------------------------------------------------------------------------- */
/* The n numbers in the order that was asked for. */
static uint32_t *
order_of(struct run_state *r, uint32_t n)
{
	uint32_t *list = NEW_ARRAY(&r->tmp, uint32_t, n + 1);

	for (uint32_t k = 0; k < n; k++)
		list[k] = r->o->order == ORDER_BACKWARD ? n - 1 - k : k;
	for (uint32_t k = n; k > 1 && r->o->order == ORDER_SHUFFLED; k--) {
		uint32_t q = rng_below(&r->rng, k), swap = list[k - 1];

		list[k - 1] = list[q];
		list[q] = swap;
	}
	return list;
}

static void
run_all(struct run_state *r, struct team *team, const struct st *s)
{
	uint32_t *order;

	if (s->op == ST_alloc &&
	    (r->p->buf[s->ref].scope == SCOPE_shared || r->p->buf[s->ref].scope == SCOPE_spread)) {
		struct memory *m = memory_new(r, &r->p->buf[s->ref], NULL);

		for (uint32_t k = 0; k < team->n; k++)
			team->t[k]->mem[s->ref] = m;
		return;
	}
	if (s->op == ST_sync) {
		if (team->n != team->whole)
			run_fail(r, "barrier", "%u of %u threads come to it", team->n, team->whole);
		r->epoch++;
		return;
	}
	if (team->n == 1) {
		run_leaf(r, team->t[0], s);
		return;
	}
	order = order_of(r, team->n);
	for (uint32_t k = 0; k < team->n && !r->failed; k++)
		run_leaf(r, team->t[order[k]], s);
}

/* ---- loops -----------------------------------------------------------------------------------------------
 */
/* In order; each thread by bounds of its own. */
static void
run_serial(struct run_state *r, struct team *team, st_id i)
{
	const struct st *s = &r->p->st[i];
	int64_t *from = NEW_ARRAY(&r->tmp, int64_t, team->n), *to = NEW_ARRAY(&r->tmp, int64_t, team->n);
	int64_t lo = INT64_MAX, hi = INT64_MIN;
	struct team now = {.t = NEW_ARRAY(&r->tmp, struct thread *, team->n), .whole = team->whole};

	for (uint32_t k = 0; k < team->n; k++) {
		from[k] = eval_ix(r, team->t[k], s->from);
		to[k] = eval_ix(r, team->t[k], s->to);
		lo = MIN_OF(lo, from[k]);
		hi = MAX_OF(hi, to[k]);
	}
	for (int64_t v = lo; v < hi && !r->failed; v++) {
		now.n = 0;
		for (uint32_t k = 0; k < team->n; k++) {
			if (v < from[k] || v >= to[k])
				continue;
			team->t[k]->axis[s->axis] = v;
			now.t[now.n++] = team->t[k];
		}
		if (now.n)
			run_range(r, &now, i + 1, s->end);
	}
}

/* Iterations that may run at the same time, each to its end. */
static void
run_apart(struct run_state *r, struct thread *t, st_id i)
{
	const struct st *s = &r->p->st[i];
	int64_t from = eval_ix(r, t, s->from), n = eval_ix(r, t, s->to) - from;
	uint32_t *order = order_of(r, (uint32_t)MAX_OF(n, (int64_t)0)), loop = r->n_loops++, before = t->who;
	struct team one = {.t = &t, .n = 1, .whole = 1};

	for (int64_t k = 0; k < n && !r->failed; k++) {
		t->axis[s->axis] = from + order[k];
		t->who = who_new(r, before, loop, order[k], 0);
		run_range(r, &one, i + 1, s->end);
	}
	t->who = before;
}

static struct thread *
thread_like(struct run_state *r, const struct thread *t)
{
	struct thread *c = NEW(&r->tmp, struct thread);
	uint32_t n_axes = tx_n_axes(r->p->tx);

	*c = *t;
	c->axis = arena_dup(&r->tmp, t->axis, sizeof(*t->axis) * (n_axes + 1));
	c->var = arena_dup(&r->tmp, t->var, sizeof(*t->var) * (r->p->n_var + 2 * TIR_OUTS));
	c->mem = arena_dup(&r->tmp, t->mem, sizeof(struct memory *) * (r->p->n_buf + 1));
	return c;
}

/* The threads of a block: as many of each thread as the loop says, together from here on.  A thread is the
 * same in every such loop of the block, by its number. */
static void
run_threads(struct run_state *r, struct team *team, st_id i)
{
	const struct st *s = &r->p->st[i];
	int64_t from = eval_ix(r, team->t[0], s->from), n = eval_ix(r, team->t[0], s->to) - from;
	struct team all = {.n = 0};

	all.t = NEW_ARRAY(&r->tmp, struct thread *, (size_t)team->n * (size_t)MAX_OF(n, (int64_t)1));
	for (uint32_t k = 0; k < team->n; k++)
		for (int64_t v = 0; v < n; v++) {
			struct thread *c = thread_like(r, team->t[k]);
			bool nested = r->who[c->who].n_threads > 0;

			c->axis[s->axis] = from + v;
			c->number = c->number * (uint32_t)n + (uint32_t)v;
			c->n_threads = MAX_OF(c->n_threads, 1u) * (uint32_t)n;
			c->who = who_new(r, nested ? r->who[c->who].up : c->who, 0, c->number, c->n_threads);
			all.t[all.n++] = c;
		}
	all.whole = team->n == team->whole ? all.n : team->whole * (uint32_t)n;
	run_range(r, &all, i + 1, s->end);
}

static void
run_for(struct run_state *r, struct team *team, st_id i)
{
	switch (r->p->st[i].bind) {
	case BIND_serial:
	case BIND_unroll:
	case BIND_pipeline:
	case BIND_call:
		run_serial(r, team, i);
		return;
	case BIND_parallel:
	case BIND_vector:
	case BIND_block:
		for (uint32_t k = 0; k < team->n && !r->failed; k++)
			run_apart(r, team->t[k], i);
		return;
	case BIND_warp:
	case BIND_lane:
		run_threads(r, team, i);
		return;
	case BIND_COUNT:
		return;
	}
}

static void
run_if(struct run_state *r, struct team *team, st_id i)
{
	struct team some = {.t = NEW_ARRAY(&r->tmp, struct thread *, team->n), .whole = team->whole};

	for (uint32_t k = 0; k < team->n; k++)
		if (eval_guards(r, team->t[k], &r->p->st[i]))
			some.t[some.n++] = team->t[k];
	if (some.n)
		run_range(r, &some, i + 1, r->p->st[i].end);
}

static void
run_range(struct run_state *r, struct team *team, st_id i, st_id end)
{
	while (i < end && !r->failed) {
		const struct st *s = &r->p->st[i];
		struct arena_mark m = arena_mark(&r->tmp);

		r->at = i;
		r->steps += team->n;
		if (r->o->max_steps && r->steps > r->o->max_steps)
			run_fail(r, "limit", "more than %llu steps", (unsigned long long)r->o->max_steps);
		else if (s->op == ST_for)
			run_for(r, team, i);
		else if (s->op == ST_if)
			run_if(r, team, i);
		else
			run_all(r, team, s);
		arena_reset(&r->tmp, m);
		i = s->end;
	}
}

/* ---- the whole
 * ---------------------------------------------------------------------------------------------- */
static void
make_joiners(struct run_state *r)
{
	const struct tir *p = r->p;

	r->join = NEW_ARRAY(r->a, struct joiner, p->n_blk + 1);
	for (blk_id b = 0; b < p->n_blk; b++) {
		const struct tir_block *k = &p->blk[b];
		ex_id state[TIR_OUTS], value[TIR_OUTS];

		for (uint32_t o = 0; o < k->n_out && k->comb != COMB_NONE; o++) {
			enum dtype t = p->buf[k->out[o]].type;

			r->join[b].identity[o] = comb_identity(p->tx, k->comb, o, t);
			state[o] = ex_var(p->tx, t, p->n_var + o);
			value[o] = ex_var(p->tx, t, p->n_var + TIR_OUTS + o);
		}
		if (k->comb != COMB_NONE)
			comb_join(p->tx, k->comb, state, value, r->join[b].join);
	}
}

/* Element `at` of a constant, through the form's maps of dimensions from d on; base: of those before. */
static double
mapped(const struct tir_form *f, const int64_t *at, int d, enum dtype type, const void *from, int64_t base)
{
	const struct form_map_info *m;
	double sum = 0;

	if (d == f->from_rank)
		return elem_get(type, from, base);
	m = &form_map_info[f->map[d]];
	if (f->map[d] == MAP_none)
		return mapped(f, at, d + 1, type, from, base * f->from_dim[d] + at[d]);
	for (int t = 0; t < m->taps; t++)
		sum += m->w[at[d]][t] * mapped(f, at, d + 1, type, from, base * f->from_dim[d] + t);
	return sum;
}

/* A constant in the form that the program reads it in. */
static const void *
in_form(struct run_state *r, struct thread *t, const struct tir_buf *b, const char *from)
{
	const struct tir_form *f = b->form;
	const struct ixv at = ixv_get(r->p->tx, f->at);
	const size_t size = dtype_size(b->type);
	int64_t n = 1;
	char *to;

	for (int d = 0; d < f->rank; d++)
		n *= tx_axis_get(r->p->tx, f->place[d])->hi + 1;
	to = NEW_ARRAY(r->a, char, (size_t)n *size);
	for (int64_t i = 0; i < n; i++) {
		int64_t left = i, k = 0, place[MAX_RANK];
		bool is_there = true, is_mapped = false;

		for (int d = f->rank; d-- > 0;) {
			const int64_t extent = tx_axis_get(r->p->tx, f->place[d])->hi + 1;

			t->axis[f->place[d]] = left % extent;
			left /= extent;
		}
		for (int d = 0; d < f->from_rank; d++) {
			const int64_t v = eval_ix(r, t, at.i[d]);

			is_there &= f->map[d] != MAP_none || v < f->from_dim[d];
			is_mapped |= f->map[d] != MAP_none;
			place[d] = v;
			k = k * f->from_dim[d] + v;
		}
		if (is_there && is_mapped)
			elem_set(b->type, to, i, mapped(f, place, 0, b->type, from, 0));
		else if (is_there)
			memcpy(to + (size_t)i * size, from + (size_t)k * size, size);
	}
	return to;
}

/* Buffers that are there from the start. */
static void
make_buffers(struct run_state *r, struct thread *t, const void *const *operands)
{
	for (buf_id b = 0; b < r->p->n_buf; b++) {
		const struct tir_buf *f = &r->p->buf[b];

		if (f->alias != BUF_NONE || f->versions > 1)
			run_fail(r, "limit", "%%%s: bytes of another buffer and versions are not interpreted",
			    f->name);
		if (f->role == BUF_OPERAND)
			t->mem[b] = memory_new(
			    r, f, f->form ? in_form(r, t, f, operands[f->index]) : operands[f->index]);
		else if (f->role == BUF_TABLE)
			t->mem[b] = memory_new(r, f, f->data);
		else if (f->role == BUF_RESULT || f->scope == SCOPE_global)
			t->mem[b] = memory_new(r, f, NULL);
	}
}

static void
take_results(struct run_state *r, const struct thread *t, void *const *results)
{
	r->at = ST_NONE;
	for (buf_id b = 0; b < r->p->n_buf && !r->failed; b++) {
		const struct tir_buf *f = &r->p->buf[b];
		int64_t n = 1;

		if (f->role != BUF_RESULT)
			continue;
		for (int d = 0; d < f->rank; d++)
			n *= f->dim[d];
		for (int64_t i = 0; i < n; i++)
			if (!t->mem[b]->defined[i])
				run_fail(r, "undefined", "%%%s[%lld] is a result, and never stored", f->name,
				    (long long)i);
		memcpy(results[f->index], t->mem[b]->data, (size_t)n * dtype_size(f->type));
	}
}

bool
program_run(struct arena *a, const struct tir *p, const void *const *operands, void *const *results,
    const struct program_opts *o, struct err *e)
{
	struct run_state r = {.a = a, .p = p, .o = o, .rng = {o->seed}, .n_loops = 1, .e = e, .at = ST_NONE};
	struct thread t = {0}, *main_thread = &t;
	struct team one = {.t = &main_thread, .n = 1, .whole = 1};

	make_joiners(&r);
	t.axis = NEW_ARRAY(a, int64_t, tx_n_axes(p->tx) + 1);
	t.var = NEW_ARRAY(a, union val, p->n_var + 2 * TIR_OUTS);
	t.mem = NEW_ARRAY(a, struct memory *, p->n_buf + 1);
	who_new(&r, 0, 0, 0, 0); /* NOBODY */
	t.who = who_new(&r, NOBODY, 0, 0, 0);
	make_buffers(&r, &t, operands);
	for (st_id i = 0; i < p->n_st && !r.failed; i = p->st[i].end) {
		run_range(&r, &one, i, p->st[i].end);
		r.epoch++; /* a GPU's kernels run one after the other */
	}
	take_results(&r, &t, results);
	arena_fini(&r.tmp);
	return !r.failed;
}
