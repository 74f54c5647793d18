/* schema/job_end.c: how jobs ended.  A plan is a function of the job (its key) and of what the store tells of
 * the job's candidates.  So an end is kept with the list of their specs and one digest of all that the store
 * would answer for them: while that is the same, so is the plan.  Any row that comes, goes or fails changes
 * the digest, whoever made it; nothing has to be told to this file. */
#include "db_int.h"
#include "job_end.h"
#include "plan_file.h"

#include <string.h>

/* All that the store would tell. */
struct basis {
	struct hash costs;
	uint64_t cached, failed;
	int64_t hits, misses, bad, reused; /* as meas_find would count them */
};

static bool
is_of_other_model(struct db *db, const struct hash *spec, const struct hash *model, bool *out, struct err *e)
{
	struct q q = q_start(db, SQL_SPEC_MODEL, "h", spec);
	struct hash first;

	*out = false;
	if (q_step(&q)) {
		first = q_hash(&q, 0);
		*out = !hash_eq(&first, model);
	}
	return q_end(&q, e);
}

static void
count(struct basis *b, const struct m_cost *c, uint64_t effort)
{
	bool is_known = c->median_ns > 0 || c->fail;

	b->cached += c->median_ns > 0 && c->effort >= effort;
	b->failed += c->fail != 0;
	b->hits += is_known && !c->fail;
	b->bad += c->fail != 0;
	b->misses += !is_known;
}

/* model: NULL where nobody asks how much of it came with other models. */
static bool
find_basis(struct db *db, const struct m_job_end *end, const struct meas_key *k, const struct hash *model,
    struct basis *out, struct err *e)
{
	struct arena all = {0};
	struct meas_key key = *k;
	struct str heats = {(const char *)end->heats.p, end->heats.n};
	struct strbuf sb;
	bool ok = true;

	key.any_heat = true; /* such a plan may stand on those */
	*out = (struct basis){0};
	sb_init(&sb, &all);
	for (size_t at = 0; ok && end->specs.n - at >= sizeof(struct hash); at += sizeof(struct hash)) {
		struct arena tmp = {0};
		struct hash spec;
		struct m_cost c;
		struct bytes words;
		bool is_foreign = false;

		memcpy(spec.b, end->specs.p + at, sizeof(spec.b));
		key.heat = str_cut(&heats, '\n');
		ok = meas_best(db, &tmp, &spec, &key, &c, e);
		if (ok && (c.median_ns > 0 || c.fail)) {
			ok = rec_pack(&tmp, "cost", &c, &words, e) &&
			    (!model || is_of_other_model(db, &spec, model, &is_foreign, e));
			if (ok)
				sb_add(&sb, (struct str){(const char *)words.p, words.n});
		}
		if (ok)
			count(out, &c, end->effort);
		out->reused += is_foreign;
		arena_fini(&tmp);
	}
	out->costs = hash_bytes(sb.p, sb.n);
	arena_fini(&all);
	return ok;
}

static bool
read_end(struct db *db, struct arena *a, const struct hash *key, struct m_job_end *out, struct err *e)
{
	struct q q = q_start(db, SQL_JOB_END_FIND, "h", key);
	struct bytes record = {0};
	bool found = q_step(&q);

	if (found)
		record = q_blob(&q, a, 0);
	return q_end(&q, e) && (!found || rec_unpack(a, "job_end", record, out, e));
}

/* Its plan is handed out again, so its bytes are looked at, and who signed it: not so a folder with a new
 * key. */
static bool
plan_is_here(struct db *db, const struct m_job_end *end)
{
	struct arena tmp = {0};
	struct hash have;
	uint64_t bytes;
	struct err e = {0};
	bool ok = blob_size(db, &end->plan, &bytes) && bytes == end->plan_bytes &&
	    file_digest(blob_path(&tmp, db, &end->plan), &have, &bytes, &e) && hash_eq(&have, &end->plan) &&
	    plan_sealed_by(blob_path(&tmp, db, &end->plan), &db->signer.pub);

	arena_fini(&tmp);
	return ok;
}

bool
job_end_read(struct db *db, struct arena *a, const struct hash *key, struct m_end_have *out, struct err *e)
{
	const char *path;
	uint64_t bytes;

	*out = (struct m_end_have){.path = STR("")};
	if (!read_end(db, a, key, &out->end, e))
		return false;
	path = blob_path(a, db, &out->end.plan);
	out->has_plan = out->end.plan_bytes > 0 && blob_size(db, &out->end.plan, &bytes) &&
	    bytes == out->end.plan_bytes && plan_sealed_by(path, &db->signer.pub);
	return true;
}

bool
job_end_find(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    const struct hash *model, struct m_end_have *out, struct err *e)
{
	struct basis b;

	*out = (struct m_end_have){0};
	if (!read_end(db, a, key, &out->end, e))
		return false;
	if (out->end.plan_bytes == 0)
		return true;
	if (!find_basis(db, &out->end, k, model, &b, e))
		return false;
	out->has_plan = plan_is_here(db, &out->end);
	out->is_same = hash_eq(&b.costs, &out->end.costs);
	out->cached = b.cached;
	out->failed = b.failed;
	if (out->is_same && out->has_plan) {
		db->tally[TALLY_HIT] += b.hits;
		db->tally[TALLY_MISS] += b.misses;
		db->tally[TALLY_FAILED] += b.bad;
		db->tally[TALLY_REUSE] += b.reused;
	}
	return true;
}

bool
job_end_put(
    struct db *db, const struct hash *key, const struct meas_key *k, struct m_job_end *end, struct err *e)
{
	struct arena tmp = {0};
	struct basis b;
	struct bytes record;
	bool ok = find_basis(db, end, k, NULL, &b, e);

	end->costs = b.costs;
	ok = ok && rec_pack(&tmp, "job_end", end, &record, e) &&
	    q_run(db, e, SQL_JOB_END_PUT, "hbi", key, record, db_wall(db));
	arena_fini(&tmp);
	return ok;
}
