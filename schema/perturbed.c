/* schema/perturbed.c: what came of searches for a better order of a kernel's machine instructions.
 *
 * The moves that won are a measurement of their own, under the base's schedule and a word more; here is what
 * is known beside its time: the gain over the base, its interval, how much was compared.  A search that found
 * nothing is kept too, so that a repeat asks for none. */
#include "db_int.h"
#include "perturbed.h"

#include "../proto/range.h"

#include <string.h>

static bool
find(struct db *db, struct arena *a, const struct hash *key, struct m_perturbed *out, bool *known,
    struct err *e)
{
	struct q q = q_start(db, SQL_PERTURBED_FIND, "h", key);
	struct bytes record = {0};

	*known = q_step(&q);
	if (*known)
		record = q_blob(&q, a, 0);
	return q_end(&q, e) && (!*known || rec_unpack(a, "perturbed", record, out, e));
}

static struct m_perturbed
nothing(const struct hash *spec)
{
	return (struct m_perturbed){
	    .spec = *spec, .base = STR(""), .schedule = STR(""), .precision = STR(""), .worker = STR("")};
}

bool
perturbed_find(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct str base, struct m_perturbed *out, struct err *e)
{
	struct hash key = meas_row_key(spec, k, base);
	bool known;

	*out = nothing(spec);
	return find(db, a, &key, out, &known, e);
}

/* Does meas_best() take a's row?  Of equal times it takes the schedule that comes first. */
static bool
comes_first(const struct m_row *a, const struct m_row *b)
{
	const int order = memcmp(a->schedule.p, b->schedule.p, MIN_OF(a->schedule.n, b->schedule.n));

	if (a->median_ns != b->median_ns)
		return a->median_ns < b->median_ns;
	return order ? order < 0 : a->schedule.n < b->schedule.n;
}

/* Of two findings the one whose row counts stays: what explains a plan is known of the schedule it has. */
static bool
keep_better(struct db *db, struct arena *a, const struct meas_key *k, const struct m_perturbed *old,
    struct m_perturbed *p, struct err *e)
{
	const int64_t asked_ns = MAX_OF(old->asked_ns, p->asked_ns);
	struct m_row was, now;
	bool has_was = false, has_now = false;

	if (!old->schedule.n) {
		p->asked_ns = asked_ns;
		return true;
	}
	if (!meas_row(db, a, &p->spec, k, old->schedule, &was, &has_was, e) ||
	    (p->schedule.n && !meas_row(db, a, &p->spec, k, p->schedule, &now, &has_now, e)))
		return false;
	if (!p->schedule.n ||
	    (has_was && has_now && !was.fail && !now.fail ? !comes_first(&now, &was)
							  : p->ratio >= old->ratio))
		*p = *old;
	p->asked_ns = asked_ns;
	return true;
}

bool
perturbed_put(struct db *db, const struct meas_key *k, const struct m_perturbed *p, struct err *e)
{
	struct arena tmp = {0};
	struct hash key = meas_row_key(&p->spec, k, p->base);
	struct m_perturbed old, keep = *p;
	struct m_row base;
	struct bytes record = {0};
	bool has_base = false, has_old = false;

	bool ok = meas_row(db, &tmp, &p->spec, k, p->base, &base, &has_base, e) &&
	    find(db, &tmp, &key, &old, &has_old, e);

	keep.wall_ns = keep.wall_ns > 0 ? keep.wall_ns : db_wall(db);
	ok = ok && (!has_old || keep_better(db, &tmp, k, &old, &keep, e));
	if (ok && has_base)
		ok = rec_pack(&tmp, "perturbed", &keep, &record, e) &&
		    q_run(db, e, SQL_PERTURBED_PUT, "hibi", &key, keep.asked_ns, record, db_wall(db));
	arena_fini(&tmp);
	return ok;
}

static bool
forget_finding(struct db *db, struct arena *a, const struct meas_key *k, const struct hash *spec,
    struct str schedule, struct err *e)
{
	struct str base, moves;
	struct m_perturbed p, none = nothing(spec);
	struct bytes record;
	struct hash key;
	bool known;

	(void)sip_split(schedule, &base, &moves);
	key = meas_row_key(spec, k, base);
	if (!find(db, a, &key, &p, &known, e))
		return false;
	if (!known || !str_eq(p.schedule, schedule))
		return true;
	none.base = base;
	none.env_hash = p.env_hash;
	none.threads = p.threads;
	none.precision = p.precision;
	none.epoch = p.epoch;
	none.worker = p.worker;
	none.wall_ns = p.wall_ns;
	none.asked_ns = p.asked_ns;
	none.tried = p.tried;
	none.failed = p.tried;
	return rec_pack(a, "perturbed", &none, &record, e) &&
	    q_run(db, e, SQL_PERTURBED_PUT, "hibi", &key, none.asked_ns, record, db_wall(db));
}

bool
perturbed_refute(struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_row *row,
    const struct meas_origin *from, struct err *e)
{
	struct arena tmp = {0};
	bool ok =
	    meas_refute(db, spec, k, row, from, e) && forget_finding(db, &tmp, k, spec, row->schedule, e);

	arena_fini(&tmp);
	return ok;
}

bool
perturbed_apply(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_cost *cost, struct err *e)
{
	struct str base, moves;
	struct m_perturbed p;

	if (!sip_split(cost->schedule, &base, &moves))
		return true;
	if (!perturbed_find(db, a, spec, k, base, &p, e))
		return false;
	if (!str_eq(p.schedule, cost->schedule))
		return true;
	return rec_pack(a, "perturbed", &p, &cost->perturbed, e);
}
