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
/* Operands that may still have to be read, by the barrier of their instruction. */
struct own {
	struct sass_set reads[SASS_BARRIERS];
};
struct walk {
	struct arena *a;
	const struct sass_kernel *k;
	const struct sass_block *b;
	struct cleared *cleared;
	uint32_t n_cleared, cap_cleared;
	struct sass_set entry_writes[SASS_BARRIERS], entry_reads[SASS_BARRIERS];
	struct own own; /* before the instruction that is looked at */
	/* Registers used while a barrier still guards them: whoever set it stays where the unit's order has
	 * it. */
	struct sass_set written_late[SASS_BARRIERS], read_late[SASS_BARRIERS];
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

/* ---- operands and their own barriers ------------------------------------------------------------------- */
/* A load that sets no read barrier has read its operands when its write barrier falls. */
static unsigned
own_barrier(const struct sass_instr *i)
{
	if (!(i->flags & SASS_VARIABLE))
		return SASS_NO_BARRIER;
	return i->read_barrier < SASS_BARRIERS ? i->read_barrier : i->write_barrier;
}

static void
step(struct own *o, const struct sass_instr *i)
{
	const unsigned own = own_barrier(i);
	const struct sass_set uses = late(&i->uses);

	for (unsigned b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			o->reads[b] = (struct sass_set){.u = 0};
	if (own < SASS_BARRIERS)
		sass_set_join(&o->reads[own], &uses);
}

static bool
join(struct own *to, const struct own *from)
{
	bool grew = false;

	for (int b = 0; b < SASS_BARRIERS; b++) {
		struct sass_set more = from->reads[b];

		take_away(&more, &to->reads[b]);
		grew |= !sass_set_is_empty(&more);
		sass_set_join(&to->reads[b], &more);
	}
	return grew;
}

/* What leaves a block for where nobody knows may come to any. */
static bool
sweep(const struct sass_kernel *k, struct own *begin, struct own *elsewhere)
{
	bool grew = false;

	for (uint32_t n = 0; n < k->n_blocks; n++) {
		const struct sass_block *b = &k->block[n];

		grew |= join(&begin[n], elsewhere);
		struct own o = begin[n];

		for (uint32_t at = b->first; at < b->end; at++)
			step(&o, &k->instr[at]);
		for (uint32_t q = 0; q < b->n_next; q++)
			grew |= join(&begin[b->next[q]], &o);
		if (b->leaves_unknown)
			grew |= join(elsewhere, &o);
	}
	return grew;
}

static struct own *
own_make(struct arena *a, const struct sass_kernel *k)
{
	struct own *begin = NEW_ARRAY(a, struct own, k->n_blocks), *elsewhere = NEW(a, struct own);

	while (sweep(k, begin, elsewhere))
		;
	return begin;
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

static struct sass_set
common(const struct sass_set *a, const struct sass_set *b)
{
	struct sass_set rest = *a, both = *a;

	take_away(&rest, b);
	take_away(&both, &rest);
	return both;
}

/* Memory instructions take their operands in order, so they may overwrite each other's. */
static void
note_late(struct walk *w, const struct sass_instr *i, const struct sass_set writes[SASS_BARRIERS])
{
	struct sass_set all = i->uses;

	if (i->flags & SASS_BRANCH) /* a call uses what is used behind it */
		return;
	sass_set_join(&all, &i->defs);
	for (int b = 0; b < SASS_BARRIERS; b++) {
		if (i->wait >> b & 1)
			continue;
		const struct sass_set written = common(&writes[b], &all),
				      read = common(&w->own.reads[b], &i->defs);

		sass_set_join(&w->written_late[b], &written);
		if (i->op->pipe != SASS_MEMORY)
			sass_set_join(&w->read_late[b], &read);
	}
}

static bool
stays(const struct walk *w, const struct sass_instr *i)
{
	const unsigned own = own_barrier(i);
	bool stays = false;

	for (unsigned b = 0; b < SASS_BARRIERS && (i->flags & SASS_VARIABLE); b++)
		if (i->write_barrier == b || i->write_barrier >= SASS_BARRIERS)
			stays |= sass_set_meets(&w->written_late[b], &i->defs);
	return stays || (own < SASS_BARRIERS && sass_set_meets(&w->read_late[own], &i->uses));
}

/* ---- the wait -------------------------------------------------------------------------------------------
 */
static void
clear(struct walk *w, uint32_t at, unsigned b, const struct sass_set *writes, const struct sass_set *reads)
{
	const bool is_ours =
	    !sass_set_meets(writes, &w->entry_writes[b]) && !sass_set_meets(reads, &w->entry_reads[b]);
	struct cleared c = {at, is_ours ? SASS_RULE_inherits : SASS_RULE_flows, *writes, *reads};

	sass_set_join(&c.reads, &w->own.reads[b]);
	w->entry_writes[b] = w->entry_reads[b] = (struct sass_set){.u = 0};
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
		}
	look_back(w, at);
	if (relies_on_nothing(i, writes, reads))
		w->fixed[at] |= 1u << SASS_RULE_inherits;
	note_late(w, i, writes);
	for (unsigned b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			clear(w, at, b, &writes[b], &reads[b]);
	forget(w, &i->defs);
	step(&w->own, i);
}

struct sass_inherit *
sass_inherits_make(struct arena *a, const struct sass_kernel *k, uint32_t *fixed, uint32_t *n)
{
	struct arena tmp = {0};
	const struct sass_flow *f = sass_flow(&tmp, k);
	struct walk *w = NEW(&tmp, struct walk);

	*w = (struct walk){.a = a, .k = k, .fixed = fixed};
	const struct own *begin = own_make(&tmp, k);

	for (uint32_t q = 0; q < k->n_blocks; q++) {
		w->b = &k->block[q];
		w->n_cleared = 0;
		w->own = begin[q];
		sass_flow_each(f, w->b, visit, w);
	}
	for (uint32_t at = 0; at < k->n_instr; at++)
		if (stays(w, &k->instr[at]))
			fixed[at] |= 1u << SASS_RULE_covers;
	*n = w->n;
	struct sass_inherit *list = w->n ? w->list : NEW(a, struct sass_inherit);

	arena_fini(&tmp);
	return list;
}
