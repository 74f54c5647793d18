/* kernels/schedule/stage.c: stage BUFFER LOOP [DIMENSIONS]: what the loop's body reads of the buffer is
 * copied first, into a buffer of the iteration's own, and read there.  The copy's dimensions are the buffer's
 * in any order, neighbours as one where that is said: a block of a transposed map has rows both ways.
 *
 * A block that copies all of the buffer is put in front, and moved into the loop as any other (compute_at.c).
 */
#include "step_int.h"

#include <string.h>

struct stage {
	const struct tir *p;
	const struct step *s;
	st_id loop;
	buf_id buf, copy;
	blk_id blk;                    /* that copies */
	struct step_run run[MAX_RANK]; /* in the copy's order */
	int64_t extent[MAX_RANK];      /* of each run */
	ix_id iter[MAX_RANK];          /* of the block, likewise */
	uint32_t n;
	struct err *e;
};

/* ---- legality ---------------------------------------------------------------------------------------- */
static bool
find_buf(struct stage *t)
{
	struct str name = t->s->name[0];

	for (buf_id b = 0; b < t->p->n_buf && name.n && name.p[0] == '%'; b++)
		if (str_is((struct str){name.p + 1, name.n - 1}, t->p->buf[b].name)) {
			t->buf = b;
			return true;
		}
	return refuse(t->e, t->s, "name", "no such buffer");
}

/* The dimensions as they are, but those of one element. */
static void
default_runs(struct stage *t)
{
	const struct tir_buf *b = &t->p->buf[t->buf];

	for (int d = 0; d < b->rank; d++)
		if (b->dim[d] > 1)
			t->run[t->n++] = (struct step_run){d, d};
}

static bool
find_runs(struct stage *t)
{
	const struct tir_buf *b = &t->p->buf[t->buf];
	bool named[MAX_RANK] = {false};

	memcpy(t->run, t->s->run, sizeof(t->run));
	t->n = t->s->n_run;
	if (t->n == 0)
		default_runs(t);
	for (uint32_t k = 0; k < t->n; k++) {
		t->extent[k] = 1;
		for (int d = t->run[k].first; d <= t->run[k].last; d++) {
			if (d >= b->rank || named[d])
				return refuse(t->e, t->s, "dimensions", "one that is not there, or twice");
			named[d] = true;
			t->extent[k] *= b->dim[d];
		}
		if (t->extent[k] == 1)
			return refuse(t->e, t->s, "dimensions", "one of a single element");
	}
	for (int d = 0; d < b->rank; d++)
		if (!named[d] && b->dim[d] > 1)
			return refuse(t->e, t->s, "dimensions", "one of several elements is left out");
	return t->n > 0 || refuse(t->e, t->s, "dimensions", "a buffer of one element");
}

/* The buffer does not change while the loop's body runs. */
static bool
is_read_only(const struct stage *t)
{
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++)
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

/* Of the buffer's element, where each run's number is given. */
static ixv_id
place_of(const struct stage *t, const ix_id *number)
{
	struct tx *x = t->p->tx;
	const struct tir_buf *b = &t->p->buf[t->buf];
	ix_id at[MAX_RANK];

	for (int d = 0; d < b->rank; d++)
		at[d] = ix_const(x, 0);
	for (uint32_t k = 0; k < t->n; k++) {
		ix_id left = number[k];

		for (int d = t->run[k].last; d > t->run[k].first; d--) {
			at[d] = ix_mod(x, left, b->dim[d]);
			left = ix_div(x, left, b->dim[d]);
		}
		at[t->run[k].first] = left;
	}
	return ixv_make(x, (uint32_t)b->rank, at);
}

/* Iterators in the buffer's order, so that its rows are read as they lie. */
static void
add_iterators(struct stage *t, struct tir *out)
{
	for (int d = 0; d < t->p->buf[t->buf].rank; d++)
		for (uint32_t k = 0; k < t->n; k++)
			if (t->run[k].first == d)
				t->iter[k] = ix_axis(out->tx,
				    tir_add_iter(
					out, arena_printf(out->arena, "i%d", d), ITER_SPACE, t->extent[k]));
}

static void
add_block(struct stage *t, struct tir *out)
{
	const struct tir_buf *b = &t->p->buf[t->buf];
	struct tir_block blk = {.iter0 = out->n_iter, .n_iter = t->n, .n_out = 1, .comb = COMB_NONE};

	add_iterators(t, out);
	blk.name = arena_printf(out->arena, "t%s", out->buf[t->copy].name);
	blk.out[0] = t->copy;
	blk.at[0] = ixv_make(out->tx, t->n, t->iter);
	blk.value[0] = ex_load(out->tx, b->type, t->buf, place_of(t, t->iter));
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
	const struct tir_buf *b = &t->p->buf[t->buf];
	struct ixv at = ixv_get(x, where);
	ix_id to[MAX_RANK];

	if (read->tensor != t->buf)
		return ex_load(x, read->type, read->tensor, where);
	for (uint32_t k = 0; k < t->n; k++) {
		to[k] = ix_const(x, 0);
		for (int d = t->run[k].first; d <= t->run[k].last; d++)
			to[k] = ix_add(x, ix_mulc(x, to[k], b->dim[d]), at.i[d]);
	}
	return ex_load(x, read->type, t->copy, ixv_make(x, t->n, to));
}

/* The blocks below the loop read the copy. */
static void
redirect(struct stage *t, struct tir *out)
{
	struct tx_subst sub = {.load = from_copy, .self = t};

	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++) {
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

	if (!find_buf(&t) || !find_loop(p, s, 1, &t.loop, e) || !find_runs(&t) || !is_read_only(&t))
		return false;
	tir_like(&all, p);
	const struct tir_buf copy = tir_buf_make(unique_name(p, p->buf[t.buf].name), p->buf[t.buf].type,
	    BUF_TEMP, SCOPE_global, (int)t.n, t.extent);

	t.copy = tir_add_buf(&all, &copy);
	redirect(&t, &all); /* the blocks that are there; the one that copies reads the buffer itself */
	add_block(&t, &all);
	add_nest(&t, &all);
	for (st_id i = 0; i < p->n_st; i = p->st[i].end)
		tir_copy(&all, p, i, NULL);
	move.name[0] = str_of(all.blk[t.blk].name);
	return step_compute_at(&all, &move, out, e);
}
