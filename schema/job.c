/* schema/job.c: submitted jobs.  A job's row is its record (proto/msg.def) beside the columns
 * that queries need. */
#include "db_int.h"

bool
job_add(struct db *db, struct bytes request, const struct m_job *job, const struct m_file *files,
    uint32_t n_files, uint64_t *id, bool *is_new, struct err *e)
{
	struct arena tmp = {0};
	struct bytes record;
	struct q q = q_start(db, SQL_JOB_FIND, "b", request);
	bool known = q_step(&q), ok;

	if (known)
		*id = (uint64_t)q_int(&q, 0);
	ok = q_end(&q, e);
	*is_new = ok && !known;
	if (!*is_new)
		return ok;
	ok = rec_pack(&tmp, "job", job, &record, e) &&
	    q_run(db, e, SQL_JOB_ADD, "btib", request, job->state, job->changed_ns, record);
	*id = (uint64_t)sqlite3_last_insert_rowid(db->sql);
	for (uint32_t i = 0; i < n_files && ok; i++)
		ok = q_run(db, e, SQL_JOB_FILE_ADD, "iithi", (int64_t)*id, (int64_t)i, files[i].name,
		    &files[i].digest, (int64_t)files[i].bytes);
	ok = ok && last_word_reserve(db, *id, e);
	arena_fini(&tmp);
	return ok;
}

bool
job_save(struct db *db, const struct m_job *job, struct err *e)
{
	struct arena tmp = {0};
	struct bytes record;
	bool ok = rec_pack(&tmp, "job", job, &record, e) &&
	    q_run(db, e, SQL_JOB_SAVE, "itib", (int64_t)job->id, job->state, job->changed_ns, record);

	arena_fini(&tmp);
	return ok;
}

bool
job_list(
    struct db *db, struct arena *a, bool all, uint32_t max, struct m_job **out, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, all ? SQL_JOB_ALL : SQL_JOB_OPEN, "i", (int64_t)max);
	struct m_job *list = NULL;
	uint32_t cap = 0;
	bool ok = true;

	*n = 0;
	while (ok && q_step(&q)) {
		GROW(a, list, *n, cap);
		ok = rec_unpack(a, "job", q_blob(&q, a, 1), &list[*n], e);
		list[*n].id = (uint64_t)q_int(&q, 0);
		if (ok && !all)
			(void)last_word_find(db, a, &list[*n]);
		*n += ok;
	}
	*out = list;
	return q_end(&q, e) && ok;
}

bool
job_get(struct db *db, struct arena *a, uint64_t id, struct m_job *out, struct err *e)
{
	struct q q = q_start(db, SQL_JOB_GET, "i", (int64_t)id);
	bool found = q_step(&q), ok = !found || rec_unpack(a, "job", q_blob(&q, a, 1), out, e);

	out->id = id;
	if (!q_end(&q, e) || !ok)
		return false;
	return found || err_set(e, ERR_USAGE, "there is no job %llu here", (unsigned long long)id);
}

bool
job_files(struct db *db, struct arena *a, uint64_t id, struct m_file **out, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, SQL_JOB_FILE_LIST, "i", (int64_t)id);
	struct m_file *list = NULL;
	uint32_t cap = 0;

	*n = 0;
	while (q_step(&q)) {
		GROW(a, list, *n, cap);
		list[*n].name = q_text(&q, a, 0);
		list[*n].digest = q_hash(&q, 1);
		list[(*n)++].bytes = (uint64_t)q_int(&q, 2);
	}
	*out = list;
	return q_end(&q, e);
}
