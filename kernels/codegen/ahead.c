/* kernels/codegen/ahead.c: a loop that goes through a packed weight row by row asks for the lines that it
 * reads half a page later:
 *
 *                                                for k in 0..2048
 *                                                  call prefetch(%1[32*k], 512)
 *   for k in 0..2048                               call prefetch(%1[32*k + 16], 512)
 *     for j in 0..32 vector            ->          for j in 0..32 vector
 *       store %5[j] = add(%5[j], ..%1[32*k + j])     store %5[j] = add(%5[j], ..%1[32*k + j])
 *
 * A dozen rows of a tile meet a line of the weight, so few lines are within what a core looks ahead by
 * itself; where weights come from memory, products wait (tests/bench/RESULTS.md, "Weights from memory").
 * What is behind the last row is the next panel. */
#include "codegen_int.h"

enum {
	LINE = 64,            /* bytes */
	AHEAD = 2048,         /* bytes; from 512 to 4096 all do */
	LEAST_TRIPS = 8,      /* of the loop */
	LEAST_WEIGHT = 32768, /* bytes; less is near for all tiles */
	MOST_LINES = 8        /* an iteration */
};

struct ahead {
	const struct tir *p;
	struct {
		buf_id buf;
		ixv_id at;
	} line[MOST_LINES];
	uint32_t n;
};

/* The place with a constant in place of the axis. */
static ixv_id
put_at(struct tx *x, ixv_id place, axis_id a, int64_t value)
{
	const ix_id to = ix_const(x, value);
	const struct tx_subst sub = {.to = &to, .first = a, .n = 1};

	return ixv_subst(x, &sub, place);
}

static void
add_line(struct ahead *h, buf_id b, ixv_id at)
{
	for (uint32_t k = 0; k < h->n; k++)
		if (h->line[k].buf == b && h->line[k].at == at)
			return;
	if (h->n < MOST_LINES) {
		h->line[h->n].buf = b;
		h->line[h->n++].at = at;
	}
}

/* The lines of a row of the weight that loop `row` reads; loop `around` goes on to the next row. */
static void
note_row(struct ahead *h, st_id around, st_id row, const struct access *a)
{
	const struct tir *p = h->p;
	const struct tir_buf *b = &p->buf[a->buf];
	const struct ixv at = ixv_get(p->tx, a->place);
	const int64_t size = (int64_t)dtype_size(b->type);
	int64_t step, one, n;

	if (a->stores || b->scope != SCOPE_pack || at.n != 1 || b->dim[0] * size < LEAST_WEIGHT ||
	    !ix_is_const(p->tx, p->st[row].to, &n) || !ix_coef(p->tx, at.i[0], p->st[row].axis, &one) ||
	    one != 1 || !ix_coef(p->tx, at.i[0], p->st[around].axis, &step) || step < n || step > 2 * n)
		return;
	for (int64_t k = 0; k < n; k += LINE / size)
		add_line(h, a->buf, put_at(p->tx, a->place, p->st[row].axis, k));
}

static bool
ahead(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct ahead h = {.p = p};
	struct accesses *l = self;
	const struct st *s = &p->st[i];
	int64_t from, to;

	if (s->op != ST_for || s->bind != BIND_serial ||
	    (ix_is_const(p->tx, s->from, &from) && ix_is_const(p->tx, s->to, &to) && to - from < LEAST_TRIPS))
		return false;
	for (st_id row = i + 1; row < s->end; row = p->st[row].end) {
		if (p->st[row].op != ST_for || p->st[row].end != row + 2 ||
		    !ix_is_const(p->tx, p->st[row].from, &from) || from != 0)
			continue;
		list_accesses(p, row + 1, l);
		for (uint32_t k = 0; k < l->n; k++)
			note_row(&h, i, row, &l->at[k]);
	}
	if (h.n == 0)
		return false;
	tir_add(out, *s);
	for (uint32_t k = 0; k < h.n; k++) {
		const struct tir_buf *b = &p->buf[h.line[k].buf];
		const ex_id arg[] = {ex_load(out->tx, b->type, h.line[k].buf, h.line[k].at),
		    ex_whole(out->tx, DT_i64, AHEAD / (int64_t)dtype_size(b->type))};

		tir_call(out, INTRIN_prefetch, COUNT_OF(arg), arg);
	}
	for (st_id k = i + 1; k < s->end; k = p->st[k].end)
		tir_copy(out, p, k, NULL);
	tir_close(out);
	return true;
}

void
codegen_ahead(const struct tir *p, struct tir *out)
{
	struct accesses l = {0};

	tir_rewrite(out, p, ahead, &l);
}
