/* kernels/codegen/access.c: what a statement reads and stores, as a list: expressions may be made while it is
 * gone through. */
#include "codegen_int.h"

#include <string.h>

struct noting {
	const struct tir *p;
	struct accesses *l;
};

static void
add(struct noting *n, struct access a)
{
	GROW(n->p->arena, n->l->at, n->l->n, n->l->cap);
	n->l->at[n->l->n++] = a;
}

static void
note_read(void *self, const struct ex *read)
{
	add(self, (struct access){.buf = read->tensor, .place = read->at});
}

static void
note_ex(void *self, ex_id e)
{
	ex_reads(((struct noting *)self)->p->tx, e, note_read, self);
}

static void
note_ix(void *self, ix_id i)
{
	ix_reads(((struct noting *)self)->p->tx, i, note_read, self);
}

/* Of an instruction over a small nest: the last element of a buffer that has all its dimensions. */
static void
note_corner(struct noting *n, const struct tensor_row *t, uint32_t of, const ex_id *arg)
{
	const struct ex e = *ex_get(n->p->tx, arg[tensor_arg(t, of)]);
	struct ixv at = ixv_get(n->p->tx, e.at);
	const uint32_t n_at = (uint32_t)strlen(t->of[of].at);
	ix_id i[MAX_RANK];

	if (at.n < n_at || (n_at > 1 && ex_get(n->p->tx, arg[tensor_arg(t, of) + 1])->whole <= 0))
		return; /* flat, or dealt out: nobody asks for dimensions any more */
	for (uint32_t d = 0; d < at.n; d++)
		i[d] = d + n_at < at.n
		    ? at.i[d]
		    : ix_addc(n->p->tx, at.i[d], tensor_extent(t, t->of[of].at[d + n_at - at.n]) - 1);
	add(n,
	    (struct access){
		.buf = e.tensor, .place = ixv_make(n->p->tx, at.n, i), .goes_on = true, .corners = true});
}

/* What is only written counts as read, too: the list says more than there is, never less. */
static void
note_call(struct noting *n, const struct st *s)
{
	const struct tensor_row *t = tensor_row_of(s->ref);

	for (uint32_t k = 0; k < n->l->n; k++) {
		n->l->at[k].goes_on = true;
		n->l->at[k].corners = t != NULL;
	}
	for (uint32_t of = 0; t && of < TENSOR_OFS; of++)
		note_corner(n, t, of, n->p->arg + s->arg0);
	for (uint32_t k = 0; k < s->n_arg; k++) {
		const struct ex e = *ex_get(n->p->tx, n->p->arg[s->arg0 + k]);

		if (tir_arg_is(s, k, "wu"))
			add(n,
			    (struct access){.buf = e.tensor,
				.place = e.at,
				.stores = true,
				.goes_on = true,
				.corners = t != NULL});
	}
}

void
list_accesses(const struct tir *p, st_id i, struct accesses *out)
{
	struct noting n = {p, out};
	const struct st *s = &p->st[i];

	out->n = 0;
	tir_each(p, s, note_ix, note_ex, &n);
	if (s->op == ST_call)
		note_call(&n, s);
	if (s->op == ST_store)
		add(&n, (struct access){.buf = s->ref, .place = s->at, .stores = true});
}

bool
may_touch(const struct tir *p, st_id i, buf_id buf)
{
	const struct st *s = &p->st[i];
	uint64_t bufs = s->op == ST_store || s->op == ST_alloc ? buf_bit(s->ref) : 0;
	struct ixv at = ixv_get(p->tx, st_has(s->op, 'A') ? s->at : IXV_NONE);

	for (uint32_t k = 0; k < at.n; k++)
		bufs |= ix_get(p->tx, at.i[k])->bufs;
	if (st_has(s->op, 'X'))
		bufs |= ex_get(p->tx, s->value)->bufs;
	if (st_has(s->op, 'F'))
		bufs |= ix_get(p->tx, s->from)->bufs;
	if (st_has(s->op, 'T'))
		bufs |= ix_get(p->tx, s->to)->bufs;
	for (uint32_t k = 0; k < s->n_guard; k++)
		bufs |= ix_get(p->tx, p->guard[s->guard0 + k].i)->bufs;
	for (uint32_t k = 0; k < s->n_arg; k++)
		bufs |= ex_get(p->tx, p->arg[s->arg0 + k])->bufs;
	return bufs & buf_bit(buf);
}

bool
touches(const struct tir *p, st_id first, st_id end, buf_id buf, bool stores_only)
{
	struct accesses l = {.n = 0};

	for (st_id i = first; i < end; i++) {
		if (p->st[i].op == ST_alloc && p->st[i].ref == buf)
			return true;
		if (!may_touch(p, i, buf))
			continue;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			if (l.at[k].buf == buf && (l.at[k].stores || !stores_only))
				return true;
	}
	return false;
}

bool
is_within(const struct tir *p, st_id first, st_id end, enum st_op op, uint32_t ref)
{
	for (st_id i = first; i < end; i++)
		if (p->st[i].op == op && p->st[i].ref == ref)
			return true;
	return false;
}
