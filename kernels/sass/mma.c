/* kernels/sass/mma.c: tensor cores' instructions: shape, kind of input, registers. */
#include "decode.h"

enum { HMMA_STEP = 0x036, IMMA = 0x037, HMMA = 0x03c, DMMA = 0x03f, HGMMA = 0x1f0, QGMMA = 0x1f3 };

/* One by bits 72..90 under a mask: m x n x k of the warp, bits of an input's element, registers of d and c,
 * a, b. */
struct mma {
	uint32_t code, mask, value;
	uint16_t m, n, k;
	uint8_t bits, d, a, b;
};
static const struct mma shapes[] = {
    {HMMA_STEP, 0x78, 0x50, 8, 8, 4, 16, 2, 2, 2},  /* .884.F32.F32, one of four steps */
    {HMMA_STEP, 0x78, 0x00, 16, 8, 4, 16, 2, 2, 2}, /* .884.F16.F16, one of two */
    {HMMA, 0x85a, 0x000, 16, 8, 8, 16, 2, 2, 1},    /* .1688.F16 */
    {HMMA, 0x85a, 0x010, 16, 8, 8, 16, 4, 2, 1},    /* .1688.F32 */
    {HMMA, 0x85a, 0x008, 16, 8, 16, 16, 2, 4, 2},   /* .16816.F16 */
    {HMMA, 0x85a, 0x018, 16, 8, 16, 16, 4, 4, 2},   /* .16816.F32 */
    {HMMA, 0x85a, 0x850, 16, 8, 4, 32, 4, 2, 1},    /* .1684.F32.TF32 */
    {HMMA, 0x85a, 0x810, 16, 8, 8, 32, 4, 4, 2},    /* .1688.F32.TF32 */
    {IMMA, 0x7b89, 0x0000, 8, 8, 16, 8, 2, 1, 1},
    {IMMA, 0x7b89, 0x4000, 16, 8, 16, 8, 4, 2, 1},
    {IMMA, 0x7b89, 0x4008, 16, 8, 32, 8, 4, 4, 2},
    {IMMA, 0x7b89, 0x3800, 8, 8, 32, 4, 2, 1, 1},
    {IMMA, 0x7b89, 0x5808, 16, 8, 32, 4, 4, 2, 1},
    {IMMA, 0x7b89, 0x7800, 16, 8, 64, 4, 4, 4, 2},
    {DMMA, 0x30, 0x00, 8, 8, 4, 64, 4, 2, 2},
    {DMMA, 0x30, 0x10, 16, 8, 4, 64, 8, 4, 2},
    {DMMA, 0x30, 0x20, 16, 8, 8, 64, 8, 8, 4},
    {DMMA, 0x30, 0x30, 16, 8, 16, 64, 8, 16, 8},
};

static void
set_shape(struct sass_instr *i, int m, int n, int k, int bits)
{
	i->mma_m = (uint16_t)m;
	i->mma_n = (uint16_t)n;
	i->mma_k = (uint16_t)k;
	i->mma_bits = (uint8_t)bits;
}

/* A group of four warps: a quarter of 64 x n for each.  One operand or both are in shared memory, behind
 * descriptors of two uniform registers each, which are counted from one place. */
static void
add_group(struct sass_instr *i, uint32_t code)
{
	enum { F32 = 1 << 3, TF32 = 1 << 5, DESCRIPTORS = 4, A_REGISTERS = 4, WARP_M = 16 };
	const uint32_t kind = sass_field(i, 72, 6), n = (sass_field(i, 53, 5) + 1) * 8;
	const uint32_t registers = kind & F32 ? n / 2 : n / 4;
	const bool a_is_register = sass_field(i, 9, 3) == 6;
	const int bits = code == QGMMA ? 8 : kind & TF32 ? 32 : 16;

	set_shape(i, WARP_M, (int)n, 256 / bits, bits);
	sass_add_registers(&i->defs, sass_field(i, 16, 8), registers);
	sass_add_registers(&i->uses, sass_field(i, 64, 8), registers);
	if (a_is_register)
		sass_add_registers(&i->uses, sass_field(i, 24, 8), A_REGISTERS);
	sass_add_uniform(&i->uses, sass_field(i, a_is_register ? 32 : 24, 6), DESCRIPTORS);
	if (sass_field(i, 87, 3) == SASS_PT && sass_field(i, 84, 3) != SASS_PT)
		i->uses.up |= (uint8_t)(1U << sass_field(i, 84, 3));
}

bool
sass_add_mma(struct sass_instr *i, uint32_t code)
{
	const uint32_t kind = sass_field(i, 72, 19);

	if (code == HGMMA || code == QGMMA) {
		add_group(i, code);
		return true;
	}
	for (uint32_t k = 0; k < COUNT_OF(shapes); k++) {
		const struct mma *s = &shapes[k];

		if (s->code != code || (kind & s->mask) != s->value)
			continue;
		set_shape(i, s->m, s->n, s->k, s->bits);
		sass_add_registers(&i->defs, sass_field(i, 16, 8), s->d);
		sass_add_registers(&i->uses, sass_field(i, 24, 8), s->a);
		sass_add_registers(&i->uses, sass_field(i, 32, 8), s->b);
		sass_add_registers(&i->uses, sass_field(i, 64, 8), s->d);
		return true;
	}
	return false;
}
