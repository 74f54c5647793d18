/* kernels/sass/blocks.c: blocks of a kernel, where each goes on, loops, and which of them matters. */
#include "decode.h"

#include <stdlib.h>

enum {
	BSYNC = 0x141,
	CALL_ABS = 0x143,
	CALL = 0x144,
	BSSY = 0x145,
	BRA = 0x147,
	BRX = 0x149,
	JMP = 0x14a,
	JMX = 0x14c,
	EXIT = 0x14d,
	RET = 0x150,
	MAX_LOOPS = 1024, /* the shortest are kept */
};

/* Threads that go on here come from where their branch says, not only from above. */
struct marks {
	bool *starts, *reconverges;
	bool has_indirect;
};

/* A branch that need not be taken: by its guard, or by what it reads. */
static bool
is_conditional(const struct sass_instr *i)
{
	return i->guard != SASS_PT || i->guard_negated || !sass_set_is_empty(&i->uses);
}

static uint32_t
code_of(const struct sass_instr *i)
{
	return sass_field(i, 0, 9);
}

/* What is not in the table could be any of them. */
static bool
could_branch(const struct sass_instr *i)
{
	enum { FIRST_BRANCH = 0x140, LAST_BRANCH = 0x15f };

	return i->flags & SASS_UNKNOWN && code_of(i) >= FIRST_BRANCH && code_of(i) <= LAST_BRANCH;
}

static bool
is_indirect(const struct sass_instr *i)
{
	return code_of(i) == BRX || code_of(i) == JMX || could_branch(i);
}

/* ---- where a block goes on -------------------------------------------------------------------------------
 */
static void
add_next(struct sass_block *b, const uint32_t *block_of, int64_t to, uint32_t n)
{
	if (to < 0 || to >= (int64_t)n) {
		b->leaves_unknown = true;
		return;
	}
	if (!b->n_next || b->next[0] != block_of[to])
		b->next[b->n_next++] = block_of[to];
}

/* Does control reach the instruction behind it, as far as it says? */
static bool
goes_on(const struct sass_instr *i)
{
	switch (code_of(i)) {
	case BRA:
	case JMP:
	case EXIT:
		return is_conditional(i);
	case BRX:
	case JMX:
	case RET:
	case CALL:
	case CALL_ABS:
		return i->guard != SASS_PT || i->guard_negated;
	default:
		return true;
	}
}

/* Threads that waited in BSYNC go on where their BSSY said: nearly always right behind it. */
static bool
leaves_unknown(const struct sass_instr *i, const struct marks *m, uint32_t at, uint32_t n)
{
	const uint32_t code = code_of(i);

	if (code == BSYNC)
		return at + 1 >= n || !m->reconverges[at + 1];
	return code == CALL || code == CALL_ABS || code == RET || is_indirect(i);
}

static void
join_blocks(struct sass_kernel *k, const struct marks *m, const uint32_t *block_of)
{
	for (uint32_t q = 0; q < k->n_blocks; q++) {
		struct sass_block *b = &k->block[q];
		const struct sass_instr *i = &k->instr[b->end - 1];

		b->leaves_unknown = leaves_unknown(i, m, b->end - 1, k->n_instr);
		if (code_of(i) == BRA || code_of(i) == JMP)
			add_next(b, block_of, i->target, k->n_instr);
		if (goes_on(i))
			add_next(b, block_of, b->end, k->n_instr);
	}
}

/* ---- blocks
 * ------------------------------------------------------------------------------------------------ */
static struct marks
find_starts(struct arena *a, const struct sass_kernel *k)
{
	struct marks m = {
	    .starts = NEW_ARRAY(a, bool, k->n_instr + 1), .reconverges = NEW_ARRAY(a, bool, k->n_instr + 1)};

	m.starts[0] = true;
	for (uint32_t q = 0; q < k->n_instr; q++) {
		const struct sass_instr *i = &k->instr[q];

		if (i->target >= 0)
			m.starts[i->target] = true;
		if (i->target >= 0 && code_of(i) == BSSY)
			m.reconverges[i->target] = true;
		if (i->flags & SASS_ENDS || could_branch(i))
			m.starts[q + 1] = true;
		m.has_indirect |= is_indirect(i);
	}
	/* Tables of targets stand in .nv.info. */
	for (uint32_t q = 0; q < k->n_instr && m.has_indirect; q++)
		m.starts[q] |= k->instr[q].is_pinned;
	return m;
}

static uint32_t *
cut_blocks(struct arena *a, struct sass_kernel *k, const struct marks *m)
{
	uint32_t *block_of = NEW_ARRAY(a, uint32_t, k->n_instr);
	uint32_t n = 0;

	for (uint32_t q = 0; q < k->n_instr; q++)
		n += m->starts[q];
	k->block = NEW_ARRAY(a, struct sass_block, n);
	for (uint32_t q = 0; q < k->n_instr; q++) {
		if (m->starts[q])
			k->block[k->n_blocks++].first = q;
		k->block[k->n_blocks - 1].end = q + 1;
		block_of[q] = k->n_blocks - 1;
	}
	return block_of;
}

static int
by_length(const void *x, const void *y)
{
	const struct sass_loop *a = x, *b = y;
	const uint32_t n = a->last - a->first, m = b->last - b->first;

	return n != m ? (n > m) - (n < m) : (a->first > b->first) - (a->first < b->first);
}

static void
find_loops(struct arena *a, struct sass_kernel *k)
{
	uint32_t cap = 0;

	for (uint32_t q = 0; q < k->n_instr; q++) {
		const int32_t to = code_of(&k->instr[q]) == BRA ? k->instr[q].target : -1;

		if (to < 0 || (uint32_t)to >= q)
			continue;
		GROW(a, k->loop, k->n_loops, cap);
		k->loop[k->n_loops++] = (struct sass_loop){(uint32_t)to, q};
	}
	if (k->n_loops)
		qsort(k->loop, k->n_loops, sizeof(*k->loop), by_length);
	k->n_loops = MIN_OF(k->n_loops, (uint32_t)MAX_LOOPS);
}

void
sass_find_blocks(struct arena *a, struct sass_kernel *k)
{
	const struct marks m = find_starts(a, k);
	const uint32_t *block_of = cut_blocks(a, k, &m);

	join_blocks(k, &m, block_of);
	find_loops(a, k);
}

const struct sass_block *
sass_block_of(const struct sass_kernel *k, uint32_t at)
{
	uint32_t low = 0, high = k->n_blocks;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (k->block[middle].first <= at)
			low = middle;
		else
			high = middle;
	}
	return &k->block[low];
}

/* ---- the loop that matters
 * ---------------------------------------------------------------------------------- */
enum { SHORTEST = 4 }; /* instructions of a loop that does anything */

static uint64_t
work_of(const struct sass_kernel *k, const struct sass_loop *l, bool by_tensor)
{
	uint64_t sum = 0;

	for (uint32_t q = l->first; q <= l->last; q++) {
		const struct sass_instr *i = &k->instr[q];
		const bool is_dear = i->op->pipe == SASS_XU || i->op->space == SASS_GLOBAL;

		sum += by_tensor ? (uint64_t)i->mma_m * i->mma_n * i->mma_k : is_dear ? 4 : 1;
	}
	return sum;
}

/* A loop around one that does half of its work is not the innermost. */
static bool
is_around_another(const struct sass_kernel *k, const uint64_t *work, uint32_t at)
{
	const struct sass_loop *out = &k->loop[at];

	for (uint32_t q = 0; q < at; q++) {
		const struct sass_loop *in = &k->loop[q];

		if (out->first <= in->first && in->last <= out->last && 2 * work[q] >= work[at])
			return true;
	}
	return false;
}

static const struct sass_loop *
hottest(const struct sass_kernel *k, bool by_tensor)
{
	const struct sass_loop *best = NULL;
	uint64_t work[MAX_LOOPS] = {0}, most = 0;

	for (uint32_t q = 0; q < k->n_loops; q++) {
		const struct sass_loop *l = &k->loop[q];

		if (l->last - l->first < SHORTEST)
			continue;
		work[q] = work_of(k, l, by_tensor);
		if (work[q] <= most || is_around_another(k, work, q))
			continue;
		most = work[q];
		best = l;
	}
	return best;
}

const struct sass_loop *
sass_hot(const struct sass_kernel *k)
{
	const struct sass_loop *l = hottest(k, true);

	return l ? l : hottest(k, false);
}
