/* tests/harness/code_figures.h: what the machine code of a pass says about it: registers, what its hot loop
 * is made of, its bound and its price; for tests and for the bench that prints them. */
#ifndef KORCH_TEST_CODE_FIGURES_H
#define KORCH_TEST_CODE_FIGURES_H

#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/price.h"

struct code_figures {
	uint32_t registers, threads, blocks;          /* of a thread; of a block; on a multiprocessor */
	uint32_t n_loop, n_mma, n_fma;                /* instructions of the hot loop; 0: it has none */
	uint32_t copy_bytes, load_bytes;              /* narrowest LDGSTS, LDG of a lane in it; 0: none */
	uint32_t word_bytes;                          /* narrowest LDS */
	uint32_t n_ldsm, n_cvt, n_call, n_stl, n_bar; /* cvt: F2F */
	double per_mma; /* instructions of the loop to one on tensor cores, else to one FFMA; 0: neither */
	double bound, model; /* fractions of the peak of tensor cores, else of FMA units; 0: no such work */
	double cycles;       /* of an iteration */
	enum sass_unit unit; /* that the bound is of */
	double loop_us;      /* processor time for pricing it once */
	double kernel_us;    /* for pricing the whole kernel once */
	struct sass_load load;
	const struct sass_loop *loop;
};
/* threads 0: what the cubin was compiled for.  `conflict`: LDS, LDSM, STS, LDGSTS.  ERR_FORMAT. */
bool code_figures(struct arena *a, struct bytes cubin, const struct cubin_kernel *c, int sm, uint32_t threads,
    uint32_t dynamic_bytes, const double conflict[4], struct code_figures *out, struct err *e) MUST_CHECK;

#endif
