/* A host's driver: none, one that is too old for a name, one that knows names of before, one that does not
 * start.  The drivers are libraries made here, with the names of kernels/device/dev_cuda_api.def. */
#include "../../kernels/device/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAY, MUST };
static const struct {
	int need;
	const char *names; /* by blanks, newest first */
} table[] = {
#define CU(F, ARGS, NEED, NAMES) {NEED, NAMES},
#include "../../kernels/device/dev_cuda_api.def"
};

struct driver {
	int lacks;   /* row of the table; -1: none */
	bool is_old; /* of names that are one function's: the last; no function that it may lack */
	int init;    /* what cuInit says */
};

static void
add_function(struct strbuf *sb, size_t row, const struct driver *d)
{
	struct str names = str_of(table[row].names), one = str_cut(&names, ' ');

	while (d->is_old && names.n)
		one = str_cut(&names, ' ');
	if ((int)row != d->lacks && (table[row].need == MUST || !d->is_old))
		sb_addf(
		    sb, "int %.*s(void) { return %d; }\n", STR_ARG(one), str_is(one, "cuInit") ? d->init : 0);
}

/* Opens a host whose KORCH_CUDA_LIB has this libcuda.so.1. */
static void
open_with(const struct driver *d, struct gpu *g)
{
	static const char *const flags[] = {"-O0", NULL};
	struct compile_opts o = {.flags = flags};
	char dir[] = "/tmp/korch-driver-XXXXXX", path[64];
	struct arena a = {0};
	struct strbuf sb;
	struct bytes so;
	struct err e = {0};

	sb_init(&sb, &a);
	for (size_t i = 0; i < COUNT_OF(table); i++)
		add_function(&sb, i, d);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/libcuda.so.1", dir);
	if (!compile_c(&a, sb_str(&sb), &o, &so, &e) || !os_write_file(os_real(), path, so, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(setenv("KORCH_CUDA_LIB", dir, 1), 0);
	gpu_open(g);
	assert_int_equal(unsetenv("KORCH_CUDA_LIB"), 0);
	(void)unlink(path);
	(void)rmdir(dir);
	arena_fini(&a);
}

/* No GPU, in these words. */
static void
refuses(const struct gpu *g, const char *words)
{
	struct err e = {0};
	int n;

	assert_false(gpu_ready(g, false, &n, &e));
	assert_int_equal(e.code, ERR_HOST);
	if (!strstr(e.msg, words))
		fail_msg("\"%s\" without \"%s\"", e.msg, words);
}

static void
none(void **state)
{
	struct gpu g;

	(void)state;
	gpu_open(&g);
	if (g.has[GPU_CUDA]) {
		printf("SKIP: 1 part: this host has a driver\n");
		gpu_close(&g);
		skip();
	}
	refuses(&g, "the NVIDIA driver is not here (looked for libcuda.so.1); install");
	gpu_close(&g);
}

/* Without any of the functions that it must have it is too old, and the name is said. */
static void
too_old_for_a_name(void **state)
{
	uint32_t n = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(table); i++) {
		struct gpu g;
		char words[128];

		if (table[i].need != MUST || n++ % 6)
			continue;
		open_with(&(struct driver){.lacks = (int)i}, &g);
		assert_false(g.has[GPU_CUDA]);
		(void)snprintf(words, sizeof(words), "is too old: it has no %s; install", table[i].names);
		refuses(&g, words);
		gpu_close(&g);
	}
	assert_true(n > 30);
}

static void
names_of_before(void **state)
{
	struct gpu g;

	(void)state;
	open_with(&(struct driver){.lacks = -1, .is_old = true}, &g);
	assert_true(g.has[GPU_CUDA]);
	refuses(&g, "the driver sees no device");
	gpu_close(&g);
	open_with(&(struct driver){.lacks = -1}, &g);
	assert_true(g.has[GPU_CUDA]);
	gpu_close(&g);
}

static void
does_not_start(void **state)
{
	static const int statuses[] = {
	    34, 100, 803, 999, 12345}; /* a stub, no device, another kernel module, ... */

	(void)state;
	for (size_t i = 0; i < COUNT_OF(statuses); i++) {
		struct gpu g;
		char words[32];

		open_with(&(struct driver){.lacks = -1, .init = statuses[i]}, &g);
		(void)snprintf(words, sizeof(words), "status %d", statuses[i]);
		refuses(&g, "cuInit");
		refuses(&g, words);
		gpu_close(&g);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(none), cmocka_unit_test(too_old_for_a_name),
	    cmocka_unit_test(names_of_before), cmocka_unit_test(does_not_start)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
