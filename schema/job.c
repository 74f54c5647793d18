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

/* Every submit names a device. */
bool
job_is_unread(const struct m_job *job)
{
	return job->options.device.n == 0;
}

/* What is known without the record: a row of a list that stands for it. */
static bool
stand_in(struct db *db, struct arena *a, const struct err *why, struct m_job *job, struct err *e)
{
	struct m_file *files;
	uint32_t n;

	job->title = STR("");
	job->report = STR("");
	job->reason = str_of(arena_printf(a, "its record cannot be read: %s", why->msg));
	if (!job_files(db, a, job->id, &files, &n, e))
		return false;
	job->name = n ? files[0].name : STR("?");
	return true;
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
		struct m_job *job;
		struct err why = {0};

		GROW(a, list, *n, cap);
		job = &list[*n];
		if (!rec_unpack(a, "job", q_blob(&q, a, 1), job, &why) || job_is_unread(job))
			*job = (struct m_job){.state = q_text(&q, a, 2), .changed_ns = q_int(&q, 3)};
		job->id = (uint64_t)q_int(&q, 0);
		ok = !job_is_unread(job) || stand_in(db, a, &why, job, e);
		if (ok && !all)
			(void)last_word_find(db, a, job);
		*n += ok;
	}
	*out = list;
	return q_end(&q, e) && ok;
}

bool
job_get(struct db *db, struct arena *a, uint64_t id, struct m_job *out, struct err *e)
{
	struct q q = q_start(db, SQL_JOB_GET, "i", (int64_t)id);
	bool found = q_step(&q);
	struct err why = {0};
	bool ok = !found || rec_unpack(a, "job", q_blob(&q, a, 1), out, &why);

	out->id = id;
	if (!q_end(&q, e))
		return false;
	if (!ok)
		return err_set(e, ERR_FORMAT, "job %llu: its record cannot be read: %s",
		    (unsigned long long)id, why.msg);
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
