/* proto/pipe.h: messages over a pipe: daemon and planner, worker and measuring child.  A frame is a length (4
 * bytes, little-endian) and a packed message.  Blocking, one thread.
 *
 * The planner's life:
 *   pipe_stdio(&p)                     its stdin and stdout are the pipe; prints go to stderr
 *   recv  plan_start
 *   send  cost_ask       recv cost_have with is_answer (others may come before it: streamed)
 *   send  measure_ask    recv cost_have ... one cost per spec asked, in any order and grouping;
 *                        a spec already measured with that effort is answered at once
 *   send  measure_drop   what is still outstanding and no longer wanted; answers that were
 *                        on their way may still come
 *   send  race_ask       recv race_have, unless it was dropped
 *   send  end_ask        recv end_have
 *   send  end_say        at the end of the search
 *   send  build_ask      recv build_have
 *   send  time_ask       recv time_have
 *   send  progress_say   at any time, at most a few a second
 *   send  done | failed  last; then exit 0
 * The daemon may send `finish` (end with the best plan at hand) and `worker_here` at any time.
 * End of file on the pipe means that the daemon is gone: exit. */
#ifndef KORCH_PIPE_H
#define KORCH_PIPE_H

#include "msg.h"
#include "tape.h"

struct pipe {
	int in, out;
	bool is_socket;         /* sent by send(), so that an end that is gone raises no signal */
	size_t max_in, max_out; /* bytes of a message; 0: PIPE_MAX_BYTES */
	uint8_t *buf;           /* what has arrived and not been taken */
	size_t n, cap;
	struct tape *tape; /* NULL; or what is recorded, or stands for the other side */
};
enum pipe_got { PIPE_MSG, PIPE_TIMEOUT, PIPE_END, PIPE_ERR };

void pipe_init(struct pipe *p, int in, int out);
/* Takes stdin and stdout for the pipe and points stdout at stderr. */
bool pipe_stdio(struct pipe *p, struct err *e) MUST_CHECK;
void pipe_fini(struct pipe *p);
bool pipe_send(struct pipe *p, const struct msg *m, struct err *e) MUST_CHECK;
/* timeout_ms < 0: waits for ever; 0: only what is there.  *m and what it points to live in `a`. */
enum pipe_got pipe_recv(struct pipe *p, struct arena *a, int timeout_ms, struct msg *m, struct err *e);

/* For a side with its own loop: a frame in arena memory, and the next whole frame of a buffer.
 * frame_next returns the bytes used (0: more needed; SIZE_MAX: over the limit). */
bool frame_pack(struct arena *a, const struct msg *m, struct bytes *out, struct err *e) MUST_CHECK;
size_t frame_next(struct bytes in, struct bytes *body);

#endif
