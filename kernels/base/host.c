/* kernels/base/host.c: a cgroup's limits are files in its folder and in those above it, up to where the
 * hierarchy is mounted: /proc/self/cgroup names the folder, /proc/self/mountinfo the mounts.  What cannot be
 * read is no limit. */
#include "host.h"

#include <sched.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 64 };

/* A limit as one version of cgroups tells it.  read: the folder's own limit; UINT64_MAX: none. */
struct teller {
	const char *controller; /* version 1; NULL: version 2 */
	uint64_t (*read)(const struct os *os, struct arena *a, const char *folder);
};

/* A file's text, "" where it cannot be read. */
static struct str
text_of(const struct os *os, struct arena *a, const char *path)
{
	struct bytes b = {0};
	struct err e = {0};

	if (!os_read_file(os, a, path, MAX_BYTES, &b, &e))
		return STR("");
	return (struct str){(const char *)b.p, b.n};
}

static struct str
file_of(const struct os *os, struct arena *a, const char *folder, const char *name)
{
	return str_trim(text_of(os, a, arena_printf(a, "%s/%s", folder, name)));
}

static bool
has_item(struct str list, const char *item)
{
	while (list.n)
		if (str_is(str_cut(&list, ','), item))
			return true;
	return false;
}

/* ---- where the process's folder is ----------------------------------------------------------------------
 */
/* "4:memory:/group", or "0::/group" of version 2. */
static bool
find_group(struct str text, const char *controller, struct str *group)
{
	while (text.n) {
		struct str line = str_cut(&text, '\n'), number = str_cut(&line, ':'),
			   list = str_cut(&line, ':');

		if (controller ? has_item(list, controller) : str_is(number, "0") && !list.n) {
			*group = line;
			return line.n > 0 && line.p[0] == '/';
		}
	}
	return false;
}

/* "32 31 0:29 /root /point rw,relatime shared:1 - cgroup cgroup rw,cpu" */
static bool
find_mount(struct str text, const char *controller, struct str *root, struct str *point)
{
	while (text.n) {
		struct str line = str_cut(&text, '\n'), type;

		for (int i = 0; i < 3; i++)
			(void)str_cut(&line, ' ');
		*root = str_cut(&line, ' ');
		*point = str_cut(&line, ' ');
		while (line.n && !str_is(str_cut(&line, ' '), "-"))
			;
		type = str_cut(&line, ' ');
		(void)str_cut(&line, ' ');
		if (point->n &&
		    (controller ? str_is(type, "cgroup") && has_item(line, controller)
				: str_is(type, "cgroup2")))
			return true;
	}
	return false;
}

/* A folder's path below the mount's own root, which a container does not see. */
static struct str
below(struct str group, struct str root)
{
	if (root.n > 1 && group.n >= root.n && str_eq((struct str){group.p, root.n}, root) &&
	    (group.n == root.n || group.p[root.n] == '/'))
		return (struct str){group.p + root.n, group.n - root.n};
	return root.n > 1 || group.n == 1 ? STR("") : group;
}

/* The least of all limits from the process's folder upwards. */
static uint64_t
least(const struct os *os, const struct teller *t)
{
	struct arena a = {0};
	struct str group, root, point;
	uint64_t limit = UINT64_MAX;

	if (find_group(text_of(os, &a, "/proc/self/cgroup"), t->controller, &group) &&
	    find_mount(text_of(os, &a, "/proc/self/mountinfo"), t->controller, &root, &point)) {
		struct str path = below(group, root);

		for (int i = 0; i < MAX_DEPTH; i++) {
			uint64_t here =
			    t->read(os, &a, arena_printf(&a, "%.*s%.*s", STR_ARG(point), STR_ARG(path)));

			limit = MIN_OF(limit, here);
			if (!path.n)
				break;
			while (path.n && path.p[--path.n] != '/')
				;
		}
	}
	arena_fini(&a);
	return limit;
}

/* ---- the files ------------------------------------------------------------------------------------------
 */
static uint64_t
whole_cores(struct str quota, struct str period)
{
	int64_t q, p;

	if (!str_to_i64(quota, &q) || !str_to_i64(period, &p) || q <= 0 || p <= 0)
		return UINT64_MAX;
	return (uint64_t)MAX_OF(q / p, (int64_t)1);
}

static uint64_t
cores_2(const struct os *os, struct arena *a, const char *folder)
{
	struct str line = file_of(os, a, folder, "cpu.max"), quota = str_cut(&line, ' ');

	return whole_cores(quota, line);
}

static uint64_t
cores_1(const struct os *os, struct arena *a, const char *folder)
{
	return whole_cores(
	    file_of(os, a, folder, "cpu.cfs_quota_us"), file_of(os, a, folder, "cpu.cfs_period_us"));
}

static uint64_t
bytes_in(struct str text)
{
	int64_t n;

	return str_to_i64(text, &n) && n > 0 ? (uint64_t)n : UINT64_MAX;
}

static uint64_t
memory_2(const struct os *os, struct arena *a, const char *folder)
{
	return bytes_in(file_of(os, a, folder, "memory.max"));
}

static uint64_t
memory_1(const struct os *os, struct arena *a, const char *folder)
{
	return bytes_in(file_of(os, a, folder, "memory.limit_in_bytes"));
}

/* Hosts have either version, or both with each controller in one of them. */
static uint64_t
least_of(const struct os *os, const struct teller t[2])
{
	return MIN_OF(least(os, &t[0]), least(os, &t[1]));
}

uint32_t
cgroup_cores(const struct os *os)
{
	static const struct teller t[2] = {{NULL, cores_2}, {"cpu", cores_1}};

	return (uint32_t)MIN_OF(least_of(os, t), (uint64_t)UINT32_MAX);
}

uint64_t
cgroup_memory_bytes(const struct os *os)
{
	static const struct teller t[2] = {{NULL, memory_2}, {"memory", memory_1}};

	return least_of(os, t);
}

/* ---- all of it ------------------------------------------------------------------------------------------
 */
static uint32_t
bound_cores(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	/* On hosts with more cores than a set holds it fails; those are all ours, or a group says otherwise.
	 */
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (uint32_t)CPU_COUNT(&set);
	return online > 0 && online < 1 << 20 ? (uint32_t)online : 1;
}

uint32_t
host_cores(const struct os *os)
{
	return MIN_OF(bound_cores(), cgroup_cores(os));
}

uint64_t
host_memory_bytes(const struct os *os)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t physical = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;

	return MIN_OF(physical, cgroup_memory_bytes(os));
}
