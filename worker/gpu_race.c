/* worker/gpu_race.c: kernels of one spec timed against each other on a GPU.
 *
 * A sample is a captured graph of k launches, each on the next copy of operands and results, so
 * that it lasts at least 200 us and no launch finds its operands where the last left them.  One
 * launch that is as long as that is timed alone behind a flush of the cache.  Kernels come in the order of
 * what is expected of them; one whose bound is no less than what another took is not timed at all.  The
 * others take turns in random order, a reference kernel among them.
 *
 * A sample counts only if NVML saw neither a reason that slows the clock nor another process, before
 * and after it.  What gets too few that count ends as throttled, or as disturbed: said, not kept.  The power
 * cap is no such reason: a kernel that draws that much runs so in a plan, too; its row says so. */
#include "gpu_child.h"

#include "rotation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_SAMPLES = 11, MAX_SAMPLES = 60, MAX_VOID = 60, MAX_CALLS = 512, FEW = 5 };
static const int64_t sample_ns = 200000, default_budget_ns = 1000000000, pause_ns = 1000000;
static const size_t min_ring_bytes = (size_t)4 << 20, max_ring_bytes = (size_t)2 << 30;

struct runner {
	const struct dev_kernel *kernel;
	struct lap lap;
	struct dev_launch *launches; /* MAX_CALLS of them, round and round */
	uint32_t calls;
	struct gpu_graph *graph;
	int64_t sample[MAX_SAMPLES]; /* of one call */
	uint32_t n;
	struct gpu_voids voids;
	struct seen { /* by NVML, of the samples that count */
		uint64_t mhz_sum;
		unsigned lowest_mhz, cold, hot, watt; /* cold, hot: celsius; watt: the most */
		uint32_t n, n_capped;
		bool is_blind, hides_others; /* no NVML here; it lists no processes */
	} seen;
	int64_t spent_ns;
	bool is_out, is_ready;
	enum measure_stop stop;
};
struct field {
	const struct race *r;
	struct gpu_refs *refs;
	struct arena arena;
	struct rng rng;
	struct rotation copies;
	struct runner *runners;
	int64_t ref[MAX_SAMPLES];
	uint32_t n_ref;
	int64_t fastest_ns; /* of one call, of all that is known */
	bool is_lost;
};

/* A graph may hold more launches than there are copies: then they go round again. */
static bool
make_lap(struct field *f, struct runner *u, const struct kernel_code *code, struct err *e)
{
	if (!lap_open(&f->arena, &f->copies, u->kernel, code, &u->lap, e))
		return false;
	u->launches = NEW_ARRAY(&f->arena, struct dev_launch, MAX_CALLS);
	for (uint32_t c = 0; c < MAX_CALLS; c++)
		u->launches[c] = u->lap.launch[c % u->lap.n];
	return true;
}

static void
drop_runner(struct field *f, struct runner *u)
{
	gpu_graph_free(f->r->dev, u->graph);
	lap_close(&f->copies, &u->lap);
}

/* ---- one sample ------------------------------------------------------------------------------ */
static bool
one_call(struct field *f, struct runner *u, int64_t *ns, struct err *e)
{
	if (u->calls == 1 && !gpu_flush(f->r->dev, e))
		return false;
	if (!gpu_graph_time(f->r->dev, u->graph, ns, e))
		return false;
	u->spent_ns += *ns;
	*ns = MAX_OF(*ns / u->calls, (int64_t)1);
	return true;
}

static void
look(struct runner *u, const struct gpu_state *s)
{
	struct seen *v = &u->seen;

	v->is_blind |= !s->is_seen;
	v->hides_others |= s->hides_others;
	v->mhz_sum += s->sm_mhz;
	v->lowest_mhz = v->n ? MIN_OF(v->lowest_mhz, s->sm_mhz) : s->sm_mhz;
	v->cold = v->n ? MIN_OF(v->cold, s->celsius) : s->celsius;
	v->hot = MAX_OF(v->hot, s->celsius);
	v->watt = MAX_OF(v->watt, s->milliwatt / 1000);
	v->n_capped += s->own_limits != 0;
	v->n++;
}

bool
gpu_is_clean(const struct gpu_state *s)
{
	return s->throttle == 0 && s->n_foreign == 0;
}

void
gpu_void(struct gpu_voids *v, const struct gpu_state *s)
{
	v->reasons |= s->throttle;
	v->n_throttled += s->throttle != 0;
	v->n_disturbed += s->throttle == 0;
}

bool
gpu_voids_told(const struct gpu_voids *v, uint32_t n_good, struct err *e)
{
	uint32_t n = n_good + v->n_throttled + v->n_disturbed;
	char words[128];

	if (n == n_good)
		return true;
	gpu_throttle_words(v->reasons, words, sizeof(words));
	return v->n_throttled >= v->n_disturbed
	    ? err_set(e, ERR_THROTTLED, "throttled: %s in %u of %u samples", words, v->n_throttled, n)
	    : err_set(e, ERR_BUSY, "another process was on the GPU in %u of %u samples", v->n_disturbed, n);
}

/* Takes a sample that may count; voids are noted and followed by a moment's rest. */
static bool
take_sample(struct field *f, struct runner *u, struct err *e)
{
	struct gpu_state before, after;
	int64_t ns = 0;

	gpu_state(f->r->dev, &before);
	if (!one_call(f, u, &ns, e))
		return false;
	gpu_state(f->r->dev, &after);
	if (gpu_is_clean(&before) && gpu_is_clean(&after)) {
		look(u, &before);
		look(u, &after);
		u->sample[u->n++] = ns;
		return true;
	}
	gpu_void(&u->voids, gpu_is_clean(&before) ? &after : &before);
	(void)nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
	return true;
}

/* ---- turns ----------------------------------------------------------------------------------- */
static int64_t
median_of(const int64_t *v, uint32_t n, double *spread)
{
	int64_t copy[MAX_SAMPLES], m;

	memcpy(copy, v, n * sizeof(*v));
	m = median_ns(copy, n);
	/* of the median: the middle half shrunk by the number of samples */
	*spread = n >= 4 ? (double)(copy[n * 3 / 4] - copy[n / 4]) / sqrt(n) : (double)m;
	return m;
}

static void
check_error(struct field *f, struct runner *u)
{
	int64_t share = f->r->budget_ns / MAX_OF(f->r->n, 1u), m;
	double spread;

	if (u->voids.n_throttled + u->voids.n_disturbed >= MAX_VOID) {
		u->is_out = true;
		return;
	}
	if (u->n < FEW)
		return;
	m = median_of(u->sample, u->n, &spread);
	if (u->n >= MAX_SAMPLES || (u->n >= MIN_SAMPLES && spread <= 0.005 * (double)m)) {
		u->is_out = true;
		u->stop = STOP_CONVERGED;
	} else if (u->spent_ns >= share) {
		u->is_out = true;
		u->stop = STOP_BUDGET;
	}
}

static double
best_score(const struct field *f)
{
	double best = f->r->known_ns > 0 ? (double)f->r->known_ns : INFINITY, spread;

	for (uint32_t i = 0; i < f->r->n; i++)
		if (f->runners[i].n >= FEW)
			best = fmin(best, (double)median_of(f->runners[i].sample, f->runners[i].n, &spread));
	return best;
}

static void
drop_behind(struct field *f)
{
	double best = best_score(f), spread;

	for (uint32_t i = 0; i < f->r->n; i++) {
		struct runner *u = &f->runners[i];

		if (u->is_out || u->n < FEW || (double)median_of(u->sample, u->n, &spread) <= 1.3 * best)
			continue;
		u->is_out = true;
		u->stop = STOP_RACE;
	}
}

static void
shuffle(struct rng *r, uint32_t *v, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = rng_below(r, i), t = v[k];

		v[k] = v[i - 1];
		v[i - 1] = t;
	}
}

static bool
sample_ref(struct field *f, struct err *e)
{
	int64_t ns;

	if (!gpu_refs_time(f->refs, &ns, e))
		return false;
	if (f->n_ref < MAX_SAMPLES)
		f->ref[f->n_ref++] = ns;
	return true;
}

static void
fail_row(const struct field *f, struct m_measured *m, const struct err *e)
{
	*m = (struct m_measured){0};
	measure_fail(f->r->arena, &m->row, e->code, e->msg);
}

/* After a fault in a kernel's turn: its row, and whether the device still works. */
static bool
blame(struct field *f, uint32_t i, struct m_measured *rows, struct err *e)
{
	struct err other;

	(void)f->r->dev->fault(f->r->dev->self, &f->is_lost, &other);
	fail_row(f, &rows[i], e);
	f->runners[i].is_out = true;
	return !f->is_lost;
}

static bool
run_turns(
    struct field *f, void (*before)(void *, uint32_t), void *arg, struct m_measured *rows, struct err *e)
{
	uint32_t n = f->r->n, *order = NEW_ARRAY(&f->arena, uint32_t, n + 1);

	for (uint32_t i = 0; i <= n; i++)
		order[i] = i;
	for (bool is_on = true; is_on;) {
		is_on = false;
		shuffle(&f->rng, order, n + 1);
		for (uint32_t k = 0; k <= n; k++) {
			uint32_t i = order[k];

			if (i == n) {
				if (!sample_ref(f, e))
					return false;
				continue;
			}
			if (f->runners[i].is_out)
				continue;
			before(arg, i);
			if (!take_sample(f, &f->runners[i], e)) {
				if (!blame(f, i, rows, e))
					return false;
				continue;
			}
			check_error(f, &f->runners[i]);
			is_on |= !f->runners[i].is_out;
		}
		drop_behind(f);
	}
	return true;
}

/* ---- start and end ---------------------------------------------------------------------------- */
/* A first graph of a few calls says how many a sample needs. */
static bool
set_up(struct field *f, struct runner *u, struct err *e)
{
	const struct dev *d = f->r->dev;
	int64_t ns = 0;

	u->calls = MIN_OF(f->copies.n, 4u);
	for (int i = 0; i < 2; i++) {
		uint32_t calls = u->calls;

		if (!gpu_graph_make(d, u->launches, u->calls, NULL, &u->graph, e) ||
		    !gpu_graph_time(d, u->graph, &ns, e) || !gpu_graph_time(d, u->graph, &ns, e))
			return false;
		ns = MAX_OF(ns / u->calls, (int64_t)1);
		u->calls = ns >= sample_ns ? 1 : (uint32_t)MIN_OF(sample_ns / ns + 1, (int64_t)MAX_CALLS);
		if (i || calls == u->calls) {
			u->calls = calls;
			break;
		}
		gpu_graph_free(d, u->graph);
		u->graph = NULL;
	}
	f->fastest_ns = MIN_OF(f->fastest_ns, ns);
	u->is_ready = true;
	return true;
}

static bool
can_win(const struct field *f, uint32_t i, struct m_measured *m)
{
	const int64_t bound = f->r->of[i].bound_ns;
	struct err e = {0};

	if (bound <= 0 || bound < f->fastest_ns)
		return true;
	(void)err_set(&e, ERR_INFEASIBLE,
	    "cannot win: its launches take %lld ns at least, and another schedule takes %lld ns",
	    (long long)bound, (long long)f->fastest_ns);
	fail_row(f, m, &e);
	return false;
}

static bool
get_ready(
    struct field *f, void (*before)(void *, uint32_t), void *arg, struct m_measured *rows, struct err *e)
{
	for (uint32_t i = 0; i < f->r->n; i++) {
		struct runner *u = &f->runners[i];

		u->kernel = &f->r->kernels[i];
		u->is_out = rows[i].row.fail != ERR_NONE || !can_win(f, i, &rows[i]);
		if (u->is_out)
			continue;
		before(arg, i);
		if ((!make_lap(f, u, f->r->of[i].code, e) || !set_up(f, u, e)) && !blame(f, i, rows, e))
			return false;
	}
	return true;
}

static int64_t
at_share(const int64_t *sorted, uint32_t n, double share)
{
	return sorted[MIN_OF((uint32_t)(share * n), n - 1)];
}

/* "mhz=1410 lowest=1395 celsius=55..57 watt=280 throttled=2 disturbed=0 reasons=thermal": clocks of the
 * samples that count, then how many did not, and why.  "capped=9/22": so many looks at those that count saw
 * the power cap. */
static struct str
write_state(struct arena *a, const struct runner *u)
{
	const struct seen *v = &u->seen;
	char words[128], capped[48] = "", out[512];

	gpu_throttle_words(u->voids.reasons, words, sizeof(words));
	if (v->n_capped)
		(void)snprintf(capped, sizeof(capped), " capped=%u/%u", v->n_capped, v->n);
	(void)snprintf(out, sizeof(out),
	    "mhz=%llu lowest=%u celsius=%u..%u watt=%u throttled=%u disturbed=%u%s%s%s%s",
	    (unsigned long long)(v->n ? v->mhz_sum / v->n : 0), v->lowest_mhz, v->cold, v->hot, v->watt,
	    u->voids.n_throttled, u->voids.n_disturbed, capped,
	    v->is_blind           ? " nvml=none"
		: v->hides_others ? " processes=unseen"
				  : "",
	    words[0] ? " reasons=" : "", words);
	return str_of(str_dup(a, str_of(out)));
}

static void
write_row(const struct field *f, struct runner *u, struct m_measured *m)
{
	struct m_row *row = &m->row;
	double spread;
	int64_t ref;
	struct err e = {0};

	if (u->n < FEW && !gpu_voids_told(&u->voids, u->n, &e)) {
		fail_row(f, m, &e);
		u->stop = e.code == ERR_THROTTLED ? STOP_THROTTLED : STOP_DISTURBED;
		row->stop = str_of(measure_stop_name(u->stop));
		row->state = write_state(f->r->arena, u);
		return;
	}
	row->median_ns = MAX_OF(median_of(u->sample, u->n, &spread), (int64_t)1);
	(void)median_ns(u->sample, u->n); /* sorts them */
	row->min_ns = at_share(u->sample, u->n, 0);
	row->p10_ns = at_share(u->sample, u->n, 0.1);
	row->p90_ns = at_share(u->sample, u->n, 0.9);
	row->samples = u->n;
	row->state = write_state(f->r->arena, u);
	row->stop = str_of(measure_stop_name(u->stop));
	ref = f->n_ref ? median_of(f->ref, f->n_ref, &spread) : 0;
	row->clock_ratio = ref > 0 ? (double)f->r->calibration->ref_ns[REF_COMPUTE] / (double)ref : 1;
}

/* Memory that is not there, or a fault in a reference's turn, which is no kernel's: what has no row yet gets
 * that one, and no time.  After a kernel's fault the others are left to the next child. */
static void
give_up(struct field *f, struct m_measured *rows, struct err *e)
{
	struct err other;

	if (f->is_lost)
		return;
	(void)f->r->dev->fault(f->r->dev->self, &f->is_lost, &other);
	if (f->is_lost)
		e->code = ERR_DEVLOST;
	for (uint32_t i = 0; i < f->r->n; i++)
		if (rows[i].row.fail == ERR_NONE)
			fail_row(f, &rows[i], e);
}

bool
gpu_race_run(const struct race *r, struct gpu_refs *refs, void (*before)(void *arg, uint32_t i), void *arg,
    struct m_measured *rows, struct err *e)
{
	struct race mine = *r;
	struct field f = {.r = &mine,
	    .refs = refs,
	    .rng = {mix64(r->seed + 5)},
	    .fastest_ns = r->known_ns > 0 ? r->known_ns : INT64_MAX};
	bool ok;

	mine.budget_ns = r->budget_ns > 0 ? r->budget_ns : default_budget_ns;
	f.runners = NEW_ARRAY(&f.arena, struct runner, r->n);
	ok = rotation_open(&f.arena, &mine, min_ring_bytes, max_ring_bytes, &f.copies, e);
	if (ok)
		ok = gpu_refs_warm(refs, e) && get_ready(&f, before, arg, rows, e) &&
		    run_turns(&f, before, arg, rows, e);
	if (!ok)
		give_up(&f, rows, e);
	for (uint32_t i = 0; i < r->n; i++) {
		if (ok && rows[i].row.fail == ERR_NONE && f.runners[i].is_ready)
			write_row(&f, &f.runners[i], &rows[i]);
		drop_runner(&f, &f.runners[i]);
	}
	rotation_close(&f.copies);
	arena_fini(&f.arena);
	return !f.is_lost;
}
