/* daemon/planner/result_cache.c: how this very job ended before.  Its key is of all that a plan depends on
 * but budget and measurements: files, options, environment, and this program itself (a build that rewrites
 * otherwise gives other candidates).  The store says whether what it knows of the candidates is what it was:
 *
 *   all the same          the plan of then is the answer; the model is not even read
 *   something changed     the choice of then stands, unless a clearly better plan is known by now
 *                         (search.c); nothing is measured or timed again for it
 *
 * A job that its budget ended may find more: submitted again it goes on from what the cache knows for as long
 * as it is given, and says what was spent before.  So does one with a larger budget than any before.  One
 * that a throttled or lost device kept from measuring is not kept: the next one tries again. */
#include "result_cache.h"

#include "../plan/choice_check.h"
#include "rivals.h"
#include "what_if.h"

#include <string.h>

bool
cached_key(const struct tune *t, const struct m_options *asked, struct hash *out, struct err *e)
{
	struct arena tmp = {0};
	struct m_options o = *asked;
	struct m_env env = t->start.env;
	struct bytes options = {0}, environment = {0};
	struct strbuf sb;
	bool ok;

	o.budget_ns = o.budget_ns > 0;
	o.unplaceable_ns = 0;
	o.dump = STR("");
	ok = rec_pack(&tmp, "options", &o, &options, e) && rec_pack(&tmp, "env", &env, &environment, e);
	sb_init(&sb, &tmp);
	sb_addf(&sb, "job end 2 %s %zu %.*s %zu %zu ", KORCH_VERSION, t->start.model_name.n,
	    STR_ARG(t->start.model_name), options.n, environment.n);
	sb_add(&sb, (struct str){(const char *)t->self.b, sizeof(t->self.b)});
	sb_add(&sb, (struct str){(const char *)t->start.files.b, sizeof(t->self.b)});
	sb_add(&sb, (struct str){(const char *)options.p, options.n});
	sb_add(&sb, (struct str){(const char *)environment.p, environment.n});
	*out = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return ok;
}

bool
cached_find(struct tune *t, struct err *e)
{
	struct msg ask = {.type = MSG_end_ask}, m;
	uint64_t n;

	t->past = (struct m_end_have){0};
	if (what_if_asked(t))
		return true;
	if (!hash_file("/proc/self/exe", &t->self, &n, e) ||
	    !cached_key(t, &t->start.options, &t->end_key, e))
		return false;
	ask.end_ask = (struct m_end_ask){
	    .key = t->end_key, .threads = t->start.options.threads, .precision = t->precision};
	if (!pipe_send(t->pipe, &ask, e) || !costs_await(t, MSG_end_have, 0, &m, e))
		return false;
	t->wholes = m.end_have.wholes;
	t->n_wholes = m.end_have.n_wholes;
	if (m.end_have.end.plan_bytes > 0 &&
	    (m.end_have.end.is_cut || m.end_have.end.budget_ns >= t->start.options.budget_ns))
		t->past = m.end_have;
	if (t->past.end.is_cut)
		t->progress.spent_before = (double)t->past.end.spent_ns * 1e-9;
	return true;
}

bool
cached_plan(struct tune *t, const struct hash *key, struct m_end_have *out, struct err *e)
{
	struct msg ask = {.type = MSG_end_ask}, m;

	ask.end_ask = (struct m_end_ask){
	    .key = *key, .threads = t->start.options.threads, .precision = t->precision, .gives_plan = true};
	if (!pipe_send(t->pipe, &ask, e) || !costs_await(t, MSG_end_have, 0, &m, e))
		return false;
	*out = m.end_have;
	out->has_plan &= out->path.n > 0;
	return true;
}

/* A job that its budget ended goes on where it stopped; every other end is one. */
bool
cached_is_answer(const struct tune *t)
{
	return t->past.end.plan_bytes > 0 && t->past.is_same && t->past.has_plan && !t->past.end.is_cut;
}

const char *
cached_words(struct tune *t)
{
	return t->past.end.is_cut
	    ? arena_printf(t->arena, "going on after %.0f s spent before", t->progress.spent_before)
	    : "reading the model";
}

static uint32_t
number_at(const struct m_job_end *end, uint32_t i)
{
	const uint8_t *p = end->chosen.p + 4 * (size_t)i;

	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t *
cached_choice(const struct tune *t, struct arena *a, uint32_t *n)
{
	const struct m_job_end *end = &t->past.end;
	uint32_t n_all = (uint32_t)(end->chosen.n / 4), *order = NEW_ARRAY(a, uint32_t, MAX_OF(n_all, 1u));
	struct err why = {0};
	bool ok = end->plan_bytes > 0 && end->chosen.n % 4 == 0;

	for (uint32_t i = 0; i < n_all && ok; i++) {
		order[i] = number_at(end, i);
		ok = order[i] < t->program.n_kernels;
	}
	ok = ok && blp_check_order(&t->program.blp, order, n_all, &why);
	*n = ok ? n_all : 0;
	return order;
}

struct held *
cached_held(const struct tune *t, struct arena *a, const uint32_t *chosen, uint32_t n)
{
	const struct m_job_end *end = &t->past.end;
	struct held *out = NEW_ARRAY(a, struct held, MAX_OF(n, 1u));

	if (n == 0 || end->n_built != n)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		out[i] = (struct held){
		    t->program.spec_of[chosen[i]], end->built[i].schedule, MAX_OF(end->built[i].cost_ns, 0)};
	return out;
}

/* As the last build had them; of a plan that was not built, as they were. */
static void
fill_built(struct tune *t, struct m_job_end *end)
{
	struct held *now;

	if (!t->codes) {
		end->built = t->past.end.built;
		end->n_built = t->past.end.n_built;
		return;
	}
	end->n_built = t->choice.n_chosen;
	end->built = NEW_ARRAY(t->arena, struct m_built, MAX_OF(end->n_built, 1u));
	now = held_now(t, t->arena, t->choice.chosen, end->n_built);
	for (uint32_t i = 0; i < end->n_built; i++) {
		const struct plan_code *c = &t->codes[now[i].spec];

		end->built[i].schedule = c->is_ready ? c->schedule : now[i].schedule;
		end->built[i].cost_ns = now[i].cost_ns;
	}
}

bool
cached_cost(struct tune *t, int64_t *cost)
{
	const struct m_job_end *end = &t->past.end;
	struct arena tmp = {0};
	uint32_t n, *order = cached_choice(t, &tmp, &n);
	bool ok = end->plan_bytes > 0 && n == end->chosen.n / 4;

	*cost = 0;
	for (uint32_t i = 0; i < n && ok; i++) {
		ok = cost_measured(t, t->program.spec_of[order[i]]) != BLP_NEVER;
		*cost += ok ? cost_measured(t, t->program.spec_of[order[i]]) : 0;
	}
	arena_fini(&tmp);
	return ok;
}

void
cached_take(struct tune *t, int64_t cost)
{
	const struct m_job_end *end = &t->past.end;

	t->choice.n_chosen = (uint32_t)(end->chosen.n / 4);
	t->choice.chosen = NEW_ARRAY(t->arena, uint32_t, MAX_OF(t->choice.n_chosen, 1u));
	t->choice.cost = cost;
	for (uint32_t i = 0; i < t->choice.n_chosen; i++)
		t->choice.chosen[i] = number_at(end, i);
	if (!t->is_cut)
		t->progress.stop = end->progress.stop;
	t->is_repeat = true;
}

void
cached_times(struct tune *t)
{
	const struct m_progress *p = &t->past.end.progress;

	t->progress.measured_ns = p->measured_ns;
	t->progress.clock_ratio = p->clock_ratio;
	t->progress.runner = p->runner;
	t->progress.runner_ns = p->runner_ns;
	t->progress.runner_measured_ns = p->runner_measured_ns;
	t->progress.winner = p->winner;
	t->progress.least_measured_ns = p->least_measured_ns;
}

/* As it was said then, but for what this job itself did. */
void
cached_progress(struct tune *t)
{
	struct m_progress now = t->progress;
	bool was_read = now.primitives > 0;

	t->progress = t->past.end.progress;
	t->progress.cached = was_read ? now.cached : t->past.cached;
	t->progress.failed = was_read ? now.failed : t->past.failed;
	t->progress.measured = now.measured;
	t->progress.remeasured = now.remeasured;
	t->progress.spent_before = now.spent_before;
	if (t->is_cut)
		t->progress.stop = now.stop;
}

bool
cached_fill(struct tune *t, struct m_done *done)
{
	const struct cand_set *c = &t->front.cands;
	uint32_t n_specs = c->n_specs - c->n_views; /* what was measured, or could be */
	uint8_t *chosen, *specs;
	struct strbuf heats;

	if (what_if_asked(t) || t->finish_asked || t->n_trouble || t->n_unmoved || n_specs > ENDED_MAX_SPECS)
		return false;
	chosen = arena_alloc(t->arena, 4 * (size_t)t->choice.n_chosen + 1);
	specs = arena_alloc(t->arena, sizeof(struct hash) * n_specs + 1);
	for (uint32_t i = 0; i < t->choice.n_chosen; i++)
		for (int b = 0; b < 4; b++)
			chosen[4 * (size_t)i + (size_t)b] = (uint8_t)(t->choice.chosen[i] >> (8 * b));
	sb_init(&heats, t->arena);
	for (uint32_t s = 0; s < n_specs; s++) {
		memcpy(specs + sizeof(struct hash) * s, c->specs[s].hash.b, sizeof(struct hash));
		sb_addf(&heats, "%.*s\n", STR_ARG(t->cost[s].heat));
	}
	done->end_key = t->end_key;
	done->threads = t->start.options.threads;
	done->precision = t->precision;
	done->end = (struct m_job_end){.budget_ns = MAX_OF(t->start.options.budget_ns, t->past.end.budget_ns),
	    .chosen = {chosen, 4 * (size_t)t->choice.n_chosen},
	    .progress = t->progress,
	    .specs = {specs, sizeof(struct hash) * n_specs},
	    .heats = {(const uint8_t *)heats.p, heats.n},
	    .effort = t->effort,
	    .spent_ns = t->os->mono_ns(t->os->self) - t->began_ns + t->past.end.spent_ns,
	    .is_cut = t->is_cut,
	    .least_ns = t->is_repeat ? t->past.end.least_ns : t->least_ns};
	done->end.raced = rivals_raced(t, &done->end.n_raced);
	if (t->taken) /* the choice is what it was; beside another plan's sum it says nothing */
		done->end.least_ns = t->progress.latency_ns;
	fill_built(t, &done->end);
	return true;
}

void
cached_refill(struct tune *t, struct m_done *done)
{
	done->end_key = t->end_key;
	done->threads = t->start.options.threads;
	done->precision = t->precision;
	done->end = t->past.end;
	done->end.progress = t->progress;
	done->end.least_ns = t->progress.latency_ns;
	t->is_repeat = true;
	done->end.raced = rivals_raced(t, &done->end.n_raced);
}
