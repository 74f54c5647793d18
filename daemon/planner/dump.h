/* daemon/planner/dump.h: what the stages of a job made, as files: --dump.  Each is the text that korch-opt
 * reads (kernels/base/stage.h), behind comments that say what it is and which command reads it.  A stage
 * is written as soon as it is there, so that a job that fails leaves those before. */
#ifndef KORCH_DUMP_H
#define KORCH_DUMP_H

#include "../../kernels/base/base.h"
#include "../../kernels/base/stage.h"

struct dump {
	uint32_t stages; /* bits of enum job_stage; none: nothing is written */
	const char *dir; /* where; made with the first file */
	const char *model;
	const struct os *os;
};
const char *dump_dir(struct arena *a, const char *work_dir);
static inline bool
dump_wants(const struct dump *d, enum job_stage s)
{
	return d->stages >> s & 1;
}
/* args: of the pass that reads it, before the file's name ("--alternatives "). */
bool dump_put(
    const struct dump *d, enum job_stage s, const char *args, struct str text, struct err *e) MUST_CHECK;
/* One golden file of a stage that is a folder: input, command and what it prints.  what: a line about it. */
struct dump_case {
	const char *name, *what, *args;
	struct str input, output;
};
bool dump_put_case(
    const struct dump *d, enum job_stage s, const struct dump_case *c, struct err *e) MUST_CHECK;

#endif
