/* daemon/planner/ended.c: how a job like this one ended before.  A search that its budget ended would
 * measure on when it is repeated, and the user who repeats a command would get another plan for it; so the
 * choice is kept, and a repeat takes it.  A larger budget goes on, and so does --prove. */
#include "tune.h"

#include <string.h>

/* Of all that the choice depends on but budget and measurements. */
static struct hash
digest(const struct tune *t)
{
	const struct m_options *o = &t->start.options;
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_addf(&sb, "job end 1 %s %llu %llu %a %d %d %.*s %zu %.*s ", KORCH_VERSION, (unsigned long long)o->threads,
	    (unsigned long long)t->effort, o->tolerance, o->strict, o->prove, STR_ARG(o->fusion), t->start.env.key.n,
	    STR_ARG(t->start.env.key));
	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		sb_add(&sb, (struct str){(const char *)t->front.cands.specs[t->program.spec_of[k]].hash.b, sizeof(h.b)});
	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		const struct blp_kernel *b = &t->program.kernels[k];

		sb_add(&sb, (struct str){(const char *)b->in, b->n_in * sizeof(*b->in)});
		sb_add(&sb, (struct str){(const char *)b->out, b->n_out * sizeof(*b->out)});
	}
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

static uint32_t
number_at(const struct m_job_end *end, uint32_t i)
{
	const uint8_t *p = end->chosen.p + 4 * (size_t)i;

	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Still a plan, of kernels with a time? */
static bool
makes_sense(struct tune *t, const struct m_job_end *end)
{
	struct arena tmp = {0};
	uint32_t n = (uint32_t)(end->chosen.n / 4), *order = NEW_ARRAY(&tmp, uint32_t, MAX_OF(n, 1u));
	struct err why = {0};
	bool ok = n > 0 && end->chosen.n % 4 == 0;

	for (uint32_t i = 0; i < n && ok; i++) {
		order[i] = number_at(end, i);
		ok = order[i] < t->program.n_kernels && cost_measured(t, t->program.spec_of[order[i]]) != BLP_NEVER;
	}
	ok = ok && blp_check_order(&t->program.blp, order, n, &why);
	arena_fini(&tmp);
	return ok;
}

bool
ended_find(struct tune *t, struct m_job_end *out, struct err *e)
{
	struct msg ask = {.type = MSG_end_ask}, m;

	ask.end_ask.key = digest(t);
	if (!pipe_send(t->pipe, &ask, e) || !costs_await(t, MSG_end_have, &m, e))
		return false;
	*out = m.end_have.end;
	if (out->budget_ns < t->start.options.budget_ns || !makes_sense(t, out))
		*out = (struct m_job_end){.stop = STR("")};
	return true;
}

void
ended_take(struct tune *t, const struct m_job_end *end)
{
	t->choice.n_chosen = (uint32_t)(end->chosen.n / 4);
	t->choice.chosen = NEW_ARRAY(t->arena, uint32_t, t->choice.n_chosen);
	t->choice.cost = 0;
	t->choice.proved = false;
	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		t->choice.chosen[i] = number_at(end, i);
		t->choice.cost += cost_measured(t, t->program.spec_of[t->choice.chosen[i]]);
	}
}

bool
ended_keep(struct tune *t, struct err *e)
{
	struct msg say = {.type = MSG_end_say};
	struct arena tmp = {0};
	uint8_t *p = arena_alloc(&tmp, 4 * (size_t)t->choice.n_chosen + 1);
	bool ok;

	for (uint32_t i = 0; i < t->choice.n_chosen; i++)
		for (int b = 0; b < 4; b++)
			p[4 * (size_t)i + (size_t)b] = (uint8_t)(t->choice.chosen[i] >> (8 * b));
	say.end_say.key = digest(t);
	say.end_say.end = (struct m_job_end){.budget_ns = t->start.options.budget_ns, .proved = t->choice.proved,
	    .stop = t->progress.stop, .chosen = {p, 4 * (size_t)t->choice.n_chosen}};
	ok = pipe_send(t->pipe, &say, e);
	arena_fini(&tmp);
	return ok;
}
