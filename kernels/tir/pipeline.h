/* kernels/tir/pipeline.h: loops bound `pipeline`: which statements of the body make what the others read, and
 * depend on nothing that the loop stores, so that they may run some iterations ahead. */
#ifndef KORCH_PIPELINE_H
#define KORCH_PIPELINE_H

#include "tir.h"

struct pipeline {
	bool *staged; /* of each buffer: made ahead; each iteration's own, so it has a version for each under
	                 way */
	st_id rest;   /* statements of the body from here on stay; before it are allocs, barriers, and what is
	                 ahead */
	bool waits;   /* threads of a GPU's block share what is made */
};
/* false: *rule, *why.  Lives in the program's arena. */
bool pipeline_find(
    const struct tir *p, st_id loop, struct pipeline *out, const char **rule, const char **why);
/* Does that hold for all loops bound so?  ERR_FAILED. */
bool pipelines_hold(const struct tir *p, struct err *e) MUST_CHECK;

#endif
