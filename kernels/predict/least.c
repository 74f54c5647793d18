/* kernels/predict/least.c: see least.h.
 *
 * The bound of a spec (kernels/cost) counts by the best form that there may be; of a program the form is
 * known:
 *  - tiles multiply and store all columns of their vectors, wanted or not: 24 channels in panels of three
 *    vectors of 16 are 48 columns, and the product takes twice as long; what a step makes again counts again;
 *  - maps store each element: by vectors, or one by one where a read does not go along the vector;
 *  - sums read each element.
 *
 * Leaves follow each other, so that their times add up; what a core does of two neighbours at once is within
 * the margins.  Nothing is said of products outside of tiles.  Of 33,000 rows of the trained data, timed at
 * the clock of their calibration, the fastest beside what is said here took 1.04 of it (unit/bounds_test).
 *
 * Of loop programs counts what no code leaves out: products, elements stored or added up, whichever is more,
 * exponentials and divisions; and only where it is certain how often their loops turn. */
#include "least.h"
#include "program.h"

#include "../fuse/tile.h"

#include <math.h>

/* Of an element, in operations at the rate of products: the best kernels that do nothing else took 2.6 (once;
 * else 4.2), 11.3 and 1.9.  Of a tile's column, beside its products: of 19,000 rows none took less than 5.2.
 */
static const double by_vector = 2.4, one_by_one = 10, joined = 1.7, stored = 4;

/* ... of an element that a loop program stores: two vectors of 32 bytes a cycle, less a tenth; beside
 * products, where units of their own do that meanwhile: of 4,700 rows one took 1.2. */
static const double store = 1.8, beside_products = 1;

/* Of what calibration says that an exponential and a division take, as they overlap with all around them: one
 * of each took .93 of both together (once; .87 of a quarter of a microsecond), exponentials alone 1.07. */
static const double exps_share = 0.9, divs_share = 0.7;

static double
turns(const struct program_leaf *l, bool with_sums)
{
	double n = 1;

	for (uint32_t i = 0; i < l->n_loops; i++)
		n *= with_sums || !l->loop[i].reduces ? l->loop[i].extent : 1;
	return n;
}

static double
results(const struct program_leaf *l)
{
	return l->once > 0 ? l->once : turns(l, false);
}

static bool
is_float(const struct program_leaf *l)
{
	for (uint32_t i = 0; i < l->n_accesses; i++)
		if (l->access[i].element < (double)sizeof(float))
			return false;
	return l->n_accesses > 0;
}

/* The innermost loop whose turns write neighbours; n_loops: none. */
static uint32_t
vector_loop(const struct program_leaf *l)
{
	for (uint32_t i = l->n_loops; i-- > 0;)
		if (l->loop[i].extent > 1 && !(fabsf(fabsf(l->access[0].stride[i]) - 1) > 0))
			return i;
	return l->n_loops;
}

/* Does a read jump from turn to turn of the vector's loop? */
static bool
jumps(const struct program_leaf *l)
{
	uint32_t along = vector_loop(l);

	for (uint32_t i = 1; i < l->n_accesses && along < l->n_loops; i++)
		if (!l->access[i].is_irregular && fabsf(l->access[i].stride[along]) > 1)
			return true;
	return false;
}

static double
tile_operations(const struct program_leaf *l)
{
	double depth = turns(l, true) / turns(l, false);

	return results(l) * l->tile.waste * (2 * depth * l->inside + stored);
}

/* As kernels/cost/least.c counts a map's arithmetic for each tile and channel, and a store. */
static const struct wino_form {
	double m, in, out;
} wino_forms[] = {{2, 64, 48}, {4, 192, 140}};
static const double wino_store = 4, wino_taps = 9;

/* Tiles of m x m results from p x p elements each: products in the positions' domain, maps before and behind.
 */
static double
winograd_operations(const struct program_leaf *l)
{
	const struct wino_form *f = &wino_forms[l->winograd > 2];
	double pp = (f->m + 2) * (f->m + 2), mm = f->m * f->m, made = results(l) / mm,
	       channels = turns(l, true) / turns(l, false) / wino_taps, tiles = made / l->tile.columns;

	return made * (2 * pp * channels * l->tile.waste + f->out + wino_store * pp) +
	    tiles * channels * (f->in + wino_store * (pp + mm)) + results(l) * stored;
}

static double
operations(const struct program_leaf *l)
{
	if (l->is_taken || !is_float(l))
		return 0;
	switch (l->kind) {
	case LEAF_MAP:
		return results(l) * (jumps(l) ? one_by_one : by_vector);
	case LEAF_REDUCE:
		return results(l) * turns(l, true) / turns(l, false) * joined;
	case LEAF_LINEAR:
		return !l->is_tiled ? 0 : l->winograd > 0 ? winograd_operations(l) : tile_operations(l);
	case LEAF_OTHER:
		return 0;
	}
	bug("leaf of no kind");
}

/* ---- of a loop program ------------------------------------------------------------------------------- */
/* Elements that it writes, each once: what stays where it is may be written behind its loop. */
static double
written(const struct program_leaf *l)
{
	double all = 0;

	for (uint32_t k = 0; k < l->n_accesses; k++) {
		double n = l->access[k].writes && !l->access[k].is_irregular ? l->access[k].times : 0;

		for (uint32_t i = 0; i < l->n_loops; i++)
			n *= fabsf(l->access[k].stride[i]) > 0 ? l->loop[i].extent : 1;
		all += n;
	}
	return all;
}

static double
elements_joined(const struct program_leaf *l)
{
	bool joins = false;

	for (uint32_t i = 0; i < l->n_loops; i++)
		joins |= l->kind == LEAF_REDUCE && l->loop[i].reduces;
	return joins ? turns(l, true) : 0;
}

/* Stores and sums of loops that are interleaved go on side by side; products stay in registers, and are no
 * fewer than the spec needs, where a border makes the loops' own turns uncertain. */
static double
loops_operations(const struct program *p, double needed)
{
	double written_in_all = 0, sums = 0, products = 0;

	for (uint32_t i = 0; i < p->n_leaves; i++) {
		const struct program_leaf *l = &p->leaf[i];

		if (l->is_guess || !is_float(l))
			continue;
		if (l->kind == LEAF_LINEAR && turns(l, true) > turns(l, false)) {
			products += 2 * turns(l, true);
			continue;
		}
		written_in_all += written(l);
		sums += elements_joined(l) * joined;
	}
	products = fmax(products, needed);
	return fmax(written_in_all * (products > 0 ? beside_products : store), sums) + products;
}

/* ---- of both ------------------------------------------------------------------------------------------ */
/* What has units of its own. */
static double
dear_s(const struct program_leaf *l, const struct hw *hw)
{
	double n = l->is_guess || !is_float(l) ? 0 : results(l) * turns(l, true) / turns(l, false);

	return (hw->exp_per_s > 0 ? exps_share * n * l->exps / hw->exp_per_s : 0) +
	    (hw->div_per_s > 0 ? divs_share * n * l->divs / hw->div_per_s : 0);
}

double
program_least_ns(const struct program *p, const struct hw *hw, double linear_flops)
{
	double rate = hw->linear_flops > 0 ? hw->linear_flops : hw->flops_peak,
	       all = p->is_loops ? loops_operations(p, linear_flops) / rate : 0;

	for (uint32_t i = 0; i < p->n_leaves; i++)
		all += (p->is_loops ? 0 : operations(&p->leaf[i]) / rate) + dear_s(&p->leaf[i], hw);
	return all * 1e9 / MAX_OF(hw->n_threads, 1);
}

/* What a library does besides: of 2,200 calls none took less than 288 ns more than peaks and bandwidths say.
 */
static const double library_call_ns = 200;

static bool
is_library(struct str schedule)
{
	enum library l;
	int64_t version, algo;

	return library_of_schedule(schedule, &l, &version, &algo);
}

/* Of linear primitives, in Winograd's form only where the schedule asks for it. */
static double
needed_flops(const struct spec *s, struct str schedule, const struct hw *hw, struct str heat)
{
	struct hw its = *hw;
	struct cost_parts parts;
	struct sched sched;
	struct err none = {0};

	its.winograd = sched_read(schedule, &sched, &none) && sched_get(&sched, KNOB_wino, 0) > 0;
	(void)cost_analytic_ns(s, &its, heat, &parts);
	return parts.linear_flops;
}

int64_t
schedule_least_ns(const struct spec *s, struct str schedule, const struct target *t, const struct hw *hw,
    struct str heat, int64_t bound_ns)
{
	struct arena tmp = {0};
	struct program p;
	struct err none = {0};
	double ns = 0;

	if (hw->lanes > 0 && is_library(schedule))
		ns = (double)cost_analytic_ns(s, hw, heat, NULL) + library_call_ns;
	else if (hw->lanes > 0 && program_of_schedule(&tmp, s, schedule, t, &p, &none))
		ns = program_least_ns(&p, hw, p.is_loops ? needed_flops(s, schedule, hw, heat) : 0);
	arena_fini(&tmp);
	return MAX_OF(bound_ns, (int64_t)fmin(ns, 1e15));
}
