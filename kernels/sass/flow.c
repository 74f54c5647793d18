/* kernels/sass/flow.c: what is under way before each instruction: which barriers guard which registers,
 * joined over all paths through a kernel. */
#include "decode.h"

enum {
	CALL_ABS = 0x143,
	CALL = 0x144,
	DEPBAR = 0x11a,
	RET = 0x150,
	UNITS = SASS_PIPES + SASS_ANYWHERE + 1,
	FUNCTIONS = 12, /* that are told apart */
	ANY = 0,
	FIRST = 1,
	NO_FUNCTION = 255,
	MAX_SWEEPS = 64, /* a dozen is enough for a compiler's code; beyond, everything is guarded */
};

/* Results.  Barrier b stands for `writes[b]` until it is waited for.  What a unit works on without a barrier
 * is bare: the unit's next instruction that sets one stands for it too, since a unit ends its work in order.
 *
 * Operands.  All memory instructions take theirs in one order, so any later one that sets a barrier, of
 * either kind, stands for those before it.  `pending`: what they may still have to read.  `since[b]`: the
 * part of it that came after the last one that set b: when b is waited for, only that is left.  `reads[b]`:
 * what a wait for b ends, on some path. */
struct state {
	struct sass_set writes[SASS_BARRIERS], bare[UNITS];
	struct sass_set pending, since[SASS_BARRIERS], reads[SASS_BARRIERS];
	struct sass_set own_reads[SASS_BARRIERS]; /* of other units, each by its own barrier alone */
};
struct sass_flow {
	const struct sass_kernel *k;
	struct state *begin; /* of each block */
};

/* ---- one instruction ------------------------------------------------------------------------- */
static const struct sass_set empty;

static void
intersect(struct sass_set *a, const struct sass_set *b)
{
	for (int i = 0; i < 4; i++)
		a->r[i] &= b->r[i];
	a->u &= b->u;
	a->p &= b->p;
	a->up &= b->up;
}

static void
wait_for(struct state *s, uint32_t mask)
{
	for (int b = 0; b < SASS_BARRIERS; b++) {
		if (!(mask >> b & 1))
			continue;
		s->writes[b] = s->own_reads[b] = s->reads[b] = empty;
		s->pending = s->since[b];
		for (int c = 0; c < SASS_BARRIERS; c++) {
			intersect(&s->since[c], &s->pending);
			intersect(&s->reads[c], &s->pending);
		}
	}
}

/* Of its control bits; DEPBAR names more, and one that need not come to an end unless its count is 0. */
static uint32_t
waits_of(const struct sass_instr *i)
{
	const bool is_depbar = sass_field(i, 0, 9) == DEPBAR, ends = sass_field(i, 38, 6) == 0;

	if (!is_depbar)
		return i->wait;
	return i->wait | sass_field(i, 32, 6) | (ends ? 1U << sass_field(i, 44, 3) : 0);
}

/* Shuffles go through shared memory's unit, and stand for its loads. */
static uint32_t
unit_of(const struct sass_instr *i)
{
	const enum sass_space space = i->op->space == SASS_NOWHERE ? SASS_SHARED : i->op->space;

	return i->op->pipe == SASS_MEMORY ? SASS_PIPES + (uint32_t)space : (uint32_t)i->op->pipe;
}

static void
set_writes(struct state *s, const struct sass_instr *i)
{
	struct sass_set *bare = &s->bare[unit_of(i)];

	if (i->write_barrier < SASS_BARRIERS) {
		sass_set_join(&s->writes[i->write_barrier], &i->defs);
		sass_set_join(&s->writes[i->write_barrier], bare);
		*bare = empty;
	} else if (i->flags & (SASS_VARIABLE | SASS_UNKNOWN)) {
		sass_set_join(bare, &i->defs);
	}
}

static void
set_reads(struct state *s, const struct sass_instr *i)
{
	if (i->op->pipe != SASS_MEMORY) {
		if (i->read_barrier < SASS_BARRIERS)
			sass_set_join(&s->own_reads[i->read_barrier], &i->uses);
		return;
	}
	struct sass_set late = i->uses;

	late.p = late.up = 0; /* read when it is issued */
	sass_set_join(&s->pending, &late);
	for (int b = 0; b < SASS_BARRIERS; b++) {
		if (b == i->read_barrier || b == i->write_barrier) {
			s->since[b] = empty;
			s->reads[b] = s->pending;
		} else {
			sass_set_join(&s->since[b], &late);
		}
	}
}

static void
step(struct state *s, const struct sass_instr *i)
{
	wait_for(s, waits_of(i));
	set_writes(s, i);
	set_reads(s, i);
}

/* ---- joins ---------------------------------------------------------------------------------- */
static bool
grow(struct sass_set *to, const struct sass_set *from, uint32_t n)
{
	bool grew = false;

	for (; n > 0; n--, to++, from++) {
		const struct sass_set before = *to;

		sass_set_join(to, from);
		grew |= before.u != to->u || before.p != to->p || before.up != to->up;
		for (int q = 0; q < 4; q++)
			grew |= before.r[q] != to->r[q];
	}
	return grew;
}

static bool
join(struct state *to, const struct state *from)
{
	bool grew = grow(to->writes, from->writes, SASS_BARRIERS);

	grew |= grow(to->bare, from->bare, UNITS);
	grew |= grow(&to->pending, &from->pending, 1);
	grew |= grow(to->since, from->since, SASS_BARRIERS);
	grew |= grow(to->reads, from->reads, SASS_BARRIERS);
	return grow(to->own_reads, from->own_reads, SASS_BARRIERS) || grew;
}

static void
take_all(struct state *s)
{
	for (int b = 0; b < SASS_BARRIERS; b++)
		s->writes[b] = s->reads[b] = s->pending = s->since[b] = sass_everything;
}

/* ---- over the blocks ------------------------------------------------------------------------ */
/* Where control may come from that no block names: behind a call from the function that it called, in any of
 * its callers' states; everywhere from an indirect branch or call. */
struct sweep {
	struct sass_flow *f;
	uint8_t *function; /* that a block belongs to; ANY: none, or several */
	struct state returned[FUNCTIONS], elsewhere;
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

static uint32_t
block_at(const struct sass_kernel *k, int32_t at)
{
	return (uint32_t)(sass_block_of(k, (uint32_t)at) - k->block);
}

/* Every block that is reached from the entry without going into a call, or coming back from this one. */
static void
mark_function(struct arena *a, struct sweep *w, uint32_t entry, uint8_t id)
{
	const struct sass_kernel *k = w->f->k;
	uint32_t *stack = NEW_ARRAY(a, uint32_t, k->n_blocks + 1), n = 0;
	bool *seen = NEW_ARRAY(a, bool, k->n_blocks);

	for (seen[stack[n++] = entry] = true; n > 0;) {
		const uint32_t at = stack[--n];
		const struct sass_block *b = &k->block[at];

		w->function[at] = w->function[at] == NO_FUNCTION ? id : ANY;
		for (uint32_t q = 0; q <= b->n_next; q++) {
			const bool is_next = q < b->n_next,
				   comes_back = is_call(last_of(k, at)) && b->end < k->n_instr;
			const uint32_t to = is_next ? b->next[q] : comes_back ? at + 1 : at;

			if (!seen[to])
				seen[stack[n++] = to] = true;
		}
	}
}

static void
find_functions(struct arena *a, struct sweep *w)
{
	const struct sass_kernel *k = w->f->k;
	uint32_t entry[FUNCTIONS], n = 0;

	w->function = NEW_ARRAY(a, uint8_t, k->n_blocks);
	for (uint32_t q = 0; q < k->n_blocks; q++)
		w->function[q] = NO_FUNCTION;
	for (uint32_t q = 0; q < k->n_blocks; q++) {
		const struct sass_instr *i = last_of(k, q);
		const uint32_t to = is_call(i) && i->target >= 0 ? block_at(k, i->target) : k->n_blocks;
		uint32_t at = 0;

		while (at < n && entry[at] != to)
			at++;
		if (to == k->n_blocks || at < n || n == FUNCTIONS - FIRST)
			continue;
		entry[n++] = to;
		mark_function(a, w, to, (uint8_t)(FIRST + n - 1));
	}
	for (uint32_t q = 0; q < k->n_blocks; q++)
		if (w->function[q] == NO_FUNCTION)
			w->function[q] = ANY;
}

static void
leave(struct sweep *w, uint32_t block, const struct state *out)
{
	const struct sass_kernel *k = w->f->k;
	const struct sass_instr *i = last_of(k, block);

	if (is_call(i) && i->target >= 0)
		w->grew |= join(&w->f->begin[block_at(k, i->target)], out);
	else if (sass_field(i, 0, 9) == RET)
		w->grew |= join(&w->returned[w->function[block]], out);
	else
		w->grew |= join(&w->elsewhere, out);
	if (is_call(i) && i->target < 0) {
		struct state all = {.writes = {{.u = 0}}};

		take_all(&all);
		w->grew |= join(&w->returned[ANY], &all);
	}
}

/* Behind a call. */
static void
come_back(struct sweep *w, uint32_t block)
{
	const struct sass_kernel *k = w->f->k;
	const struct sass_instr *call = last_of(k, block - 1);
	struct state *begin = &w->f->begin[block];

	w->grew |= join(begin, &w->returned[ANY]);
	for (int f = FIRST; f < FUNCTIONS; f++)
		if (call->target < 0 || w->function[block_at(k, call->target)] == ANY ||
		    w->function[block_at(k, call->target)] == f)
			w->grew |= join(begin, &w->returned[f]);
}

static void
go_through(struct sweep *w, uint32_t block)
{
	const struct sass_kernel *k = w->f->k;
	const struct sass_block *b = &k->block[block];
	struct state s;

	w->grew |= join(&w->f->begin[block], &w->elsewhere);
	if (block && is_call(last_of(k, block - 1)))
		come_back(w, block);
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
	struct sweep *w = NEW(a, struct sweep);

	*f = (struct sass_flow){k, NEW_ARRAY(a, struct state, k->n_blocks)};
	w->f = f;
	w->grew = true;
	find_functions(a, w);
	for (int n = 0; w->grew && n < MAX_SWEEPS; n++) {
		w->grew = false;
		for (uint32_t q = 0; q < k->n_blocks; q++)
			go_through(w, q);
	}
	for (uint32_t q = 0; q < k->n_blocks && w->grew; q++)
		take_all(&f->begin[q]);
	return f;
}

/* ---- asking --------------------------------------------------------------------------------- */
static struct state
state_before(const struct sass_flow *f, uint32_t at)
{
	const struct sass_block *b = sass_block_of(f->k, at);
	struct state s = f->begin[b - f->k->block];

	for (uint32_t q = b->first; q < at; q++)
		step(&s, &f->k->instr[q]);
	return s;
}

static void
mark(uint64_t set, uint8_t *out, int barrier)
{
	for (; set; set &= set - 1)
		out[__builtin_ctzll(set)] |= (uint8_t)(1U << barrier);
}

void
sass_guards_before(const struct sass_flow *f, uint32_t at, struct sass_guards *out)
{
	const struct state s = state_before(f, at);

	*out = (struct sass_guards){.writes = {0}};
	for (int n = 0; n < SASS_BARRIERS; n++) {
		struct sass_set reads = s.reads[n];

		sass_set_join(&reads, &s.own_reads[n]);
		for (int q = 0; q < 4; q++) {
			mark(s.writes[n].r[q], out->writes + 64 * q, n);
			mark(reads.r[q], out->reads + 64 * q, n);
		}
		mark(s.writes[n].u, out->uniform_writes, n);
		mark(reads.u, out->uniform_reads, n);
		mark(s.writes[n].p, out->predicate_writes, n);
		mark(reads.p, out->predicate_reads, n);
	}
}

void
sass_flow_each(const struct sass_flow *f, const struct sass_block *b, sass_pending_fn *each, void *self)
{
	struct state s = f->begin[b - f->k->block];

	for (uint32_t q = b->first; q < b->end; q++) {
		struct sass_set reads[SASS_BARRIERS];

		for (int n = 0; n < SASS_BARRIERS; n++) {
			reads[n] = s.reads[n];
			sass_set_join(&reads[n], &s.own_reads[n]);
		}
		each(self, q, s.writes, reads);
		step(&s, &f->k->instr[q]);
	}
}
