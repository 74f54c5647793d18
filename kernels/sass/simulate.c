/* kernels/sass/simulate.c: warps of one quarter of a multiprocessor going through a list of instructions.
 *
 * Each cycle one warp issues: the one that issued last while it can, else the next one.  It can when its
 * stall count is over, the scoreboards that it waits for are down, and the queue before its unit has room; a
 * unit works on one instruction after the other.  Cycles in which none can are jumped over: when each warp
 * can is known from what was issued before.
 *
 * A turn's price is the distance between the ends of a longer and a shorter run, so that neither a warp that
 * runs ahead nor the drain at the end counts.  Where a turn begins in the same state as one of the last
 * three, all later ones are like those between, and their mean is the price: nothing more is run. */
#include "price_int.h"

#include <math.h>
#include <string.h>

enum {
	TURNS_FEW = 3,
	TURNS = 7,
	MANY = 8, /* more warps than these even each other out */
	MANY_FEW = 2,
	MANY_TURNS = 4,
	RING = 16,              /* groups that are remembered */
	SEEN = 4,               /* beginnings of turns that are remembered */
	WORDS = SASS_UNITS + 2, /* of a state, beside the warps' */
	WARP_WORDS = 4 + SASS_BARRIERS + 2 * RING,
	BARRIER_CYCLES = 12,
	READ_CYCLES = 8, /* from the unit's taking it until its operands may be written */
	MMA_CYCLES = 30,
	QUEUE_CYCLES = 48, /* of loads and stores that wait for their unit */
	DEEP_CYCLES = 512,
};
#define NEVER (INT64_MAX / 4)

struct warp {
	int64_t ready, barrier[SASS_BARRIERS], copies;
	int64_t group[RING], mma[RING];
	uint32_t n_groups, n_mma;
	uint32_t at, turn, block;
	bool waits; /* at a barrier */
};
struct run {
	const struct sass_step *steps;
	uint32_t n, n_warps, turns, last;
	int64_t now;
	int64_t free[SASS_UNITS], gate[GATES];
	uint32_t waiting[SASS_PRICE_WARPS], of_block[SASS_PRICE_WARPS];
	/* of each warp: tick from which on it may issue, but for the queues of its next instruction; NEVER:
	 * it is done, or at a barrier */
	int64_t can[SASS_PRICE_WARPS];
	uint8_t queue[2][SASS_PRICE_WARPS];
	struct warp warp[SASS_PRICE_WARPS];
};

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
whole(int64_t ticks)
{
	return (ticks + SASS_TICK - 1) & ~(int64_t)(SASS_TICK - 1);
}

/* The end of the group before the last `left` ones: ends only grow. */
static int64_t
group_end(const int64_t *ring, uint32_t n, uint32_t left)
{
	return n > left && left < RING ? ring[(n - left - 1) % RING] : 0;
}

static void
look_ahead(struct run *r, struct warp *w)
{
	const struct sass_step *s = &r->steps[w->at];
	const ptrdiff_t i = w - r->warp;
	int64_t t = w->ready;

	r->queue[0][i] = s->gate[0];
	r->queue[1][i] = s->gate[1];
	if (w->turn >= r->turns || w->waits) {
		r->can[i] = NEVER;
		return;
	}
	for (uint32_t b = 0, wait = s->wait; wait; b++, wait >>= 1)
		if (wait & 1)
			t = later(t, w->barrier[b]);
	if (s->kind == STEP_GROUP_WAITS)
		t = later(t, group_end(w->group, w->n_groups, s->left));
	if (s->kind == STEP_MMA_WAITS)
		t = later(t, group_end(w->mma, w->n_mma, s->left));
	r->can[i] = whole(t);
}

static void
start(struct run *r, const struct sass_step *steps, uint32_t n, const struct sass_load *l, uint32_t turns)
{
	const uint32_t warps = MIN_OF(MAX_OF(l->warps, 1u), (uint32_t)SASS_PRICE_WARPS),
		       blocks = MIN_OF(MAX_OF(l->blocks, 1u), warps);

	memset(r, 0, offsetof(struct run, warp) + warps * sizeof(struct warp));
	r->steps = steps;
	r->n = n;
	r->n_warps = warps;
	r->turns = turns;
	for (uint32_t w = 0; w < warps; w++) {
		r->warp[w].block = w * blocks / warps;
		r->of_block[r->warp[w].block]++;
		look_ahead(r, &r->warp[w]);
	}
}

/* ---- an instruction issued -------------------------------------------------------------------------- */
static int64_t
occupy(struct run *r, const struct sass_step *s)
{
	int64_t end = r->now;

	for (int i = 0; i < 2 && s->unit[i]; i++) {
		const uint32_t u = s->unit[i];
		const bool queues = u == SASS_UNIT_MEMORY || u == SASS_UNIT_L2;

		r->free[u] = later(r->free[u], r->now) + s->cost[i];
		r->gate[u] = whole(r->free[u] - (queues ? QUEUE_CYCLES * SASS_TICK : 0));
		if (u == SASS_UNIT_TENSOR)
			r->gate[GATE_DEEP] = whole(r->free[u] - DEEP_CYCLES * SASS_TICK);
		end = later(end, r->free[u]);
	}
	return end;
}

static void
arrive(struct run *r, struct warp *w)
{
	const uint32_t b = w->block;

	w->waits = true;
	if (++r->waiting[b] < r->of_block[b])
		return;
	r->waiting[b] = 0;
	for (uint32_t i = 0; i < r->n_warps; i++) {
		struct warp *x = &r->warp[i];

		if (x->block != b)
			continue;
		x->waits = false;
		x->ready = r->now + BARRIER_CYCLES * SASS_TICK;
		if (x != w)
			look_ahead(r, x);
	}
}

static void
note_kind(struct run *r, struct warp *w, uint8_t kind, int64_t end, int64_t done)
{
	if (kind == STEP_COPY)
		w->copies = later(w->copies, done);
	else if (kind == STEP_GROUP_ENDS)
		w->group[w->n_groups++ % RING] = w->copies;
	else if (kind == STEP_MMA)
		w->mma[w->n_mma++ % RING] = end + MMA_CYCLES * SASS_TICK;
	else if (kind == STEP_BARRIER)
		arrive(r, w);
}

static void
issue(struct run *r, uint32_t which)
{
	struct warp *w = &r->warp[which];
	const struct sass_step *s = &r->steps[w->at];
	const int64_t end = occupy(r, s), done = end + s->latency;

	if (s->read_barrier < SASS_BARRIERS)
		w->barrier[s->read_barrier] =
		    later(w->barrier[s->read_barrier], end + READ_CYCLES * SASS_TICK);
	if (s->write_barrier < SASS_BARRIERS)
		w->barrier[s->write_barrier] = later(w->barrier[s->write_barrier], done);
	if (s->kind != STEP_PLAIN)
		note_kind(r, w, s->kind, end, done);
	w->ready = later(w->ready, r->now + (int64_t)s->stall * SASS_TICK);
	if (++w->at == r->n) {
		w->at = 0;
		w->turn++;
	}
	look_ahead(r, w);
	r->last = which;
	r->now += SASS_TICK;
}

/* ---- who is next --------------------------------------------------------------------------------------- */
/* The warp that issues next, `now` being the tick when it does; n_warps: all are done. */
static uint32_t
next_warp(struct run *r)
{
	uint32_t best = r->n_warps, w = r->last;
	int64_t at = NEVER;

	for (uint32_t d = 0; d < r->n_warps; d++, w = w + 1 == r->n_warps ? 0 : w + 1) {
		int64_t t = r->can[w];

		if (t >= at)
			continue;
		t = later(later(t, r->gate[r->queue[0][w]]), r->gate[r->queue[1][w]]);
		if (t <= r->now)
			return w;
		if (t < at) {
			at = t;
			best = w;
		}
	}
	if (best < r->n_warps)
		r->now = at;
	return best;
}

static double
end_of(const struct run *r)
{
	int64_t end = r->now;

	for (int u = 0; u < SASS_UNITS; u++)
		end = later(end, r->free[u]);
	return (double)end / SASS_TICK;
}

/* ---- turns that are like others ---------------------------------------------------------------------- */
struct beginning { /* of a turn of the first warp: all that what follows depends on */
	int64_t at;
	uint32_t n;
	int32_t word[WORDS + SASS_PRICE_WARPS * WARP_WORDS];
};
struct history {
	struct beginning seen[SEEN];
	uint32_t n;
};

/* Ticks from now on; what is over is over. */
static int32_t
ahead(const struct run *r, int64_t t)
{
	return t <= r->now ? 0 : t == NEVER ? INT32_MAX : (int32_t)MIN_OF(t - r->now, (int64_t)INT32_MAX);
}

static void
look(const struct run *r, struct beginning *b)
{
	int32_t *p = b->word;

	b->at = r->now;
	*p++ = (int32_t)r->last;
	for (int u = 0; u < SASS_UNITS; u++)
		*p++ = ahead(r, r->free[u]);
	for (uint32_t i = 0; i < r->n_warps; i++) {
		const struct warp *w = &r->warp[i];

		*p++ = (int32_t)w->at;
		*p++ = (int32_t)(w->turn - r->warp[0].turn) * 2 + w->waits;
		*p++ = ahead(r, w->ready);
		*p++ = ahead(r, w->copies);
		for (int k = 0; k < SASS_BARRIERS; k++)
			*p++ = ahead(r, w->barrier[k]);
		for (uint32_t k = 0; k < RING; k++) {
			*p++ = k < w->n_groups ? ahead(r, w->group[(w->n_groups - 1 - k) % RING]) : 0;
			*p++ = k < w->n_mma ? ahead(r, w->mma[(w->n_mma - 1 - k) % RING]) : 0;
		}
	}
	b->n = (uint32_t)(p - b->word);
}

/* Cycles of a turn, where this beginning was there before; 0: it was not. */
static double
repeats(const struct run *r, struct history *h)
{
	struct beginning *b = &h->seen[h->n % SEEN];
	double cycles = 0;

	look(r, b);
	for (uint32_t back = 1; back < SEEN && back <= h->n && cycles == 0; back++) {
		const struct beginning *o = &h->seen[(h->n - back) % SEEN];

		if (o->n == b->n && memcmp(o->word, b->word, b->n * sizeof(*b->word)) == 0)
			cycles = (double)(b->at - o->at) / SASS_TICK / back;
	}
	h->n++;
	return cycles;
}

/* Until a warp is about to end its turn `stop`, or a turn repeats (then its cycles, else 0). */
static double
run_until(struct run *r, uint32_t stop, struct history *h, int64_t give_up)
{
	for (uint32_t w; (w = next_warp(r)) < r->n_warps;) {
		const bool ends = r->warp[w].at + 1 == r->n;

		if (r->now > give_up)
			return INFINITY;
		if (ends && r->warp[w].turn + 1 == stop)
			return 0;
		issue(r, w);
		if (ends && w == 0 && h) {
			const double cycles = repeats(r, h);

			if (cycles > 0)
				return cycles;
		}
	}
	return 0;
}

/* To the end, every warp making so many turns. */
static double
run_out(struct run *r, uint32_t turns)
{
	r->turns = turns;
	for (uint32_t w; (w = next_warp(r)) < r->n_warps;)
		issue(r, w);
	return end_of(r);
}

double
sass_simulate(const struct sass_step *steps, uint32_t n, const struct sass_load *l, double limit)
{
	struct history h = {.n = 0};
	const uint32_t few = l->warps > MANY ? MANY_FEW : TURNS_FEW,
		       turns = l->warps > MANY ? MANY_TURNS : TURNS;
	struct run r, early;
	double cycles, first, most;

	if (n == 0)
		return 0;
	start(&r, steps, n, l, turns);
	cycles = run_until(&r, few, &h, NEVER);
	if (cycles > 0)
		return cycles;
	early = r;
	first = run_out(&early, few);
	most = first + limit * (turns - few) + 1;
	cycles = run_until(&r, turns, &h, most < 1e12 ? (int64_t)(most * SASS_TICK) : NEVER);
	return cycles > 0 ? cycles : (run_out(&r, turns) - first) / (turns - few);
}

double
sass_simulate_once(const struct sass_step *steps, uint32_t n, const struct sass_load *l)
{
	struct run r;

	if (n == 0)
		return 0;
	start(&r, steps, n, l, 1);
	return run_out(&r, 1);
}
