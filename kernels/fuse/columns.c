/* kernels/fuse/columns.c: a range over blocks of columns.
 *
 * A step usually makes rows, all columns of them.  Where a linear stage has few rows (the last layers of
 * a network, a vector times a matrix) its second factor is what costs, and every thread would read all of
 * it, or one thread alone.  Here the column axis is split, and the range counts blocks of columns: a step
 * makes all rows of one block and reads that block of the factor alone.  What follows channel by channel
 * (activation, depthwise window, mean over the plane) splits the same way and joins the pass. */
#include "anchor_int.h"
#include "form_int.h"

enum { LEAST_COLUMNS = 128, MOST_BLOCKS = 16, LEAST_BLOCK = 32, HEAVY = 4 };

int64_t
linear_rows(const struct tile_prog *p, const struct stage *s)
{
	int64_t rows = 1;

	for (uint32_t k = 0; k + 1 < s->n_par; k++)
		if (!ex_has(p->tx, s->b, s->axis[k].id))
			rows *= s->axis[k].extent;
	return rows;
}

static uint32_t
count_linear(const struct stage *all, uint32_t n)
{
	uint32_t linear = 0;

	for (uint32_t i = 0; i < n; i++)
		linear += all[i].kind == STAGE_LINEAR;
	return linear;
}

/* Is the second factor most of what the stage touches? */
static bool
weighs(const struct tile_prog *p, const struct stage *s, int64_t n)
{
	int64_t depth = 1;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		depth *= s->axis[k].extent;
	return (double)depth * (double)n >= HEAVY * (double)linear_rows(p, s) * (double)(depth + n);
}

/* Most columns of a block.  By default they are counted where the second factor is what costs; anchors
 * behind one another keep a common pass over rows. */
static int64_t
most_columns(const struct tile_prog *p, const struct stage *s, const struct stage *all, uint32_t n_all)
{
	int64_t n = s->axis[s->n_par - 1].extent;
	bool pays = n >= LEAST_COLUMNS && count_linear(all, n_all) == 1 && weighs(p, s, n);

	return sched_get(p->sched, KNOB_columns, pays ? MAX_OF(n / MOST_BLOCKS, (int64_t)LEAST_BLOCK) : 0);
}

/* Columns of a block: they divide all, and fill vectors in pairs but for a twentieth. */
static int64_t
block_of(int64_t n, int64_t most, int64_t lanes)
{
	int64_t found = 0;

	for (int64_t c = lanes; c <= n / 2; c += lanes) {
		int64_t used = (c + 2 * lanes - 1) / (2 * lanes) * 2 * lanes;

		if (n % c == 0 && (used - c) * 20 <= c && (c <= most || !found))
			found = c;
	}
	return found;
}

bool
columns_split(struct tile_prog *p, struct stage *s, const struct stage *all, uint32_t n_all)
{
	uint32_t last = s->n_par - 1;
	int64_t most = most_columns(p, s, all, n_all), c;

	if (!most || p->target->strict || s->n_par + s->n_red == STAGE_AXES ||
	    ex_has(p->tx, s->a, s->axis[last].id))
		return false;
	c = block_of(s->axis[last].extent, most, p->target->simd_bytes / 4);
	if (!c)
		return false;
	stage_split_axis(p->tx, s, last, c);
	s->by_columns = true;
	s->blocks = s->axis[last].id;
	return true;
}

bool
columns_outer(const struct tile_prog *p, const struct stage *s, uint32_t k)
{
	return !s->by_columns || (k + 1 < s->n_par && ex_has(p->tx, s->b, s->axis[k].id));
}

bool
form_keeps_blocks(const struct form_pass *fp, const struct stage *s, const int *match)
{
	for (uint32_t u = 0; u < fp->n_outer; u++)
		if (match[u] >= 0 && s->axis[match[u]].id == s->blocks)
			return true;
	return false;
}

static bool
counts_blocks(const struct stage *s, int outer)
{
	for (uint32_t k = 0; k < s->n_par && s->by_columns; k++)
		if (s->axis[k].id == s->blocks && s->axis[k].outer == outer)
			return true;
	return false;
}

bool
columns_step(const struct tile_prog *p, const struct tile_pass *t)
{
	for (uint32_t m = 0; m < t->n_row; m++)
		for (uint32_t u = 0; u < t->n_outer; u++)
			if (counts_blocks(&p->stages[t->row[m]], (int)u))
				return true;
	return false;
}

bool
columns_hold(const struct tile_prog *p, struct err *e)
{
	bool has = false;

	if (sched_get(p->sched, KNOB_columns, 0) == 0)
		return true;
	for (uint32_t q = 0; q < p->n_passes; q++)
		has |= p->pass[q].by_columns;
	return has || err_set(e, ERR_INFEASIBLE, "columns: no pass can step by blocks of columns");
}
