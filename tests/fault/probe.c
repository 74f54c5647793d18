/* tests/fault/probe.c: tries what probe.def lists, from inside a jail.  Compiled by the test, with the paths
 * and numbers of what it is to try: as a module of kernels (-DAS_KERNELS): a kernel for each, right where it
 * was allowed; as a program in place of the compiler: tries all, each in a process, and writes what was
 * allowed as its output; as a program in place of the planner: tries what its model's name says, in itself.
 * Without a jail it tries nothing, and says that all was allowed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CALL(N, ...) syscall(N, __VA_ARGS__)
enum {
	OPENAT2 = 437,
	PIDFD_OPEN = 434,
	PIDFD_SEND = 424,
	PIDFD_GETFD = 438,
	CLONE3 = 435,
	FSOPEN = 430,
	OPEN_TREE = 428,
	MOUNT_SETATTR = 442,
	FCHMODAT2 = 452,
	IO_URING_SETUP = 425,
	MEMFD_SECRET = 447,
	LANDLOCK_CREATE = 444
};

/* ---- helpers: 0 or more: it was allowed ---- */
static long
open_close(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}

/* A file that was made is removed, by whoever may. */
static long
make(const char *path)
{
	long rc = open_close(path, O_WRONLY | O_CREAT);

	if (rc >= 0)
		(void)unlink(path);
	return rc;
}

static long
read_some(const char *path)
{
	char some[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long n = fd >= 0 ? read(fd, some, sizeof(some)) : -1;

	if (fd >= 0)
		(void)close(fd);
	return n > 0 ? n : -1;
}

static long
list(const char *path)
{
	DIR *d = opendir(path);

	if (!d)
		return -1;
	(void)closedir(d);
	return 0;
}

static const char *
in_scratch(const char *name)
{
	static char path[4200];
	const char *dir = getenv("TMPDIR");

	(void)snprintf(path, sizeof(path), "%s/%s", dir ? dir : "/", name);
	return path;
}

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

static long
sock(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}

static long
connect_unix(const char *name, size_t n, int first)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	long rc;

	memcpy(to.sun_path + first, name, n);
	rc = fd < 0 ? -1
		    : connect(fd, (struct sockaddr *)&to,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + first + n));
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

static long
write_much(int fd)
{
	static char some[1 << 20];
	struct rlimit r;

	if (fd < 0)
		return -1;
	(void)signal(SIGXFSZ, SIG_IGN);
	/* where there is no limit, it need not be tried */
	if (getrlimit(RLIMIT_FSIZE, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
		return 0;
	return pwrite(fd, some, sizeof(some), (off_t)r.rlim_cur) > 0 ? 0 : -1;
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

#define NO_PLACE "/no/such/place"
static long
was_let(long rc)
{
	return rc < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS) ? -1 : 0;
}

/* Outside of any jail nothing is tried: all of it would work, and some of it on the whole machine. */
static long
try(long (*what)(void))
{
	return getenv("KORCH_JAIL") ? what() : 0;
}

static volatile sig_atomic_t was_told;

static void
told(int number)
{
	was_told = number;
}

/* ---- files ---- */
static long
try_read_passwd(void)
{
	return read_some("/etc/passwd");
}
static long
try_read_tokens(void)
{
	return read_some(TOKENS);
}
static long
try_read_tokens_openat2(void)
{
	struct open_how how = {.flags = O_RDONLY};

	return CALL(OPENAT2, AT_FDCWD, TOKENS, &how, sizeof(how));
}
static long
try_read_above_root(void)
{
	return read_some("/../../../../../.." TOKENS);
}
static long
try_read_store(void)
{
	return read_some(STORE "/korch.db");
}
static long
try_read_other_job(void)
{
	return read_some(STORE "/jobs/9999/model/secret");
}
static long
try_list_store(void)
{
	return list(STORE);
}
static long
try_read_library(void)
{
	return read_some(LIBRARY);
}
static long
try_read_header(void)
{
	return read_some("/usr/include/stdio.h");
}
static long
try_read_cores(void)
{
	return read_some("/sys/devices/system/cpu/possible");
}
static long
try_read_block_devices(void)
{
	return list("/sys/block");
}
static long
try_read_kernel_settings(void)
{
	return read_some("/proc/sys/kernel/core_pattern");
}
static long
try_read_own_proc(void)
{
	return read_some("/proc/self/status");
}
static long
try_write_kernel_settings(void)
{
	return open_close("/proc/sys/kernel/core_pattern", O_WRONLY);
}
static long
try_write_oom(void)
{
	return open_close("/proc/self/oom_score_adj", O_WRONLY);
}
static long
try_write_outside(void)
{
	return make("/tmp/korch-probe-1");
}
static long
try_write_outside_openat2(void)
{
	struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 0600};

	return CALL(OPENAT2, AT_FDCWD, "/tmp/korch-probe-2", &how, sizeof(how));
}
static long
try_write_outside_creat(void)
{
	return make(TOKENS "-2");
}
static long
try_write_root(void)
{
	return make("/korch-probe-3");
}
static long
try_write_proc_fd(void)
{
	return open_close("/proc/self/fd/1", O_WRONLY);
}
static long
try_write_scratch(void)
{
	return make(in_scratch("probe-4"));
}
static long
try_write_program(void)
{
	return open_close("/proc/self/exe", O_WRONLY);
}
static long
try_write_model(void)
{
	return open_close(in_scratch("../model/" MODEL_NAME), O_WRONLY);
}
static long
try_make_folder(void)
{
	return mkdir("/tmp/korch-probe-5", 0700);
}
static long
try_make_folder_scratch(void)
{
	long rc = mkdir(in_scratch("probe-6"), 0700);

	(void)rmdir(in_scratch("probe-6"));
	return rc;
}
static long
try_link_tokens(void)
{
	return link(TOKENS, in_scratch("probe-7"));
}
static long
try_symlink_scratch(void)
{
	return symlink(TOKENS, in_scratch("probe-8"));
}
static long
try_make_fifo(void)
{
	return mkfifo(in_scratch("probe-9"), 0600);
}
static long
try_make_device(void)
{
	return mknod(in_scratch("probe-10"), S_IFCHR | 0600, 0x103);
}
static long
try_make_socket_file(void)
{
	return mknod(in_scratch("probe-11"), S_IFSOCK | 0600, 0);
}
static long
try_remove_tokens(void)
{
	return unlink(TOKENS);
}
static long
try_rename_tokens(void)
{
	return rename(TOKENS, TOKENS "-3");
}
static long
try_truncate_tokens(void)
{
	return truncate(TOKENS, 0);
}
static long
try_chmod_tokens(void)
{
	return chmod(TOKENS, 0666);
}
static long
try_fchmodat2_tokens(void)
{
	return CALL(FCHMODAT2, AT_FDCWD, TOKENS, 0666, 0);
}
static long
try_chown_tokens(void)
{
	return chown(TOKENS, 1, 1);
}
static long
try_touch_tokens(void)
{
	return utimensat(AT_FDCWD, TOKENS, NULL, 0);
}
static long
try_set_id_scratch(void)
{
	int fd = open(in_scratch("probe-12"), O_WRONLY | O_CREAT, 0600);
	long rc = fd >= 0 && (fchmod(fd, 04755) == 0 || chmod(in_scratch("probe-12"), 04755) == 0) ? 0 : -1;

	if (fd >= 0)
		(void)close(fd);
	(void)unlink(in_scratch("probe-12"));
	return rc;
}
static long
try_xattr_tokens(void)
{
	return setxattr(TOKENS, "user.x", "1", 1, 0);
}
static long
try_file_handle(void)
{
	struct {
		struct file_handle h;
		char more[128];
	} of = {.h = {.handle_bytes = 128}};
	int mount;

	return name_to_handle_at(AT_FDCWD, "/", &of.h, &mount, 0);
}
static long
try_large_file(void)
{
	int fd = open(in_scratch("probe-13"), O_RDWR | O_CREAT, 0600);
	long rc = write_much(fd);

	if (fd >= 0)
		(void)close(fd);
	(void)unlink(in_scratch("probe-13"));
	return rc;
}
static long
try_large_memory_file(void)
{
	int fd = memfd_create("x", MFD_CLOEXEC);
	long rc = fd < 0 ? -1 : ftruncate(fd, (off_t)1 << 40);

	if (fd >= 0 && rc != 0) {
		static char some[1 << 20];
		long long n = 0;

		(void)signal(SIGXFSZ, SIG_IGN);
		while (n < ((long long)1 << 30) && write(fd, some, sizeof(some)) > 0)
			n += (long long)sizeof(some);
		rc = n >= ((long long)1 << 30) ? 0 : -1;
	}
	if (fd >= 0)
		(void)close(fd);
	return rc;
}
static long
try_memory_file(void)
{
	int fd = memfd_create("x", MFD_CLOEXEC);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}
static long
try_secret_memory(void)
{
	return CALL(MEMFD_SECRET, 0);
}

/* ---- devices, mounts, the kernel ---- */
static long
try_dev_mem(void)
{
	return open_close("/dev/mem", O_RDONLY);
}
static long
try_dev_kmsg(void)
{
	return open_close("/dev/kmsg", O_RDONLY);
}
static long
try_dev_disk(void)
{
	return open_close(DISK, O_RDONLY);
}
static long
try_dev_fuse(void)
{
	return open_close("/dev/fuse", O_RDWR);
}
static long
try_dev_ptmx(void)
{
	return open_close("/dev/ptmx", O_RDWR | O_NOCTTY);
}
static long
try_dev_tty(void)
{
	return open_close("/dev/tty", O_RDWR | O_NOCTTY);
}
static long
try_dev_shm(void)
{
	return make("/dev/shm/korch-probe-14");
}
/* a terminal of the test's own is not there: that it gets as far as the kernel is enough */
static long
try_type_into_terminal(void)
{
	return was_let(ioctl(2, TIOCSTI, "x"));
}
/* These would do harm where they work: they are asked for what is not there, and how they fail tells. */
static long
try_mount(void)
{
	return was_let(mount("x", NO_PLACE, "tmpfs", 0, NULL));
}
static long
try_umount(void)
{
	return was_let(umount2(NO_PLACE, MNT_DETACH));
}
static long
try_fsopen(void)
{
	return CALL(FSOPEN, "proc", 0);
}
static long
try_open_tree(void)
{
	return CALL(OPEN_TREE, AT_FDCWD, "/", 0);
}
static long
try_mount_setattr(void)
{
	uint64_t attr[4] = {0, 1, 0, 0};

	return was_let(CALL(MOUNT_SETATTR, AT_FDCWD, NO_PLACE, 0, attr, sizeof(attr)));
}
static long
try_pivot_root(void)
{
	return was_let(CALL(SYS_pivot_root, NO_PLACE, NO_PLACE));
}
static long
try_chroot(void)
{
	return was_let(chroot(NO_PLACE));
}
static long
try_unshare_user(void)
{
	return unshare(CLONE_NEWUSER);
}
static long
try_setns(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : setns(fd, 0);
}
static long
try_io_uring(void)
{
	char params[256] = {0};

	return CALL(IO_URING_SETUP, 4, params);
}
static long
try_bpf(void)
{
	char attr[128] = {0};

	return CALL(SYS_bpf, 0, attr, sizeof(attr));
}
static long
try_perf(void)
{
	char attr[128] = {1, 0, 0, 0, 112};

	return CALL(SYS_perf_event_open, attr, 0, -1, -1, 0);
}
static long
try_userfaultfd(void)
{
	return CALL(SYS_userfaultfd, 1);
}
static long
try_keyring(void)
{
	return CALL(SYS_add_key, "user", "x", "y", 1, -3);
}
static long
try_kernel_log(void)
{
	char some[64];

	return CALL(SYS_syslog, 3, some, sizeof(some));
}
static long
try_load_module(void)
{
	return CALL(SYS_init_module, "", 0, "");
}
static long
try_set_clock(void)
{
	return CALL(SYS_adjtimex, (char[256]){0});
}
static long
try_set_host_name(void)
{
	return was_let(CALL(SYS_sethostname, "x", -1));
}
static long
try_personality(void)
{
	return CALL(SYS_personality, 0xffffffff);
}
static long
try_landlock(void)
{
	return CALL(LANDLOCK_CREATE, NULL, 0, 1);
}

/* ---- processes ---- */
static long
try_thread(void)
{
	pthread_t t;
	int rc = pthread_create(&t, NULL, nothing, NULL);

	if (rc == 0)
		(void)pthread_join(t, NULL);
	return -rc;
}
static long
try_fork(void)
{
	return as_child(CALL(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}
#ifdef SYS_vfork
static long
try_vfork(void)
{
	return as_child(vfork());
}
#else
static long
try_vfork(void)
{
	return as_child(CALL(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0));
}
#endif
static long
try_clone_user(void)
{
	return as_child(CALL(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}
static long
try_clone3(void)
{
	uint64_t args[8] = {[4] = SIGCHLD};

	return as_child(CALL(CLONE3, args, sizeof(args)));
}
/* It ends with 0 in the program's place; what comes back was denied. */
static long
try_exec_shell(void)
{
	return execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
}
static long
try_exec_memory(void)
{
	int fd = memfd_create("x", 0);

	if (fd < 0 || write(fd, "#!/bin/sh\nexit 0\n", 17) != 17)
		return -1;
	return CALL(SYS_execveat, fd, "", (char *[]){(char *)"x", NULL}, (char *[]){NULL}, AT_EMPTY_PATH);
}
static long
try_exec_scratch(void)
{
	int fd = open(in_scratch("probe-15"), O_WRONLY | O_CREAT, 0700);

	if (fd < 0 || write(fd, "#!/bin/sh\nexit 0\n", 17) != 17 || close(fd) != 0)
		return -1;
	return execl(in_scratch("probe-15"), "x", (char *)NULL);
}
static long
try_kill_other(void)
{
	return kill(OTHER, 0);
}
static long
try_kill_all(void)
{
	return kill(-1, 0);
}
static long
try_kill_group(void)
{
	return kill(0, 0);
}
static long
try_tkill_other(void)
{
	return CALL(SYS_tkill, OTHER, SIGCONT);
}
static long
try_tgkill_other(void)
{
	return CALL(SYS_tgkill, OTHER, OTHER, SIGCONT);
}
static long
try_sigqueue_other(void)
{
	siginfo_t si = {.si_code = -1};

	return CALL(SYS_rt_sigqueueinfo, OTHER, SIGCONT, &si);
}
static long
try_tgsigqueue_other(void)
{
	siginfo_t si = {.si_code = -1};

	return CALL(SYS_rt_tgsigqueueinfo, OTHER, OTHER, SIGCONT, &si);
}
static long
try_pidfd_other(void)
{
	return CALL(PIDFD_OPEN, OTHER, 0);
}
static long
try_pidfd_signal_other(void)
{
	long fd = CALL(PIDFD_OPEN, OTHER, 0);

	return CALL(PIDFD_SEND, fd, SIGCONT, NULL, 0);
}
static long
try_pidfd_getfd_other(void)
{
	long fd = CALL(PIDFD_OPEN, OTHER, 0);

	return CALL(PIDFD_GETFD, fd, 0, 0);
}
static long
try_sigio_other(void)
{
	return fcntl(0, F_SETOWN, OTHER);
}
static long
try_abort_self(void)
{
	(void)signal(SIGUSR1, told);
	was_told = 0;
	(void)raise(SIGUSR1);
	return was_told ? 0 : -1;
}
static long
try_limits_of_other(void)
{
	struct rlimit r;

	return prlimit(OTHER, RLIMIT_CORE, NULL, &r);
}
static long
try_set_limits_of_other(void)
{
	return prlimit(OTHER, RLIMIT_CORE, &(struct rlimit){0, 0}, NULL);
}
static long
try_raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_CORE, &r) != 0)
		return -1;
	r.rlim_cur = r.rlim_max = r.rlim_max + 1;
	return setrlimit(RLIMIT_CORE, &r);
}
static long
try_affinity_of_other(void)
{
	cpu_set_t all;

	return sched_getaffinity(0, sizeof(all), &all) == 0 ? sched_setaffinity(OTHER, sizeof(all), &all)
							    : -1;
}
static long
try_priority_of_other(void)
{
	return setpriority(PRIO_PROCESS, OTHER, 0);
}
static long
try_ptrace_other(void)
{
	return ptrace(PTRACE_SEIZE, OTHER, NULL, NULL);
}
static long
try_vm_read_other(void)
{
	char some[8];
	struct iovec to = {some, 8}, from = {some, 8};

	return CALL(SYS_process_vm_readv, OTHER, &to, 1, &from, 1, 0) < 0 && errno == EFAULT ? 0 : -1;
}
static long
try_vm_write_other(void)
{
	char some[8] = {0};
	struct iovec from = {some, 8}, to = {(void *)8, 8};

	return CALL(SYS_process_vm_writev, OTHER, &from, 1, &to, 1, 0) < 0 && errno == EFAULT ? 0 : -1;
}
static long
try_mem_of_other(void)
{
	return open_close(proc_of_other("mem"), O_RDONLY);
}
static long
try_environ_of_other(void)
{
	return read_some(proc_of_other("environ"));
}
static long
try_see_other(void)
{
	return access(proc_of_other("stat"), F_OK);
}
static long
try_kcmp_other(void)
{
	return CALL(SYS_kcmp, getpid(), OTHER, 1, 0, 0);
}
static long
try_set_user(void)
{
	return CALL(SYS_setuid, geteuid() ? 0 : 1);
}
static long
try_set_groups(void)
{
	return CALL(SYS_setgroups, 1, (gid_t[]){1});
}
static long
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

static long
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
static long
try_cpu_for_ever(void)
{
	return has_no_limit(RLIMIT_CPU);
}
static long
try_memory_for_ever(void)
{
	return has_no_limit(RLIMIT_AS);
}
static long
try_core_file(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_max == 0 ? -1 : 0;
}

/* ---- others ---- */
static long
try_inherited_file(void)
{
	char one;

	return pread(INHERITED, &one, 1, 0);
}
static long
try_inherited_secret(void)
{
	return getenv("KORCH_PROBE_SECRET") || getenv("PROBE_SECRET") ? 0 : -1;
}
static long
try_shm_sysv(void)
{
	return shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
}
static long
try_msg_sysv(void)
{
	return msgget(IPC_PRIVATE, IPC_CREAT | 0600);
}
static long
try_sem_sysv(void)
{
	return semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
}
static long
try_mq_posix(void)
{
	return CALL(SYS_mq_open, "korch-probe", O_RDWR | O_CREAT, 0600, NULL);
}
static long
try_net_inet(void)
{
	return sock(AF_INET, SOCK_STREAM);
}
static long
try_net_inet6(void)
{
	return sock(AF_INET6, SOCK_STREAM);
}
static long
try_net_unix(void)
{
	return sock(AF_UNIX, SOCK_STREAM);
}
static long
try_net_netlink(void)
{
	return sock(AF_NETLINK, SOCK_RAW);
}
static long
try_net_packet(void)
{
	return sock(AF_PACKET, SOCK_RAW);
}
static long
try_net_vsock(void)
{
	return sock(AF_VSOCK, SOCK_STREAM);
}
static long
try_net_alg(void)
{
	return sock(AF_ALG, SOCK_SEQPACKET);
}
static long
try_net_pair(void)
{
	int pair[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}
static long
try_net_abstract(void)
{
	return connect_unix(ABSTRACT, sizeof(ABSTRACT) - 1, 1);
}
static long
try_net_daemon(void)
{
	return connect_unix(SOCKET, sizeof(SOCKET), 0);
}
static long
try_pass_file(void)
{
	char one = 0, space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec io = {&one, 0};
	struct msghdr m = {
	    .msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};

	CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
	return sendmsg(0, &m, MSG_NOSIGNAL);
}

/* Every call by its number, with arguments that no row allows: -1 for each.  Those of a row without a
 * condition, and those that end the process, are left out by the list that the test makes. */
static const unsigned short swept[] = {SWEPT};
static long
try_sweep(void)
{
	for (size_t i = 0; i < sizeof(swept) / sizeof(swept[0]); i++)
		if (CALL(swept[i], -1L, -1L, -1L, -1L, -1L, -1L) != -1 ||
		    (errno != EPERM && errno != ENOSYS)) {
			(void)dprintf(2, "probe: call %d is allowed: %s\n", (int)swept[i], strerror(errno));
			return swept[i];
		}
	errno = EPERM;
	return -1;
}

#ifdef AS_KERNELS
#define PROBE(ID, WORDS, C, M, P)                                                                            \
	void ID##_p0(void *const *b, char *s, char *l, int64_t lo, int64_t hi);                              \
	void ID##_p0(void *const *b, char *s, char *l, int64_t lo, int64_t hi)                               \
	{                                                                                                    \
		const float *x = b[0];                                                                       \
		float *y = b[1];                                                                             \
		long rc = try(try_##ID);                                                                     \
		(void)s, (void)l;                                                                            \
		for (int64_t i = lo; i < hi; i++)                                                            \
			y[i] = rc < 0 ? -1 : x[i] > 0 ? x[i] : 0;                                            \
	}
#define DENIED(ID, WORDS) PROBE(ID, WORDS, "", "", "")
DENIED(sweep, "")
#include "probe.def"
#else
static const struct {
	const char *name;
	long (*run)(void);
} tries[] = {
#define PROBE(ID, WORDS, C, M, P) {#ID, try_##ID},
#define DENIED(ID, WORDS) {#ID, try_##ID},
#include "probe.def"
    {"sweep", try_sweep},
};
enum { N = sizeof(tries) / sizeof(tries[0]) };

/* In place of gcc: a line for each that was allowed, as the object. */
static int
as_compiler(int argc, char **argv)
{
	const char *out = NULL;
	FILE *f;

	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "-o") == 0)
			out = argv[i + 1];
	if (!out) { /* its version is asked for */
		(void)puts("probe 1");
		return 0;
	}
	f = fopen(out, "w");
	for (int i = 0; f && i < N; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			long rc = try(tries[i].run);

			if (rc < 0)
				(void)fprintf(stderr, "%s: %s\n", tries[i].name, strerror(errno));
			_exit(rc < 0 ? 1 : 0);
		}
		(void)waitpid(pid, &status, 0);
		if (pid < 0)
			return 1;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			(void)fprintf(f, "%s\n", tries[i].name);
	}
	return f && fprintf(f, "whole\n") > 0 && fclose(f) == 0 ? 0 : 1;
}

/* In place of the planner: the model is called by the number of what to try. */
static int
as_planner(void)
{
	DIR *d = opendir(in_scratch("../model"));
	struct dirent *e;
	int at = -1;

	while (d && (e = readdir(d)) != NULL)
		if (e->d_name[0] == 'p' && sscanf(e->d_name, "p%d.onnx", &at) == 1)
			break;
	if (at < 0 || at >= N)
		return 9;
	(void)dprintf(2, "%s\n", try(tries[at].run) < 0 ? "probe denied" : "probe allowed");
	return 8;
}

int
main(int argc, char **argv)
{
	return argc > 1 ? as_compiler(argc, argv) : as_planner();
}
#endif
