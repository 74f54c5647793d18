/* worker/gpu_pair.c: kernels whose instructions were put into another order, beside the kernel as it was.
 *
 * First their results: equal to its, bit for bit, or they are WRONG.  Then their times: a sample is a
 * captured graph of the same number of launches of either, round the same ring of operands; four samples, A B
 * B A, are a pair, with one ratio (pair.c).  A pair in which NVML saw the clock slowed, or another process,
 * is void.  All are timed so once; the one that gained most is timed so again, and only the second session
 * counts: the best of several is the luckiest of them, too. */
#include "gpu_child.h"

#include "rotation.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_PAIRS = 32, SECOND_PAIRS = 96, MAX_CALLS = 512, MOST_VOIDS = 60, LEAST_PAIRS = 8 };
static const uint64_t enough_elements = 10000000;
static const int64_t sample_ns = 200000, default_budget_ns = 1000000000;
static const size_t min_ring_bytes = (size_t)4 << 20, max_ring_bytes = (size_t)2 << 30;

struct side { /* a kernel that takes part */
	struct lap lap;
	struct dev_launch *launches;
	struct gpu_graph *graph;
	int64_t sample[2 * SECOND_PAIRS]; /* of one call, of the last session */
	uint32_t n;
	bool is_ready;
};
struct duel {
	const struct race *r;
	struct gpu_refs *refs;
	void (*before)(void *arg, uint32_t i);
	void *arg;
	struct m_measured *rows;
	struct arena arena;
	struct rotation copies;
	struct side *sides;
	uint32_t calls; /* of a sample, of either */
	uint32_t at;    /* who runs */
	int64_t until_ns;
	bool is_lost;
};

static void
fail_row(const struct duel *d, struct m_measured *m, const struct err *e)
{
	*m = (struct m_measured){0};
	measure_fail(d->r->arena, &m->row, e->code, e->msg);
}

/* Who ran last is to blame; false: the device does not work any more, or the base does not. */
static bool
blame(struct duel *d, const struct err *e)
{
	struct err other;

	(void)d->r->dev->fault(d->r->dev->self, &d->is_lost, &other);
	fail_row(d, &d->rows[d->at], e);
	return !d->is_lost && d->at != 0;
}

static void
runs(struct duel *d, uint32_t i)
{
	d->at = i;
	d->before(d->arg, i);
}

/* ---- results ---------------------------------------------------------------------------------- */
struct comparing {
	struct duel *d;
	uint32_t other;
};

static void
before_trial(void *arg, bool is_other)
{
	const struct comparing *c = arg;

	runs(c->d, is_other ? c->other : 0);
}

static bool
compare(struct duel *d, uint32_t i, struct err *e)
{
	struct comparing c = {d, i};
	bool is_base;
	const struct equal_ask q = {.dev = d->r->dev,
	    .spec = d->r->spec,
	    .base = &d->r->kernels[0],
	    .other = &d->r->kernels[i],
	    .code = d->r->of[i].code,
	    .seed = d->r->seed,
	    .enough = enough_elements,
	    .limit_ns = d->r->budget_ns / 4 / MAX_OF(d->r->n, 1u),
	    .before = before_trial,
	    .arg = &c,
	    .poison = gpu_poison};

	return equal_run(&q, &d->rows[i].compared, &is_base, e);
}

/* ---- samples ---------------------------------------------------------------------------------- */
static bool
make_side(struct duel *d, uint32_t i, struct err *e)
{
	struct side *s = &d->sides[i];

	runs(d, i);
	if (!lap_open(&d->arena, &d->copies, &d->r->kernels[i], d->r->of[i].code, &s->lap, e))
		return false;
	s->launches = NEW_ARRAY(&d->arena, struct dev_launch, MAX_CALLS);
	for (uint32_t c = 0; c < MAX_CALLS; c++)
		s->launches[c] = s->lap.launch[c % s->lap.n];
	return true;
}

static bool
make_graph(struct duel *d, struct side *s, uint32_t calls, struct err *e)
{
	int64_t warm;

	gpu_graph_free(d->r->dev, s->graph);
	s->graph = NULL;
	return gpu_graph_make(d->r->dev, s->launches, calls, NULL, &s->graph, e) &&
	    gpu_graph_time(d->r->dev, s->graph, &warm, e);
}

/* As many calls as a sample of the base needs; the others have the same. */
static bool
choose_calls(struct duel *d, struct err *e)
{
	struct side *s = &d->sides[0];
	uint32_t few = MIN_OF(d->copies.n, 4u);
	int64_t ns;

	if (!make_graph(d, s, few, e) || !gpu_graph_time(d->r->dev, s->graph, &ns, e))
		return false;
	ns = MAX_OF(ns / few, (int64_t)1);
	d->calls = ns >= sample_ns ? 1 : (uint32_t)MIN_OF(sample_ns / ns + 1, (int64_t)MAX_CALLS);
	return make_graph(d, s, d->calls, e);
}

static bool
sample(struct duel *d, uint32_t i, int64_t *ns, struct err *e)
{
	runs(d, i);
	if (d->calls == 1 && !gpu_flush(d->r->dev, e))
		return false;
	if (!gpu_graph_time(d->r->dev, d->sides[i].graph, ns, e))
		return false;
	*ns = MAX_OF(*ns, (int64_t)1);
	return true;
}

/* ---- sessions ---------------------------------------------------------------------------------- */
/* A B B A.  *is_void: it does not count. */
static bool
one_pair(struct duel *d, uint32_t i, int64_t ns[4], struct gpu_voids *voids, bool *is_void, struct err *e)
{
	const uint32_t who[4] = {0, i, i, 0};
	struct gpu_state state[2];

	gpu_state(d->r->dev, &state[0]);
	for (int k = 0; k < 4; k++)
		if (!sample(d, who[k], &ns[k], e))
			return false;
	gpu_state(d->r->dev, &state[1]);
	*is_void = !gpu_is_clean(&state[0]) || !gpu_is_clean(&state[1]);
	if (*is_void)
		gpu_void(voids, gpu_is_clean(&state[0]) ? &state[1] : &state[0]);
	return true;
}

static void
keep(struct duel *d, uint32_t i, const int64_t ns[4])
{
	struct side *a = &d->sides[0], *b = &d->sides[i];

	a->sample[a->n++] = MAX_OF(ns[0] / d->calls, (int64_t)1);
	a->sample[a->n++] = MAX_OF(ns[3] / d->calls, (int64_t)1);
	b->sample[b->n++] = MAX_OF(ns[1] / d->calls, (int64_t)1);
	b->sample[b->n++] = MAX_OF(ns[2] / d->calls, (int64_t)1);
}

/* The number is settled beforehand, but for the end of time: who stops when he likes the figure finds gains
 * that are none. */
static bool
session(struct duel *d, uint32_t i, uint32_t pairs, struct pair_stats *out, struct err *e)
{
	double *ratio = NEW_ARRAY(&d->arena, double, pairs);
	struct gpu_voids voids = {0};
	uint32_t n = 0;

	d->sides[0].n = d->sides[i].n = 0;
	while (n < pairs && (n < LEAST_PAIRS || now_ns() < d->until_ns)) {
		int64_t ns[4];
		bool is_void;

		if (!one_pair(d, i, ns, &voids, &is_void, e))
			return false;
		if (is_void && voids.n_throttled + voids.n_disturbed >= MOST_VOIDS)
			return gpu_voids_told(&voids, n, e);
		if (is_void)
			continue;
		keep(d, i, ns);
		ratio[n++] = (double)(ns[1] + ns[2]) / (double)(ns[0] + ns[3]);
	}
	return pair_judge(ratio, n, out) ||
	    err_set(e, ERR_BUSY, "%u pairs are too few to tell two kernels apart", n);
}

/* ---- rows -------------------------------------------------------------------------------------- */
static void
write_times(struct side *s, struct m_row *row)
{
	row->median_ns = median_ns(s->sample, s->n);
	row->min_ns = s->sample[0];
	row->p10_ns = s->sample[s->n / 10];
	row->p90_ns = s->sample[MIN_OF(s->n * 9 / 10, s->n - 1)];
	row->samples = s->n;
	row->clock_ratio = 1;
	row->stop = str_of(measure_stop_name(STOP_CONVERGED));
}

static void
write_rows(struct duel *d, uint32_t i, const struct pair_stats *p, bool is_second)
{
	struct m_measured *m = &d->rows[i];

	write_times(&d->sides[i], &m->row);
	m->ratio = p->ratio;
	m->low = p->low;
	m->high = p->high;
	m->pairs = p->n;
	m->is_gain = is_second && pair_is_gain(p);
	write_times(&d->sides[0], &d->rows[0].row);
}

/* The kernel that gained most in its first session and had no second one; 0: none. */
static uint32_t
next_best(const struct duel *d, const bool *was_there)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < d->r->n; i++) {
		const struct m_measured *m = &d->rows[i];

		if (!m->row.fail && m->high > 0 && m->high < 1 && !was_there[i] &&
		    (best == 0 || m->ratio < d->rows[best].ratio))
			best = i;
	}
	return best;
}

static bool
time_one(struct duel *d, uint32_t i, uint32_t pairs, bool is_second, struct err *e)
{
	struct pair_stats p;

	if (!session(d, i, pairs, &p, e)) {
		if (e->code == ERR_THROTTLED || e->code == ERR_BUSY)
			d->at = i; /* no kernel's fault, and the others may have a better moment */
		return false;
	}
	write_rows(d, i, &p, is_second);
	return true;
}

/* False: the device, or the base, is at fault. */
static bool
first_sessions(struct duel *d, struct err *e)
{
	for (uint32_t i = 1; i < d->r->n; i++) {
		if (d->rows[i].row.fail != ERR_NONE || (i > 1 && now_ns() >= d->until_ns))
			continue; /* no time for more: the best ones came first */
		if ((!compare(d, i, e) || !make_side(d, i, e) || !make_graph(d, &d->sides[i], d->calls, e) ||
			!time_one(d, i, FIRST_PAIRS, false, e)) &&
		    !blame(d, e))
			return false;
	}
	return true;
}

static bool
second_sessions(struct duel *d, struct err *e)
{
	bool *was_there = NEW_ARRAY(&d->arena, bool, d->r->n);
	uint32_t i;

	d->until_ns = now_ns() + d->r->budget_ns / 2;
	while ((i = next_best(d, was_there)) != 0) {
		was_there[i] = true;
		if (!time_one(d, i, SECOND_PAIRS, true, e)) {
			if (!blame(d, e))
				return false;
			continue;
		}
		if (d->rows[i].is_gain)
			return true;
	}
	return true;
}

bool
gpu_pairs_run(const struct race *r, struct gpu_refs *refs, void (*before)(void *arg, uint32_t i), void *arg,
    struct m_measured *rows, struct err *e)
{
	struct race mine = *r;
	struct duel d = {.r = &mine, .refs = refs, .before = before, .arg = arg, .rows = rows};
	bool ok;

	mine.budget_ns = r->budget_ns > 0 ? r->budget_ns : default_budget_ns;
	d.until_ns = now_ns() + mine.budget_ns / 2;
	d.sides = NEW_ARRAY(&d.arena, struct side, r->n);
	ok = (!rows[0].row.fail ||
		 err_set(e, ERR_FAILED, "the kernel as it was has failed: %.*s",
		     (int)MIN_OF(rows[0].row.cause.n, (size_t)300), rows[0].row.cause.p)) &&
	    rotation_open(&d.arena, &mine, min_ring_bytes, max_ring_bytes, &d.copies, e) &&
	    gpu_refs_warm(refs, e) && make_side(&d, 0, e) && choose_calls(&d, e) && first_sessions(&d, e) &&
	    second_sessions(&d, e);
	if (!ok && !d.is_lost) {
		if (!rows[0].row.fail)
			(void)blame(&d, e);
		for (uint32_t i = 1; i < r->n; i++)
			if (!rows[i].row.fail)
				fail_row(&d, &rows[i], e);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		gpu_graph_free(r->dev, d.sides[i].graph);
		lap_close(&d.copies, &d.sides[i].lap);
	}
	rotation_close(&d.copies);
	arena_fini(&d.arena);
	return !d.is_lost;
}
