/* proto/sock_mend.c: what nng 1.5.2 does not let us ask of it, asked of the system instead.
 *
 * 1. A connection that is reset while hands are shaken ends in sendmsg with EPIPE, which nng takes for the
 *    closing of the listener (or the dialer) itself: the listener never accepts again.  One stranger who
 *    connects, ends his sending and resets would lock everybody out.  So the program's own sendmsg stands
 *    before the C library's and says what happened: the peer reset the connection.
 * 2. nng listens with a backlog of 128; more that come at once wait for seconds.  listen() again deepens it.
 * 3. A connection is shown to us when hands have been shaken; until then, 10 s at most, only the system
 *    knows it.  When files run out, those that were strangers a quarter of a second ago already are cut. */
#include "sock_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BACKLOG = 4096, MOST_FILES = 1 << 20, MOST_CONNECTIONS = 50000 };
static const int64_t SECOND = 1000000000;

ssize_t
sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, m, flags);

	if (n < 0 && errno == EPIPE)
		errno = ECONNRESET;
	return n;
}

/* ---- limits ------------------------------------------------------------------------- */
struct sock_limits
sock_limits_raise(void)
{
	struct rlimit r = {1024, 1024};
	uint32_t files, kept, before;

	(void)getrlimit(RLIMIT_NOFILE, &r);
	before = (uint32_t)MIN_OF(r.rlim_cur, (rlim_t)MOST_FILES);
	if (r.rlim_cur < r.rlim_max && r.rlim_cur < MOST_FILES) {
		r.rlim_cur = MIN_OF(r.rlim_max, (rlim_t)MOST_FILES);
		if (setrlimit(RLIMIT_NOFILE, &r) != 0)
			r.rlim_cur = before;
	}
	files = (uint32_t)MIN_OF(r.rlim_cur, (rlim_t)MOST_FILES);
	kept = MIN_OF(files / 4, 512u); /* for the local socket, the store, planners, and who shakes hands */
	return (struct sock_limits){.files = files,
	    .files_before = before,
	    .max = MIN_OF(files - kept, (uint32_t)MOST_CONNECTIONS),
	    .max_host = MIN_OF(files - kept, (uint32_t)MOST_CONNECTIONS) / 4 * 3,
	    .max_unproved = MIN_OF((files - kept) / 2, 4096u),
	    .max_requests = 64,
	    .prove_ns = 10 * SECOND,
	    .silent_ns = 600 * SECOND};
}

/* ---- files of this process ---------------------------------------------------------- */
/* The number that the next file gets is the lowest free one. */
bool
files_run_out(uint32_t files)
{
	int fd = fcntl(2, F_DUPFD_CLOEXEC, 3);

	if (fd >= 0)
		(void)close(fd);
	return files && (fd < 0 || (uint32_t)fd >= files - MIN_OF(files / 8, 256u));
}

struct each_file {
	DIR *dir;
	int fd;
};

static bool
file_next(struct each_file *f)
{
	struct dirent *de;

	while ((de = readdir(f->dir)) != NULL) {
		int64_t fd;

		if (str_to_i64(str_of(de->d_name), &fd) && fd != dirfd(f->dir)) {
			f->fd = (int)fd;
			return true;
		}
	}
	return false;
}

void
listeners_deepen(void)
{
	struct each_file f = {.dir = opendir("/proc/self/fd")};

	while (f.dir && file_next(&f)) {
		int yes = 0;
		socklen_t n = sizeof(yes);

		if (getsockopt(f.fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &n) == 0 && yes)
			(void)listen(f.fd, BACKLOG);
	}
	if (f.dir)
		(void)closedir(f.dir);
}

static void
ip_of(const struct sockaddr_storage *from, uint8_t ip[16], uint16_t *port)
{
	if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)from;

		memcpy(ip, &in->sin6_addr, 16);
		*port = in->sin6_port;
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;

		memset(ip, 0, 10);
		memset(ip + 10, 0xff, 2);
		memcpy(ip + 12, &in->sin_addr, 4);
		*port = in->sin_port;
	}
}

struct strangers {
	DIR *dir; /* open all the time: when it is needed, no file can be opened */
	struct stranger {
		uint8_t ip[16];
		uint16_t port;
		int fd;
	} * last, *now;
	uint32_t n_last, n_now, cap_last, cap_now;
};

struct strangers *
strangers_new(void)
{
	struct strangers *s = heap_alloc(sizeof(*s));

	s->dir = opendir("/proc/self/fd");
	return s;
}

void
strangers_free(struct strangers *s)
{
	if (s->dir)
		(void)closedir(s->dir);
	free(s->last);
	free(s->now);
	free(s);
}

static bool
is_network(int fd, struct stranger *x)
{
	struct sockaddr_storage from = {0};
	socklen_t n = sizeof(from);

	if (getpeername(fd, (struct sockaddr *)&from, &n) != 0 ||
	    (from.ss_family != AF_INET && from.ss_family != AF_INET6))
		return false;
	ip_of(&from, x->ip, &x->port);
	x->fd = fd;
	return true;
}

static void
remember(struct strangers *s, const struct stranger *x)
{
	if (s->n_now == s->cap_now) {
		s->cap_now = MAX_OF(2 * s->cap_now, 256u);
		s->now = heap_resize(s->now, s->cap_now * sizeof(*s->now));
	}
	s->now[s->n_now++] = *x;
}

/* Files come in one order both times: the lists are walked together. */
static bool
was_there(const struct strangers *s, uint32_t *at, const struct stranger *x)
{
	while (*at < s->n_last && s->last[*at].fd < x->fd)
		++*at;
	return *at < s->n_last && s->last[*at].fd == x->fd && s->last[*at].port == x->port &&
	    memcmp(s->last[*at].ip, x->ip, 16) == 0;
}

/* Files are opened and closed by other threads meanwhile.  A number that came to mean another connection is
 * that of somebody who just came, and comes again; nothing else of ours has a peer on the network. */
uint32_t
strangers_cut(
    struct strangers *s, bool (*is_known)(void *self, const uint8_t ip[16], uint16_t port), void *self)
{
	struct each_file f = {.dir = s->dir};
	struct stranger *list = s->last;
	uint32_t at = 0, n = 0, cap = s->cap_last;

	s->n_now = 0;
	if (s->dir)
		rewinddir(s->dir);
	while (f.dir && file_next(&f)) {
		struct stranger x;

		if (!is_network(f.fd, &x) || is_known(self, x.ip, x.port))
			continue;
		if (was_there(s, &at, &x) && shutdown(x.fd, SHUT_RDWR) == 0)
			n++;
		else
			remember(s, &x);
	}
	s->last = s->now;
	s->n_last = s->n_now;
	s->cap_last = s->cap_now;
	s->now = list;
	s->cap_now = cap;
	return n;
}
