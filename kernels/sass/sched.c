/* kernels/sass/sched.c: a schedule under edit: changes, each of them logged, and taken back. */
#include "sched_int.h"

#include <string.h>

enum { STALL_AT = 105 - 64, YIELD_AT = 109 - 64, REUSE_AT = 122 - 64, REUSE_BITS = 7, STALL_BITS = 15 };

struct sass_sched *
sass_sched_make(struct arena *a, const struct sass_kernel *base)
{
	struct sass_sched *s = NEW(a, struct sass_sched);

	*s = (struct sass_sched){.a = a, .base = base, .now = *base};
	sass_graph_make(a, base, &s->g);
	s->instr = s->now.instr = NEW_ARRAY(a, struct sass_instr, base->n_instr);
	s->clock = NEW_ARRAY(a, uint32_t, base->n_instr);
	s->who = NEW_ARRAY(a, uint32_t, base->n_instr);
	s->place = NEW_ARRAY(a, uint32_t, base->n_instr);
	sass_sched_reset(s);
	for (int yields = 0; yields < 2; yields++)
		s->stalls[yields] = sass_stalls(base->sm, yields);
	return s;
}

void
sass_sched_reset(struct sass_sched *s)
{
	s->n_log = 0;
	for (uint32_t at = 0; at < s->base->n_instr; at++) {
		s->instr[at] = s->base->instr[at];
		s->clock[at] = s->g.clock[at];
		s->who[at] = s->place[at] = at;
	}
}

const struct sass_kernel *
sass_sched_now(const struct sass_sched *s)
{
	return &s->now;
}

uint32_t
sass_sched_who(const struct sass_sched *s, uint32_t at)
{
	return s->who[at];
}

void
sass_sched_without(struct sass_sched *s, uint32_t rules)
{
	s->without = rules;
}

static void
note(struct sass_sched *s, uint32_t at, enum sass_change change, uint32_t was)
{
	GROW(s->a, s->log, s->n_log, s->cap_log);
	s->log[s->n_log++] = (struct sass_log){at, (uint8_t)change, (uint8_t)was};
}

/* ---- words ------------------------------------------------------------------------------------------------
 */
static void
put(struct sass_instr *i, int at, uint64_t bits, uint64_t value)
{
	i->hi = (i->hi & ~(bits << at)) | value << at;
}

/* Its own flags while its followers are the base's as far as the flags reach, else none. */
static void
set_reuse(struct sass_sched *s, uint32_t at)
{
	const uint32_t who = s->who[at], span = s->g.span[who];
	const uint32_t end = s->base->block[s->g.block[who]].end;
	uint32_t n = 1;

	if (span == 0 || !(s->instr[at].flags & SASS_REUSES))
		return;
	while (n <= span && who + n < end && at + n < end && s->who[at + n] == who + n)
		n++;
	const bool stays = n > span || who + n >= end;

	const uint8_t reuse = s->base->instr[who].reuse;

	s->instr[at].reuse = (uint8_t)(stays ? reuse : reuse & ~REUSE_BITS);
	put(&s->instr[at], REUSE_AT, REUSE_BITS, s->instr[at].reuse & REUSE_BITS);
}

static void
set_reuse_around(struct sass_sched *s, uint32_t at)
{
	const uint32_t first = s->base->block[s->g.block[at]].first;

	for (uint32_t n = 0; n <= SASS_REUSE_SPAN + 1 && at + 1 >= first + n; n++)
		set_reuse(s, at + 1 - n);
}

/* ---- changes that are not judged ------------------------------------------------------------------------
 */
static void
exchange(struct sass_sched *s, uint32_t at)
{
	const struct sass_instr i = s->instr[at];
	const uint32_t who = s->who[at];

	s->instr[at] = s->instr[at + 1];
	s->instr[at + 1] = i;
	s->who[at] = s->who[at + 1];
	s->who[at + 1] = who;
	s->place[s->who[at]] = at;
	s->place[who] = at + 1;
	s->clock[at + 1] = s->clock[at] + sass_cycles(&s->instr[at]);
	set_reuse_around(s, at);
}

static void
set_stall(struct sass_sched *s, uint32_t at, uint32_t stall)
{
	struct sass_instr *i = &s->instr[at];
	const uint32_t end = s->base->block[s->g.block[at]].end, was = sass_cycles(i);

	i->stall = (uint8_t)stall;
	put(i, STALL_AT, STALL_BITS, stall);
	const uint32_t more = sass_cycles(i) - was; /* modulo 2^32 */

	for (uint32_t q = at + 1; q < end; q++)
		s->clock[q] += more;
}

static void
set_yield(struct sass_sched *s, uint32_t at, bool yields)
{
	s->instr[at].yields = yields;
	put(&s->instr[at], YIELD_AT, 1, !yields);
}

void
sass_do_exchange(struct sass_sched *s, uint32_t at)
{
	note(s, at, SASS_CHANGE_order, 0);
	exchange(s, at);
}

void
sass_do_stall(struct sass_sched *s, uint32_t at, uint32_t stall)
{
	note(s, at, SASS_CHANGE_stall, s->instr[at].stall);
	set_stall(s, at, stall);
}

void
sass_do_yield(struct sass_sched *s, uint32_t at, bool yields)
{
	note(s, at, SASS_CHANGE_yield, s->instr[at].yields);
	set_yield(s, at, yields);
}

/* ---- back -------------------------------------------------------------------------------------------------
 */
uint32_t
sass_sched_mark(const struct sass_sched *s)
{
	return s->n_log;
}

void
sass_sched_undo(struct sass_sched *s, uint32_t mark)
{
	while (s->n_log > mark) {
		const struct sass_log *l = &s->log[--s->n_log];

		if (l->change == SASS_CHANGE_order)
			exchange(s, l->at);
		else if (l->change == SASS_CHANGE_stall)
			set_stall(s, l->at, l->was);
		else
			set_yield(s, l->at, l->was);
	}
}

void
sass_sched_keep(struct sass_sched *s)
{
	s->n_log = 0;
}
