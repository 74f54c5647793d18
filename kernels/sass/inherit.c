/* kernels/sass/inherit.c: instructions that rely on a wait of an earlier one of their block.  The first wait
 * behind what sets a barrier clears it; whoever then uses a register that it guarded, without a wait of its
 * own, must stay behind. */
#include "sched_int.h"

#include <string.h>

/* A wait, and the registers that were safe from then on: to be read (writes of others are over), to be
 * written (reads are). */
struct cleared {
	uint32_t at;
	uint8_t rule;
	struct sass_set writes, reads;
};
struct walk {
	struct arena *a;
	const struct sass_kernel *k;
	const struct sass_block *b;
	struct cleared *cleared;
	uint32_t n_cleared, cap_cleared;
	struct sass_set entry_writes[SASS_BARRIERS], entry_reads[SASS_BARRIERS];
	/* What loads without a read barrier read, by their write barrier: of this block, and of all blocks.
	 */
	struct sass_set read_by[SASS_BARRIERS], anywhere[SASS_BARRIERS];
	uint32_t *fixed;
	struct sass_inherit *list;
	uint32_t n, cap;
};

/* Predicates are read when an instruction is issued, whatever its read barrier is for. */
static struct sass_set
late(const struct sass_set *reads)
{
	struct sass_set s = *reads;

	s.p = s.up = 0;
	return s;
}

static void
take_away(struct sass_set *from, const struct sass_set *what)
{
	for (int q = 0; q < 4; q++)
		from->r[q] &= ~what->r[q];
	from->u &= ~what->u;
	from->p &= (uint8_t)~what->p;
	from->up &= (uint8_t)~what->up;
}

static void
add(struct walk *w, uint32_t first, uint32_t second, uint8_t rule)
{
	GROW(w->a, w->list, w->n, w->cap);
	w->list[w->n++] = (struct sass_inherit){first, second, rule};
}

/* ---- the user -------------------------------------------------------------------------------------------
 */
static void
look_back(struct walk *w, uint32_t at)
{
	const struct sass_instr *i = &w->k->instr[at];

	for (uint32_t n = 0; n < w->n_cleared; n++) {
		struct cleared *c = &w->cleared[n];

		if (sass_set_meets(&c->writes, &i->uses) || sass_set_meets(&c->writes, &i->defs) ||
		    sass_set_meets(&c->reads, &i->defs))
			add(w, c->at, at, c->rule);
	}
}

/* A register that is guarded still, and used all the same: it relies on something that the flow does not
 * show. Then it does not move.  Of the barriers that guard operands, one is enough; memory instructions need
 * none, since they take theirs in order. */
static bool
relies_on_nothing(const struct sass_instr *i, const struct sass_set writes[SASS_BARRIERS],
    const struct sass_set reads[SASS_BARRIERS])
{
	struct sass_set read = {.u = 0};
	bool relies = false;

	for (int b = 0; b < SASS_BARRIERS; b++)
		if (!(i->wait >> b & 1)) {
			relies |=
			    sass_set_meets(&writes[b], &i->uses) || sass_set_meets(&writes[b], &i->defs);
			sass_set_join(&read, &reads[b]);
		}
	for (int b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			take_away(&read, &reads[b]);
	return relies || (i->op->pipe != SASS_MEMORY && sass_set_meets(&read, &i->defs));
}

/* ---- the wait -------------------------------------------------------------------------------------------
 */
static void
clear(struct walk *w, uint32_t at, unsigned b, const struct sass_set *writes, const struct sass_set *reads)
{
	const bool is_ours =
	    !sass_set_meets(writes, &w->entry_writes[b]) && !sass_set_meets(reads, &w->entry_reads[b]);
	struct cleared c = {at, is_ours ? SASS_RULE_inherits : SASS_RULE_flows, *writes, *reads};

	sass_set_join(&c.reads, &w->read_by[b]);
	c.reads = late(&c.reads);
	w->read_by[b] = w->entry_writes[b] = w->entry_reads[b] = (struct sass_set){.u = 0};
	if (sass_set_is_empty(&c.writes) && sass_set_is_empty(&c.reads))
		return;
	GROW(w->a, w->cleared, w->n_cleared, w->cap_cleared);
	w->cleared[w->n_cleared++] = c;
}

static void
forget(struct walk *w, const struct sass_set *defs)
{
	uint32_t n = 0;

	for (uint32_t q = 0; q < w->n_cleared; q++) {
		struct cleared *c = &w->cleared[q];

		take_away(&c->writes, defs);
		take_away(&c->reads, defs);
		if (!sass_set_is_empty(&c->writes) || !sass_set_is_empty(&c->reads))
			w->cleared[n++] = *c;
	}
	w->n_cleared = n;
}

/* A load that sets no read barrier has read its operands when its write barrier falls. */
static bool
reads_till_written(const struct sass_instr *i)
{
	return (i->flags & SASS_VARIABLE) && i->write_barrier < SASS_BARRIERS &&
	    i->read_barrier >= SASS_BARRIERS;
}

static void
visit(void *self, uint32_t at, const struct sass_set writes[SASS_BARRIERS],
    const struct sass_set all_reads[SASS_BARRIERS])
{
	struct walk *w = self;
	const struct sass_instr *i = &w->k->instr[at];
	struct sass_set reads[SASS_BARRIERS];

	for (int b = 0; b < SASS_BARRIERS; b++)
		reads[b] = late(&all_reads[b]);

	if (at == w->b->first)
		for (int b = 0; b < SASS_BARRIERS; b++) {
			w->entry_writes[b] = writes[b];
			w->entry_reads[b] = reads[b];
			w->read_by[b] =
			    sass_set_is_empty(&writes[b]) ? (struct sass_set){.u = 0} : w->anywhere[b];
		}
	look_back(w, at);
	if (relies_on_nothing(i, writes, reads))
		w->fixed[at] |= 1u << SASS_RULE_inherits;
	for (unsigned b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			clear(w, at, b, &writes[b], &reads[b]);
	forget(w, &i->defs);
	if (reads_till_written(i))
		sass_set_join(&w->read_by[i->write_barrier], &i->uses);
}

struct sass_inherit *
sass_inherits_make(struct arena *a, const struct sass_kernel *k, uint32_t *fixed, uint32_t *n)
{
	struct arena tmp = {0};
	const struct sass_flow *f = sass_flow(&tmp, k);
	struct walk *w = NEW(&tmp, struct walk);

	*w = (struct walk){.a = a, .k = k, .fixed = fixed};
	for (uint32_t at = 0; at < k->n_instr; at++)
		if (reads_till_written(&k->instr[at]))
			sass_set_join(&w->anywhere[k->instr[at].write_barrier], &k->instr[at].uses);
	for (uint32_t q = 0; q < k->n_blocks; q++) {
		w->b = &k->block[q];
		w->n_cleared = 0;
		sass_flow_each(f, w->b, visit, w);
	}
	*n = w->n;
	struct sass_inherit *list = w->n ? w->list : NEW(a, struct sass_inherit);

	arena_fini(&tmp);
	return list;
}
