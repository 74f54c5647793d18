/* kernels/generate/generate.h: a spec and a schedule become C, or CUDA C for a GPU, by way of the loop
 * program. */
#ifndef KORCH_GENERATE_H
#define KORCH_GENERATE_H

#include "../artefact/artefact.h"
#include "../codegen/codegen.h"
#include "../space/space.h"

/* A kernel as text, and what its machine code will be described by. */
struct kernel_code {
	struct str text;   /* needs the prelude once per file */
	size_t head_bytes; /* of the text: the comment that names the schedule */
	struct descriptor desc;
	struct pass_work work[KERNEL_MAX_PASSES]; /* of a GPU */
};
/* The kernel that a schedule makes, for a CPU or a GPU as the target says.  Of a GPU, pass I is
 * `SYMBOL_pI(buf, shared, local, lo, hi)` with launch[I]; buf is an array of device pointers in device
 * memory, `local` has local_bytes for each block of the grid, lo = 0 and hi = range[I] (what a block does,
 * shared out over any grid in one dimension).  ERR_INFEASIBLE: no kernel, or the schedule does not fit the
 * spec. */
bool generate_kernel(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e) MUST_CHECK;
/* The same of any spec by a trace (kernels/schedule), "" what the rules propose.  No
 * result lies on an operand.  ERR_INFEASIBLE: a step that is refused, or what codegen_run refuses. */
bool generate_by_trace(struct arena *a, const struct spec *s, struct str trace, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e) MUST_CHECK;
/* The loop program that is printed so: FLAT, behind all passes of kernels/codegen.  Where no trace is given
 * (""), by what the rules propose who hear `chosen`.  ERR_INFEASIBLE: the same, and a choice that no rule can
 * follow: it would be another schedule's kernel. */
bool generate_loop_program(struct arena *a, const struct spec *s, struct str trace,
    const struct choices *chosen, const struct target *t, struct tir *out, struct err *e) MUST_CHECK;
/* A name that no text holds otherwise, to generate under: what a kernel is called is put in later. */
#define KERNEL_STAND_IN "korch_kernel"
struct str kernel_called(struct arena *a, struct str text, struct str name);
/* The kernel as a number, how it is started and fed included, its symbol and the head of its text not. */
uint64_t kernel_code_hash(const struct kernel_code *k);
/* A space_outcome (kernels/space): a GPU's kernels, which not every trace has a text for, are told by that.
 */
bool text_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out);
/* The text of a kernel, then its passes and sizes as comments: for dumps and golden files. */
void kernel_code_print(struct strbuf *sb, const struct kernel_code *k, const struct target *t);
/* What CUDA text stands on.  For the host: the shim that runs the same text in C, a coroutine a
 * thread; its kk_run (prelude_host.inc) starts a pass. */
struct str prelude_cuda(struct arena *a, bool for_host);
/* Declarations and scalar helpers that generated C needs; no #include in it. */
struct str prelude_c(struct arena *a, const struct target *t);
/* As how many files n kernels are compiled, 1 to `most`, so that each of n_hands compilers has work as long
 * as another has. */
enum { GENERATE_FILE_KERNELS = 12 };
uint32_t generate_n_files(uint32_t n, uint32_t n_hands, uint32_t most);
/* The kernels of one object as n_files texts for compile_files, each with the prelude, which costs little;
 * file_of: of each kernel, NULL where nobody asks. */
void generate_c_files(struct arena *a, const struct target *t, const struct kernel_code *const *codes,
    uint32_t n, uint32_t n_files, struct str **texts, const uint32_t **file_of);
/* The compiler's arguments that belong to the generated text (facts/cpu.md section 2). */
const char *const *generate_c_flags(const struct target *t);

#endif
