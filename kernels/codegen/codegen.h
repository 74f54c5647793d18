/* kernels/codegen/codegen.h: from a FLAT loop program (kernels/tir) to C, or CUDA C: passes, loop program to
 * loop program, and printers that decide nothing. */
#ifndef KORCH_CODEGEN_H
#define KORCH_CODEGEN_H

#include "../artefact/artefact.h"
#include "../tir/tir.h"

enum codegen_pass {
#define PASS(N, WHERE, WORDS) CODEGEN_##N,
#include "pass.def"
#undef PASS
	CODEGEN_PASSES
};
const char *codegen_pass_name(enum codegen_pass pass);
/* One pass alone. */
void codegen_pass(enum codegen_pass pass, const struct tir *p, struct tir *out);
/* Told of the program behind each pass; false ends codegen_run with e. */
struct codegen_watch {
	bool (*after)(void *self, const char *pass, const struct tir *p, struct err *e);
	void *self;
};
/* All passes in their order; the result is what codegen_c prints, or codegen_cuda where a loop is of a GPU.
 * Debug builds verify between them. ERR_INFEASIBLE: a form of buffer or statement that no printer takes yet.
 */
bool codegen_run(
    const struct tir *flat, const struct codegen_watch *w, struct tir *out, struct err *e) MUST_CHECK;

/* Kernel ABI (kernels/generate/generate.h): pass I is `SYMBOL_pI(buf, shared, local, lo, hi)` over [lo, hi)
 * of its range.  A pass is an outermost loop bound `parallel`, which is its range, or all statements up to
 * the next such loop, with a range of one. */
enum { CODEGEN_MOST_PASSES = 16 };
/* What a GPU's block does in a step of its range.  0: there is no product.  (work.c) */
struct pass_work {
	double multiply_adds; /* of products, borders and what is behind them included */
	double slots, bytes;  /* what is known without machine code: instructions that a warp issues, about;
	                         bytes that the block copies to shared memory */
};
/* The statements of a pass from i on: a loop that is its range, or all that stands until the next one. */
st_id end_of_pass(const struct tir *p, st_id i);
struct codegen_kernel {
	struct str text; /* stands on kernels/generate's prelude */
	uint32_t n_passes;
	int64_t range[CODEGEN_MOST_PASSES];
	uint32_t grid[CODEGEN_MOST_PASSES], threads[CODEGEN_MOST_PASSES]; /* CUDA: blocks; of a block */
	struct pass_work work[CODEGEN_MOST_PASSES];                       /* CUDA */
	size_t shared_bytes, local_bytes;
	struct overlap *overlaps; /* results that may lie on an operand's bytes */
	uint32_t n_overlaps;
	struct pack *packs; /* of the operands that are not read as they come */
	uint32_t n_packs;
};
/* How a program's text is. */
struct codegen_form {
	uint32_t lanes;     /* floats in a register; 0: loops in place of vectors */
	uint32_t registers; /* of vectors; 0: nothing is done for there being few */
	bool indices;       /* each is written out, where addresses that a body shares have a name else */
};
/* n_operands: of the spec; its results stand behind them in `buf`. */
bool codegen_c(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    const struct codegen_form *form, struct codegen_kernel *out, struct err *e) MUST_CHECK;
/* The same as CUDA C; a pass's range is that of its blocks. */
bool codegen_cuda(struct arena *a, const struct tir *p, uint32_t n_operands, const char *symbol,
    struct codegen_kernel *out, struct err *e) MUST_CHECK;

#endif
