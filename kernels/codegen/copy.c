/* kernels/codegen/copy.c: copies of statements.  A loop's axis and name are its own, so each copy of a loop
 * gets others, and what its bounds are known to be simplifies what hangs on it. */
#include "codegen_int.h"

#include <stdlib.h>
#include <string.h>

void
copying_begin(struct copying *c, struct tir *out, const struct tir *p, st_id i)
{
	*c = (struct copying){.out = out, .p = p, .n_to = tx_n_axes(p->tx), .behind = p->st[i].end};
	c->to = heap_alloc((c->n_to + 1) * sizeof(*c->to));
	memset(c->to, 0xff, (c->n_to + 1) * sizeof(*c->to));
}

void
copying_end(struct copying *c)
{
	free(c->to);
}

static bool
is_taken(const struct copying *c, const char *name)
{
	if (tir_find_loop(c->out, str_of(name)) != ST_NONE)
		return true;
	for (st_id i = c->behind; i < c->p->n_st; i++)
		if (c->p->st[i].op == ST_for && strcmp(c->p->st[i].name, name) == 0)
			return true;
	return false;
}

/* A name that was given is taken for good, so the next is looked for behind it: a loop is copied hundreds of
 * times. */
const char *
fresh_name(struct copying *c, const char *like)
{
	struct named *last = &c->named[(uintptr_t)like / sizeof(void *) % COUNT_OF(c->named)];
	uint32_t n = last->like == like ? last->n + 1 : 0;
	const char *name = like;

	if (n)
		name = arena_printf(c->out->arena, "%s'%u", like, n);
	while (is_taken(c, name))
		name = arena_printf(c->out->arena, "%s'%u", like, ++n);
	*last = (struct named){like, n};
	return name;
}

static void
copy_loop(struct copying *c, st_id i)
{
	const struct st *s = &c->p->st[i];
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	ix_id from = ix_subst(c->p->tx, &sub, s->from), to = ix_subst(c->p->tx, &sub, s->to);
	axis_id a;

	if (ix_get(c->p->tx, to)->hi <= ix_get(c->p->tx, from)->lo)
		return; /* never entered, and an axis has no range of nothing */
	a = tir_for(c->out, fresh_name(c, s->name), from, to, s->bind);
	c->to[s->axis] = ix_axis(c->p->tx, a);
	copy_fresh(c, i + 1, s->end);
	tir_close(c->out);
	c->to[s->axis] = IX_NONE;
}

static void
copy_if(struct copying *c, st_id i)
{
	const struct st *s = &c->p->st[i];
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	struct tir_guard g[TIR_DEPTH];
	struct st test = {.op = ST_if};
	uint32_t n = 0;

	for (uint32_t k = 0; k < s->n_guard; k++) {
		struct tir_guard x = c->p->guard[s->guard0 + k];

		x.i = ix_subst(c->p->tx, &sub, x.i);
		const struct ix *r = ix_get(c->p->tx, x.i);

		if (r->hi < x.lo || r->lo >= x.hi)
			return; /* never */
		if ((r->lo < x.lo || r->hi >= x.hi) && n < TIR_DEPTH)
			g[n++] = x;
	}
	if (n) {
		tir_guards(c->out, &test, n, g);
		tir_add(c->out, test);
	}
	copy_fresh(c, i + 1, s->end);
	if (n)
		tir_close(c->out);
}

static void
copy_index(struct copying *c, st_id i)
{
	struct tx *x = c->p->tx;
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	struct st s = c->p->st[i];
	const axis_id was = s.axis;

	s.name = arena_printf(c->out->arena, "%s'%u", s.name, c->out->n_st);
	s.from = ix_subst(x, &sub, s.from);
	s.axis = tx_axis(x, AXIS_OUTER, ix_get(x, s.from)->lo, ix_get(x, s.from)->hi, IX_NONE);
	tir_add(c->out, s);
	c->to[was] = ix_axis(x, s.axis);
}

void
copy_fresh(struct copying *c, st_id first, st_id end)
{
	struct tx_subst sub = {.to = c->to, .n = c->n_to};

	for (st_id i = first; i < end; i = c->p->st[i].end)
		switch (c->p->st[i].op) {
		case ST_for:
			copy_loop(c, i);
			break;
		case ST_if:
			copy_if(c, i);
			break;
		case ST_index:
			copy_index(c, i);
			break;
		default:
			tir_copy(c->out, c->p, i, &sub);
		}
}

st_id
end_of_body(const struct tir *p, st_id i)
{
	return p->st[i].up == ST_NONE ? p->n_st : p->st[p->st[i].up].end;
}

bool
same_body(const struct tir *p, st_id a, st_id b)
{
	return p->st[a].up == p->st[b].up;
}

void
copy_each(struct tir *out, const struct tir *p, st_id i, int64_t from, int64_t to)
{
	struct copying c;

	copying_begin(&c, out, p, i);
	for (int64_t v = from; v < to; v++) {
		c.to[p->st[i].axis] = ix_const(p->tx, v);
		copy_fresh(&c, i + 1, p->st[i].end);
	}
	copying_end(&c);
}

void
rewrite_all(struct tir *out, const struct tir *p, tir_fn *fn)
{
	struct tir was = *p;
	bool changed = true;

	for (int n = 0; n < TIR_DEPTH && changed; n++) {
		changed = false;
		tir_rewrite(out, &was, fn, &changed);
		was = *out;
	}
}
