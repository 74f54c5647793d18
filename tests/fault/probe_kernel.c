/* tests/fault/probe_kernel.c: the tries with devices, mounts and the kernel, and with every call by its
 * number. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#define NO_PLACE "/no/such/place"
static long
was_let(long rc)
{
	return rc < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS) ? -1 : 0;
}

/* ---- the tries ---- */
long
try_dev_mem(void)
{
	return probe_open("/dev/mem", O_RDONLY);
}
long
try_dev_kmsg(void)
{
	return probe_open("/dev/kmsg", O_RDONLY);
}
long
try_dev_disk(void)
{
	return probe_open(DISK, O_RDONLY);
}
long
try_dev_fuse(void)
{
	return probe_open("/dev/fuse", O_RDWR);
}
long
try_dev_ptmx(void)
{
	return probe_open("/dev/ptmx", O_RDWR | O_NOCTTY);
}
long
try_dev_tty(void)
{
	return probe_open("/dev/tty", O_RDWR | O_NOCTTY);
}
long
try_dev_shm(void)
{
	return probe_make("/dev/shm/korch-probe-14");
}
/* a terminal of the test's own is not there: that it gets as far as the kernel is enough */
long
try_type_into_terminal(void)
{
	return was_let(ioctl(2, TIOCSTI, "x"));
}
/* These would do harm where they work: they are asked for what is not there, and how they fail tells. */
long
try_mount(void)
{
	return was_let(mount("x", NO_PLACE, "tmpfs", 0, NULL));
}
long
try_umount(void)
{
	return was_let(umount2(NO_PLACE, MNT_DETACH));
}
long
try_fsopen(void)
{
	return CALL(FSOPEN, "proc", 0);
}
long
try_open_tree(void)
{
	return CALL(OPEN_TREE, AT_FDCWD, "/", 0);
}
long
try_mount_setattr(void)
{
	uint64_t attr[4] = {0, 1, 0, 0};

	return was_let(CALL(MOUNT_SETATTR, AT_FDCWD, NO_PLACE, 0, attr, sizeof(attr)));
}
long
try_pivot_root(void)
{
	return was_let(CALL(SYS_pivot_root, NO_PLACE, NO_PLACE));
}
long
try_chroot(void)
{
	return was_let(chroot(NO_PLACE));
}
long
try_unshare_user(void)
{
	return unshare(CLONE_NEWUSER);
}
long
try_setns(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : setns(fd, 0);
}
long
try_io_uring(void)
{
	char params[256] = {0};

	return CALL(IO_URING_SETUP, 4, params);
}
long
try_bpf(void)
{
	char attr[128] = {0};

	return CALL(SYS_bpf, 0, attr, sizeof(attr));
}
long
try_perf(void)
{
	char attr[128] = {1, 0, 0, 0, 112};

	return CALL(SYS_perf_event_open, attr, 0, -1, -1, 0);
}
long
try_userfaultfd(void)
{
	return CALL(SYS_userfaultfd, 1);
}
long
try_keyring(void)
{
	return CALL(SYS_add_key, "user", "x", "y", 1, -3);
}
long
try_kernel_log(void)
{
	char some[64];

	return CALL(SYS_syslog, 3, some, sizeof(some));
}
long
try_load_module(void)
{
	return CALL(SYS_init_module, "", 0, "");
}
long
try_set_clock(void)
{
	return CALL(SYS_adjtimex, (char[256]){0});
}
long
try_set_host_name(void)
{
	return was_let(CALL(SYS_sethostname, "x", -1));
}
long
try_personality(void)
{
	return CALL(SYS_personality, 0xffffffff);
}
long
try_landlock(void)
{
	return CALL(LANDLOCK_CREATE, NULL, 0, 1);
}

/* Every call by its number, with arguments that no row allows: -1 for each.  Those of a row without a
 * condition, and those that end the process, are left out by the list that the test makes. */
static const unsigned short swept[] = {SWEPT};
long
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
