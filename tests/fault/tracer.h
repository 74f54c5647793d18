/* tests/fault/tracer.h: a command and all that it starts, each of their system calls seen before the kernel
 * does it. */
#ifndef KORCH_TEST_TRACER_H
#define KORCH_TEST_TRACER_H

#include "../../kernels/base/base.h"

#include <sys/types.h>

struct traced { /* a thread under way */
	pid_t tid;
	char program[64]; /* the last part of its file's name */
	int jail;         /* the enum jail that korch-jail made for it; -1: none */
	bool is_inside;   /* korch-jail has started its program */
};
struct tracer_calls {
	void (*call)(void *self, const struct traced *t, uint32_t number, const uint64_t args[6]);
	void *self;
};
/* Runs argv to its end, then ends what it has left behind.  False where nobody may trace here (errno). */
bool tracer_run(char *const *argv, const struct tracer_calls *calls, int *status);
/* A string of the thread's memory; "" where it has none there. */
void tracer_text(const struct traced *t, uint64_t at, char *out, size_t cap);

#endif
