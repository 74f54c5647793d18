/* kernels/sass/latency.c: the table of distances, looked up. */
#include "latency.h"

enum {
	FIELD_D = 16, /* places of registers in a word */
	FIELD_A = 24,
	FIELD_B = 32,
	FIELD_C = 64,
	WIDE_MULTIPLY = 0x025
};

/* Sorted by sm, kind, slot, first, second, as bench-sip --learn writes them. */
struct row {
	uint8_t sm, kind, slot, cycles;
	uint16_t first, second;
};
static const struct row rows[] = {
#define LAT(SM, KIND, SLOT, FIRST, SECOND, CYCLES)                                                           \
	{SM, SASS_LAT_##KIND, SASS_SLOT_##SLOT, CYCLES, FIRST, SECOND},
#include "latency.def"
#undef LAT
    {UINT8_MAX, 0, 0, SASS_UNSEEN, 0, 0}};
struct control {
	int sm;
	bool yields;
	uint32_t stalls;
};
static const struct control controls[] = {
#define CONTROL(SM, YIELDS, STALLS) {SM, YIELDS, STALLS},
#include "latency.def"
#undef CONTROL
    {0, false, 0}};
struct least {
	int sm;
	uint16_t key;
	uint8_t stall;
};
static const struct least leasts[] = {
#define LEAST(SM, KEY, STALL) {SM, KEY, STALL},
#include "latency.def"
#undef LEAST
    {0, 0, 0}};

uint32_t
sass_set_next(const struct sass_set *s, uint32_t from)
{
	const uint64_t words[6] = {s->r[0], s->r[1], s->r[2], s->r[3], s->u, s->p | (uint64_t)s->up << 8};

	for (uint32_t w = from >> 6; w < COUNT_OF(words); w++) {
		const uint64_t left = w == from >> 6 ? words[w] >> (from & 63) << (from & 63) : words[w];

		if (left)
			return w * 64 + (uint32_t)__builtin_ctzll(left);
	}
	return SASS_RESOURCES;
}

static unsigned
log2_of(unsigned n)
{
	return n ? 31 - (unsigned)__builtin_clz(n) : 0;
}

uint16_t
sass_lat_key(const struct sass_instr *i)
{
	const unsigned shape = i->mma_bits ? log2_of(i->mma_bits) << 4 | (log2_of(i->mma_k) & 0xf) : 0;

	return (uint16_t)(i->op->code | shape << 9);
}

/* ---- slots --------------------------------------------------------------------------------------------- */
static uint32_t
width_of(const struct sass_instr *i)
{
	if (i->op->pipe == SASS_TENSOR || i->op->pipe == SASS_MEMORY || i->op->pipe == SASS_DOUBLE)
		return 4;
	return i->op->code == WIDE_MULTIPLY ? 2 : 1;
}

static bool
holds(const struct sass_instr *i, unsigned at, uint32_t r)
{
	const uint64_t field = at < 64 ? i->lo >> at : i->hi >> (at - 64);

	return r - (uint32_t)(field & 0xff) < width_of(i);
}

unsigned
sass_slots(const struct sass_instr *i, uint32_t r)
{
	const unsigned form = (unsigned)(i->lo >> 9) & 7;
	unsigned m = 0;

	if (r >= SASS_UP)
		return SASS_SLOT_upredicate;
	if (r >= SASS_P)
		return i->guard == r - SASS_P ? SASS_SLOT_guard : SASS_SLOT_predicate;
	if (r >= SASS_U)
		return SASS_SLOT_uniform;
	m |= holds(i, FIELD_A, r) ? SASS_SLOT_a : 0;
	m |= holds(i, FIELD_B, r) ? SASS_SLOT_b : 0;
	if (holds(i, FIELD_C, r)) /* there the second source stands in these forms */
		m |= form == 2 || form == 3 || form == 7 ? SASS_SLOT_b : SASS_SLOT_c;
	if (m == 0 && holds(i, FIELD_D, r))
		m = SASS_SLOT_d;
	return m;
}

/* ---- look-up --------------------------------------------------------------------------------------------
 */
static int64_t
place_of(const struct row *r)
{
	return (((int64_t)r->sm * SASS_LAT_KINDS + r->kind) << 40) + ((int64_t)r->slot << 32) +
	    ((int64_t)r->first << 16) + r->second;
}

static uint32_t
look_up(const struct row *want)
{
	const uint32_t n = COUNT_OF(rows) - 1;
	uint32_t low = 0, high = n;

	while (low < high) {
		const uint32_t mid = low + (high - low) / 2;

		if (place_of(&rows[mid]) < place_of(want))
			low = mid + 1;
		else
			high = mid;
	}
	return place_of(&rows[low]) == place_of(want) ? rows[low].cycles : SASS_UNSEEN;
}

/* The table has the architectures that ptxas was seen to write for; a later one of a family is as the first.
 */
static int
table_sm(int sm)
{
	return sm >= 90 ? 90 : sm >= 80 ? 80 : sm >= 75 ? 75 : 70;
}

uint32_t
sass_lat(int sm, enum sass_lat_kind kind, unsigned slots, uint16_t first, uint16_t second)
{
	struct row want = {(uint8_t)table_sm(sm), (uint8_t)kind, (uint8_t)slots, 0, first, second};
	uint32_t most = SASS_UNSEEN;

	if ((slots & (slots - 1)) == 0)
		return look_up(&want);
	for (unsigned bit = 1; bit <= slots; bit <<= 1)
		if (slots & bit) {
			want.slot = (uint8_t)bit;
			const uint32_t cycles = look_up(&want);

			if (cycles == SASS_UNSEEN)
				return SASS_UNSEEN;
			most = MAX_OF(most, cycles);
		}
	return most;
}

uint32_t
sass_stalls(int sm, bool yields)
{
	for (const struct control *c = controls; c->sm; c++)
		if (c->sm == table_sm(sm) && c->yields == yields)
			return c->stalls;
	return 0;
}

uint32_t
sass_least_stall(int sm, uint16_t key)
{
	for (const struct least *l = leasts; l->sm; l++)
		if (l->sm == table_sm(sm) && l->key == key)
			return l->stall;
	return SASS_UNSEEN;
}
