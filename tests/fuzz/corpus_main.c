/* A fuzz target without libFuzzer: nothing at all, then each seed given, through the target once.
 *
 * Every build makes every target so, and a seed that was a find stays one where there is no clang. */
#include "../../kernels/base/base.h"

#include <limits.h>
#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak)); /* some have one */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct err e = {0};

	if (LLVMFuzzerInitialize)
		(void)LLVMFuzzerInitialize(&argc, &argv);
	(void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		struct bytes b;
		if (!os_read_file(os_real(), &a, argv[i], INT_MAX, &b, &e)) {
			(void)fprintf(stderr, "%s\n", e.msg);
			return 1;
		}
		(void)LLVMFuzzerTestOneInput(b.p, b.n);
	}
	arena_fini(&a);
	return 0;
}
