/* schema/repeat.c: schedules timed again.
 *
 * A schedule wins its place by its first measurement, so the winners' first measurements are too good
 * on average: they were taken in good moments.  What is timed again, in one session with what it
 * competes with, costs the median of its repeats; the first measurement, by which it was picked, does
 * not take part.  All rows stay, so equal stores give equal costs. */
#include "db_int.h"

#include <math.h>

static bool
is_known_good(struct db *db, const struct hash *key, bool *out, struct err *e)
{
	struct q q = q_start(db, SQL_MEAS_TIME, "h", key);

	*out = q_step(&q) && q_int(&q, 0) == 0;
	return q_end(&q, e);
}

bool
meas_first(struct db *db, const struct hash *spec, const struct meas_key *k, struct str schedule, int64_t *ns,
    struct err *e)
{
	struct hash key = meas_row_key(spec, k, schedule);
	struct q q = q_start(db, SQL_MEAS_TIME, "h", &key);

	*ns = q_step(&q) ? q_int(&q, 1) : 0;
	return q_end(&q, e);
}

/* A row that is there already: the same result sent twice, or work that was done twice. */
static bool
is_there(struct db *db, const struct hash *key, const struct hash *session, const struct meas_origin *from,
    bool *out, struct err *e)
{
	struct arena tmp = {0};
	struct q q = q_start(db, SQL_REPEAT_FIND, "hh", key, session);

	*out = q_step(&q);
	if (*out && !(str_eq(q_text(&q, &tmp, 0), from->worker) && (uint64_t)q_int(&q, 1) == from->gen))
		db->tally[TALLY_POOLED]++;
	arena_fini(&tmp);
	return q_end(&q, e);
}

bool
repeat_put(struct db *db, const struct hash *spec, const struct meas_key *k, const struct hash *session,
    const struct m_row *r, const struct meas_origin *from, struct err *e)
{
	struct hash key = meas_row_key(spec, k, r->schedule);
	struct m_repeat repeat = {.row = *r,
	    .worker = from->worker,
	    .gen = from->gen,
	    .wall_ns = from->wall_ns ? from->wall_ns : db_wall(db)};
	bool known, there;
	struct q q;

	if (r->fail && !fail_is_kept(r->fail))
		return true;
	if (!meas_row_is_sane(r, e) || !is_known_good(db, &key, &known, e))
		return false;
	if (!known)
		return true; /* of another store: there is nothing that it repeats */
	if (!is_there(db, &key, session, from, &there, e))
		return false;
	if (there)
		return true;
	db->tally[TALLY_REPEATED]++;
	q = q_start(db, SQL_REPEAT_PUT, "hh", &key, session);
	(void)q_bind_columns(&q, LIST_REPEAT, 3, FORM_REPEAT, &repeat);
	while (q_step(&q))
		;
	return q_end(&q, e);
}

bool
repeat_session(struct db *db, const struct hash *session, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, SQL_REPEAT_SESSION, "h", session);

	*n = q_step(&q) ? (uint32_t)q_int(&q, 0) : 0;
	return q_end(&q, e);
}

/* What stands in a measurement is not all there is to tell of it: its repeats, oldest first. */
bool
repeat_rows(struct db *db, struct arena *a, struct m_measurement *m, struct err *e)
{
	struct meas_key k = {.env_hash = hash_bytes(m->env.p, m->env.n),
	    .epoch = m->epoch,
	    .threads = m->threads,
	    .precision = m->precision,
	    .heat = m->heat};
	struct hash key = meas_row_key(&m->spec, &k, m->row.schedule);
	struct q q = q_start(db, SQL_REPEAT_ROWS, "h", &key);
	uint32_t cap = 0;

	while (q_step(&q)) {
		struct m_repeat r;

		(void)q_repeat(&q, a, false, 1, &r);
		r.session = q_hash(&q, 0);
		GROW(a, m->repeats, m->n_repeats, cap);
		m->repeats[m->n_repeats++] = r;
	}
	return q_end(&q, e);
}

/* Of n samples that lie about normally: a median's error is 1.2533 of a mean's, and p10 to p90 is 2.5631
 * deviations. */
double
median_error(int64_t spread_ns, uint64_t samples)
{
	return samples ? 1.2533 / 2.5631 * (double)MAX_OF(spread_ns, (int64_t)0) / sqrt((double)samples) : 0;
}

/* Of the median of sessions' medians: by how they differ, and no less than what each of them errs by. */
static double
error_of_sessions(const int64_t *ns, const double *errors, uint32_t n)
{
	double mean = 0, square = 0, within = 0;

	if (n == 1)
		return errors[0];
	for (uint32_t i = 0; i < n; i++)
		mean += (double)ns[i] / n;
	for (uint32_t i = 0; i < n; i++) {
		square += ((double)ns[i] - mean) * ((double)ns[i] - mean) / (n - 1);
		within += errors[i] * errors[i] / n;
	}
	return 1.2533 * sqrt(fmax(square, within) / n);
}

/* The rows come sorted; failed ones behind the others. */
bool
repeat_apply(struct db *db, const struct hash *key, struct m_cost *cost, struct err *e)
{
	struct arena tmp = {0};
	struct q q = q_start(db, SQL_REPEAT_LIST, "h", key);
	int64_t *ns = NULL, widest = 0;
	double *errors = NULL;
	uint64_t samples = 0;
	uint32_t n = 0, cap = 0, cap_errors = 0;

	while (q_step(&q)) {
		cost->repeats++;
		if (q_int(&q, 3) != 0)
			continue;
		GROW(&tmp, ns, n, cap);
		GROW(&tmp, errors, n, cap_errors);
		errors[n] = median_error(q_int(&q, 1), (uint64_t)q_int(&q, 2));
		ns[n++] = q_int(&q, 0);
		widest = MAX_OF(widest, q_int(&q, 1));
		samples += (uint64_t)q_int(&q, 2);
	}
	if (n > 0) {
		cost->median_ns = ns[(n - 1) / 2] + (ns[n / 2] - ns[(n - 1) / 2]) / 2;
		cost->spread_ns = MAX_OF(widest, ns[n - 1] - ns[0]);
		cost->samples = samples;
		cost->error_ns = error_of_sessions(ns, errors, n);
	}
	arena_fini(&tmp);
	return q_end(&q, e);
}
