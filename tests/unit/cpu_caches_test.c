/* tests/unit/cpu_caches_test.c: the sizes of a CPU's caches, by a folder as Linux has it. */
#include "../../kernels/device/dev.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const struct cache {
	const char *level, *type, *size;
	double bytes; /* of that level, by this folder */
} caches[] = {
    {"1\n", "Instruction\n", "64K\n", 32768}, /* is none of data */
    {"1\n", "Data\n", "32K\n", 32768},
    {"2\n", "Unified\n", "1M\n", 1048576},
    {"3\n", "Unified\n", "32768K\n", 33554432},
    {"4\n", "Unified\n", "0K\n", 0},
    {"5\n", "Unified\n", "much\n", 0},
    {"6\n", "Unified\n", "9223372036854775807K\n", 0},
    {"7\n", "Unified\n", "", 0},
    {"8\n", "Unified\n", "-1K\n", 0},
    {"9\n", "Unified\n", "512", 512},
};

static void
write_line(const char *folder, size_t i, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/index%zu/%s", folder, i, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static const char *const file[] = {"level", "type", "size"};

static void
levels(void **state)
{
	char folder[] = "/tmp/korch-caches-XXXXXX", path[512];

	(void)state;
	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < COUNT_OF(caches); i++) {
		(void)snprintf(path, sizeof(path), "%s/index%zu", folder, i);
		assert_int_equal(mkdir(path, 0700), 0);
		write_line(folder, i, "level", caches[i].level);
		write_line(folder, i, "type", caches[i].type);
		write_line(folder, i, "size", caches[i].size);
	}
	for (size_t i = 0; i < COUNT_OF(caches); i++)
		assert_true(dev_cpu_cache_bytes(folder, caches[i].level[0] - '0') == caches[i].bytes);
	assert_true(dev_cpu_cache_bytes(folder, 10) == 0);
	assert_true(dev_cpu_cache_bytes("/nowhere", 1) == 0);
	for (size_t i = 0; i < COUNT_OF(caches); i++) {
		for (size_t k = 0; k < COUNT_OF(file); k++) {
			(void)snprintf(path, sizeof(path), "%s/index%zu/%s", folder, i, file[k]);
			(void)unlink(path);
		}
		(void)snprintf(path, sizeof(path), "%s/index%zu", folder, i);
		(void)rmdir(path);
	}
	(void)rmdir(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(levels)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
