/* worker/check_ahead.h: what several specs should compute, found side by side before any of their kernels
 * runs: the interpreter has one core for a spec, and the others would stand idle.  For korch-measure alone.
 */
#ifndef KORCH_CHECK_AHEAD_H
#define KORCH_CHECK_AHEAD_H

#include "measure_int.h"

#include <sched.h>

struct check_ready {             /* one spec's */
	const struct spec *spec; /* NULL: none is wanted */
	struct check_opts opts;
	struct check *check; /* NULL: `why` says */
	struct err why;
};
/* How many of them, from the first on, may be open at a time in so many bytes: 1 at the least. */
uint32_t check_ahead_fits(const struct check_ready *list, uint32_t n, size_t most_bytes);
/* Opens all; whoever calls may be pinned to one core, `cores` are those of the process. */
void check_ahead(struct check_ready *list, uint32_t n, const cpu_set_t *cores);

#endif
