/* kernels/tir/known.h: a proof of what is new in a program. */
#ifndef KORCH_TIR_KNOWN_H
#define KORCH_TIR_KNOWN_H

#include "tir.h"

/* Blocks, and outermost loops by their axes, that are proved already; n_loop 0: none. */
struct tir_known {
	const bool *blk, *loop;
	uint32_t n_loop;
};
/* As tir_proved, but for what is known. */
bool tir_proved_but(const struct tir *p, const struct tir_known *known, struct err *e) MUST_CHECK;

#endif
