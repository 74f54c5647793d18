/* worker/measure_child.h: the measuring child as the files see it that speak to it: measure_parent.c and
 * measure_plans.c alone. */
#ifndef KORCH_MEASURE_CHILD_H
#define KORCH_MEASURE_CHILD_H

#include "measure_int.h"

static const int64_t measure_reference_ns = 120 * (int64_t)1000000000; /* longest wait for the interpreter */

struct measure_child {
	struct measure_opts o;
	char device[64], fake[256], program[4096];
	char scratch[OS_PATH_MAX]; /* the folder that it may write; "": none */
	struct arena arena;        /* of refs */
	struct bytes refs;   /* the class references' module, compiled once; empty: not yet, or none needed */
	pid_t pid;           /* 0: none is running */
	struct pipe pipe;    /* to and from it */
	bool ended;          /* its status has been taken */
	bool has_seen_plans; /* it may read files of a job that is over */
	int status;          /* of the one that ended last */
	uint32_t n_starts;
};

/* `reads`: what it may read beside the libraries, NULL at the end; NULL: nothing. */
bool measure_start(struct measure_child *c, const char *const *reads, struct err *e) MUST_CHECK;
/* Nothing of it is left. */
void measure_reap(struct measure_child *c);
/* One question, one answer of type `want`, in `a`.  What goes wrong ends the child, but where `keeps`: its
 * own word that something failed. */
bool measure_ask(struct measure_child *c, struct arena *a, const struct msg *q, enum msg_type want,
    bool keeps, int64_t limit_ns, struct msg *out, struct err *e) MUST_CHECK;

#endif
