/* kernels/sass/machine_hazard.c: does any instruction read or overwrite a register too early?  Walked over
 * all paths with the least time that each takes: an instruction issues as many cycles behind the one before
 * as that one's stall count says, a barrier is waited for in no time.  The rules are the hardware's, as far
 * as they are known, and know nothing of those that legal.h judges moves by.
 *
 * A result of fixed latency can be read after machine_latency.def's cycles.  One of variable latency is on
 * its way until the barrier is waited for that guards it: its own, or that of a later instruction of the same
 * queue, which returns in order.  Memory instructions read their operands late, in the order of one queue. */
#include "machine_hazard.h"
#include "decode.h"

#include <stdio.h>
#include <string.h>

/* ---- classes --------------------------------------------------------------------------------- */
static uint32_t
code_of(const struct sass_instr *i)
{
	return i->lo & 0x1ff;
}

/* Walls whose sets are more than what they touch: what works beside the warp (HGMMA, TMA, mbarriers), and
 * what is said to touch everything.  They stay where they are. */
static bool
is_vague(const struct sass_instr *i)
{
	const bool wall = i->flags & SASS_WALL,
		   beside = i->op->pipe == SASS_TENSOR || i->op->pipe == SASS_MEMORY;

	return i->flags & SASS_UNKNOWN || (wall && beside && code_of(i) != 0x1c4) ||
	    (wall && i->uses.r[3] == sass_everything.r[3]);
}

/* It keeps the distances of IMAD. */
static bool
is_viadd(const struct sass_instr *i)
{
	return code_of(i) == 0x036 && i->op->pipe == SASS_ALU;
}

static enum producer
producer_of(const struct sass_instr *i)
{
	enum { HFMA2_MMA = 0x035, ULDC = 0x0b9, UMOV = 0x082, VOTEU = 0x086 };
	const bool whole = i->mma_k * i->mma_bits >= 256;

	if (is_viadd(i))
		return P_FMA;
	switch (i->op->pipe) {
	case SASS_FMA:
	case SASS_IMAD:
		return P_FMA;
	case SASS_HALF:
		return code_of(i) == HFMA2_MMA ? P_HFMA2 : P_FMA;
	case SASS_DOUBLE:
		return P_DOUBLE;
	case SASS_TENSOR:
		return whole ? P_MMA : P_MMA_SHORT;
	case SASS_UNIFORM:
		return code_of(i) == ULDC || code_of(i) == UMOV || code_of(i) == VOTEU ? P_UMOV : P_UNIFORM;
	default:
		return P_ALU;
	}
}

static enum producer
producer_at(const struct sass_instr *i, uint32_t place)
{
	const enum producer p = producer_of(i);

	return place < FILE_P ? p : place >= FILE_Q ? P_UPRED : p == P_FMA ? P_FMA_PRED : P_PRED;
}

static enum consumer
consumer_of(const struct sass_instr *i)
{
	if (is_viadd(i))
		return C_FMA;
	switch (i->op->pipe) {
	case SASS_FMA:
	case SASS_IMAD:
	case SASS_HALF:
		return C_FMA;
	case SASS_ALU:
		return C_ALU;
	case SASS_TENSOR:
		return C_TENSOR;
	case SASS_MEMORY:
		return i->op->space == SASS_CONSTANT ? C_OTHER : C_MEMORY;
	case SASS_UNIFORM:
		return C_UNIFORM;
	default:
		return C_OTHER;
	}
}

/* LDG and LDL come as memory has them; all others come in the order of their unit. */
static enum queue
queue_of(const struct sass_instr *i)
{
	enum { LDC = 0x182, REDUX = 0x1c4 };

	switch (i->op->pipe) {
	case SASS_XU:
		return QUEUE_XU;
	case SASS_DOUBLE:
		return QUEUE_DOUBLE;
	case SASS_MEMORY:
		return code_of(i) == LDC                                          ? QUEUE_CONSTANT
		    : code_of(i) == REDUX                                         ? QUEUE_REDUX
		    : i->op->space == SASS_SHARED || i->op->space == SASS_NOWHERE ? QUEUE_SHARED
										  : QUEUE_NONE;
	default:
		return QUEUE_NONE;
	}
}

static int
latency(int sm, enum producer p, enum consumer c)
{
	static const struct {
		int first, last;
		enum producer p;
		int c, cycles;
	} row[] = {
#define LATENCY(FIRST, LAST, PRODUCER, CONSUMER, CYCLES) {FIRST, LAST, P_##PRODUCER, C_##CONSUMER, CYCLES},
#include "machine_latency.def"
#undef LATENCY
	};
	int cycles = 1;

	for (size_t n = 0; n < COUNT_OF(row); n++)
		if (row[n].p == p && row[n].first <= sm && sm <= row[n].last &&
		    (row[n].c == (int)c || (row[n].c == C_ANY && c != C_WRITE)))
			cycles = row[n].cycles;
	return cycles;
}

/* ---- sets as lists --------------------------------------------------------------------------- */
struct places {
	uint16_t at[FILE_END];
	uint32_t n;
};

static void
add_bits(struct places *p, uint64_t bits, uint32_t base)
{
	for (; bits; bits &= bits - 1)
		p->at[p->n++] = (uint16_t)(base + (uint32_t)__builtin_ctzll(bits));
}

static void
list(const struct sass_set *s, struct places *p)
{
	p->n = 0;
	for (uint32_t q = 0; q < 4; q++)
		add_bits(p, s->r[q], 64 * q);
	add_bits(p, s->u, FILE_U);
	add_bits(p, s->p, FILE_P);
	add_bits(p, s->up, FILE_Q);
}

/* What it reads by itself: the decoder's set without the guard, and without what a guarded write leaves
 * alone. */
static struct sass_set
own_uses(const struct sass_kernel *k, const struct sass_instr *i, uint32_t at)
{
	struct sass_instr plain;

	if (i->guard == SASS_PT)
		return i->uses;
	sass_decode((i->lo & ~0xf000ull) | 0x7000, i->hi, k->sm, at, k->n_instr, &plain);
	return plain.uses;
}

/* What the table calls variable has a fixed latency where it has no barrier: uniform registers' operations;
 * R2UR; from Hopper on doubles. */
static bool
is_slow(const struct machine_flow *f, const struct sass_instr *i)
{
	const bool is_r2ur = code_of(i) == 0x0ca || code_of(i) == 0x1c2;
	const bool is_fixed =
	    is_r2ur || i->op->pipe == SASS_UNIFORM || (i->op->pipe == SASS_DOUBLE && f->k->sm >= 90);

	return (i->flags & SASS_VARIABLE && !is_fixed) || i->write_barrier < SASS_BARRIERS;
}

static bool
reads_late(const struct sass_instr *i)
{
	return i->read_barrier < SASS_BARRIERS || (i->flags & SASS_VARIABLE && i->op->pipe == SASS_MEMORY);
}

/* ---- one instruction ------------------------------------------------------------------------- */
static void
found(struct machine_flow *f, uint32_t at, uint32_t of, enum machine_hazard_kind kind, uint32_t place)
{
	if (!f->poisoned[at]) {
		f->poisoned[at] = 1;
		if (!f->n++ || at < f->first.at)
			f->first = (struct machine_hazard){.at = at,
			    .of = of,
			    .kind = kind,
			    .file = place < FILE_U ? 'R'
				: place < FILE_P   ? 'U'
				: place < FILE_Q   ? 'P'
						   : 'Q',
			    .reg = (uint8_t)(place < FILE_U ? place
				    : place < FILE_P        ? place - FILE_U
				    : place < FILE_Q        ? place - FILE_P
							    : place - FILE_Q)};
	}
}

/* The sets that hold barrier b: bits s with bit b in s. */
static const uint64_t HOLDS[SASS_BARRIERS] = {0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0,
    0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000};

static uint64_t
sets_with(uint32_t barriers)
{
	uint64_t sets = 0;

	for (uint32_t b = 0; b < SASS_BARRIERS; b++)
		if (barriers >> b & 1)
			sets |= HOLDS[b];
	return sets;
}

static void
wait_for(struct machine_flow *f, uint32_t barriers)
{
	const uint64_t keep = ~sets_with(barriers);

	for (uint32_t p = 0; barriers && p < FILE_END; p++) {
		f->now.reg[p].write.terms &= keep;
		f->now.reg[p].read.terms &= keep;
	}
}

/* A barrier of the block is behind all memory instructions of the warp in their queue. */
static void
end_reads(struct machine_flow *f)
{
	for (uint32_t p = 0; p < FILE_END; p++)
		if (f->now.reg[p].read.queue == QUEUE_READS)
			f->now.reg[p].read.terms = 0;
}

/* DEPBAR.LE SBn, 0 waits as the bits of other instructions do; with a count it leaves the youngest. */
static uint32_t
waits_of(const struct sass_instr *i)
{
	enum { DEPBAR = 0x11a };
	uint32_t barriers = i->wait;

	if (code_of(i) == DEPBAR) {
		barriers |= (uint32_t)field_of(i, 32, 6);
		if (field_of(i, 38, 6) == 0 && field_of(i, 47, 1))
			barriers |= 1u << field_of(i, 44, 3);
	}
	return barriers & 63;
}

static void
check_waits(struct machine_flow *f, const struct sass_instr *i, uint32_t at, int now)
{
	for (uint32_t b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1 && f->now.settable[b] > now)
			found(f, at, UINT32_MAX, MACHINE_WAITS_TOO_SOON, b);
}

/* IMAD of 64 bits works in two halves, HALF_LATER one behind the other: from Hopper on ptxas counts on it,
 * for the high half of what is added, and for the low half of a sum that an ALU instruction takes. */
static bool
is_wide(const struct sass_instr *i)
{
	return i->op->pipe == SASS_IMAD && (code_of(i) == 0x025 || code_of(i) == 0x027);
}

static int
slack(const struct machine_flow *f, const struct sass_instr *i, const struct register_state *r,
    uint32_t place, enum consumer c)
{
	const struct sass_instr *of = &f->k->instr[r->by];
	const uint32_t added = (uint32_t)field_of(i, 64, 8);

	if (f->k->sm < 90)
		return 0;
	return (is_wide(i) && place == added + 1 && added != SASS_RZ) ||
		(c == C_ALU && is_wide(of) && place == field_of(of, 16, 8) && code_of(of) == 0x025)
	    ? HALF_LATER
	    : 0;
}

static void
check_reads(struct machine_flow *f, const struct sass_instr *i, const struct places *uses, uint32_t at,
    int now, enum consumer c)
{
	for (uint32_t n = 0; n < uses->n; n++) {
		const struct register_state *r = &f->now.reg[uses->at[n]];

		if (r->write.terms || r->ready[c] > now + slack(f, i, r, uses->at[n], c))
			found(f, at, r->by, MACHINE_READS_EARLY, uses->at[n]);
	}
}

/* Do they never run both in one lane?  The one's guard is the opposite of the other's. */
static bool
excludes(const struct machine_flow *f, uint32_t at, uint32_t of)
{
	const struct sass_instr *x = &f->k->instr[at], *y = &f->k->instr[of];

	return x->guard != SASS_PT && x->guard == y->guard && x->guard_negated != y->guard_negated;
}

/* What a memory instruction brings comes behind the operands that older ones of the queue read, and results
 * of one queue in their order. */
static void
check_writes(
    struct machine_flow *f, const struct sass_instr *i, const struct places *defs, uint32_t at, int now)
{
	const bool memory = i->op->pipe == SASS_MEMORY;
	const enum queue q = is_slow(f, i) ? queue_of(i) : QUEUE_NONE;

	for (uint32_t n = 0; n < defs->n; n++) {
		const struct register_state *r = &f->now.reg[defs->at[n]];

		if (r->read.terms && !(memory && r->read.queue == QUEUE_READS) &&
		    !excludes(f, at, r->read_by))
			found(f, at, r->read_by, MACHINE_OVERWRITES, defs->at[n]);
		if ((r->write.terms && !(q != QUEUE_NONE && r->write.queue == q) &&
			!excludes(f, at, r->by)) ||
		    r->ready[C_WRITE] > now)
			found(f, at, r->by, MACHINE_WRITES_EARLY, defs->at[n]);
	}
}

/* A barrier of this queue stands for all that is older in it. */
static void
cover(struct machine_flow *f, enum queue q, uint32_t barriers, bool reads)
{
	if (!barriers || q == QUEUE_NONE)
		return;
	for (uint32_t p = 0; p < FILE_END; p++) {
		struct pending *x = reads ? &f->now.reg[p].read : &f->now.reg[p].write;
		uint64_t terms = 0;

		if (!x->terms || x->queue != q)
			continue;
		for (uint64_t left = x->terms; left; left &= left - 1)
			terms |= 1ull << ((uint32_t)__builtin_ctzll(left) | barriers);
		x->terms = terms;
	}
}

static uint32_t
barrier_bit(uint32_t barrier)
{
	return barrier < SASS_BARRIERS ? 1u << barrier : 0;
}

/* `more`: what was under way still is. */
static void
begin(struct pending *p, enum queue q, uint32_t barriers, bool more)
{
	if (more && p->terms && p->queue != q)
		q = QUEUE_NONE;
	p->terms = (more ? p->terms : 0) | 1ull << barriers;
	p->queue = (uint8_t)q;
}

static void
note_writes(
    struct machine_flow *f, const struct sass_instr *i, const struct places *defs, uint32_t at, int now)
{
	const enum queue q = queue_of(i);
	const uint32_t own = barrier_bit(i->write_barrier);
	const bool slow = is_slow(f, i);

	cover(f, q, own, false);
	for (uint32_t n = 0; n < defs->n; n++) {
		struct register_state *r = &f->now.reg[defs->at[n]];
		const uint32_t place = defs->at[n];
		const enum producer p = producer_at(i, place);

		r->by = at;
		if (slow)
			begin(&r->write, q, own, i->guard != SASS_PT);
		for (uint32_t c = 0; c < CONSUMERS; c++)
			r->ready[c] = (int16_t)(slow ? now : now + latency(f->k->sm, p, c));
	}
}

/* A barrier of its result says too that its operands were read.  Predicates and uniform registers are
 * read at issue. */
static void
note_reads(struct machine_flow *f, const struct sass_instr *i, const struct places *uses, uint32_t at)
{
	const uint32_t own = barrier_bit(i->read_barrier) | barrier_bit(i->write_barrier);
	const enum queue q = i->op->pipe == SASS_MEMORY ? QUEUE_READS : QUEUE_NONE;

	if (!reads_late(i))
		return;
	cover(f, q, own, true);
	for (uint32_t n = 0; n < uses->n; n++) {
		struct register_state *r = &f->now.reg[uses->at[n]];

		if (uses->at[n] >= FILE_U)
			continue;
		r->read_by = at;
		begin(&r->read, q, own, q == QUEUE_NONE);
	}
}

static void
set_barriers(struct machine_flow *f, const struct sass_instr *i, int now)
{
	if (i->write_barrier < SASS_BARRIERS)
		f->now.settable[i->write_barrier] = (int16_t)(now + SET_TO_WAIT);
	if (i->read_barrier < SASS_BARRIERS)
		f->now.settable[i->read_barrier] = (int16_t)(now + SET_TO_WAIT);
}

void
hazard_step(struct machine_flow *f, uint32_t at, int now)
{
	enum { BAR = 0x11d };
	const struct sass_instr *i = &f->k->instr[at];
	struct places uses, defs, guard = {.n = 0};

	check_waits(f, i, at, now);
	wait_for(f, waits_of(i));
	if (code_of(i) == BAR)
		end_reads(f);
	if (!i->op || is_vague(i)) {
		if (i->op && i->op->pipe == SASS_MEMORY)
			cover(f, QUEUE_READS, barrier_bit(i->read_barrier) | barrier_bit(i->write_barrier),
			    true);
		set_barriers(f, i, now);
		return;
	}
	const struct sass_set own = own_uses(f->k, i, at);

	list(&own, &uses);
	list(&i->defs, &defs);
	if (i->guard != SASS_PT)
		guard.at[guard.n++] = (uint16_t)((step_is_uniform(i) ? FILE_Q : FILE_P) + i->guard);
	check_reads(f, i, &guard, at, now, C_GUARD);
	check_reads(f, i, &uses, at, now, consumer_of(i));
	check_writes(f, i, &defs, at, now);
	note_reads(f, i, &uses, at);
	note_writes(f, i, &defs, at, now);
	set_barriers(f, i, now);
}

/* ---- asked from outside ---------------------------------------------------------------------- */
void
machine_hazards(struct arena *a, const struct sass_kernel *k, struct machine_hazards *out)
{
	const struct machine_flow *f = machine_flow(a, k);

	*out = (struct machine_hazards){.poisoned = f->poisoned};
	out->n = machine_flow_hazards(f, &out->first);
}

void
machine_hazard_text(const struct sass_kernel *k, const struct machine_hazard *h, char out[160])
{
	static const char *const what[] = {[MACHINE_READS_EARLY] = "reads %s%u before it is there",
	    [MACHINE_OVERWRITES] = "overwrites %s%u before it was read",
	    [MACHINE_WRITES_EARLY] = "writes %s%u before an older result has come",
	    [MACHINE_WAITS_TOO_SOON] = "waits for barrier %s%u too soon after it was set"};
	const char *file = h->kind == MACHINE_WAITS_TOO_SOON ? ""
	    : h->file == 'R'                                 ? "R"
	    : h->file == 'U'                                 ? "UR"
	    : h->file == 'P'                                 ? "P"
							     : "UP";
	const struct sass_op *op = k->instr[h->at].op;
	char text[80], of[40] = "";

	if (h->kind == MACHINE_NOT_JUDGED) {
		(void)snprintf(out, 160,
		    "%u instructions in %u blocks: too large, or too tangled, to be judged", k->n_instr,
		    k->n_blocks);
		return;
	}

	(void)snprintf(text, sizeof(text), what[h->kind], file, h->reg);
	if (h->of < k->n_instr && k->instr[h->of].op)
		(void)snprintf(of, sizeof(of), " (%s at %u)", k->instr[h->of].op->name, h->of);
	(void)snprintf(out, 160, "instruction %u, %s, %s%s", h->at, op ? op->name : "?", text, of);
}

bool
machine_hazard(struct arena *a, struct bytes cubin, const char *kernel, struct err *why)
{
	struct machine_hazards h;
	struct sass_kernel k;
	char text[160];

	if (!sass_read(a, cubin, kernel, &k, why))
		return true;
	machine_hazards(a, &k, &h);
	if (!h.n)
		return false;
	machine_hazard_text(&k, &h.first, text);
	err_set(why, ERR_INFEASIBLE, "%s: %s", kernel, text);
	return true;
}
