/* tests/fault/tracer.c: see tracer.h. */
#include "tracer.h"

#include "../../kernels/jail/jail.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TRACED = 4096 };
struct table {
	struct traced *of[MAX_TRACED];
	uint32_t n;
	const struct tracer_calls *calls;
};

static struct traced *
known(const struct table *t, pid_t tid)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->of[i]->tid == tid)
			return t->of[i];
	return NULL;
}

/* What it has begun as: what `parent` is; NULL: nobody that is looked at. */
static struct traced *
add(struct table *t, pid_t tid, const struct traced *parent)
{
	struct traced *c = heap_alloc(sizeof(*c));

	if (t->n == MAX_TRACED)
		bug("more than %d threads at a time", MAX_TRACED);
	*c = parent ? *parent : (struct traced){.jail = -1};
	c->tid = tid;
	return t->of[t->n++] = c;
}

/* Who began a thread that stops before the word of it has come: that one waits to say so, and is what it was
 * then.  Of a process the first thread, or the process that forked. */
static const struct traced *
parent_of(const struct table *t, pid_t tid)
{
	char path[64], line[128];
	int group = 0, parent = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %d", &group) != 1)
			(void)sscanf(line, "PPid: %d", &parent);
	if (f)
		(void)fclose(f);
	return known(t, group != tid ? group : parent);
}

static struct traced *
find(struct table *t, pid_t tid)
{
	struct traced *k = known(t, tid);

	return k ? k : add(t, tid, parent_of(t, tid));
}

static void
forget(struct table *t, pid_t tid)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->of[i]->tid == tid) {
			free(t->of[i]);
			t->of[i] = t->of[--t->n];
			return;
		}
}

/* korch-jail's first word is the jail. */
static int
jail_of_command(pid_t tid)
{
	char path[64], words[256] = "";
	FILE *f;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)tid);
	f = fopen(path, "re");
	n = f ? fread(words, 1, sizeof(words) - 1, f) : 0;
	if (f)
		(void)fclose(f);
	for (int j = 0; j < JAIL_COUNT && n > strlen(words) + 1; j++)
		if (strcmp(words + strlen(words) + 1, jail_name((enum jail)j)) == 0)
			return j;
	return -1;
}

static void
has_become(struct traced *t)
{
	char path[64], file[4096];
	const char *slash;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)t->tid);
	n = readlink(path, file, sizeof(file) - 1);
	file[n > 0 ? n : 0] = '\0';
	slash = strrchr(file, '/');
	(void)snprintf(t->program, sizeof(t->program), "%.63s", slash ? slash + 1 : file);
	if (t->is_inside)
		return;
	if (strcmp(t->program, "korch-jail") == 0)
		t->jail = jail_of_command(t->tid);
	else
		t->is_inside = t->jail >= 0;
}

static void
has_begun(struct table *t, const struct traced *parent)
{
	unsigned long child = 0;

	if (ptrace(PTRACE_GETEVENTMSG, parent->tid, NULL, &child) == 0 && !known(t, (pid_t)child))
		(void)add(t, (pid_t)child, parent);
}

static void
has_called(struct table *t, const struct traced *who)
{
	struct __ptrace_syscall_info info = {0};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, who->tid, (void *)sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	t->calls->call(t->calls->self, who, (uint32_t)info.entry.nr, (const uint64_t *)info.entry.args);
}

/* What a stopped thread is to be told when it goes on: a signal, or nothing. */
static int
look_at(struct table *t, struct traced *who, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80)) {
		has_called(t, who);
		return 0;
	}
	if (event == PTRACE_EVENT_EXEC)
		has_become(who);
	else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
		has_begun(t, who);
	/* a new thread's first stop, and those of its group */
	return event || sig == SIGSTOP || sig == SIGTRAP ? 0 : sig;
}

static pid_t
start(char *const *argv)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	    PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
			_exit(126);
		(void)execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options) != 0)
		return -1;
	return ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0 ? pid : -1;
}

bool
tracer_run(char *const *argv, const struct tracer_calls *calls, int *status)
{
	struct table *t = heap_alloc(sizeof(*t));
	pid_t first = start(argv), tid;
	int now;

	t->calls = calls;
	if (first < 0) {
		free(t);
		return false;
	}
	(void)find(t, first);
	while (t->n && (tid = waitpid(-1, &now, __WALL)) > 0) {
		if (!WIFSTOPPED(now)) {
			forget(t, tid);
			if (tid != first)
				continue;
			*status = now;
			for (uint32_t i = 0; i < t->n; i++)
				(void)kill(t->of[i]->tid, SIGKILL);
			continue;
		}
		now = look_at(t, find(t, tid), now);
		(void)ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(long)now);
	}
	while (t->n)
		forget(t, t->of[0]->tid);
	free(t);
	return true;
}

void
tracer_text(const struct traced *t, uint64_t at, char *out, size_t cap)
{
	struct iovec to = {out, cap - 1}, from = {(void *)(uintptr_t)at, cap - 1};
	size_t page = 4096 - at % 4096;
	ssize_t n;

	/* not beyond a page that may be the last */
	from.iov_len = MIN_OF(from.iov_len, page);
	n = process_vm_readv(t->tid, &to, 1, &from, 1, 0);
	out[n > 0 ? n : 0] = '\0';
}
