/* kernels/sass/flow.c: what is under way before each instruction: which barriers guard which registers,
 * joined over all paths through a kernel. */
#include "decode.h"

enum {
	CALL_ABS = 0x143,
	CALL = 0x144,
	RET = 0x150,
	UNITS = SASS_PIPES,
	MAX_SWEEPS =
	    64, /* a dozen is enough for code of a compiler; beyond, everything is taken to be guarded */
};

/* Registers that barrier b guards until it is waited for, and those that nothing guards yet, by the unit that
 * works on them: the next instruction there that sets a barrier stands for them too. */
struct state {
	struct sass_set writes[SASS_BARRIERS], reads[SASS_BARRIERS];
	struct sass_set bare_writes[UNITS], bare_reads[UNITS];
};
struct sass_flow {
	const struct sass_kernel *k;
	struct state *begin; /* of each block */
};

/* ---- one instruction -------------------------------------------------------------------------------------
 */
static void
cover(struct sass_set *guarded, struct sass_set *bare, const struct sass_set *own)
{
	sass_set_join(guarded, own);
	sass_set_join(guarded, bare);
	*bare = (struct sass_set){.u = 0};
}

static void
step(struct state *s, const struct sass_instr *i)
{
	const enum sass_pipe unit = i->op->pipe;
	const bool is_slow = i->flags & (SASS_VARIABLE | SASS_UNKNOWN),
		   reads_late = is_slow && unit == SASS_MEMORY;

	for (int b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			s->writes[b] = s->reads[b] = (struct sass_set){.u = 0};
	if (i->write_barrier < SASS_BARRIERS)
		cover(&s->writes[i->write_barrier], &s->bare_writes[unit], &i->defs);
	else if (is_slow)
		sass_set_join(&s->bare_writes[unit], &i->defs);
	if (i->read_barrier < SASS_BARRIERS)
		cover(&s->reads[i->read_barrier], &s->bare_reads[unit], &i->uses);
	else if (reads_late)
		sass_set_join(&s->bare_reads[unit], &i->uses);
}

/* ---- joins
 * -------------------------------------------------------------------------------------------------- */
static bool
grow(struct sass_set *to, const struct sass_set *from)
{
	const struct sass_set before = *to;
	bool grew;

	sass_set_join(to, from);
	grew = before.u != to->u || before.p != to->p || before.up != to->up;
	for (int q = 0; q < 4; q++)
		grew |= before.r[q] != to->r[q];
	return grew;
}

static bool
join(struct state *to, const struct state *from)
{
	bool grew = false;

	for (int b = 0; b < SASS_BARRIERS; b++) {
		grew |= grow(&to->writes[b], &from->writes[b]);
		grew |= grow(&to->reads[b], &from->reads[b]);
	}
	for (int u = 0; u < UNITS; u++) {
		grew |= grow(&to->bare_writes[u], &from->bare_writes[u]);
		grew |= grow(&to->bare_reads[u], &from->bare_reads[u]);
	}
	return grew;
}

static void
take_all(struct state *s)
{
	for (int b = 0; b < SASS_BARRIERS; b++)
		s->writes[b] = s->reads[b] = sass_everything;
}

/* ---- over the blocks
 * ---------------------------------------------------------------------------------------- */
/* Where control may come from that no block names: behind a call from any return; everywhere from an indirect
 * branch. */
struct sweep {
	struct sass_flow *f;
	struct state returned, elsewhere;
	bool grew;
};

static bool
is_call(const struct sass_instr *i)
{
	const uint32_t code = sass_field(i, 0, 9);

	return code == CALL || code == CALL_ABS;
}

static const struct sass_instr *
last_of(const struct sass_kernel *k, uint32_t block)
{
	return &k->instr[k->block[block].end - 1];
}

static void
leave(struct sweep *w, uint32_t block, const struct state *out)
{
	const struct sass_kernel *k = w->f->k;
	const struct sass_instr *i = last_of(k, block);

	if (is_call(i) && i->target >= 0)
		w->grew |= join(&w->f->begin[sass_block_of(k, (uint32_t)i->target) - k->block], out);
	else if (is_call(i))
		take_all(&w->returned);
	else if (sass_field(i, 0, 9) == RET)
		w->grew |= join(&w->returned, out);
	else
		w->grew |= join(&w->elsewhere, out);
}

static void
go_through(struct sweep *w, uint32_t block)
{
	const struct sass_kernel *k = w->f->k;
	const struct sass_block *b = &k->block[block];
	struct state s;

	w->grew |= join(&w->f->begin[block], &w->elsewhere);
	if (block && is_call(last_of(k, block - 1)))
		w->grew |= join(&w->f->begin[block], &w->returned);
	s = w->f->begin[block];
	for (uint32_t q = b->first; q < b->end; q++)
		step(&s, &k->instr[q]);
	for (uint32_t q = 0; q < b->n_next; q++)
		w->grew |= join(&w->f->begin[b->next[q]], &s);
	if (b->leaves_unknown)
		leave(w, block, &s);
}

struct sass_flow *
sass_flow(struct arena *a, const struct sass_kernel *k)
{
	struct sass_flow *f = NEW(a, struct sass_flow);
	struct sweep w = {.f = f, .grew = true};

	*f = (struct sass_flow){k, NEW_ARRAY(a, struct state, k->n_blocks)};
	for (int n = 0; w.grew; n++) {
		w.grew = false;
		for (uint32_t q = 0; q < k->n_blocks; q++)
			go_through(&w, q);
		if (n == MAX_SWEEPS)
			take_all(&w.elsewhere);
	}
	return f;
}

/* ---- asking
 * ---------------------------------------------------------------------------------------------------- */
static void
mark(uint64_t set, uint8_t *out, int barrier)
{
	for (; set; set &= set - 1)
		out[__builtin_ctzll(set)] |= (uint8_t)(1U << barrier);
}

void
sass_guards_before(const struct sass_flow *f, uint32_t at, struct sass_guards *out)
{
	const struct sass_block *b = sass_block_of(f->k, at);
	struct state s = f->begin[b - f->k->block];

	*out = (struct sass_guards){.writes = {0}};
	for (uint32_t q = b->first; q < at; q++)
		step(&s, &f->k->instr[q]);
	for (int n = 0; n < SASS_BARRIERS; n++) {
		for (int q = 0; q < 4; q++) {
			mark(s.writes[n].r[q], out->writes + 64 * q, n);
			mark(s.reads[n].r[q], out->reads + 64 * q, n);
		}
		mark(s.writes[n].u, out->uniform_writes, n);
		mark(s.reads[n].u, out->uniform_reads, n);
		mark(s.writes[n].p, out->predicate_writes, n);
		mark(s.reads[n].p, out->predicate_reads, n);
	}
}

void
sass_flow_each(const struct sass_flow *f, const struct sass_block *b, sass_pending_fn *each, void *self)
{
	struct state s = f->begin[b - f->k->block];

	for (uint32_t q = b->first; q < b->end; q++) {
		each(self, q, s.writes, s.reads);
		step(&s, &f->k->instr[q]);
	}
}
