/* kernels/sass/legal_move.c: the moves of legal.h: asked, done, and taken back where they are not legal. */
#include "sched_int.h"

enum { MOST_STALL = 15 };

enum sass_rule
sass_first_rule(const struct sass_sched *s, uint32_t rules)
{
	const uint32_t asked = rules & ~s->without;

	return asked ? (enum sass_rule)__builtin_ctz(asked) : SASS_LEGAL;
}

/* ---- order ------------------------------------------------------------------------------------------------
 */
/* Bits 122..124 of what is not known to have reuse flags there, and whose followers would be others. */
static uint32_t
reuse_around(const struct sass_sched *s, uint32_t at)
{
	const uint32_t first = s->base->block[s->g.block[at]].first;

	for (uint32_t n = 0; n <= SASS_REUSE_SPAN + 1 && at + 1 >= first + n; n++) {
		const uint32_t q = at + 1 - n, who = s->who[q];

		if (s->g.span[who] && !(s->instr[q].flags & SASS_REUSES) && q + s->g.span[who] >= at)
			return 1u << SASS_RULE_reuse;
	}
	return 0;
}

static uint32_t
inherited(const struct sass_sched *s, uint32_t first, uint32_t second)
{
	const struct sass_index *x = &s->g.inherits;
	uint32_t rules = 0;

	for (uint32_t q = x->at[second]; q < x->at[second + 1]; q++)
		if (s->g.inherit[x->list[q]].first == first)
			rules |= 1u << s->g.inherit[x->list[q]].rule;
	return rules;
}

enum sass_rule
sass_order(const struct sass_sched *s, uint32_t at)
{
	if (at + 1 >= s->base->n_instr || s->g.block[at] != s->g.block[at + 1])
		return SASS_RULE_block;
	const uint32_t a = s->who[at], b = s->who[at + 1];
	uint32_t rules = s->g.fixed[a] | s->g.fixed[b] | reuse_around(s, at);

	if (a < b) /* else they go back to where the base has them */
		rules |= sass_pair(&s->base->instr[a], &s->base->instr[b], s->base->sm) | inherited(s, a, b);
	return sass_first_rule(s, rules);
}

/* ---- repair -----------------------------------------------------------------------------------------------
 */
/* The least stall count of at least `want`, else the greatest one there is. */
static uint32_t
raised(const struct sass_sched *s, uint32_t at, uint32_t want)
{
	const struct sass_instr *i = &s->instr[at];
	uint32_t best = i->stall;

	for (uint32_t v = i->stall + 1u; v <= MOST_STALL; v++)
		if (sass_control_is_seen(s, at, v, i->yields)) {
			best = v;
			if (v >= want)
				break;
		}
	return best;
}

static bool
keep_apart(struct sass_sched *s, const struct sass_short *x)
{
	uint32_t by = x->by;

	for (uint32_t q = x->to; q-- > x->from && by;) {
		const uint32_t was = s->instr[q].stall;

		if ((s->g.fixed[s->who[q]] & 1u << SASS_RULE_block) || was == 0)
			continue;
		const uint32_t now = raised(s, q, was + by);

		if (now == was)
			continue;
		sass_do_stall(s, q, now);
		by -= MIN_OF(by, now - was);
	}
	return by == 0;
}

enum sass_rule
sass_settle(struct sass_sched *s, uint32_t first, uint32_t last, bool repair)
{
	struct sass_short x;

	for (uint32_t q = first; q <= last; q++)
		while (!sass_judge(s, q, &x))
			if (!repair || !keep_apart(s, &x))
				return x.rule;
	return SASS_LEGAL;
}

/* ---- moves ------------------------------------------------------------------------------------------------
 */
static enum sass_rule
finish(struct sass_sched *s, uint32_t mark, enum sass_rule r)
{
	if (r != SASS_LEGAL)
		sass_sched_undo(s, mark);
	return r;
}

enum sass_rule
sass_exchange(struct sass_sched *s, uint32_t at)
{
	return sass_move(s, at, at + 1, false);
}

enum sass_rule
sass_shift(struct sass_sched *s, uint32_t from, uint32_t to)
{
	const uint32_t n = s->base->n_instr, mark = s->n_log;

	if (from >= n || to >= n)
		return SASS_RULE_block;
	while (from != to) {
		const uint32_t at = from < to ? from : from - 1;
		const enum sass_rule r = sass_order(s, at);

		if (r != SASS_LEGAL)
			return finish(s, mark, r);
		sass_do_exchange(s, at);
		from = from < to ? from + 1 : from - 1;
	}
	return SASS_LEGAL;
}

enum sass_rule
sass_move(struct sass_sched *s, uint32_t from, uint32_t to, bool repair)
{
	const uint32_t mark = s->n_log;
	const enum sass_rule r = sass_shift(s, from, to);

	if (r != SASS_LEGAL)
		return r;
	return finish(s, mark, sass_settle(s, MIN_OF(from, to), MAX_OF(from, to), repair));
}

enum sass_rule
sass_set_stall(struct sass_sched *s, uint32_t at, uint32_t stall)
{
	const uint32_t mark = s->n_log;
	struct sass_short x;

	if (at >= s->base->n_instr || stall > MOST_STALL || sass_is_wall(&s->instr[at]))
		return sass_asks(s, SASS_RULE_block) ? SASS_RULE_block : SASS_LEGAL;
	if (!sass_control_is_seen(s, at, stall, s->instr[at].yields) && sass_asks(s, SASS_RULE_control))
		return SASS_RULE_control;
	const bool is_lower = stall < s->instr[at].stall;

	sass_do_stall(s, at, stall);
	return is_lower && !sass_judge_over(s, at, &x) ? finish(s, mark, x.rule) : SASS_LEGAL;
}

enum sass_rule
sass_set_yield(struct sass_sched *s, uint32_t at, bool yields)
{
	if (at >= s->base->n_instr || sass_is_wall(&s->instr[at]))
		return sass_asks(s, SASS_RULE_block) ? SASS_RULE_block : SASS_LEGAL;
	if (!sass_control_is_seen(s, at, s->instr[at].stall, yields) && sass_asks(s, SASS_RULE_control))
		return SASS_RULE_control;
	sass_do_yield(s, at, yields);
	return SASS_LEGAL;
}
