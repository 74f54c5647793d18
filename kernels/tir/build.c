/* kernels/tir/build.c: programs are built statement by statement, from the front, or copied with changes. */
#include "tir.h"

#include <stdlib.h>
#include <string.h>

void
tir_begin(struct tir *p, struct arena *a, struct tx *x, enum tir_level level)
{
	*p = (struct tir){.arena = a, .tx = x, .level = level};
}

void
tir_like(struct tir *out, const struct tir *p)
{
	struct arena *a = p->arena;

	*out = *p;
	out->cap_st = p->n_st + p->n_st / 8 + 8; /* most copies are about as long */
	out->st = NEW_ARRAY(a, struct st, out->cap_st);
	out->n_st = out->n_open = 0;
	/* grown apart from now on */
	out->buf = arena_dup(a, p->buf, p->n_buf * sizeof(*p->buf));
	out->blk = arena_dup(a, p->blk, p->n_blk * sizeof(*p->blk));
	out->iter = arena_dup(a, p->iter, p->n_iter * sizeof(*p->iter));
	out->guard = NULL;
	out->arg = NULL;
	out->n_guard = out->cap_guard = out->n_arg = out->cap_arg = 0;
	out->cap_buf = p->n_buf;
	out->cap_blk = p->n_blk;
	out->cap_iter = p->n_iter;
}

st_id
tir_add(struct tir *p, struct st s)
{
	st_id i = p->n_st;

	GROW(p->arena, p->st, p->n_st, p->cap_st);
	s.end = i + 1;
	s.up = p->n_open ? p->open[p->n_open - 1] : ST_NONE;
	p->st[p->n_st++] = s;
	if (st_info[s.op].body) {
		if (p->n_open == TIR_DEPTH)
			bug("loops nested more than %d deep", TIR_DEPTH);
		p->open[p->n_open++] = i;
	}
	return i;
}

void
tir_close(struct tir *p)
{
	if (p->n_open == 0)
		bug("no statement is open");
	p->st[p->open[--p->n_open]].end = p->n_st;
}

axis_id
tir_for(struct tir *p, const char *name, ix_id from, ix_id to, enum tir_bind bind)
{
	int64_t lo = ix_get(p->tx, from)->lo, hi = ix_get(p->tx, to)->hi - 1;
	axis_id a = tx_axis(p->tx, AXIS_OUTER, lo, hi, IX_NONE);

	tir_add(p, (struct st){.op = ST_for, .name = name, .axis = a, .from = from, .to = to, .bind = bind});
	return a;
}

void
tir_call(struct tir *p, enum intrin what, uint32_t n, const ex_id *arg)
{
	struct st s = {.op = ST_call, .ref = what, .arg0 = p->n_arg, .n_arg = n};

	for (uint32_t k = 0; k < n; k++) {
		GROW(p->arena, p->arg, p->n_arg, p->cap_arg);
		p->arg[p->n_arg++] = arg[k];
	}
	tir_add(p, s);
}

void
tir_guards(struct tir *p, struct st *s, uint32_t n, const struct tir_guard *g)
{
	s->guard0 = p->n_guard;
	s->n_guard = n;
	for (uint32_t k = 0; k < n; k++) {
		GROW(p->arena, p->guard, p->n_guard, p->cap_guard);
		p->guard[p->n_guard++] = g[k];
	}
}

buf_id
tir_add_buf(struct tir *p, const struct tir_buf *b)
{
	GROW(p->arena, p->buf, p->n_buf, p->cap_buf);
	p->buf[p->n_buf] = *b;
	return p->n_buf++;
}

struct tir_buf
tir_buf_make(
    const char *name, enum dtype t, enum buf_role role, enum tir_scope scope, int rank, const int64_t *dim)
{
	struct tir_buf b = {.name = name,
	    .type = t,
	    .role = role,
	    .scope = scope,
	    .rank = rank,
	    .layout = IXV_NONE,
	    .alias = BUF_NONE};

	memcpy(b.dim, dim, sizeof(*dim) * (size_t)rank);
	return b;
}

blk_id
tir_add_blk(struct tir *p, const struct tir_block *b)
{
	GROW(p->arena, p->blk, p->n_blk, p->cap_blk);
	p->blk[p->n_blk] = *b;
	return p->n_blk++;
}

axis_id
tir_add_iter(struct tir *p, const char *name, enum iter_kind kind, int64_t extent)
{
	axis_id a = tx_axis(p->tx, kind == ITER_SPACE ? AXIS_PAR : AXIS_RED, 0, extent - 1, IX_NONE);

	GROW(p->arena, p->iter, p->n_iter, p->cap_iter);
	p->iter[p->n_iter++] = (struct tir_iter){.id = a, .kind = kind, .name = name};
	return a;
}

void
tir_nest(struct tir *p, blk_id b)
{
	const struct tir_block blk = p->blk[b];
	ix_id at[IXV_MAX] = {0};

	for (uint32_t k = 0; k < blk.n_iter; k++) {
		const struct tir_iter *it = &p->iter[blk.iter0 + k];
		const int64_t n = tx_axis_get(p->tx, it->id)->hi + 1;
		const char *name = arena_printf(p->arena, "%s.%s", blk.name, it->name);

		at[k] = ix_axis(p->tx, tir_for(p, name, ix_const(p->tx, 0), ix_const(p->tx, n), BIND_serial));
	}
	tir_add(p, (struct st){.op = ST_block, .ref = b, .at = ixv_make(p->tx, blk.n_iter, at)});
	for (uint32_t k = 0; k < blk.n_iter; k++)
		tir_close(p);
}

/* ---- copying ---------------------------------------------------------------------------------- */
static void
copy_lists(
    struct tir *out, const struct tir *p, const struct st *from, const struct tx_subst *to, struct st *s)
{
	s->guard0 = out->n_guard;
	for (uint32_t k = 0; k < from->n_guard; k++) {
		struct tir_guard g = p->guard[from->guard0 + k];

		if (to)
			g.i = ix_subst(p->tx, to, g.i);
		GROW(out->arena, out->guard, out->n_guard, out->cap_guard);
		out->guard[out->n_guard++] = g;
	}
	s->arg0 = out->n_arg;
	for (uint32_t k = 0; k < from->n_arg; k++) {
		ex_id e = p->arg[from->arg0 + k];

		GROW(out->arena, out->arg, out->n_arg, out->cap_arg);
		out->arg[out->n_arg++] = to ? ex_subst(p->tx, to, e) : e;
	}
}

/* Statement i alone. */
static void
copy_one(struct tir *out, const struct tir *p, st_id i, const struct tx_subst *to)
{
	struct st s = p->st[i];

	if (to) {
		if (st_has(s.op, 'F'))
			s.from = ix_subst(p->tx, to, s.from);
		if (st_has(s.op, 'T'))
			s.to = ix_subst(p->tx, to, s.to);
		if (st_has(s.op, 'A'))
			s.at = ixv_subst(p->tx, to, s.at);
		if (st_has(s.op, 'X'))
			s.value = ex_subst(p->tx, to, s.value);
	}
	copy_lists(out, p, &p->st[i], to, &s);
	tir_add(out, s);
}

static void
rewrite_range(struct tir *out, const struct tir *p, st_id i, st_id end, tir_fn *fn, void *self,
    const struct tx_subst *to)
{
	while (i < end) {
		if (fn && fn(self, out, p, i)) {
			i = p->st[i].end;
			continue;
		}
		copy_one(out, p, i, to);
		if (st_info[p->st[i].op].body) {
			rewrite_range(out, p, i + 1, p->st[i].end, fn, self, to);
			tir_close(out);
		}
		i = p->st[i].end;
	}
}

void
tir_copy(struct tir *out, const struct tir *p, st_id i, const struct tx_subst *to)
{
	rewrite_range(out, p, i, p->st[i].end, NULL, NULL, to);
}

void
tir_rewrite(struct tir *out, const struct tir *p, tir_fn *fn, void *self)
{
	tir_like(out, p);
	rewrite_range(out, p, 0, p->n_st, fn, self, NULL);
}
