/* daemon/result.c: what comes of leases.  Each outcome is judged (admit.c) and stored by itself: one that is
 * wrong takes none of the others along.  It is acknowledged after its rows are on disk; only then does the
 * task end.  What does not count is kept as evidence. */
#include "admit.h"
#include "lease.h"

#include "../proto/range.h"
#include "../schema/build.h"
#include "../schema/perturbed.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_AGAIN = 2 }; /* leases that may end in doubt */

struct piece { /* one outcome on its way */
	const struct m_outcome *o;
	struct admit_ask ask;
	struct admitted admitted;
	struct m_cost cost;
	struct m_build_have build;
	struct m_race_have race;
	struct m_perturb_have perturb;
};
struct result_op {
	struct store_op op;
	struct request *r;
	uint64_t device;
	char *worker, *class;
	struct piece *pieces; /* one per outcome */
};

/* ---- on the store's thread ------------------------------------------------------------ */
struct putting {
	struct result_op *x;
	struct piece *p;
	struct meas_key key;
	struct meas_origin from;
};

/* What stands for a spec none of whose schedules worked. */
static void
sum_up(const struct m_outcome *o, uint64_t *fail, struct str *cause)
{
	*fail = o->fail;
	*cause = o->cause;
	if (*fail || o->n_rows == 0)
		return;
	for (uint32_t i = 0; i < o->n_rows; i++)
		if (!o->rows[i].fail)
			return;
	*fail = o->rows[0].fail;
	*cause = o->rows[0].cause;
}

static bool
put_measured(struct db *db, struct putting *t, struct err *e)
{
	const struct m_outcome *o = t->p->o;
	const struct admitted *ok = &t->p->admitted;
	uint64_t fail;
	struct str cause;

	if (o->fail && !fail_is_kept(o->fail))
		return true; /* the machine's fault: nothing is known of the kernel */
	if (!meas_put(db, &o->spec, &t->key, ok->rows, ok->n_rows, &t->from, e))
		return false;
	sum_up(o, &fail, &cause);
	if (ok->is == ADMIT_TAKEN && !(fail && !fail_is_kept(fail)) &&
	    !attempt_put(db, &o->spec, &t->key, o->effort, fail, cause, e))
		return false;
	return meas_best(db, &t->x->op.arena, &o->spec, &t->key, &t->p->cost, e);
}

/* The kernel of a build that failed, by "SYMBOL: cause". */
static const struct m_kernel *
find_blamed(const struct m_build_ask *m, struct str *cause)
{
	struct str rest = *cause, symbol = str_cut(&rest, ':');

	for (uint32_t i = 0; i < m->n_kernels; i++)
		if (str_eq(m->kernels[i].symbol, symbol)) {
			*cause = str_trim(rest);
			return &m->kernels[i];
		}
	return NULL;
}

/* Moves of instructions that do not fit what was compiled are not built again: their row fails from now on.
 */
static bool
put_unfit(struct db *db, struct putting *t, struct err *e)
{
	const struct m_outcome *o = t->p->o;
	struct m_row row = {.fail = o->fail, .cause = o->cause, .stop = STR(""), .state = STR("")};
	const struct m_kernel *k;
	struct str base, moves;
	struct bytes b;
	struct hash spec;
	uint64_t total;
	struct msg m;

	if (err_of_wire(o->fail) != ERR_COMPILE)
		return true;
	if (!blob_read(db, &t->x->op.arena, &o->payload, 0, PIPE_MAX_BYTES, &b, &total, e) ||
	    !msg_unpack(&t->x->op.arena, b, &m, e))
		return false;
	k = m.type == MSG_build_ask ? find_blamed(&m.build_ask, &row.cause) : NULL;
	if (!k || !sip_split(k->schedule, &base, &moves))
		return true;
	row.schedule = k->schedule;
	spec = hash_bytes(k->spec.p, k->spec.n);
	return perturbed_refute(db, &spec, &t->key, &row, &t->from, e);
}

static bool
put_built(struct db *db, struct putting *t, struct err *e)
{
	const struct m_outcome *o = t->p->o;
	struct m_build_have *b = &t->p->build;

	*b = (struct m_build_have){.digest = o->artefact,
	    .fail = o->fail,
	    .cause = o->cause,
	    .log = o->log,
	    .path = STR(""),
	    .worker = t->from.worker,
	    .took = o->took,
	    .description = o->description,
	    .description_path = STR("")};
	if (o->fail)
		return put_unfit(db, t, e);
	b->path = str_of(blob_path(&t->x->op.arena, db, &o->artefact));
	b->description_path = str_of(blob_path(&t->x->op.arena, db, &o->description));
	return build_put(db, &t->x->op.arena, &o->key, &t->key, b, e);
}

static bool
put_timed(struct db *db, struct putting *t, struct err *e)
{
	const struct m_outcome *o = t->p->o;

	return o->fail || plan_time_put(db, &o->key, o->timings, o->n_timings, e);
}

/* A race names the spec of each of its rows; the costs that come of them go to the asker. */
static bool
put_raced(struct db *db, struct putting *t, struct err *e)
{
	const struct m_outcome *o = t->p->o;
	const struct admitted *ok = &t->p->admitted;
	struct m_race_have *have = &t->p->race;
	struct meas_key k = t->key;

	*have = (struct m_race_have){.cause = STR("")};
	if (o->fail)
		return true;
	have->costs = NEW_ARRAY(&t->x->op.arena, struct m_cost, MAX_OF(o->n_rows, 1u));
	have->n_costs = o->n_rows;
	for (uint32_t n = 0; n < ok->n_rows; n++) {
		k.heat = ok->specs[n].heat;
		if (!repeat_put(db, &ok->specs[n].hash, &k, &o->key, &ok->rows[n], &t->from, e))
			return false;
	}
	for (uint32_t n = 0; n < o->n_rows; n++) {
		k.heat = o->specs[n].heat;
		if (!meas_best(db, &t->x->op.arena, &o->specs[n].hash, &k, &have->costs[n], e))
			return false;
	}
	return true;
}

/* The kernel with moves stands beside the others by what pairs say of it and its base, which was measured
 * among them; beside that, both have a repeat of this session. */
static struct m_row
beside_base(const struct m_row *moved, const struct m_row *base, double ratio)
{
	struct m_row r = *moved;
	double of = (double)base->median_ns * ratio / (double)MAX_OF(moved->median_ns, (int64_t)1);

	r.median_ns = MAX_OF((int64_t)((double)base->median_ns * ratio), (int64_t)1);
	r.min_ns = MIN_OF(MAX_OF((int64_t)((double)moved->min_ns * of), (int64_t)1), r.median_ns);
	r.p10_ns = MIN_OF(MAX_OF((int64_t)((double)moved->p10_ns * of), r.min_ns), r.median_ns);
	r.p90_ns = MAX_OF((int64_t)((double)moved->p90_ns * of), r.median_ns);
	r.error = base->error; /* its results are the same */
	return r;
}

static bool
put_moved(struct db *db, struct putting *t, const struct m_row *row, struct err *e)
{
	const struct m_perturbed *p = &t->p->perturb.perturbed;
	struct m_row base, beside = *row;
	bool known;

	if (!meas_row(db, &t->x->op.arena, &p->spec, &t->key, p->base, &base, &known, e))
		return false;
	if (row->fail)
		return meas_put(db, &p->spec, &t->key, row, 1, &t->from, e);
	if (known && !base.fail && str_eq(row->schedule, p->schedule))
		beside = beside_base(row, &base, p->ratio);
	else if (!str_eq(row->schedule, p->base))
		return true; /* no gain: it takes nobody's place */
	return (str_eq(row->schedule, p->base) || meas_put(db, &p->spec, &t->key, &beside, 1, &t->from, e)) &&
	    repeat_put(db, &p->spec, &t->key, &t->p->o->key, row, &t->from, e);
}

static bool
put_perturbed(struct db *db, struct putting *t, struct err *e)
{
	const struct m_outcome *o = t->p->o;
	const struct admitted *ok = &t->p->admitted;
	struct m_perturb_have *have = &t->p->perturb;
	bool is_taken = false;

	*have = perturb_none(&o->perturbed.spec, o->fail, o->cause);
	if (o->fail && !fail_is_kept(o->fail))
		return true;
	if (!o->fail) {
		have->perturbed = o->perturbed;
	} else { /* built again it would fail again: a search of that time found nothing */
		have->perturbed.base = o->perturbed.base;
		have->perturbed.asked_ns = o->perturbed.asked_ns;
	}
	have->perturbed.env_hash = t->key.env_hash;
	have->perturbed.threads = t->key.threads;
	have->perturbed.precision = t->key.precision;
	have->perturbed.epoch = t->key.epoch;
	have->perturbed.worker = t->from.worker;
	for (uint32_t i = 0; i < ok->n_rows; i++)
		is_taken |= str_eq(ok->rows[i].schedule, o->perturbed.schedule);
	if (!is_taken)
		have->perturbed.schedule = STR("");
	for (uint32_t i = 0; i < ok->n_rows; i++)
		if (!put_moved(db, t, &ok->rows[i], e))
			return false;
	return perturbed_put(db, &t->key, &have->perturbed, e) &&
	    meas_best(db, &t->x->op.arena, &o->perturbed.spec, &t->key, &have->cost, e);
}

static bool
put_outcome(struct db *db, void *self, struct err *e)
{
	static bool (*const put[TASK_KINDS])(struct db * db, struct putting * t, struct err * e) = {
	    [TASK_MEASURE] = put_measured,
	    [TASK_BUILD] = put_built,
	    [TASK_TIME] = put_timed,
	    [TASK_RACE] = put_raced,
	    [TASK_PERTURB] = put_perturbed};
	struct putting *t = self;

	return t->p->o->kind == TASK_CANARY || put[t->p->o->kind](db, t, e);
}

static bool
keep_evidence(struct db *db, const struct result_op *x, const struct piece *p, struct err *e)
{
	struct m_evidence ev = {.worker = str_of(x->worker),
	    .class = str_of(x->class),
	    .why = str_of(p->admitted.why),
	    .outcome = *p->o};

	return evidence_put(db, &ev, e);
}

/* Is it our own disk that fails?  Then nothing is the worker's fault, and it sends the result again. */
static bool
is_ours(enum err_code code)
{
	return code == ERR_IO || code == ERR_FULL || code == ERR_MEMORY;
}

static bool
store_one(struct db *db, struct result_op *x, struct piece *p)
{
	struct err *e = &x->op.err, why = {0};
	struct putting t = {.x = x,
	    .p = p,
	    .key = p->ask.env,
	    .from = {.worker = str_of(x->worker),
		.gen = p->o->gen,
		.effort = p->o->kind == TASK_MEASURE ? p->o->effort : 0}};

	if (!admit_outcome(db, &x->op.arena, p->o, &p->ask, &p->admitted, e))
		return false;
	t.key.threads = p->o->threads;
	t.key.precision = p->o->precision;
	t.key.heat = p->o->heat;
	if (p->admitted.is != ADMIT_REFUSED && !db_try(db, put_outcome, &t, &why)) {
		if (is_ours(why.code))
			return err_set(e, why.code, "%s", why.msg);
		p->admitted = (struct admitted){.is = ADMIT_REFUSED};
		(void)snprintf(p->admitted.why, sizeof(p->admitted.why), "%.390s", why.msg);
	}
	if ((p->admitted.is == ADMIT_REFUSED || p->admitted.n_doubted) && !keep_evidence(db, x, p, e))
		return false;
	return p->ask.hold == FARM_HOLDS_NOT || p->ask.hold == FARM_HOLDS_CANARY ||
	    grant_spend(db, p->o->gen, e);
}

static bool
run_result(struct db *db, struct store_op *op)
{
	struct result_op *x = (struct result_op *)(void *)op;

	for (uint32_t i = 0; i < x->r->m.result.n_outcomes; i++)
		if (!store_one(db, x, &x->pieces[i]))
			return false;
	return true;
}

/* ---- and back -------------------------------------------------------------------------- */
/* What is in doubt is done once more, and what is not, not. */
static void
note_doubt(struct farm_task *t, const struct admitted *ok)
{
	struct task_data *data = t->data;
	struct str *doubted = NEW_ARRAY(&data->arena, struct str, data->n_doubted + ok->n_doubted);
	struct m_kv *known = NEW_ARRAY(&data->arena, struct m_kv, data->n_known + ok->n_rows);

	for (uint32_t i = 0; i < data->n_doubted; i++)
		doubted[i] = data->doubted[i];
	for (uint32_t i = 0; i < ok->n_doubted; i++)
		doubted[data->n_doubted++] =
		    (struct str){str_dup(&data->arena, ok->doubted[i]), ok->doubted[i].n};
	for (uint32_t i = 0; i < data->n_known; i++)
		known[i] = data->known[i];
	for (uint32_t i = 0; i < ok->n_rows; i++) {
		struct m_kv *kv = &known[data->n_known++];

		kv->name = (struct str){str_dup(&data->arena, ok->rows[i].schedule), ok->rows[i].schedule.n};
		kv->value = str_of(arena_printf(&data->arena, "%lld", (long long)ok->rows[i].median_ns));
	}
	data->doubted = doubted;
	data->known = known;
	data->n_again++;
}

/* False: the task is over, or was not this worker's. */
static bool
do_again(struct daemon *d, struct result_op *x, const struct piece *p)
{
	struct farm_task *t = farm_find(d->farm, &p->o->key);

	if (p->admitted.is != ADMIT_DOUBTED || !farm_again(d->farm, x->device, &p->o->key, p->o->gen))
		return false;
	note_doubt(t, &p->admitted);
	daemon_log(d, result_doubted, KVZ("worker", x->worker), KVZ("why", p->admitted.why));
	return true;
}

/* Who stops waiting for it hears what kept it. */
static void
note_cause(struct farm_task *t, struct str cause)
{
	struct task_data *data = t->data;

	data->cause = (struct str){str_dup(&data->arena, cause), cause.n};
}

static void
finish_one(struct daemon *d, struct result_op *x, struct piece *p)
{
	const struct m_outcome *o = p->o;
	bool is_refused = p->admitted.is == ADMIT_REFUSED;
	enum err_code fail = is_refused ? ERR_PROTO : err_of_wire(o->fail);
	struct task_result result = {0};
	struct m_outcome unsaid = {.cause = str_of(p->admitted.why), .log = STR("")};
	struct farm_task *t;
	enum farm_verdict v;

	if (is_refused) {
		d->n_superseded++;
		daemon_log(d, result_refused, KVZ("worker", x->worker), KVZ("why", p->admitted.why));
	}
	if (do_again(d, x, p))
		return;
	v = farm_finish(d->farm, x->device, &o->key, o->gen, fail, daemon_now(d), &t);
	if (!o->fail && !is_refused) {
		result.cost = o->kind == TASK_MEASURE ? &p->cost : NULL;
		result.build = o->kind == TASK_BUILD ? &p->build : NULL;
		result.race = o->kind == TASK_RACE ? &p->race : NULL;
		result.perturb = o->kind == TASK_PERTURB ? &p->perturb : NULL;
	}
	if (v == FARM_RETRY) {
		note_cause(t, is_refused ? unsaid.cause : o->cause);
		daemon_log(d, task_retry, KVZ("worker", x->worker), KVZ("cause", err_name(fail)));
	}
	if (v == FARM_CANARY)
		daemon_log(d, canary, KVZ("worker", x->worker), KVZ("cause", err_name(fail)));
	if (v == FARM_DONE || v == FARM_FAILED)
		task_over(d, t, &result, is_refused ? &unsaid : o);
}

static void
reply_result(struct daemon *d, struct result_op *x)
{
	uint64_t n = 0;
	const char *why = "";

	for (uint32_t i = x->r->m.result.n_outcomes; i-- > 0;)
		if (x->pieces[i].admitted.is == ADMIT_REFUSED) {
			n++;
			why = x->pieces[i].admitted.why;
		}
	reply_ok(d, x->r, n, why);
}

static void
done_result(struct store_op *op)
{
	struct result_op *x = (struct result_op *)(void *)op;
	struct daemon *d = op->owner;

	if (op->ok) {
		for (uint32_t i = 0; i < x->r->m.result.n_outcomes; i++)
			finish_one(d, x, &x->pieces[i]);
		reply_result(d, x);
	} else {
		daemon_log(d, result_failed, KVZ("worker", x->worker), KVZ("why", op->err.msg));
		reply_error(d, x->r, &op->err);
	}
	arena_fini(&op->arena);
	free(x);
	leases_push(d);
}

/* ---- in ---------------------------------------------------------------------------------- */
static void
ask_for(struct daemon *d, struct result_op *x, struct piece *p, const struct m_outcome *o,
    const struct meas_key *env)
{
	struct farm_task *t;
	const struct task_data *data;
	struct str *doubted;

	p->o = o;
	p->ask = (struct admit_ask){
	    .hold = farm_holds(d->farm, x->device, &o->key, o->gen, daemon_now(d), &t), .env = *env};
	data = t ? t->data : NULL;
	if (!data)
		return;
	doubted = NEW_ARRAY(&x->op.arena, struct str, MAX_OF(data->n_doubted, 1u));
	for (uint32_t i = 0; i < data->n_doubted; i++)
		doubted[i] = (struct str){str_dup(&x->op.arena, data->doubted[i]), data->doubted[i].n};
	p->ask.doubted = doubted;
	p->ask.n_doubted = data->n_doubted;
	p->ask.is_last = data->n_again >= MOST_AGAIN;
}

void
serve_result(struct daemon *d, struct request *r)
{
	const struct m_result *m = &r->m.result;
	uint32_t at;
	const struct session *s = device_at(r, m->class, &at);
	struct result_op *x;
	struct meas_key env;
	struct err e = {0};

	if (!s) {
		(void)err_set(&e, ERR_PROTO, "this worker has no device of class '%.*s'", STR_ARG(m->class));
		reply_error(d, r, &e);
		return;
	}
	x = heap_alloc(sizeof(*x));
	x->op.run = run_result;
	x->op.done = done_result;
	x->op.owner = d;
	x->r = r;
	x->device = s->envs[at].device;
	x->worker = str_dup(&x->op.arena, str_of(s->name));
	x->class = str_dup(&x->op.arena, str_of(s->envs[at].class));
	x->pieces = NEW_ARRAY(&x->op.arena, struct piece, MAX_OF(m->n_outcomes, 1u));
	env = (struct meas_key){.env = s->envs[at].env, .env_hash = s->envs[at].hash, .epoch = s->epoch};
	for (uint32_t i = 0; i < m->n_outcomes; i++)
		ask_for(d, x, &x->pieces[i], &m->outcomes[i], &env);
	store_post(d->store, &x->op);
}
