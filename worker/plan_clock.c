/* worker/plan_clock.c: the clock at which whole plans are raced, beside calibration's.
 *
 * A kernel's time is put right by its class reference, frozen time over time beside it (race.c); so is the
 * sum of a plan's kernels, and the plan's own time is not.  The references are timed here in turns with the
 * plans. A plan's ratio is what its kernels' are, by their shares: with the sum's part C of kernels beside
 * the compute reference, S beside the streaming one and L beside none, the kernels together take C / c + S /
 * s + L at the race's clock, and the ratio is (C + S + L) over that.  What is timed beside none has a ratio
 * of 1 here as in its row: its time is of the hour in which it was taken, and that is as near to this one as
 * to calibration's.
 *
 * The streaming reference is a clock of the caches: behind a plan that has swept them its first time is 1.2
 * to 1.5 of what all further ones are, so two do not count. */
#include "measure_int.h"

#include "../kernels/run/plan.h"

/* SHARE: of the race, one part in so many is theirs at most: short plans have several turns to one. */
enum { SETTLING = 2, TURN = 3, SHARE = 10 };

void
clock_open(struct arena *a, const struct refs *refs, const struct calibration *frozen, struct plan_clock *c)
{
	*c = (struct plan_clock){.refs = refs, .calibration = *frozen};
	for (int r = 0; refs && r < REF_COUNT; r++) {
		c->sample[r] = NEW_ARRAY(a, int64_t, CLOCK_SAMPLES);
		if (frozen->ref_ns[r] <= 0)
			c->refs = NULL;
	}
}

void
clock_turn(struct plan_clock *c)
{
	int64_t from = now_ns(), to;

	if (!c->refs || from < c->due_ns)
		return;
	for (int r = 0; r < REF_COUNT; r++) {
		for (int i = 0; i < SETTLING; i++)
			(void)refs_time(c->refs, (enum measure_ref)r);
		for (uint32_t i = 0; i < TURN && c->n + i < CLOCK_SAMPLES; i++)
			c->sample[r][c->n + i] = refs_time(c->refs, (enum measure_ref)r);
	}
	c->n = MIN_OF(c->n + TURN, (uint32_t)CLOCK_SAMPLES);
	to = now_ns();
	c->due_ns = to + (SHARE - 1) * (to - from);
}

void
clock_ratios(struct plan_clock *c, double ratio[REF_COUNT])
{
	for (int r = 0; r < REF_COUNT; r++) {
		int64_t mid = c->refs ? median_ns(c->sample[r], c->n) : 0;

		ratio[r] = mid > 0 ? (double)c->calibration.ref_ns[r] / (double)mid : 0;
	}
}

double
clock_of_sum(const double ns[REF_COUNT + 1], const double ratio[REF_COUNT])
{
	double sum = ns[REF_COUNT], now = sum;

	for (int r = 0; r < REF_COUNT; r++) {
		if (ratio[r] <= 0)
			return 0;
		sum += ns[r];
		now += ns[r] / ratio[r];
	}
	return now > 0 ? sum / now : 0;
}

double
clock_of_plan(const struct plan_clock *c, const struct plan *p, const double ratio[REF_COUNT])
{
	struct arena tmp = {0};
	double ns[REF_COUNT + 1] = {0};
	bool ok = true;

	for (uint32_t i = 0; ok && i < p->n_steps; i++) {
		const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];
		struct err none = {0};
		struct spec s;

		if (plan_kernel_is_view(k))
			continue;
		ok = spec_read(&tmp, k->spec, &s, &none);
		if (ok)
			ns[race_reference(&s, plan_heat(p, p->steps[i].kernel), &c->calibration,
			    k->cost_ns)] += (double)k->cost_ns;
	}
	arena_fini(&tmp);
	return ok ? clock_of_sum(ns, ratio) : 0;
}
