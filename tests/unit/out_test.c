/* Where results go: files and links are replaced whole, what is no file is written, never renamed over; and
 * what is printed to a full disk is a failure.  label: pure */
#include "../../kernels/base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/korch-out-XXXXXX";

static int
make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) && chdir(dir) == 0 && mkdir("sub", 0700) == 0 && setenv("TMPDIR", dir, 1) == 0
	    ? 0
	    : 1;
}

static int
drop_dir(void **state)
{
	(void)state;
	os_remove_tree(dir);
	return 0;
}

static void
put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static void
must_hold(const char *path, const char *text)
{
	struct arena a = {0};
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), &a, path, 1 << 20, &b, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(b.n, strlen(text));
	assert_memory_equal(b.p, text, b.n);
	arena_fini(&a);
}

static bool
give(const char *path, const char *text, struct err *e)
{
	return out_check(path, e) &&
	    os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text, strlen(text)}, e);
}

/* What a result leaves beside it: nothing. */
static uint32_t
count_files(const char *folder)
{
	char cmd[128], line[32] = "";
	FILE *p;

	(void)snprintf(cmd, sizeof(cmd), "ls -A '%s' | wc -l", folder);
	p = popen(cmd, "r");
	assert_non_null(p);
	assert_non_null(fgets(line, sizeof(line), p));
	(void)pclose(p);
	return (uint32_t)strtoul(line, NULL, 10);
}

static void
files_and_links(void **state)
{
	/* link: its text, or NULL; target: where the result must be; has: what is there before, or NULL */
	static const struct {
		const char *path, *link, *target, *has;
	} row[] = {
	    {"new", NULL, "new", NULL},
	    {"old", NULL, "old", "before"},
	    {"to_old", "sub/old", "sub/old", "before"},
	    {"to_none", "sub/none", "sub/none", NULL},
	    {"sub/back", "../home", "home", "before"},
	    {"twice", "to_old", "sub/old", "after"},
	};
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct stat st;

		if (row[i].has)
			put(row[i].target, row[i].has);
		if (row[i].link)
			assert_int_equal(symlink(row[i].link, row[i].path), 0);
		if (!give(row[i].path, "after", &e))
			fail_msg("%s: %s", row[i].path, e.msg);
		must_hold(row[i].target, "after");
		assert_int_equal(lstat(row[i].path, &st), 0);
		assert_int_equal(S_ISLNK(st.st_mode), row[i].link != NULL);
	}
	assert_int_equal(count_files("sub"), 3);
}

static void
rights_stay(void **state)
{
	struct err e = {0};
	struct stat st;
	mode_t before = umask(027);

	(void)state;
	assert_true(give("fresh", "x", &e));
	assert_int_equal(stat("fresh", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	put("mine", "x");
	assert_int_equal(chmod("mine", 0604), 0);
	assert_true(give("mine", "y", &e));
	assert_int_equal(stat("mine", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0604);
	(void)umask(before);
}

static void
devices_are_written(void **state)
{
	struct stat st, now;
	struct err e = {0};

	(void)state;
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_int_equal(symlink("/dev/null", "to_null"), 0);
	assert_true(give("/dev/null", "gone", &e));
	assert_true(give("to_null", "gone", &e));
	assert_int_equal(lstat("/dev/null", &now), 0);
	assert_int_equal(now.st_ino, st.st_ino);
	assert_true(S_ISCHR(now.st_mode));
	assert_false(give("/dev/full", "lost", &e));
	assert_int_equal(e.code, ERR_FULL);
}

static void
pipes_are_written(void **state)
{
	struct err e = {0};
	struct stat st;
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(mkfifo("pipe", 0600), 0);
	pid = fork();
	if (pid == 0)
		_exit(system("cat pipe >from_pipe") != 0);
	assert_true(give("pipe", "through", &e));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	must_hold("from_pipe", "through");
	assert_int_equal(lstat("pipe", &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
}

static void
refusals(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "door"};
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static const struct {
		const char *path, *says;
		enum err_code code;
	} row[] = {
	    {"sub", "sub: is a folder", ERR_USAGE},
	    {"sub/", "sub/: is a folder", ERR_USAGE},
	    {"nothing/", "nothing/: is a folder", ERR_USAGE},
	    {"door", "door: is a socket", ERR_USAGE},
	    {"round", "round: cannot write: Too many levels", ERR_IO},
	    {"nowhere/file", "nowhere/file: cannot write into nowhere: No such file", ERR_IO},
	    {"open/trap", "open/trap: is a link by someone else", ERR_USAGE},
	    {"", ": cannot write", ERR_IO},
	};

	(void)state;
	assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(symlink("round", "round"), 0);
	assert_int_equal(mkdir("open", 0777), 0);
	assert_int_equal(chmod("open", 01777), 0);
	put("prey", "alive");
	assert_int_equal(symlink("../prey", "open/trap"), 0);
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct err e = {0};

		if (strcmp(row[i].path, "open/trap") == 0 && lchown("open/trap", 12345, 12345) != 0)
			continue; /* only root can make it someone else's */
		if (give(row[i].path, "x", &e))
			fail_msg("%s: was written", row[i].path);
		assert_int_equal(e.code, row[i].code);
		if (strncmp(e.msg, row[i].says, strlen(row[i].says)) != 0)
			fail_msg("%s: %s", row[i].path, e.msg);
	}
	must_hold("prey", "alive");
	(void)close(door);
}

/* A child whose stdout is the file `to`: it writes a line, a result to `path`, and another line; its status.
 */
static int
with_stdout(const char *to, const char *path)
{
	pid_t pid;
	int status;

	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct err e = {0};
		bool ok = freopen(to, "w", stdout) && printf("before\n") > 0 && out_is_stdout(path) &&
		    give(path, "result\n", &e) && printf("behind\n") > 0 && out_close_stdout(&e);

		_exit(ok ? 0 : err_exit_status(e.code ? e.code : ERR_USAGE));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void
stdout_by_any_name(void **state)
{
	static const char *const name[] = {"-", "/dev/stdout", "/dev/fd/1", "file", "to_file"};

	(void)state;
	assert_int_equal(symlink("file", "to_file"), 0);
	for (size_t i = 0; i < COUNT_OF(name); i++) {
		put("file", "old");
		assert_int_equal(with_stdout("file", name[i]), 0);
		must_hold("file", "before\nresult\nbehind\n");
	}
	assert_int_equal(with_stdout("/dev/full", "-"), err_exit_status(ERR_FULL));
}

/* /proc/self/fd/N leads to the open file; renamed over, its other holders would keep the old one. */
static void
open_files_by_proc(void **state)
{
	struct err e = {0};
	struct stat st, now;
	char path[32];
	int fd = open("held", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	(void)snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	assert_true(give(path, "held", &e));
	assert_int_equal(stat("held", &now), 0);
	assert_int_equal(now.st_ino, st.st_ino);
	must_hold("held", "held");
	(void)close(fd);
}

/* The old file stands, and nothing lies beside it. */
static void
failure_leaves_nothing(void **state)
{
	static const struct rlimit small = {4096, 4096};
	struct stat st;
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(mkdir("tight", 0700), 0);
	put("tight/file", "old");
	pid = fork();
	if (pid == 0) {
		static const uint8_t much[8192];
		struct err e = {0};

		(void)signal(SIGXFSZ, SIG_IGN);
		_exit(setrlimit(RLIMIT_FSIZE, &small) != 0 ||
		    os_write_file(os_real(), "tight/file", (struct bytes){much, sizeof(much)}, &e));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	must_hold("tight/file", "old");
	assert_int_equal(count_files("tight"), 1);
	assert_int_equal(stat("tight/file", &st), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_and_links),
	    cmocka_unit_test(rights_stay),
	    cmocka_unit_test(devices_are_written),
	    cmocka_unit_test(pipes_are_written),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(stdout_by_any_name),
	    cmocka_unit_test(open_files_by_proc),
	    cmocka_unit_test(failure_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
