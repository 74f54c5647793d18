/* kernels/sass/simulate.c: warps of one quarter of a multiprocessor going through a list of instructions.
 *
 * Each cycle one warp issues: the one that issued last while it can, else the next one.  It can when its
 * stall count is over, the scoreboards that it waits for are down, and the queue before its unit has room; a
 * unit works on one instruction after the other.  Cycles in which none can are jumped over: when each warp
 * can is known from what was issued before.
 *
 * A turn's price is the time in which the warps together issue as many instructions as a turn of all of them
 * has, so that a warp that runs ahead does not count.  Where a turn begins in the same state as one of the
 * last three, all later ones are like those between, and their mean is the price: nothing more is run.  Many
 * warps that begin together take a dozen turns to drift apart, as those on a device have long since: their
 * blocks begin spread over the loop. */
#include "simulate_int.h"

#include <math.h>
#include <string.h>

enum {
	TURNS_FEW = 3, /* that do not count */
	TURNS = 7,
	MANY_TURNS = 2,
	BARRIER_CYCLES = 12,
	READ_CYCLES = 8, /* from the unit's taking it until its operands may be written */
	MMA_CYCLES = 30,
	QUEUE_CYCLES = 48, /* of loads and stores that wait for their unit */
	DEEP_CYCLES = 512,
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

/* The blocks evenly over the loop, a block's warps together: each barrier finds as many as it waits for. */
static void
spread(struct run *r, uint32_t blocks)
{
	for (uint32_t i = 0; i < r->n_warps; i++) {
		r->warp[i].at = (uint32_t)((uint64_t)r->warp[i].block * r->n / blocks);
		look_ahead(r, &r->warp[i]);
	}
}

void
sass_run_start(
    struct run *r, const struct sass_step *steps, uint32_t n, const struct sass_load *l, uint32_t turns)
{
	const uint32_t warps = MIN_OF(MAX_OF(l->warps, 1u), (uint32_t)SASS_PRICE_WARPS),
		       blocks = MIN_OF(MAX_OF(l->blocks, 1u), warps);

	memset(r, 0, offsetof(struct run, warp) + warps * sizeof(struct warp));
	r->steps = steps;
	r->n = n;
	r->n_warps = warps;
	r->turns = turns;
	r->slot = SASS_TICK;
	for (uint32_t w = 0; w < warps; w++) {
		r->warp[w].block = w * blocks / warps;
		r->of_block[r->warp[w].block]++;
		look_ahead(r, &r->warp[w]);
	}
	if (warps > SASS_MANY_WARPS && turns > 1)
		spread(r, blocks);
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
	r->now += r->slot;
	r->issued++;
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
/* Ticks from now on; what is over is over. */
static int32_t
ahead(const struct run *r, int64_t t)
{
	return t <= r->now ? 0 : t == NEVER ? INT32_MAX : (int32_t)MIN_OF(t - r->now, (int64_t)INT32_MAX);
}

void
sass_run_look(const struct run *r, struct beginning *b)
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

bool
sass_run_same(const struct beginning *a, const struct beginning *b)
{
	return a->n == b->n && memcmp(a->word, b->word, a->n * sizeof(*a->word)) == 0;
}

double
sass_run_repeats(const struct run *r, struct history *h, uint32_t *turns)
{
	struct beginning *b = &h->seen[h->n++ % SEEN];

	sass_run_look(r, b);
	for (uint32_t back = 1; back < SEEN && back < h->n; back++) {
		const struct beginning *o = &h->seen[(h->n - 1 - back) % SEEN];

		if (sass_run_same(o, b)) {
			*turns = back;
			return (double)(b->at - o->at) / SASS_TICK / back;
		}
	}
	return 0;
}

/* Until so many instructions are issued, or a turn repeats (then its cycles, else 0). */
static double
run_until(struct run *r, uint64_t issued, struct history *h, int64_t give_up)
{
	uint32_t turns;

	for (uint32_t w; r->issued < issued && (w = next_warp(r)) < r->n_warps;) {
		const bool ends = w == 0 && r->warp[w].at + 1 == r->n;

		if (r->now > give_up)
			return INFINITY;
		issue(r, w);
		if (ends) {
			const double cycles = sass_run_repeats(r, h, &turns);

			if (cycles > 0)
				return cycles;
		}
	}
	return 0;
}

int64_t
sass_run_ticks(double cycles)
{
	return cycles < 1e12 ? (int64_t)(cycles * SASS_TICK) : NEVER;
}

double
sass_simulate(const struct sass_step *steps, uint32_t n, const struct sass_load *l, double limit)
{
	const uint32_t few = l->warps > SASS_MANY_WARPS ? 0 : TURNS_FEW,
		       turns = l->warps > SASS_MANY_WARPS ? MANY_TURNS : TURNS;
	struct history h = {.n = 0};
	struct run r;
	double cycles;
	int64_t from;

	if (n == 0)
		return 0;
	sass_run_start(&r, steps, n, l, UINT32_MAX);
	cycles = run_until(&r, (uint64_t)n * r.n_warps * few, &h, NEVER);
	if (cycles > 0)
		return cycles;
	from = r.now;
	cycles = run_until(
	    &r, (uint64_t)n * r.n_warps * turns, &h, from + sass_run_ticks(limit * (turns - few) + 1));
	return cycles > 0 ? cycles : (double)(r.now - from) / SASS_TICK / (turns - few);
}

/* To the end, every warp making so many turns. */
static double
run_out(struct run *r)
{
	for (uint32_t w; (w = next_warp(r)) < r->n_warps;)
		issue(r, w);
	return end_of(r);
}

double
sass_simulate_once(const struct sass_step *steps, uint32_t n, const struct sass_load *l)
{
	struct run r;

	if (n == 0)
		return 0;
	sass_run_start(&r, steps, n, l, 1);
	return run_out(&r);
}

/* ---- piece by piece
 * ----------------------------------------------------------------------------------------
 */
bool
sass_run_turn(struct run *r, int64_t give_up)
{
	for (uint32_t w; (w = next_warp(r)) < r->n_warps && r->now <= give_up;) {
		const bool ends = w == 0 && r->warp[w].at + 1 == r->n;

		issue(r, w);
		if (ends)
			return true;
	}
	return false;
}

/* The places before which the warps stand. */
static uint64_t
stand(const struct run *r, uint32_t shift)
{
	uint64_t parts = 0;

	for (uint32_t i = 0; i < r->n_warps; i++)
		parts |= UINT64_C(1) << (r->warp[i].at >> shift);
	return parts;
}

uint64_t
sass_run_stretch(struct run *r, uint64_t issued, uint32_t shift)
{
	uint64_t parts = stand(r, shift);

	for (uint32_t w; r->issued < issued && (w = next_warp(r)) < r->n_warps;) {
		parts |= UINT64_C(1) << (r->warp[w].at >> shift);
		issue(r, w);
	}
	return parts | stand(r, shift);
}

void
sass_run_copy(struct run *to, const struct run *from)
{
	memcpy(to, from, offsetof(struct run, warp) + from->n_warps * sizeof(from->warp[0]));
	for (uint32_t i = 0; i < to->n_warps; i++)
		look_ahead(to, &to->warp[i]);
}
