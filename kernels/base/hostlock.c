/* kernels/base/hostlock.c: see hostlock.h.
 *
 * A wait asks again and again, and sleeps in between: a thread that the kernel makes wait for a lock hears of
 * no cancel and no time limit.  Asking is not fair, so there is a second file for whose turn is next. */
#include "hostlock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ASK_AGAIN_NS = 5000000 };
static const int64_t SECOND = 1000000000, SAY_AFTER = 2 * SECOND;

struct wait {
	const struct host_lock *lock;
	int64_t began_ns, wait_ns, say_ns;
	char file[80], holder[200];
	bool is_said;
};

static int64_t
now_ns(void)
{
	return os_real()->mono_ns(NULL);
}

/* ---- what is said of a wait ------------------------------------------------------------- */
void
lock_words_get(struct lock_words *w, char out[256])
{
	(void)pthread_mutex_lock(&w->mutex);
	memcpy(out, w->text, sizeof(w->text));
	(void)pthread_mutex_unlock(&w->mutex);
}

static void
set_words(struct lock_words *w, const char *text)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->mutex);
	(void)snprintf(w->text, sizeof(w->text), "%s", text);
	(void)pthread_mutex_unlock(&w->mutex);
}

/* Each holder once. */
static void
say_wait(struct wait *w, int fd)
{
	char holder[sizeof(w->holder)], text[256];

	lock_holder_name(fd, holder, sizeof(holder));
	if (w->is_said && strcmp(holder, w->holder) == 0)
		return;
	w->is_said = true;
	memcpy(w->holder, holder, sizeof(holder));
	(void)snprintf(text, sizeof(text), "waits for %.60s, held by %.150s", w->file, holder);
	log_event(w->lock->conf->log, lock_waits, KVZ("lock", w->file), KVZ("holder", holder));
	set_words(w->lock->conf->words, text);
}

static void
say_end(const struct wait *w, bool ok)
{
	if (!w->is_said)
		return;
	set_words(w->lock->conf->words, "");
	log_event(w->lock->conf->log, lock_waited, KVZ("lock", w->lock->name),
	    KVI("ms", (now_ns() - w->began_ns) / 1000000), KVZ("got", ok ? "yes" : "no"));
}

/* ---- waiting ------------------------------------------------------------------------------ */
/* False: it is not to be waited for any more. */
static bool
go_on(struct wait *w, int fd, struct err *e)
{
	int64_t waited = now_ns() - w->began_ns;

	if (w->lock->cancel && *w->lock->cancel)
		return err_set(e, ERR_CANCELLED, "waiting for the lock %s was cancelled", w->file);
	if (waited >= w->say_ns) {
		w->say_ns = waited + SECOND;
		say_wait(w, fd);
	}
	if (waited < w->wait_ns) {
		(void)nanosleep(&(struct timespec){.tv_nsec = ASK_AGAIN_NS}, NULL);
		return true;
	}
	lock_holder_name(fd, w->holder, sizeof(w->holder));
	return err_set(e, ERR_BUSY, "the lock %s was held by %s for all of the %.3g s that this worker waits",
	    w->file, w->holder, (double)w->wait_ns * 1e-9);
}

/* A file that is removed meanwhile (a session's end, a cleaner of /tmp) locks nothing: anew. */
static bool
take_file(struct wait *w, const char *what, int *fd, struct err *e)
{
	struct stat st;
	bool ok = true;

	(void)snprintf(w->file, sizeof(w->file), "%s.%s", w->lock->name, what);
	while (ok) {
		if (!lock_file_open(w->lock->conf->dir, w->file, fd, e))
			return false;
		while (ok && flock(*fd, LOCK_EX | LOCK_NB) != 0)
			ok = errno == EWOULDBLOCK || errno == EINTR
			    ? go_on(w, *fd, e)
			    : err_set(e, ERR_HOST, "lock %s: %s", w->file, strerror(errno));
		if (ok && fstat(*fd, &st) == 0 && st.st_nlink > 0) {
			lock_holder_write(*fd);
			return true;
		}
		(void)close(*fd);
		*fd = -1;
	}
	return false;
}

static void
let_go(int *fd)
{
	if (*fd < 0)
		return;
	(void)ftruncate(*fd, 0);
	(void)close(*fd);
	*fd = -1;
}

/* ---- the lock ------------------------------------------------------------------------------- */
void
host_lock_init(struct host_lock *l, const struct lock_conf *conf, const atomic_bool *cancel, const char *name)
{
	*l = (struct host_lock){.conf = conf, .cancel = cancel, .fd = -1};
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	for (char *c = l->name; *c; c++)
		if (*c == '/' || *c <= ' ')
			*c = '_';
}

bool
host_lock_take(struct host_lock *l, struct err *e)
{
	struct wait w = {.lock = l,
	    .began_ns = now_ns(),
	    .wait_ns = l->conf->wait_ns ? l->conf->wait_ns : LOCK_WAIT_S * SECOND};
	int next = -1;
	bool ok;

	if (l->fd >= 0)
		return true;
	w.say_ns = MIN_OF(SAY_AFTER, w.wait_ns / 2);
	ok = take_file(&w, "next", &next, e) && take_file(&w, "lock", &l->fd, e);
	let_go(&next);
	say_end(&w, ok);
	return ok;
}

bool
host_lock_try(struct host_lock *l)
{
	struct wait w = {.lock = l, .began_ns = now_ns(), .say_ns = INT64_MAX};
	struct err e = {0};
	int next = -1;

	if (l->fd >= 0)
		return true;
	(void)(take_file(&w, "next", &next, &e) && take_file(&w, "lock", &l->fd, &e));
	let_go(&next);
	return l->fd >= 0;
}

/* unseen: where it cannot be looked at. */
static bool
is_taken(const struct host_lock *l, const char *what, bool unseen)
{
	char file[80];
	struct err e = {0};
	bool is_free;
	int fd;

	(void)snprintf(file, sizeof(file), "%s.%s", l->name, what);
	if (!lock_file_open(l->conf->dir, file, &fd, &e))
		return unseen;
	is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
	(void)close(fd);
	return !is_free;
}

bool
host_lock_is_held(const struct host_lock *l)
{
	return is_taken(l, "lock", false);
}

bool
host_lock_is_wanted(const struct host_lock *l)
{
	return is_taken(l, "next", true);
}

void
host_lock_leave(struct host_lock *l)
{
	let_go(&l->fd);
}
