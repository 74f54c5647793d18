/* proto/tape.h: a planner's run on tape, so that it can be run again: what came through its pipe, what its
 * clock said, what files of others it read; of what it sent, a digest.  The file is a mapping that grows
 * piece by piece, so that it is whole up to the very instruction at which the process dies.  One thread.
 *
 *   tape_record(path)   pipe and clock are the real ones, and are noted
 *   tape_play(path)     pipe and clock are the tape; where the run becomes another one it is said, once
 *
 * A tape that cannot be written (disk full, over its limit) ends there, and the run goes on without. */
#ifndef KORCH_TAPE_H
#define KORCH_TAPE_H

#include "../kernels/base/base.h"

struct tape;
#define TAPE_NAME "korch-tape" /* in a job's folder, where the model's own files lie too */
enum tape_event {
	TAPE_END = 0, /* of what was recorded */
	TAPE_MSG,     /* a message came: its packed bytes */
	TAPE_SILENCE, /* the wait for one ran out */
	TAPE_CLOSED,  /* the other side was gone */
	TAPE_SENT,    /* a message went: its number and a digest */
	TAPE_MONO,    /* the clock was asked */
	TAPE_WALL,    /* the wall clock was asked */
	TAPE_FILE,    /* a file outside of the job's folder was read */
	TAPE_EVENTS
};
/* own: files below it are not copied.  NULL where it cannot be made: then nothing is recorded. */
struct tape *tape_record(const char *path, const char *own);
/* ERR_IO, ERR_FORMAT. */
bool tape_play(struct tape **out, const char *path, struct err *e) MUST_CHECK;
void tape_close(struct tape *t);
bool tape_is_played(const struct tape *t);

/* The clock and the files, recorded or played; `os` itself where t is NULL. */
const struct os *tape_os(struct tape *t, const struct os *os);

/* ---- for the pipe ---- */
void tape_note(struct tape *t, enum tape_event what, struct bytes b);
/* Playing: what came next, TAPE_MSG, TAPE_SILENCE, TAPE_CLOSED or TAPE_END; *b lives as long as the tape. */
enum tape_event tape_next_in(struct tape *t, struct bytes *b);
/* A message that goes: recorded, or compared. */
void tape_sent(struct tape *t, uint64_t number, struct bytes body);

/* Playing: how many messages came and went so far, and whether the run is still the recorded one. */
struct tape_counts {
	uint32_t n_in, n_out;
	bool is_other;
};
struct tape_counts tape_counts(const struct tape *t);

#endif
