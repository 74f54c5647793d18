/* tests/fault/probe_others.c: the tries with what it was left, and with what others can be reached by. */
#include "probe.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static long
sock(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		(void)close(fd);
	return fd;
}

static long
connect_unix(const char *name, size_t n, int first)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	long rc;

	memcpy(to.sun_path + first, name, n);
	rc = fd < 0 ? -1
		    : connect(fd, (struct sockaddr *)&to,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + first + n));
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

/* ---- the tries ---- */
long
try_inherited_file(void)
{
	char one;

	return pread(INHERITED, &one, 1, 0);
}
long
try_inherited_secret(void)
{
	return getenv("KORCH_PROBE_SECRET") || getenv("PROBE_SECRET") ? 0 : -1;
}
long
try_shm_sysv(void)
{
	return shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
}
long
try_msg_sysv(void)
{
	return msgget(IPC_PRIVATE, IPC_CREAT | 0600);
}
long
try_sem_sysv(void)
{
	return semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
}
long
try_mq_posix(void)
{
	return CALL(SYS_mq_open, "korch-probe", O_RDWR | O_CREAT, 0600, NULL);
}
long
try_net_inet(void)
{
	return sock(AF_INET, SOCK_STREAM);
}
long
try_net_inet6(void)
{
	return sock(AF_INET6, SOCK_STREAM);
}
long
try_net_unix(void)
{
	return sock(AF_UNIX, SOCK_STREAM);
}
long
try_net_netlink(void)
{
	return sock(AF_NETLINK, SOCK_RAW);
}
long
try_net_packet(void)
{
	return sock(AF_PACKET, SOCK_RAW);
}
long
try_net_vsock(void)
{
	return sock(AF_VSOCK, SOCK_STREAM);
}
long
try_net_alg(void)
{
	return sock(AF_ALG, SOCK_SEQPACKET);
}
long
try_net_pair(void)
{
	int pair[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}
long
try_net_abstract(void)
{
	return connect_unix(ABSTRACT, sizeof(ABSTRACT) - 1, 1);
}
long
try_net_daemon(void)
{
	return connect_unix(SOCKET, sizeof(SOCKET), 0);
}
long
try_pass_file(void)
{
	char one = 0, space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec io = {&one, 0};
	struct msghdr m = {
	    .msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};

	CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
	return sendmsg(0, &m, MSG_NOSIGNAL);
}
