/* worker/measure_parent.c: the measuring child from outside.
 *
 * The child announces each kernel before it touches it (batch_at).  When the stream ends or stays
 * silent for too long, the kernel announced last is the culprit: it gets its row, the child is
 * replaced, and the batch goes on without what is settled.  A request is thus asked at most once
 * for each kernel that kills. */
#include "measure_child.h"

#include "../kernels/base/host.h"
#include "../kernels/base/opt.h"
#include "../kernels/device/gpu_fake.h"

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
	await_silence(c->pipe.in);
	pipe_fini(&c->pipe);
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
enum heard { HEARD_MSG, HEARD_END, HEARD_SILENCE, HEARD_CANCEL, HEARD_NONSENSE };

/* The next message.  Time in which the child wanted a core that others had is no silence of its own, up to
 * nine times the limit. */
static enum heard
listen_for(struct measure_child *c, struct arena *a, int64_t limit_ns, struct msg *m)
{
	const int64_t from_ns = now_ns(), starved = stolen_ns(c->pid);
	int64_t until_ns = from_ns + limit_ns;
	struct err e = {0};

	for (;;) {
		if (c->o.cancel && *c->o.cancel)
			return HEARD_CANCEL;
		if (now_ns() >= until_ns) {
			int64_t more = MIN_OF(MAX_OF(stolen_ns(c->pid) - starved, (int64_t)0), 9 * limit_ns);

			if (now_ns() >= from_ns + limit_ns + more)
				return HEARD_SILENCE;
			until_ns = from_ns + limit_ns + more;
		}
		switch (pipe_recv(&c->pipe, a, POLL_MS, m, &e)) {
		case PIPE_MSG:
			return HEARD_MSG;
		case PIPE_TIMEOUT:
			break;
		case PIPE_END:
			return HEARD_END;
		case PIPE_ERR:
			return e.code == ERR_PROTO ? HEARD_NONSENSE : HEARD_END;
		}
	}
}

bool
measure_ask(struct measure_child *c, struct arena *a, const struct msg *q, enum msg_type want, bool keeps,
    int64_t limit_ns, struct msg *out, struct err *e)
{
	struct err lost = {0};
	enum heard h = pipe_send(&c->pipe, q, &lost) ? listen_for(c, a, limit_ns, out) : HEARD_END;

	if (lost.code == ERR_LIMIT) {
		*e = lost;
		return false; /* nothing was sent */
	}
	if (h == HEARD_CANCEL)
		err_set(e, ERR_CANCELLED, "measuring was cancelled");
	else if (h == HEARD_SILENCE)
		err_set(e, ERR_TIMEOUT, "the measuring child did not answer within %lld s",
		    (long long)(limit_ns / 1000000000));
	else if (h == HEARD_END)
		err_set(e, ERR_HOST, "the measuring child ended; its words, if any, are above");
	else if (h == HEARD_MSG && out->type == want)
		return true;
	else if (h == HEARD_NONSENSE || !msg_is_error(out, e))
		err_set(e, ERR_PROTO, "the measuring child gave an unknown answer");
	else if (keeps)
		return false;
	measure_reap(c);
	return false;
}

static bool
spawn(struct measure_child *c, const char *const *reads, struct err *e)
{
	struct measure_start s = {.program = c->program,
	    .device = c->device,
	    .scratch = c->scratch[0] ? c->scratch : NULL,
	    .reads = reads,
	    .n_threads = c->o.n_threads};

	int fd;

	c->has_seen_plans = reads != NULL;
	c->n_starts++;
	if (*c->fake && measure_jail(s.device) != JAIL_MEASURE && !gpu_fake_load(e))
		return false;
	if (!measure_spawn(&s, &c->pid, &fd, e))
		return false;
	measure_pipe_parent(&c->pipe, fd);
	return true;
}

/* It did not greet: where its jail could not be made, that has been said. */
static bool
no_greeting(struct measure_child *c, struct err *e)
{
	const char *mode = getenv("KORCH_SANDBOX");

	if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == JAIL_FAILED)
		return err_set(
		    e, ERR_HOST, "%s cannot be started in its sandbox; why stands above", c->program);
	if (measure_jail(c->device) == JAIL_GPU && (!mode || strcmp(mode, "off") != 0))
		return err_in(e, "%s (in its sandbox: whether that is why, --sandbox off shows)", c->program);
	return err_in(e, "%s", c->program);
}

bool
measure_start(struct measure_child *c, const char *const *reads, struct err *e)
{
	struct msg q = {.type = MSG_child_hello}, its;
	struct arena tmp = {0};
	bool ok, is_same;

	if (strcmp(c->device, "cpu") == 0 && !c->refs.n && !refs_compile(&c->arena, &c->refs, e))
		return false;
	if (!spawn(c, reads, e))
		return false;
	q.child_hello = (struct m_child_hello){.device = str_of(c->device),
	    .fake = str_of(c->fake),
	    .threads = c->o.n_threads,
	    .memory_bytes = c->o.memory_bytes,
	    .references = c->refs};
	ok = measure_ask(c, &tmp, &q, MSG_child_welcome, false, calibrate_limit_ns, &its, e);
	is_same = ok && measure_is_same_build(&its.child_welcome);
	arena_fini(&tmp);
	if (!ok)
		return no_greeting(c, e);
	if (is_same)
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
	static const struct msg q = {.type = MSG_awake_ask};
	struct arena tmp = {0};
	struct msg said;
	struct err e = {0};
	bool ok = c->pid && !c->has_seen_plans &&
	    measure_ask(c, &tmp, &q, MSG_awake_have, false, calibrate_limit_ns, &said, &e);

	if (ok) {
		*n_starts = c->n_starts;
		*n_bytes = said.awake_have.resident_bytes;
		ok = said.awake_have.is_well;
	}
	arena_fini(&tmp);
	return ok;
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

static bool
ask_calibration(
    struct measure_child *c, const struct m_calibrate_ask *how, struct calibration *out, struct err *e)
{
	struct msg q = {.type = MSG_calibrate_ask, .calibrate_ask = *how}, said;
	struct arena tmp = {0};
	bool ok = alive(c, e) &&
	    measure_ask(c, &tmp, &q, MSG_calibrate_have, false, calibrate_limit_ns, &said, e) &&
	    calibration_unpack(&said.calibrate_have.calibration, out, e);

	arena_fini(&tmp);
	return ok;
}

bool
measure_calibrate(struct measure_child *c, bool is_quick, struct calibration *out, struct err *e)
{
	return ask_calibration(c, &(struct m_calibrate_ask){.is_quick = is_quick}, out, e) &&
	    (strcmp(c->device, "cpu") != 0 || add_environment(out, e));
}

bool
measure_calibrate_gpu(struct measure_child *c, struct bytes module, struct calibration *out, struct err *e)
{
	return ask_calibration(c, &(struct m_calibrate_ask){.module = module}, out, e);
}

/* An answer that may be large: read where `a` has it, which outlives the question. */
static bool
ask_module(struct measure_child *c, struct arena *a, const struct msg *q, struct bytes *out, struct err *e)
{
	struct msg said;

	if (!alive(c, e) || !measure_ask(c, a, q, MSG_module_have, true, measure_reference_ns, &said, e))
		return false;
	*out = said.module_have.module;
	return true;
}

bool
measure_compile(struct measure_child *c, struct arena *a, struct str text, int sm, bool strict,
    struct bytes *out, struct err *e)
{
	struct msg q = {
	    .type = MSG_compile_ask, .compile_ask = {.text = text, .sm = (uint64_t)sm, .strict = strict}};

	return ask_module(c, a, &q, out, e);
}

bool
measure_libraries(struct measure_child *c, int64_t *versions, struct err *e)
{
	static const struct msg q = {.type = MSG_libraries_ask};
	struct arena tmp = {0};
	struct msg said;
	bool ok =
	    alive(c, e) && measure_ask(c, &tmp, &q, MSG_libraries_have, true, measure_reference_ns, &said, e);

	for (int l = 0; ok && l < LIBRARY_COUNT; l++) {
		versions[l] = 0;
		for (uint32_t i = 0; i < said.libraries_have.n_libraries; i++)
			if (str_is(said.libraries_have.libraries[i].name, library_id((enum library)l)))
				versions[l] = said.libraries_have.libraries[i].version;
	}
	arena_fini(&tmp);
	return ok;
}

bool
measure_resolve(struct measure_child *c, struct arena *a, struct str spec, struct str schedule,
    struct bytes *out, struct err *e)
{
	struct msg q = {.type = MSG_resolve_ask, .resolve_ask = {.spec = spec, .schedule = schedule}};

	return ask_module(c, a, &q, out, e);
}

/* ---- batches ---------------------------------------------------------------------------- */
struct progress {
	struct measure_batch b;
	struct arena *arena;     /* of what rows point to */
	struct m_measured *rows; /* flat */
	bool *settled;           /* flat */
	uint32_t *first;         /* item -> its first row */
	uint32_t n_rows;
	struct m_batch_at at;  /* announced last; item == n_items: nothing yet */
	bool is_done, is_held; /* the host is held for the child */
};

static void
settle(struct progress *p, uint32_t row, enum err_code fail, const char *cause)
{
	if (p->settled[row])
		return;
	p->settled[row] = true;
	p->rows[row] = (struct m_measured){0};
	measure_fail(p->arena, &p->rows[row].row, fail, cause);
}

/* The child is gone: whom to blame.  Without an announcement it was the module itself.  Of several references
 * that were made at a time nobody knows which it was: they are made one by one then. */
static void
blame(struct progress *p, enum err_code fail, const char *cause)
{
	uint32_t lo = 0, hi = p->n_rows;

	if (p->at.is_reference && p->at.n_items > 1 && !p->b.alone) {
		p->b.alone = true;
		return;
	}
	if (p->at.item < p->b.n_items) {
		lo = p->first[p->at.item];
		hi = lo + p->b.items[p->at.item].n_kernels;
		if (!p->at.is_reference) {
			lo += (uint32_t)p->at.kernel;
			hi = lo + 1;
		}
	}
	for (uint32_t i = lo; i < hi; i++)
		settle(p, i, fail, cause);
}

static bool
is_kernel(const struct progress *p, uint64_t item, uint64_t kernel)
{
	return item < p->b.n_items && kernel < p->b.items[item].n_kernels;
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
hold_for(struct measure_child *c, struct progress *p, const struct m_batch_hold *m, struct err *e)
{
	static const struct msg go = {.type = MSG_batch_go};
	struct err gone = {0};

	if (!hold(c, p, m->take, e))
		return HEARD_CANCEL;
	return !m->take || pipe_send(&c->pipe, &go, &gone) ? HEARD_MSG : HEARD_END;
}

static bool
take_row(struct progress *p, const struct m_batch_row *r)
{
	struct m_measured *to;

	if (!is_kernel(p, r->item, r->kernel) ||
	    (uint64_t)err_wire(err_of_wire(r->measured.row.fail)) != r->measured.row.fail)
		return false;
	to = &p->rows[p->first[r->item] + r->kernel];
	*to = r->measured;
	rec_dup(p->arena, "measured", to);
	p->settled[p->first[r->item] + r->kernel] = true;
	return true;
}

/* False where the child's words make no sense. */
static bool
take(struct progress *p, const struct msg *m)
{
	struct err e = {0};

	if (m->type == MSG_batch_at) {
		p->at = m->batch_at;
		return is_kernel(p, p->at.item, p->at.kernel) ||
		    (p->at.is_reference && p->at.item < p->b.n_items);
	}
	if (m->type == MSG_batch_row)
		return take_row(p, &m->batch_row);
	if (msg_is_error(m, &e))
		for (uint32_t i = 0; i < p->n_rows; i++)
			settle(p, i, e.code, e.msg);
	p->is_done = m->type == MSG_batch_end || m->type == MSG_error;
	return p->is_done;
}

/* Until the batch is done, or is not to be. */
static enum heard
hear_batch(struct measure_child *c, struct progress *p, struct err *e)
{
	struct arena tmp = {0};
	enum heard h = HEARD_MSG;

	while (h == HEARD_MSG && !p->is_done) {
		struct arena_mark mark = arena_mark(&tmp);
		bool thinking = p->at.item < p->b.n_items && p->at.is_reference;
		struct msg m;

		h = listen_for(c, &tmp, thinking ? measure_reference_ns : c->o.kernel_ns, &m);
		if (h == HEARD_MSG && m.type == MSG_batch_hold)
			h = hold_for(c, p, &m.batch_hold, e);
		else if (h == HEARD_MSG && !take(p, &m))
			h = HEARD_NONSENSE;
		arena_reset(&tmp, mark);
	}
	arena_fini(&tmp);
	return h;
}

static bool
send_batch(struct measure_child *c, const struct progress *p, struct err *e)
{
	struct msg q = {.type = MSG_batch_ask};
	struct arena tmp = {0};
	bool ok;

	batch_pack(&tmp, &p->b, p->settled, &q.batch_ask);
	ok = pipe_send(&c->pipe, &q, e);
	arena_fini(&tmp);
	return ok;
}

/* One child at work on what is not settled.  False only on cancel, where the host cannot be had, or where the
 * batch is larger than a message may be. */
static bool
work_once(struct measure_child *c, struct progress *p, struct err *e)
{
	char cause[128];
	struct err none = {0}, lost = {0};
	enum heard h = HEARD_END;

	*e = none;
	p->at = (struct m_batch_at){.item = p->b.n_items};
	if (send_batch(c, p, &lost))
		h = hear_batch(c, p, e);
	(void)hold(c, p, false, &none);
	if (p->is_done)
		return true;
	if (lost.code == ERR_LIMIT) {
		*e = lost;
		return false;
	}
	if (h == HEARD_END) {
		await_end(c);
		cause_of_death(c, cause, sizeof(cause));
		blame(p, ERR_CRASH, cause);
	} else if (h == HEARD_SILENCE) {
		(void)snprintf(cause, sizeof(cause), "the kernel did not end within %.3g s",
		    (double)c->o.kernel_ns * 1e-9);
		blame(p, ERR_TIMEOUT, cause);
	} else if (h == HEARD_NONSENSE) {
		blame(p, ERR_CRASH, "the kernel wrote over the memory of its process");
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
    struct m_measured **rows, struct err *e)
{
	struct arena tmp = {0};
	struct progress p = {.b = *b, .arena = a, .first = NEW_ARRAY(&tmp, uint32_t, b->n_items)};
	bool ok = true;

	for (uint32_t i = 0; i < b->n_items; i++) {
		p.first[i] = p.n_rows;
		p.n_rows += b->items[i].n_kernels;
	}
	p.rows = NEW_ARRAY(a, struct m_measured, p.n_rows);
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
