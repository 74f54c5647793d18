/* tests/harness/gold.h: the kernels of tests/golden/sass: what each is made of, its cubin as it lies there,
 * and made again by this host's NVRTC. */
#ifndef KORCH_TEST_GOLD_H
#define KORCH_TEST_GOLD_H

#include "../../kernels/generate/generate.h"
#include "../../kernels/device/gpu.h"

enum { GOLD_KERNELS = 96 };
struct gold {
	const char *name;   /* "gemm_f16" */
	const char *arch;   /* "90a" */
	int sm;             /* 90 */
	const char *from;   /* FROM.graph of the generator's, or FROM.cu */
	bool is_text;       /* FROM.cu */
	bool is_old;        /* today's generator makes no such kernel: its cubin is all that there is */
	const char *define; /* of a text: "V3,WARPS=4"; "": none */
	const char *schedule;
	enum precision precision;
	uint32_t dynamic_bytes; /* shared memory that the launch asks for */
	double conflict[4];     /* times that words of shared memory take longer: LDS, LDSM, STS, LDGSTS */
};
/* The rows of tests/golden/sass/kernels.txt, one a kernel and architecture; how many. */
uint32_t gold_list(struct arena *a, struct gold *out);
const char *gold_file(struct arena *a, const struct gold *k); /* "gemm_f16_sm80.cubin" */
struct bytes gold_cubin(struct arena *a, const struct gold *k);
/* Spec, text and launches of a generated one; ERR_USAGE: it is CUDA C, or of before. */
bool gold_code(struct arena *a, const struct gold *k, struct spec *spec, struct kernel_code *code,
    struct err *e) MUST_CHECK;
/* By NVRTC; ERR_HOST: there is none here that makes code for it. */
bool gold_compile(
    struct arena *a, struct gpu *g, const struct gold *k, struct bytes *out, struct err *e) MUST_CHECK;

#endif
