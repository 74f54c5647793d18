/* kernels/sass/machine_walk.c: the judge of instructions taken over all paths of a kernel, until nothing is
 * learnt any more. */
#include "machine_hazard.h"

#include <string.h>

enum { CALL = 0x144, RET = 0x150 };

/* ---- blocks ---------------------------------------------------------------------------------- */
/* Cycles are counted from a block's beginning. */
static void
rebase(struct state *s, int clock)
{
	for (uint32_t p = 0; p < FILE_END; p++)
		for (uint32_t c = 0; c < CONSUMERS; c++)
			s->reg[p].ready[c] = (int16_t)MAX_OF(s->reg[p].ready[c] - clock, 0);
	for (uint32_t b = 0; b < SASS_BARRIERS; b++)
		s->settable[b] = (int16_t)MAX_OF(s->settable[b] - clock, 0);
}

/* A stall of 0 with the yield bit is how ptxas writes a long wait, behind ERRBAR and its like. */
static int
issue_cycles(const struct sass_instr *i)
{
	enum { LONG = 16 };

	return i->stall ? i->stall : i->yields && i->flags & (SASS_WALL | SASS_UNKNOWN) ? LONG : 0;
}

static void
walk(struct machine_flow *f, uint32_t block)
{
	const struct sass_block *b = &f->k->block[block];
	int clock = 0;

	f->now = f->begin[block];
	for (uint32_t at = b->first; at < b->end; at++) {
		hazard_step(f, at, clock);
		clock += issue_cycles(&f->k->instr[at]);
		if (clock > INT16_MAX / 2) {
			rebase(&f->now, clock);
			clock = 0;
		}
	}
	rebase(&f->now, clock);
}

static bool
join_pending(struct pending *to, const struct pending *from)
{
	const struct pending old = *to;

	if (!from->terms)
		return false;
	to->queue = !to->terms || to->queue == from->queue ? from->queue : QUEUE_NONE;
	to->terms |= from->terms;
	return to->queue != old.queue || to->terms != old.terms;
}

static bool
join_register(struct register_state *to, const struct register_state *from)
{
	bool grew = false;

	if (join_pending(&to->write, &from->write) | (to->ready[C_ALU] < from->ready[C_ALU])) {
		to->by = from->by;
		grew = true;
	}
	if (join_pending(&to->read, &from->read)) {
		to->read_by = from->read_by;
		grew = true;
	}
	for (uint32_t c = 0; c < CONSUMERS; c++) {
		grew |= from->ready[c] > to->ready[c];
		to->ready[c] = MAX_OF(to->ready[c], from->ready[c]);
	}
	return grew;
}

static bool
join(struct state *to, const struct state *from)
{
	bool grew = !to->reached;

	to->reached = true;
	for (uint32_t p = 0; p < FILE_END; p++)
		grew |= join_register(&to->reg[p], &from->reg[p]);
	for (uint32_t b = 0; b < SASS_BARRIERS; b++) {
		grew |= from->settable[b] > to->settable[b];
		to->settable[b] = MAX_OF(to->settable[b], from->settable[b]);
	}
	return grew;
}

static bool
is_call(const struct sass_instr *i)
{
	return (i->lo & 0x1ff) == CALL && i->target >= 0;
}

static uint32_t
target_block(const struct sass_kernel *k, const struct sass_instr *call)
{
	return (uint32_t)(sass_block_of(k, (uint32_t)call->target) - k->block);
}

static uint64_t
function_bit(uint32_t block)
{
	return 1ull << block % 64;
}

/* Which functions each block is part of: from the places that are called, along the blocks. */
static void
find_functions(struct machine_flow *f)
{
	const struct sass_kernel *k = f->k;
	bool grew = true;

	for (uint32_t n = 0; n < k->n_instr; n++)
		if (is_call(&k->instr[n]))
			f->called[target_block(k, &k->instr[n])] |=
			    function_bit(target_block(k, &k->instr[n]));
	while (grew) {
		grew = false;
		for (uint32_t b = 0; b < k->n_blocks; b++)
			for (uint32_t n = 0; n < k->block[b].n_next; n++) {
				uint64_t *to = &f->called[k->block[b].next[n]];

				grew |= (*to | f->called[b]) != *to;
				*to |= f->called[b];
			}
	}
}

/* To a call's target, and from a return to behind each call of its function. */
static bool
leave(struct machine_flow *f, uint32_t block, const struct sass_instr *last)
{
	const struct sass_kernel *k = f->k;
	bool grew = false;

	if (is_call(last))
		return join(&f->begin[target_block(k, last)], &f->now);
	for (uint32_t b = 1; (last->lo & 0x1ff) == RET && b < k->n_blocks; b++) {
		const struct sass_instr *call = &k->instr[k->block[b].first - 1];

		if (is_call(call) && f->called[block] & function_bit(target_block(k, call)))
			grew |= join(&f->begin[b], &f->now);
	}
	return grew;
}

static bool
flow_on(struct machine_flow *f, uint32_t block)
{
	const struct sass_block *b = &f->k->block[block];
	bool grew = false;

	walk(f, block);
	f->end[block] = f->now;
	for (uint32_t n = 0; n < b->n_next; n++)
		grew |= join(&f->begin[b->next[n]], &f->now);
	return (b->leaves_unknown && leave(f, block, &f->k->instr[b->end - 1])) || grew;
}

/* false: after many sweeps there is still something to learn. */
static bool
sweep(struct machine_flow *f)
{
	enum { SWEEPS = 64 };
	bool grew = true;

	for (int n = 0; grew; n++) {
		if (n == SWEEPS)
			return false;
		grew = false;
		for (uint32_t b = 0; b < f->k->n_blocks; b++)
			if (f->begin[b].reached)
				grew |= flow_on(f, b);
	}
	return true;
}

/* What no path reaches is not judged. */
void
machine_flow_again(struct machine_flow *f)
{
	if (!f->begin)
		return;
	memset(f->begin, 0, f->k->n_blocks * sizeof(*f->begin));
	memset(f->poisoned, 0, f->k->n_instr);
	f->n = 0;
	f->gave_up = false;
	f->begin[0].reached = true;
	f->gave_up = !sweep(f);
}

struct machine_flow *
machine_flow(struct arena *a, const struct sass_kernel *k)
{
	enum { BLOCKS_MAX = 4096 };
	struct machine_flow *f = NEW(a, struct machine_flow);

	f->k = k;
	f->poisoned = NEW_ARRAY(a, uint8_t, k->n_instr + 1);
	f->gave_up = k->n_blocks > BLOCKS_MAX;
	if (f->gave_up || !k->n_blocks)
		return f;
	f->begin = NEW_ARRAY(a, struct state, k->n_blocks);
	f->end = NEW_ARRAY(a, struct state, k->n_blocks);
	f->called = NEW_ARRAY(a, uint64_t, k->n_blocks);
	find_functions(f);
	machine_flow_again(f);
	return f;
}

bool
machine_flow_block(struct machine_flow *f, uint32_t block)
{
	const struct sass_block *b = &f->k->block[block];

	if (!f->begin)
		return true;
	for (uint32_t at = b->first; at < b->end; at++) {
		f->n -= f->poisoned[at];
		f->poisoned[at] = 0;
	}
	walk(f, block);
	/* The same at its end for all who come behind?  Who was the last to write does not count. */
	for (uint32_t p = 0; p < FILE_END; p++) {
		const struct register_state *x = &f->now.reg[p], *y = &f->end[block].reg[p];

		if (x->write.terms != y->write.terms || x->write.queue != y->write.queue ||
		    x->read.terms != y->read.terms || x->read.queue != y->read.queue ||
		    memcmp(x->ready, y->ready, sizeof(x->ready)) != 0)
			return false;
	}
	return memcmp(f->now.settable, f->end[block].settable, sizeof(f->now.settable)) == 0;
}

uint32_t
machine_flow_hazards(const struct machine_flow *f, struct machine_hazard *first)
{
	*first = f->gave_up ? (struct machine_hazard){.kind = MACHINE_NOT_JUDGED} : f->first;
	return f->gave_up ? MAX_OF(f->n, 1u) : f->n;
}
