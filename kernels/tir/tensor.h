/* kernels/tir/tensor.h: instructions that compute a small nest of loops: what each computes (tensor.def), and
 * whether a nest is that. */
#ifndef KORCH_TENSOR_H
#define KORCH_TENSOR_H

#include "tir.h"

struct tensor_of { /* a result or operand */
	enum dtype type;
	const char *at;  /* its iterators, a letter each: of the buffer's last dimensions */
	uint32_t scopes; /* a bit each */
};
enum { TENSOR_OFS = 3 };
struct tensor_row {
	enum comb comb;
	enum tir_bind team;              /* serial: a thread's; warp: all lanes of one come to it together */
	const char *iters;               /* "i16 j8 k16" */
	struct tensor_of of[TENSOR_OFS]; /* what is joined, and the factors of what it is joined with */
};
const struct tensor_row *tensor_row_of(uint32_t intrin); /* NULL: none */
int64_t tensor_extent(const struct tensor_row *t, char iter);
uint32_t tensor_arg(
    const struct tensor_row *t, uint32_t of); /* its place in a call; two iterators: a stride behind */
/* How far element i, j of a matrix is from its first one; rows of -N: four elements of 16 x 8 in each lane of
 * a warp, of a block of N threads. */
int64_t tensor_element(int64_t i, int64_t j, int64_t row);
/* Is the nest what the instruction computes?  Then arg (TENSOR_ARGS) are the call's.  false: *rule, *why. */
enum { TENSOR_ARGS = 2 * TENSOR_OFS };
bool tensor_match(
    const struct tir *p, st_id loop, enum intrin what, ex_id *arg, const char **rule, const char **why);
/* Are all loops bound `call` what their instructions compute?  ERR_FAILED. */
bool tensors_match(const struct tir *p, struct err *e) MUST_CHECK;

#endif
