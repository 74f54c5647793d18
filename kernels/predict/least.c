/* kernels/predict/least.c: see least.h.
 *
 * The bound of a spec (kernels/cost) counts by the best form that there may be; of a loop program counts what
 * no code leaves out: products, elements stored or added up, whichever is more, exponentials and divisions;
 * and only where it is certain how often their loops turn. */
#include "least.h"
#include "program.h"

#include "../space/sched.h"

#include <math.h>

/* Of an element that is joined, in operations at the rate of products; of one that is stored: two vectors of
 * 32 bytes a cycle, less a tenth; beside products, where units of their own do that meanwhile: of 15,000 rows
 * one took .9. */
static const double joined = 1.7, store = 1.8, beside_products = 0.8;

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

static bool
is_float(const struct program_leaf *l)
{
	for (uint32_t i = 0; i < l->n_accesses; i++)
		if (l->access[i].element < (double)sizeof(float))
			return false;
	return l->n_accesses > 0;
}

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

/* What has units of its own. */
static double
dear_s(const struct program_leaf *l, const struct hw *hw)
{
	double n = l->is_guess || !is_float(l) ? 0 : turns(l, true);

	return (hw->exp_per_s > 0 ? exps_share * n * l->exps / hw->exp_per_s : 0) +
	    (hw->div_per_s > 0 ? divs_share * n * l->divs / hw->div_per_s : 0);
}

double
program_least_ns(const struct program *p, const struct hw *hw, double linear_flops)
{
	double all = loops_operations(p, linear_flops) / cost_least_rate(hw);

	for (uint32_t i = 0; i < p->n_leaves; i++)
		all += dear_s(&p->leaf[i], hw);
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
		ns = program_least_ns(&p, hw, needed_flops(s, schedule, hw, heat));
	arena_fini(&tmp);
	return MAX_OF(bound_ns, (int64_t)fmin(ns, 1e15));
}
