/* kernels/sass/decode.h: what the parts of the decoder share; for this folder. */
#ifndef KORCH_SASS_DECODE_H
#define KORCH_SASS_DECODE_H

#include "sass.h"

extern const struct sass_set sass_everything;
/* Bits of the word, from the first on; n at most 32. */
uint32_t sass_field(const struct sass_instr *i, int first, int n);
void sass_add_registers(struct sass_set *s, uint32_t first, uint32_t n);
void sass_add_uniform(struct sass_set *s, uint32_t first, uint32_t n);
/* A tensor core's instruction (mma.c): shape, registers; false: a shape that it does not know. */
bool sass_add_mma(struct sass_instr *i, uint32_t code) MUST_CHECK;
/* All that it could read and write: a wall. */
void sass_make_unknown(struct sass_instr *i);
/* Blocks and loops of instructions that are decoded (blocks.c). */
void sass_find_blocks(struct arena *a, struct sass_kernel *k);

#endif
