/* kernels/predict/first.c: see first.h. */
#include "first.h"

#include "../space/sched.h"

#include <math.h>

/* What the logarithm of one's time beside the other's is off by; found on one half of the models, and as good
 * on the other (tests/bench/RESULTS.md). */
static const double of_one_form = 0.05, of_two_forms = 0.15;

enum form { FORM_LOOPS, FORM_LIBRARY, FORM_WINOGRAD };

static enum form
form_of(struct str schedule)
{
	static const struct {
		enum knob knob;
		enum form form;
	} said[] = {{KNOB_lib, FORM_LIBRARY}, {KNOB_wino, FORM_WINOGRAD}};
	struct sched s;
	struct err none = {0};

	if (!sched_read(schedule, &s, &none))
		return FORM_LOOPS;
	for (size_t i = 0; i < COUNT_OF(said); i++)
		if (sched_get(&s, said[i].knob, 0) > 0)
			return said[i].form;
	return FORM_LOOPS;
}

static double
apart(enum form x, enum form y)
{
	return x == y ? of_one_form : of_two_forms;
}

bool
predict_are_alike(struct str one, struct str other)
{
	return form_of(one) == form_of(other);
}

double
predict_gain(double limit_ns, double ns, double sigma)
{
	double d;

	if (!(limit_ns > 0) || !(ns > 0))
		return 0;
	if (!(sigma > 0))
		return fmax(limit_ns - ns, 0);
	d = log(limit_ns / ns) / sigma;
	return fmax(
	    limit_ns * erfc(-d / sqrt(2)) / 2 - ns * exp(sigma * sigma / 2) * erfc((sigma - d) / sqrt(2)) / 2,
	    0);
}

struct way {
	enum form form;
	double ns;
	double gain; /* over those that are placed: the least */
	bool is_placed;
};

static uint32_t
best_of(const struct way *w, uint32_t n, bool by_gain)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		if (w[i].is_placed)
			continue;
		if (best == UINT32_MAX || (by_gain && w[i].gain > w[best].gain) ||
		    ((!by_gain || !(w[i].gain < w[best].gain)) && w[i].ns < w[best].ns))
			best = i;
	}
	return best;
}

void
predict_first(const struct str *schedule, const double *ns, uint32_t n, uint32_t *order)
{
	struct arena tmp = {0};
	struct way *w = NEW_ARRAY(&tmp, struct way, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++)
		w[i] = (struct way){form_of(schedule[i]), ns[i], HUGE_VAL, false};
	for (uint32_t k = 0; k < n; k++) {
		uint32_t next = best_of(w, n, k > 0);

		order[k] = next;
		w[next].is_placed = true;
		for (uint32_t i = 0; i < n; i++)
			w[i].gain =
			    fmin(w[i].gain, predict_gain(ns[next], ns[i], apart(w[i].form, w[next].form)));
	}
	arena_fini(&tmp);
}
