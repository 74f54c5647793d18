/* tests/harness/sass_made.h: small kernels of machine code made by hand, an instruction a line:
 *   FFMA d4 a1 b2 c4 S4 B0        d a b c: registers by their place in the word
 *   LDS d4 a8 o16 W0 S1 Y         o: offset; W R: barriers; B: waits (several digits); S: stall; Y: yields
 *   @!P1 ISETP p2 a1 b3 u1        p: predicate written; u: reuse flags; f: bits 73..75; q: UR of an address
 *   BRA t0                        to the place 0
 *   NOP pin                       its offset is pinned */
#ifndef KORCH_TEST_SASS_MADE_H
#define KORCH_TEST_SASS_MADE_H

#include "../../kernels/sass/sass.h"

enum { MADE_MAX = 256 };
/* false: a line that is none of these. */
bool made_word(struct str line, uint32_t at, uint64_t *lo, uint64_t *hi, bool *pinned);
/* A kernel of such lines, with its blocks and loops; false: a bad line, printed. */
bool made_kernel(struct arena *a, const char *text, int sm, struct sass_kernel *out);
/* The cubin with its first kernel's code replaced by these lines, the rest filled up with NOP. */
bool made_cubin(struct arena *a, struct bytes like, const char *text, struct bytes *out);

#endif
