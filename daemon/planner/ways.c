/* daemon/planner/ways.c: see ways.h. */
#include "held.h"
#include "ways.h"

#include "order.h"

#include "away.h"

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

bool
ways_emit(struct tune *t, uint32_t s, struct str schedule, struct plan_code *c, struct err *e)
{
	const struct spec *spec = &t->front.cands.specs[s];
	const char *symbol = str_dup(t->plan_arena, c->symbol);
	struct str plain, moves;

	c->schedule = schedule;
	c->code = (struct kernel_code){0};
	(void)sip_split(schedule, &plain, &moves); /* they are of the machine code */
	return t->target.is_cuda ? emit_cuda(t->plan_arena, spec, plain, &t->target, symbol, &c->code, e)
				 : emit_c(t->plan_arena, spec, plain, &t->target, symbol, &c->code, e);
}

/* What to try for it, "": nothing, in the end the defaults. */
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
 * best, by the defaults. The list ends with the first that is generated, as a builder has no reason to go
 * beyond it. */
static bool
find_guess(struct tune *t, uint32_t s, struct plan_code *c, struct ways *out, struct err *e)
{
	struct str all[WAYS_MAX];

	list_guesses(t, s, all);
	for (uint32_t i = 0; i < WAYS_MAX; i++) {
		bool is_last = i + 1 == WAYS_MAX;
		struct plan_code here = {.symbol = c->symbol};
		struct err none = {0};

		if ((!all[i].n && !is_last) || !ways_emit(t, s, all[i], &here, is_last ? e : &none)) {
			if (is_last)
				return false;
			continue;
		}
		if (here.code.is_library && away_has_no_builder(t))
			continue; /* whether it is there is known to a builder alone */
		if (out->n == 0)
			*c = here;
		out->schedule[out->n++] = all[i];
		if (!here.code.is_library)
			return true;
	}
	return true;
}

bool
ways_find(struct tune *t, uint32_t s, struct plan_code *c, struct ways *out, struct err *e)
{
	*out = (struct ways){.n = 0};
	if (held_is_guess(t, s))
		return find_guess(t, s, c, out, e);
	out->schedule[out->n++] = finish_schedule(t, s);
	return ways_emit(t, s, out->schedule[0], c, e);
}
