/* kernels/codegen/pipeline.c: what a loop bound `pipeline` makes first is made n - 1 iterations ahead, each
 * in a version of its own of the buffer:
 *
 *   for k in 0..8 pipeline 2                alloc %s
 *     alloc %s                              store %s[0, ..] = %0[0, ..]
 *     store %s[..] = %0[k, ..]        ->    for k in 0..7
 *     store %1[..] = .. %s[..]                store %s[(k + 1) mod 2, ..] = %0[k + 1, ..]
 *                                             store %1[..] = .. %s[k mod 2, ..]
 *                                           store %1[..] = .. %s[1, ..]
 *
 * Where threads share the buffer a barrier begins each iteration: what it reads is there, and what it makes
 * replaces what all are done with. */
#include "codegen_int.h"

#include <string.h>

struct piping {
	const struct tir *p;
	struct tir *out;
	st_id loop;
	struct pipeline l;
	struct copying c;
	int64_t from, to, n;
	ix_id slot; /* of the statements that are being copied */
	bool changed;
};

/* ---- versions ------------------------------------------------------------------------------------------ */
static ixv_id
in_slot(const struct piping *q, ixv_id at)
{
	struct ixv v = ixv_get(q->p->tx, at);
	ix_id i[MAX_RANK + 1] = {q->slot};

	memcpy(i + 1, v.i, v.n * sizeof(*i));
	return ixv_make(q->p->tx, v.n + 1, i);
}

static ex_id
load_slot(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct piping *q = self;

	return ex_load(x, read->type, read->tensor, q->l.staged[read->tensor] ? in_slot(q, at) : at);
}

/* Statements of `out` from there on, with their guards and arguments, are of one version. */
static void
set_slot(struct piping *q, st_id first, uint32_t guard, uint32_t arg)
{
	struct tir *out = q->out;
	const struct tx_subst sub = {.load = load_slot, .self = q};

	for (st_id i = first; i < out->n_st; i++) {
		struct st *s = &out->st[i];

		if (st_has(s->op, 'F'))
			s->from = ix_subst(out->tx, &sub, s->from);
		if (st_has(s->op, 'T'))
			s->to = ix_subst(out->tx, &sub, s->to);
		if (st_has(s->op, 'X'))
			s->value = ex_subst(out->tx, &sub, s->value);
		if (st_has(s->op, 'A'))
			s->at = ixv_subst(out->tx, &sub, s->at);
		if (s->op == ST_store && q->l.staged[s->ref])
			s->at = in_slot(q, s->at);
	}
	for (; guard < out->n_guard; guard++)
		out->guard[guard].i = ix_subst(out->tx, &sub, out->guard[guard].i);
	for (; arg < out->n_arg; arg++)
		out->arg[arg] = ex_subst(out->tx, &sub, out->arg[arg]);
}

static void
add_versions(struct piping *q)
{
	for (buf_id b = 0; b < q->p->n_buf; b++) {
		struct tir_buf *f = &q->out->buf[b];

		if (!q->l.staged[b])
			continue;
		memmove(f->dim + 1, f->dim, (size_t)f->rank * sizeof(*f->dim));
		f->dim[0] = q->n;
		f->rank++;
		if (f->scope == SCOPE_reg) /* which version it is says an index */
			f->scope = SCOPE_local;
		tir_add(q->out, (struct st){.op = ST_alloc, .ref = b});
	}
}

/* ---- iterations ---------------------------------------------------------------------------------------- */
/* Does the statement of the body run ahead?  Allocs of what does stand before the loop; barriers are put
 * anew. */
static bool
is_part(const struct piping *q, st_id i, bool ahead)
{
	const struct st *s = &q->p->st[i];

	if (s->op == ST_alloc)
		return !ahead && !q->l.staged[s->ref];
	if (s->op == ST_sync && q->l.waits && (i < q->l.rest || s->end == q->p->st[q->loop].end))
		return false;
	return (i < q->l.rest) == ahead;
}

/* What runs ahead, or the rest, of iteration `at`. */
static void
add_part(struct piping *q, ix_id at, bool ahead)
{
	struct tx *x = q->p->tx;
	const st_id first = q->out->n_st;
	const uint32_t guard = q->out->n_guard, arg = q->out->n_arg;

	q->c.to[q->p->st[q->loop].axis] = at;
	q->slot = ix_mod(x, ix_addc(x, at, -q->from), q->n);
	for (st_id i = q->loop + 1; i < q->p->st[q->loop].end; i = q->p->st[i].end)
		if (is_part(q, i, ahead))
			copy_fresh(&q->c, i, q->p->st[i].end);
	set_slot(q, first, guard, arg);
}

static void
add_barrier(struct piping *q)
{
	if (q->l.waits)
		tir_add(q->out, (struct st){.op = ST_sync, .ref = SCOPE_shared});
}

static void
expand(struct piping *q)
{
	struct tx *x = q->p->tx;
	const int64_t ahead = q->n - 1;

	copying_begin(&q->c, q->out, q->p, q->loop);
	add_versions(q);
	for (int64_t v = q->from; v < q->from + ahead; v++)
		add_part(q, ix_const(x, v), true);
	const ix_id k = ix_axis(x,
	    tir_for(q->out, q->p->st[q->loop].name, ix_const(x, q->from), ix_const(x, q->to - ahead),
		BIND_serial));

	add_barrier(q);
	add_part(q, ix_addc(x, k, ahead), true);
	add_part(q, k, false);
	tir_close(q->out);
	for (int64_t v = q->to - ahead; v < q->to; v++) {
		add_barrier(q);
		add_part(q, ix_const(x, v), false);
	}
	add_barrier(q);
	copying_end(&q->c);
}

/* In order, where nothing may run ahead any more. */
static void
add_serial(struct piping *q)
{
	const st_id first = q->out->n_st;

	tir_copy(q->out, q->p, q->loop, NULL);
	q->out->st[first].bind = BIND_serial;
}

static bool
pipe(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct piping *q = self;
	const char *rule, *why;

	if (q->changed || p->st[i].op != ST_for || p->st[i].bind != BIND_pipeline)
		return false;
	*q = (struct piping){.p = p, .out = out, .loop = i, .n = p->st[i].depth, .changed = true};
	if (pipeline_find(p, i, &q->l, &rule, &why) && ix_is_const(p->tx, p->st[i].from, &q->from) &&
	    ix_is_const(p->tx, p->st[i].to, &q->to))
		expand(q);
	else
		add_serial(q);
	return true;
}

enum { MOST_PIPELINES = 64 };

void
codegen_pipeline(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	struct piping q = {.changed = true};

	for (int n = 0; n < MOST_PIPELINES && q.changed; n++) {
		q.changed = false;
		tir_rewrite(out, &was, pipe, &q);
		was = *out;
	}
}
