/* kernels/sass/launch.c: a launch's time by its machine code.  How often the main loop turns is not in the
 * code, but the products that a block makes are known to who made the text: turns are those over the loop's
 * own. */
#include "price.h"

#include "../base/sm.h"

#include <math.h>

static double
products_of(const struct sass_kernel *k, uint32_t first, uint32_t end, bool on_tensor)
{
	static const struct sass_load one = {.warps = 1};
	struct sass_bounds b;

	sass_bounds(k, first, end, &one, &b);
	/* FFMA beside tensor cores are no products */
	return on_tensor && b.unit[SASS_UNIT_TENSOR] == 0 ? 0 : (double)b.multiply_adds;
}

static bool
is_inside(const struct sass_loop *a, const struct sass_loop *b)
{
	return b->first <= a->first && a->last <= b->last;
}

/* The most that code outside of the loop makes of the products; all of them, where it may make them in a
 * loop. */
static double
elsewhere(const struct sass_kernel *k, const struct sass_loop *hot, bool on_tensor, double all)
{
	const double other =
	    products_of(k, 0, hot->first, on_tensor) + products_of(k, hot->last + 1, k->n_instr, on_tensor);
	uint32_t around = 0;

	if (other == 0)
		return 0;
	for (uint32_t i = 0; i < k->n_loops; i++) {
		const struct sass_loop *x = &k->loop[i];

		if (x == hot || is_inside(x, hot))
			continue;
		if (!is_inside(hot, x) && products_of(k, x->first, x->last + 1, on_tensor) > 0)
			return all;
		around += is_inside(hot, x) && x->first != hot->first;
	}
	return around > 1 ? all : fmin(other, all); /* around all of it: a block's way from tile to tile */
}

static double
round_cycles(struct arena *tmp, const struct sass_kernel *k, const struct sass_loop *hot, double turns,
    uint32_t blocks, uint32_t warps, const struct sass_load *conflict)
{
	const uint32_t of_quarter = (blocks * warps + SM_QUARTERS - 1) / SM_QUARTERS;
	struct sass_load l = *conflict;

	l.warps = MIN_OF(MAX_OF(of_quarter, 1u), (uint32_t)SASS_PRICE_WARPS);
	l.blocks = MIN_OF(blocks, l.warps);
	return sass_price_kernel(tmp, k, hot, turns, &l);
}

struct sass_time
sass_price_launch(struct arena *tmp, const struct sass_kernel *k, const struct sass_launch *l)
{
	const struct sass_loop *hot = sass_hot(k);
	const uint32_t warps = (l->threads + SM_WARP - 1) / SM_WARP;
	const double n_sm = MAX_OF(l->n_sm, 1u), blocks = fmax(l->blocks, 1);
	const uint32_t at_once = (uint32_t)fmin(MAX_OF(l->resident, 1u), ceil(blocks / n_sm));
	const double full = floor(blocks / (at_once * n_sm)), rest = blocks - full * at_once * n_sm;
	struct sass_bounds all, floor;
	struct sass_time t = {0, 0};

	if (!hot || warps == 0 || l->multiply_adds <= 0 || !sass_price_knows(k->sm))
		return t;
	sass_bounds(k, hot->first, hot->last + 1, &(struct sass_load){.warps = 1}, &all);
	if (all.multiply_adds == 0)
		return t;
	const double products = l->multiply_adds / warps, own = (double)all.multiply_adds;
	const bool on_tensor = all.unit[SASS_UNIT_TENSOR] > 0;

	t.expected = full * round_cycles(tmp, k, hot, products / own, at_once, warps, &l->conflict);
	if (rest > 0)
		t.expected += round_cycles(
		    tmp, k, hot, products / own, (uint32_t)ceil(rest / n_sm), warps, &l->conflict);
	sass_floor(k, hot, 1, &floor);
	t.floor = fmax(products - elsewhere(k, hot, on_tensor, products), 0) / own *
	    sass_bound_cycles(&floor) * blocks * warps / (SM_QUARTERS * n_sm);
	return t;
}
