/* kernels/sass/steady.c: the price of a loop whose steps change a little from one question to the next.
 *
 * What was taken last turns steadily: after a round of one to three turns all is as it was at its beginning.
 * The round is kept in stretches, each with the state at its beginning, its time, and the parts of the loop
 * that had a say in it.  Of changed steps only those stretches are run again that they had a say in, and
 * those behind them until a state is again what it was: what follows would be what is known.  Where that
 * never comes, the loop has another rhythm, and is run until it repeats. */
#include "simulate_int.h"

#include <math.h>
#include <string.h>

enum {
	STRETCHES = 32, /* of a round */
	PARTS = 64,     /* of a loop */
	MORE = 3,       /* turns in which a loop finds its rhythm again, or has none */
	NONE = 2,       /* turns of one that had none before */
	SETTLE = 5,     /* times that a loop that starts is given so many */
};
static const double LATE = .25; /* turns that a change may take longer within a round, where turns differ */

struct stretch {
	struct run from;
	struct beginning b;
	uint64_t parts;
	int64_t ticks;
};
struct sass_steady {
	struct stretch stretch[STRETCHES]; /* where `turns` is 0 only the first one's state */
	struct stretch asked[STRETCHES];   /* as changed steps have them, where is_asked */
	bool is_asked[STRETCHES];
	bool is_same; /* what was asked ends its round as that began; else: */
	struct run end;
	uint32_t end_turns;    /* of a round that begins there; 0: there is none */
	uint32_t turns, shift; /* of a round, 0: there is none */
	int64_t ticks;         /* of a round */
	int64_t asked_ticks;
};

static uint64_t
goal(const struct sass_steady *y, const struct run *r, uint32_t stretch)
{
	const uint64_t all = (uint64_t)r->n * r->n_warps * y->turns;

	return all * (stretch + 1) / STRETCHES - all * stretch / STRETCHES;
}

static void
run_stretch(const struct sass_steady *y, struct run *r, struct stretch *s, uint32_t which)
{
	const int64_t from = r->now;

	s->parts = sass_run_stretch(r, r->issued + goal(y, r, which), y->shift);
	s->ticks = r->now - from;
}

/* A round of so many turns from here on; 0: there is none. */
static void
record(struct sass_steady *y, struct run *r, uint32_t turns)
{
	y->turns = turns;
	y->ticks = 0;
	sass_run_copy(&y->stretch[0].from, r);
	for (uint32_t n = 0; turns && n < STRETCHES; n++) {
		struct stretch *s = &y->stretch[n];

		sass_run_copy(&s->from, r);
		sass_run_look(r, &s->b);
		run_stretch(y, r, s, n);
		y->ticks += s->ticks;
	}
}

struct sass_steady *
sass_steady_make(
    struct arena *a, const struct sass_step *steps, uint32_t n, const struct sass_load *l, double fold)
{
	struct sass_steady *y = NEW(a, struct sass_steady);
	struct run r;

	sass_run_start(&r, steps, n, l, UINT32_MAX);
	r.slot = llround(fold * SASS_TICK);
	while (n >> y->shift > PARTS - 1)
		y->shift++;
	record(y, &r, 0);
	for (int t = 0; t < SETTLE && y->turns == 0; t++) {
		(void)sass_steady_ask(y, 0, INFINITY);
		sass_steady_take(y);
	}
	return y;
}

uint64_t
sass_steady_part(const struct sass_steady *y, uint32_t place)
{
	return UINT64_C(1) << (place >> y->shift);
}

/* From its first stretch that the change has a say in, until all is as it was: the stretch behind, or
 * STRETCHES, and whether it was there. */
static uint32_t
run_changed(struct sass_steady *y, uint32_t at, bool *is_same)
{
	struct run *r = &y->end;
	struct beginning b = y->stretch[at].b;

	sass_run_copy(r, &y->stretch[at].from);
	do {
		struct stretch *s = &y->asked[at];

		sass_run_copy(&s->from, r);
		s->b = b;
		run_stretch(y, r, s, at);
		y->asked_ticks += s->ticks - y->stretch[at].ticks;
		y->is_asked[at++] = true;
		sass_run_look(r, &b);
		*is_same = sass_run_same(&b, &y->stretch[at % STRETCHES].b);
	} while (at < STRETCHES && !*is_same);
	return at;
}

/* Turn by turn from here on, as long as it may take. */
static double
run_on(struct sass_steady *y, double limit)
{
	struct history h = {.n = 0};
	struct run *r = &y->end;
	const int64_t from = r->now;
	const int most = y->turns ? MORE : NONE;
	double cycles = 0;

	y->end_turns = 0;
	(void)sass_run_repeats(r, &h, &y->end_turns);
	for (int turn = 1; turn <= most && cycles == 0; turn++) {
		const bool is_round = y->turns && turn % (int)y->turns == 0;

		if (!sass_run_turn(r, from + sass_run_ticks(limit * (turn + (is_round ? 0 : LATE)))))
			return INFINITY;
		cycles = sass_run_repeats(r, &h, &y->end_turns);
	}
	if (cycles > 0)
		return cycles;
	/* what loses its rhythm has no price that is worth going on from */
	return y->turns && isfinite(limit) ? INFINITY
					   : (double)(r->now - h.seen[1].at) / SASS_TICK / (most - 1);
}

double
sass_steady_ask(struct sass_steady *y, uint64_t changed, double limit)
{
	const double most = limit * SASS_TICK * y->turns;

	memset(y->is_asked, 0, sizeof(y->is_asked));
	y->asked_ticks = y->ticks;
	y->is_same = y->turns > 0;
	for (uint32_t at = 0; y->is_same && at < STRETCHES;)
		if (y->stretch[at].parts & changed)
			at = run_changed(y, at, &y->is_same);
		else
			at++;
	if (y->is_same)
		return (double)y->asked_ticks / SASS_TICK / y->turns;
	if (y->turns == 0)
		sass_run_copy(&y->end, &y->stretch[0].from);
	return (double)y->asked_ticks > most ? INFINITY : run_on(y, limit);
}

void
sass_steady_take(struct sass_steady *y)
{
	if (!y->is_same) {
		record(y, &y->end, y->end_turns);
		return;
	}
	for (uint32_t n = 0; n < STRETCHES; n++)
		if (y->is_asked[n])
			y->stretch[n] = y->asked[n];
	y->ticks = y->asked_ticks;
}
