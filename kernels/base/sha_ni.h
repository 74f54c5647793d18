/* kernels/base/sha_ni.h: SHA-256 by the CPU's own instructions (sha_ni.c). */
#ifndef KORCH_SHA_NI_H
#define KORCH_SHA_NI_H

#include "base.h"

bool sha_ni_works(void);
/* Takes blocks of 64 bytes into the state.  Only where sha_ni_works(). */
void sha_ni_blocks(uint32_t state[8], const uint8_t *p, size_t n_blocks);

#endif
