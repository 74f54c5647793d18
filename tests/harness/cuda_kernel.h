/* tests/harness/cuda_kernel.h: many specs as CUDA kernels, run through the host shim in four orders
 * of threads and compared with the interpreter. */
#ifndef KORCH_TEST_CUDA_KERNEL_H
#define KORCH_TEST_CUDA_KERNEL_H

#include "cuda_host.h"
#include "generator.h"

struct cuda_case {
	struct spec spec;
	generator_fn *make; /* NULL: generate_kernel */
	const char *schedule;
	uint64_t seed; /* of its inputs */
	double by;     /* times the tolerance of float32; 0: 1 */
	struct kernel_code code;
	bool refused;
	struct str refusal;
};
/* The spec of a graph's text; aborts where that is none. */
void cuda_case_read(struct arena *a, struct cuda_case *c, const char *text);
/* Generates code under the symbol k<number>; false: an error other than "infeasible". */
void cuda_case_make(struct arena *a, struct cuda_case *c, const struct target *t, uint32_t number);
/* Compiles and runs those that were not refused; returns how many are wrong, having said which. */
uint32_t cuda_cases_check(struct arena *a, struct cuda_case *list, uint32_t n);

#endif
