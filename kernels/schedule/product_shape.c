/* kernels/schedule/product_shape.c: in which tiles a GPU multiplies matrices, and in how many parts of the
 * sum: what costs fewest instructions, and keeps the device busy. */
#include "product_int.h"

#include "../tir/tensor.h"

/* In instructions of threads, roughly: */
enum {
	COPY = 6,            /* to copy an element: its place, a guard, both accesses */
	MULTIPLY = 2,        /* by a warp's instruction */
	FULL = 108 * 8,      /* warps that keep a device busy */
	LAUNCH = 32 << 20,   /* a device's, while it waits for another kernel */
	LEAST_ELEMENTS = 64, /* of a part of the sum */
	MOST_PARTS = 64,
	MOST_ROWS = 1024, /* or columns of a tile, */
	MOST_SUMS = 128,  /* of a thread */
	WARP = 32
};

static double
padded(int64_t n, int64_t by)
{
	return (double)(ceil_div(n, by) * by);
}

static double
threads_of_shape(const struct product *w, const struct tile_shape *t)
{
	return (double)(t->rows / t->own_rows * (t->columns / t->own_columns)) *
	    (w->mma == INTRIN_COUNT ? 1 : WARP);
}

int64_t
product_threads(const struct product *w)
{
	return (int64_t)threads_of_shape(w, &w->t);
}

/* For an element of the sum, of all threads of a tile. */
static double
element_cost(const struct product *w, const struct tile_shape *t)
{
	const double threads = threads_of_shape(w, t), copies = COPY * (double)(t->rows + t->columns);
	const struct tensor_row *by = tensor_row_of(w->mma);

	if (!by)
		return threads * (double)(t->own_rows * t->own_columns + t->own_rows + t->own_columns) +
		    copies;
	const double m = (double)t->own_rows / (double)tensor_extent(by, 'i'),
		     n = (double)t->own_columns / (double)tensor_extent(by, 'j');

	return threads * (MULTIPLY * m * n + 4 * m + 2 * n) / (double)tensor_extent(by, 'k') + copies;
}

static double
cost_of(const struct product *w, const struct tile_shape *t, int64_t parts)
{
	const double tiles = padded(w->rows, t->rows) / (double)t->rows * padded(w->columns, t->columns) /
	    (double)t->columns * (double)w->both * (double)parts,
		     sums = tiles * padded(ceil_div(w->elements, parts), w->step) * element_cost(w, t),
		     warps = tiles * threads_of_shape(w, t) / WARP,
		     join = (double)(w->rows * w->columns * w->both) * (double)(parts + 1) * COPY + LAUNCH;

	return sums / MIN_OF(1., warps / FULL) + (parts > 1 ? join : 0);
}

/* The same threads, with the rows and columns of each that are asked for.  (A warp's are its instruction's.)
 */
static struct tile_shape
shape_as_asked(const struct product *w, struct tile_shape t)
{
	const int64_t rows = w->q->target->chosen.tm, columns = w->q->target->chosen.tn;

	if (rows && w->mma == INTRIN_COUNT) {
		t.rows = t.rows / t.own_rows * rows;
		t.own_rows = rows;
	}
	if (columns && w->mma == INTRIN_COUNT) {
		t.columns = t.columns / t.own_columns * columns;
		t.own_columns = columns;
	}
	return t;
}

/* Both factors' tiles fit; unasked no more than half of a tile is for nothing each way; tiles of columns do
 * not go over the end of a group. */
static bool
suits(const struct product *w, const struct tile_shape *t)
{
	const struct choices *c = &w->q->target->chosen;

	if (t->rows > MOST_ROWS || t->columns > MOST_ROWS ||
	    (w->mma == INTRIN_COUNT && t->own_rows * t->own_columns > MOST_SUMS) ||
	    (t->rows + t->columns) * w->step * (int64_t)sizeof(float) > w->q->target->shared_bytes)
		return false;
	if ((!c->tm && t->rows > 2 * w->rows) || (!c->tn && t->columns > 2 * w->columns))
		return false;
	return !w->is_grouped || w->columns <= t->columns || w->columns % t->columns == 0;
}

/* May the sum be in so many parts?  As many elements each, of the loop that has most of them; unasked whole
 * steps of them. */
static bool
parts_suit(const struct product *w, int64_t parts)
{
	const int64_t asked = w->q->target->chosen.splitk;

	if (parts == 1 || asked > 0)
		return parts == 1 || (parts <= asked && parts < w->longest && w->longest % parts == 0);
	return w->longest % parts == 0 && parts < w->longest && w->elements / parts >= LEAST_ELEMENTS &&
	    w->elements / parts % w->step == 0;
}

/* Of those that are asked for the most parts. */
bool
product_shape(struct product *w, const struct tile_shape *list, size_t n)
{
	const int64_t asked = w->q->target->chosen.splitk;
	double least = 0;

	for (int64_t parts = MOST_PARTS; parts > 0; parts--) {
		if (!parts_suit(w, parts))
			continue;
		for (size_t k = 0; k < n; k++) {
			const struct tile_shape t = shape_as_asked(w, list[k]);
			const double cost = cost_of(w, &t, parts);

			if (!suits(w, &t) || (least > 0 && cost >= least))
				continue;
			least = cost;
			w->t = t;
			w->parts = parts;
		}
		if (asked > 0 && least > 0)
			return true;
	}
	return least > 0;
}
