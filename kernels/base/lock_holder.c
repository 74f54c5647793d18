/* kernels/base/lock_holder.c: who holds a lock.  Its holder writes that into the file; the kernel's own list
 * is asked whether it is so, because a file may keep the words of one that was killed. */
#include "hostlock.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { WORDS = 160, NAME = 64 };

static void
user_name(uid_t uid, char out[NAME])
{
	struct passwd pw, *found = NULL;
	char room[4096];

	if (getpwuid_r(uid, &pw, room, sizeof(room), &found) == 0 && found)
		(void)snprintf(out, NAME, "%s", pw.pw_name);
	else
		(void)snprintf(out, NAME, "user %u", (unsigned)uid);
}

void
lock_holder_write(int fd)
{
	char user[NAME], words[WORDS];
	int n;

	user_name(geteuid(), user);
	n = snprintf(
	    words, sizeof(words), "%ld %s, %s\n", (long)getpid(), user, program_invocation_short_name);
	/* A full disk keeps it from being said, not from being held: the kernel's list has the number. */
	if (ftruncate(fd, 0) == 0 && pwrite(fd, words, MIN_OF((size_t)n, sizeof(words) - 1), 0) < 0)
		(void)ftruncate(fd, 0);
}

/* Others may have written it: it speaks to no terminal. */
static void
make_plain(char *text)
{
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

/* What the file says: a number and words. */
static long
read_words(int fd, char words[WORDS])
{
	char text[WORDS], *end;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long pid;

	text[MAX_OF(n, (ssize_t)0)] = '\0';
	pid = strtol(text, &end, 10);
	end += *end == ' ';
	end[strcspn(end, "\n")] = '\0';
	make_plain(end);
	(void)snprintf(words, WORDS, "%s", end);
	return pid;
}

/* By /proc/locks; 0: not to be seen, because it is in another namespace of processes, say. */
static long
kernel_holder(const struct stat *st, long said)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256];
	long found = 0;

	while (f && !found && fgets(line, sizeof(line), f)) {
		long pid;
		unsigned long ino;
		unsigned major_no, minor_no;

		if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &pid, &major_no, &minor_no, &ino) != 4 ||
		    ino != (unsigned long)st->st_ino)
			continue;
		/* some file systems have other numbers there than stat tells */
		if (pid > 0 && (pid == said || makedev(major_no, minor_no) == st->st_dev))
			found = pid;
	}
	if (f)
		(void)fclose(f);
	return found;
}

static void
name_of_process(long pid, char *out, size_t n)
{
	char path[64], comm[NAME] = "", user[NAME] = "";
	struct stat st;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%ld", pid);
	if (stat(path, &st) != 0) {
		(void)snprintf(out, n, "what pid %ld, which has ended, started", pid);
		return;
	}
	user_name(st.st_uid, user);
	(void)snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	f = fopen(path, "re");
	if (f) {
		if (!fgets(comm, sizeof(comm), f))
			comm[0] = '\0';
		(void)fclose(f);
	}
	comm[strcspn(comm, "\n")] = '\0';
	make_plain(comm);
	(void)snprintf(out, n, "pid %ld (%s, %s)", pid, user, comm[0] ? comm : "?");
}

void
lock_holder_name(int fd, char *out, size_t n)
{
	char words[WORDS] = "";
	long said = read_words(fd, words), real;
	struct stat st;

	real = fstat(fd, &st) == 0 ? kernel_holder(&st, said) : 0;
	if (real > 0 && real != said)
		name_of_process(real, out, n);
	else if (said > 0)
		(void)snprintf(out, n, "pid %ld (%s)%s", said, words, real ? "" : ", as it says itself");
	else
		(void)snprintf(out, n, "a process that cannot be seen from here");
}
