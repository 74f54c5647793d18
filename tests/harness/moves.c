/* tests/harness/moves.c: moves in batches; each legal one's block is judged at once, its trace with that of
 * its batch, which is halved where it differs. */
#include "moves.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 48, INPUTS = 8, BATCHES_A_SCHEDULE = 6 };
static const uint32_t ALL_RULES = UINT32_MAX;

struct move {
	char kind; /* x exchange, m move, r move and mend, s stall, y yield */
	uint32_t at, to;
};
struct trial {
	const struct sass_kernel *base;
	const struct moves_ask *ask;
	struct moves_count *c;
	struct rng r;
	struct arena a, runs; /* of a schedule; of a run */
	struct sass_sched *s;
	struct machine_flow *flow;
	struct machine_input in[INPUTS];
	struct machine_trace want[INPUTS];
	uint32_t mark[BATCH]; /* before each of the batch's moves */
	struct move move[BATCH];
	uint32_t n;
	uint64_t bad;
};

/* ---- moves ----------------------------------------------------------------------------------- */
static struct move
random_move(struct trial *t)
{
	static const char kinds[] = "xxxxxmmrrssy";
	const uint32_t n = t->base->n_instr, at = rng_below(&t->r, n), by = 1 + rng_below(&t->r, 24);
	struct move m = {.kind = kinds[rng_below(&t->r, sizeof(kinds) - 1)], .at = at};

	switch (m.kind) {
	case 's':
		m.to = rng_below(&t->r, 16);
		break;
	case 'y':
		m.to = rng_below(&t->r, 2);
		break;
	default:
		m.to = rng_below(&t->r, 2) ? at + by : at - MIN_OF(at, by);
		break;
	}
	return m;
}

static enum sass_rule
do_move(struct sass_sched *s, const struct move *m)
{
	switch (m->kind) {
	case 'x':
		return sass_exchange(s, m->at);
	case 's':
		return sass_set_stall(s, m->at, m->to);
	case 'y':
		return sass_set_yield(s, m->at, m->to);
	default:
		return sass_move(s, m->at, m->to, m->kind == 'r');
	}
}

/* ---- judging --------------------------------------------------------------------------------- */
static void
say(struct trial *t, const struct move *m, const char *what)
{
	if (!t->c->first[0])
		snprintf(t->c->first, sizeof(t->c->first), "%s sm_%d, move %c %u %u: %s", t->base->name,
		    t->base->sm, m->kind, m->at, m->to, what);
	t->bad++;
}

/* Do hazards come in?  Only the move's block has changed, and those behind it where its end has. */
static bool
has_hazard(struct trial *t, uint32_t at, char text[160])
{
	const struct sass_kernel *now = sass_sched_now(t->s);
	struct machine_hazard h;

	if (!machine_flow_block(t->flow, (uint32_t)(sass_block_of(now, at) - now->block)))
		machine_flow_again(t->flow);
	if (machine_flow_hazards(t->flow, &h) == 0)
		return false;
	machine_hazard_text(now, &h, text);
	return true;
}

/* What is named in .nv.info, and the empty accesses, are where the base has them. */
static bool
keeps_places(const struct trial *t, uint32_t from, uint32_t to)
{
	const struct sass_kernel *now = sass_sched_now(t->s);

	for (uint32_t n = from; n <= to && n < now->n_instr; n++) {
		const struct sass_instr *i = &t->base->instr[n];
		const bool is_empty = i->guard == SASS_PT && i->guard_negated && i->op->pipe == SASS_MEMORY;

		if ((i->is_pinned || is_empty) && (i->lo != now->instr[n].lo || sass_sched_who(t->s, n) != n))
			return false;
	}
	return true;
}

static bool
same_traces(struct trial *t)
{
	const struct arena_mark mark = arena_mark(&t->runs);
	bool same = true;

	for (uint32_t n = 0; same && n < t->ask->inputs; n++) {
		struct machine_trace is;

		machine_run(&t->runs, sass_sched_now(t->s), NULL, &t->in[n], &is);
		same = machine_trace_equal(&is, &t->want[n]);
		t->c->runs++;
	}
	arena_reset(&t->runs, mark);
	return same;
}

/* ---- batches --------------------------------------------------------------------------------- */
static void
begin_schedule(struct trial *t)
{
	arena_fini(&t->a);
	t->s = sass_sched_make(&t->a, t->base);
	sass_sched_without(t->s, t->ask->without);
	t->flow = machine_flow(&t->a, sass_sched_now(t->s));
	t->n = 0;
}

/* The first move of the batch behind which the trace differs; it and those behind it are taken back. */
static void
find_culprit(struct trial *t)
{
	uint32_t low = 0, high = t->n; /* equal before move low, not behind move high - 1 */

	while (high - low > 1) {
		const uint32_t half = low + (high - low) / 2;

		sass_sched_undo(t->s, t->mark[half]);
		if (same_traces(t)) {
			for (uint32_t n = half; n < high; n++)
				if (do_move(t->s, &t->move[n]) != SASS_LEGAL)
					bug("a move that was legal is no more");
			low = half;
		} else {
			high = half;
		}
	}
	t->c->traces++;
	say(t, &t->move[low], "computes something else");
}

/* Where it was wrong all begins anew. */
static void
end_batch(struct trial *t)
{
	if (t->n && !same_traces(t)) {
		find_culprit(t);
		begin_schedule(t);
	}
	t->n = 0;
}

static void
judge_legal(struct trial *t, const struct move *m)
{
	const uint32_t from = MIN_OF(m->at, m->kind == 's' || m->kind == 'y' ? m->at : m->to),
		       to = MAX_OF(m->at + 1, m->kind == 's' || m->kind == 'y' ? m->at : m->to);
	char text[160];

	t->c->legal++;
	if (!keeps_places(t, from, to)) {
		t->c->kept++;
		say(t, m, "moves what has to stay");
	} else if (has_hazard(t, m->at, text)) {
		t->c->hazards++;
		say(t, m, text);
	} else {
		t->move[t->n++] = *m;
		return;
	}
	begin_schedule(t);
}

/* A refused move done without rules: is it wrong, as far as the machine sees?  Then taken back. */
static void
do_anyway(struct trial *t, const struct move *m, enum sass_rule why)
{
	const uint32_t mark = sass_sched_mark(t->s);
	char text[160];

	sass_sched_without(t->s, ALL_RULES);
	if (do_move(t->s, m) == SASS_LEGAL) {
		const bool wrong = has_hazard(t, m->at, text) || !same_traces(t);

		t->c->done_anyway++;
		t->c->done_of[why]++;
		t->c->wrong += wrong;
		t->c->wrong_of[why] += wrong;
		sass_sched_undo(t->s, mark);
		machine_flow_again(t->flow);
	}
	sass_sched_without(t->s, t->ask->without);
}

static void
one_move(struct trial *t)
{
	const struct move m = random_move(t);
	const uint32_t mark = sass_sched_mark(t->s);
	const enum sass_rule why = do_move(t->s, &m);

	t->c->tried++;
	if (why == SASS_LEGAL) {
		t->mark[t->n] = mark;
		judge_legal(t, &m);
		return;
	}
	t->c->refused[why]++;
	if (t->ask->anyway && t->c->tried % t->ask->anyway == 0)
		do_anyway(t, &m, why);
}

void
moves_try(const struct sass_kernel *base, const struct moves_ask *ask, struct moves_count *c)
{
	struct trial t = {.base = base, .ask = ask, .c = c, .r = {mix64(ask->seed)}};
	struct arena inputs = {0};

	for (uint32_t n = 0; n < ask->inputs; n++) {
		machine_input_make(&inputs, 4 * (ask->seed % 1000) + n, &t.in[n]);
		machine_run(&t.runs, base, NULL, &t.in[n], &t.want[n]);
	}
	for (uint32_t n = 0, batch = 0; n < ask->moves && (!ask->at_most || t.bad < ask->at_most); batch++) {
		if (batch % BATCHES_A_SCHEDULE == 0)
			begin_schedule(&t);
		for (const uint32_t end = n + 4 * BATCH; n < end && n < ask->moves && t.n < BATCH; n++)
			one_move(&t);
		end_batch(&t);
	}
	arena_fini(&t.a);
	arena_fini(&t.runs);
	arena_fini(&inputs);
}
