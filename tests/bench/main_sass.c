/* tests/bench/main_sass.c: machine code of GPU kernels judged without a GPU.
 *
 *   bench-sass --make=DIR [NAME...]    the golden cubins by this host's NVRTC (tests/golden/sass/make.sh) */
#include "../harness/gold.h"

#include <stdio.h>
#include <string.h>

static bool
is_named(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc <= 2;
}

/* What there is no NVRTC for is said and left as it lies there. */
static bool
make(const char *folder, int argc, char **argv)
{
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(&a, list);
	struct gpu gpu;
	bool ok = true;

	gpu_open(&gpu);
	for (uint32_t i = 0; i < n; i++) {
		struct bytes cubin;
		struct err e = {0};
		const char *path = arena_printf(&a, "%s/%s", folder, gold_file(&a, &list[i]));

		if (!is_named(list[i].name, argc, argv))
			continue;
		if (!gold_compile(&a, &gpu, &list[i], &cubin, &e) ||
		    !os_write_file(os_real(), path, cubin, &e)) {
			fprintf(stderr, "bench-sass: %s: %s\n", gold_file(&a, &list[i]), e.msg);
			ok = false;
			continue;
		}
		printf("%s: %zu bytes\n", path, cubin.n);
	}
	gpu_close(&gpu);
	arena_fini(&a);
	return ok;
}

int
main(int argc, char **argv)
{
	if (argc >= 2 && strncmp(argv[1], "--make=", 7) == 0)
		return make(argv[1] + 7, argc, argv) ? 0 : 1;
	fprintf(stderr, "usage: bench-sass --make=DIR [NAME...]\n");
	return 2;
}
