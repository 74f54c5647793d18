/* tests/unit/hostlock_test.c: locks of measuring lie where nobody else can hold them; a wait for one ends,
 * says for whom, and hears of a cancel; what cannot be opened is an error. threads: yes */
#include "../../kernels/base/hostlock.h"
#include "../../worker/measure.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { STRANGER = 54321 };
static const int64_t FOR_EVER = (int64_t)3600 * 1000000000;
static char root[] = "/tmp/korch-lock-XXXXXX", dir[64];

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/korch", root);
	if (mkdir(dir, 0700) != 0)
		return -1;
	return setenv("XDG_RUNTIME_DIR", root, 1);
}

static int
teardown(void **state)
{
	(void)state;
	os_remove_tree(dir);
	return 0;
}

static const char *
file(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* ---- where it lies ---------------------------------------------------------------------- */
static void
lies_in_the_users_folder(void **state)
{
	struct lock_conf conf = {0};
	struct host_lock l;
	struct stat st;
	struct err e = {0};

	(void)state;
	os_remove_tree(dir); /* made where it is not there */
	host_lock_init(&l, &conf, NULL, "gpu-00:1/ 2");
	assert_false(host_lock_is_held(&l));
	assert_true(host_lock_take(&l, &e));
	assert_true(host_lock_take(&l, &e)); /* held already */
	assert_true(host_lock_is_held(&l));
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(file("gpu-00:1__2.lock"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(st.st_size > 0);
	host_lock_leave(&l);
	host_lock_leave(&l);
	assert_false(host_lock_is_held(&l));
	assert_int_equal(stat(file("gpu-00:1__2.lock"), &st), 0);
	assert_int_equal(st.st_size, 0); /* nobody is named */
}

/* A session's folder that is another's (su) is not this user's. */
static void
anothers_runtime_folder(void **state)
{
	char path[OS_PATH_MAX], want[64];
	bool is_shared;
	int fd;
	struct err e = {0};

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(root, STRANGER, STRANGER), 0);
	assert_true(lock_folder_open(NULL, path, &fd, &is_shared, &e));
	assert_int_equal(chown(root, 0, 0), 0);
	(void)close(fd);
	(void)snprintf(want, sizeof(want), "/tmp/korch-%u", (unsigned)geteuid());
	assert_true(strcmp(path, want) == 0 || strncmp(path, "/run/user/", 10) == 0);
	assert_false(is_shared);
}

/* ---- what is refused ---------------------------------------------------------------------- */
enum { OWN, GIVEN };
struct bad {
	int which;
	const char *how; /* by the shell, in the folder above; korch is the folder */
	const char *word;
	bool needs_root;
};
static const struct bad bads[] = {
    {OWN, "chmod 0755 korch", "mode 0755", false},
    {OWN, "chown 54321 korch", "belongs to user 54321", true},
    {OWN, "rmdir korch && mkdir -m 0700 there && ln -s there korch", "link", false},
    {OWN, "rmdir korch && echo >korch", "no folder", false},
    {OWN, "touch there && ln -s ../there korch/cpu.lock", "it is a link", false},
    {OWN, "ln -s nowhere korch/cpu.lock", "it is a link", false},
    {OWN, "mkfifo korch/cpu.next", "no plain file", false},
    {OWN, "mkdir korch/cpu.lock", "cannot be opened", false},
    {OWN, "touch there && chmod 0600 there && ln there korch/cpu.lock", "no plain file of one name", false},
    {OWN, "touch korch/cpu.lock && chmod 0666 korch/cpu.lock", "mode 0666", false},
    {OWN, "touch korch/cpu.lock && chmod 0600 korch/cpu.lock && chown 54321 korch/cpu.lock",
	"belongs to user 54321", true},
    {GIVEN, "chmod 1777 korch", "anybody could hold a lock", false},
    {GIVEN, "chmod 0770 korch", "could remove a lock that is held", false},
    {GIVEN, "chown 54321 korch", "belongs to user 54321", true},
    {GIVEN, "rmdir korch", "install -d -m 3770", false},
    {GIVEN, "chmod 3770 korch && touch korch/cpu.lock && chown 54321:54322 korch/cpu.lock",
	"belongs to user 54321", true},
    {GIVEN, "chmod 3770 korch && touch korch/cpu.lock && chmod 0666 korch/cpu.lock", "chmod 0660", false},
};

static void
refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(bads); i++) {
		struct lock_conf conf = {.dir = bads[i].which == GIVEN ? dir : ""};
		struct host_lock l;
		char cmd[256];
		struct err e = {0};

		if (bads[i].needs_root && geteuid() != 0)
			continue;
		(void)snprintf(cmd, sizeof(cmd), "cd %s && rm -rf korch there && mkdir -m 0700 korch && %s",
		    root, bads[i].how);
		assert_int_equal(system(cmd), 0);
		host_lock_init(&l, &conf, NULL, "cpu");
		if (host_lock_take(&l, &e) || e.code != ERR_HOST || !strstr(e.msg, bads[i].word))
			fail_msg("%s: %d '%s'", bads[i].how, (int)e.code, e.msg);
		assert_int_equal(l.fd, -1);
	}
	(void)snprintf(dir, sizeof(dir), "%s/korch", root);
}

/* A folder that cannot be written: by an ordinary user, because root may write everywhere. */
static void
unwritable(void **state)
{
	struct lock_conf conf = {0};
	struct host_lock l;
	struct err e = {0};
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() == 0)
		assert_int_equal(chown(dir, STRANGER, STRANGER) | chown(root, STRANGER, STRANGER), 0);
	assert_int_equal(chmod(dir, 0500), 0);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && setuid(STRANGER) != 0)
			_exit(9);
		host_lock_init(&l, &conf, NULL, "cpu");
		_exit(!host_lock_take(&l, &e) && e.code == ERR_HOST &&
			    strstr(e.msg, "nothing is measured without")
			? 0
			: 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chmod(dir, 0700), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(root, 0, 0), 0);
	assert_int_equal(status, 0);
}

/* A folder for a group: its file is for the group, and one of another member is taken. */
static void
of_a_group(void **state)
{
	struct lock_conf conf = {.dir = dir};
	struct host_lock l;
	struct stat st;
	struct err e = {0};

	(void)state;
	assert_int_equal(chmod(dir, 03770), 0);
	host_lock_init(&l, &conf, NULL, "cpu");
	assert_true(host_lock_take(&l, &e));
	host_lock_leave(&l);
	assert_int_equal(stat(file("cpu.lock"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	if (geteuid() != 0)
		return;
	assert_int_equal(chown(file("cpu.lock"), STRANGER, st.st_gid), 0);
	assert_true(host_lock_take(&l, &e));
	host_lock_leave(&l);
}

/* ---- waiting ------------------------------------------------------------------------------ */
/* A process that holds the file until it is killed; `says` nothing of itself in it unless `is_ours`. */
static pid_t
holder(const char *name, bool is_ours)
{
	int fds[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open(file(name), O_RDWR | O_CREAT, 0600);

		(void)prctl(PR_SET_NAME, "strange\033one");
		if (flock(fd, LOCK_EX) != 0)
			_exit(1);
		if (is_ours)
			lock_holder_write(fd);
		else if (write(fd, "1 somebody, else\n", 17) !=
		    17) /* a lie, or words of one that was killed */
			_exit(1);
		(void)!write(fds[1], "x", 1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(fds[0], &c, 1), 1);
	(void)close(fds[0]);
	(void)close(fds[1]);
	return pid;
}

static void
kill_holder(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void
names_the_holder(void **state)
{
	static const struct {
		const char *file;
		bool is_ours;
		const char *program;
	} rows[] = {{"cpu.lock", true, "unit_hostlock_test)"}, {"cpu.lock", false, "strange?one)"},
	    {"cpu.next", true, "unit_hostlock_test)"}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct lock_words words = {.mutex = PTHREAD_MUTEX_INITIALIZER};
		struct lock_conf conf = {.wait_ns = 1000000, .words = &words};
		struct host_lock l;
		char pid_words[32], said[256];
		struct err e = {0};
		pid_t pid = holder(rows[i].file, rows[i].is_ours);

		(void)snprintf(pid_words, sizeof(pid_words), "pid %ld (", (long)pid);
		host_lock_init(&l, &conf, NULL, "cpu");
		assert_false(host_lock_take(&l, &e));
		assert_int_equal(e.code, ERR_BUSY);
		if (!strstr(e.msg, pid_words) || !strstr(e.msg, rows[i].program) ||
		    !strstr(e.msg, rows[i].file))
			fail_msg("%s", e.msg);
		lock_words_get(&words, said);
		assert_string_equal(said, ""); /* nobody waits any more */
		kill_holder(pid);
		assert_true(host_lock_take(&l, &e)); /* a dead process holds nothing */
		host_lock_leave(&l);
	}
}

/* Waits for ever, as far as the test goes. */
struct waiter {
	struct host_lock l;
	pthread_t thread;
	struct err e;
	bool ok;
};

static void *
wait_for(void *arg)
{
	struct waiter *w = arg;

	w->ok = host_lock_take(&w->l, &w->e);
	return NULL;
}

static void
await_words(struct lock_words *words, const char *part)
{
	char text[256] = "";

	while (!strstr(text, part))
		lock_words_get(words, text);
}

/* While it waits it says so, to its log and its daemon; a cancel, which a second signal is, ends it. */
static void
cancel_ends_it(void **state)
{
	struct lock_words words = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	struct lock_conf conf = {.wait_ns = FOR_EVER, .words = &words};
	atomic_bool cancel = false;
	struct waiter w = {0};
	struct bytes log;
	struct arena a = {0};
	char part[64], path[96];
	struct err e = {0};
	pid_t pid = holder("cpu.lock", true);

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/log", root);
	assert_true(log_open(&conf.log, &(struct log_conf){.path = path}, &e));
	host_lock_init(&w.l, &conf, &cancel, "cpu");
	assert_int_equal(pthread_create(&w.thread, NULL, wait_for, &w), 0);
	(void)snprintf(part, sizeof(part), "waits for cpu.lock, held by pid %ld (", (long)pid);
	await_words(&words, part);
	cancel = true;
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	assert_false(w.ok);
	assert_int_equal(w.e.code, ERR_CANCELLED);
	kill_holder(pid);
	log_close(conf.log);
	assert_true(os_read_file(os_real(), &a, path, 65536, &log, &e));
	assert_non_null(memmem(log.p, log.n, "lock.waits", 10));
	assert_non_null(memmem(log.p, log.n, "got=no", 6));
	(void)unlink(path);
	arena_fini(&a);
}

/* The lock's file goes away while it is waited for (a session's end): what is held then is the new one. */
static void
file_goes_away(void **state)
{
	struct lock_words words = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	struct lock_conf conf = {.wait_ns = FOR_EVER, .words = &words};
	struct waiter w = {0};
	struct stat held, there;
	pid_t pid = holder("cpu.lock", true);

	(void)state;
	host_lock_init(&w.l, &conf, NULL, "cpu");
	assert_int_equal(pthread_create(&w.thread, NULL, wait_for, &w), 0);
	await_words(&words, "waits");
	assert_int_equal(unlink(file("cpu.lock")), 0);
	kill_holder(pid);
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	assert_true(w.ok);
	assert_int_equal(fstat(w.l.fd, &held) | stat(file("cpu.lock"), &there), 0);
	assert_int_equal(held.st_ino, there.st_ino);
	host_lock_leave(&w.l);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(lies_in_the_users_folder, setup, teardown),
	    cmocka_unit_test_setup_teardown(anothers_runtime_folder, setup, teardown),
	    cmocka_unit_test_setup_teardown(refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(unwritable, setup, teardown),
	    cmocka_unit_test_setup_teardown(of_a_group, setup, teardown),
	    cmocka_unit_test_setup_teardown(names_the_holder, setup, teardown),
	    cmocka_unit_test_setup_teardown(cancel_ends_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(file_goes_away, setup, teardown),
	};
	int failed;

	if (!mkdtemp(root))
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	os_remove_tree(root);
	return failed;
}
