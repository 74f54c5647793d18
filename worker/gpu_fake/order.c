/* worker/gpu_fake/order.c: what a loaded kernel's machine code says of it: how much faster it is than what
 * the fake compiler wrote, by the static model, and whether some instruction comes too early, so that results
 * are wrong. */
#include "gpu_fake_int.h"

#include "../../kernels/sass/machine.h"
#include "../../kernels/sass/price.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The writer's own: the table of sections, 64 bytes each, is the last thing in it. */
static size_t
image_bytes(const void *image)
{
	enum { TABLE_AT = 40, COUNT_AT = 60, SECTION = 64 };
	const uint8_t *p = image;
	uint64_t at;
	uint16_t n;

	memcpy(&at, p + TABLE_AT, sizeof(at));
	memcpy(&n, p + COUNT_AT, sizeof(n));
	return (size_t)at + (size_t)n * SECTION;
}

static struct sass_kernel
as_compiled(struct arena *a, const struct sass_kernel *now, const struct fake_word *word)
{
	struct sass_kernel k = *now;

	k.instr = arena_dup(a, now->instr, now->n_instr * sizeof(*now->instr));
	for (uint32_t i = 0; i < k.n_instr; i++)
		sass_decode(word[i].lo, word[i].hi, k.sm, i, k.n_instr, &k.instr[i]);
	return k;
}

static double
cycles(struct arena *a, const struct sass_kernel *k)
{
	const struct sass_loop *hot = sass_hot(k);
	const struct sass_load one = {.warps = 1, .blocks = 1};

	return hot && sass_price_knows(k->sm)
	    ? sass_price_loop(sass_price_make(a, k, hot, &one), k->instr, INFINITY)
	    : 0;
}

static bool
is_edited(const struct sass_kernel *now, const struct fake_word *word, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < now->n_instr; i++)
		if (now->instr[i].lo != word[i].lo || now->instr[i].hi != word[i].hi)
			return true;
	return false;
}

static uint64_t
hash_of(const struct sass_kernel *k)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < k->n_instr; i++)
		h = mix64(h ^ k->instr[i].lo) ^ mix64(k->instr[i].hi + 1);
	return h;
}

struct fake_order
gpu_fake_order(const void *image, const struct fake_code *head, uint32_t pass)
{
	struct arena a = {0};
	struct fake_word word[FAKE_MOST_WORDS];
	struct fake_order o = {.ratio = 1};
	struct sass_kernel now, base;
	struct bytes bytes = {image, image_bytes(image)};
	struct err why = {0};
	char name[16];
	uint32_t n = gpu_fake_assemble(head, pass, word);

	(void)snprintf(name, sizeof(name), "k_p%u", pass);
	if (sass_read(&a, bytes, name, &now, &why) && now.n_instr >= n && is_edited(&now, word, n)) {
		double before, after;

		now.n_instr = n;
		base = as_compiled(&a, &now, word);
		before = cycles(&a, &base);
		after = cycles(&a, &now);
		o = (struct fake_order){.is_edited = true, .hash = hash_of(&now)};
		o.ratio = before > 0 && after > 0 ? after / before : 1;
		o.is_early = machine_hazard(&a, bytes, name, &why);
	}
	arena_fini(&a);
	return o;
}

void *
gpu_fake_image_copy(const void *image)
{
	size_t n = image_bytes(image);
	void *copy = heap_alloc(n);

	memcpy(copy, image, n);
	return copy;
}

int
gpu_fake_order_fault(const struct fake_order *o, uint64_t seed, uint64_t faults, uint64_t wrong)
{
	uint64_t draw = o->is_edited ? gpu_fake_draw(seed, o->hash) : UINT64_MAX;

	if (draw < faults)
		return 700;
	return o->is_early || (o->is_edited && draw < faults + wrong) ? -2 : 0;
}
