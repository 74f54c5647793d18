/* worker/space.c: the measuring child's memory: what is in use, and its limit. */
#include "measure_int.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

size_t
space_in_use(size_t *resident)
{
	unsigned long pages = 0, in_memory = 0;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%lu %lu", &pages, &in_memory) != 2)
		pages = in_memory = 0;
	if (f)
		(void)fclose(f);
	*resident = in_memory * page;
	return pages * page;
}

void
space_limit(uint64_t more_bytes)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	size_t resident;
	rlim_t space = (rlim_t)(space_in_use(&resident) + more_bytes);
	const struct rlimit as = {space, space};

	(void)setrlimit(RLIMIT_AS, &as);
#else
	(void)more_bytes;
#endif
}
