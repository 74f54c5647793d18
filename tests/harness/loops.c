/* tests/harness/loops.c: see the header. */
#include "loops.h"

enum { MOST_WINDOW = 32 };

/* ---- plain blocks into their readers ------------------------------------------------------------------ */
struct inlining {
	const struct tir *p;
	blk_id made; /* a plain block over the whole of a temp */
	ix_id *to;   /* its iterators: indices of a read */
	uint32_t n_to, n_reads;
	ixv_id at; /* of the reads, where all are one */
};

static void
note_read(void *self, const struct ex *read)
{
	struct inlining *f = self;

	if (read->tensor != f->p->blk[f->made].out[0])
		return;
	f->n_reads += f->n_reads == 0 || read->at != f->at;
	f->at = read->at;
}

static int64_t
points(const struct tir *p, const struct tir_block *b)
{
	int64_t n = 1;

	for (uint32_t k = 0; k < b->n_iter; k++)
		n *= tx_axis_get(p->tx, p->iter[b->iter0 + k].id)->hi + 1;
	return n;
}

/* The one block that reads the temp, at one place a point, no more often than it is made; BLK_NONE. */
static blk_id
only_reader(struct inlining *f)
{
	const struct tir *p = f->p;
	blk_id found = BLK_NONE;

	for (blk_id b = 0; b < p->n_blk; b++) {
		f->n_reads = 0;
		for (uint32_t k = 0; k < p->blk[b].n_out; k++)
			ex_reads(p->tx, p->blk[b].value[k], note_read, f);
		if (f->n_reads == 0)
			continue;
		if (f->n_reads > 1 || found != BLK_NONE ||
		    points(p, &p->blk[b]) > points(p, &p->blk[f->made]))
			return BLK_NONE;
		found = b;
	}
	return found;
}

static ex_id
read_made(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	struct inlining *f = self;
	const struct tir_block *m = &f->p->blk[f->made];
	struct ixv place = ixv_get(x, m->at[0]), i = ixv_get(x, at);
	struct tx_subst sub = {.to = f->to, .n = f->n_to};
	axis_id a;

	if (read->tensor != m->out[0])
		return ex_load(x, read->type, read->tensor, at);
	for (uint32_t k = 0; k < place.n; k++)
		if (ix_is_axis(x, place.i[k], &a))
			f->to[a] = i.i[k];
	return ex_subst(x, &sub, m->value[0]);
}

static bool
is_plain(const struct tir *p, blk_id b)
{
	const struct tir_block *m = &p->blk[b];

	for (uint32_t k = 0; k < m->n_iter; k++)
		if (p->iter[m->iter0 + k].kind != ITER_SPACE)
			return false;
	if (m->comb != COMB_NONE || m->n_out != 1 || p->buf[m->out[0]].role != BUF_TEMP || points(p, m) < 2)
		return false;
	for (blk_id o = 0; o < p->n_blk; o++)
		for (uint32_t k = 0; k < p->blk[o].n_out; k++)
			if (o != b && p->blk[o].out[k] == m->out[0])
				return false;
	return true;
}

static blk_id
block_of(const struct tir *p, st_id nest)
{
	for (st_id i = nest; i < p->st[nest].end; i++)
		if (p->st[i].op == ST_block)
			return p->st[i].ref;
	return BLK_NONE;
}

/* Leaves out the nest of the block that has gone into its reader. */
static bool
drop(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct inlining *f = self;

	(void)out;
	return block_of(p, i) == f->made && p->st[i].op == ST_for;
}

static bool
inline_one(const struct tir *p, struct tir *out)
{
	for (blk_id b = 0; b < p->n_blk; b++) {
		struct inlining f = {.p = p, .made = b, .n_to = tx_n_axes(p->tx)};
		blk_id reader = is_plain(p, b) ? only_reader(&f) : BLK_NONE;
		struct tx_subst sub = {.load = read_made, .self = &f};

		if (reader == BLK_NONE)
			continue;
		f.to = NEW_ARRAY(p->arena, ix_id, f.n_to);
		for (uint32_t k = 0; k < f.n_to; k++)
			f.to[k] = IX_NONE;
		tir_rewrite(out, p, drop, &f);
		for (uint32_t k = 0; k < p->blk[reader].n_out; k++)
			out->blk[reader].value[k] = ex_subst(p->tx, &sub, p->blk[reader].value[k]);
		/* it is nobody's reader any more */
		out->blk[b].value[0] = ex_real(p->tx, p->buf[p->blk[b].out[0]].type, 0);
		return true;
	}
	return false;
}

/* ---- bindings --------------------------------------------------------------------------------------------
 */
/* Do all instances below count over the axis in places of their results only? */
static bool
counts_places(const struct tir *p, st_id loop)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		if (p->st[i].op != ST_block)
			continue;
		const struct tir_block *b = &p->blk[p->st[i].ref];
		struct ixv at = ixv_get(p->tx, p->st[i].at);

		for (uint32_t k = 0; k < b->n_iter; k++)
			if (p->iter[b->iter0 + k].kind != ITER_SPACE &&
			    ix_has(p->tx, at.i[k], p->st[loop].axis))
				return false;
	}
	return true;
}

static int64_t
trips(const struct tir *p, st_id i)
{
	int64_t from, to;

	return ix_is_const(p->tx, p->st[i].from, &from) && ix_is_const(p->tx, p->st[i].to, &to) ? to - from
												: INT64_MAX;
}

/* Loops below `loop` that join elements: how often their body runs. */
static int64_t
window(const struct tir *p, st_id loop)
{
	int64_t n = 1;

	for (st_id i = loop; i < p->st[loop].end; i++) {
		int64_t t = p->st[i].op == ST_for && !counts_places(p, i) ? trips(p, i) : 1;

		n = t > MOST_WINDOW ? MOST_WINDOW + 1 : MIN_OF(n * t, (int64_t)MOST_WINDOW + 1);
	}
	return n;
}

void
loops_schedule(const struct tir *p, struct tir *out)
{
	struct tir was;

	tir_rewrite(out, p, NULL, NULL);
	do
		was = *out;
	while (inline_one(&was, out));
	for (st_id i = 0; i < out->n_st; i = out->st[i].end) {
		if (out->st[i].op != ST_for)
			continue;
		bool small = window(out, i) <= MOST_WINDOW;

		if (counts_places(out, i))
			out->st[i].bind = BIND_parallel;
		for (st_id k = i; k < out->st[i].end; k++)
			if (small && out->st[k].op == ST_for && !counts_places(out, k))
				out->st[k].bind = BIND_unroll;
	}
}

bool
loops_c(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct codegen_kernel *k = NEW(a, struct codegen_kernel);
	struct tir nest, scheduled, flat, p;

	*out = (struct kernel_code){.desc.n_packs = 0};
	if (schedule.n)
		return err_set(e, ERR_INFEASIBLE, "schedule: a loop program takes no knobs");
	schedule_lower(a, s, t->strict, &nest);
	loops_schedule(&nest, &scheduled);
	schedule_flat(&scheduled, &flat);
	if (!codegen_run(&flat, NULL, &p, e) || !codegen_c(a, &p, s->g.n_inputs, symbol, k, e))
		return false;
	out->text = k->text;
	out->desc.n_passes = k->n_passes;
	for (uint32_t i = 0; i < k->n_passes; i++)
		out->desc.range[i] = k->range[i];
	out->desc.shared_bytes = k->shared_bytes;
	out->desc.local_bytes = k->local_bytes;
	return true;
}
