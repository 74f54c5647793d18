/* kernels/base/stage.h: the stages of a job that --dump writes, once: names for the help, files for the
 * planner, and the pass of korch-opt that reads each.
 *
 *   X(name, "file", "pass", "makes", "what it is")
 *     file    in the folder of a dump; one that ends with '/' is a folder of golden files
 *     pass    of korch-opt (tests/opt.def) that reads it
 *     makes   the stage that this pass prints, to be compared; "" for none */
#ifndef KORCH_STAGE_H
#define KORCH_STAGE_H

#include "base.h"

#define STAGES(X)                                                                                            \
	X(model, "model.txt", "fission", "fission", "the operator graph, checked, its open extents bound")   \
	X(fission, "fission.txt", "rewrite", "rewrite", "operators broken into primitives")                  \
	X(rewrite, "rewrite.txt", "identify", "candidates", "the primitive graph with alternatives")         \
	X(candidates, "candidates.txt", "specs", "specs", "every kernel that the program may choose")        \
	X(specs, "specs.txt", "spec", "", "what the candidates compute, each once, in canonical form")       \
	X(costs, "costs.txt", "program", "program", "what is known of each spec: bound, time, failure")      \
	X(program, "program.txt", "orchestrate", "", "the binary program")                                   \
	X(choice, "choice.txt", "choice", "choice", "the kernels that were chosen, and what that is worth")  \
	X(loops, "loops/", "loops", "", "trace and loop program of each chosen kernel")                      \
	X(text, "text/", "emit", "", "the C or CUDA C of each chosen kernel")                                \
	X(plan, "plan.txt", "plan", "plan", "order, memory and evidence: the plan without its bytes")

enum job_stage {
#define STAGE(NAME, FILE, PASS, MAKES, WORDS) STAGE_##NAME,
	STAGES(STAGE)
#undef STAGE
	    STAGE_COUNT
};
/* " model fission ..." for the help */
#define STAGE_IN_HELP(NAME, FILE, PASS, MAKES, WORDS) " " #NAME

struct stage_info {
	const char *name, *file, *pass, *makes, *words;
};
extern const struct stage_info stage_info[STAGE_COUNT];
/* "fission,rewrite" or "all" as bits of enum job_stage; "" for none.  ERR_USAGE lists the stages. */
bool stages_read(struct str words, uint32_t *stages, struct err *e) MUST_CHECK;

#endif
