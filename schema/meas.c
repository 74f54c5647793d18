/* schema/meas.c: specs and measurements.
 *
 * A measurement's key is a digest of everything that decides it: spec, schedule, generator
 * epoch, environment, threads, precision, heat.  The digest only finds the row: the columns are
 * compared too.  The same key measured again: both are pooled, column by column (meas_table.c). */
#include "db_int.h"

#include <string.h>

static const int64_t DAY_NS = (int64_t)86400 * 1000000000;

bool
spec_put(struct db *db, struct str text, const struct hash *model, struct hash *hash, struct err *e)
{
	struct arena tmp = {0};
	struct str have = {0};
	struct q q;
	bool known, ok;

	*hash = hash_bytes(text.p, text.n);
	q = q_start(db, SQL_SPEC_FIND, "h", hash);
	known = q_step(&q);
	if (known)
		have = q_text(&q, &tmp, 0);
	ok = q_end(&q, e);
	if (ok && known && !str_eq(have, text))
		ok = err_set(e, ERR_FORMAT, "two specs have the same digest; run korch-cache verify");
	if (ok && !known)
		ok = q_run(db, e, SQL_SPEC_ADD, "hth", hash, text, model);
	arena_fini(&tmp);
	return ok;
}

bool
spec_text(struct db *db, struct arena *a, const struct hash *hash, struct str *text, struct err *e)
{
	struct q q = q_start(db, SQL_SPEC_FIND, "h", hash);
	bool known = q_step(&q);

	if (known)
		*text = q_text(&q, a, 0);
	if (!q_end(&q, e))
		return false;
	return known || err_set(e, ERR_FAILED, "the spec is not known here");
}

bool
fail_is_kept(uint64_t wire)
{
	enum err_code c = err_of_wire(wire);

	return c == ERR_COMPILE || c == ERR_LAUNCH || c == ERR_WRONG || c == ERR_CRASH || c == ERR_MEMORY ||
	    c == ERR_TIMEOUT || c == ERR_INFEASIBLE;
}

struct hash
meas_row_key(const struct hash *spec, const struct meas_key *k, struct str schedule)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_add(&sb, (struct str){(const char *)spec->b, sizeof(spec->b)});
	sb_add(&sb, (struct str){(const char *)k->env_hash.b, sizeof(k->env_hash.b)});
	sb_addf(&sb, "%llu %llu %zu %.*s %zu %.*s", (unsigned long long)k->epoch,
	    (unsigned long long)k->threads, k->precision.n, STR_ARG(k->precision), schedule.n,
	    STR_ARG(schedule));
	if (k->heat.n) /* rows of before knew none, and were cold */
		sb_addf(&sb, " heat %.*s", STR_ARG(k->heat));
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

static bool
same_sample(const struct m_measurement *a, const struct m_measurement *b)
{
	/* a result that was sent twice carries the same generation, at another time */
	return str_eq(a->worker, b->worker) && a->gen == b->gen && a->row.median_ns == b->row.median_ns &&
	    a->row.samples == b->row.samples && a->row.fail == b->row.fail;
}

static bool
put_row(struct db *db, const struct hash *key, int64_t env, const struct m_measurement *m, struct err *e)
{
	struct q q = q_start(db, SQL_MEAS_PUT, "hi", key, env);

	(void)q_bind_columns(&q, LIST_MEASUREMENT, 3, FORM_MEASUREMENT, m);
	while (q_step(&q))
		;
	return q_end(&q, e);
}

static struct m_measurement
measurement_of(const struct hash *spec, const struct meas_key *k, const struct m_row *row,
    const struct meas_origin *from)
{
	return (struct m_measurement){
	    .spec = *spec,
	    .epoch = k->epoch,
	    .threads = k->threads,
	    .precision = k->precision,
	    .heat = k->heat,
	    .row = *row,
#define FROM(KIND, N, ...) .N = from->N,
#include "../proto/meas.def"
	};
}

static bool
meas_put_one(struct db *db, const struct meas_key *k, struct m_measurement *m, struct err *e)
{
	struct arena tmp = {0};
	struct hash key = meas_row_key(&m->spec, k, m->row.schedule);
	struct m_measurement old;
	struct q q = q_start(db, SQL_MEAS_FIND, "h", &key);
	bool known = q_step(&q), same_env = true, ok;

	if (known) {
		same_env = q_int(&q, 0) == k->env;
		(void)q_measurement(&q, &tmp, 1, &old);
	}
	ok = q_end(&q, e);
	if (ok && known && (!same_env || !meas_same_key(&old, m)))
		ok = err_set(e, ERR_FORMAT, "two measurements have the same digest; run korch-cache verify");
	if (ok && known && !same_sample(&old, m)) {
		meas_pool(&old, m);
		db->tally[TALLY_POOLED]++;
		ok = put_row(db, &key, k->env, &old, e);
	} else if (ok && !known) {
		db->tally[TALLY_PUT]++;
		ok = put_row(db, &key, k->env, m, e);
	}
	arena_fini(&tmp);
	return ok;
}

bool
meas_put(struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_row *rows,
    uint32_t n, const struct meas_origin *from, struct err *e)
{
	for (uint32_t i = 0; i < n; i++) {
		struct m_measurement m = measurement_of(spec, k, &rows[i], from);

		if (!m.wall_ns)
			m.wall_ns = db_wall(db);
		if (rows[i].fail && !fail_is_kept(rows[i].fail))
			continue;
		if (!meas_row_is_sane(&rows[i], e) || !meas_put_one(db, k, &m, e))
			return false;
	}
	return true;
}

/* Nothing is pooled: what was good is not good any more. */
bool
meas_refute(struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_row *row,
    const struct meas_origin *from, struct err *e)
{
	struct arena tmp = {0};
	struct hash key = meas_row_key(spec, k, row->schedule);
	struct m_measurement m = measurement_of(spec, k, row, from);
	struct m_row old;
	bool known = false, ok;

	m.effort = 0;
	m.wall_ns = db_wall(db);
	ok = meas_row_is_sane(row, e) && meas_row(db, &tmp, spec, k, row->schedule, &old, &known, e) &&
	    (!known || put_row(db, &key, k->env, &m, e));
	arena_fini(&tmp);
	return ok;
}

bool
attempt_put(struct db *db, const struct hash *spec, const struct meas_key *k, uint64_t effort, uint64_t fail,
    struct str cause, struct err *e)
{
	if (fail && !fail_is_kept(fail))
		return true;
	return q_run(db, e, SQL_ATTEMPT_PUT, "hiitiiitit", spec, k->env, (int64_t)k->threads, k->precision,
	    (int64_t)k->epoch, (int64_t)effort, (int64_t)fail, cause, db_wall(db), k->heat);
}

/* A time limit and a lack of memory are remembered for a day: the machine may be less busy by then. */
static bool
fail_counts(struct db *db, uint64_t fail, int64_t wall_ns)
{
	enum err_code c = err_of_wire(fail);

	return fail && ((c != ERR_TIMEOUT && c != ERR_MEMORY) || db_wall(db) - wall_ns < DAY_NS);
}

static bool
find_of_heat(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_cost *out, struct err *e)
{
	struct q q = q_start(db, SQL_ATTEMPT_FIND, "hiitit", spec, k->env, (int64_t)k->threads, k->precision,
	    (int64_t)k->epoch, k->heat);
	struct hash key;
	bool found;

	if (q_step(&q)) {
		out->effort = (uint64_t)q_int(&q, 0);
		if (fail_counts(db, (uint64_t)q_int(&q, 1), q_int(&q, 3))) {
			out->fail = (uint64_t)q_int(&q, 1);
			out->cause = q_text(&q, a, 2);
		} else if (q_int(&q, 1))
			out->effort = 0;
	}
	if (!q_end(&q, e))
		return false;
	q = q_start(db, SQL_MEAS_BEST, "hiitit", spec, k->env, (int64_t)k->threads, k->precision,
	    (int64_t)k->epoch, k->heat);
	found = q_step(&q);
	if (found) {
		out->schedule = q_text(&q, a, 0);
		out->median_ns = q_int(&q, 1);
		out->spread_ns = q_int(&q, 2);
		out->samples = (uint64_t)q_int(&q, 3);
		out->error_ns = median_error(out->spread_ns, out->samples);
		out->error = q_real(&q, 4);
		out->fail = 0;
		out->cause = STR("");
		out->first_ns = out->median_ns;
		key = q_hash(&q, 5);
		out->compile_ns = q_int(&q, 6);
	}
	return q_end(&q, e) &&
	    (!found || (repeat_apply(db, &key, out, e) && perturbed_apply(db, a, spec, k, out, e)));
}

static bool
find_rows(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_cost *out, struct err *e)
{
	struct meas_key cold = *k;

	if (!find_of_heat(db, a, spec, k, out, e))
		return false;
	if (!k->any_heat || !k->heat.n || out->median_ns > 0 || out->fail)
		return true;
	cold.heat = STR("");
	return find_of_heat(db, a, spec, &cold, out, e);
}

bool
meas_row(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct str schedule, struct m_row *out, bool *known, struct err *e)
{
	struct hash key = meas_row_key(spec, k, schedule);
	struct q q = q_start(db, SQL_MEAS_FIND, "h", &key);
	struct m_measurement m = {0};

	*known = q_step(&q);
	if (*known)
		(void)q_measurement(&q, a, 1, &m);
	*out = m.row;
	return q_end(&q, e);
}

bool
meas_find(struct db *db, struct arena *a, struct str text, const struct meas_key *k, const struct hash *model,
    struct m_cost *out, struct err *e)
{
	struct arena tmp = {0};
	struct hash first_model = {{0}};
	struct str have = {0};
	struct q q;
	bool known, ok;

	*out = (struct m_cost){.spec = hash_bytes(text.p, text.n), .schedule = STR(""), .cause = STR("")};
	q = q_start(db, SQL_SPEC_FIND, "h", &out->spec);
	known = q_step(&q);
	if (known) {
		have = q_text(&q, &tmp, 0);
		first_model = q_hash(&q, 1);
	}
	ok = q_end(&q, e);
	if (ok && known && !str_eq(have, text))
		ok = err_set(e, ERR_FORMAT, "two specs have the same digest; run korch-cache verify");
	if (ok && known)
		ok = find_rows(db, a, &out->spec, k, out, e);
	out->is_cached = ok && (out->median_ns > 0 || out->fail);
	db->tally[!out->is_cached ? TALLY_MISS : out->fail ? TALLY_FAILED : TALLY_HIT]++;
	if (out->is_cached && !hash_eq(&first_model, model))
		db->tally[TALLY_REUSE]++;
	arena_fini(&tmp);
	return ok;
}

bool
meas_best(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_cost *out, struct err *e)
{
	*out = (struct m_cost){.spec = *spec, .schedule = STR(""), .cause = STR("")};
	return find_rows(db, a, spec, k, out, e);
}

bool
meas_known(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_kv **out, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, SQL_MEAS_KNOWN, "hiititii", spec, k->env, (int64_t)k->threads, k->precision,
	    (int64_t)k->epoch, k->heat, (int64_t)err_wire(ERR_TIMEOUT), db_wall(db) - DAY_NS);
	struct m_kv *list = NULL;
	uint32_t cap = 0;

	*n = 0;
	while (q_step(&q)) {
		GROW(a, list, *n, cap);
		list[*n].name = q_text(&q, a, 0);
		list[(*n)++].value = str_of(arena_printf(a, "%lld", (long long)q_int(&q, 1)));
	}
	*out = list;
	return q_end(&q, e);
}

/* What else was tried of a sibling. */
static bool
list_tried(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k, uint32_t most,
    struct m_sibling *out, struct err *e)
{
	struct meas_key own = *k;
	struct q q;

	own.heat = out->heat;
	q = q_start(db, SQL_MEAS_KNOWN, "hiititii", spec, own.env, (int64_t)own.threads, own.precision,
	    (int64_t)own.epoch, own.heat, (int64_t)err_wire(ERR_TIMEOUT), db_wall(db) - DAY_NS);
	out->tried = NEW_ARRAY(a, struct m_tried, most);
	while (out->n_tried < most && q_step(&q)) {
		struct m_tried *x = &out->tried[out->n_tried++];

		x->schedule = q_text(&q, a, 0);
		x->median_ns = q_int(&q, 1);
	}
	return q_end(&q, e);
}

bool
meas_siblings(struct db *db, struct arena *a, const struct hash *structure, const struct meas_key *k,
    uint32_t most, struct m_sibling **out, uint32_t *n, struct err *e)
{
	enum { TRIED = 64 }; /* msg.def */
	struct hash *spec = NEW_ARRAY(a, struct hash, MAX_OF(most, 1u));
	struct q q = q_start(db, SQL_SIBLING_LIST, "hiitii", structure, k->env, (int64_t)k->threads,
	    k->precision, (int64_t)k->epoch, (int64_t)most);

	*out = NEW_ARRAY(a, struct m_sibling, MAX_OF(most, 1u));
	for (*n = 0; *n < most && q_step(&q); (*n)++) {
		(*out)[*n] = (struct m_sibling){.spec = q_text(&q, a, 0),
		    .heat = q_text(&q, a, 1),
		    .schedule = q_text(&q, a, 2),
		    .median_ns = q_int(&q, 3)};
		spec[*n] = q_hash(&q, 4);
	}
	if (!q_end(&q, e))
		return false;
	for (uint32_t i = 0; i < *n; i++)
		if (!list_tried(db, a, &spec[i], k, TRIED, &(*out)[i], e))
			return false;
	return true;
}
