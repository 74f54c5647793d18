/* kernels/sass/judge.c: is everything as far apart as it must be?  Of one instruction, of what stands on both
 * sides of a place, of a whole kernel. */
#include "sched_int.h"

static const struct sass_block *
block_at(const struct sass_sched *s, uint32_t at)
{
	return &s->base->block[s->g.block[at]];
}

static uint32_t
end_clock(const struct sass_sched *s, uint32_t at)
{
	const uint32_t last = block_at(s, at)->end - 1;

	return s->clock[last] + sass_cycles(&s->instr[last]);
}

static bool
too_near(const struct sass_sched *s, enum sass_rule rule, uint32_t from, uint32_t to, uint32_t by,
    struct sass_short *out)
{
	if (!sass_asks(s, rule))
		return true;
	*out = (struct sass_short){rule, from, to, by};
	return false;
}

/* ---- edges ------------------------------------------------------------------------------------------------
 */
static bool
edge_holds(
    const struct sass_sched *s, const struct sass_edge *e, enum sass_rule fixed, struct sass_short *out)
{
	const uint32_t from = s->place[e->first], to = s->place[e->second];
	const uint32_t apart = s->clock[to] - s->clock[from];

	if (apart >= e->need)
		return true;
	return too_near(s, e->rule ? (enum sass_rule)e->rule : fixed, from, to, e->need - apart, out);
}

static bool
judge_edges(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	const struct sass_graph *g = &s->g;
	const uint32_t who = s->who[at];

	for (uint32_t q = g->by_second.at[who]; q < g->by_second.at[who + 1]; q++)
		if (!edge_holds(s, &g->edge[g->by_second.list[q]], SASS_RULE_before, out))
			return false;
	for (uint32_t q = g->by_first.at[who]; q < g->by_first.at[who + 1]; q++)
		if (!edge_holds(s, &g->edge[g->by_first.list[q]], SASS_RULE_behind, out))
			return false;
	return true;
}

static bool
judge_borders(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	const uint32_t who = s->who[at], to_end = end_clock(s, at) - s->clock[at];

	if (s->clock[at] < s->g.head[who] &&
	    !too_near(s, SASS_RULE_before, block_at(s, at)->first, at, s->g.head[who] - s->clock[at], out))
		return false;
	return to_end >= s->g.tail[who] ||
	    too_near(s, SASS_RULE_behind, at, block_at(s, at)->end, s->g.tail[who] - to_end, out);
}

/* ---- pipes ------------------------------------------------------------------------------------------------
 */
/* Two that follow each other in a queue: as far apart as seen, or as in the base. */
static bool
pair_holds(const struct sass_sched *s, uint32_t from, uint32_t to, struct sass_short *out)
{
	const uint32_t a = s->who[from], b = s->who[to];
	const uint32_t apart = s->clock[to] - s->clock[from], need = s->g.pipe[s->g.key[a]][s->g.key[b]];

	if (apart >= need || (a < b && apart >= s->g.clock[b] - s->g.clock[a]))
		return true;
	return too_near(s, SASS_RULE_pipe, from, to, need - apart, out);
}

static bool
first_holds(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	const uint32_t who = s->who[at], key = s->g.key[who];
	const struct sass_gate *g = &s->g.gate[s->g.block[at]][s->g.queue[who]];
	const uint32_t apart = s->clock[at] + g->before, need = s->g.hardest_in[key];

	if (apart >= need || (key == g->first_key && s->clock[at] >= g->first))
		return true;
	return too_near(s, SASS_RULE_pipe, block_at(s, at)->first, at, need - apart, out);
}

static bool
last_holds(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	const uint32_t who = s->who[at], key = s->g.key[who], to_end = end_clock(s, at) - s->clock[at];
	const struct sass_gate *g = &s->g.gate[s->g.block[at]][s->g.queue[who]];
	const uint32_t need =
	    key == g->last_key ? MIN_OF(g->last, s->g.hardest_out[key]) : s->g.hardest_out[key];

	if (to_end >= need || (key == g->last_key && to_end >= g->last))
		return true;
	return too_near(s, SASS_RULE_pipe, at, block_at(s, at)->end, need - to_end, out);
}

static bool
judge_queue_before(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	if (s->g.queue[s->who[at]] == SASS_NONE)
		return true;
	const uint8_t queue = s->g.queue[s->who[at]];
	const uint32_t first = block_at(s, at)->first;
	uint32_t q = at;

	while (q > first && s->clock[at] - s->clock[q] < SASS_QUEUE_FAR)
		if (s->g.queue[s->who[--q]] == queue)
			return pair_holds(s, q, at, out);
	return s->clock[at] >= SASS_QUEUE_FAR || first_holds(s, at, out);
}

static bool
judge_queue_behind(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	if (s->g.queue[s->who[at]] == SASS_NONE)
		return true;
	const uint8_t queue = s->g.queue[s->who[at]];
	const uint32_t end = block_at(s, at)->end;

	for (uint32_t q = at + 1; q < end && s->clock[q] - s->clock[at] < SASS_QUEUE_FAR; q++)
		if (s->g.queue[s->who[q]] == queue)
			return pair_holds(s, at, q, out);
	return end_clock(s, at) - s->clock[at] >= SASS_QUEUE_FAR || last_holds(s, at, out);
}

bool
sass_judge(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	return judge_edges(s, at, out) && judge_borders(s, at, out) && judge_queue_before(s, at, out) &&
	    judge_queue_behind(s, at, out);
}

/* ---- on both sides ----------------------------------------------------------------------------------------
 */
/* Everything that the stall count of a place may keep apart stands within SASS_FAR cycles of it.  Short
 * blocks are passed on the way from one block to another: they do not become shorter. */
bool
sass_judge_over(const struct sass_sched *s, uint32_t at, struct sass_short *out)
{
	const struct sass_block *b = block_at(s, at);
	const uint32_t here = s->clock[at], length = end_clock(s, at), was = s->g.length[s->g.block[at]];

	if (length < SASS_FAR && length < was &&
	    !too_near(s, SASS_RULE_behind, b->first, b->end, MIN_OF(was, (uint32_t)SASS_FAR) - length, out))
		return false;
	for (uint32_t q = at + 1; q-- > b->first && here - s->clock[q] < SASS_FAR;)
		if (!sass_judge(s, q, out))
			return false;
	for (uint32_t q = at + 1; q < b->end && s->clock[q] - here < SASS_FAR; q++)
		if (!judge_borders(s, q, out) ||
		    (s->clock[q] < SASS_QUEUE_FAR && !judge_queue_before(s, q, out)))
			return false;
	return true;
}

bool
sass_judge_all(const struct sass_sched *s, uint32_t *at, struct sass_short *out)
{
	for (uint32_t n = 0; n < s->base->n_blocks; n++) {
		*at = s->base->block[n].first;
		if (s->base->block[n].end > *at && !sass_judge_over(s, *at, out))
			return false;
	}
	for (*at = 0; *at < s->base->n_instr; ++*at)
		if (!sass_judge(s, *at, out))
			return false;
	return true;
}

/* As ptxas writes them, or as the base has them for that instruction. */
bool
sass_control_is_seen(const struct sass_sched *s, uint32_t at, uint32_t stall, bool yields)
{
	const struct sass_instr *i = &s->base->instr[s->who[at]];
	const uint32_t least = sass_least_stall(s->base->sm, sass_lat_key(i));

	if (stall == i->stall && yields == i->yields)
		return true;
	return stall && (s->stalls[yields] >> stall & 1) && least != SASS_UNSEEN &&
	    stall >= MIN_OF(least, (uint32_t)i->stall);
}
