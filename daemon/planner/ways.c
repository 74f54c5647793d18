/* daemon/planner/ways.c: see ways.h. */
#include "held.h"
#include "ways.h"

#include "order.h"

#include "away.h"

#include "../../kernels/space/space.h"
#include "../../proto/range.h"

#include <math.h>

/* Of the measured kernels that compute the same with other extents, the schedule of the one whose size is
 * nearest.  One that is not done in the same form is no kin: a large field measured without Winograd's tells
 * a small one to do three times the work. */
static struct str
schedule_of_kin(const struct tune *t, uint32_t s)
{
	const struct cand_set *c = &t->front.cands;
	struct arena tmp = {0};
	struct str best = {0}, moves, form = space_guess(&tmp, &c->specs[s], &t->target);
	double least = 0;

	for (uint32_t i = 0; i < c->n_specs - c->n_views; i++) {
		/* the logarithm of its bound (kernels/cost/predict.c) */
		double apart = fabs(t->cost[i].features[1] - t->cost[s].features[1]);

		if (t->cost[i].measured_ns <= 0 || (best.p && apart >= least) ||
		    !hash_eq(&c->specs[i].structure, &c->specs[s].structure) ||
		    !str_eq(space_guess(&tmp, &c->specs[i], &t->target), form))
			continue;
		(void)sip_split(t->cost[i].schedule, &best, &moves); /* another kernel's code has others */
		least = apart;
	}
	arena_fini(&tmp);
	return best;
}

/* By prediction, or as its kin is. */
static struct str
guessed_schedule(struct tune *t, uint32_t s)
{
	struct str first, generated;

	if (order_guess(t, s, &first, &generated))
		return first;
	first = schedule_of_kin(t, s);
	return first.p || !t->cost[s].sibling.p ? first : t->cost[s].sibling;
}

struct str
finish_schedule(struct tune *t, uint32_t s)
{
	const struct held *h = held_find(t, s);
	struct str schedule = h          ? h->schedule
	    : t->cost[s].measured_ns > 0 ? t->cost[s].schedule
					 : guessed_schedule(t, s),
		   moves;

	if (t->is_plain)
		(void)sip_split(schedule, &schedule, &moves);
	return schedule;
}

/* What to try for it, "": nothing; the last of a GPU's is the defaults. */
static void
list_guesses(struct tune *t, uint32_t s, struct str all[WAYS_MAX])
{
	const struct spec *spec = &t->front.cands.specs[s];
	const struct held *h = held_find(t, s);

	for (uint32_t i = 0; i < WAYS_MAX; i++)
		all[i] = STR("");
	if (order_guess(t, s, &all[0], &all[1])) {
		if (h) /* as it was guessed then */
			all[0] = h->schedule;
		return;
	}
	all[0] = finish_schedule(t, s);
	if (!all[0].n)
		all[1] = space_library(t->plan_arena, spec, &t->target);
	all[2] = space_guess(t->plan_arena, spec, &t->target);
}

/* A kernel that was never measured: as predicted; else as its kin is, by a library's call, by what looks
 * best, by the defaults.  What no kernel comes of, the builder passes over. */
static void
list_guess(struct tune *t, uint32_t s, struct ways *out)
{
	struct str all[WAYS_MAX];

	list_guesses(t, s, all);
	for (uint32_t i = 0; i < WAYS_MAX; i++) {
		bool is_new = all[i].n || (t->target.is_cuda && i + 1 == WAYS_MAX);

		for (uint32_t k = 0; k < out->n; k++)
			is_new &= !str_eq(out->schedule[k], all[i]);
		if (is_new)
			out->schedule[out->n++] = all[i];
	}
}

void
ways_guess(struct tune *t, const uint32_t *specs, uint32_t n)
{
	struct arena tmp = {0};
	uint32_t *guesses = NEW_ARRAY(&tmp, uint32_t, MAX_OF(n, 1u)), m = 0;

	for (uint32_t i = 0; i < n; i++)
		if (held_is_guess(t, specs[i]))
			guesses[m++] = specs[i];
	orders_make(t, guesses, m);
	arena_fini(&tmp);
}

void
ways_list(struct tune *t, uint32_t s, struct ways *out)
{
	*out = (struct ways){.n = 0};
	if (held_is_guess(t, s))
		list_guess(t, s, out);
	else
		out->schedule[out->n++] = finish_schedule(t, s);
}
