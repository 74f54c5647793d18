/* kernels/sass/machine_memory.c: loads, stores, copies.  A byte of shared memory knows which warp had it last
 * and in which barrier interval: who comes too near is a race, and what it reads is poison.  An asynchronous
 * copy holds its bytes from its issue until its group has been waited for. */
#include "machine_int.h"

enum { KIND_LOAD = 1, KIND_STORE, KIND_COPY, KIND_LANDED };
static const uint64_t LOCAL = 1ull << 63;

static uint32_t
width_of(const struct step *s)
{
	static const uint8_t bytes[8] = {1, 1, 2, 2, 4, 8, 16, 4};

	return bytes[field(s, 73, 3)];
}

static uint32_t
words_of(uint32_t bytes)
{
	return MAX_OF(bytes / 4, 1u);
}

/* ---- global and local ------------------------------------------------------------------------ */
static uint64_t
pair(const struct warp *w, uint32_t r, uint32_t lane)
{
	return r == SASS_RZ ? 0 : (uint64_t)reg_of(w, r + 1, lane) << 32 | reg_of(w, r, lane);
}

static uint64_t
uniform_pair(const struct warp *w, uint32_t r)
{
	return r == URZ ? 0 : (uint64_t)ureg_of(w, r + 1) << 32 | ureg_of(w, r);
}

/* [Ra.64 + UR + offset]; before Ampere a uniform register is part of the address, since then a descriptor but
 * where bit 76 is clear. */
static uint64_t
global_address(const struct step *s, uint32_t lane, int uniform_at, int64_t offset)
{
	const uint32_t ra = field(s, 24, 8);
	const bool has_uniform = bit(s, 91) && (s->m->k->sm < 80 || !bit(s, 76));
	uint64_t at = bit(s, 72) ? pair(s->w, ra, lane) : reg_of(s->w, ra, lane);

	if (has_uniform)
		at += uniform_pair(s->w, field(s, uniform_at, 6));
	return at + (uint64_t)offset;
}

static void
load_words(struct step *s, uint32_t lane, uint64_t space, uint64_t at)
{
	const uint32_t bytes = width_of(s);

	at &= ~(uint64_t)(bytes - 1) & ~LOCAL;
	trace_add(s, lane, KIND_LOAD, space | at, bytes);
	for (uint32_t n = 0; n < words_of(bytes); n++) {
		const uint32_t v = store_word(&s->m->store, space | ((at >> 2) + n));

		set_dest(s, n, lane, operand_narrow(field(s, 73, 3), v >> 8 * (at & 3)));
	}
}

static void
put_part(struct store *m, uint64_t key, uint32_t at, uint32_t bytes, uint32_t v)
{
	const uint32_t mask = bytes >= 4 ? UINT32_MAX : ((1u << 8 * bytes) - 1) << 8 * (at & 3);
	const uint32_t old = mask == UINT32_MAX ? 0 : store_word(m, key);

	store_put(m, key, (old & ~mask) | (v << 8 * (bytes >= 4 ? 0 : at & 3) & mask));
}

static void
store_words(struct step *s, uint32_t lane, uint64_t space, uint64_t at)
{
	const uint32_t bytes = width_of(s), rb = field(s, 32, 8);

	at &= ~(uint64_t)(bytes - 1) & ~LOCAL;
	for (uint32_t n = 0; n < words_of(bytes); n++) {
		const uint32_t v =
		    rb == SASS_RZ ? 0 : operand_narrow(field(s, 73, 3), reg_of(s->w, rb + n, lane));

		trace_add(s, lane, KIND_STORE, space | (at + 4 * n), (uint64_t)bytes << 32 | v);
		if (s->m->in->stored && space == 0)
			s->m->in->stored(s->m->in->self, at + 4 * n, v);
		put_part(&s->m->store, space | ((at >> 2) + n), (uint32_t)at, bytes, v);
	}
}

void
op_ldg(struct step *s)
{
	for (EACH_LANE(l, s))
		load_words(s, l, 0, global_address(s, l, 32, signed_field(s, 40, 24)));
}

void
op_stg(struct step *s)
{
	for (EACH_LANE(l, s))
		store_words(s, l, 0, global_address(s, l, 64, signed_field(s, 40, 24)));
}

/* Each thread has its own. */
static uint64_t
local_space(const struct step *s, uint32_t lane)
{
	return LOCAL | (uint64_t)(s->w->id * LANES + lane) << 40;
}

static uint32_t
narrow_address(const struct step *s, uint32_t lane, int uniform_at)
{
	const uint32_t base = reg_of(s->w, field(s, 24, 8), lane),
		       more = bit(s, 91) ? ureg_of(s->w, field(s, uniform_at, 6)) : 0;

	return base + more + (uint32_t)signed_field(s, 40, 24);
}

void
op_ldl(struct step *s)
{
	for (EACH_LANE(l, s))
		load_words(s, l, local_space(s, l), narrow_address(s, l, 32));
}

void
op_stl(struct step *s)
{
	for (EACH_LANE(l, s))
		store_words(s, l, local_space(s, l), narrow_address(s, l, 64));
}

/* Where an index of 1, 4, 8 or 16 bytes may stand. */
static uint32_t
indexed_address(const struct step *s, uint32_t lane, int uniform_at)
{
	static const uint8_t shift[4] = {0, 2, 3, 4};
	const uint32_t base = reg_of(s->w, field(s, 24, 8), lane);

	return narrow_address(s, lane, uniform_at) - base + (base << shift[field(s, 78, 2)]);
}

/* ---- shared ---------------------------------------------------------------------------------- */
static uint8_t
value_of(const struct step *s, const struct shared_byte *b, uint32_t at)
{
	return b->written ? b->value : store_shared_fresh(&s->m->store, at);
}

static uint8_t
read_shared_byte(struct step *s, uint32_t at)
{
	struct shared_byte *b = store_shared(&s->m->store, at);
	const struct warp *w = s->w;
	const uint16_t now = (uint16_t)w->interval;
	uint8_t v = value_of(s, b, at);

	if (b->flights || (b->writer && b->writer != w->number + 1 && b->wrote_at == now)) {
		trace_race(s);
		v = (uint8_t)(v ^ 0x5a);
	}
	if (b->read_at != now)
		b->readers = 0;
	b->read_at = now;
	b->readers = (uint8_t)(b->readers | 1u << w->number);
	return v;
}

/* Who else has it: a copy on its way, a writer or a reader of this interval. */
static bool
is_taken(const struct warp *w, const struct shared_byte *b)
{
	const uint16_t now = (uint16_t)w->interval;

	return b->flights || (b->writer && b->writer != w->number + 1 && b->wrote_at == now) ||
	    (b->read_at == now && b->readers & ~(1u << w->number));
}

static void
write_shared_byte(struct step *s, struct shared_byte *b, uint8_t v)
{
	b->value = v;
	b->written = true;
	b->writer = (uint8_t)(s->w->number + 1);
	b->wrote_at = (uint16_t)s->w->interval;
}

static uint32_t
read_shared(struct step *s, uint32_t at, uint32_t bytes)
{
	uint32_t v = 0;

	for (uint32_t i = 0; i < MIN_OF(bytes, 4u); i++)
		v |= (uint32_t)read_shared_byte(s, (at + i) % SHARED_BYTES) << 8 * i;
	return v;
}

void
op_lds(struct step *s)
{
	const uint32_t bytes = width_of(s);

	for (EACH_LANE(l, s)) {
		const uint32_t at = indexed_address(s, l, 32) & ~(bytes - 1) & (SHARED_BYTES - 1);

		trace_add(s, l, KIND_LOAD, 1ull << 62 | at, bytes);
		for (uint32_t n = 0; n < words_of(bytes); n++)
			set_dest(s, n, l, operand_narrow(field(s, 73, 3), read_shared(s, at + 4 * n, bytes)));
	}
}

void
op_sts(struct step *s)
{
	const uint32_t bytes = width_of(s), rb = field(s, 32, 8);

	for (EACH_LANE(l, s)) {
		const uint32_t at = indexed_address(s, l, 64) & ~(bytes - 1) & (SHARED_BYTES - 1);

		for (uint32_t i = 0; i < bytes; i++) {
			const uint32_t word = rb == SASS_RZ ? 0 : reg_of(s->w, rb + i / 4, l);
			struct shared_byte *b = store_shared(&s->m->store, at + i);

			if (is_taken(s->w, b))
				trace_race(s);
			write_shared_byte(s, b, (uint8_t)(word >> 8 * (i % 4)));
			trace_add(s, l, KIND_STORE, 1ull << 62 | (at + i), b->value);
		}
	}
}

/* A lane's share of a matrix of 8 rows of 16 bytes, whose addresses lanes 8m.. have. */
static uint32_t
matrix_part(struct step *s, const uint32_t *row, uint32_t m, uint32_t lane)
{
	if (!bit(s, 78))
		return read_shared(s, row[8 * m + lane / 4] + lane % 4 * 4, 4);
	const uint32_t low = read_shared(s, row[8 * m + lane % 4 * 2] + lane / 4 * 2, 2),
		       high = read_shared(s, row[8 * m + lane % 4 * 2 + 1] + lane / 4 * 2, 2);

	return high << 16 | low;
}

void
op_ldsm(struct step *s)
{
	const uint32_t n = 1u << MIN_OF(field(s, 72, 2), 2u);
	uint32_t row[LANES];

	for (uint32_t l = 0; l < LANES; l++)
		row[l] = narrow_address(s, l, 32) & ~15u & (SHARED_BYTES - 1);
	for (EACH_LANE(l, s)) {
		if (l < 8 * n)
			trace_add(s, l, KIND_LOAD, 1ull << 62 | row[l], 16);
		for (uint32_t m = 0; m < n; m++)
			set_dest(s, m, l, matrix_part(s, row, m, l));
	}
}

/* ---- asynchronous copies --------------------------------------------------------------------- */
static void
take_off(struct step *s, const struct flight *f)
{
	struct warp *w = s->w;

	if (w->n_flights == FLIGHTS_MAX) {
		s->m->store.full = true;
		return;
	}
	for (uint32_t i = 0; i < f->bytes; i++) {
		struct shared_byte *b = store_shared(&s->m->store, f->to + i);

		if (is_taken(w, b))
			trace_race(s);
		b->flights++;
	}
	GROW(s->m->a, w->flight, w->n_flights, w->cap_flights);
	w->flight[w->n_flights++] = *f;
	trace_add(s, f->lane, KIND_COPY, f->from ^ mix64(f->to),
	    (uint64_t)f->group << 16 | f->bytes << 8 | f->kept);
}

/* Where its predicate does not hold a copy brings zeros. */
void
op_ldgsts(struct step *s)
{
	const uint32_t bytes = width_of(s);

	for (EACH_LANE(l, s)) {
		const uint32_t base = reg_of(s->w, field(s, 16, 8), l);
		const uint64_t from = global_address(s, l, 64, signed_field(s, 32, 12));
		const struct flight f = {.from = from & ~(uint64_t)(bytes - 1) & ~LOCAL,
		    .to = (base + (uint32_t)signed_field(s, 44, 20)) & ~(bytes - 1) & (SHARED_BYTES - 1),
		    .group = s->w->groups,
		    .bytes = (uint8_t)bytes,
		    .kept = (uint8_t)(pred_in(s, 87, 90, l) ? bytes : 0),
		    .lane = (uint8_t)l};

		take_off(s, &f);
	}
}

void
op_ldgdepbar(struct step *s)
{
	if (s->lanes)
		s->w->groups++;
}

static void
land(struct step *s, const struct flight *f)
{
	for (uint32_t i = 0; i < f->bytes; i++) {
		struct shared_byte *b = store_shared(&s->m->store, f->to + i);
		const uint64_t at = f->from + i;
		const uint32_t word = i < f->kept ? store_word(&s->m->store, at >> 2) : 0;

		b->flights--;
		write_shared_byte(s, b, (uint8_t)(word >> 8 * (at & 3)));
	}
}

void
flights_land(struct step *s, uint32_t left)
{
	struct warp *w = s->w;
	uint32_t kept = 0;

	for (uint32_t n = 0; n < w->n_flights; n++) {
		if (w->flight[n].group + left < w->groups)
			land(s, &w->flight[n]);
		else
			w->flight[kept++] = w->flight[n];
	}
	w->n_flights = kept;
}

void
op_depbar(struct step *s)
{
	if (s->lanes)
		flights_land(s, bit(s, 47) ? field(s, 38, 6) : 0);
}
