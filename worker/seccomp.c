/* worker/seccomp.c: what the measuring child gives up before the first generated code runs: other
 * programs, sockets, files to write, other processes, rights.  A list of what is refused, not of
 * what is allowed: C libraries differ in what they call, and generated code calls nothing at
 * all.  Starting a program or opening a socket ends the process, so that it shows in the row of
 * the kernel; the rest fails with EPERM. */
#include "measure_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* The sanitizers' own last words need what is refused here. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#if defined(__x86_64__)
#define MY_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MY_ARCH AUDIT_ARCH_AARCH64
#endif

/* Calls that end the process. */
static const unsigned fatal[] = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept4,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_bpf,
    SYS_perf_event_open,
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
};
/* Calls that fail. */
static const unsigned refused[] = {
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_truncate,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_unshare,
    SYS_setns,
    SYS_kill,
    SYS_tkill,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_reboot,
    SYS_swapon,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_personality,
    SYS_setxattr,
    SYS_removexattr,
#ifdef SYS_unlink
    SYS_unlink,
    SYS_rename,
    SYS_link,
    SYS_symlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_mknod,
    SYS_chmod,
    SYS_chown,
    SYS_creat,
    SYS_fork,
    SYS_vfork,
#endif
};

enum { WRITING = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, MAX_PROGRAM = 256 };

struct program {
	struct sock_filter f[MAX_PROGRAM];
	unsigned short n;
};

static void
add(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (p->n == MAX_PROGRAM)
		bug("the filter is longer than %d", MAX_PROGRAM);
	p->f[p->n++] = (struct sock_filter){code, jt, jf, k};
}

static void
load(struct program *p, size_t offset)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* If the loaded word is k, the verdict falls. */
static void
when_equal(struct program *p, uint32_t k, uint32_t verdict)
{
	add(p, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
	add(p, BPF_RET | BPF_K, verdict, 0, 0);
}

/* Opening for writing, whose flags are argument `arg`. */
static void
refuse_writing(struct program *p, unsigned call, size_t arg)
{
	load(p, offsetof(struct seccomp_data, nr));
	add(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3);
	load(p, offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t));
	add(p, BPF_JMP | BPF_JSET | BPF_K, WRITING, 0, 1);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

static void
make_program(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	add(p, BPF_JMP | BPF_JEQ | BPF_K, MY_ARCH, 1, 0);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	load(p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
	/* The 32-bit-pointer calls have numbers of their own. */
	add(p, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
#endif
	for (size_t i = 0; i < COUNT_OF(fatal); i++)
		when_equal(p, fatal[i], SECCOMP_RET_KILL_PROCESS);
	for (size_t i = 0; i < COUNT_OF(refused); i++)
		when_equal(p, refused[i], SECCOMP_RET_ERRNO | EPERM);
#ifdef SYS_open
	refuse_writing(p, SYS_open, 1);
#endif
	refuse_writing(p, SYS_openat, 2);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

bool
seccomp_enter(void)
{
	struct program p = {.n = 0};
	struct sock_fprog whole = {.filter = p.f};

	make_program(&p);
	whole.len = p.n;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) == 0;
}
#else
bool
seccomp_enter(void)
{
	return false;
}
#endif
