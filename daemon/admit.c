/* daemon/admit.c: does a result count?  A worker may be broken, of another mind or an enemy; what it says is
 * stored as a result only where all of this holds:
 *
 *   1. a live grant names the task: a lease of this very device, or one of an earlier life of ours that its
 *      ticket proved at hello, and whose result has not come yet;
 *   2. it is of that task: the task's key is worked out again from what the outcome says was done, and from
 *      the environment of the device, by the function that made the key;
 *   3. its numbers are those of a measurement, and none is below what the planner proved.
 *
 * A bound of the fastest device imaginable is a wall.  The device's own bound is no wall: it stands on a
 * calibration, which a busy host spoils, and a true time below it is how that is found out (D16).  So such a
 * time is in doubt until another lease finds it below the bound too; README.md has the reasons. */
#include "admit.h"

#include "../proto/range.h"
#include "../schema/artefact.h"

#include <stdio.h>

enum { MAX_REQUEST = 1 << 26, MOST_THREADS = 4096, MOST_EFFORT = 1000000 };

struct judge {
	struct db *db;
	struct arena *a;
	const struct m_outcome *o;
	const struct admit_ask *ask;
	struct meas_key key;
	struct admitted *out;
	struct err *e; /* the store's */
	bool broken;   /* the store has failed */
};

/* Every judge ends so, or says true. */
static bool
refuse(struct judge *j, const char *why)
{
	j->out->is = ADMIT_REFUSED;
	(void)snprintf(j->out->why, sizeof(j->out->why), "%.390s", why);
	return false;
}

static bool
fails(struct judge *j)
{
	j->broken = true;
	return false;
}

/* ---- is it of that task? -------------------------------------------------------------- */
static bool
is_key(struct judge *j, const struct hash *key)
{
	return hash_eq(key, &j->o->key) ||
	    refuse(j,
		"it is of another task than the grant names: another spec, kind, environment, precision, "
		"effort or number of threads");
}

/* What the task asked for, by the digest that is part of its key. */
static bool
read_request(struct judge *j, enum msg_type want, struct msg *m)
{
	struct bytes b;
	uint64_t total;
	struct err none = {0};

	if (!blob_size(j->db, &j->o->payload, &total) || total > MAX_REQUEST)
		return refuse(j, "what its task asked for is not here");
	if (!blob_read(j->db, j->a, &j->o->payload, 0, (size_t)total, &b, &total, j->e))
		return fails(j);
	return (msg_unpack(j->a, b, m, &none) && m->type == want) ||
	    refuse(j, "what it names as its task's request is none");
}

static bool
key_of_spec(struct judge *j)
{
	struct hash key = task_key(TASK_MEASURE, &j->o->spec, &j->key, j->o->effort);

	return is_key(j, &key);
}

static bool
key_of_payload(struct judge *j)
{
	struct hash key = task_key((enum task_kind)j->o->kind, &j->o->payload, &j->key, 0);

	return is_key(j, &key);
}

static bool
read_perturb(struct judge *j, struct msg *m)
{
	return read_request(j, MSG_perturb_ask, m) &&
	    (m->perturb_ask.n_kernels == 1 || refuse(j, "what it names as its task's request is none"));
}

static bool
key_of_kernel(struct judge *j)
{
	struct hash key;
	struct msg m;

	if (!read_perturb(j, &m))
		return false;
	key = perturb_key(j->a, &m.perturb_ask, &j->key);
	return is_key(j, &key);
}

static bool
key_of_plans(struct judge *j)
{
	struct hash key;
	struct msg m;

	if (!read_request(j, MSG_time_ask, &m))
		return false;
	key = time_key(j->a, &m.time_ask, &j->key);
	return is_key(j, &key);
}

/* ---- are its numbers those of a measurement? ------------------------------------------- */
static bool
is_doubted_before(const struct judge *j, struct str schedule)
{
	for (uint32_t i = 0; i < j->ask->n_doubted; i++)
		if (str_eq(j->ask->doubted[i], schedule))
			return true;
	return false;
}

static void
doubt(struct judge *j, const struct m_row *r, int64_t bound_ns)
{
	struct admitted *out = j->out;

	if (out->n_doubted == 0)
		(void)snprintf(out->why, sizeof(out->why),
		    "schedule '%.*s' took %lld ns, and %lld is the least by the device's calibration: "
		    "believed when another lease finds that too",
		    (int)MIN_OF(r->schedule.n, (size_t)100), r->schedule.p, (long long)r->median_ns,
		    (long long)bound_ns);
	out->doubted[out->n_doubted++] = r->schedule;
}

static bool
is_above_floor(struct judge *j, const struct m_row *r, const struct m_bound *b)
{
	if (r->fail || r->median_ns >= b->floor_ns)
		return true;
	return refuse(j,
	    arena_printf(j->a,
		"schedule '%.*s' took %lld ns, and no device there is can do it in less than %lld",
		(int)MIN_OF(r->schedule.n, (size_t)100), r->schedule.p, (long long)r->median_ns,
		(long long)b->floor_ns));
}

static bool
numbers_of_rows(struct judge *j)
{
	struct err bad = {0};

	for (uint32_t i = 0; i < j->o->n_rows; i++)
		if (!row_check(&j->o->rows[i], &bad))
			return refuse(j, bad.msg);
	return true;
}

static void
take(struct judge *j, uint32_t row)
{
	struct admitted *out = j->out;

	if (j->o->n_specs)
		out->specs[out->n_rows] = j->o->specs[row];
	out->rows[out->n_rows++] = j->o->rows[row];
}

static bool
numbers_of_measure(struct judge *j)
{
	struct m_bound b;

	if (!numbers_of_rows(j))
		return false;
	if (!bound_get(j->db, &j->o->spec, &j->key, &b, j->e))
		return fails(j);
	for (uint32_t i = 0; i < j->o->n_rows; i++) {
		const struct m_row *r = &j->o->rows[i];

		if (!is_above_floor(j, r, &b))
			return false;
		if (r->fail || r->median_ns >= b.bound_ns || is_doubted_before(j, r->schedule))
			take(j, i);
		else
			doubt(j, r, b.bound_ns);
	}
	if (j->out->n_doubted && j->ask->is_last)
		return refuse(j, "other schedules are below the bound with every lease");
	if (j->out->n_doubted)
		j->out->is = ADMIT_DOUBTED;
	return true;
}

/* A kernel that the task named, each once. */
static bool
is_asked_for(struct m_race_ask *m, const struct m_row *r, const struct m_digest *spec)
{
	for (uint32_t k = 0; k < m->n_kernels; k++) {
		struct m_kernel *kernel = &m->kernels[k];
		struct hash h;

		if (!str_eq(kernel->schedule, r->schedule) || !str_eq(kernel->heat, spec->heat) ||
		    !kernel->spec.p)
			continue;
		h = hash_bytes(kernel->spec.p, kernel->spec.n);
		if (hash_eq(&h, &spec->hash)) {
			kernel->spec.p = NULL;
			return true;
		}
	}
	return false;
}

/* A race is the second session of what was measured before, and moves are timed beside the kernel as it was:
 * either may confirm a time below the bound where `before`, the first time of that schedule, is below it too,
 * and brings in none. */
static bool
judge_again(struct judge *j, uint32_t row, const struct m_digest *spec, struct str before)
{
	const struct m_row *r = &j->o->rows[row];
	struct meas_key k = j->key;
	struct m_bound b;
	int64_t first;

	k.heat = spec->heat;
	if (!bound_get(j->db, &spec->hash, &k, &b, j->e) ||
	    !meas_first(j->db, &spec->hash, &k, before, &first, j->e))
		return fails(j);
	if (!is_above_floor(j, r, &b))
		return false;
	if (r->fail || r->median_ns >= b.bound_ns || first < b.bound_ns)
		take(j, row);
	else
		doubt(j, r, b.bound_ns);
	return true;
}

static bool
numbers_of_race(struct judge *j)
{
	struct msg m;

	if (j->o->fail)
		return true;
	if (j->o->n_specs != j->o->n_rows)
		return refuse(j, "a race with rows of no kernel");
	if (!numbers_of_rows(j) || !read_request(j, MSG_race_ask, &m))
		return false;
	for (uint32_t i = 0; i < j->o->n_rows; i++) {
		if (!is_asked_for(&m.race_ask, &j->o->rows[i], &j->o->specs[i]))
			return refuse(j, "a race with a kernel that was not asked for, or twice");
		if (!judge_again(j, i, &j->o->specs[i], j->o->rows[i].schedule))
			return false;
	}
	return true;
}

/* The kernel as it was, or with moves of its instructions: nothing else was asked for. */
static bool
is_of_kernel(const struct m_kernel *k, struct str schedule)
{
	struct str base, moves;

	(void)sip_split(schedule, &base, &moves);
	return str_eq(base, k->schedule);
}

/* What it says to have found is one of its rows, which worked. */
static bool
is_found(const struct judge *j)
{
	const struct m_perturbed *p = &j->o->perturbed;

	for (uint32_t i = 0; i < j->o->n_rows; i++)
		if (!j->o->rows[i].fail && str_eq(j->o->rows[i].schedule, p->schedule))
			return true;
	return p->schedule.n == 0;
}

static bool
numbers_of_perturb(struct judge *j)
{
	const struct m_perturbed *p = &j->o->perturbed;
	struct err bad = {0};
	struct m_digest spec = {.heat = STR("")};
	struct msg m;

	if (j->o->fail && !fail_is_kept(j->o->fail))
		return true;
	if (!numbers_of_rows(j) || !read_perturb(j, &m))
		return false;
	spec.hash = hash_bytes(m.perturb_ask.kernels[0].spec.p, m.perturb_ask.kernels[0].spec.n);
	if (!hash_eq(&p->spec, &spec.hash) || !str_eq(p->base, m.perturb_ask.kernels[0].schedule) ||
	    p->asked_ns != m.perturb_ask.asked_ns)
		return refuse(j, "it perturbed another kernel than the one that was asked for");
	if (j->o->fail)
		return true;
	if (!perturbed_check(p, &bad))
		return refuse(j, bad.msg);
	for (uint32_t i = 0; i < j->o->n_rows; i++)
		if (!is_of_kernel(&m.perturb_ask.kernels[0], j->o->rows[i].schedule))
			return refuse(j, "moves of another kernel than the one that was asked for");
	if (!is_found(j))
		return refuse(j, "the moves that it found are none of those that it timed");
	for (uint32_t i = 0; i < j->o->n_rows; i++)
		if (!judge_again(j, i, &spec, m.perturb_ask.kernels[0].schedule))
			return false;
	return true;
}

/* Every schedule that it says a kernel was made by is one that was asked for. */
static bool
took_of_asked(struct judge *j, const struct m_build_ask *m)
{
	struct bytes took = j->o->took;

	if (!took.n)
		return true;
	if (took.n != m->n_kernels)
		return refuse(j, "it tells the schedules of another number of kernels than were asked for");
	for (uint32_t i = 0; i < m->n_kernels; i++)
		if (took.p[i] > m->kernels[i].n_others)
			return refuse(j, "a kernel was made by a schedule that was not asked for");
	return true;
}

static bool
reads_description(struct arena *tmp, const struct m_build_ask *m, struct bytes description, struct err *e)
{
	const struct spec **specs = NEW_ARRAY(tmp, const struct spec *, MAX_OF(m->n_kernels, 1u));
	struct artefact artefact;

	for (uint32_t i = 0; i < m->n_kernels; i++) {
		struct spec *s = NEW(tmp, struct spec);

		if (!spec_read(tmp, m->kernels[i].spec, s, e))
			return false;
		specs[i] = s;
	}
	return artefact_read(tmp, description, specs, m->n_kernels, &artefact, e);
}

/* What it tells of the machine code is of the specs that were asked for: plans will be made by it. */
static bool
is_described(struct judge *j, const struct m_build_ask *m)
{
	struct arena tmp = {0};
	struct bytes b;
	uint64_t total;
	struct err bad = {0};
	bool ok;

	if (!blob_size(j->db, &j->o->description, &total) || total == 0 || total > ARTEFACT_MAX_BYTES)
		return refuse(j, "what describes the built object is not here; it is uploaded first");
	ok = blob_read(j->db, &tmp, &j->o->description, 0, (size_t)total, &b, &total, j->e);
	ok = ok ? reads_description(&tmp, m, b, &bad) || refuse(j, bad.msg) : fails(j);
	arena_fini(&tmp);
	return ok;
}

static bool
numbers_of_build(struct judge *j)
{
	uint64_t bytes;
	struct msg m;

	if (j->o->fail)
		return true;
	if (!blob_size(j->db, &j->o->artefact, &bytes) || bytes == 0)
		return refuse(j, "the built object is not here; it is uploaded first");
	return read_request(j, MSG_build_ask, &m) && took_of_asked(j, &m.build_ask) &&
	    is_described(j, &m.build_ask);
}

static bool
numbers_of_plans(struct judge *j)
{
	struct msg m;
	struct err bad = {0};

	if (j->o->fail)
		return true;
	if (!read_request(j, MSG_time_ask, &m))
		return false;
	if (j->o->n_timings != m.time_ask.n_plans)
		return refuse(j, "timings of another number of plans than were asked for");
	for (uint32_t i = 0; i < j->o->n_timings; i++) {
		const struct m_timing *t = &j->o->timings[i];

		if (!timing_check(t, &bad))
			return refuse(j, bad.msg);
		if (t->median_ns < m.time_ask.plans[i].floor_ns)
			return refuse(j, "a plan ran faster than any device there is can compute");
	}
	return true;
}

/* ---- the judgement --------------------------------------------------------------------- */
static bool
is_granted(struct judge *j)
{
	bool is_spent;

	if (!grant_is_spent(j->db, j->o->gen, &is_spent, j->e))
		return fails(j);
	if (is_spent)
		return refuse(j, "the result of that lease has come before");
	if (j->ask->hold == FARM_HOLDS_NOT)
		return refuse(
		    j, "no lease of this device names its task: never granted, revoked, or run out");
	if ((j->ask->hold == FARM_HOLDS_CANARY) != (j->o->kind == TASK_CANARY))
		return refuse(j, "it is of another kind than its task");
	return true;
}

static bool
is_in_range(struct judge *j)
{
	const struct m_outcome *o = j->o;
	enum err_code code = err_of_wire(o->fail);

	if ((uint64_t)err_wire(code) != o->fail)
		return refuse(j, "its failure number is none");
	if (o->kind == TASK_CANARY)
		return true;
	return (o->threads > 0 && o->threads <= MOST_THREADS && o->effort <= MOST_EFFORT) ||
	    refuse(j, "its threads or its effort are out of range");
}

static const struct {
	bool (*key)(struct judge *j);
	bool (*numbers)(struct judge *j);
} kind_row[TASK_KINDS] = {
    [TASK_MEASURE] = {key_of_spec, numbers_of_measure},
    [TASK_BUILD] = {key_of_payload, numbers_of_build},
    [TASK_TIME] = {key_of_plans, numbers_of_plans},
    [TASK_RACE] = {key_of_payload, numbers_of_race},
    [TASK_PERTURB] = {key_of_kernel, numbers_of_perturb},
};

static bool
judge(struct judge *j)
{
	uint64_t kind = j->o->kind;

	if (!is_granted(j) || !is_in_range(j))
		return false;
	if (kind == TASK_CANARY)
		return true; /* a word of the device about itself: nothing is stored */
	if (kind >= TASK_KINDS || !kind_row[kind].key)
		return refuse(j, "there is no such kind of task");
	return kind_row[kind].key(j) && kind_row[kind].numbers(j);
}

bool
admit_outcome(struct db *db, struct arena *a, const struct m_outcome *o, const struct admit_ask *ask,
    struct admitted *out, struct err *e)
{
	struct judge j = {.db = db, .a = a, .o = o, .ask = ask, .key = ask->env, .out = out, .e = e};
	uint32_t n = MAX_OF(o->n_rows, 1u);

	*out = (struct admitted){.is = ADMIT_TAKEN,
	    .rows = NEW_ARRAY(a, struct m_row, n),
	    .specs = NEW_ARRAY(a, struct m_digest, n),
	    .doubted = NEW_ARRAY(a, struct str, n)};
	j.key.threads = o->threads;
	j.key.precision = o->precision;
	j.key.heat = o->heat;
	(void)judge(&j);
	if (out->is == ADMIT_REFUSED)
		out->n_rows = out->n_doubted = 0;
	return !j.broken;
}
