/* daemon/planner/perturb.c: better orders of machine instructions (SIP) for the kernels that the plan rests
 * on.
 *
 * Once the search has ended, the generated GPU kernels that take most of the choice's time are handed to
 * workers, with the schedules they have; what comes back is the same kernel with moves of its instructions, a
 * gain over the kernel as it was that pairs of runs have shown, and a schedule with a word more (`sip=`).  It
 * costs what was measured of it, so the program is solved again and takes it or not; at the end the plan
 * without moves is timed beside the one with them (plan_race.c). */
#include "perturb.h"
#include "what_if.h"

#include "../../proto/range.h"

#include <stdlib.h>

enum { MOST_KERNELS = 8, WAIT_MS = 200 };
/* Of the choice's time, for a kernel to matter; half of what is given is for compiling, checking and waiting.
 */
static const double least_share = 0.02;
static const int64_t least_each_ns = 1000000;

struct target_kernel {
	uint32_t spec;
	int64_t ns; /* in the whole plan */
};

static int
longest_first(const void *x, const void *y)
{
	const struct target_kernel *a = x, *b = y;

	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	return (a->spec > b->spec) - (a->spec < b->spec);
}

/* Its code is ours, and is known. */
static bool
is_generated(const struct tune *t, uint32_t s)
{
	return !cand_is_view(&t->front.cands, s) && cost_is_known(&t->cost[s]) &&
	    !str_starts(t->cost[s].schedule, "lib=");
}

/* The specs of the choice that matter, those with most time first. */
static uint32_t
choose_kernels(const struct tune *t, struct arena *a, struct target_kernel **out)
{
	struct target_kernel *list = NEW_ARRAY(a, struct target_kernel, MAX_OF(t->choice.n_chosen, 1u));
	uint32_t n = 0, n_good = 0;

	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]], at = 0;

		if (!is_generated(t, s))
			continue;
		while (at < n && list[at].spec != s)
			at++;
		list[at].spec = s;
		list[at].ns += t->cost[s].measured_ns;
		n = MAX_OF(n, at + 1);
	}
	qsort(list, n, sizeof(*list), longest_first);
	while (n_good < MIN_OF(n, (uint32_t)MOST_KERNELS) &&
	    (double)list[n_good].ns >= least_share * (double)t->choice.cost)
		n_good++;
	*out = list;
	return n_good;
}

static bool
ask(struct tune *t, const struct target_kernel *list, uint32_t n, struct err *e)
{
	struct arena tmp = {0};
	struct m_kernel *k = NEW_ARRAY(&tmp, struct m_kernel, n);
	struct m_bound *bounds = NEW_ARRAY(&tmp, struct m_bound, n);
	struct msg m = {.type = MSG_perturb_ask};
	bool ok;

	for (uint32_t i = 0; i < n; i++) {
		struct str moves;

		k[i] = (struct m_kernel){.spec = t->front.cands.specs[list[i].spec].text, .symbol = STR("")};
		(void)sip_split(t->cost[list[i].spec].schedule, &k[i].schedule, &moves);
		bounds[i] = cost_bound(t, list[i].spec);
	}
	m.perturb_ask = (struct m_perturb_ask){.threads = t->start.options.threads,
	    .precision = t->precision,
	    .kernels = k,
	    .n_kernels = n,
	    .bounds = bounds,
	    .n_bounds = n,
	    .each_ns = MAX_OF(t->start.options.perturb_ns / 2 / n, least_each_ns),
	    .asked_ns = t->start.options.perturb_ns,
	    .seed = t->start.options.seed};
	ok = pipe_send(t->pipe, &m, e);
	t->n_perturbing = n;
	arena_fini(&tmp);
	return ok;
}

/* The machine's faults are told with those of measurements. */
static bool
is_kernels_own(enum err_code c)
{
	return c == ERR_COMPILE || c == ERR_LAUNCH || c == ERR_WRONG || c == ERR_CRASH || c == ERR_TIMEOUT ||
	    c == ERR_INFEASIBLE;
}

/* For people: what came of each. */
static void
note(struct tune *t, const struct m_perturb_have *m)
{
	struct m_progress *p = &t->progress;

	p->perturbed++;
	p->perturb_gained += m->perturbed.schedule.n > 0;
	if (m->perturbed.schedule.n)
		p->perturb_best = MAX_OF(p->perturb_best, 1 - m->perturbed.ratio);
}

void
perturb_unmoved(struct tune *t, uint32_t s, struct str cause)
{
	if (t->n_unmoved++ == 0)
		t->unmoved = str_of(arena_printf(
		    t->arena, "node '%.60s': %.250s", spec_description(t, s), str_dup(t->arena, cause)));
}

void
perturb_take(struct tune *t, const struct m_perturb_have *m)
{
	uint32_t s;

	t->n_perturbing -= t->n_perturbing > 0;
	if (m->fail)
		costs_trouble(t, err_of_wire(m->fail), m->cause);
	if (t->is_final || !cost_find(t, &m->perturbed.spec, &s))
		return;
	if (m->fail) {
		if (is_kernels_own(err_of_wire(m->fail)))
			perturb_unmoved(t, s, m->cause);
		return;
	}
	note(t, m);
	if (cost_is_known(&t->cost[s]) && m->cost.median_ns > 0)
		cost_take(t, s, &m->cost);
}

static bool
read_record(struct arena *a, const struct spec_cost *c, struct m_perturbed *out)
{
	struct err none = {0};

	return c->perturbed.n && rec_unpack(a, "perturbed", c->perturbed, out, &none) && out->ratio > 0;
}

int64_t
perturb_plain_ns(const struct tune *t, uint32_t s)
{
	struct arena tmp = {0};
	const struct spec_cost *c = &t->cost[s];
	struct m_perturbed p;
	struct str base, moves;
	int64_t ns = c->measured_ns;

	if (sip_split(c->schedule, &base, &moves) && read_record(&tmp, c, &p) && p.ratio < 1)
		ns = (int64_t)MIN_OF((double)ns / p.ratio, (double)BLP_MAX_COST);
	arena_fini(&tmp);
	return ns;
}

bool
perturb_undo(struct tune *t, uint32_t s)
{
	struct spec_cost *c = &t->cost[s];
	int64_t ns = perturb_plain_ns(t, s);
	struct str base, moves;

	if (!sip_split(c->schedule, &base, &moves))
		return false;
	c->measured_ns = ns;
	c->schedule = base;
	c->perturbed = (struct bytes){0};
	return true;
}

bool
perturb_is_in(struct tune *t, const uint32_t *chosen, uint32_t n)
{
	struct str base, moves;

	for (uint32_t i = 0; i < n; i++)
		if (sip_split(finish_schedule(t, t->program.spec_of[chosen[i]]), &base, &moves))
			return true;
	return false;
}

static bool
find_record(const struct tune *t, const struct plan_kernel *k, struct m_perturbed *out)
{
	struct hash spec = hash_bytes(k->spec.p, k->spec.n);
	uint32_t s;

	return cost_find(t, &spec, &s) && read_record(t->arena, &t->cost[s], out) &&
	    str_eq(out->schedule, k->schedule);
}

void
perturb_tell(const struct tune *t, struct plan *plan)
{
	plan->perturbed = NEW_ARRAY(t->arena, struct plan_perturbed, MAX_OF(plan->n_kernels, 1u));
	for (uint32_t i = 0; i < plan->n_kernels; i++) {
		struct m_perturbed p;

		if (!find_record(t, &plan->kernels[i], &p))
			continue;
		plan->perturbed[plan->n_perturbed++] = (struct plan_perturbed){.kernel = i,
		    .ratio = p.ratio,
		    .low = p.low,
		    .high = p.high,
		    .expected = p.expected,
		    .pairs = (int64_t)p.pairs,
		    .compared = (int64_t)p.compared,
		    .tried = (int64_t)p.tried,
		    .failed = (int64_t)p.failed,
		    .moves = (int64_t)p.n_moves};
	}
}

/* Until all of it has come, or its time is over. */
static bool
await_all(struct tune *t, struct err *e)
{
	while (t->n_perturbing > 0 && !t->finish_asked && t->os->mono_ns(t->os->self) < t->perturb_until_ns)
		if (!costs_take(t, WAIT_MS, e) || !progress_say(t, "perturbing kernels", false, e))
			return false;
	return costs_drop(t, e);
}

bool
perturb(struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	struct target_kernel *list;
	const struct m_options *o = &t->start.options;
	bool may = o->perturb_ns > 0 && o->budget_ns > 0 && !o->offline && !what_if_asked(t) && !t->is_repeat;
	uint32_t n = may ? choose_kernels(t, &tmp, &list) : 0;
	bool ok = true;

	if (n > 0) {
		share_time(t);
		ok = ask(t, list, n, e) && progress_say(t, "perturbing kernels", true, e) && await_all(t, e);
	}
	arena_fini(&tmp);
	return ok && (t->progress.perturb_gained == 0 || search_renew(t, e));
}
