/* kernels/schedule/rule_plain.c: maps go into their readers, results are dealt out, short windows are text.
 */
#include "rule_int.h"

enum { MOST_WINDOW = 32, SHORT = 4096 };

/* ---- plain ------------------------------------------------------------------------------------------ */
struct reading {
	buf_id buf;
	uint32_t places; /* at which it is read */
	ixv_id at;       /* the last of them */
};

static void
note_read(void *self, const struct ex *read)
{
	struct reading *r = self;

	if (read->tensor != r->buf)
		return;
	r->places += r->places == 0 || read->at != r->at;
	r->at = read->at;
}

/* One block reads it, at one place a point, no more often than it is made.  (Is it a plain block of a temp at
 * all?  `inline` refuses what is not.) */
static bool
is_read_once(const struct tir *p, blk_id made)
{
	blk_id reader = BLK_NONE;

	for (blk_id b = 0; b < p->n_blk; b++) {
		struct reading r = {.buf = p->blk[made].out[0]};

		if (!blk_stands(p, b))
			continue;
		blk_reads(p, &p->blk[b], note_read, &r);
		if (r.places == 0)
			continue;
		if (r.places > 1 || reader != BLK_NONE || blk_points(p, b) > blk_points(p, made))
			return false;
		reader = b;
	}
	return reader != BLK_NONE;
}

void
rule_plain(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk; b++)
		if (blk_stands(&q->p, b) && blk_points(&q->p, b) > 1 && is_read_once(&q->p, b))
			(void)propose(q, "inline %s", q->p.blk[b].name);
}

/* ---- range ------------------------------------------------------------------------------------------ */
/* A short nest beside reductions: as a pass of its own it would take longer to begin than to run. */
static bool
is_short(const struct tir *p, st_id root)
{
	bool is_alone = root == 0 && p->st[root].end == p->n_st;

	for (st_id i = root; i < p->st[root].end; i++)
		if (p->st[i].op == ST_block && blk_points(p, p->st[i].ref) > SHORT)
			return false;
	return !is_alone && joins_rows_only(p);
}

void
rule_range(struct proposing *q)
{
	for (st_id i = 0; i < q->p.n_st; i = q->p.st[i].end)
		if (q->p.st[i].op == ST_for && loop_counts_places(&q->p, i) && !is_short(&q->p, i))
			(void)propose(q, "bind %s parallel", q->p.st[i].name);
}

/* ---- window ----------------------------------------------------------------------------------------- */
/* Elements that the loops below `loop`, itself with them, join: how often their body runs. */
static int64_t
window(const struct tir *p, st_id loop)
{
	int64_t n = 1;

	for (st_id i = loop; i < p->st[loop].end; i++) {
		bool joins = p->st[i].op == ST_for && !loop_counts_places(p, i) && !loop_is_of_lanes(p, i);
		int64_t t = joins ? loop_trips(p, i) : 1;

		n = t > MOST_WINDOW ? MOST_WINDOW + 1 : MIN_OF(n * t, (int64_t)MOST_WINDOW + 1);
	}
	return n;
}

void
rule_window(struct proposing *q)
{
	for (st_id i = 0; i < q->p.n_st; i = q->p.st[i].end) {
		if (q->p.st[i].op != ST_for || window(&q->p, i) > MOST_WINDOW)
			continue;
		for (st_id k = i; k < q->p.st[i].end; k++)
			if (q->p.st[k].op == ST_for && !loop_counts_places(&q->p, k) &&
			    !loop_is_of_lanes(&q->p, k))
				(void)propose(q, "bind %s unroll", q->p.st[k].name);
	}
}
