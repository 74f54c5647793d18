/* tests/fault/probe_process.c: the tries with processes: new ones, those of others, its own limits. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static long
as_child(long pid)
{
	int status;

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, &status, 0);
	return pid;
}

static const char *
proc_of_other(const char *what)
{
	static char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", OTHER, what);
	return path;
}

static void *
nothing(void *arg)
{
	return arg;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *
wait_at_gate(void *arg)
{
	(void)pthread_mutex_lock(&gate);
	(void)pthread_mutex_unlock(&gate);
	return arg;
}

static volatile sig_atomic_t was_told;

static void
told(int number)
{
	was_told = number;
}

/* ---- the tries ---- */
long
try_thread(void)
{
	pthread_t t;
	int rc = pthread_create(&t, NULL, nothing, NULL);

	if (rc == 0)
		(void)pthread_join(t, NULL);
	return -rc;
}
long
try_fork(void)
{
	return as_child(CALL(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}
#ifdef SYS_vfork
long
try_vfork(void)
{
	return as_child(vfork());
}
#else
long
try_vfork(void)
{
	return as_child(CALL(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0));
}
#endif
long
try_clone_user(void)
{
	return as_child(CALL(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}
long
try_clone3(void)
{
	uint64_t args[8] = {[4] = SIGCHLD};

	return as_child(CALL(CLONE3, args, sizeof(args)));
}
/* It ends with 0 in the program's place; what comes back was denied. */
long
try_exec_shell(void)
{
	return execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
}
long
try_exec_memory(void)
{
	int fd = memfd_create("x", 0);

	if (fd < 0 || write(fd, "#!/bin/sh\nexit 0\n", 17) != 17)
		return -1;
	return CALL(SYS_execveat, fd, "", (char *[]){(char *)"x", NULL}, (char *[]){NULL}, AT_EMPTY_PATH);
}
long
try_exec_scratch(void)
{
	int fd = open(probe_scratch("probe-15"), O_WRONLY | O_CREAT, 0700);

	if (fd < 0 || write(fd, "#!/bin/sh\nexit 0\n", 17) != 17 || close(fd) != 0)
		return -1;
	return execl(probe_scratch("probe-15"), "x", (char *)NULL);
}
long
try_kill_other(void)
{
	return kill(OTHER, 0);
}
long
try_kill_all(void)
{
	return kill(-1, 0);
}
long
try_kill_group(void)
{
	return kill(0, 0);
}
long
try_tkill_other(void)
{
	return CALL(SYS_tkill, OTHER, SIGCONT);
}
long
try_tgkill_other(void)
{
	return CALL(SYS_tgkill, OTHER, OTHER, SIGCONT);
}
long
try_sigqueue_other(void)
{
	siginfo_t si = {.si_code = -1};

	return CALL(SYS_rt_sigqueueinfo, OTHER, SIGCONT, &si);
}
long
try_tgsigqueue_other(void)
{
	siginfo_t si = {.si_code = -1};

	return CALL(SYS_rt_tgsigqueueinfo, OTHER, OTHER, SIGCONT, &si);
}
long
try_pidfd_other(void)
{
	return CALL(PIDFD_OPEN, OTHER, 0);
}
long
try_pidfd_signal_other(void)
{
	long fd = CALL(PIDFD_OPEN, OTHER, 0);

	return CALL(PIDFD_SEND, fd, SIGCONT, NULL, 0);
}
long
try_pidfd_getfd_other(void)
{
	long fd = CALL(PIDFD_OPEN, OTHER, 0);

	return CALL(PIDFD_GETFD, fd, 0, 0);
}
long
try_sigio_other(void)
{
	return fcntl(0, F_SETOWN, OTHER);
}
long
try_abort_self(void)
{
	(void)signal(SIGUSR1, told);
	was_told = 0;
	(void)raise(SIGUSR1);
	return was_told ? 0 : -1;
}
long
try_limits_of_other(void)
{
	struct rlimit r;

	return prlimit(OTHER, RLIMIT_CORE, NULL, &r);
}
long
try_set_limits_of_other(void)
{
	return prlimit(OTHER, RLIMIT_CORE, &(struct rlimit){0, 0}, NULL);
}
long
try_raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_CORE, &r) != 0)
		return -1;
	r.rlim_cur = r.rlim_max = r.rlim_max + 1;
	return setrlimit(RLIMIT_CORE, &r);
}
long
try_affinity_of_other(void)
{
	cpu_set_t all;

	return sched_getaffinity(0, sizeof(all), &all) == 0 ? sched_setaffinity(OTHER, sizeof(all), &all)
							    : -1;
}
long
try_priority_of_other(void)
{
	return setpriority(PRIO_PROCESS, OTHER, 0);
}
long
try_ptrace_other(void)
{
	return ptrace(PTRACE_SEIZE, OTHER, NULL, NULL);
}
long
try_vm_read_other(void)
{
	char some[8];
	struct iovec to = {some, 8}, from = {some, 8};

	return CALL(SYS_process_vm_readv, OTHER, &to, 1, &from, 1, 0) < 0 && errno == EFAULT ? 0 : -1;
}
long
try_vm_write_other(void)
{
	char some[8] = {0};
	struct iovec from = {some, 8}, to = {(void *)8, 8};

	return CALL(SYS_process_vm_writev, OTHER, &from, 1, &to, 1, 0) < 0 && errno == EFAULT ? 0 : -1;
}
long
try_mem_of_other(void)
{
	return probe_open(proc_of_other("mem"), O_RDONLY);
}
long
try_environ_of_other(void)
{
	return probe_read(proc_of_other("environ"));
}
long
try_see_other(void)
{
	return access(proc_of_other("stat"), F_OK);
}
long
try_kcmp_other(void)
{
	return CALL(SYS_kcmp, getpid(), OTHER, 1, 0, 0);
}
long
try_set_user(void)
{
	return CALL(SYS_setuid, geteuid() ? 0 : 1);
}
long
try_set_groups(void)
{
	return CALL(SYS_setgroups, 1, (gid_t[]){1});
}
long
try_rights(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct all[2] = {{1, 1, 1}, {0, 0, 0}};

	return CALL(SYS_capset, &head, all);
}
/* Processes that wait for a pipe's end; where there are none, threads that wait for a lock. */
static int
processes_until_no(int most)
{
	int pipe_[2], n = 0;
	char one;
	long pid = 0;

	if (pipe(pipe_) != 0)
		return 0;
	while (n < most && (pid = CALL(SYS_clone, SIGCHLD, 0, 0, 0, 0)) >= 0 && ++n)
		if (pid == 0) {
			(void)close(pipe_[1]);
			(void)!read(pipe_[0], &one, 1);
			_exit(0);
		}
	(void)close(pipe_[0]);
	(void)close(pipe_[1]);
	for (int i = 0; i < n; i++)
		(void)wait(NULL);
	return n;
}

static int
threads_until_no(int most)
{
	static pthread_t of[4096];
	pthread_attr_t small;
	int n = 0;

	(void)pthread_attr_init(&small);
	(void)pthread_attr_setstacksize(&small, 16384);
	(void)pthread_mutex_lock(&gate);
	while (n < most && pthread_create(&of[n], &small, wait_at_gate, NULL) == 0)
		n++;
	(void)pthread_mutex_unlock(&gate);
	for (int i = 0; i < n; i++)
		(void)pthread_join(of[i], NULL);
	return n;
}

long
try_processes_for_ever(void)
{
	enum { MANY = 2200 };

	return processes_until_no(MANY) == MANY || threads_until_no(MANY) == MANY ? 0 : -1;
}

static long
has_no_limit(int which)
{
	struct rlimit r;

	return getrlimit(which, &r) == 0 && r.rlim_max != RLIM_INFINITY ? -1 : 0;
}
long
try_cpu_for_ever(void)
{
	return has_no_limit(RLIMIT_CPU);
}
long
try_memory_for_ever(void)
{
	return has_no_limit(RLIMIT_AS);
}
long
try_core_file(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_max == 0 ? -1 : 0;
}
