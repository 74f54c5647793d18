/* worker/objects.h: machine code of kernels that were compiled here, kept by their text: what was measured is
 * linked into races and plans as it was timed, and nothing is compiled twice.  In memory, a limit's worth.
 * Kernels are generated as KERNEL_STAND_IN, so that one has the same text whatever it is called. */
#ifndef KORCH_WORKER_OBJECTS_H
#define KORCH_WORKER_OBJECTS_H

#include "../kernels/generate/generate.h"

#include <stdatomic.h>

struct objects;
/* most_bytes: of machine code; what was used longest ago gives way. */
struct objects *objects_new(size_t most_bytes);
void objects_free(struct objects *o);

struct objects_want {
	const struct target *target;
	const struct kernel_code *const *codes;
	const char *const *symbols; /* what each is to be called in what is linked */
	uint32_t n;
	const atomic_bool *cancel;
};
/* Compiles, side by side, what is not there; *each_ns: about what a compiler took for each of that, 0 where
 * all is there.  Errors: those of compile_files. */
bool objects_make(
    struct objects *o, const struct objects_want *want, int64_t *each_ns, struct err *e) MUST_CHECK;
/* The same, then one shared object of all, with what libraries compute left out. */
bool objects_link(struct objects *o, struct arena *a, const struct objects_want *want, struct bytes *out,
    struct err *e) MUST_CHECK;

#endif
