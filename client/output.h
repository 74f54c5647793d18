/* client/output.h: what -o means to all programs; where a file goes is kernels/base/out.h. */
#ifndef KORCH_OUTPUT_H
#define KORCH_OUTPUT_H

#include "../kernels/base/opt.h"

#include <stdio.h>

/* Before the work: can it go there, and does --json not want stdout too?  The error begins with -o. */
bool output_check(const struct opts *o, const char *path, struct err *e) MUST_CHECK;
/* Where words about a result go: stdout, or stderr where the result itself goes to stdout. */
FILE *output_words(const char *path);
/* "dir/model.onnx" -> "model.korch", in the current folder. */
char *output_of_model(struct arena *a, const char *model);
/* "model.korch", or quoted so that a shell takes it as one word and no program as an option. */
char *output_shell(struct arena *a, const char *path);
/* How to call another of the programs: as this one was called, by its name or by its path. */
char *output_program(struct arena *a, const char *name);

#endif
