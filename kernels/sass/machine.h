/* kernels/sass/machine.h: machine code executed without a GPU, as far as its dataflow goes: integers,
 * addresses, predicates, copies, barriers and control flow are computed; floats are a hash of operation and
 * operands, so that equal traces mean equal dataflow.  Timing is judged beside it: what is read or
 * overwritten before the control bits let it be ready, on any path, is a hazard, and its result is poison. */
#ifndef KORCH_MACHINE_H
#define KORCH_MACHINE_H

#include "sass.h"

/* ---- hazards (machine_hazard.c): of the code alone, over all paths; nothing is executed -------------- */
enum machine_hazard_kind {
	MACHINE_READS_EARLY,    /* a fixed latency is not over, or its barrier has not been waited for */
	MACHINE_OVERWRITES,     /* an earlier instruction still has to read it */
	MACHINE_WRITES_EARLY,   /* an earlier, slower instruction still has to write it */
	MACHINE_WAITS_TOO_SOON, /* for a barrier that was set less than two cycles ago */
	MACHINE_NOT_JUDGED,     /* the kernel is too large, or its paths too tangled */
};
struct machine_hazard {
	uint32_t at; /* the instruction that is too early */
	uint32_t of; /* the one that it is too early for; UINT32_MAX: not known, on another path */
	enum machine_hazard_kind kind;
	char file; /* 'R', 'U', 'P', 'Q' (UP) */
	uint8_t reg;
};
struct machine_hazards {
	uint32_t n; /* of instructions with one */
	struct machine_hazard first;
	uint8_t *poisoned; /* of each instruction of the kernel: 1: what it writes is poison */
};
/* In the arena. */
void machine_hazards(struct arena *a, const struct sass_kernel *k, struct machine_hazards *out);
void machine_hazard_text(const struct sass_kernel *k, const struct machine_hazard *h, char out[160]);
/* The same kept, for code that is edited in place: a block anew, which says whether those behind it see
 * nothing of the change; all blocks anew. */
struct machine_flow;
struct machine_flow *machine_flow(struct arena *a, const struct sass_kernel *k);
bool machine_flow_block(struct machine_flow *f, uint32_t block);
void machine_flow_again(struct machine_flow *f);
uint32_t machine_flow_hazards(const struct machine_flow *f, struct machine_hazard *first);
/* Does this machine code read or overwrite anything too early?  `why` names the instruction; a cubin that
 * cannot be read is a hazard too, with ERR_FORMAT. */
bool machine_hazard(struct arena *a, struct bytes cubin, const char *kernel, struct err *why);

/* ---- execution ------------------------------------------------------------------------------- */
struct machine_input {
	uint64_t seed;         /* of memory that nobody wrote, and of special registers without a meaning */
	const uint32_t *param; /* words of the constant bank from its parameters on; further ones are 0 */
	uint32_t n_param;
	uint32_t block[3], grid[3], threads[3];
	uint32_t warp[4]; /* the warps of the block that are run; others are not there, their data hashes */
	uint32_t n_warps;
	uint32_t turns;       /* how often a warp takes each backward branch; then it ends there, */
	bool leaves_loops;    /* or goes on behind it: what comes behind long loops is reached, though not as
	                         meant */
	uint64_t loaded_mask; /* bits that words of unwritten global memory may have; 0: all */
	/* What is stored to global memory, a word at a time; NULL: nobody asks. */
	void (*stored)(void *self, uint64_t at, uint32_t value);
	void *self;
};
enum machine_end {
	MACHINE_ENDED,   /* all warps exited */
	MACHINE_CUT,     /* at the limit of turns or of memory */
	MACHINE_UNKNOWN, /* an opcode, or a form of one, that has no meaning here */
};
struct machine_trace {
	enum machine_end end;
	uint32_t at;      /* of MACHINE_UNKNOWN: the instruction */
	const char *why;  /* a word for it; NULL */
	uint64_t steps;   /* instructions of warps */
	uint64_t digest;  /* of stores and their values, addresses of loads, by thread and barrier interval */
	uint64_t memory;  /* of what is in global and shared memory at the end */
	uint32_t races;   /* shared bytes read or written while another warp or a copy on its way has them */
	uint32_t race_at; /* the first such instruction */
	uint32_t visited; /* instructions that were executed at least once */
};
/* `hazards` NULL: nothing is poison. */
void machine_run(struct arena *a, const struct sass_kernel *k, const struct machine_hazards *hazards,
    const struct machine_input *in, struct machine_trace *out);
bool machine_trace_equal(const struct machine_trace *a, const struct machine_trace *b);
/* Input number `n` of a kernel: random, and every fourth with extreme parameters. */
void machine_input_make(struct arena *a, uint64_t n, struct machine_input *out);

#endif
