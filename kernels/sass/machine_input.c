/* kernels/sass/machine_input.c: inputs that a kernel is run with: parameters that are small, or pointers, or
 * extreme. */
#include "machine_int.h"

/* Words of a parameter block: as sizes they make short loops, as pointers any will do. */
static uint32_t
small_word(struct rng *r)
{
	static const uint32_t unit[] = {1, 4, 16, 32, 64, 128, 256};

	return unit[rng_below(r, COUNT_OF(unit))] * (1 + rng_below(r, 8));
}

static uint32_t
extreme_word(struct rng *r)
{
	static const uint32_t word[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff0, 0x00010000};

	return rng_below(r, 3) ? small_word(r) : word[rng_below(r, COUNT_OF(word))];
}

/* Half of them large: what is a count of elements lets all threads work. */
static uint32_t
wide_word(struct rng *r)
{
	return rng_below(r, 2) ? 1u << (16 + rng_below(r, 8)) : rng_below(r, 2) * small_word(r);
}

static void
place(struct rng *r, struct machine_input *in)
{
	static const uint32_t threads[] = {128, 256, 256, 512, 1024};

	in->threads[0] = threads[rng_below(r, COUNT_OF(threads))];
	in->threads[1] = in->threads[2] = 1;
	for (int i = 0; i < 3; i++) {
		in->grid[i] = 1 + rng_below(r, i ? 3 : 64);
		in->block[i] = rng_below(r, in->grid[i]);
	}
	in->n_warps = 2;
	in->warp[0] = rng_below(r, 2);
	in->warp[1] = in->warp[0] + 1 + rng_below(r, 2);
}

void
machine_input_make(struct arena *a, uint64_t n, struct machine_input *out)
{
	enum { WORDS = 128, TURNS = 3 };
	struct rng r = {mix64(n + 1)};
	uint32_t *param = NEW_ARRAY(a, uint32_t, WORDS);
	static uint32_t (*const kind[])(struct rng *) = {small_word, wide_word, extreme_word, wide_word};

	*out = (struct machine_input){
	    .seed = rng_next(&r), .param = param, .n_param = WORDS, .turns = TURNS, .leaves_loops = n % 2};
	for (uint32_t i = 0; i < WORDS; i++)
		param[i] = kind[n % COUNT_OF(kind)](&r);
	place(&r, out);
	out->loaded_mask = n % 2 ? 0 : 0x00000ff0;
}
