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
/* The contract's object on stdout; or as text. */
void job_result_json(const struct job_result *r);
void job_result_add(struct strbuf *sb, const struct job_result *r);
/* "input 'x': batch=1 (give --shape batch=N)": a line for each extent that was taken as --open-extents says.
 */
void job_result_assumed(FILE *to, const char *program, const struct m_progress *p);

#endif
