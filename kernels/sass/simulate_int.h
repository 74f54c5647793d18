/* kernels/sass/simulate_int.h: the simulation from inside: warps on their way (simulate.c), and loops whose
 * steps change a little between one question and the next (steady.c).  For these two. */
#ifndef KORCH_SASS_SIMULATE_INT_H
#define KORCH_SASS_SIMULATE_INT_H

#include "price_int.h"

enum {
	RING = 16,              /* groups that are remembered */
	SEEN = 4,               /* beginnings of turns that are remembered */
	WORDS = SASS_UNITS + 2, /* of a state, beside the warps' */
	WARP_WORDS = 4 + SASS_BARRIERS + 2 * RING,
};
#define NEVER (INT64_MAX / 4)

struct warp {
	int64_t ready, barrier[SASS_BARRIERS], copies;
	int64_t group[RING], mma[RING];
	uint32_t n_groups, n_mma;
	uint32_t at, turn, block;
	bool waits; /* at a barrier */
};
struct run {
	const struct sass_step *steps;
	uint32_t n, n_warps, turns, last;
	uint64_t issued;
	int64_t now, slot; /* ticks that an instruction takes to issue */
	int64_t free[SASS_UNITS], gate[GATES];
	uint32_t waiting[SASS_PRICE_WARPS], of_block[SASS_PRICE_WARPS];
	/* of each warp: tick from which on it may issue, but for the queues of its next instruction; NEVER:
	 * it is done, or at a barrier */
	int64_t can[SASS_PRICE_WARPS];
	uint8_t queue[2][SASS_PRICE_WARPS];
	struct warp warp[SASS_PRICE_WARPS];
};

struct beginning { /* of a turn of the first warp: all that what follows depends on */
	int64_t at;
	uint32_t n;
	int32_t word[WORDS + SASS_PRICE_WARPS * WARP_WORDS];
};
struct history {
	struct beginning seen[SEEN];
	uint32_t n;
};

void sass_run_start(
    struct run *r, const struct sass_step *steps, uint32_t n, const struct sass_load *l, uint32_t turns);
void sass_run_look(const struct run *r, struct beginning *b);
bool sass_run_same(const struct beginning *a, const struct beginning *b);
/* Cycles of a turn, where this beginning of one was there before, so many turns ago; 0: it was not. */
double sass_run_repeats(const struct run *r, struct history *h, uint32_t *turns);
int64_t sass_run_ticks(double cycles); /* NEVER: too many */
/* Until the first warp begins a turn.  False: given up. */
bool sass_run_turn(struct run *r, int64_t give_up);
/* Until so many instructions have been issued.  The parts of the loop (bit: a place >> shift) whose steps had
 * a say: those issued, and those that a warp stood before. */
uint64_t sass_run_stretch(struct run *r, uint64_t issued, uint32_t shift);
/* With the steps as they are now. */
void sass_run_copy(struct run *to, const struct run *from);

#endif
