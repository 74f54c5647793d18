/* proto/pipe.c: frames of length and message over file descriptors. */
#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_HEAD = 4 };

static bool
pack_frame(struct arena *a, const struct msg *m, size_t max_bytes, struct bytes *out, struct err *e)
{
	struct bytes body;
	uint8_t *p;

	if (!msg_pack(a, m, max_bytes, &body, e))
		return false;
	p = arena_alloc(a, body.n + FRAME_HEAD);
	for (int i = 0; i < FRAME_HEAD; i++)
		p[i] = (uint8_t)(body.n >> (8 * i));
	memcpy(p + FRAME_HEAD, body.p, body.n);
	*out = (struct bytes){p, body.n + FRAME_HEAD};
	return true;
}

bool
frame_pack(struct arena *a, const struct msg *m, struct bytes *out, struct err *e)
{
	return pack_frame(a, m, PIPE_MAX_BYTES, out, e);
}

static size_t
next_frame(struct bytes in, size_t max_bytes, struct bytes *body)
{
	size_t n = 0;

	if (in.n < FRAME_HEAD)
		return 0;
	for (int i = 0; i < FRAME_HEAD; i++)
		n |= (size_t)in.p[i] << (8 * i);
	if (n > max_bytes)
		return SIZE_MAX;
	if (in.n - FRAME_HEAD < n)
		return 0;
	*body = (struct bytes){in.p + FRAME_HEAD, n};
	return n + FRAME_HEAD;
}

size_t
frame_next(struct bytes in, struct bytes *body)
{
	return next_frame(in, PIPE_MAX_BYTES, body);
}

void
pipe_init(struct pipe *p, int in, int out)
{
	*p = (struct pipe){.in = in, .out = out};
}

bool
pipe_stdio(struct pipe *p, struct err *e)
{
	int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	if (in < 0 || out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return err_set(e, ERR_IO, "stdin and stdout cannot be used as the pipe: %s", strerror(errno));
	pipe_init(p, in, out);
	return true;
}

void
pipe_fini(struct pipe *p)
{
	free(p->buf);
	if (p->in >= 0)
		(void)close(p->in);
	if (p->out >= 0 && p->out != p->in)
		(void)close(p->out);
	*p = (struct pipe){.in = -1, .out = -1};
}

/* On tape by its number alone: it holds names of this host, or times. */
static bool
differs_by_host(enum msg_type t)
{
	return t == MSG_end_ask || t == MSG_time_ask || t == MSG_done || t == MSG_progress_say;
}

static size_t
limit_of(size_t max_bytes)
{
	return max_bytes ? max_bytes : PIPE_MAX_BYTES;
}

static ssize_t
put_some(const struct pipe *p, struct bytes b)
{
	return p->is_socket ? send(p->out, b.p, b.n, MSG_NOSIGNAL) : write(p->out, b.p, b.n);
}

bool
pipe_send(struct pipe *p, const struct msg *m, struct err *e)
{
	struct arena tmp = {0};
	struct bytes frame = {0};
	bool ok = pack_frame(&tmp, m, limit_of(p->max_out), &frame, e);

	if (ok)
		tape_sent(p->tape, (uint64_t)m->type,
		    differs_by_host(m->type) ? (struct bytes){0}
					     : (struct bytes){frame.p + FRAME_HEAD, frame.n - FRAME_HEAD});
	if (tape_is_played(p->tape))
		frame.n = 0; /* nobody is there to read it */

	while (ok && frame.n) {
		ssize_t put = put_some(p, frame);

		if (put > 0) {
			frame.p += put;
			frame.n -= (size_t)put;
		} else if (put < 0 && errno != EINTR)
			ok = err_set(e, errno == EPIPE ? ERR_UNREACHABLE : ERR_IO,
			    "the pipe: cannot write: %s", strerror(errno));
	}
	arena_fini(&tmp);
	return ok;
}

static int64_t
now_ms(void)
{
	return os_real()->mono_ns(NULL) / 1000000;
}

/* Is there something to read?  -1: who knows.  Without a limit reading waits as well, and a measuring child
 * may not poll (kernels/jail/jail.def). */
static int
await(const struct pipe *p, int64_t until_ms)
{
	struct pollfd fd = {.fd = p->in, .events = POLLIN};
	int64_t left = until_ms < 0 ? -1 : MAX_OF(until_ms - now_ms(), (int64_t)0);

	return left < 0 && p->is_socket ? 1 : poll(&fd, 1, (int)MIN_OF(left, (int64_t)1 << 30));
}

/* Waits for bytes and takes them in; PIPE_MSG stands for "some came". */
static enum pipe_got
fill(struct pipe *p, int64_t until_ms, struct err *e)
{
	int ready = await(p, until_ms);
	ssize_t got;

	if (ready == 0)
		return PIPE_TIMEOUT;
	if (p->n == p->cap) {
		p->cap = MAX_OF(p->cap * 2, (size_t)65536);
		p->buf = heap_resize(p->buf, p->cap);
	}
	got = ready < 0 ? -1 : read(p->in, p->buf + p->n, p->cap - p->n);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return PIPE_MSG;
	if (got < 0) {
		(void)err_set(e, ERR_IO, "the pipe: cannot read: %s", strerror(errno));
		return PIPE_ERR;
	}
	if (got == 0)
		return PIPE_END;
	p->n += (size_t)got;
	return PIPE_MSG;
}

static bool
take(struct pipe *p, struct arena *a, struct bytes body, size_t used, struct msg *m, struct err *e)
{
	struct bytes own = {arena_dup(a, body.p, body.n), body.n};

	tape_note(p->tape, TAPE_MSG, own);
	memmove(p->buf, p->buf + used, p->n - used);
	p->n -= used;
	return msg_unpack(a, own, m, e);
}

static enum pipe_got
recv_played(struct pipe *p, struct arena *a, struct msg *m, struct err *e)
{
	struct bytes b;

	switch ((int)tape_next_in(p->tape, &b)) {
	case TAPE_MSG:
		return msg_unpack(a, (struct bytes){arena_dup(a, b.p, b.n), b.n}, m, e) ? PIPE_MSG : PIPE_ERR;
	case TAPE_SILENCE:
		return PIPE_TIMEOUT;
	default:
		return PIPE_END;
	}
}

static enum pipe_got
noted(struct pipe *p, enum pipe_got got)
{
	if (got == PIPE_TIMEOUT || got == PIPE_END)
		tape_note(p->tape, got == PIPE_TIMEOUT ? TAPE_SILENCE : TAPE_CLOSED, (struct bytes){0});
	return got;
}

enum pipe_got
pipe_recv(struct pipe *p, struct arena *a, int timeout_ms, struct msg *m, struct err *e)
{
	int64_t until_ms = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;

	if (tape_is_played(p->tape))
		return recv_played(p, a, m, e);
	for (;;) {
		struct bytes body = {0};
		size_t used = next_frame((struct bytes){p->buf, p->n}, limit_of(p->max_in), &body);
		enum pipe_got got;

		if (used == SIZE_MAX) {
			(void)err_set(e, ERR_PROTO, "the pipe: a frame is over the limit of %zu bytes",
			    limit_of(p->max_in));
			return PIPE_ERR;
		}
		if (used)
			return take(p, a, body, used, m, e) ? PIPE_MSG : PIPE_ERR;
		got = fill(p, until_ms, e);
		if (got != PIPE_MSG)
			return noted(p, got);
	}
}
