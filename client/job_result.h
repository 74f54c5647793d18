/* client/job_result.h: the end of a job that is done, for a person or a program. */
#ifndef KORCH_JOB_RESULT_H
#define KORCH_JOB_RESULT_H

#include "../kernels/base/opt.h"
#include "../proto/msg.h"

#include <stdio.h>

struct job_result {
	const char *model;
	const char *plan;    /* its file; "": none was written */
	const char *subject; /* that in words, to begin a sentence with */
	const char *next;    /* what to type now to run the plan, or to get it; "": there is nothing */
	const struct m_progress *progress;
};
/* A few lines, the last for who reads but one: the plan's time, what it beats, what to type. */
void job_result_words(FILE *to, const struct job_result *r);
/* The contract's object on stdout. */
void job_result_json(const struct job_result *r);

#endif
