/* kernels/base/num.c: checked integers, bit sets, random numbers and what mixes bits. */
#include "base.h"

#include <limits.h>
#include <math.h>
#include <string.h>

size_t
ck_mul(size_t a, size_t b)
{
	size_t n;

	if (__builtin_mul_overflow(a, b, &n))
		bug("%zu * %zu does not fit", a, b);
	return n;
}

size_t
ck_add(size_t a, size_t b)
{
	size_t n;

	if (__builtin_add_overflow(a, b, &n))
		bug("%zu + %zu does not fit", a, b);
	return n;
}

uint32_t
ck_u32(size_t n)
{
	if (n > UINT32_MAX)
		bug("%zu does not fit 32 bits", n);
	return (uint32_t)n;
}

int
ck_int(int64_t n)
{
	if (n < INT_MIN || n > INT_MAX)
		bug("%lld does not fit an int", (long long)n);
	return (int)n;
}

size_t
ck_size(int64_t n)
{
	if (n < 0)
		bug("%lld is no size", (long long)n);
	return (size_t)n;
}

int64_t
ck_i64(size_t n)
{
	if (n > INT64_MAX)
		bug("%zu does not fit 63 bits", n);
	return (int64_t)n;
}

bool
try_mul_i64(int64_t a, int64_t b, int64_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}

bool
try_add_i64(int64_t a, int64_t b, int64_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

struct bitset
bitset_make(struct arena *a, uint32_t n_bits)
{
	struct bitset b = {.n_bits = n_bits};

	b.w = NEW_ARRAY(a, uint64_t, bitset_words(&b));
	return b;
}

void
bitset_copy(struct bitset *to, const struct bitset *from)
{
	memcpy(to->w, from->w, bitset_words(from) * sizeof(*to->w));
}

void
bitset_or(struct bitset *to, const struct bitset *from)
{
	for (uint32_t i = 0; i < bitset_words(to); i++)
		to->w[i] |= from->w[i];
}

void
bitset_andnot(struct bitset *to, const struct bitset *from)
{
	for (uint32_t i = 0; i < bitset_words(to); i++)
		to->w[i] &= ~from->w[i];
}

bool
bitset_meets(const struct bitset *a, const struct bitset *b)
{
	for (uint32_t i = 0; i < bitset_words(a); i++)
		if (a->w[i] & b->w[i])
			return true;
	return false;
}

bool
bitset_within(const struct bitset *a, const struct bitset *b)
{
	for (uint32_t i = 0; i < bitset_words(a); i++)
		if (a->w[i] & ~b->w[i])
			return false;
	return true;
}

bool
bitset_equal(const struct bitset *a, const struct bitset *b)
{
	return memcmp(a->w, b->w, bitset_words(a) * sizeof(*a->w)) == 0;
}

uint32_t
bitset_count(const struct bitset *b)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < bitset_words(b); i++)
		n += (uint32_t)__builtin_popcountll(b->w[i]);
	return n;
}

uint32_t
bitset_next(const struct bitset *b, uint32_t from)
{
	for (uint32_t i = from >> 6; i < bitset_words(b); i++) {
		uint64_t w = b->w[i];

		if (i == from >> 6)
			w &= ~(uint64_t)0 << (from & 63);
		if (w)
			return i * 64 + (uint32_t)__builtin_ctzll(w);
	}
	return b->n_bits;
}

uint64_t
hash64(const void *p, size_t n, uint64_t seed)
{
	const uint8_t *b = p;
	uint64_t h = mix64(seed ^ (n * 0x9e3779b97f4a7c15u));

	for (; n >= 8; n -= 8, b += 8) {
		uint64_t w;

		memcpy(&w, b, 8);
		h = mix64(h ^ w) + 0x9e3779b97f4a7c15u;
	}
	for (; n; n--, b++)
		h = mix64(h ^ *b) + 1;
	return h;
}

uint64_t
rng_next(struct rng *r)
{
	r->s += 0x9e3779b97f4a7c15u;
	return mix64(r->s);
}

uint32_t
rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}

double
rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

double
rng_normal(struct rng *r)
{
	double u = 1.0 - rng_unit(r); /* (0, 1] */

	return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * rng_unit(r));
}

/* The sum of four even ones of 16 bits. */
double
rng_bell(struct rng *r)
{
	uint64_t x = rng_next(r);
	int64_t sum = (int64_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));

	return (double)(sum - 2 * 0xffff) * (1.7320508075688772 / 0xffff);
}

/* ---- disjoint sets ------------------------------------------------------------------ */
uint32_t
sets_root(uint32_t *up, uint32_t i)
{
	while (up[i] != i)
		i = up[i] = up[up[i]];
	return i;
}

void
sets_join(uint32_t *up, uint32_t a, uint32_t b)
{
	a = sets_root(up, a);
	b = sets_root(up, b);
	up[MAX_OF(a, b)] = MIN_OF(a, b);
}
