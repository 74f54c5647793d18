/* kernels/schedule/rule_plain.c: maps go into their readers, results are dealt out, short windows are text.
 */
#include "tile_int.h"

enum {
	MOST_NODES = 2000, /* of a value as a tree: larger ones are not looked through */
	MOST_PLACES = 8,   /* of one buffer, in one value */
	CHEAP_FLOPS = 4,   /* less than a store and a read */
	LEAST_WORK = 512,  /* points that are dealt out */
	SHORT = 4096,      /* likewise, beside reductions of rows */
};

/* ---- plain ------------------------------------------------------------------------------------------ */
struct reading {
	const struct tir *p;
	const struct tir_block *reader;
	struct tir_facts f; /* where the read stands */
	buf_id buf;
	ixv_id at[MOST_PLACES];      /* where it is read */
	int64_t points[MOST_PLACES]; /* of the reader, that read it there */
	uint32_t n;
	bool too_many;
};

/* Points of the reader where the guards hold: a part of a concat is read in its own arm alone. */
static int64_t
points_here(const struct reading *r)
{
	int64_t n = 1, lo, hi;

	for (uint32_t k = 0; k < r->reader->n_iter; k++) {
		facts_bound(&r->f, ix_axis(r->p->tx, r->p->iter[r->reader->iter0 + k].id), &lo, &hi);
		if (hi < lo)
			return 0;
		n *= hi - lo + 1;
	}
	return n;
}

static void
note_read(void *self, const struct ex *read)
{
	struct reading *r = self;

	for (uint32_t k = 0; k < r->n; k++)
		if (read->tensor == r->buf && r->at[k] == read->at)
			return;
	if (read->tensor != r->buf)
		return;
	r->too_many |= r->n == MOST_PLACES;
	if (r->n < MOST_PLACES)
		r->at[r->n++] = read->at;
}

static void
look(struct reading *r, ex_id e)
{
	const struct ex n = *ex_get(r->p->tx, e);
	const uint32_t known = r->f.n_guard;
	const bool never = r->f.never;

	for (uint32_t k = 0; k < r->n && n.kind == EX_READ && n.tensor == r->buf; k++)
		if (r->at[k] == n.at)
			r->points[k] = MAX_OF(r->points[k], points_here(r));
	for (uint32_t k = 0; k < n.n_arg; k++) {
		if (n.kind == EX_GUARD)
			facts_add(&r->f, (struct tir_guard){n.ix, n.lo, n.hi}, k == 0);
		look(r, n.arg[k]);
		r->f.n_guard = known;
		r->f.never = never;
	}
}

/* Points of the buffer that the block asks for, one after the other. */
static int64_t
points_read(struct reading *r, const struct tir *p, blk_id b)
{
	const struct tir_block *k = &p->blk[b];
	int64_t n = 0;

	blk_reads(p, k, note_read, r);
	if (r->n == 0 || r->too_many || k->n_out != 1 || ex_get(p->tx, k->value[0])->size > MOST_NODES)
		return r->n == 0 ? 0 : r->n * blk_points(p, b);
	r->reader = k;
	r->f = (struct tir_facts){.x = p->tx};
	for (uint32_t q = 0; q < k->n_iter; q++) {
		axis_id a = p->iter[k->iter0 + q].id;

		r->f.range[r->f.n_range++] =
		    (struct tir_range){a, ix_const(p->tx, 0), ix_const(p->tx, tx_axis_get(p->tx, a)->hi + 1)};
	}
	look(r, k->value[0]);
	for (uint32_t q = 0; q < r->n; q++)
		n += r->points[q];
	return n;
}

/* How many points a reader may make of it: what is cheap is made again sooner than stored and read. */
static int64_t
most_points(const struct tir *p, blk_id made)
{
	const int64_t n = blk_points(p, made);

	return ex_get(p->tx, p->blk[made].value[0])->flops <= CHEAP_FLOPS ? 5 * n : n + n / 4;
}

/* A product takes its factors from memory, whatever they cost: what is made again for each of few columns
 * would keep it from tiles. */
static bool
is_product(const struct tir *p, blk_id b)
{
	const struct ex *one, *other;

	return blk_reduces(p, b) && !blk_joins_rows(p, b) && tile_factors(p, b, &one, &other);
}

/* One block reads it, hardly more often than it is made, at several places only in arms of its guards.  (Is
 * it a plain block of a temp at all?  `inline` refuses what is not.) */
static bool
is_read_once(const struct tir *p, blk_id made)
{
	struct reading *r = NEW(p->arena, struct reading);
	const int64_t n = blk_points(p, made);
	blk_id reader = BLK_NONE;

	for (blk_id b = 0; b < p->n_blk; b++) {
		*r = (struct reading){.p = p, .buf = p->blk[made].out[0]};
		if (!blk_stands(p, b))
			continue;
		int64_t points = points_read(r, p, b);

		if (r->n == 0)
			continue;
		if (reader != BLK_NONE || r->too_many ||
		    points > (r->n > 1 || is_product(p, b) ? n : most_points(p, made)))
			return false;
		reader = b;
	}
	return reader != BLK_NONE;
}

/* From the last on: a reader that has gone into its own reader is no second one. */
void
rule_plain(struct proposing *q)
{
	for (blk_id b = q->p.n_blk; b-- > 0;)
		if (blk_stands(&q->p, b) && blk_points(&q->p, b) > 1 && is_read_once(&q->p, b))
			(void)propose(q, "inline %s", q->p.blk[b].name);
}

/* ---- range ------------------------------------------------------------------------------------------ */
/* How often the bodies inside of the loop run. */
static int64_t
work_of(const struct tir *p, st_id loop)
{
	int64_t n = 1, most = 0;
	st_id path[TIR_DEPTH];

	for (st_id i = loop; i < p->st[loop].end; i++) {
		if (p->st[i].op != ST_block)
			continue;
		n = 1;
		for (uint32_t k = tir_path(p, i, path); k-- > 0;)
			n = MIN_OF(
			    n * MIN_OF(loop_trips(p, path[k]), (int64_t)SHORT + 1), (int64_t)SHORT + 1);
		most += n;
	}
	return most;
}

/* Few elements are one step of one thread: their loops have constant bounds.  A short nest beside reductions
 * would as a pass of its own take longer to begin than to run. */
static bool
is_short(const struct tir *p, st_id root)
{
	bool is_alone = root == 0 && p->st[root].end == p->n_st;

	return work_of(p, root) <= (!is_alone && joins_rows_only(p) ? SHORT : LEAST_WORK);
}

void
rule_range(struct proposing *q)
{
	for (st_id i = 0; i < q->p.n_st; i = q->p.st[i].end)
		if (q->p.st[i].op == ST_for && loop_counts_places(&q->p, i) && !is_short(&q->p, i))
			(void)propose(q, "bind %s parallel", q->p.st[i].name);
}

/* ---- window ----------------------------------------------------------------------------------------- */
static bool
joins(const struct tir *p, st_id instance, st_id loop)
{
	const struct st *s = &p->st[instance];

	return p->st[loop].op == ST_for &&
	    (binds_kind(p, s, p->st[loop].axis, ITER_REDUCE) ||
		binds_kind(p, s, p->st[loop].axis, ITER_CARRIED));
}

int64_t
window_size(const struct tir *p, st_id instance)
{
	st_id path[TIR_DEPTH];
	int64_t n = 1;

	for (uint32_t k = tir_path(p, instance, path); k-- > 0;)
		if (joins(p, instance, path[k]))
			n = MIN_OF(n * MIN_OF(loop_trips(p, path[k]), (int64_t)MOST_WINDOW + 1),
			    (int64_t)MOST_WINDOW + 1);
	return n;
}

/* (A bind changes no statement's number.) */
void
rule_window(struct proposing *q)
{
	st_id path[TIR_DEPTH];

	for (st_id i = 0; i < q->p.n_st; i++) {
		if (q->p.st[i].op != ST_block || window_size(&q->p, i) > MOST_WINDOW)
			continue;
		for (uint32_t k = 0, n = tir_path(&q->p, i, path); k < n; k++)
			if (joins(&q->p, i, path[k]) && q->p.st[path[k]].bind == BIND_serial &&
			    !loop_is_of_lanes(&q->p, path[k]))
				(void)propose(q, "bind %s unroll", q->p.st[path[k]].name);
	}
}
