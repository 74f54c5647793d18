/* kernels/schedule/stage.c: stage BUFFER LOOP [DIMENSIONS]: what the loop's body (`root`: the program) reads
 * of the buffer is copied first, into a buffer of the iteration's own, and read there.  The copy's dimensions
 * are the buffer's in any order, neighbours as one where that is said: a block of a transposed map has rows
 * both ways.
 *
 * A block that copies all of the buffer is put in front, and moved into the loop as any other (compute_at.c).
 */
#include "step_int.h"

#include <string.h>

struct stage {
	const struct tir *p;
	const struct step *s;
	st_id loop;  /* ST_NONE: root, */
	st_id first; /* before this statement */
	buf_id buf, copy;
	blk_id blk;           /* that copies */
	struct runs r;        /* in the copy's order */
	ix_id iter[MAX_RANK]; /* of the block, likewise */
	struct err *e;
};

/* ---- legality ---------------------------------------------------------------------------------------- */
/* Of "root": the first statement that reads the buffer; all that store into it stand before. */
static bool
find_readers(struct stage *t)
{
	const struct tir *p = t->p;

	t->loop = ST_NONE;
	t->first = p->n_st;
	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_block)
			continue;
		if (t->first < p->n_st && blk_stores_buf(&p->blk[p->st[i].ref], t->buf))
			return refuse(t->e, t->s, "writers", "one stands behind a reader");
		if (t->first == p->n_st && blk_reads_buf(p, &p->blk[p->st[i].ref], t->buf))
			for (t->first = 0; p->st[t->first].end <= i;)
				t->first = p->st[t->first].end;
	}
	if (t->first < p->n_st && p->buf[t->buf].scope != SCOPE_global && p->buf[t->buf].scope != SCOPE_pack)
		return refuse(t->e, t->s, "scope", "the buffer is not there everywhere");
	return t->first < p->n_st || refuse(t->e, t->s, "readers", "there are none");
}

static bool
find_target(struct stage *t)
{
	return str_is(t->s->name[1], "root") ? find_readers(t) : find_loop(t->p, t->s, 1, &t->loop, t->e);
}

static st_id
first_inside(const struct stage *t)
{
	return t->loop == ST_NONE ? t->first : t->loop + 1;
}

static st_id
end_inside(const struct stage *t)
{
	return t->loop == ST_NONE ? t->p->n_st : t->p->st[t->loop].end;
}

/* The buffer does not change while the loop's body runs. */
static bool
is_read_only(const struct stage *t)
{
	for (st_id i = first_inside(t); i < end_inside(t); i++)
		if (t->p->st[i].op == ST_block && blk_stores_buf(&t->p->blk[t->p->st[i].ref], t->buf))
			return refuse(t->e, t->s, "writers", "the loop's body stores into the buffer");
	return true;
}

/* ---- building ------------------------------------------------------------------------------------------ */
static const char *
unique_name(const struct tir *p, const char *like)
{
	const char *name = arena_printf(p->arena, "%s's", like);

	for (buf_id b = 0; b < p->n_buf; b++)
		if (strcmp(p->buf[b].name, name) == 0)
			return unique_name(p, name);
	return name;
}

/* Iterators in the buffer's order, so that its rows are read as they lie. */
static void
add_iterators(struct stage *t, struct tir *out)
{
	for (int d = 0; d < t->p->buf[t->buf].rank; d++)
		for (uint32_t k = 0; k < t->r.n; k++)
			if (t->r.run[k].first == d)
				t->iter[k] = ix_axis(out->tx,
				    tir_add_iter(
					out, arena_printf(out->arena, "i%d", d), ITER_SPACE, t->r.extent[k]));
}

static void
add_block(struct stage *t, struct tir *out)
{
	const struct tir_buf *b = &t->p->buf[t->buf];
	struct tir_block blk = {.iter0 = out->n_iter, .n_iter = t->r.n, .n_out = 1, .comb = COMB_NONE};

	add_iterators(t, out);
	blk.name = arena_printf(out->arena, "t%s", out->buf[t->copy].name);
	blk.out[0] = t->copy;
	blk.at[0] = ixv_make(out->tx, t->r.n, t->iter);
	blk.value[0] = ex_load(out->tx, b->type, t->buf, runs_place(t->p, &t->r, t->iter));
	t->blk = tir_add_blk(out, &blk);
}

/* Loops over all of it. */
static void
add_nest(const struct stage *t, struct tir *out)
{
	const struct tir_block *b = &out->blk[t->blk];
	ix_id at[MAX_RANK];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = out->iter[b->iter0 + k];

		at[k] = ix_axis(out->tx,
		    tir_for(out, arena_printf(out->arena, "%s.%s", b->name, it.name), ix_const(out->tx, 0),
			ix_const(out->tx, tx_axis_get(out->tx, it.id)->hi + 1), BIND_serial));
	}
	tir_add(out, (struct st){.op = ST_block, .ref = t->blk, .at = ixv_make(out->tx, b->n_iter, at)});
	for (uint32_t k = 0; k < b->n_iter; k++)
		tir_close(out);
}

static ex_id
from_copy(void *self, struct tx *x, const struct ex *read, ixv_id where)
{
	const struct stage *t = self;
	ix_id to[MAX_RANK];

	if (read->tensor != t->buf)
		return ex_load(x, read->type, read->tensor, where);
	runs_numbers(t->p, &t->r, where, to);
	return ex_load(x, read->type, t->copy, ixv_make(x, t->r.n, to));
}

/* The blocks below the loop read the copy. */
static void
redirect(struct stage *t, struct tir *out)
{
	struct tx_subst sub = {.load = from_copy, .self = t};

	for (st_id i = first_inside(t); i < end_inside(t); i++) {
		struct tir_block *b = &out->blk[t->p->st[i].ref];

		if (t->p->st[i].op != ST_block || !blk_reads_buf(t->p, b, t->buf))
			continue;
		for (uint32_t o = 0; o < b->n_out; o++) {
			b->at[o] = ixv_subst(out->tx, &sub, b->at[o]);
			b->value[o] = ex_subst(out->tx, &sub, b->value[o]);
		}
	}
}

bool
step_stage(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct stage t = {.p = p, .s = s, .e = e};
	struct step move = *s;
	struct tir all;

	if (!find_buf(p, s, 0, &t.buf, e) || !find_target(&t) || !find_runs(p, s, t.buf, &t.r, e) ||
	    !is_read_only(&t))
		return false;
	tir_like(&all, p);
	const struct tir_buf copy = tir_buf_make(unique_name(p, p->buf[t.buf].name), p->buf[t.buf].type,
	    BUF_TEMP, SCOPE_global, (int)t.r.n, t.r.extent);

	t.copy = tir_add_buf(&all, &copy);
	redirect(&t, &all); /* the blocks that are there; the one that copies reads the buffer itself */
	add_block(&t, &all);
	for (st_id i = 0; i < p->n_st; i = p->st[i].end) {
		if (i == t.first)
			add_nest(&t, &all);
		tir_copy(&all, p, i, NULL);
	}
	if (t.loop == ST_NONE) {
		*out = all;
		return true;
	}
	move.name[0] = str_of(all.blk[t.blk].name);
	return step_compute_at(&all, &move, out, e);
}
