/* tests/fault/probe.c: tries what probe.def lists, from inside a jail; the tries stand in probe_files.c,
 * probe_kernel.c, probe_process.c and probe_others.c.  Compiled by the test, with the paths and numbers of
 * what it is to try: as a module of kernels (-DAS_KERNELS): a kernel for each, right where it was allowed; as
 * a program in place of the compiler: tries all, each in a process, and writes what was allowed as its
 * output; as a program in place of the planner: tries what its model's name says, in itself. Without a jail
 * it tries nothing, and says that all was allowed. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Outside of any jail nothing is tried: all of it would work, and some of it on the whole machine. */
static long
try(long (*what)(void))
{
	return getenv("KORCH_JAIL") ? what() : 0;
}

#ifdef AS_KERNELS
#define PROBE(ID, WORDS, C, M, P)                                                                            \
	void ID##_p0(void *const *b, char *s, char *l, int64_t lo, int64_t hi);                              \
	void ID##_p0(void *const *b, char *s, char *l, int64_t lo, int64_t hi)                               \
	{                                                                                                    \
		const float *x = b[0];                                                                       \
		float *y = b[1];                                                                             \
		long rc = try(try_##ID);                                                                     \
		(void)s, (void)l;                                                                            \
		for (int64_t i = lo; i < hi; i++)                                                            \
			y[i] = rc < 0 ? -1 : x[i] > 0 ? x[i] : 0;                                            \
	}
#define DENIED(ID, WORDS) PROBE(ID, WORDS, "", "", "")
DENIED(sweep, "")
#include "probe.def"
#else
static const struct {
	const char *name;
	long (*run)(void);
} tries[] = {
#define PROBE(ID, WORDS, C, M, P) {#ID, try_##ID},
#define DENIED(ID, WORDS) {#ID, try_##ID},
#include "probe.def"
    {"sweep", try_sweep},
};
enum { N = sizeof(tries) / sizeof(tries[0]) };

/* In place of gcc: a line for each that was allowed, as the object. */
static int
as_compiler(int argc, char **argv)
{
	const char *out = NULL;
	FILE *f;

	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "-o") == 0)
			out = argv[i + 1];
	if (!out) { /* its version is asked for */
		(void)puts("probe 1");
		return 0;
	}
	f = fopen(out, "w");
	for (int i = 0; f && i < N; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			long rc = try(tries[i].run);

			if (rc < 0)
				(void)fprintf(stderr, "%s: %s\n", tries[i].name, strerror(errno));
			_exit(rc < 0 ? 1 : 0);
		}
		(void)waitpid(pid, &status, 0);
		if (pid < 0)
			return 1;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			(void)fprintf(f, "%s\n", tries[i].name);
	}
	return f && fprintf(f, "whole\n") > 0 && fclose(f) == 0 ? 0 : 1;
}

/* In place of the planner: the model is called by the number of what to try. */
static int
as_planner(void)
{
	DIR *d = opendir(probe_scratch("../model"));
	struct dirent *e;
	int at = -1;

	while (d && (e = readdir(d)) != NULL)
		if (e->d_name[0] == 'p' && sscanf(e->d_name, "p%d.onnx", &at) == 1)
			break;
	if (at < 0 || at >= N)
		return 9;
	(void)dprintf(2, "%s\n", try(tries[at].run) < 0 ? "probe denied" : "probe allowed");
	return 8;
}

int
main(int argc, char **argv)
{
	return argc > 1 ? as_compiler(argc, argv) : as_planner();
}
#endif
