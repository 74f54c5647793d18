/* daemon/place.c: which devices a job gets.  A plan is made of measurements of one environment, so that all
 * of a job's tasks go to devices that are alike; the others are free for the next job. */
#include "place.h"

#include "../kernels/base/class.h"

#include <string.h>

/* So long after a restart a job waits for its own class: workers come back one by one. */
static const int64_t OWN_CLASS_NS = 60 * SECOND_NS;

struct rank {
	bool is_bound, is_own;
	int64_t n_free;
	struct place place;
};

static bool
is_there(const struct daemon *d, const struct session *s, uint32_t i)
{
	return s->is_connected && farm_device(d->farm, s->envs[i].device)->state != DEVICE_DRAINING;
}

static int64_t
jobs_on(const struct daemon *d, int64_t env)
{
	int64_t n = 0;

	for (const struct job *j = d->jobs; j; j = j->next)
		n += j->state == JOB_planning && j->env_id == env;
	return n;
}

static bool
is_before(const struct rank *a, const struct rank *b)
{
	int by_name;

	if (!b->place.env)
		return true;
	if (a->is_bound != b->is_bound)
		return a->is_bound;
	if (a->is_own != b->is_own)
		return a->is_own;
	if (a->n_free != b->n_free)
		return a->n_free > b->n_free;
	by_name = strcmp(a->place.class, b->place.class);
	return by_name < 0 || (by_name == 0 && a->place.env < b->place.env);
}

struct place
place_find(const struct daemon *d, const struct job *j)
{
	struct rank best = {0}, r;

	for (const struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++) {
			if (!class_fits(j->rec.options.device, str_of(s->envs[i].class)) ||
			    !is_there(d, s, i))
				continue;
			r = (struct rank){.is_bound = str_is(j->rec.class, s->envs[i].class),
			    .is_own = d->conf->is_private && s->is_local,
			    .n_free =
				(int64_t)farm_able(d->farm, s->envs[i].env) - jobs_on(d, s->envs[i].env),
			    .place = {s->envs[i].class, s->envs[i].env}};
			if (is_before(&r, &best))
				best = r;
		}
	return best.place;
}

bool
place_is_there(const struct daemon *d, struct str pattern)
{
	for (const struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++)
			if (class_fits(pattern, str_of(s->envs[i].class)) && is_there(d, s, i))
				return true;
	return false;
}

struct str
place_wanted(const struct daemon *d, const struct job *j)
{
	return j->rec.class.n && daemon_now(d) - j->found_ns < OWN_CLASS_NS ? j->rec.class
									    : j->rec.options.device;
}

const char *
place_classes(struct arena *a, const struct daemon *d)
{
	struct strbuf sb;
	uint32_t n = 0;

	sb_init(&sb, a);
	for (const struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs && s->is_connected; i++) {
			const char *class = s->envs[i].class, *at = sb.n ? strstr(sb.p, class) : NULL;
			char end = at ? at[strlen(class)] : 'x';

			if (!at || (end && end != ','))
				sb_addf(&sb, "%s%s", n++ ? ", " : " (there are: ", class);
		}
	if (n)
		sb_addc(&sb, ')');
	return n ? sb.p : "";
}

const char *
place_device(struct arena *a, struct str pattern)
{
	return str_starts(pattern, "cuda:") ? "cuda:all" : str_dup(a, class_kind(pattern));
}
