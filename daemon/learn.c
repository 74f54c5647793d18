/* daemon/learn.c: an idle korchd trains what serves its classes: rows of a class go to a folder,
 * korch-predict-train makes a file of them there, in a jail, behind all else that wants the processor; and
 * the file serves from then on where it is at least as good as what served.  Whatever comes meanwhile ends it
 * at once; it is tried again later.  It stands still while another korchd's worker times something on this
 * host, as what the one processor does is felt on the other. */
#include "learn.h"

#include "../kernels/base/epoch.h"
#include "../kernels/base/hostlock.h"
#include "../kernels/jail/jail.h"
#include "../kernels/predict/predict.h"
#include "../schema/predictor.h"
#include "loop.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before a private korchd leaves. */
static const int64_t quiet_ns = 5 * SECOND_NS, look_ns = 600 * SECOND_NS, most_ns = 1800 * SECOND_NS;
/* Behind the last time that something was seen to be timed: locks are let go between two kernels. */
static const int64_t calm_ns = 3 * SECOND_NS;
enum { FEWEST_NEW = 300, FEWEST_COMPARED = 20, MOST_EXPORT = 1 << 28 };

struct learning {
	int64_t idle_ns, looked_ns, began_ns; /* since when; 0: not */
	bool is_looking;                      /* an op is out */
	struct child *child;
	struct arena arena; /* of what is being trained */
	struct str class;
	uint64_t rows;
	char line[1024], words[512]; /* what it says: its figures, its last words */
	size_t n_line;
	struct lock_conf lock_conf;
	struct host_lock lock;       /* under which CPUs are timed; never taken */
	int64_t timed_ns, rested_ns; /* last seen held; it stands still since, 0: it does not */
};

bool
learn_check(struct bytes file, struct err *e)
{
	struct arena tmp = {0};
	struct predictor p;
	bool ok = predictor_read(&tmp, file, &p, e);

	arena_fini(&tmp);
	return ok;
}

static char *
folder(struct arena *a, const struct daemon *d)
{
	return arena_printf(a, "%s/train", d->conf->data);
}

static void
forget(struct daemon *d)
{
	struct arena tmp = {0};
	struct learning *l = d->learning;

	os_remove_tree(folder(&tmp, d));
	arena_fini(&tmp);
	arena_fini(&l->arena);
	l->child = NULL;
	l->began_ns = l->rested_ns = 0;
	l->n_line = 0;
	l->words[0] = '\0';
}

bool
learn_is_on(const struct daemon *d)
{
	return d->learning && (d->learning->child || d->learning->is_looking);
}

void
learn_stop(struct daemon *d, const char *why)
{
	struct learning *l = d->learning;

	if (!l)
		return;
	l->idle_ns = l->looked_ns = 0;
	if (!l->child)
		return;
	child_forget(l->child); /* killed */
	daemon_log(d, train_stopped, KV("class", l->class), KVZ("why", why));
	forget(d);
}

/* ---- what came of it ------------------------------------------------------------------ */
struct taken {
	struct store_op op;
	struct m_predictor p;
	uint64_t rows;
	char path[4200];
	bool is_better, has_failed;
};

/* A figure of the line that it ended with; -1: there is none. */
static double
figure(const char *line, const char *name)
{
	struct arena tmp = {0};
	const char *at = strstr(line, arena_printf(&tmp, "\"%s\":", name));
	double v = at ? strtod(at + strlen(name) + 3, NULL) : -1;

	arena_fini(&tmp);
	return isfinite(v) ? v : -1;
}

/* Not worse is enough: it has seen the class. */
static bool
is_as_good(const struct m_predictor *p)
{
	return p->compared >= FEWEST_COMPARED && p->error <= p->beside * (1 + 1e-6);
}

static bool
run_take(struct db *db, struct store_op *op)
{
	struct taken *t = (struct taken *)(void *)op;
	struct err *e = &op->err;

	if (!t->is_better)
		return predictor_tried(db, t->p.class, SAMPLES_EPOCH, t->rows, e);
	if (!os_read_file(os_real(), &op->arena, t->path, PREDICT_FILE_MAX, &t->p.file, e) ||
	    !learn_check(t->p.file, e)) {
		struct err why = {0};

		t->has_failed = true;
		return predictor_tried(db, t->p.class, SAMPLES_EPOCH, t->rows, &why);
	}
	return predictor_put(db, &t->p, t->rows, e);
}

static void
done_take(struct store_op *op)
{
	struct taken *t = (struct taken *)(void *)op;
	struct daemon *d = op->owner;
	char error[16], beside[16];

	(void)snprintf(error, sizeof(error), "%.1f%%", 100 * t->p.error);
	(void)snprintf(beside, sizeof(beside), "%.1f%%", 100 * t->p.beside);
	if (!op->ok || t->has_failed)
		daemon_log(d, train_failed, KV("class", t->p.class), KVZ("why", op->err.msg));
	else if (t->is_better)
		daemon_log(d, train_done, KV("class", t->p.class), KVI("compared", t->p.compared),
		    KVZ("error", error), KVZ("beside", beside));
	else
		daemon_log(d, train_no_better, KV("class", t->p.class), KVI("compared", t->p.compared),
		    KVZ("error", error), KVZ("beside", beside));
	d->learning->is_looking = false;
	d->learning->looked_ns = 0; /* another class may be waiting */
	forget(d);
	arena_fini(&op->arena);
	free(t);
}

/* why: it failed; NULL: it did not. */
static void
take(struct daemon *d, const char *why)
{
	struct learning *l = d->learning;
	struct taken *t = heap_alloc(sizeof(*t));
	struct arena tmp = {0};
	bool has_trees = strstr(l->line, "\"method\":\"trees\"") != NULL;

	t->p = (struct m_predictor){
	    .class = {str_dup(&t->op.arena, l->class), l->class.n},
	    .epoch = SAMPLES_EPOCH,
	    .method = str_of(has_trees ? "trees" : "line"),
	    .rows = (uint64_t)fmax(figure(l->line, "own"), 0),
	    .compared = (uint64_t)fmax(figure(l->line, "compared"), 0),
	    .error = fmax(figure(l->line, "error"), 0),
	    .beside = fmax(figure(l->line, "beside"), 0),
	    .made_ns = d->os->wall_ns(d->os->self),
	};
	t->rows = l->rows;
	t->has_failed = why != NULL;
	t->is_better = !why && is_as_good(&t->p);
	if (why)
		(void)err_set(&t->op.err, ERR_FAILED, "%s", why);
	(void)snprintf(t->path, sizeof(t->path), "%s/work/new.predict", folder(&tmp, d));
	t->op.run = run_take;
	t->op.done = done_take;
	t->op.owner = d;
	l->is_looking = true;
	store_post(d->store, &t->op);
	arena_fini(&tmp);
}

/* ---- the program ---------------------------------------------------------------------- */
static void
hear_line(void *self, struct bytes b)
{
	struct learning *l = ((struct daemon *)self)->learning;
	size_t n = MIN_OF(b.n, sizeof(l->line) - 1 - l->n_line);

	memcpy(l->line + l->n_line, b.p, n);
	l->n_line += n;
	l->line[l->n_line] = '\0';
}

static void
hear_words(void *self, struct bytes b)
{
	struct learning *l = ((struct daemon *)self)->learning;
	size_t n = MIN_OF(b.n, sizeof(l->words) - 1);

	memcpy(l->words, b.p + (b.n - n), n);
	l->words[n] = '\0';
}

/* One that fails fails again: not before there are more rows. */
static void
ended(void *self, int status, int signal)
{
	struct daemon *d = self;
	struct learning *l = d->learning;

	l->child = NULL;
	take(d, status == 0 && !signal ? NULL : l->words[0] ? l->words : "it was ended");
}

static bool
start(struct daemon *d, int64_t since_ns, bool has_used, struct err *e)
{
	static const struct child_calls calls = {
	    .bytes = hear_line, .words = hear_words, .ended = ended, .may_rest = true};
	struct arena tmp = {0};
	char *dir = folder(&tmp, d), *own = arena_printf(&tmp, "%s/rows/own.cache", dir);
	char *argv[] = {(char *)(uintptr_t)d->conf->trainer, (char *)(uintptr_t) "--shipped",
	    (char *)(uintptr_t) "--own", own, (char *)(uintptr_t) "--json", (char *)(uintptr_t) "-o",
	    arena_printf(&tmp, "%s/work/new.predict", dir), (char *)(uintptr_t) "--since",
	    arena_printf(&tmp, "%lld", (long long)since_ns), NULL, NULL, NULL},
	     *const * line;
	const char *const reads[] = {arena_printf(&tmp, "%s/rows", dir), NULL};
	struct jail_conf conf = {.jail = JAIL_PLAN,
	    .reads = reads,
	    .scratch = arena_printf(&tmp, "%s/work", dir),
	    .memory_bytes = d->conf->planner_memory,
	    .until_hangup = true,
	    .is_idle = true,
	    .argv = argv};

	if (has_used) {
		argv[9] = (char *)(uintptr_t) "--beside";
		argv[10] = arena_printf(&tmp, "%s/rows/used.predict", dir);
	}
	if (jail_command(&tmp, &conf, &line, e))
		d->learning->child = child_start(d, line, d->conf->planner_memory, &calls, d, e);
	arena_fini(&tmp);
	return d->learning->child != NULL;
}

/* ---- is there something to learn from? ------------------------------------------------ */
struct look {
	struct store_op op;
	struct str class;
	uint64_t rows;
	int64_t since_ns;
	bool has_used;
	char dir[4200];
};

/* What is in use for the class is what the new one is held against, on what was measured since. */
static bool
lay_out(struct db *db, struct look *k)
{
	struct arena *a = &k->op.arena;
	struct err *e = &k->op.err;
	struct m_predictor used;
	struct bytes rows;

	if (!predictor_find(db, a, k->class, SAMPLES_EPOCH, &used, e) ||
	    !cache_export(db, a, k->class, &rows, e))
		return false;
	k->has_used = used.file.n > 0;
	k->since_ns = k->has_used ? used.made_ns : 0;
	return rows.n <= MOST_EXPORT && os_make_dirs(arena_printf(a, "%s/rows", k->dir), e) &&
	    os_make_dirs(arena_printf(a, "%s/work", k->dir), e) &&
	    os_write_file(os_real(), arena_printf(a, "%s/rows/own.cache", k->dir), rows, e) &&
	    (!k->has_used ||
		os_write_file(os_real(), arena_printf(a, "%s/rows/used.predict", k->dir), used.file, e));
}

static bool
run_look(struct db *db, struct store_op *op)
{
	struct look *k = (struct look *)(void *)op;

	os_remove_tree(k->dir);
	return predictor_wanted(db, &op->arena, SAMPLES_EPOCH, FEWEST_NEW, &k->class, &k->rows, &op->err) &&
	    (k->rows == 0 || lay_out(db, k));
}

static void
done_look(struct store_op *op)
{
	struct look *k = (struct look *)(void *)op;
	struct daemon *d = op->owner;
	struct learning *l = d->learning;
	struct err e = op->err;
	bool ok = op->ok;

	l->is_looking = false;
	if (ok && k->rows && l->idle_ns && !d->is_stopping) {
		l->class = (struct str){str_dup(&l->arena, k->class), k->class.n};
		l->rows = k->rows;
		l->began_ns = daemon_now(d);
		ok = start(d, k->since_ns, k->has_used, &e);
		if (ok)
			daemon_log(d, train_start, KV("class", l->class), KVI("rows", l->rows));
	}
	if (!ok)
		daemon_log(d, train_failed, KV("class", k->class), KVZ("why", e.msg));
	if (!l->child)
		forget(d);
	arena_fini(&op->arena);
	free(k);
}

static void
look(struct daemon *d)
{
	struct look *k = heap_alloc(sizeof(*k));
	struct arena tmp = {0};

	(void)snprintf(k->dir, sizeof(k->dir), "%s", folder(&tmp, d));
	arena_fini(&tmp);
	k->op.run = run_look;
	k->op.done = done_look;
	k->op.owner = d;
	d->learning->is_looking = true;
	d->learning->looked_ns = daemon_now(d);
	store_post(d->store, &k->op);
}

/* ---- when ----------------------------------------------------------------------------- */
static bool
is_busy(const struct daemon *d)
{
	for (const struct job *j = d->jobs; j; j = j->next)
		if (!job_state_is_over(j->state))
			return true;
	return farm_n_tasks(d->farm, FARM_LEASED) > 0 || farm_n_tasks(d->farm, FARM_READY) > 0 ||
	    !private_workers_settled(d);
}

static void
rest_while_timed(struct daemon *d)
{
	struct learning *l = d->learning;
	int64_t now = daemon_now(d);

	if (host_lock_is_held(&l->lock)) {
		l->timed_ns = now;
		if (l->rested_ns)
			return;
		l->rested_ns = now;
		child_rest(l->child, true);
		daemon_log(d, train_rests, KV("class", l->class));
	} else if (l->rested_ns && now - l->timed_ns >= calm_ns) {
		l->began_ns += now - l->rested_ns;
		l->rested_ns = 0;
		child_rest(l->child, false);
	}
}

void
learn_tick(struct daemon *d)
{
	struct learning *l = d->learning;
	int64_t now = daemon_now(d);

	if (!l || d->is_stopping)
		return;
	if (is_busy(d)) {
		learn_stop(d, "there is work");
		return;
	}
	if (!l->idle_ns)
		l->idle_ns = now;
	if (l->child)
		rest_while_timed(d);
	if (l->child && !l->rested_ns && now - l->began_ns > most_ns)
		child_kill(l->child, SIGKILL);
	if (learn_is_on(d) || now - l->idle_ns < quiet_ns || (l->looked_ns && now - l->looked_ns < look_ns))
		return;
	look(d);
}

void
learn_begin(struct daemon *d)
{
	struct learning *l;

	if (!d->conf->trainer)
		return;
	d->learning = l = heap_alloc(sizeof(*l));
	l->lock_conf.dir = d->conf->lock_dir;
	host_lock_init(&l->lock, &l->lock_conf, NULL, HOST_LOCK_CPU);
}

void
learn_end(struct daemon *d)
{
	learn_stop(d, "korchd leaves");
	free(d->learning);
	d->learning = NULL;
}
