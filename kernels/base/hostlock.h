/* kernels/base/hostlock.h: one measurement at a time on a host, or on a GPU, among the workers that use one
 * folder of locks.
 *
 *   FOLDER/NAME.lock    held (flock) while something is timed; its holder writes who it is into it
 *   FOLDER/NAME.next    held by the one that is next in turn: who lets go and asks again stands behind it
 *
 * FOLDER is --lock-dir, else $XDG_RUNTIME_DIR/korch, /run/user/UID/korch or /tmp/korch-UID, the first that is
 * this user's.  Who may open a lock's file can hold it for ever: so nobody may but this user, or the group
 * that a folder was made for; waiting ends, and names the holder. */
#ifndef KORCH_BASE_HOSTLOCK_H
#define KORCH_BASE_HOSTLOCK_H

#include "log.h"

#include <pthread.h>
#include <stdatomic.h>

/* Longer than any measurement between two moments at which others get their turn. */
enum { LOCK_WAIT_S = 120 };
/* The name of the CPU's. */
#define HOST_LOCK_CPU "cpu"

/* What a wait is for, in words, for other threads; "": nobody waits. */
struct lock_words {
	pthread_mutex_t mutex;
	char text[256];
};
void lock_words_get(struct lock_words *w, char out[256]);

struct lock_conf {
	const char *dir; /* "" or NULL: this user's */
	int64_t wait_ns; /* 0: LOCK_WAIT_S */
	struct log *log; /* may be NULL, as words may */
	struct lock_words *words;
};
struct host_lock {
	const struct lock_conf *conf;
	const atomic_bool *cancel; /* ends a wait; may be NULL */
	char name[64];
	int fd; /* while it is held; else -1 */
};
/* Opens nothing yet.  What of the name is no part of a file's name becomes '_'. */
void host_lock_init(
    struct host_lock *l, const struct lock_conf *conf, const atomic_bool *cancel, const char *name);
/* Taken by this process already: true.  ERR_HOST: the folder or the file is not as it must be; ERR_BUSY: the
 * time is over, with who holds it; ERR_CANCELLED. */
bool host_lock_take(struct host_lock *l, struct err *e) MUST_CHECK;
/* At once or not at all: false where it is held, or somebody is next in turn. */
bool host_lock_try(struct host_lock *l) MUST_CHECK;
/* Is something timed under it, by whoever?  No where that cannot be seen. */
bool host_lock_is_held(const struct host_lock *l);
/* Does somebody stand behind the one who holds it?  Yes where that cannot be seen. */
bool host_lock_is_wanted(const struct host_lock *l);
void host_lock_leave(struct host_lock *l); /* not taken: nothing */

/* ---- lock_folder.c ---- */
/* *fd: the folder, checked; *is_shared: its group may use it too.  ERR_HOST. */
bool lock_folder_open(
    const char *dir, char path[OS_PATH_MAX], int *fd, bool *is_shared, struct err *e) MUST_CHECK;
/* A file of it, made where it is not there: a plain file of the right owner that nobody else may open. */
bool lock_file_open(const char *dir, const char *name, int *fd, struct err *e) MUST_CHECK;
/* ---- lock_holder.c ---- */
/* This process, into a file that it holds. */
void lock_holder_write(int fd);
/* "pid 12 (alice, korch-worker)": who holds the open file, as the kernel and the file's words tell. */
void lock_holder_name(int fd, char *out, size_t n);

#endif
