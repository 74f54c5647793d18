/* daemon/train/net_blas.c: OpenBLAS for the network's products, where it was there at the build.  Only what
 * trains is linked with it: it starts threads of its own in every program that loads it. */
#include "net_fit.h"

#ifdef KORCH_OPENBLAS
#include <cblas.h>

static void
by_blas(enum net_turn turn_a, enum net_turn turn_b, uint32_t m, uint32_t n, uint32_t k, const float *a,
    const float *b, bool add, float *c)
{
	openblas_set_num_threads(1); /* sums in another order are other sums */
	cblas_sgemm(CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans, turn_b ? CblasTrans : CblasNoTrans,
	    (int)m, (int)n, (int)k, 1, a, (int)(turn_a ? m : k), b, (int)(turn_b ? k : n), add ? 1 : 0, c,
	    (int)n);
}

net_multiply *const train_multiply = by_blas;
#else
net_multiply *const train_multiply = net_product;
#endif
