/* worker/cpu_steal.c: how long a process wanted a core and got none, by the kernel's own account of its
 * threads. */
#include "measure_int.h"

#include <dirent.h>
#include <stdio.h>

/* The second number of schedstat: nanoseconds spent waiting on a run queue. */
static int64_t
wait_of(const char *folder, const char *thread)
{
	char path[400];
	long long ran, waited = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s/schedstat", folder, thread);
	f = fopen(path, "re");
	if (!f)
		return 0; /* it has ended, or this system keeps no such account */
	if (fscanf(f, "%lld %lld", &ran, &waited) != 2)
		waited = 0;
	(void)fclose(f);
	return waited;
}

/* What a thread has started: the jail stands between this process and the one that works. */
static int64_t
starved_children(const char *folder, const char *thread)
{
	char path[400];
	int64_t sum = 0;
	long child;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s/children", folder, thread);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fscanf(f, "%ld", &child) == 1)
		sum += stolen_ns(child);
	(void)fclose(f);
	return sum;
}

int64_t
stolen_ns(long pid)
{
	char folder[64];
	int64_t sum = 0;
	DIR *d;

	(void)snprintf(folder, sizeof(folder), "/proc/%ld/task", pid);
	d = opendir(folder);
	if (!d)
		return 0;
	for (struct dirent *t; (t = readdir(d)) != NULL;)
		if (t->d_name[0] != '.')
			sum += wait_of(folder, t->d_name) + starved_children(folder, t->d_name);
	(void)closedir(d);
	return sum;
}
