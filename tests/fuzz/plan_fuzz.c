/* Plan files: whatever is accepted is consistent, whatever is not is refused with one error.  The
 * first byte chooses: the rest is a file, or places and values that a good file is hit with.  runs: 4000 */
#include "../../schema/plan_file.h"
#include "../harness/plan_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct { /* made once: a fuzz target has nobody to hand it over */
	struct arena arena;
	struct bytes good;
	char path[64];
} mine;

static void
leave_nothing(void)
{
	(void)unlink(mine.path);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct plan_host h = {0};
	struct plan p;
	struct err e = {0};

	(void)argc;
	(void)argv;
	(void)snprintf(mine.path, sizeof(mine.path), "/tmp/korch-plan-fuzz-%ld", (long)getpid());
	plan_sample_dry(&mine.arena, &p);
	if (!plan_save(mine.path, &p, &h, &e) ||
	    !os_read_file(os_real(), &mine.arena, mine.path, 1 << 24, &mine.good, &e))
		abort();
	return atexit(leave_nothing);
}

static void
write_file(const uint8_t *p, size_t n)
{
	FILE *f = fopen(mine.path, "w");

	if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct plan p;
	struct err e = {0};

	if (n == 0)
		return 0;
	if (data[0] & 1) {
		write_file(data + 1, n - 1);
	} else {
		uint8_t *bad = arena_dup(&a, mine.good.p, mine.good.n);

		for (size_t i = 1; i + 4 <= n; i += 4)
			bad[(data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16) % mine.good.n] =
			    data[i + 3];
		write_file(bad, mine.good.n);
	}
	if (plan_load(&a, mine.path, &p, NULL, &e)) {
		if (!plan_check(&p, &e))
			abort();
	} else if (!e.code || !e.msg[0]) {
		abort();
	}
	arena_fini(&a);
	return 0;
}
