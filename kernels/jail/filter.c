/* kernels/jail/filter.c: the table's calls as a filter that the kernel runs on each call of the process and
 * of all that it starts.
 *
 * One block for each call: its number, then its rows, those that refuse first; behind all blocks the answer
 * for what is in no row.  Calls without a condition cost nothing on kernels that remember their verdict
 * (5.11). */
#include "jail_int.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MY_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MY_ARCH AUDIT_ARCH_AARCH64
#else
#error "kernels/jail/filter.c: tell it the number of this architecture"
#endif
#ifndef SECCOMP_FILTER_FLAG_TSYNC
#define SECCOMP_FILTER_FLAG_TSYNC 1UL
#endif
#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW 4UL
#endif

/* Calls above are younger than this table: who meets "no such call" has another way, who meets "not
 * permitted" gives up. */
enum { NEWEST_KNOWN = 447, OTHER_ABI = 0x40000000 };

static void
add(struct jail_filter *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (p->n == FILTER_MAX)
		bug("the filter is longer than %d", FILTER_MAX);
	p->f[p->n++] = (struct sock_filter){code, jt, jf, k};
}

static void
load(struct jail_filter *p, size_t offset)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void
answer(struct jail_filter *p, enum jail_verdict v)
{
	static const uint32_t action[] = {[VERDICT_ALLOW] = SECCOMP_RET_ALLOW,
	    [VERDICT_REFUSE] = SECCOMP_RET_ERRNO | EPERM,
	    [VERDICT_LACK] = SECCOMP_RET_ERRNO | ENOSYS,
	    [VERDICT_NONE] = SECCOMP_RET_ERRNO | ENOENT,
	    [VERDICT_KILL] = SECCOMP_RET_KILL_PROCESS};

	add(p, BPF_RET | BPF_K, action[v], 0, 0);
}

/* Half of an argument: (half & mask) == value goes on behind; otherwise the verdict is passed over. */
static void
test_half(struct jail_filter *p, const struct jail_when *w, int half, uint64_t want, uint8_t past)
{
	uint32_t mask = (uint32_t)(w->mask >> (32 * half));
	size_t at = offsetof(struct seccomp_data, args) + w->arg * sizeof(uint64_t) + 4 * (size_t)half;

	load(p, at); /* both architectures are little-endian */
	add(p, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(want >> (32 * half)) & mask, 0, past);
}

static void
add_row(struct jail_filter *p, const struct jail_call *c, uint64_t self)
{
	uint64_t want = c->when.is_self ? self : c->when.value;

	if (c->when.mask && c->when.is_wide)
		test_half(p, &c->when, 1, want, 4);
	if (c->when.mask)
		test_half(p, &c->when, 0, want, 1);
	answer(p, c->verdict);
}

static bool
is_first_of_its_call(enum jail j, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (jail_calls[k].number == jail_calls[i].number && jail_calls[k].jails & (1u << j))
			return false;
	return (jail_calls[i].jails & (1u << j)) != 0;
}

/* All rows of one call. */
static void
add_call(struct jail_filter *p, enum jail j, uint32_t number, uint64_t self)
{
	unsigned short start = p->n;
	bool is_settled = false, allows = false;

	add(p, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 0);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < jail_n_calls && !is_settled; i++) {
			const struct jail_call *c = &jail_calls[i];

			if (c->number != number || !(c->jails & (1u << j)) ||
			    (c->verdict == VERDICT_REFUSE) != (round == 0))
				continue;
			add_row(p, c, self);
			is_settled = !c->when.mask;
			allows = allows || c->verdict == VERDICT_ALLOW;
		}
	if (!is_settled)
		answer(p, VERDICT_REFUSE);
	if (p->n - start - 1 > UINT8_MAX)
		bug("call %u has too many rows", number);
	p->f[start].jf = (uint8_t)(p->n - start - 1);
	p->n_calls += allows;
}

static void
begin(struct jail_filter *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	add(p, BPF_JMP | BPF_JEQ | BPF_K, MY_ARCH, 1, 0);
	answer(p, VERDICT_KILL);
	load(p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
	/* the same calls under other numbers, with pointers of 32 bits */
	add(p, BPF_JMP | BPF_JGE | BPF_K, OTHER_ABI, 0, 1);
	answer(p, VERDICT_KILL);
#endif
}

void
jail_filter_make(enum jail j, uint64_t self, struct jail_filter *out)
{
	out->n = 0;
	out->n_calls = 0;
	begin(out);
	for (uint32_t i = 0; i < jail_n_calls; i++)
		if (is_first_of_its_call(j, i))
			add_call(out, j, jail_calls[i].number, self);
	add(out, BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1);
	answer(out, VERDICT_LACK);
	answer(out, VERDICT_REFUSE);
}

/* Code behind a filter must run as fast as the same code in a plan: kernels before 5.16 take speculation away
 * from it unless told not to.  Those before 4.17 know no such flag. */
bool
jail_filter_enter(const struct jail_filter *f)
{
	struct sock_fprog whole = {.len = f->n, .filter = (struct sock_filter *)(uintptr_t)f->f};

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* in a jail it is set, and not to be set */
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		   SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &whole) == 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) == 0;
}

void
jail_lock(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their last words are a program's */
	struct jail_filter f = {.n = 0};

	begin(&f);
	add(&f, BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 1, 0);
	add(&f, BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 1);
	answer(&f, VERDICT_KILL);
	answer(&f, VERDICT_ALLOW);
	if (!jail_filter_enter(&f))
		return; /* a kernel without filters: the jail, if there is one, said so */
#endif
}
