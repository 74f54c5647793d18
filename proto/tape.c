/* proto/tape.c: a mapping that is appended to: one byte of enum tape_event, a length (varint), the payload.
 * A byte TAPE_END, which a fresh mapping is full of, ends it. */
#include "tape.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char MAGIC[] = "KORCH TAPE 1\n";
enum { MAGIC_BYTES = sizeof(MAGIC) - 1, VARINT = 10, MAX_PATH = 4096 };
static const size_t PIECE = (size_t)1 << 20, MAX_BYTES = (size_t)256 << 20;

struct tape {
	bool plays, has_ended, is_other; /* has_ended: no more is written; or there is no more to play */
	int fd;
	/* recording: the mapped piece */
	uint8_t *piece;
	size_t piece_at, at, piece_bytes;
	/* playing: all of it */
	struct bytes all;
	struct arena arena;
	int64_t mono_ns; /* the last one said */
	struct tape_counts counts;
	const struct os *real;
	struct os os;
	char own[MAX_PATH];
};

/* ---- recording ---------------------------------------------------------------------- */
/* Maps what comes next; the disk's blocks are taken before, so that no write can fail. */
static bool
map_piece(struct tape *t, size_t need)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), from = t->at / page * page;
	size_t bytes = (t->at - from + need + PIECE - 1) / PIECE * PIECE;
	void *p;

	if (t->piece)
		(void)munmap(t->piece, t->piece_bytes);
	t->piece = NULL;
	if (from + bytes > MAX_BYTES || posix_fallocate(t->fd, (off_t)from, (off_t)bytes) != 0)
		return false;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, (off_t)from);
	if (p == MAP_FAILED)
		return false;
	t->piece = p;
	t->piece_at = from;
	t->piece_bytes = bytes;
	return true;
}

static void
put(struct tape *t, const void *p, size_t n)
{
	memcpy(t->piece + (t->at - t->piece_at), p, n);
	t->at += n;
}

/* The event's first byte is written last: a reader never sees half of one. */
static void
append(struct tape *t, enum tape_event what, const void *p, size_t n)
{
	uint8_t head[1 + VARINT] = {0}, kind = (uint8_t)what;
	size_t n_head = 1, start = t->at, rest = n;

	if (t->has_ended)
		return;
	do {
		head[n_head++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
		rest >>= 7;
	} while (rest);
	if ((!t->piece || t->at + n_head + n + 1 > t->piece_at + t->piece_bytes) &&
	    !map_piece(t, n_head + n + 1)) {
		t->has_ended = true;
		return;
	}
	put(t, head, n_head);
	if (n)
		put(t, p, n);
	t->piece[start - t->piece_at] = kind;
}

struct tape *
tape_record(const char *path, const char *own)
{
	struct tape *t = heap_alloc(sizeof(*t));

	/* a file of that name is somebody's: it may be a link to what must not change */
	(void)unlink(path);
	t->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	(void)snprintf(t->own, sizeof(t->own), "%s/", own);
	if (t->fd < 0 || !map_piece(t, MAGIC_BYTES)) {
		tape_close(t);
		return NULL;
	}
	put(t, MAGIC, MAGIC_BYTES);
	return t;
}

/* ---- playing ------------------------------------------------------------------------ */
bool
tape_play(struct tape **out, const char *path, struct err *e)
{
	struct tape *t = heap_alloc(sizeof(*t));
	bool ok;

	t->fd = -1;
	t->plays = true;
	ok = os_read_file(os_real(), &t->arena, path, MAX_BYTES + PIECE, &t->all, e);
	if (ok && (t->all.n < MAGIC_BYTES || memcmp(t->all.p, MAGIC, MAGIC_BYTES) != 0))
		ok = err_set(e, ERR_FORMAT, "%s: is no planner's tape", path);
	t->at = MAGIC_BYTES;
	*out = t;
	if (!ok) {
		tape_close(t);
		*out = NULL;
	}
	return ok;
}

/* The event at *at; false at the end, or where the bytes make no sense. */
static bool
read_event(const struct tape *t, size_t *at, enum tape_event *what, struct bytes *b)
{
	size_t n = 0, i = *at;
	int shift = 0;

	if (i >= t->all.n || t->all.p[i] == TAPE_END || t->all.p[i] >= TAPE_EVENTS)
		return false;
	*what = (enum tape_event)t->all.p[i++];
	do {
		if (i >= t->all.n || shift > 56)
			return false;
		n |= (size_t)(t->all.p[i] & 127) << shift;
		shift += 7;
	} while (t->all.p[i++] & 128);
	if (n > t->all.n - i)
		return false;
	*b = (struct bytes){t->all.p + i, n};
	*at = i + n;
	return true;
}

static void
say_other(struct tape *t, const char *what)
{
	if (t->is_other)
		return;
	t->is_other = true;
	(void)fprintf(stderr,
	    "korch-planner: from here on this is another run than the recorded one (%s), %u messages in, %u "
	    "out\n",
	    what, t->counts.n_in, t->counts.n_out);
}

/* Where the recorded process died, or was at its end. */
static void
say_end(struct tape *t)
{
	if (t->has_ended || t->is_other)
		return;
	t->has_ended = true;
	(void)fprintf(stderr, "korch-planner: the tape ends here, %u messages in, %u out\n", t->counts.n_in,
	    t->counts.n_out);
}

/* The next event, if it is of that kind. */
static bool
play(struct tape *t, enum tape_event want, struct bytes *b)
{
	size_t at = t->at;
	enum tape_event what;

	if (!read_event(t, &at, &what, b)) {
		say_end(t);
		return false;
	}
	if (what != want)
		return false;
	t->at = at;
	return true;
}

enum tape_event
tape_next_in(struct tape *t, struct bytes *b)
{
	enum tape_event what;

	while (read_event(t, &t->at, &what, b)) {
		if (what == TAPE_MSG || what == TAPE_SILENCE || what == TAPE_CLOSED) {
			t->counts.n_in += what == TAPE_MSG;
			return what;
		}
		say_other(t, "it waits for a message where it did something else");
	}
	say_end(t);
	return TAPE_END;
}

/* ---- both --------------------------------------------------------------------------- */
void
tape_close(struct tape *t)
{
	if (!t)
		return;
	if (t->piece) {
		(void)munmap(t->piece, t->piece_bytes);
		(void)!ftruncate(t->fd, (off_t)t->at);
	}
	if (t->fd >= 0)
		(void)close(t->fd);
	arena_fini(&t->arena);
	free(t);
}

bool
tape_is_played(const struct tape *t)
{
	return t && t->plays;
}

struct tape_counts
tape_counts(const struct tape *t)
{
	struct tape_counts c = t->counts;

	c.is_other = t->is_other;
	return c;
}

void
tape_note(struct tape *t, enum tape_event what, struct bytes b)
{
	if (t && !t->plays)
		append(t, what, b.p, b.n);
}

void
tape_sent(struct tape *t, uint64_t number, struct bytes body)
{
	uint64_t is[2] = {number, hash64(body.p, body.n, 0)}, was[2];
	struct bytes b;

	if (!t)
		return;
	t->counts.n_out++;
	if (!t->plays) {
		append(t, TAPE_SENT, is, sizeof(is));
		return;
	}
	if (!play(t, TAPE_SENT, &b) || b.n != sizeof(was)) {
		if (!t->has_ended)
			say_other(t, "it sends a message where it did something else");
		return;
	}
	memcpy(was, b.p, sizeof(was));
	if (was[0] != is[0] || was[1] != is[1])
		say_other(t,
		    was[0] != is[0] ? "it sends another message" : "it sends a message with other content");
}

/* ---- clock and files ---------------------------------------------------------------- */
static int64_t
varint_delta(struct bytes b)
{
	uint64_t v = 0;

	for (size_t i = 0; i < b.n && i < 8; i++)
		v |= (uint64_t)b.p[i] << 8 * i;
	return (int64_t)v;
}

/* As few bytes as the difference to the last one needs; a clock that runs never goes back. */
static int64_t
os_mono(void *self)
{
	struct tape *t = self;
	struct bytes b;
	int64_t now;

	if (t->plays) {
		if (play(t, TAPE_MONO, &b))
			t->mono_ns += varint_delta(b);
		return t->mono_ns;
	}
	now = t->real->mono_ns(t->real->self);
	uint64_t d = (uint64_t)(now - t->mono_ns);
	uint8_t bytes[8];
	size_t n = 0;

	for (; d; d >>= 8)
		bytes[n++] = (uint8_t)d;
	append(t, TAPE_MONO, bytes, n);
	t->mono_ns = now;
	return now;
}

static int64_t
os_wall(void *self)
{
	struct tape *t = self;
	struct bytes b;
	int64_t now = 0;

	if (t->plays) {
		if (play(t, TAPE_WALL, &b))
			now = varint_delta(b);
		return now;
	}
	now = t->real->wall_ns(t->real->self);
	append(t, TAPE_WALL, &now, sizeof(now));
	return now;
}

static bool
os_read(void *self, struct arena *a, const char *path, size_t max_bytes, struct bytes *out, struct err *e)
{
	struct tape *t = self;
	struct bytes b;

	if (t->plays && play(t, TAPE_FILE, &b)) {
		*out = (struct bytes){arena_dup(a, b.p, b.n), b.n};
		return true;
	}
	if (!t->real->read_file(t->real->self, a, path, max_bytes, out, e))
		return false;
	if (!t->plays && strncmp(path, t->own, strlen(t->own)) != 0)
		append(t, TAPE_FILE, out->p, out->n);
	return true;
}

static bool
os_write(void *self, const char *path, struct bytes data, struct err *e)
{
	struct tape *t = self;

	return t->real->write_file(t->real->self, path, data, e);
}

const struct os *
tape_os(struct tape *t, const struct os *os)
{
	if (!t)
		return os;
	t->real = os;
	t->os = (struct os){
	    .self = t, .mono_ns = os_mono, .wall_ns = os_wall, .read_file = os_read, .write_file = os_write};
	return &t->os;
}
