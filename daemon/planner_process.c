/* daemon/planner_process.c: the daemon's side of a planner: starts it when there is room and a device,
 * lays out the job's folder, reads what it says; how it ends is job_history.c. */
#include "planner_process.h"
#include "loop.h"
#include "job_history.h"
#include "place.h"
#include "folder.h"

#include "../kernels/base/epoch.h"
#include "../kernels/jail/jail.h"
#include "../schema/env.h"
#include "../schema/predictor.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAST_WORDS = 2000 };

/* ---- what it says ------------------------------------------------------------------- */
static void
hear(struct daemon *d, struct job *j, const struct msg *m)
{
	struct arena tmp = {0};

	switch (m->type) {
	case MSG_cost_ask:
		ask_costs(d, j, &m->cost_ask);
		break;
	case MSG_measure_ask:
		ask_measure(d, j, &m->measure_ask);
		break;
	case MSG_measure_drop:
		ask_drop(d, j, &m->measure_drop);
		break;
	case MSG_end_ask:
		ask_end(d, j, &m->end_ask);
		break;
	case MSG_race_ask:
		ask_race(d, j, &m->race_ask);
		break;
	case MSG_perturb_ask:
		ask_perturb(d, j, &m->perturb_ask);
		break;
	case MSG_build_ask:
		ask_build(d, j, &m->build_ask);
		break;
	case MSG_time_ask:
		ask_time(d, j, &m->time_ask);
		break;
	case MSG_progress_say:
		j->rec.progress = m->progress_say.progress;
		j->rec.progress.phase.p = str_dup(&j->arena, j->rec.progress.phase);
		job_event(d, j);
		break;
	case MSG_done:
		plan_done(d, j, &m->done);
		break;
	case MSG_failed:
		plan_failed(d, j, err_of_wire(m->failed.code), str_dup(&tmp, m->failed.text));
		break;
	default:
		plan_died(d, j, ERR_PROTO,
		    arena_printf(&tmp, "the planner sent %s, which it may not", msg_name(m->type)));
	}
	arena_fini(&tmp);
}

static void
keep_bytes(struct job *j, struct bytes b)
{
	if (j->n_in + b.n > j->cap_in) {
		j->cap_in = MAX_OF(2 * j->cap_in, j->n_in + b.n);
		j->in = heap_resize(j->in, j->cap_in);
	}
	memcpy(j->in + j->n_in, b.p, b.n);
	j->n_in += b.n;
}

static void
planner_bytes(void *self, struct bytes b)
{
	struct job *j = self;
	struct daemon *d = j->daemon;
	size_t at = 0, used;
	struct bytes body = {0};

	keep_bytes(j, b);
	while (!j->is_ended && (used = frame_next((struct bytes){j->in + at, j->n_in - at}, &body)) != 0) {
		struct arena tmp = {0};
		struct msg m;
		struct err e = {0};

		if (used == SIZE_MAX || !msg_unpack(&tmp, body, &m, &e)) {
			plan_died(d, j, ERR_PROTO,
			    used == SIZE_MAX ? "the planner sent a message over the limit" : e.msg);
			arena_fini(&tmp);
			return;
		}
		os_seam("planner.message");
		hear(d, j, &m);
		at += used;
		arena_fini(&tmp);
	}
	memmove(j->in, j->in + at, j->n_in - at);
	j->n_in -= at;
}

static void
say_line(struct job *j)
{
	daemon_log(j->daemon, planner_says, KVI("job", j->rec.id),
	    KV("text", ((struct str){j->words_line, j->n_words_line})));
	j->n_words_line = 0;
}

/* What it writes to stderr goes to the log, line by line. */
static void
log_words(struct job *j, struct bytes b)
{
	for (size_t i = 0; i < b.n; i++) {
		bool is_end = b.p[i] == '\n';

		if (!is_end)
			j->words_line[j->n_words_line++] = (char)b.p[i];
		if (j->n_words_line && (is_end || j->n_words_line == sizeof(j->words_line)))
			say_line(j);
	}
}

/* The tail of what it wrote to stderr is the evidence of a crash. */
static void
planner_words(void *self, struct bytes b)
{
	struct job *j = self;
	struct arena fresh = {0};
	size_t old = j->last_words.n, keep, skip;
	char *p;

	log_words(j, b);
	keep = MIN_OF(old, (size_t)LAST_WORDS - MIN_OF(b.n, (size_t)LAST_WORDS));
	skip = b.n - MIN_OF(b.n, (size_t)LAST_WORDS);
	p = arena_alloc(&fresh, LAST_WORDS + 1);
	if (keep)
		memcpy(p, j->last_words.p + (old - keep), keep);
	memcpy(p + keep, b.p + skip, b.n - skip);
	j->last_words = (struct str){p, keep + b.n - skip};
	arena_fini(&j->last_words_arena);
	j->last_words_arena = fresh;
}

/* The last line it wrote, for the reason of its failure. */
static struct str
last_line(struct str words)
{
	struct str rest = str_trim(words), line = {0};

	while (rest.n)
		line = str_cut(&rest, '\n');
	return line;
}

static void
planner_ended(void *self, int status, int signal)
{
	struct job *j = self;
	struct daemon *d = j->daemon;
	struct arena tmp = {0};
	struct str line = last_line(j->last_words);

	j->planner = NULL;
	generate_stop(j);
	if (j->n_words_line)
		say_line(j);
	if (!j->is_ended && !job_state_is_over(j->state)) {
		if (j->is_deaf)
			plan_died(d, j, ERR_FAILED, "the planner did not read what it had asked for");
		else if (signal)
			plan_died(d, j, ERR_CRASH,
			    arena_printf(&tmp, "the planner was ended by signal %d (%s)%s%.200s", signal,
				strsignal(signal), line.n ? ": " : "", line.n ? str_dup(&tmp, line) : ""));
		else
			plan_died(d, j, ERR_FAILED,
			    arena_printf(&tmp, "the planner left with status %d before it was done%s%.200s",
				status, line.n ? ": " : "", line.n ? str_dup(&tmp, line) : ""));
	}
	arena_fini(&tmp);
	planners_tick(d);
}

/* ---- start -------------------------------------------------------------------------- */
/* It predicts, and measures nothing first: its class need not be here. */
static bool
job_is_guessed(const struct job *j)
{
	return j->rec.options.predict && j->rec.options.samples == 0;
}

struct start_op {
	struct store_op op;
	uint64_t job;
	struct str class;
	char *dir;
	struct hash model, files;
	char *model_path, *predictor_path; /* NULL: what came with Korch */
	struct hash asked, predictor;      /* asked: by the job; zeros: it names none */
	struct m_env env;
	int64_t env_id;  /* 0: nobody of that class is connected */
	bool is_guessed; /* a job that predicts: its class need not be here */
};

static bool
lay_out(struct db *db, struct start_op *s, const struct m_file *f, struct err *e)
{
	struct arena *a = &s->op.arena;
	char *to = arena_printf(a, "%s/model/%.*s", s->dir, STR_ARG(f->name));
	char *from = blob_path(a, db, &f->digest), *folder = str_dup(a, str_of(to));

	*strrchr(folder, '/') = '\0';
	if (!os_make_dirs(folder, e) || !folder_give(from, to, e))
		return false;
	if (!s->model_path) {
		s->model_path = to;
		s->model = f->digest;
	} else if (hash_eq(&f->digest, &s->asked)) {
		s->predictor_path = to;
		s->predictor = f->digest;
	}
	return true;
}

/* Of all files, under the names that the model has for them. */
static struct hash
digest_of_files(const struct m_file *f, uint32_t n)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < n; i++) {
		sb_addf(&sb, "%zu %.*s ", f[i].name.n, STR_ARG(f[i].name));
		sb_add(&sb, (struct str){(const char *)f[i].digest.b, sizeof(f[i].digest.b)});
	}
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

/* What was trained for the class, unless the job names its own. */
static bool
lay_predictor(struct db *db, struct start_op *s)
{
	struct arena *a = &s->op.arena;
	struct m_predictor p;

	if (s->predictor_path)
		return true;
	if (!predictor_find(db, a, s->env.class, SAMPLES_EPOCH, &p, &s->op.err))
		return false;
	if (p.file.n == 0)
		return true;
	s->predictor_path = arena_printf(a, "%s/given/trained.predict", s->dir);
	s->predictor = hash_bytes(p.file.p, p.file.n);
	return os_write_file(os_real(), s->predictor_path, p.file, &s->op.err);
}

static bool
find_env(struct db *db, struct start_op *s)
{
	struct arena *a = &s->op.arena;
	struct err *e = &s->op.err;

	return s->is_guessed ? env_known(db, a, s->class, &s->env_id, &s->env, e)
	    : s->env_id      ? env_get(db, a, s->env_id, &s->env, e)
			     : env_of_class(db, a, s->class, &s->env_id, &s->env, e);
}

static bool
run_start(struct db *db, struct store_op *op)
{
	struct start_op *s = (struct start_op *)(void *)op;
	struct m_file *files;
	uint32_t n;

	if (!find_env(db, s) || !job_files(db, &op->arena, s->job, &files, &n, &op->err) ||
	    !folder_make(s->dir, &op->err))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!lay_out(db, s, &files[i], &op->err))
			return false;
	s->files = digest_of_files(files, n);
	if (!lay_predictor(db, s))
		return false;
	return s->model_path || err_set(&op->err, ERR_FORMAT, "the job has no model");
}

static void
send_start(struct daemon *d, struct job *j, const struct start_op *s)
{
	struct arena tmp = {0};
	struct msg m = {.type = MSG_plan_start};

	m.plan_start.job = j->rec.id;
	m.plan_start.options = j->rec.options;
	m.plan_start.model_path = str_of(s->model_path);
	m.plan_start.model_name = j->rec.name;
	m.plan_start.env = j->env;
	m.plan_start.out_path = str_of(arena_printf(&tmp, "%s/work/plan.korch", s->dir));
	m.plan_start.work_dir = str_of(folder_work(&tmp, s->dir));
	m.plan_start.job_dir = str_of(s->dir);
	m.plan_start.is_resumed = j->rec.restarts > 0;
	m.plan_start.files = s->files;
	m.plan_start.memory_bytes = d->conf->planner_memory;
	m.plan_start.predictor_path = str_of(s->predictor_path ? s->predictor_path : "");
	m.plan_start.predictor = s->predictor;
	m.plan_start.predictor_asked = s->predictor_path && hash_eq(&s->predictor, &s->asked);
	m.plan_start.n_workers = j->n_workers = farm_able(d->farm, j->env_id);
	planner_send(j, &m);
	arena_fini(&tmp);
}

/* In a jail of its job's own: what a model talks its parser into ends there. */
static struct child *
start_jailed(struct daemon *d, struct job *j, const char *dir, struct err *e)
{
	static const struct child_calls calls = {
	    .bytes = planner_bytes, .words = planner_words, .ended = planner_ended};
	struct arena tmp = {0};
	char *planner[] = {(char *)(uintptr_t)d->conf->planner, NULL}, *const * argv;
	const char *const reads[] = {
	    arena_printf(&tmp, "%s/model", dir), arena_printf(&tmp, "%s/given", dir), NULL};
	const struct jail_conf conf = {.jail = JAIL_PLAN,
	    .reads = reads,
	    .scratch = folder_work(&tmp, dir),
	    .memory_bytes = d->conf->planner_memory,
	    .until_hangup = true,
	    .argv = planner};
	struct child *c = jail_command(&tmp, &conf, &argv, e)
	    ? child_start(d, argv, d->conf->planner_memory, &calls, j, e)
	    : NULL;

	arena_fini(&tmp);
	return c;
}

static void
done_start(struct store_op *op)
{
	struct start_op *s = (struct start_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = job_find(d, s->job);
	struct err e = op->err;

	if (j)
		j->n_ops--;
	if (!j || job_state_is_over(j->state) || d->is_stopping)
		goto out;
	if (!op->ok) {
		plan_failed(d, j, e.code, e.msg);
		goto out;
	}
	arena_fini(&j->env_arena);
	if (!j->rec.class.n) /* nobody is there: it is planned from what is known */
		j->rec.class = str_of(str_dup(&j->arena, s->env.class));
	j->env = s->env;
	j->env.class = j->rec.class;
	rec_dup(&j->env_arena, "env", &j->env);
	j->env_id = s->env_id;
	j->model = s->model;
	j->n_in = 0;
	j->is_deaf = false;
	j->planner = start_jailed(d, j, s->dir, &e);
	if (!j->planner)
		plan_failed(d, j, e.code, e.msg);
	else
		send_start(d, j, s);
out:
	arena_fini(&op->arena);
	free(s);
}

static void
planner_start(struct daemon *d, struct job *j)
{
	struct start_op *s = heap_alloc(sizeof(*s));
	bool is_guessed = job_is_guessed(j);
	struct place place = is_guessed ? (struct place){0} : place_find(d, j);

	if (place.env && !str_is(j->rec.class, place.class))
		j->rec.class = str_of(str_dup(&j->arena, str_of(place.class)));
	j->env_id = place.env; /* counts at once for whoever is placed next */
	job_move(d, j, JOB_planning, ERR_NONE, "");
	j->waiting_since_ns = 0;
	s->op.run = run_start;
	s->op.done = done_start;
	s->op.owner = d;
	s->job = j->rec.id;
	s->class = (struct str){str_dup(&s->op.arena, j->rec.options.device), j->rec.options.device.n};
	s->env_id = place.env;
	s->is_guessed = is_guessed;
	s->asked = j->rec.options.predictor;
	s->dir = job_dir(&s->op.arena, d, j);
	j->n_ops++;
	store_post(d->store, &s->op);
}

/* ---- who may start, who waits ------------------------------------------------------- */
/* A worker that nobody needs to wait for any longer: ours that does not start, or one that has
 * stood at the door since `since_ns` and cannot be let in. */
static bool
worker_failed(const struct daemon *d, const struct job *j, int64_t since_ns, struct err *why)
{
	if (private_worker_failed(d, j->rec.options.device, why))
		return true;
	return daemon_now(d) - since_ns >= 5 * SECOND_NS &&
	    session_turned_away(d, j->rec.options.device, why);
}

/* How long a job waits for a worker.  One of ours that runs and has not said hello measures its host, which
 * takes a busy one minutes: nobody's wrong name. */
static int64_t
patience_ns(const struct daemon *d, const struct job *j)
{
	int64_t limit = j->rec.options.unplaceable_ns > 0 ? j->rec.options.unplaceable_ns : 120 * SECOND_NS;

	return private_worker_lives(d, j->rec.options.device) ? MAX_OF(limit, 600 * SECOND_NS) : limit;
}

static void
let_wait(struct daemon *d, struct job *j)
{
	int64_t now = daemon_now(d);
	struct arena tmp = {0};
	struct err why = {0};
	struct str class = j->rec.options.device;
	char *text = arena_printf(&tmp, "no connected worker is of device class '%.*s'%.300s", STR_ARG(class),
	    place_classes(&tmp, d));

	if (!j->waiting_since_ns)
		j->waiting_since_ns = now;
	if (worker_failed(d, j, j->waiting_since_ns, &why)) {
		job_move(d, j, JOB_failed, why.code, why.msg);
	} else if (now - j->waiting_since_ns >= patience_ns(d, j)) {
		job_move(d, j, JOB_failed, ERR_UNPLACEABLE,
		    arena_printf(&tmp, "%s; start one with: korch-worker --daemon URL --device %s", text,
			place_device(&tmp, class)));
	} else if (j->state == JOB_queued && now - j->waiting_since_ns >= SECOND_NS)
		job_move(d, j, JOB_waiting, ERR_UNPLACEABLE,
		    private_worker_lives(d, class)
			? "this machine's worker is starting; the first time it measures the machine"
			: text);
	arena_fini(&tmp);
}

/* A planner whose devices have all gone is told, and told again when one is back. */
static void
tell_devices(struct daemon *d, struct job *j)
{
	uint32_t n = farm_able(d->farm, j->env_id);
	struct msg m = {.type = MSG_worker_here};
	int64_t now = daemon_now(d);
	struct err why = {0};

	if (n) {
		j->waiting_since_ns = 0;
	} else if (farm_n_waiting(d->farm, j->env_id) == 0) {
		j->waiting_since_ns = 0; /* it asks for nothing */
	} else if (!j->waiting_since_ns) {
		j->waiting_since_ns = now;
	} else if (now - j->waiting_since_ns >= patience_ns(d, j)) {
		plan_failed(d, j, ERR_UNPLACEABLE, "all workers of its device class have left");
		return;
	} else if (worker_failed(d, j, j->waiting_since_ns, &why)) {
		plan_failed(d, j, why.code, why.msg);
		return;
	}
	if (n == j->n_workers)
		return;
	j->n_workers = n;
	m.worker_here.n_workers = n;
	planner_send(j, &m);
}

static bool
is_unstarted(const struct job *j)
{
	return j->state == JOB_queued || j->state == JOB_waiting;
}

/* It may start as soon as there is room. */
static bool
is_in_line(const struct daemon *d, const struct job *j)
{
	return is_unstarted(j) &&
	    (place_is_there(d, place_wanted(d, j)) || j->rec.options.offline || job_is_guessed(j));
}

/* "jobs 3 and 4, which are being planned" */
static const char *
planned_words(struct arena *a, const struct daemon *d)
{
	struct strbuf sb;
	uint32_t n = 0;

	sb_init(&sb, a);
	for (const struct job *j = d->jobs; j; j = j->next)
		if (j->state == JOB_planning && n++ < 4)
			sb_addf(&sb, "%s%" PRIu64, n == 1 ? "" : ", ", j->rec.id);
	return arena_printf(a, "%s %s%s, which %s being planned", n == 1 ? "job" : "jobs", n ? sb.p : "",
	    n > 4 ? ", ..." : "", n == 1 ? "is" : "are");
}

/* Who waits for room is told behind what: all jobs stand newest first. */
static void
tell_line(struct daemon *d)
{
	struct arena tmp = {0};
	const char *planned = NULL;
	uint32_t before = 0;

	for (const struct job *j = d->jobs; j; j = j->next)
		before += is_in_line(d, j);
	for (struct job *j = d->jobs; j && before; j = j->next) {
		if (!is_in_line(d, j))
			continue;
		before--;
		planned = planned ? planned : planned_words(&tmp, d);
		if (j->state == JOB_waiting)
			job_move(d, j, JOB_queued, ERR_NONE, "");
		job_note(d, j,
		    before == 0 ? arena_printf(&tmp, "behind %s", planned)
			: before == 1
			? arena_printf(&tmp, "behind %s, and 1 job that came before", planned)
			: arena_printf(&tmp, "behind %s, and %u jobs that came before", planned, before));
	}
	arena_fini(&tmp);
}

void
planners_tick(struct daemon *d)
{
	uint32_t running = 0;
	struct job *next;

	for (struct job *j = d->jobs; j; j = j->next)
		running += j->state == JOB_planning;
	if (d->is_stopping)
		return;
	for (;;) { /* oldest first */
		next = NULL;
		for (struct job *j = d->jobs; j; j = j->next)
			if (is_in_line(d, j) && (!next || j->rec.id < next->rec.id))
				next = j;
		if (!next || running >= d->conf->max_planners)
			break;
		planner_start(d, next);
		running++;
	}
	for (struct job *j = d->jobs; j; j = j->next) {
		if (j->state == JOB_planning && j->planner)
			tell_devices(d, j);
		else if (is_unstarted(j) && !is_in_line(d, j))
			let_wait(d, j);
	}
	tell_line(d);
}
