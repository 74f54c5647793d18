/* daemon/job_history.c: jobs that ended.  Plan and end become durable in one transaction, so that a repeat
 * that finds the one finds the other; a planner asks first of all how its job ended before. */
#include "job_history.h"
#include "folder.h"

#include "../schema/build.h"
#include "../schema/job_end.h"
#include "../schema/whole.h"

#include <stdio.h>
#include <stdlib.h>

static bool
is_zero(const struct hash *h)
{
	static const struct hash zero;

	return hash_eq(h, &zero);
}

/* ---- done ---------------------------------------------------------------------------- */
struct done_op {
	struct store_op op;
	uint64_t job;
	struct meas_key key;
	struct msg m; /* own copy */
	char *path, *dir;
	struct hash plan, dump;
	uint64_t bytes, dump_bytes;
	bool has_dump;
};

/* A job that asked for a price has no plan; a repeat has that of an earlier job. */
static bool
take_plan(struct db *db, struct done_op *x)
{
	struct err *e = &x->op.err;
	char hex[65];

	if (*x->path)
		return db_seal_plan(db, x->path, e) && blob_take(db, x->path, "plan", &x->plan, &x->bytes, e);
	if (is_zero(&x->m.done.plan))
		return true;
	x->plan = x->m.done.plan;
	hash_hex(&x->plan, hex);
	return blob_use(db, &x->plan, &x->bytes, e) ||
	    err_in(e, "plan %.16s, with which an equal job ended", hex);
}

static bool
run_done(struct db *db, struct store_op *op)
{
	struct done_op *x = (struct done_op *)(void *)op;
	struct m_done *m = &x->m.done;

	if (x->has_dump)
		dump_take(db, folder_work(&op->arena, x->dir), &x->dump, &x->dump_bytes);
	if (!take_plan(db, x) || !whole_put(db, &x->key, m->wholes, m->n_wholes, &op->err))
		return false;
	if (is_zero(&m->end_key) || x->bytes == 0)
		return true;
	m->end.plan = x->plan;
	m->end.plan_bytes = x->bytes;
	return job_end_put(db, &m->end_key, &x->key, &m->end, &op->err);
}

static void
done_done(struct store_op *op)
{
	struct done_op *x = (struct done_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = job_find(d, x->job);

	if (j) {
		j->n_ops--;
		if (!job_state_is_over(j->state) && op->ok) {
			j->rec.plan = x->plan;
			j->rec.plan_bytes = x->bytes;
			j->rec.dump = x->dump;
			j->rec.dump_bytes = x->dump_bytes;
			job_move(d, j, JOB_done, ERR_NONE, "");
		} else if (!job_state_is_over(j->state))
			job_move(d, j, JOB_failed, op->err.code, op->err.msg);
	}
	os_remove_tree(x->dir);
	arena_fini(&op->arena);
	free(x);
}

void
plan_done(struct daemon *d, struct job *j, const struct m_done *m)
{
	struct done_op *x;
	struct msg own = {.type = MSG_done};
	struct arena tmp = {0};
	struct err e = {0};
	bool is_its = !m->plan_path.n || folder_wrote(job_dir(&tmp, d, j), m->plan_path, &e);

	arena_fini(&tmp);
	if (!is_its) {
		plan_failed(d, j, e.code, e.msg);
		return;
	}
	x = heap_alloc(sizeof(*x));
	j->is_ended = true;
	j->rec.progress = m->progress;
	j->rec.report = m->report;
	rec_dup(&j->arena, "progress", &j->rec.progress);
	j->rec.report.p = str_dup(&j->arena, m->report);
	own.done = *m;
	msg_dup(&x->op.arena, &own, &x->m);
	x->op.run = run_done;
	x->op.done = done_done;
	x->op.owner = d;
	x->job = j->rec.id;
	x->key = job_meas_key(j, x->m.done.threads, x->m.done.precision);
	x->has_dump = j->rec.options.dump.n > 0;
	x->path = str_dup(&x->op.arena, m->plan_path);
	x->dir = job_dir(&x->op.arena, d, j);
	j->n_ops++;
	store_post(d->store, &x->op);
}

/* ---- how did it end? ------------------------------------------------------------------ */
struct ask_end_op {
	struct store_op op;
	uint64_t job;
	struct hash model;
	struct meas_key key;
	struct msg ask;    /* own copy */
	const char *given; /* the folder that its planner may read */
	struct m_end_have have;
};

static bool
give_plan(struct db *db, struct ask_end_op *x)
{
	struct arena *a = &x->op.arena;
	char hex[65], *to;

	hash_hex(&x->have.end.plan, hex);
	to = arena_printf(a, "%s/%s.korch", x->given, hex);
	x->have.path = str_of(to);
	return folder_give(blob_path(a, db, &x->have.end.plan), to, &x->op.err);
}

static bool
run_end(struct db *db, struct store_op *op)
{
	struct ask_end_op *x = (struct ask_end_op *)(void *)op;

	if (x->ask.end_ask.gives_plan)
		return job_end_read(db, &op->arena, &x->ask.end_ask.key, &x->have, &op->err) &&
		    (!x->have.has_plan || give_plan(db, x));
	return job_end_find(db, &op->arena, &x->ask.end_ask.key, &x->key, &x->model, &x->have, &op->err) &&
	    whole_list(db, &op->arena, &x->key, &x->have.wholes, &x->have.n_wholes, &op->err);
}

static void
done_end(struct store_op *op)
{
	struct ask_end_op *x = (struct ask_end_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = job_find(d, x->job);
	struct msg m = {.type = MSG_end_have};

	if (j)
		j->n_ops--;
	if (j && j->planner && !job_state_is_over(j->state)) {
		m.end_have = x->have;
		if (op->ok)
			planner_send(j, &m);
		else
			plan_failed(d, j, op->err.code, op->err.msg);
	}
	arena_fini(&op->arena);
	free(x);
}

void
ask_end(struct daemon *d, struct job *j, const struct m_end_ask *ask)
{
	struct ask_end_op *x = heap_alloc(sizeof(*x));
	struct msg own = {.type = MSG_end_ask};

	own.end_ask = *ask;
	msg_dup(&x->op.arena, &own, &x->ask);
	x->op.run = run_end;
	x->op.done = done_end;
	x->op.owner = d;
	x->job = j->rec.id;
	x->model = j->model;
	x->given = folder_given(&x->op.arena, job_dir(&x->op.arena, d, j));
	x->key = job_meas_key(j, ask->threads, x->ask.end_ask.precision);
	j->n_ops++;
	store_post(d->store, &x->op);
}
