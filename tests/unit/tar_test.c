/* A folder as a tar file and back; what is no honest tar file is refused whole, and nothing is written.
 * memory: yes */
#include "../../kernels/base/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[OS_PATH_MAX];

static int
make_dir(void **state)
{
	struct err e = {0};

	(void)state;
	return os_temp_dir("tar-test", dir, &e) ? 0 : -1;
}

static int
drop_dir(void **state)
{
	(void)state;
	os_remove_tree(dir);
	return 0;
}

static void
put(struct arena *a, const char *name, const char *text, size_t n)
{
	char *path = arena_printf(a, "%s/in/%s", dir, name);
	struct err e = {0};

	assert_true(os_make_dirs(str_dup(a, (struct str){path, (size_t)(strrchr(path, '/') - path)}), &e));
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text, n}, &e));
}

static struct bytes
pack(struct arena *a)
{
	struct bytes tar;
	struct err e = {0};

	assert_true(tar_folder(a, arena_printf(a, "%s/in", dir), 1 << 20, &tar, &e));
	return tar;
}

static void
there_and_back(void **state)
{
	static const size_t sizes[] = {0, 1, 511, 512, 513, 2000};
	struct arena a = {0};
	struct bytes tar, have;
	struct err e = {0};
	char text[2000], *deep = arena_printf(&a, "%070d/%070d/%090d", 1, 2, 3);

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		put(&a, arena_printf(&a, "f/%zu", sizes[i]), text, sizes[i]);
	put(&a, deep, "deep", 4);
	tar = pack(&a);
	assert_true(tar_unpack(tar, arena_printf(&a, "%s/out", dir), &e));
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		assert_true(os_read_file(
		    os_real(), &a, arena_printf(&a, "%s/out/f/%zu", dir, sizes[i]), 1 << 20, &have, &e));
		assert_int_equal(have.n, sizes[i]);
	}
	assert_true(os_read_file(os_real(), &a, arena_printf(&a, "%s/out/%s", dir, deep), 100, &have, &e));
	assert_memory_equal(have.p, "deep", 4);
	/* the same folder, made in another order, gives the same bytes; links are passed over */
	put(&a, "f/0", "", 0);
	assert_int_equal(symlink("/etc/passwd", arena_printf(&a, "%s/in/link", dir)), 0);
	have = pack(&a);
	assert_int_equal(have.n, tar.n);
	assert_memory_equal(have.p, tar.p, tar.n);
	arena_fini(&a);
}

/* What everybody's tar makes of it. */
static void
tar_reads_it(void **state)
{
	struct arena a = {0};
	struct err e = {0};
	struct bytes tar;

	(void)state;
	put(&a, "a/b.txt", "hello\n", 6);
	put(&a, arena_printf(&a, "%099d/%099d", 1, 2), "long\n", 5);
	tar = pack(&a);
	assert_true(os_write_file(os_real(), arena_printf(&a, "%s/x.tar", dir), tar, &e));
	assert_int_equal(system(arena_printf(&a,
			     "cd '%s' && mkdir by && tar xf x.tar -C by && diff -r in by && "
			     "test \"$(tar tf x.tar | wc -l)\" = 2",
			     dir)),
	    0);
	arena_fini(&a);
}

static void
limits(void **state)
{
	struct arena a = {0};
	struct bytes tar;
	struct err e = {0};

	(void)state;
	put(&a, "large", "0123456789", 10);
	assert_false(tar_folder(&a, arena_printf(&a, "%s/in", dir), 600, &tar, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	e = (struct err){0};
	assert_false(tar_folder(&a, arena_printf(&a, "%s/none", dir), 600, &tar, &e));
	assert_int_equal(e.code, ERR_IO);
	arena_fini(&a);
}

/* ---- hostile ones ------------------------------------------------------------------- */
static void
mend_sum(uint8_t *head)
{
	unsigned sum = 0;
	char text[8];

	memset(head + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += head[i];
	(void)snprintf(text, sizeof(text), "%06o", sum);
	memcpy(head + 148, text, 7);
}

struct hostile {
	const char *what;
	size_t at; /* of the first header */
	const char *bytes;
	size_t n;
	const char *says;
};
static const struct hostile cases[] = {
    {"leads up", 0, "../evil", 8, "no file below it"},
    {"leads up inside", 0, "a/../../evil", 13, "no file below it"},
    {"absolute", 0, "/evil", 6, "no file below it"},
    {"a dot", 0, "./evil", 7, "no file below it"},
    {"two slashes", 0, "a//evil", 8, "no file below it"},
    {"a folder's name", 0, "evil/", 6, "no file below it"},
    {"no name", 0, "\0", 2, "no file below it"},
    {"a prefix that leads up", 345, "..", 3, "no file below it"},
    {"a symbolic link", 156, "2", 1, "no file below it"},
    {"a hard link", 156, "1", 1, "no file below it"},
    {"a device", 156, "3", 1, "no file below it"},
    {"longer than it is", 124, "00000100000", 12, "damaged or cut off"},
    {"a size that is none", 124, "x", 1, "damaged or cut off"},
    {"twice", 0, "second", 7, "twice"},
};

static void
hostile_is_refused(void **state)
{
	struct arena a = {0};
	struct bytes tar;

	(void)state;
	put(&a, "first", "1", 1);
	put(&a, "second", "2", 1);
	tar = pack(&a);
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		uint8_t *bad = arena_dup(&a, tar.p, tar.n);
		const char *to = arena_printf(&a, "%s/bad%zu", dir, i);
		struct err e = {0};

		memcpy(bad + cases[i].at, cases[i].bytes, cases[i].n);
		mend_sum(bad);
		if (tar_unpack((struct bytes){bad, tar.n}, to, &e) || e.code != ERR_FORMAT ||
		    !strstr(e.msg, cases[i].says) || access(to, F_OK) == 0)
			fail_msg(
			    "%s: '%s'%s", cases[i].what, e.msg, access(to, F_OK) == 0 ? ", written" : "");
	}
	arena_fini(&a);
}

static void
damage_is_refused(void **state)
{
	struct arena a = {0};
	struct bytes tar;
	struct err e = {0};

	(void)state;
	put(&a, "first", "1", 1);
	tar = pack(&a);
	for (size_t n = 513; n < 1024; n += 100) { /* cut off inside the content */
		struct err cut = {0};

		assert_true(tar_unpack((struct bytes){tar.p, n}, arena_printf(&a, "%s/cut", dir), &cut) ||
		    cut.code == ERR_FORMAT);
	}
	((uint8_t *)(uintptr_t)tar.p)[3] ^= 1; /* a name that its sum does not fit */
	assert_false(tar_unpack(tar, arena_printf(&a, "%s/sum", dir), &e));
	assert_int_equal(e.code, ERR_FORMAT);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(there_and_back, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(tar_reads_it, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(limits, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(hostile_is_refused, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(damage_is_refused, make_dir, drop_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
