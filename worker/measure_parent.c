/* worker/measure_parent.c: the measuring child from outside.
 *
 * The child announces each kernel before it touches it (SAY_AT).  When the stream ends or stays
 * silent for too long, the kernel announced last is the culprit: it gets its row, the child is
 * replaced, and the batch goes on without what is settled.  A request is thus asked at most once
 * for each kernel that kills. */
#include "measure_child.h"

#include "../kernels/base/host.h"
#include "../kernels/base/opt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t default_kernel_ns = 20 * (int64_t)1000000000;
static const int64_t calibrate_limit_ns = 60 * (int64_t)1000000000;
enum { POLL_MS = 100, LAST_MS = 1000 };

static size_t
memory_here(void)
{
	return (size_t)MIN_OF((uint64_t)MEASURE_MEMORY, host_memory_bytes(os_real()) / 4 * 3);
}

/* ---- life of a child -------------------------------------------------------------------- */
/* Nobody of it is left when nobody holds the other end of its stream. */
static void
await_silence(int fd)
{
	struct pollfd pf = {.fd = fd, .events = POLLIN};
	char some[4096];

	while (poll(&pf, 1, LAST_MS) > 0 && read(fd, some, sizeof(some)) > 0)
		;
}

void
measure_reap(struct measure_child *c)
{
	if (!c->pid)
		return;
	(void)kill(-c->pid, SIGKILL); /* the jail's own processes with it */
	if (!c->ended)
		while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
			;
	await_silence(c->fd);
	(void)close(c->fd);
	c->pid = 0;
	c->ended = c->has_seen_plans = false;
}

/* It closed its end: waits for how it ended, rather than end it by a signal of our own. */
static void
await_end(struct measure_child *c)
{
	for (int i = 0; i < 1000 && !c->ended; i++) {
		c->ended = waitpid(c->pid, &c->status, WNOHANG) == c->pid;
		if (!c->ended)
			(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

/* Why the last child ended, for the row of the kernel it was at. */
static void
cause_of_death(const struct measure_child *c, char *out, size_t cap)
{
	int sig = WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;

	if (sig)
		(void)snprintf(
		    out, cap, "the kernel ended its process by signal %d (%s)", sig, strsignal(sig));
	else
		(void)snprintf(
		    out, cap, "the kernel ended its process with status %d", WEXITSTATUS(c->status));
}

/* ---- listening -------------------------------------------------------------------------- */
enum heard { HEARD_FRAME, HEARD_END, HEARD_SILENCE, HEARD_CANCEL, HEARD_NONSENSE };

/* The next frame.  A child that has begun one is trusted to finish it: frames are small.  Time in which it
 * wanted a core that others had is no silence of its own, up to nine times the limit. */
static enum heard
listen_for(
    struct measure_child *c, struct arena *a, int64_t limit_ns, enum frame_kind *kind, struct bytes *body)
{
	const int64_t from_ns = now_ns(), starved = starved_ns(c->pid);
	int64_t until_ns = from_ns + limit_ns;

	for (;;) {
		struct pollfd pf = {.fd = c->fd, .events = POLLIN};

		if (c->o.cancel && *c->o.cancel)
			return HEARD_CANCEL;
		if (now_ns() >= until_ns) {
			int64_t more = MIN_OF(MAX_OF(starved_ns(c->pid) - starved, (int64_t)0), 9 * limit_ns);

			if (now_ns() >= from_ns + limit_ns + more)
				return HEARD_SILENCE;
			until_ns = from_ns + limit_ns + more;
		}
		if (poll(&pf, 1, POLL_MS) > 0)
			return frame_read(c->fd, a, kind, body) ? HEARD_FRAME : HEARD_END;
	}
}

/* One question, one answer of kind `want`, in `a`.  The child's own error leaves it alive where
 * `keeps`. */
static bool
ask_bytes(struct measure_child *c, struct arena *a, enum frame_kind ask, struct bytes q, enum frame_kind want,
    bool keeps, int64_t limit_ns, struct bytes *out, struct err *e)
{
	enum frame_kind kind = (enum frame_kind)0;
	struct bytes body = {0};
	enum heard h =
	    frame_write(c->fd, ask, q.p, q.n) ? listen_for(c, a, limit_ns, &kind, &body) : HEARD_END;

	if (h == HEARD_CANCEL)
		err_set(e, ERR_CANCELLED, "measuring was cancelled");
	else if (h == HEARD_SILENCE)
		err_set(e, ERR_TIMEOUT, "the measuring child did not answer within %lld s",
		    (long long)(limit_ns / 1000000000));
	else if (h == HEARD_END)
		err_set(e, ERR_HOST, "the measuring child ended; its words, if any, are above");
	else if (kind == SAY_ERROR && body.n == sizeof(struct err)) {
		memcpy(e, body.p, sizeof(*e));
		e->msg[sizeof(e->msg) - 1] = 0;
		if (keeps)
			return false;
	} else if (kind != want)
		err_set(e, ERR_PROTO, "the measuring child gave an unknown answer");
	else {
		*out = body;
		return true;
	}
	measure_reap(c);
	return false;
}

bool
measure_ask_one(struct measure_child *c, enum frame_kind ask, const void *q, size_t n_q, enum frame_kind want,
    void *out, size_t n, int64_t limit_ns, struct err *e)
{
	struct arena tmp = {0};
	struct bytes body;
	bool ok = ask_bytes(c, &tmp, ask, (struct bytes){q, n_q}, want, false, limit_ns, &body, e);

	if (ok && body.n != n) {
		ok = err_set(e, ERR_PROTO, "the measuring child gave an unknown answer");
		measure_reap(c);
	}
	if (ok)
		memcpy(out, body.p, n);
	arena_fini(&tmp);
	return ok;
}

static bool
spawn(struct measure_child *c, const char *const *reads, struct err *e)
{
	struct measure_start s = {.program = c->program,
	    .device = c->device,
	    .scratch = c->scratch[0] ? c->scratch : NULL,
	    .reads = reads,
	    .n_threads = c->o.n_threads};

	c->has_seen_plans = reads != NULL;
	c->n_starts++;
	return measure_spawn(&s, &c->pid, &c->fd, e);
}

/* It did not greet: where its jail could not be made, that has been said. */
static bool
no_greeting(struct measure_child *c, struct err *e)
{
	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == JAIL_FAILED)
		return err_set(
		    e, ERR_HOST, "%s cannot be started in its sandbox; why stands above", c->program);
	return err_in(e, "%s", c->program);
}

bool
measure_start(struct measure_child *c, const char *const *reads, struct err *e)
{
	struct say_hello mine = hello_mine(), its;
	struct ask_hello ask = {.n_threads = c->o.n_threads, .memory_bytes = c->o.memory_bytes};
	struct arena tmp = {0};
	uint8_t *body;
	bool ok;

	memcpy(ask.device, c->device, sizeof(ask.device));
	memcpy(ask.fake, c->fake, sizeof(ask.fake));
	if (strcmp(c->device, "cpu") == 0 && !c->refs.n && !refs_compile(&c->arena, &c->refs, e))
		return false;
	if (!spawn(c, reads, e))
		return false;
	body = arena_alloc(&tmp, sizeof(ask) + c->refs.n);
	memcpy(body, &ask, sizeof(ask));
	if (c->refs.n)
		memcpy(body + sizeof(ask), c->refs.p, c->refs.n);
	ok = measure_ask_one(
	    c, ASK_HELLO, body, sizeof(ask) + c->refs.n, SAY_HELLO, &its, sizeof(its), calibrate_limit_ns, e);
	arena_fini(&tmp);
	if (!ok)
		return no_greeting(c, e);
	if (memcmp(&mine, &its, sizeof(mine)) == 0)
		return true;
	measure_reap(c);
	return err_set(e, ERR_HOST, "%s is of another build; install both together", c->program);
}

static bool
alive(struct measure_child *c, struct err *e)
{
	if (c->has_seen_plans)
		measure_reap(c);
	return c->pid != 0 || measure_start(c, NULL, e);
}

pid_t
measure_pid(const struct measure_child *c)
{
	return c->pid;
}

bool
measure_is_well(struct measure_child *c, uint32_t *n_starts, uint64_t *n_bytes)
{
	struct say_awake said;
	struct err e = {0};

	if (!c->pid || c->has_seen_plans ||
	    !measure_ask_one(c, ASK_AWAKE, NULL, 0, SAY_AWAKE, &said, sizeof(said), calibrate_limit_ns, &e))
		return false;
	*n_starts = c->n_starts;
	*n_bytes = said.resident_bytes;
	return said.is_well != 0;
}

/* What NVRTC's child compiles, and what a GPU's driver keeps, lies in a folder of its own. */
static bool
make_scratch(struct measure_child *c, struct err *e)
{
	if (measure_jail(c->device) == JAIL_MEASURE)
		return true;
	if (os_temp_dir("measure", c->scratch, e))
		return true;
	c->scratch[0] = '\0';
	return false;
}

bool
measure_open(const struct measure_opts *o, struct measure_child **out, struct err *e)
{
	struct measure_child *c = heap_alloc(sizeof(*c));
	struct arena tmp = {0};
	const char *program = o->program ? o->program : helper_path(&tmp, "korch-measure");

	c->o = *o;
	c->o.n_threads = MAX_OF(o->n_threads, 1u);
	c->o.memory_bytes = o->memory_bytes ? o->memory_bytes : memory_here();
	c->o.kernel_ns = o->kernel_ns ? o->kernel_ns : default_kernel_ns;
	(void)snprintf(c->program, sizeof(c->program), "%s", program ? program : "");
	(void)snprintf(c->device, sizeof(c->device), "%s", o->device ? o->device : "cpu");
	(void)snprintf(c->fake, sizeof(c->fake), "%s", o->fake ? o->fake : "");
	arena_fini(&tmp);
	if (!program)
		err_set(e, ERR_HOST,
		    "korch-measure is not beside this program; install it there or set KORCH_LIBEXEC");
	if (program && make_scratch(c, e) && measure_start(c, NULL, e)) {
		*out = c;
		return true;
	}
	measure_close(c);
	return false;
}

void
measure_close(struct measure_child *c)
{
	if (!c)
		return;
	measure_reap(c);
	if (c->scratch[0])
		os_remove_tree(c->scratch);
	arena_fini(&c->arena);
	free(c);
}

/* The words of the environment name the compiler, which the child does not know. */
static bool
add_environment(struct calibration *out, struct err *e)
{
	struct arena tmp = {0};
	struct dev_info *info = NEW(&tmp, struct dev_info);
	bool ok = measure_environment(&out->target, info, e);

	if (ok)
		memcpy(out->info.environment, info->environment, sizeof(out->info.environment));
	arena_fini(&tmp);
	return ok;
}

bool
measure_calibrate(struct measure_child *c, bool is_quick, struct calibration *out, struct err *e)
{
	static const uint8_t quick = 1;

	return alive(c, e) &&
	    measure_ask_one(c, ASK_CALIBRATE, &quick, is_quick ? sizeof(quick) : 0, SAY_CALIBRATION, out,
		sizeof(*out), calibrate_limit_ns, e) &&
	    (strcmp(c->device, "cpu") != 0 || add_environment(out, e));
}

bool
measure_calibrate_gpu(struct measure_child *c, struct bytes module, struct calibration *out, struct err *e)
{
	return alive(c, e) &&
	    measure_ask_one(c, ASK_CALIBRATE, module.p, module.n, SAY_CALIBRATION, out, sizeof(*out),
		calibrate_limit_ns, e);
}

bool
measure_compile(struct measure_child *c, struct arena *a, struct str text, int sm, bool strict,
    struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	put_num(&sb, (uint64_t)sm);
	put_num(&sb, strict);
	put_blob(&sb, text.p, text.n);
	ok = alive(c, e) &&
	    ask_bytes(c, a, ASK_COMPILE, (struct bytes){(const uint8_t *)sb.p, sb.n}, SAY_CUBIN, true,
		measure_reference_ns, out, e);
	arena_fini(&tmp);
	return ok;
}

bool
measure_libraries(struct measure_child *c, int64_t *versions, struct err *e)
{
	struct arena tmp = {0};
	struct bytes body = {0};
	bool ok = alive(c, e) &&
	    ask_bytes(c, &tmp, ASK_LIBRARIES, (struct bytes){0}, SAY_LIBRARIES, true, measure_reference_ns,
		&body, e);

	if (ok && body.n != LIBRARY_COUNT * sizeof(*versions))
		ok = err_set(e, ERR_PROTO, "the measuring child tells its libraries in %zu bytes", body.n);
	if (ok)
		memcpy(versions, body.p, body.n);
	arena_fini(&tmp);
	return ok;
}

bool
measure_resolve(struct measure_child *c, struct arena *a, struct str spec, struct str schedule,
    struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	put_blob(&sb, spec.p, spec.n);
	put_blob(&sb, schedule.p, schedule.n);
	ok = alive(c, e) &&
	    ask_bytes(c, a, ASK_RESOLVE, (struct bytes){(const uint8_t *)sb.p, sb.n}, SAY_CUBIN, true,
		measure_reference_ns, out, e);
	arena_fini(&tmp);
	return ok;
}

/* ---- batches ---------------------------------------------------------------------------- */
struct progress {
	const struct measure_batch *b;
	struct measure_row *rows; /* flat */
	bool *settled;            /* flat */
	uint32_t *first;          /* item -> its first row */
	uint32_t n_rows;
	struct say_at at;      /* announced last; item == n_items: nothing yet */
	bool is_done, is_held; /* the host is held for the child */
};

static void
settle(struct progress *p, uint32_t row, enum err_code fail, const char *cause)
{
	if (p->settled[row])
		return;
	p->settled[row] = true;
	p->rows[row] = (struct measure_row){.fail = fail};
	(void)snprintf(p->rows[row].cause, sizeof(p->rows[row].cause), "%s", cause);
}

/* The child is gone: whom to blame.  Without an announcement it was the module itself. */
static void
blame(struct progress *p, enum err_code fail, const char *cause)
{
	uint32_t lo = 0, hi = p->n_rows;

	if (p->at.item < p->b->n_items) {
		lo = p->first[p->at.item];
		hi = lo + p->b->items[p->at.item].n_kernels;
		if (p->at.kernel != AT_REFERENCE) {
			lo += p->at.kernel;
			hi = lo + 1;
		}
	}
	for (uint32_t i = lo; i < hi; i++)
		settle(p, i, fail, cause);
}

static bool
is_kernel(const struct progress *p, uint32_t item, uint32_t kernel)
{
	return item < p->b->n_items && (kernel < p->b->items[item].n_kernels || kernel == AT_REFERENCE);
}

static bool
hold(struct measure_child *c, struct progress *p, bool take, struct err *e)
{
	if (take != p->is_held && c->o.hold && !c->o.hold(c->o.hold_self, take, e))
		return false;
	p->is_held = take;
	return true;
}

/* The child wants the host, or has done with it; it waits for an answer to the first. */
static enum heard
hold_for(struct measure_child *c, struct progress *p, struct bytes body, struct err *e)
{
	struct say_hold h;

	if (body.n != sizeof(h))
		return HEARD_NONSENSE;
	memcpy(&h, body.p, sizeof(h));
	if (!hold(c, p, h.take != 0, e))
		return HEARD_CANCEL;
	if (h.take) /* a child that is gone by now is found out by the end of its stream */
		(void)frame_write(c->fd, ASK_GO, NULL, 0);
	return HEARD_FRAME;
}

/* False where the child's words make no sense. */
static bool
take(struct progress *p, enum frame_kind kind, struct bytes body)
{
	struct say_row r;
	struct err e;

	if (kind == SAY_AT && body.n == sizeof(p->at)) {
		memcpy(&p->at, body.p, sizeof(p->at));
		return is_kernel(p, p->at.item, p->at.kernel);
	}
	if (kind == SAY_ROW && body.n == sizeof(r)) {
		memcpy(&r, body.p, sizeof(r));
		if (!is_kernel(p, r.item, r.kernel) || r.kernel == AT_REFERENCE || r.row.fail >= ERR_COUNT)
			return false;
		r.row.cause[sizeof(r.row.cause) - 1] = 0;
		p->rows[p->first[r.item] + r.kernel] = r.row;
		p->settled[p->first[r.item] + r.kernel] = true;
		return true;
	}
	if (kind == SAY_ERROR && body.n == sizeof(e)) {
		memcpy(&e, body.p, sizeof(e));
		e.msg[sizeof(e.msg) - 1] = 0;
		for (uint32_t i = 0; i < p->n_rows; i++)
			settle(p, i, e.code > ERR_NONE && e.code < ERR_COUNT ? e.code : ERR_FAILED, e.msg);
		p->is_done = true;
		return true;
	}
	p->is_done = kind == SAY_END;
	return p->is_done;
}

/* One child at work on what is not settled.  False only on cancel, or where the host cannot be had. */
static bool
work_once(struct measure_child *c, struct progress *p, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	char cause[128];
	struct err none = {0};
	enum heard h = HEARD_FRAME;

	*e = none;
	sb_init(&sb, &tmp);
	batch_pack(&sb, p->b, p->settled);
	p->at = (struct say_at){p->b->n_items, 0};
	if (!frame_write(c->fd, ASK_BATCH, sb.p, sb.n))
		h = HEARD_END;
	while (h == HEARD_FRAME && !p->is_done) {
		struct arena_mark mark = arena_mark(&tmp);
		bool thinking = p->at.item < p->b->n_items && p->at.kernel == AT_REFERENCE;
		enum frame_kind kind;
		struct bytes body;

		h = listen_for(c, &tmp, thinking ? measure_reference_ns : c->o.kernel_ns, &kind, &body);
		if (h == HEARD_FRAME && kind == SAY_HOLD)
			h = hold_for(c, p, body, e);
		else if (h == HEARD_FRAME && !take(p, kind, body))
			h = HEARD_NONSENSE;
		if (h == HEARD_NONSENSE)
			blame(p, ERR_CRASH, "the kernel wrote over the memory of its process");
		arena_reset(&tmp, mark);
	}
	arena_fini(&tmp);
	(void)hold(c, p, false, &none);
	if (p->is_done)
		return true;
	if (h == HEARD_END) {
		await_end(c);
		cause_of_death(c, cause, sizeof(cause));
		blame(p, ERR_CRASH, cause);
	} else if (h == HEARD_SILENCE) {
		(void)snprintf(cause, sizeof(cause), "the kernel did not end within %.3g s",
		    (double)c->o.kernel_ns * 1e-9);
		blame(p, ERR_TIMEOUT, cause);
	}
	measure_reap(c);
	if (h == HEARD_CANCEL && e->code == ERR_NONE)
		(void)err_set(e, ERR_CANCELLED, "measuring was cancelled");
	return h != HEARD_CANCEL;
}

static bool
all_settled(const struct progress *p)
{
	for (uint32_t i = 0; i < p->n_rows; i++)
		if (!p->settled[i])
			return false;
	return true;
}

bool
measure_batch_run(struct measure_child *c, struct arena *a, const struct measure_batch *b,
    struct measure_row **rows, struct err *e)
{
	struct arena tmp = {0};
	struct progress p = {.b = b, .first = NEW_ARRAY(&tmp, uint32_t, b->n_items)};
	bool ok = true;

	for (uint32_t i = 0; i < b->n_items; i++) {
		p.first[i] = p.n_rows;
		p.n_rows += b->items[i].n_kernels;
	}
	p.rows = NEW_ARRAY(a, struct measure_row, p.n_rows);
	p.settled = NEW_ARRAY(&tmp, bool, p.n_rows);
	while (ok && !p.is_done && !all_settled(&p))
		ok = alive(c, e) && work_once(c, &p, e);
	for (uint32_t i = 0; ok && i < p.n_rows; i++)
		if (!p.settled[i])
			settle(&p, i, ERR_FAILED, "the measuring child left this kernel out");
	*rows = p.rows;
	arena_fini(&tmp);
	return ok;
}
