/* schema/grant.c: what makes a result count after a crash: the secret behind tickets, the generations whose
 * result has come, and the least that a measurement may say. */
#include "db_int.h"

#include "../kernels/base/sign.h"

#include <string.h>

/* How many generations are listed, and how often the older ones go. */
enum { SPENT_KEPT = 1 << 16, SPENT_EVERY = 1 << 12 };

bool
secret_get(struct db *db, const char *name, uint8_t out[SECRET_BYTES], struct err *e)
{
	struct arena tmp = {0};
	struct q q = q_start(db, SQL_SECRET_FIND, "t", str_of(name));
	struct bytes have = {0};
	bool ok;

	if (q_step(&q))
		have = q_blob(&q, &tmp, 0);
	ok = q_end(&q, e);
	if (ok && have.n == SECRET_BYTES) {
		memcpy(out, have.p, SECRET_BYTES);
	} else if (ok) {
		random_bytes(out, SECRET_BYTES);
		ok = q_run(db, e, SQL_SECRET_PUT, "tb", str_of(name), (struct bytes){out, SECRET_BYTES});
	}
	arena_fini(&tmp);
	return ok;
}

/* ---- generations -------------------------------------------------------------------- */
static bool
spent_below(struct db *db, int64_t *out, struct err *e)
{
	struct q q = q_start(db, SQL_META_GET, "t", STR("spent_below"));

	*out = q_step(&q) ? q_int(&q, 0) : 0;
	return q_end(&q, e);
}

static bool
forget_old(struct db *db, struct err *e)
{
	struct q q = q_start(db, SQL_SPENT_OLD, "i", (int64_t)SPENT_KEPT);
	int64_t below = q_step(&q) ? q_int(&q, 0) : 0;

	if (!q_end(&q, e))
		return false;
	return below == 0 ||
	    (q_run(db, e, SQL_SPENT_DROP, "i", below) &&
		q_run(db, e, SQL_META_SET, "ti", STR("spent_below"), below));
}

bool
grant_spend(struct db *db, uint64_t gen, struct err *e)
{
	return q_run(db, e, SQL_SPENT_ADD, "i", (int64_t)gen) &&
	    (gen % SPENT_EVERY != 0 || forget_old(db, e));
}

bool
grant_is_spent(struct db *db, uint64_t gen, bool *out, struct err *e)
{
	struct q q = q_start(db, SQL_SPENT_FIND, "i", (int64_t)gen);
	int64_t below = 0;

	*out = q_step(&q);
	if (!q_end(&q, e) || !spent_below(db, &below, e))
		return false;
	*out = *out || gen > INT64_MAX || (int64_t)gen <= below;
	return true;
}

/* ---- bounds -------------------------------------------------------------------------- */
bool
bound_put(
    struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_bound *b, struct err *e)
{
	if (b->bound_ns <= 0 && b->floor_ns <= 0)
		return true;
	return q_run(db, e, SQL_BOUND_PUT, "hiitiit", spec, k->env, (int64_t)k->threads, k->precision,
	    b->bound_ns, b->floor_ns, k->heat);
}

bool
bound_get(
    struct db *db, const struct hash *spec, const struct meas_key *k, struct m_bound *out, struct err *e)
{
	struct q q =
	    q_start(db, SQL_BOUND_GET, "hiitt", spec, k->env, (int64_t)k->threads, k->precision, k->heat);

	*out = (struct m_bound){0};
	if (q_step(&q)) {
		out->bound_ns = q_int(&q, 0);
		out->floor_ns = q_int(&q, 1);
	}
	return q_end(&q, e);
}
