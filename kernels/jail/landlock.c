/* kernels/jail/landlock.c: the jail's places once more, as rights that the kernel asks at each opening,
 * whatever the mounts are; and what else Landlock can take: TCP, signals and abstract sockets of others.  By
 * calls, since C libraries have none; its version is asked for at run time, and what it does not know yet is
 * left out. */
#include "jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 }; /* the same on all architectures */
enum { ASK_VERSION = 1, RULE_PATH = 1 };

enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_REMOVE_DIR = 1 << 4,
	FS_REMOVE_FILE = 1 << 5,
	FS_MAKE_DIR = 1 << 7,
	FS_MAKE_REG = 1 << 8,
	FS_REFER = 1 << 13,
	FS_TRUNCATE = 1 << 14,
	FS_IOCTL_DEV = 1 << 15
};
enum { NET_ALL = 3, SCOPE_ALL = 3 };
/* What there is to be denied, by version. */
static const struct {
	uint64_t fs, net, scoped;
} handled[] = {{0}, {(1 << 13) - 1, 0, 0}, {(1 << 14) - 1, 0, 0}, {(1 << 15) - 1, 0, 0},
    {(1 << 15) - 1, NET_ALL, 0}, {(1 << 16) - 1, NET_ALL, 0}, {(1 << 16) - 1, NET_ALL, SCOPE_ALL}};

struct ruleset {
	uint64_t fs, net, scoped;
};
struct path_rule {
	uint64_t rights;
	int32_t fd;
} __attribute__((packed));

static uint64_t
rights_of(uint32_t place, bool is_folder)
{
	const uint64_t of_files = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
	uint64_t r = 0;

	if (place & (PATH_READ | PATH_PROC))
		r |= FS_READ_FILE | FS_READ_DIR;
	if (place & PATH_START)
		r |= FS_EXECUTE;
	if (place & PATH_THREADS)
		r |= FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE;
	if (place & (PATH_WRITE | PATH_EMPTY))
		r |= FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG | FS_MAKE_DIR |
		    FS_REMOVE_FILE | FS_REMOVE_DIR | FS_REFER;
	if (place & PATH_DEVICE)
		r |= FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV;
	return is_folder ? r : r & of_files;
}

static bool
add_rule(int set, const char *path, uint32_t rights, uint64_t known)
{
	struct path_rule rule = {.fd = open(path, O_PATH | O_CLOEXEC)};
	struct stat st;
	bool ok;

	if (rule.fd < 0)
		return errno == ENOENT;
	ok = fstat(rule.fd, &st) == 0;
	rule.rights = rights_of(rights, S_ISDIR(st.st_mode)) & known;
	ok = ok && syscall(ADD_RULE, set, RULE_PATH, &rule, 0) == 0;
	(void)close(rule.fd);
	return ok;
}

void
jail_landlock(struct jail_plan *p)
{
	long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
	size_t v = (size_t)MIN_OF(MAX_OF(version, 0L), (long)COUNT_OF(handled) - 1);
	struct ruleset r = {handled[v].fs, handled[v].net, handled[v].scoped};
	/* an older kernel knows a shorter one */
	size_t n_bytes = v < 4 ? sizeof(r.fs) : v < 6 ? sizeof(r.fs) + sizeof(r.net) : sizeof(r);
	int set;
	bool ok;

	if (version < 1) {
		jail_lack(p, JAIL_HOLD_landlock, "this kernel", errno);
		return;
	}
	set = (int)syscall(CREATE_RULESET, &r, n_bytes, 0);
	ok = set >= 0;
	/* made of memory for this jail: where it is not, the host's own is none of the jail's */
	for (uint32_t i = 0; i < p->n_places && ok; i++)
		ok = (p->place[i].rights & PATH_EMPTY && p->held.lacks[JAIL_HOLD_files][0]) ||
		    add_rule(set, p->place[i].path, p->place[i].rights, r.fs);
	ok = ok && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, set, 0) == 0;
	if (ok)
		p->held.landlock = (int)version;
	else
		jail_lack(p, JAIL_HOLD_landlock, "its rules", errno);
	if (set >= 0)
		(void)close(set);
}
