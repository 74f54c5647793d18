/* tests/unit/host_test.c: what cgroups of both versions leave a process, read from the files that hosts and
 * containers have. */
#include "../../kernels/base/host.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FILES = 12 };
#define V2 "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                                                   \
	"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"                                         \
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"               \
	"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:1 master:2 - cgroup cgroup rw,memory\n"       \
	"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
/* As Docker shows them: the container's own folder is mounted at the top. */
#define DOCKER                                                                                               \
	"700 699 0:29 /docker/5d1c /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu\n"                    \
	"701 699 0:32 /docker/5d1c /sys/fs/cgroup/memory ro,nosuid master:11 - cgroup cgroup rw,memory\n"

struct host {
	const char *what;
	struct {
		const char *path, *text;
	} file[MAX_FILES];
	uint32_t cores;
	uint64_t bytes;
};

static bool
read_file(void *self, struct arena *a, const char *path, size_t max_bytes, struct bytes *out, struct err *e)
{
	const struct host *h = self;

	for (int i = 0; i < MAX_FILES && h->file[i].path; i++)
		if (strcmp(h->file[i].path, path) == 0) {
			size_t n = strlen(h->file[i].text);

			assert_true(n <= max_bytes);
			*out = (struct bytes){arena_dup(a, h->file[i].text, n), n};
			return true;
		}
	return err_set(e, ERR_IO, "%s: is not there", path);
}

static const struct host hosts[] = {
    {"nothing can be read", {{0}}, UINT32_MAX, UINT64_MAX},
    {"version 2, no limits",
	{{"/proc/self/cgroup", "0::/user.slice/a.scope\n"}, {"/proc/self/mountinfo", V2},
	    {"/sys/fs/cgroup/user.slice/a.scope/cpu.max", "max 100000\n"},
	    {"/sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n"}},
	UINT32_MAX, UINT64_MAX},
    {"version 2, the folder's own",
	{{"/proc/self/cgroup", "0::/a\n"}, {"/proc/self/mountinfo", V2},
	    {"/sys/fs/cgroup/a/cpu.max", "400000 100000\n"}, {"/sys/fs/cgroup/a/memory.max", "1073741824\n"}},
	4, 1073741824},
    {"version 2, one above is less",
	{{"/proc/self/cgroup", "0::/a/b/c\n"}, {"/proc/self/mountinfo", V2},
	    {"/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n"},
	    {"/sys/fs/cgroup/a/cpu.max", "50000 10000\n"}, {"/sys/fs/cgroup/a/b/memory.max", "2048\n"},
	    {"/sys/fs/cgroup/a/memory.max", "4096\n"}},
	5, 2048},
    {"version 2, a part of a core, and of one more",
	{{"/proc/self/cgroup", "0::/a/b\n"}, {"/proc/self/mountinfo", V2},
	    {"/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"}},
	1, UINT64_MAX},
    {"version 2, less than a core",
	{{"/proc/self/cgroup", "0::/\n"}, {"/proc/self/mountinfo", V2},
	    {"/sys/fs/cgroup/cpu.max", "20000 100000\n"}},
	1, UINT64_MAX},
    {"version 1, beside an empty version 2",
	{{"/proc/self/cgroup", "9:name=systemd:/\n4:memory:/m\n3:cpu,cpuacct:/c/d\n0::/\n"},
	    {"/proc/self/mountinfo", V1}, {"/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_quota_us", "-1\n"},
	    {"/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_period_us", "100000\n"},
	    {"/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "300000\n"},
	    {"/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n"},
	    {"/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "536870912\n"},
	    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
	3, 536870912},
    {"version 1 in a container that sees its host's names",
	{{"/proc/self/cgroup", "5:memory:/docker/5d1c\n2:cpu:/docker/5d1c/sub\n"},
	    {"/proc/self/mountinfo", DOCKER}, {"/sys/fs/cgroup/cpu/sub/cpu.cfs_quota_us", "400000\n"},
	    {"/sys/fs/cgroup/cpu/sub/cpu.cfs_period_us", "100000\n"},
	    {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
	    {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
	    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n"}},
	2, 4194304},
    {"a folder that is not below what is mounted",
	{{"/proc/self/cgroup", "2:cpu:/docker/5d1c0ther\n"}, {"/proc/self/mountinfo", DOCKER},
	    {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "600000\n"},
	    {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
	6, UINT64_MAX},
    {"nonsense",
	{{"/proc/self/cgroup", "0::\n::\n0::/a\n"}, {"/proc/self/mountinfo", "x\n- cgroup2\n\n" V2},
	    {"/sys/fs/cgroup/a/cpu.max", "many few\n"}, {"/sys/fs/cgroup/a/memory.max", "-7\n"}},
	UINT32_MAX, UINT64_MAX},
};

static void
limits_are_heard(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(hosts); i++) {
		struct host h = hosts[i];
		struct os os = {.self = &h, .read_file = read_file};

		if (cgroup_cores(&os) != h.cores || cgroup_memory_bytes(&os) != h.bytes)
			fail_msg("%s: %u cores of %u, %llu bytes of %llu", h.what, cgroup_cores(&os), h.cores,
			    (unsigned long long)cgroup_memory_bytes(&os), (unsigned long long)h.bytes);
	}
}

/* The test's own host, whatever it is: bound to one core it has one. */
static void
a_bound_process_has_what_it_is_bound_to(void **state)
{
	cpu_set_t all, one;
	int first = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET((size_t)first, &all))
		first++;
	assert_in_range(host_cores(os_real()), 1, CPU_COUNT(&all));
	assert_true(host_memory_bytes(os_real()) > 1 << 20);
	CPU_ZERO(&one);
	CPU_SET((size_t)first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(host_cores(os_real()), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits_are_heard),
	    cmocka_unit_test(a_bound_process_has_what_it_is_bound_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
