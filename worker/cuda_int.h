/* worker/cuda_int.h: the GPU's device from inside: cuda.c (measuring, opening), cuda_make.c (from tasks to
 * cubins) and cuda_order.c (which is timed first).  For these alone. */
#ifndef KORCH_WORKER_CUDA_INT_H
#define KORCH_WORKER_CUDA_INT_H

#include "../kernels/device/gpu_fake.h"
#include "../kernels/sass/cubin.h"
#include "gpu_child.h"
#include "gpu_keep.h"
#include "unit.h"

enum { CUDA_COMPILERS = 8 };

struct cuda {
	struct device *device;
	const struct device_conf *conf;
	const char *fake; /* settings of the fake driver; "": the real one */
	int number;
	const char *device_words;
	struct gpu gpu; /* without a context: contexts are the children's */
	struct gpu_facts facts;
	struct dev_info info;
	struct calibration cal;
	struct bytes refs; /* the module of the reference kernels */
	struct gpu_kernel ref[GPU_REFS];
	struct gpu_keep keep;        /* the physical GPU, its lock, and the child that is kept for it */
	struct measure_child *child; /* between cuda_take and cuda_leave */
	struct measure_child *compiler[CUDA_COMPILERS];
	int64_t kernel_ns;
	bool is_suspect; /* something broke: to be proved before the next task */
	bool is_spent;   /* since cuda_take: the child is not to be used again */
};
struct cuda_made { /* what became of a kernel */
	struct bytes cubin;
	uint64_t hash; /* of the cubin and of how it is launched */
	int64_t compile_ns;
	struct err err;
};
/* Fills `made`; what does not compile, spills or does not fit leaves with its row. */
void cuda_compile_all(struct cuda *c, struct arena *a, struct unit *units, uint32_t n);
/* Of kernels that are the same machine code, launched alike, the first stays; the others leave with a row
 * that names it. */
void cuda_drop_same(struct arena *a, struct unit *u);
/* Puts what compiled into the order of what is expected of it, with a bound for each, by what the cubins say
 * (cuda_order.c). */
void cuda_order_all(const struct cuda *c, struct arena *a, struct unit *units, uint32_t n);
/* What bounds count on: the data sheet's rate of the tensor cores, at float16 also what was seen beyond it.
 */
double cuda_tensor_flops(const struct cuda *c, bool is_half);
/* `state` and " regs=168,32 blocks=2,16": registers of a thread and blocks on an SM of each pass, by the
 * cubin; of a library's kernel nothing more. */
struct str cuda_figures(
    const struct cuda *c, struct arena *a, const struct unit *u, uint32_t kernel, struct str state);
/* How a pass of a kernel is launched here, its cubin at hand. */
struct gpu_pass cuda_pass_of(
    const struct cuda *c, const struct launch *l, const struct cubin *cubin, uint32_t pass);
/* All kernels and the reference kernels. */
struct bytes cuda_module(const struct cuda *c, struct arena *a, const struct unit *units, uint32_t n);
/* Better orders of a kernel's instructions (cuda_perturb.c). */
bool cuda_perturb(void *self, struct arena *a, const struct m_task *task, const struct m_perturb_ask *ask,
    struct m_outcome *out, struct err *e);
/* A kernel was compiled from its schedule's base: what moves the schedule has are done in its cubin, each
 * proved legal again.  False: they do not fit it, `made` says why, and has no cubin. */
bool cuda_do_moves(struct arena *a, struct str schedule, struct cuda_made *made);
/* In its own cubin every kernel is called "k", so that equal text is an equal cubin; its moves, if any, are
 * of the cubin and not of the text. */
bool cuda_emit(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e);
/* What is the machine's fault and not the kernel's: such a row is no result of the task. */
bool cuda_is_machine(enum err_code fail);
bool cuda_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e);
/* The GPU is ours, with a child on it.  Left behind, the child is kept for the next one, unless is_spent. */
bool cuda_take(struct cuda *c, struct err *e) MUST_CHECK;
void cuda_leave(struct cuda *c);
/* The module of the first n of them. */
bool cuda_refs_build(struct cuda *c, struct arena *a, uint32_t n, struct err *e) MUST_CHECK;
void cuda_compilers_close(struct cuda *c);

#endif
