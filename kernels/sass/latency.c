/* kernels/sass/latency.c: the table of distances, looked up. */
#include "latency.h"

enum {
	FIELD_D = 16, /* places of registers in a word */
	FIELD_A = 24,
	FIELD_B = 32,
	FIELD_C = 64,
	WIDE_MULTIPLY = 0x025,
	NO_PART = UINT8_MAX
};

/* Sorted by sm, kind, slot, part, first, second, as bench-sip --learn writes them. */
struct row {
	uint8_t sm, cycles;
	struct sass_tie tie;
};
static const struct row rows[] = {
#define LAT(SM, KIND, SLOT, PART, FIRST, SECOND, CYCLES)                                                     \
	{SM, CYCLES, {FIRST, SECOND, SASS_LAT_##KIND, SASS_SLOT_##SLOT, PART}},
#include "latency.def"
#undef LAT
    {UINT8_MAX, SASS_UNSEEN, {0, 0, 0, 0, 0}}};
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

/* ---- ties -------------------------------------------------------------------------------------------------
 */
static uint32_t
width_of(const struct sass_instr *i)
{
	if (i->op->pipe == SASS_TENSOR || i->op->pipe == SASS_MEMORY || i->op->pipe == SASS_DOUBLE)
		return 4;
	return i->op->code == WIDE_MULTIPLY ? 2 : 1;
}

/* The register's number in the operand at that bit; NONE: it is not of it. */
static uint32_t
part_at(const struct sass_instr *i, unsigned at, uint32_t r)
{
	const uint32_t n = r - (uint32_t)((at < 64 ? i->lo >> at : i->hi >> (at - 64)) & 0xff);

	return n < width_of(i) ? n : (uint32_t)NO_PART;
}

static uint32_t
part_written(const struct sass_instr *i, uint32_t r)
{
	if (r >= SASS_P)
		return 0;
	const uint32_t n = r >= SASS_U ? r - SASS_U - (uint32_t)(i->lo >> FIELD_D & 0x3f)
				       : r - (uint32_t)(i->lo >> FIELD_D & 0xff);

	return MIN_OF(n, 3u);
}

struct read_at {
	uint8_t slot, part;
};

static uint32_t
other_reads(const struct sass_instr *i, uint32_t r, struct read_at *out)
{
	if (r >= SASS_UP)
		*out = (struct read_at){SASS_SLOT_upredicate, 0};
	else if (r >= SASS_P)
		*out = (struct read_at){i->guard == r - SASS_P ? SASS_SLOT_guard : SASS_SLOT_predicate, 0};
	else
		*out = (struct read_at){SASS_SLOT_uniform, 0};
	return 1;
}

/* In forms 2, 3 and 7 the second source stands where the third one does else. */
static uint32_t
reads_of(const struct sass_instr *i, uint32_t r, struct read_at out[SASS_TIES])
{
	static const uint8_t field[3] = {FIELD_A, FIELD_B, FIELD_C};
	const unsigned form = (unsigned)(i->lo >> 9) & 7;
	const bool is_second = form == 2 || form == 3 || form == 7;
	const uint8_t slot[3] = {SASS_SLOT_a, SASS_SLOT_b, (uint8_t)(is_second ? SASS_SLOT_b : SASS_SLOT_c)};
	uint32_t n = 0;

	if (r >= SASS_U)
		return other_reads(i, r, out);
	for (int f = 0; f < 3; f++) {
		const uint32_t part = part_at(i, field[f], r);

		if (part != NO_PART)
			out[n++] = (struct read_at){slot[f], (uint8_t)part};
	}
	if (n == 0 && part_at(i, FIELD_D, r) != NO_PART)
		out[n++] = (struct read_at){SASS_SLOT_d, (uint8_t)part_at(i, FIELD_D, r)};
	return n;
}

uint32_t
sass_ties(const struct sass_instr *first, const struct sass_instr *second, enum sass_lat_kind kind,
    uint32_t resource, struct sass_tie out[SASS_TIES])
{
	const struct sass_tie any = {
	    sass_lat_key(first), sass_lat_key(second), (uint8_t)kind, SASS_SLOT_none, 0};
	struct read_at read[SASS_TIES] = {{SASS_SLOT_none, 0}};
	uint32_t n = 1;

	if (kind == SASS_LAT_raw)
		n = reads_of(second, resource, read);
	else if (kind == SASS_LAT_war)
		n = reads_of(first, resource, read);
	else if (kind == SASS_LAT_waw)
		read[0].part = (uint8_t)part_written(second, resource);
	for (uint32_t q = 0; q < n; q++) {
		out[q] = any;
		out[q].slot = read[q].slot;
		if (kind == SASS_LAT_war)
			out[q].part = (uint8_t)(read[q].part * 4 + part_written(second, resource));
		else if (kind != SASS_LAT_pipe)
			out[q].part = (uint8_t)(part_written(first, resource) * 4 + read[q].part);
	}
	return n;
}

/* ---- look-up --------------------------------------------------------------------------------------------
 */
static int64_t
place_of(const struct row *r)
{
	const int64_t where =
	    (((int64_t)r->sm * SASS_LAT_KINDS + r->tie.kind) * 16 + r->tie.slot) * 16 + r->tie.part;

	return (where << 32) + ((int64_t)r->tie.first << 16) + r->tie.second;
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
	return sm >= 90 ? 90 : sm >= 89 ? 89 : sm >= 86 ? 86 : sm >= 80 ? 80 : sm >= 75 ? 75 : 70;
}

uint32_t
sass_lat(int sm, const struct sass_instr *first, const struct sass_instr *second, enum sass_lat_kind kind,
    uint32_t resource)
{
	struct sass_tie tie[SASS_TIES];
	const uint32_t n = sass_ties(first, second, kind, resource, tie);
	uint32_t most = SASS_UNSEEN;

	for (uint32_t q = 0; q < n; q++) {
		const uint32_t cycles = look_up(&(struct row){(uint8_t)table_sm(sm), 0, tie[q]});

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
