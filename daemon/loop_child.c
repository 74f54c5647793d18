/* daemon/loop_child.c: child programs on the loop: bytes in both directions, limits, the end.
 * A child is freed when its process is reaped and its three pipes are closed. */
#include "loop_int.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What it has not yet read waits in our memory: a part of what it may have itself. */
enum { QUEUE_PART = 64, QUEUE_BYTES = 256 << 20 };

struct child {
	uv_process_t process;
	uv_pipe_t in, out, words; /* its stdin, stdout, stderr */
	uint32_t n_open;          /* handles not yet closed */
	bool is_forgotten, has_ended, out_done;
	int status, signal;
	size_t queue_bytes; /* that may wait for it to read */
	const struct child_calls *calls;
	void *self;
	char buf[65536];
};
struct write {
	uv_write_t req;
	uint8_t bytes[];
};

static void
closed(uv_handle_t *h)
{
	struct child *c = h->data;

	if (--c->n_open == 0)
		free(c);
}

/* The end is told when the process is gone and all it said has been read. */
static void
maybe_ended(struct child *c)
{
	if (!c->has_ended || !c->out_done)
		return;
	if (!c->is_forgotten)
		c->calls->ended(c->self, c->status, c->signal);
	c->is_forgotten = true;
	uv_close((uv_handle_t *)&c->in, closed);
	uv_close((uv_handle_t *)&c->out, closed);
	uv_close((uv_handle_t *)&c->words, closed);
	uv_close((uv_handle_t *)&c->process, closed);
}

static void
process_ended(uv_process_t *p, int64_t status, int signal)
{
	struct child *c = p->data;

	c->has_ended = true;
	c->status = (int)status;
	c->signal = signal;
	maybe_ended(c);
}

static void
give_buffer(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
	struct child *c = h->data;

	(void)wanted;
	*buf = uv_buf_init(c->buf, sizeof(c->buf));
}

static void
got_out(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct child *c = s->data;

	if (n > 0 && !c->is_forgotten)
		c->calls->bytes(c->self, (struct bytes){(const uint8_t *)buf->base, (size_t)n});
	if (n >= 0)
		return;
	(void)uv_read_stop(s);
	c->out_done = true;
	maybe_ended(c);
}

static void
got_words(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct child *c = s->data;

	if (n > 0 && !c->is_forgotten)
		c->calls->words(c->self, (struct bytes){(const uint8_t *)buf->base, (size_t)n});
	else if (n < 0)
		(void)uv_read_stop(s);
}

/* Its soft limit: the hard one may be on its way back from a runtime that has just read it. */
static void
lower_limit(int pid, __rlimit_resource_t resource, uint64_t to)
{
	struct rlimit r;

	if (prlimit(pid, resource, NULL, &r) != 0)
		return;
	r.rlim_cur = to;
	(void)prlimit(pid, resource, &r, NULL);
}

static void
set_limits(const struct daemon *d, int pid)
{
	lower_limit(pid, RLIMIT_CORE, 0);
	/* ours was raised for connections; many a program looks at each number up to its limit */
	if (d->conf->limits.files_before)
		lower_limit(pid, RLIMIT_NOFILE, d->conf->limits.files_before);
}

struct child *
child_start(struct daemon *d, char *const *argv, uint64_t memory_bytes, const struct child_calls *calls,
    void *self, struct err *e)
{
	struct child *c = heap_alloc(sizeof(*c));
	uv_process_options_t o = {0};
	uv_stdio_container_t io[3] = {0};
	int rc;

	c->calls = calls;
	c->self = self;
	c->queue_bytes = memory_bytes ? memory_bytes / QUEUE_PART : QUEUE_BYTES;
	(void)uv_pipe_init(&d->loop->uv, &c->in, 0);
	(void)uv_pipe_init(&d->loop->uv, &c->out, 0);
	(void)uv_pipe_init(&d->loop->uv, &c->words, 0);
	c->in.data = c->out.data = c->words.data = c->process.data = c;
	c->n_open = 4;
	io[0].flags = UV_CREATE_PIPE | UV_READABLE_PIPE;
	io[0].data.stream = (uv_stream_t *)&c->in;
	io[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	io[1].data.stream = (uv_stream_t *)&c->out;
	io[2].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	io[2].data.stream = (uv_stream_t *)&c->words;
	if (!calls->words) {
		io[2].flags = UV_INHERIT_FD;
		io[2].data.fd = 2;
	}
	o.file = argv[0];
	o.args = (char **)(uintptr_t)argv;
	o.stdio = io;
	o.stdio_count = 3;
	o.exit_cb = process_ended;
	o.flags = calls->may_rest ? UV_PROCESS_DETACHED : 0; /* a group of its own */
	rc = uv_spawn(&d->loop->uv, &c->process, &o);
	if (rc != 0) {
		(void)err_set(e, ERR_HOST, "%s: cannot start: %s", argv[0], uv_strerror(rc));
		c->has_ended = c->out_done = c->is_forgotten = true;
		maybe_ended(c);
		return NULL;
	}
	set_limits(d, c->process.pid);
	(void)uv_read_start((uv_stream_t *)&c->out, give_buffer, got_out);
	if (calls->words)
		(void)uv_read_start((uv_stream_t *)&c->words, give_buffer, got_words);
	return c;
}

static void
written(uv_write_t *req, int status)
{
	(void)status; /* a child that does not read any more is about to end */
	free(req);
}

bool
child_write(struct child *c, struct bytes b)
{
	struct write *w;
	uv_buf_t buf;

	if (uv_stream_get_write_queue_size((uv_stream_t *)&c->in) > c->queue_bytes)
		return false;
	w = heap_alloc(sizeof(*w) + b.n);
	buf = uv_buf_init((char *)w->bytes, (unsigned)b.n);
	memcpy(w->bytes, b.p, b.n);
	if (uv_write(&w->req, (uv_stream_t *)&c->in, &buf, 1, written) != 0)
		free(w);
	return true;
}

void
child_kill(struct child *c, int signal)
{
	if (!c->has_ended)
		(void)uv_process_kill(&c->process, signal);
}

void
child_rest(struct child *c, bool rests)
{
	if (!c->has_ended && c->calls->may_rest)
		(void)kill(-c->process.pid, rests ? SIGSTOP : SIGCONT);
}

void
child_forget(struct child *c)
{
	c->is_forgotten = true;
	child_kill(c, SIGKILL);
}
