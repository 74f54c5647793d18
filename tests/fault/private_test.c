/* Clients that come while a private korchd starts or leaves: each is served, by that one or by the
 * next; and what it wrote into its log stays.  label: fault */
#include "farm_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOGETHER = 6, TURNS = 8 };
static const int64_t SECOND = 1000000000;

/* A data folder of its own, and the address of whoever owns it. */
struct home {
	struct farm_proc f;
	struct arena a;
	char data[96];
	char *url;
};

static void
home_init(struct home *h)
{
	struct err e = {0};

	memset(h, 0, sizeof(*h));
	farm_proc_init(&h->f, "");
	(void)snprintf(h->data, sizeof(h->data), "%s/data", h->f.dir);
	assert_int_equal(mkdir(h->data, 0700), 0);
	h->url = data_socket(&h->a, h->data, &e);
	assert_non_null(h->url);
}

/* Returns when it has the folder; give it back by closing it. */
static int
own(const struct home *h)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/lock", h->data);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (flock(fd, LOCK_EX) != 0)
		assert_int_equal(errno, EINTR);
	return fd;
}

static pid_t
start_client(const struct home *h)
{
	return farm_proc_start(&h->f, "korch-jobs", "list", "--data", h->data, NULL);
}

static void
must_be_served(const struct home *h, pid_t pid)
{
	char cmd[256];
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return;
	(void)snprintf(cmd, sizeof(cmd), "tail -n 3 %s/korch-jobs.log %s/korchd.log >&2", h->f.dir, h->data);
	if (system(cmd) == 0)
		fail_msg("korch-jobs left with wait status %d", status);
}

static void
send_home(const struct home *h)
{
	struct client_conf conf = {.url = h->url, .name = "test"};
	struct msg ask = {.type = MSG_shutdown}, m;
	struct arena a = {0};
	struct client *c;
	struct err e = {0};

	if (!client_open(&c, &conf, &e) || !client_call(c, &a, &ask, SECOND, &m, &e))
		fail_msg("%s", e.msg);
	client_close(c);
	arena_fini(&a);
}

static void
home_fini(struct home *h)
{
	send_home(h);
	(void)close(own(h)); /* it has left */
	arena_fini(&h->a);
	farm_proc_fini(&h->f);
}

/* The owner takes the call, and leaves without a word. */
static void
owner_leaves(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct home h;
	int lock, door, caller;
	pid_t pid;

	(void)state;
	home_init(&h);
	lock = own(&h);
	door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", h.url + strlen("ipc://"));
	assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(door, 8), 0);
	pid = start_client(&h);
	caller = accept(door, NULL, NULL);
	assert_true(caller >= 0);
	(void)close(caller);
	(void)close(door);
	assert_int_equal(unlink(at.sun_path), 0);
	(void)close(lock);
	must_be_served(&h, pid);
	home_fini(&h);
}

static void
all_at_once(void **state)
{
	pid_t pid[TOGETHER];
	struct home h;

	(void)state;
	home_init(&h);
	for (int i = 0; i < TOGETHER; i++)
		pid[i] = start_client(&h);
	for (int i = 0; i < TOGETHER; i++)
		must_be_served(&h, pid[i]);
	home_fini(&h);
}

/* Each comes while the one before sees korchd off. */
static void
one_after_another(void **state)
{
	struct home h;

	(void)state;
	home_init(&h);
	must_be_served(&h, start_client(&h));
	for (int i = 0; i < TURNS; i++) {
		send_home(&h);
		must_be_served(&h, start_client(&h));
	}
	home_fini(&h);
}

static char *
text_of(struct home *h, const char *name, size_t *n)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), &h->a, arena_printf(&h->a, "%s/%s", h->data, name), 1 << 26, &b, &e))
		fail_msg("%s", e.msg);
	*n = b.n;
	return str_dup(&h->a, (struct str){(const char *)b.p, b.n});
}

static void
come_and_go(struct home *h)
{
	must_be_served(h, start_client(h));
	send_home(h);
	(void)close(own(h));
}

/* What a daemon wrote is there when the next one has come and gone. */
static void
log_outlasts_its_daemon(void **state)
{
	struct home h;
	size_t n, more;

	(void)state;
	home_init(&h);
	come_and_go(&h);
	const char *first = text_of(&h, "korchd.log", &n);

	assert_non_null(strstr(first, "listen"));
	must_be_served(&h, start_client(&h));
	const char *both = text_of(&h, "korchd.log", &more);

	assert_true(more > n);
	assert_memory_equal(both, first, n);
	home_fini(&h);
}

/* One of 8 MiB makes room, and takes the place of the one that did so before; of many that see it, one moves
 * it. */
static void
long_log_is_put_aside(void **state)
{
	enum { LONG = 8 << 20 };
	struct home h;
	struct err e = {0};
	pid_t pid[TOGETHER];
	size_t n;
	char *text;

	(void)state;
	home_init(&h);
	text = NEW_ARRAY(&h.a, char, LONG);
	for (int turn = 'a'; turn <= 'b'; turn++) {
		memset(text, turn, LONG);
		if (!os_write_file(os_real(), arena_printf(&h.a, "%s/korchd.log", h.data),
			(struct bytes){(const uint8_t *)text, LONG}, &e))
			fail_msg("%s", e.msg);
		for (int i = 0; i < TOGETHER; i++)
			pid[i] = start_client(&h);
		for (int i = 0; i < TOGETHER; i++)
			must_be_served(&h, pid[i]);
		send_home(&h);
		(void)close(own(&h));
		const char *aside = text_of(&h, "korchd.log.1", &n);

		assert_true(n >= LONG);
		assert_memory_equal(aside, text, LONG);
		(void)text_of(&h, "korchd.log", &n);
		assert_true(n > 0 && n < LONG);
	}
	must_be_served(&h, start_client(&h));
	home_fini(&h);
}

/* A folder that is removed or moved away takes its daemon along, which leaves the next one's address alone.
 */
static void
folder_is_replaced(void **state)
{
	struct home h;
	struct str pid;
	struct pollfd end = {.events = POLLIN};
	char *away;
	int64_t number;
	size_t n;

	(void)state;
	home_init(&h);
	must_be_served(&h, start_client(&h));
	pid = str_trim(str_of(text_of(&h, "lock", &n)));
	assert_true(str_to_i64(pid, &number));
	end.fd = (int)syscall(SYS_pidfd_open, (pid_t)number, 0);
	assert_true(end.fd >= 0);
	away = arena_printf(&h.a, "%s/away", h.f.dir);
	assert_int_equal(rename(h.data, away), 0);
	assert_int_equal(mkdir(h.data, 0700), 0);
	must_be_served(&h, start_client(&h));
	while (poll(&end, 1, -1) < 0)
		assert_int_equal(errno, EINTR);
	(void)close(end.fd);
	must_be_served(&h, start_client(&h));
	assert_null(strstr(text_of(&h, "korchd.log", &n), "data_folder_is_gone"));
	assert_non_null(strstr(text_of(&h, "../away/korchd.log", &n), "data_folder_is_gone"));
	home_fini(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(owner_leaves),
	    cmocka_unit_test(all_at_once),
	    cmocka_unit_test(one_after_another),
	    cmocka_unit_test(log_outlasts_its_daemon),
	    cmocka_unit_test(long_log_is_put_aside),
	    cmocka_unit_test(folder_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
