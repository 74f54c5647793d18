/* tests/fault/probe_files.c: the tries with files and folders. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

long
probe_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}

/* A file that was made is removed, by whoever may. */
long
probe_make(const char *path)
{
	long rc = probe_open(path, O_WRONLY | O_CREAT);

	if (rc >= 0)
		(void)unlink(path);
	return rc;
}

long
probe_read(const char *path)
{
	char some[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long n = fd >= 0 ? read(fd, some, sizeof(some)) : -1;

	if (fd >= 0)
		(void)close(fd);
	return n > 0 ? n : -1;
}

const char *
probe_scratch(const char *name)
{
	static char path[4200];
	const char *dir = getenv("TMPDIR");

	(void)snprintf(path, sizeof(path), "%s/%s", dir ? dir : "/", name);
	return path;
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

/* ---- the tries ---- */
long
try_read_passwd(void)
{
	return probe_read("/etc/passwd");
}
long
try_read_tokens(void)
{
	return probe_read(TOKENS);
}
long
try_read_tokens_openat2(void)
{
	struct open_how how = {.flags = O_RDONLY};

	return CALL(OPENAT2, AT_FDCWD, TOKENS, &how, sizeof(how));
}
long
try_read_above_root(void)
{
	return probe_read("/../../../../../.." TOKENS);
}
long
try_read_store(void)
{
	return probe_read(STORE "/korch.db");
}
long
try_read_other_job(void)
{
	return probe_read(STORE "/jobs/9999/model/secret");
}
long
try_list_store(void)
{
	return list(STORE);
}
long
try_read_library(void)
{
	return probe_read(LIBRARY);
}
long
try_read_header(void)
{
	return probe_read("/usr/include/stdio.h");
}
long
try_read_cores(void)
{
	return probe_read("/sys/devices/system/cpu/possible");
}
long
try_older_fstat(void)
{
	struct stat st;

	return CALL(SYS_fstat, STDERR_FILENO, &st);
}
long
try_read_block_devices(void)
{
	return list("/sys/block");
}
long
try_read_kernel_settings(void)
{
	return probe_read("/proc/sys/kernel/core_pattern");
}
long
try_read_own_proc(void)
{
	return probe_read("/proc/self/status");
}
long
try_write_kernel_settings(void)
{
	return probe_open("/proc/sys/kernel/core_pattern", O_WRONLY);
}
long
try_write_oom(void)
{
	return probe_open("/proc/self/oom_score_adj", O_WRONLY);
}
long
try_write_outside(void)
{
	return probe_make("/tmp/korch-probe-1");
}
long
try_write_outside_openat2(void)
{
	struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 0600};

	return CALL(OPENAT2, AT_FDCWD, "/tmp/korch-probe-2", &how, sizeof(how));
}
long
try_write_outside_creat(void)
{
	return probe_make(TOKENS "-2");
}
long
try_write_root(void)
{
	return probe_make("/korch-probe-3");
}
long
try_write_proc_fd(void)
{
	return probe_open("/proc/self/fd/1", O_WRONLY);
}
long
try_write_scratch(void)
{
	return probe_make(probe_scratch("probe-4"));
}
long
try_write_program(void)
{
	return probe_open("/proc/self/exe", O_WRONLY);
}
long
try_write_model(void)
{
	return probe_open(probe_scratch("../model/" MODEL_NAME), O_WRONLY);
}
long
try_make_folder(void)
{
	return mkdir("/tmp/korch-probe-5", 0700);
}
long
try_make_folder_scratch(void)
{
	long rc = mkdir(probe_scratch("probe-6"), 0700);

	(void)rmdir(probe_scratch("probe-6"));
	return rc;
}
long
try_link_tokens(void)
{
	return link(TOKENS, probe_scratch("probe-7"));
}
long
try_symlink_scratch(void)
{
	return symlink(TOKENS, probe_scratch("probe-8"));
}
long
try_make_fifo(void)
{
	return mkfifo(probe_scratch("probe-9"), 0600);
}
long
try_make_device(void)
{
	return mknod(probe_scratch("probe-10"), S_IFCHR | 0600, 0x103);
}
long
try_make_socket_file(void)
{
	return mknod(probe_scratch("probe-11"), S_IFSOCK | 0600, 0);
}
long
try_remove_tokens(void)
{
	return unlink(TOKENS);
}
long
try_rename_tokens(void)
{
	return rename(TOKENS, TOKENS "-3");
}
long
try_truncate_tokens(void)
{
	return truncate(TOKENS, 0);
}
long
try_chmod_tokens(void)
{
	return chmod(TOKENS, 0666);
}
long
try_fchmodat2_tokens(void)
{
	return CALL(FCHMODAT2, AT_FDCWD, TOKENS, 0666, 0);
}
long
try_chown_tokens(void)
{
	return chown(TOKENS, 1, 1);
}
long
try_touch_tokens(void)
{
	return utimensat(AT_FDCWD, TOKENS, NULL, 0);
}
long
try_set_id_scratch(void)
{
	int fd = open(probe_scratch("probe-12"), O_WRONLY | O_CREAT, 0600);
	long rc =
	    fd >= 0 && (fchmod(fd, 04755) == 0 || chmod(probe_scratch("probe-12"), 04755) == 0) ? 0 : -1;

	if (fd >= 0)
		(void)close(fd);
	(void)unlink(probe_scratch("probe-12"));
	return rc;
}
long
try_xattr_tokens(void)
{
	return setxattr(TOKENS, "user.x", "1", 1, 0);
}
long
try_file_handle(void)
{
	struct {
		struct file_handle h;
		char more[128];
	} of = {.h = {.handle_bytes = 128}};
	int mount;

	return name_to_handle_at(AT_FDCWD, "/", &of.h, &mount, 0);
}
long
try_large_file(void)
{
	int fd = open(probe_scratch("probe-13"), O_RDWR | O_CREAT, 0600);
	long rc = write_much(fd);

	if (fd >= 0)
		(void)close(fd);
	(void)unlink(probe_scratch("probe-13"));
	return rc;
}
long
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
long
try_memory_file(void)
{
	int fd = memfd_create("x", MFD_CLOEXEC);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}
long
try_secret_memory(void)
{
	return CALL(MEMFD_SECRET, 0);
}
