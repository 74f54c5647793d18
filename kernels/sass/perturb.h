/* kernels/sass/perturb.h: an edited cubin as its base and a list of moves, one word of text:
 *   0123456789abcdef:k_p0.m40>37.s41=5.y12=1,k_p1.s3=2
 * It stands behind "sip=" in a schedule.  In front of the colon the first 16 hex digits of the base's
 * SHA-256; a kernel's moves are done in their order: m40>37 takes the instruction at place 40 to place 37 by
 * exchanges of neighbours, s41=5 gives the one at place 41 the stall count 5, y12=1 lets the one at place 12
 * yield.  Every exchange must be legal (legal.h), distances when all moves of a kernel are done. */
#ifndef KORCH_SASS_PERTURB_H
#define KORCH_SASS_PERTURB_H

#include "legal.h"

enum {
	SASS_DIGEST = 16,
	SASS_NAME_MAX = 1 << 14,  /* of a kernel */
	SASS_MOVES_KERNELS = 64,  /* of a text */
	SASS_MOVES_MAX = 1 << 16, /* of a kernel */
	SASS_MOVES_TEXT = 1 << 20 /* bytes */
};
enum sass_move_kind { SASS_MOVE = 'm', SASS_STALL = 's', SASS_YIELD = 'y' };
struct sass_move {
	enum sass_move_kind kind;
	uint32_t at;
	uint32_t to; /* place; stall 0..15; 1: yields, 0: does not */
};
struct sass_kernel_moves {
	const char *kernel;
	struct sass_move *move;
	uint32_t n;
};
struct sass_moves {
	char digest[SASS_DIGEST + 1];
	struct sass_kernel_moves *kernel; /* no name twice */
	uint32_t n_kernels;               /* 0: the base itself */
};
/* Any text, without "sip="; ERR_FORMAT, ERR_LIMIT naming the kernel and the move. */
bool sass_moves_read(struct arena *a, struct str text, struct sass_moves *out, struct err *e) MUST_CHECK;
/* What sass_moves_read takes, byte for byte. */
struct str sass_moves_print(struct arena *a, const struct sass_moves *m);
/* The edited cubin, in the arena: only bytes of .text differ from the base's.  ERR_FORMAT: the base is
 * another one (both digests are named) or no cubin; ERR_INFEASIBLE: a kernel or place that it has not, or a
 * move that is not legal, with the rule and its sentence. */
bool sass_moves_apply(struct arena *a, struct bytes base, const struct sass_moves *m, struct bytes *out,
    struct err *e) MUST_CHECK;

/* The way from a schedule's base to where it is now, in few moves; a kernel without any is left out. */
void sass_moves_of(struct arena *a, struct bytes base, const struct sass_sched *const *sched,
    uint32_t n_sched, struct sass_moves *out);
void sass_moves_digest(struct bytes base, char out[SASS_DIGEST + 1]);

#endif
