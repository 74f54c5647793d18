/* worker/race.c: kernels of one spec timed against each other.
 *
 * A kernel's time is that of one call that begins with its operands and results where their heat says
 * (kernels/base/heat.h), whichever race it is timed in:
 *
 *   hot   the call before it was the same kernel's, on the same bytes, and is not timed;
 *   cold  the copy was touched last when the ring of copies was at this place before, and since then at least
 * the core's own caches went by: the ring itself, and where it is too small for that, the streaming
 * reference.  Cold weights are in memory: put out of all caches before the sample, or on a device that cannot
 * do that in a ring larger than the last one.
 *
 * So each runner goes round the ring once before its first sample, no sample meets a copy twice, and how many
 * calls a sample has is decided behind that round, too.  The kernels of a race share the ring and the place
 * in it: each goes on where the one before has stopped, and whose turn comes next finds no copy that another
 * has just touched.
 *
 * Under a millisecond a sample is the ratio of the kernel to its class reference, run one after
 * the other; the score is the median ratio times the frozen time of the reference, whose time is
 * the median of those in its turn: one that was interrupted makes no fast kernel.  From a
 * millisecond on, where most of the bytes are weights from memory, which no reference resembles, and where a
 * call sweeps so much of the last cache that the reference beside it runs slower by that alone,
 * it is the thread's own CPU time (on one thread), else the clock.  Kernels take
 * turns, a few samples each, so that a slow moment hits all of them.  After some turns a kernel
 * that is clearly behind leaves the race: it cannot win, and its row says so.
 *
 * Cold operands and results go round a ring of copies larger than the second-level cache; between two uses of
 * a cold weight lies the whole plan.
 *
 * Kernels of many specs can race side by side: then each turn begins with a way round the ring that is not
 * timed, as the others have swept the caches since the last one. */
#include "rotation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	WARM_UPS = 3,
	MIN_PAIRS = 31,
	FEW_PAIRS = 16,
	MIN_LONG = 21,
	FEW_LONG = 5,
	MAX_SAMPLES = 2000,
	MAX_LOOP = 256,
	TURN = 8,
	LONG_TURN = 4
};
static const int64_t short_ns = 1000000, pairs_ns = 20000000, sample_ns = 20000,
		     default_budget_ns = 1000000000;
static const size_t min_ring_bytes = (size_t)2 << 20, max_ring_bytes = (size_t)1 << 30;
static const size_t max_heat_bytes = (size_t)3 << 29;
/* Shares of the child's memory that they may be at most, one in so many: beside them stand packed weights,
 * the kernels, another race's ring. */
enum { RING_SHARE = 8, HEAT_SHARE = 5 };

struct runner {
	const struct dev_kernel *kernel;
	struct lap lap;
	uint32_t loop; /* calls a sample */
	int64_t guess_ns;
	bool is_long; /* timed without the reference */
	bool is_out, is_ready;
	int64_t *sample; /* sixteenths of ns a call; short ones: scaled by the reference */
	int64_t *ref;    /* beside each, of short ones: the reference's time, to see the clock */
	uint32_t n, n_void;
	int64_t spent_ns;
	enum measure_stop stop;
};
struct field { /* a race as it runs */
	const struct race *r;
	struct arena arena;
	enum measure_ref ref;
	struct rotation copies;
	uint32_t at; /* in the ring, which all runners go round together: what one has touched the next would
	                find hot */
	struct dev_launch *loop; /* MAX_LOOP launches in a row */
	struct runner *runners;
	int64_t ref_ns; /* frozen */
	bool sweeps;    /* its calls slow the reference down */
	bool is_mixed;  /* other specs take turns with this one */
	bool is_small;  /* its ring fits into the core's own caches */
};

/* ---- single samples ----------------------------------------------------------------------- */
/* n calls in a row, each on the next copy; ns for all of them. */
static int64_t
call(struct field *f, struct runner *u, uint32_t n, bool by_cpu)
{
	const struct dev *d = f->r->dev;
	int64_t from, to;

	for (uint32_t i = 0; i < n; i++) {
		f->loop[i] = u->lap.launch[f->at];
		f->at = (f->at + 1) % u->lap.n;
	}
	from = by_cpu ? thread_ns() : now_ns();
	d->run(d->self, f->loop, n, NULL);
	to = by_cpu ? thread_ns() : now_ns();
	return MAX_OF(to - from, (int64_t)1);
}

static int64_t
sixteenths(double ns)
{
	return ns < 1e17 ? (int64_t)(ns * 16 + 0.5) : INT64_MAX / 16;
}

static void
keep(struct runner *u, double ns, int64_t ref_ns)
{
	u->ref[u->n] = ref_ns;
	u->sample[u->n++] = sixteenths(ns);
}

/* Everything where it belongs when the next call begins. */
static void
lay_out(struct field *f, struct runner *u)
{
	if (f->is_small && f->ref != REF_STREAM) /* which has swept them already */
		(void)refs_time(f->r->refs, REF_STREAM);
	if (f->copies.is_hot)
		(void)call(f, u, 1, false);
}

/* Some calls of which each finds its operands where they belong. */
static int64_t
call_fresh(struct field *f, struct runner *u, uint32_t n, bool by_cpu)
{
	lap_chill(&f->copies, &u->lap, f->at, n);
	gather_threads(f->r->dev, u->n_void);
	return call(f, u, n, by_cpu);
}

static void
sample_short(struct field *f, struct runner *u)
{
	int64_t ref, own;

	ref = refs_time(f->r->refs, f->ref);
	lay_out(f, u);
	own = call_fresh(f, u, u->loop, false);
	u->spent_ns += ref + own;
	if (had_all_threads(f->r->dev, &u->n_void))
		keep(u, (double)own / u->loop, ref);
}

/* Short samples from `from` on were of one turn: by the reference as it was then. */
static void
scale_turn(struct field *f, struct runner *u, uint32_t from)
{
	int64_t ref[TURN], mid;
	uint32_t n = u->n - from;

	if (u->is_long || n == 0)
		return;
	memcpy(ref, &u->ref[from], n * sizeof(*ref));
	mid = median_ns(ref, n);
	for (uint32_t i = from; i < u->n; i++)
		u->sample[i] = sixteenths((double)u->sample[i] / 16 / (double)mid * (double)f->ref_ns);
}

static void
sample_long(struct field *f, struct runner *u)
{
	bool by_cpu = f->r->dev->n_threads == 1;
	int64_t own;

	lay_out(f, u);
	own = call_fresh(f, u, 1, by_cpu);
	u->spent_ns += own;
	if (had_all_threads(f->r->dev, &u->n_void))
		keep(u, (double)own, 0);
}

/* Its median is known to a hundredth and a half either way, nineteen times of twenty: the same kernel comes
 * out twice as far off in another race, whatever its samples, and the plan's kernels are timed again side by
 * side. */
static bool
is_settled(const struct field *f, const struct runner *u)
{
	static const double known_to = 0.03;
	double v[MAX_SAMPLES];
	struct pair_stats p;

	if (f->is_mixed)
		return false;
	for (uint32_t i = 0; i < u->n; i++)
		v[i] = (double)u->sample[i];
	return pair_judge(v, u->n, &p) && p.high - p.low <= known_to * p.ratio;
}

/* ---- a turn ------------------------------------------------------------------------------- */
static bool
has_enough(const struct field *f, const struct runner *u)
{
	int64_t share = f->r->budget_ns / MAX_OF(f->r->n, 1u);

	if (u->n >= MAX_SAMPLES)
		return true;
	if (!u->is_long)
		return u->n >= MIN_PAIRS && u->spent_ns >= MIN_OF(pairs_ns, share);
	return u->n >= MIN_LONG || is_settled(f, u) ||
	    (u->n >= FEW_LONG && u->spent_ns >= MAX_OF(share, (int64_t)0));
}

static void
walk_ring(struct field *f, struct runner *u)
{
	for (uint32_t left = f->copies.n_walk, n; left > 0; left -= n) {
		n = MIN_OF(left, (uint32_t)MAX_LOOP);
		(void)call(f, u, n, false);
	}
}

static void
take_turn(struct field *f, struct runner *u)
{
	uint32_t turns = !u->is_long ? TURN : f->is_mixed ? LONG_TURN : 1, from = u->n;

	if (f->is_mixed)
		walk_ring(f, u);
	for (uint32_t i = 0; i < turns && !u->is_out; i++) {
		if (u->is_long)
			sample_long(f, u);
		else
			sample_short(f, u);
		if (has_enough(f, u)) {
			u->is_out = true;
			u->stop =
			    u->is_long && u->n < MIN_LONG && !is_settled(f, u) ? STOP_BUDGET : STOP_CONVERGED;
		}
	}
	scale_turn(f, u, from);
	if (!u->is_long && !u->is_out && u->n >= FEW_PAIRS && is_settled(f, u)) {
		u->is_out = true;
		u->stop = STOP_CONVERGED;
	}
}

static double
score(const struct runner *u)
{
	struct arena tmp = {0};
	int64_t *v = u->n ? arena_dup(&tmp, u->sample, u->n * sizeof(*v)) : NULL;
	double s = (double)median_ns(v, u->n) / 16;

	arena_fini(&tmp);
	return s;
}

/* The best score so far, or the one known of before. */
static double
best_score(const struct field *f)
{
	double best = f->r->known_ns > 0 ? (double)f->r->known_ns : INFINITY;

	for (uint32_t i = 0; i < f->r->n; i++)
		if (f->runners[i].is_ready && f->runners[i].n >= 3)
			best = fmin(best, score(&f->runners[i]));
	return best;
}

/* How far behind after n samples is too far: noise shrinks as samples come in. */
static double
slack(const struct runner *u)
{
	uint32_t n = u->is_long ? u->n * 3 : u->n;

	return n < 9 ? 1.5 : n < 17 ? 1.2 : n < 31 ? 1.1 : 1.05;
}

static void
drop_behind(struct field *f)
{
	double best = best_score(f);

	for (uint32_t i = 0; i < f->r->n; i++) {
		struct runner *u = &f->runners[i];

		if (u->is_out || !u->is_ready || u->n < 3 || score(u) <= best * slack(u))
			continue;
		u->is_out = true;
		u->stop = STOP_RACE;
	}
}

/* Of `most` bytes as many as the child's memory allows. */
static size_t
within(const struct race *r, size_t most, size_t share)
{
	return r->memory_bytes ? MIN_OF(most, r->memory_bytes / share) : most;
}

/* ---- start and end -------------------------------------------------------------------------- */
/* Calls of a sample: no more than there are copies, where those are to be cold. */
static uint32_t
calls_of(const struct field *f, int64_t ns)
{
	int64_t most = MIN_OF(f->copies.n_fresh, (uint32_t)MAX_LOOP);

	return ns >= sample_ns / 4 ? 1 : (uint32_t)MIN_OF(sample_ns / MAX_OF(ns, (int64_t)1) + 1, most);
}

/* Of a few calls; what takes a second is warm after one. */
static int64_t
best_call(struct field *f, struct runner *u)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < WARM_UPS; i++) {
		best = MIN_OF(best, call_fresh(f, u, 1, false));
		if (best > 1000 * short_ns)
			break;
	}
	return best;
}

static void
warm_up(struct field *f, struct runner *u)
{
	int64_t best = best_call(f, u);

	if (best < short_ns) { /* what was made last is not what is asked for */
		walk_ring(f, u);
		best = best_call(f, u);
	}
	u->guess_ns = best;
	u->is_long = best >= short_ns || f->copies.is_cold || f->sweeps;
	u->loop = calls_of(f, best);
	u->is_ready = true;
}

static int64_t
at_share(const int64_t *sorted, uint32_t n, double share)
{
	return n ? sorted[MIN_OF((uint32_t)(share * n), n - 1)] / 16 : 0;
}

static void
write_row(struct field *f, struct runner *u, struct m_row *row)
{
	int64_t mid = median_ns(u->sample, u->n);

	row->median_ns = MAX_OF((mid + 8) / 16, (int64_t)1);
	row->min_ns = at_share(u->sample, u->n, 0);
	row->p10_ns = at_share(u->sample, u->n, 0.1);
	row->p90_ns = at_share(u->sample, u->n, 0.9);
	row->samples = u->n;
	row->stop = str_of(measure_stop_name(u->stop));
	mid = median_ns(u->ref, u->n);
	row->clock_ratio = mid > 0 ? (double)f->ref_ns / (double)mid : 1;
}

/* More arithmetic than eight operations a byte: the arithmetic decides.
 *
 * What large streams have written is on its way to memory while the reference runs: beside calls of 12 MiB in
 * and 12 out (last cache: 32) it took 1.4 times as long, and the kernels' times came out as 0.7 of what they
 * were, below what their exponentials alone take. */
static enum measure_ref
choose_reference(const struct spec *s, const struct calibration *c, bool *sweeps)
{
	enum { SWEPT_SHARE = 4 };
	const struct graph *g = &s->g;
	const int64_t *level = c->hw.level_bytes;
	enum measure_ref ref;
	double flops = 0, bytes = 0, last = (double)MAX_OF(level[1], level[2]); /* some have no third */

	for (uint32_t i = 0; i < g->n_nodes; i++)
		flops += node_flops(g, &g->nodes[i]);
	for (uint32_t i = 0; i < g->n_inputs; i++)
		bytes += (double)tensor_bytes(g, g->inputs[i]);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		bytes += (double)tensor_bytes(g, g->outputs[i]);
	ref = flops > 8 * bytes ? REF_COMPUTE : REF_STREAM;
	*sweeps = ref == REF_STREAM && last > 0 && bytes > last / SWEPT_SHARE;
	return ref;
}

enum measure_ref
race_reference(const struct spec *s, struct str heat, const struct calibration *c, int64_t ns)
{
	bool sweeps;
	enum measure_ref ref = choose_reference(s, c, &sweeps);

	return ns >= short_ns || sweeps || rotation_is_cold(s, heat, c) ? REF_COUNT : ref;
}

static bool
make_runners(struct field *f, const struct m_measured *rows, struct err *e)
{
	for (uint32_t i = 0; i < f->r->n; i++) {
		struct runner *u = &f->runners[i];

		u->kernel = &f->r->kernels[i];
		u->is_out = rows[i].row.fail != ERR_NONE;
		if (u->is_out)
			continue;
		if (!lap_open(&f->arena, &f->copies, u->kernel, f->r->of[i].code, &u->lap, e))
			return false;
		u->sample = NEW_ARRAY(&f->arena, int64_t, MAX_SAMPLES);
		u->ref = NEW_ARRAY(&f->arena, int64_t, MAX_SAMPLES);
	}
	return true;
}

static void
warm_all(struct field *f, void (*before)(void *, uint32_t), void *arg)
{
	for (uint32_t i = 0; i < f->r->n; i++) {
		if (f->runners[i].is_out)
			continue;
		before(arg, i);
		warm_up(f, &f->runners[i]);
	}
}

/* A turn for each kernel that is still in the race; false: there was none. */
static bool
turn_all(struct field *f, void (*before)(void *, uint32_t), void *arg)
{
	bool is_on = false;

	for (uint32_t i = 0; i < f->r->n; i++) {
		if (f->runners[i].is_out)
			continue;
		before(arg, i);
		take_turn(f, &f->runners[i]);
		is_on = is_on || !f->runners[i].is_out;
	}
	return is_on;
}

static bool
field_open(struct field *f, const struct race *r, bool is_mixed, const struct m_measured *rows, struct err *e)
{
	struct race *mine = NEW(&f->arena, struct race);

	*mine = *r;
	mine->budget_ns = r->budget_ns > 0 ? r->budget_ns : default_budget_ns;
	f->r = mine;
	f->is_mixed = is_mixed;
	f->ref = choose_reference(mine->spec, mine->calibration, &f->sweeps);
	f->ref_ns = MAX_OF(mine->calibration->ref_ns[f->ref], (int64_t)1);
	f->runners = NEW_ARRAY(&f->arena, struct runner, r->n);
	f->loop = NEW_ARRAY(&f->arena, struct dev_launch, MAX_LOOP);
	if (!rotation_open(
		&f->arena, mine, min_ring_bytes, within(r, max_ring_bytes, RING_SHARE), &f->copies, e))
		return false;
	f->is_small = f->copies.n > 1 &&
	    f->copies.n_bytes < (size_t)(2 * MAX_OF(r->calibration->hw.level_bytes[1], (int64_t)0));
	return make_runners(f, rows, e);
}

/* Writes rows where the race was run. */
static void
field_close(struct field *f, bool was_run, struct m_measured *rows)
{
	for (uint32_t i = 0; f->r && i < f->r->n; i++) {
		if (was_run && rows[i].row.fail == ERR_NONE)
			write_row(f, &f->runners[i], &rows[i].row);
		lap_close(&f->copies, &f->runners[i].lap);
	}
	if (f->r)
		rotation_close(&f->copies);
	arena_fini(&f->arena);
}

bool
race_run(const struct race *r, void (*before)(void *arg, uint32_t i), void *arg, struct m_measured *rows,
    struct err *e)
{
	struct field f = {0};
	bool ok = field_open(&f, r, false, rows, e);

	if (ok) {
		r->hold(arg, true);
		warm_all(&f, before, arg);
		while (turn_all(&f, before, arg))
			drop_behind(&f);
		r->hold(arg, false);
	}
	field_close(&f, ok, rows);
	return ok;
}

/* As many of the n races as memory holds at a time, at least one; *n_run: how many. */
static bool
run_heat(const struct race *r, uint32_t n, void (*before)(void *arg, uint32_t i), void **args,
    struct m_measured **rows, uint32_t *n_run, struct err *e)
{
	struct arena tmp = {0};
	struct field *f = NEW_ARRAY(&tmp, struct field, n);
	size_t bytes = 0, most = within(r, max_heat_bytes, HEAT_SHARE);
	bool ok = true, is_on = true;

	for (*n_run = 0; ok && *n_run < n && bytes < most; ++*n_run) {
		ok = field_open(&f[*n_run], &r[*n_run], true, rows[*n_run], e);
		bytes += f[*n_run].copies.n_bytes;
	}
	if (ok)
		r->hold(args[0], true);
	for (uint32_t i = 0; ok && i < *n_run; i++)
		warm_all(&f[i], before, args[i]);
	while (ok && is_on) {
		is_on = false;
		for (uint32_t i = 0; i < *n_run; i++)
			is_on = turn_all(&f[i], before, args[i]) || is_on;
	}
	if (ok)
		r->hold(args[0], false);
	for (uint32_t i = 0; i < *n_run; i++)
		field_close(&f[i], ok, rows[i]);
	arena_fini(&tmp);
	return ok;
}

bool
races_run(const struct race *r, uint32_t n, void (*before)(void *arg, uint32_t i), void **args,
    struct m_measured **rows, struct err *e)
{
	for (uint32_t at = 0, n_run; at < n; at += n_run)
		if (!run_heat(r + at, n - at, before, args + at, rows + at, &n_run, e))
			return false;
	return true;
}
