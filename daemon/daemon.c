/* daemon/daemon.c: what every file of korchd asks: the time, who and what is there. */
#include "task.h"

int64_t
daemon_now(const struct daemon *d)
{
	return d->os->mono_ns(d->os->self);
}

struct session *
session_find(const struct daemon *d, uint64_t id)
{
	struct session *s = d->sessions;

	while (s && s->id != id)
		s = s->next;
	return id ? s : NULL;
}

struct meas_key
job_meas_key(const struct job *j, uint64_t threads, struct str precision)
{
	return (struct meas_key){.env = j->env_id,
	    .env_hash = hash_bytes(j->env.key.p, j->env.key.n),
	    .threads = threads,
	    .epoch = j->env.epoch,
	    .precision = precision};
}

struct job *
job_find(const struct daemon *d, uint64_t id)
{
	struct job *j = d->jobs;

	while (j && j->rec.id != id)
		j = j->next;
	return j;
}

void
daemon_forget(struct daemon *d)
{
	while (d->polls) {
		struct request *r = d->polls;

		d->polls = r->next;
		request_drop(d, r);
	}
	jobs_free(d);
	sessions_free(d);
	if (d->farm)
		farm_free(d->farm, task_data_free);
}
