/* tests/prop/trial.h: generated kernels tried out: compiled in batches, run with guard zones around every
 * buffer, once whole, once with their ranges in odd pieces, in a shuffled order, with scratch full of
 * rubbish, and so again with results on the bytes of operands where the kernel says that it may be: the
 * results must be the same bytes, and agree with the interpreter's. */
#ifndef KORCH_TEST_TRIAL_H
#define KORCH_TEST_TRIAL_H

#include "../../kernels/generate/generate.h"

enum { TRIAL_BATCH = 40 };

struct trial {
	struct spec spec;
	struct kernel_code code;
	uint64_t seed;
	bool infeasible;
	const char *schedule;
	uint32_t n_overlapped; /* results that were made on an operand's bytes */
};
struct trial_run {
	struct trial *o;
	void *lib;
	char symbol[32];
	void **buf;
	char **operand, **result, *shared, *local;
	const void **in;
};

/* Generates trial `number` of a batch; anything but ERR_INFEASIBLE is a bug. */
void trial_make(struct arena *a, struct trial *o, uint32_t number, const struct target *t);
/* Compiles, runs and compares them all; what is wrong is told on stderr and counted. */
uint32_t trials_check(struct arena *a, struct trial *list, uint32_t n, const struct target *t);
void trial_say(const struct trial *o, const char *what);

/* ---- the steps of it, for tests that run kernels by themselves ---- */
/* dir/k.c and dir/k.so, loaded; NULL: it does not compile, and was said. */
void *trials_compile(
    const char *dir, struct arena *a, struct trial *list, uint32_t n, const struct target *t);
/* n bytes of rubbish between guard zones; NULL may be freed as well. */
char *trial_memory(size_t n);
void trial_free(void *p);
size_t trial_bytes(const struct tensor *t);
/* Operand i of the spec as the kernel wants it, packed or not: n bytes of memory at *base. */
void *trial_operand(const struct trial *o, uint32_t i, const void *dense, char **base, size_t *n);
/* All passes, each whole (pieces NULL) or in pieces, the last one first. */
void trial_run_all(const struct trial_run *r, struct rng *pieces);

#endif
