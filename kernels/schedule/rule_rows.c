/* kernels/schedule/rule_rows.c: nests that meet in a row of the result share its loop. */
#include "rule_int.h"

enum { CHEAP = 2, ROWS = 64, LEAST_ROWS = 16, SHORT_ROW = 32 /* elements */, MOST_LASTS = 16 };

/* ---- rows -----------------------------------------------------------------------------------------------
 */
/* How often the block's first instance runs. */
static double
runs(const struct tir *p, blk_id b)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, blk_instance(p, b), path);
	double all = 1;

	for (uint32_t k = 0; k < n; k++)
		if (p->st[path[k]].op == ST_for)
			all *= (double)loop_trips(p, path[k]);
	return all;
}

bool
move_into(struct proposing *q, blk_id b, const char *loop, double most)
{
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	const double before = runs(&q->p, b);

	if (!propose(q, "compute_at %s %s", q->p.blk[b].name, loop))
		return false;
	if (runs(&q->p, b) <= most * before)
		return true;
	take_back(q, &was, n);
	return false;
}

/* All blocks in front that go into the loop, the last first; false, and nothing is done, where no reduction
 * is among them, or one would stride. */
static bool
share_loop(struct proposing *q, const char *loop)
{
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	bool any = false, strides = false;

	for (blk_id b = q->p.n_blk; b-- > 0 && !strides;)
		if (blk_stands(&q->p, b) && move_into(q, b, loop, 1) && blk_reduces(&q->p, b)) {
			any = true;
			strides = strides_in(&q->p, b, loop);
		}
	if (any && !strides)
		return true;
	take_back(q, &was, n);
	return false;
}

/* Elements that blocks make of a row, but for its one sum: how many of them there are, and of the widest. */
static void
row_elements(const struct tir *p, int64_t rows, int64_t *all, int64_t *widest)
{
	*all = *widest = 0;
	for (st_id i = 0; i < p->n_st; i++) {
		const int64_t n = p->st[i].op == ST_block ? blk_points(p, p->st[i].ref) / rows : 0;

		if (n == 0 || (blk_reduces(p, p->st[i].ref) && n <= 1))
			continue;
		*all += n;
		*widest = MAX_OF(*widest, n);
	}
}

/* A tile of rows that leaves nothing over; 0: none. */
static int64_t
even_tile(const struct proposing *q, int64_t rows)
{
	const int64_t asked = q->target->chosen.block;

	for (int64_t n = MIN_OF(asked ? asked : ROWS, rows); n > 1 && (asked || n >= LEAST_ROWS); n--)
		if (rows % n == 0)
			return n;
	return 0;
}

const char *
tile_of_rows(struct proposing *q, const char *loop, int64_t elements)
{
	const int64_t rows = loop_trips(&q->p, tir_find_loop(&q->p, str_of(loop))), n = even_tile(q, rows);

	if ((elements > SHORT_ROW && !q->target->chosen.block) || n == 0 || n == rows ||
	    !propose(q, "split %s %lld", loop, (long long)n))
		return loop;
	return arena_printf(q->p.arena, "%s.o", loop);
}

/* As many rows as share a loop, evenly; 0: one.  What is done to sums of rows is done to vectors of them so.
 * (Of a few rows a vector would be read while it is stored.)  Whole rows would be far when they are read
 * again, but where they are short. */
static int64_t
rows_of_tile(const struct proposing *q, int64_t rows, int64_t all_rows)
{
	const int64_t asked = q->target->chosen.block;
	int64_t all, widest;

	row_elements(&q->p, all_rows, &all, &widest);
	if (!asked && (widest > SHORT_ROW || all * ROWS * 4 > MAX_OF(q->target->l1_bytes, (int64_t)1)))
		return 0;
	return even_tile(q, rows);
}

/* all_rows: iterations of the loop and of those around it.  Where a tile is the whole loop, the one around it
 * is what nests share. */
static bool
share_tile(struct proposing *q, const char *loop, int64_t all_rows)
{
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	const int64_t trips = loop_trips(&q->p, tir_find_loop(&q->p, str_of(loop))),
		      rows = rows_of_tile(q, trips, all_rows);

	if (rows == trips ||
	    (rows && propose(q, "split %s %lld", loop, (long long)rows) &&
		share_loop(q, arena_printf(q->p.arena, "%s.o", loop))))
		return true;
	take_back(q, &was, n);
	return false;
}

/* The nest's loops over places, the innermost first: the row is what lies inside. */
static void
share_rows(struct proposing *q, st_id root)
{
	const char *loop[TIR_DEPTH];
	int64_t rows[TIR_DEPTH], all = 1;
	uint32_t n = 0;

	for (st_id i = root; q->p.st[i].op == ST_for && q->p.st[i].end == q->p.st[root].end; i++)
		if (loop_counts_places(&q->p, i)) {
			all *= MIN_OF(loop_trips(&q->p, i), (int64_t)INT32_MAX);
			rows[n] = all;
			loop[n++] = q->p.st[i].name;
		}
	while (n-- > 0)
		if (!share_tile(q, loop[n], rows[n]))
			(void)share_loop(q, loop[n]);
}

/* Nests meet in the last one of those that stand between a GPU's products; without these, in the last one. */
void
rule_rows(struct proposing *q)
{
	const char *last[MOST_LASTS];
	uint32_t n = 0;
	st_id end;

	if (!joins_rows_only(&q->p))
		return;
	for (st_id i = 0; i < q->p.n_st && n < MOST_LASTS; i = end) {
		end = q->p.st[i].end;
		if (q->p.st[i].op == ST_for && q->p.st[i].bind != BIND_block &&
		    (end == q->p.n_st || q->p.st[end].bind == BIND_block))
			last[n++] = q->p.st[i].name;
	}
	while (n-- > 0) {
		const st_id root = tir_find_loop(&q->p, str_of(last[n]));

		if (root != ST_NONE) /* it has not gone into a nest behind it */
			share_rows(q, root);
	}
}

/* ---- cheap ----------------------------------------------------------------------------------------------
 */
/* A few operations a point, all of which would go through memory, read by no block of more points than it
 * has. (In a row it is near when it is read.) */
static bool
is_cheap(const struct tir *p, blk_id made)
{
	uint32_t n;

	if (p->blk[made].comb != COMB_NONE || p->buf[p->blk[made].out[0]].scope != SCOPE_global ||
	    ex_get(p->tx, p->blk[made].value[0])->flops > CHEAP)
		return false;
	for (blk_id b = 0; b < p->n_blk; b++)
		if (blk_stands(p, b) && blk_points(p, b) > blk_points(p, made) &&
		    (blk_places_read(p, &p->blk[b], p->blk[made].out[0], &n), n > 0))
			return false;
	return true;
}

void
rule_cheap(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk && joins_rows_only(&q->p); b++)
		if (blk_stands(&q->p, b) && blk_points(&q->p, b) > 1 && is_cheap(&q->p, b))
			(void)propose(q, "inline %s", q->p.blk[b].name);
}
