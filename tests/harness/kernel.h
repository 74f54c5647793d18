/* tests/harness/kernel.h: generated kernels made runnable in this process: text, compiler,
 * packs, scratch.  For tests and benches of the generator; no device, no farm. */
#ifndef KORCH_TEST_KERNEL_H
#define KORCH_TEST_KERNEL_H

#include "generator.h"

typedef void pass_fn(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi);

struct test_kernel {
	struct spec spec;
	struct str schedule;
	struct kernel_code code;
	char symbol[32];
	pass_fn *pass[KERNEL_MAX_PASSES];
	void **buf;           /* operands (packed where the kernel wants them so), then results */
	void **operand;       /* operands as the spec has them: for the interpreter */
	char *shared, *local; /* with a guard behind each */
};

/* For turn N of a random test: now SSE4.2, now the widest that this CPU has, and else AVX2. */
const struct target *kernel_target(uint64_t turn);
/* The spec of a graph in text form; all of its nodes are in it. */
bool kernel_spec(struct arena *a, const char *graph, struct spec *out, struct err *e) MUST_CHECK;
/* Generates code; buffers get seeded values.  `n` numbers the symbol. */
bool kernel_make(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    uint32_t n, struct rng *r, struct test_kernel *out, struct err *e) MUST_CHECK;
/* The text of another generator for the same spec and schedule, over the operands and results of `first`
 * (packed anew where it wants another form), with scratch of its own. */
bool kernel_make_beside(struct arena *a, const struct test_kernel *first, generator_fn *make,
    const struct target *t, uint32_t n, struct test_kernel *out, struct err *e) MUST_CHECK;
/* Compiles them all in one file, loads it, finds the passes. */
bool kernel_compile(
    struct arena *a, struct test_kernel *k, uint32_t n, const struct target *t, struct err *e) MUST_CHECK;
/* With more flags for the compiler, blanks between them, behind those of the generator. */
bool kernel_compile_with(struct arena *a, struct test_kernel *k, uint32_t n, const struct target *t,
    const char *more, struct err *e) MUST_CHECK;
/* Compiles them and no more: for an instruction set that this host may not have. */
bool kernel_builds(struct arena *a, const struct test_kernel *k, uint32_t n, const struct target *t,
    struct err *e) MUST_CHECK;
/* Runs all passes; each range in `parts` slices, as so many threads would have it, last first. */
void kernel_run(const struct test_kernel *k, uint32_t parts);
/* Runs and compares every result with the interpreter; error of each result as its largest
 * difference over its largest magnitude.  Errors: ERR_WRONG naming result and element, also
 * where a guard was written over. */
bool kernel_check(
    struct arena *a, const struct test_kernel *k, uint32_t parts, double rel, struct err *e) MUST_CHECK;
/* The same for each pair of the descriptor, the result on the operand's bytes. */
bool kernel_check_in_place(
    struct arena *a, const struct test_kernel *k, uint32_t parts, double rel, struct err *e) MUST_CHECK;
/* Both halves of kernel_check, for kernels that run elsewhere: the results filled with ones, as not-a-number;
 * the results as they lie there against the interpreter's. */
void kernel_spoil(const struct test_kernel *k);
bool kernel_compare(struct arena *a, const struct test_kernel *k, double rel, struct err *e) MUST_CHECK;
/* Bytes of buffer i (operands as packed, then results), from the first. */
size_t kernel_buf_bytes(const struct test_kernel *k, uint32_t i);
/* The same at `n` sampled elements a result, for kernels too big for the interpreter. */
bool kernel_check_sampled(
    struct arena *a, const struct test_kernel *k, uint32_t n, double rel, struct err *e) MUST_CHECK;

#endif
