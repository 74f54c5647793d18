/* daemon/farm/farm.c: tasks and leases.
 *
 * A task is READY or LEASED; it leaves by farm_end.  Who moves it:
 *   farm_add -> READY (or LEASED, when its device announced it before)
 *   READY -> LEASED   farm_lease, farm_adopt
 *   LEASED -> READY   farm_release, farm_leave, farm_finish (retry), farm_tick (deadline)
 * Every grant takes a new generation, so an answer to an older one is recognised for ever. */
#include "farm_int.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	uint32_t attempts;
	bool is_device;
} retry[ERR_COUNT] = {
#define RETRY(CODE, ATTEMPTS, IS_DEVICE) [ERR_##CODE] = {ATTEMPTS, IS_DEVICE},
#include "retry.def"
};

struct farm *
farm_new(uint64_t boot)
{
	struct farm *f = heap_alloc(sizeof(*f));

	f->next_gen = (boot << 32) + 1;
	f->n_buckets = 256;
	f->buckets = heap_alloc(f->n_buckets * sizeof(struct farm_task *));
	return f;
}

const struct farm_counts *
farm_counts(const struct farm *f)
{
	return &f->counts;
}

/* ---- tables ------------------------------------------------------------------------- */
static uint32_t
bucket_of(const struct farm *f, const struct hash *key)
{
	uint32_t h;

	memcpy(&h, key->b, sizeof(h));
	return h & (f->n_buckets - 1);
}

struct farm_task *
farm_find(const struct farm *f, const struct hash *key)
{
	struct farm_task *t = f->buckets[bucket_of(f, key)];

	while (t && !hash_eq(&t->want.key, key))
		t = t->next_in_bucket;
	return t;
}

static void
link_task(struct farm *f, struct farm_task *t)
{
	uint32_t b = bucket_of(f, &t->want.key);

	t->next_in_bucket = f->buckets[b];
	f->buckets[b] = t;
}

static void
widen(struct farm *f)
{
	free(f->buckets);
	f->n_buckets *= 4;
	f->buckets = heap_alloc(f->n_buckets * sizeof(struct farm_task *));
	for (uint32_t i = 0; i < f->n_tasks; i++)
		link_task(f, f->tasks[i]);
}

static void
unlink_task(struct farm *f, struct farm_task *t)
{
	struct farm_task **at = &f->buckets[bucket_of(f, &t->want.key)];

	while (*at != t)
		at = &(*at)->next_in_bucket;
	*at = t->next_in_bucket;
	f->tasks[t->at] = f->tasks[--f->n_tasks];
	f->tasks[t->at]->at = t->at;
}

void *
farm_end(struct farm *f, struct farm_task *t)
{
	void *data = t->data;

	farm_end_lease(f, t);
	unlink_task(f, t);
	free(t->waiters);
	free(t);
	return data;
}

void
farm_free(struct farm *f, void (*free_data)(void *data))
{
	while (f->n_tasks) {
		void *data = farm_end(f, f->tasks[0]);

		if (free_data)
			free_data(data);
	}
	free(f->tasks);
	free(f->buckets);
	free(f->devices);
	free(f->promises);
	free(f);
}

/* ---- tasks -------------------------------------------------------------------------- */
static void
add_waiter(struct farm_task *t, uint64_t waiter)
{
	for (uint32_t i = 0; i < t->n_waiters; i++)
		if (t->waiters[i] == waiter)
			return;
	GROW_HEAP(t->waiters, t->n_waiters, t->cap_waiters);
	t->waiters[t->n_waiters++] = waiter;
}

static void
take_lease(struct farm *f, struct farm_task *t, struct farm_device *d, uint64_t gen, int64_t now_ns)
{
	t->state = FARM_LEASED;
	t->device = d->id;
	t->gen = gen;
	t->lease_ns = MIN_OF(
	    MAX_OF(FARM_LEASE_NS, 3 * MIN_OF(t->want.expect_ns, FARM_LEASE_MAX_NS)), FARM_LEASE_MAX_NS);
	t->deadline_ns = now_ns + t->lease_ns;
	d->n_leases++;
	(void)f;
}

static void
add_promise(struct farm *f, const struct promise *p)
{
	GROW_HEAP(f->promises, f->n_promises, f->cap_promises);
	f->promises[f->n_promises++] = *p;
}

/* Was the new task announced by a device that outlived the last daemon? */
static void
keep_promise(struct farm *f, struct farm_task *t, int64_t now_ns)
{
	for (uint32_t i = 0; i < f->n_promises; i++) {
		struct promise p = f->promises[i];
		struct farm_device *d;

		if (!hash_eq(&p.key, &t->want.key))
			continue;
		f->promises[i] = f->promises[--f->n_promises];
		d = farm_device_of(f, p.device);
		if (d && d->env == t->want.env && now_ns < p.deadline_ns) {
			take_lease(f, t, d, p.gen, now_ns);
			f->counts.adopted++;
		}
		return;
	}
}

struct farm_task *
farm_add(
    struct farm *f, const struct farm_want *want, uint64_t waiter, void *data, int64_t now_ns, bool *is_new)
{
	struct farm_task *t = farm_find(f, &want->key);

	*is_new = !t;
	if (t) {
		f->counts.merged++;
		t->want.priority = MAX_OF(t->want.priority, want->priority);
		add_waiter(t, waiter);
		return t;
	}
	t = heap_alloc(sizeof(*t));
	t->want = *want;
	t->data = data;
	t->seq = f->next_seq++;
	t->at = f->n_tasks;
	GROW_HEAP(f->tasks, f->n_tasks, f->cap_tasks);
	f->tasks[f->n_tasks++] = t;
	if (f->n_tasks > f->n_buckets)
		widen(f);
	else
		link_task(f, t);
	add_waiter(t, waiter);
	keep_promise(f, t, now_ns);
	return t;
}

void
farm_drop(struct farm *f, uint64_t waiter, const struct hash *key, void (*free_data)(void *data))
{
	for (uint32_t i = 0; i < f->n_tasks;) {
		struct farm_task *t = f->tasks[i];
		uint32_t had = t->n_waiters;
		void *data;

		if (!key || hash_eq(&t->want.key, key))
			for (uint32_t k = 0; k < t->n_waiters; k++)
				if (t->waiters[k] == waiter)
					t->waiters[k] = t->waiters[--t->n_waiters];
		if (!had || t->n_waiters) {
			i++;
			continue;
		}
		if (t->state == FARM_LEASED) {
			f->counts.revoked++;
			add_promise(
			    f, &(struct promise){t->want.key, t->device, t->gen, t->deadline_ns, true});
		}
		data = farm_end(f, t);
		if (free_data)
			free_data(data);
	}
}

struct farm_task *
farm_first(const struct farm *f)
{
	return f->n_tasks ? f->tasks[0] : NULL;
}

struct farm_task *
farm_after(const struct farm *f, const struct farm_task *t)
{
	return t->at + 1 < f->n_tasks ? f->tasks[t->at + 1] : NULL;
}

uint32_t
farm_n_tasks(const struct farm *f, enum farm_state s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_tasks; i++)
		n += f->tasks[i]->state == s;
	return n;
}

uint32_t
farm_n_waiting(const struct farm *f, int64_t env)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_tasks; i++)
		n += f->tasks[i]->state == FARM_READY && f->tasks[i]->want.env == env;
	return n;
}

/* ---- leases ------------------------------------------------------------------------- */
static bool
comes_before(const struct farm_task *a, const struct farm_task *b)
{
	return a->want.priority != b->want.priority ? a->want.priority > b->want.priority : a->seq < b->seq;
}

/* A task that failed for an unclear cause goes to another device, where there is one; so does one that a
 * device's word alone is not believed for. */
static bool
suits(const struct farm *f, const struct farm_task *t, const struct farm_device *d)
{
	if (t->state != FARM_READY || t->want.env != d->env)
		return false;
	return (t->last_fail == ERR_NONE && !t->is_doubted) || t->device != d->id || farm_able(f, d->env) < 2;
}

/* The best `max` suitable tasks, best first; whole builds and plans go alone. */
static uint32_t
pick(struct farm *f, const struct farm_device *d, uint32_t max, struct farm_task **best)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_tasks; i++) {
		struct farm_task *t = f->tasks[i];
		uint32_t at = n;

		if (!suits(f, t, d) || (n == max && !comes_before(t, best[n - 1])))
			continue;
		while (at > 0 && comes_before(t, best[at - 1]))
			at--;
		if (n == max)
			n--;
		memmove(best + at + 1, best + at, (n - at) * sizeof(*best));
		best[at] = t;
		n++;
	}
	for (uint32_t i = 0; i < n; i++)
		if (best[i]->want.kind != TASK_MEASURE)
			return i ? i : 1;
	return n;
}

uint32_t
farm_lease(struct farm *f, uint64_t device, uint32_t max, int64_t now_ns, struct farm_grant *out)
{
	struct farm_device *d = farm_device_of(f, device);
	struct farm_task *best[FARM_BATCH + 1];
	uint32_t n;

	if (!d || max == 0 || d->state == DEVICE_DRAINING)
		return 0;
	farm_here(f, device);
	if (d->state == DEVICE_QUARANTINED) {
		if (now_ns < d->until_ns)
			return 0;
		d->until_ns = now_ns + FARM_LEASE_NS; /* a lost canary is sent again */
		d->has_canary = true;
		d->canary_gen = f->next_gen++;
		out[0] = (struct farm_grant){NULL, d->canary_gen, FARM_LEASE_NS};
		return 1;
	}
	max = MIN_OF(max, (uint32_t)(d->is_proved ? FARM_BATCH : FARM_UNPROVED_BATCH));
	if (d->faults)
		max = 1;
	n = pick(f, d, max, best);
	for (uint32_t i = 0; i < n; i++) {
		take_lease(f, best[i], d, f->next_gen++, now_ns);
		out[i] = (struct farm_grant){best[i], best[i]->gen, best[i]->lease_ns};
		f->counts.grants++;
	}
	return n;
}

static struct farm_task *
held_by(const struct farm *f, uint64_t device, const struct hash *key, uint64_t gen)
{
	struct farm_task *t = farm_find(f, key);

	return t && t->state == FARM_LEASED && t->device == device && t->gen == gen ? t : NULL;
}

static struct promise *
promise_of(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen)
{
	for (uint32_t i = 0; i < f->n_promises; i++)
		if (f->promises[i].device == device && f->promises[i].gen == gen &&
		    hash_eq(&f->promises[i].key, key))
			return &f->promises[i];
	return NULL;
}

bool
farm_touch(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen, int64_t now_ns)
{
	struct farm_task *t = held_by(f, device, key, gen);
	struct farm_device *d = farm_device_of(f, device);
	struct promise *p;

	farm_here(f, device);
	if (t) {
		t->deadline_ns = now_ns + t->lease_ns;
		return true;
	}
	if (d && d->has_canary && d->canary_gen == gen)
		return true;
	p = promise_of(f, device, key, gen);
	if (p && p->is_orphan) { /* now it is told, and what it may still find out does not count */
		*p = f->promises[--f->n_promises];
		return false;
	}
	if (p)
		p->deadline_ns = now_ns + FARM_LEASE_NS;
	return p != NULL;
}

enum farm_hold
farm_holds(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen, int64_t now_ns,
    struct farm_task **task)
{
	*task = held_by(f, device, key, gen);
	if (promise_of(f, device, key, gen))
		return FARM_HOLDS_PROMISE;
	if (!farm_touch(f, device, key, gen, now_ns))
		return FARM_HOLDS_NOT;
	return *task ? FARM_HOLDS_LEASE : FARM_HOLDS_CANARY;
}

bool
farm_again(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen)
{
	struct farm_device *d = farm_device_of(f, device);
	struct farm_task *t = held_by(f, device, key, gen);

	if (!d || !t)
		return false;
	farm_device_success(d);
	farm_end_lease(f, t);
	t->last_fail = ERR_NONE;
	t->is_doubted = true;
	f->counts.again++;
	return true;
}

bool
farm_adopt(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen, int64_t now_ns)
{
	struct farm_task *t = farm_find(f, key);
	struct farm_device *d = farm_device_of(f, device);

	if (!d)
		return false;
	if (!t) {
		add_promise(f, &(struct promise){*key, device, gen, now_ns + FARM_LEASE_NS, false});
		return true;
	}
	if (t->state != FARM_READY || t->want.env != d->env)
		return held_by(f, device, key, gen) != NULL;
	take_lease(f, t, d, gen, now_ns);
	f->counts.adopted++;
	return true;
}

void
farm_release(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen)
{
	struct farm_task *t = held_by(f, device, key, gen);
	struct promise *p = promise_of(f, device, key, gen);

	if (t)
		farm_end_lease(f, t);
	if (p)
		*p = f->promises[--f->n_promises];
}

/* READY again, or over, by the budget of this kind of failure. */
static enum farm_verdict
fail_task(struct farm *f, struct farm_task *t, enum err_code fail)
{
	uint64_t device = t->device;

	farm_end_lease(f, t);
	t->device = device;
	t->last_fail = fail;
	t->failures[fail]++;
	if (t->failures[fail] < retry[fail].attempts) {
		f->counts.retried++;
		return FARM_RETRY;
	}
	f->counts.failed++;
	return FARM_FAILED;
}

static enum farm_verdict
finish_canary(struct farm_device *d, struct farm *f, enum err_code fail, int64_t now_ns)
{
	if (fail != ERR_NONE) {
		farm_device_fault(f, d, now_ns);
		return FARM_CANARY;
	}
	d->has_canary = false;
	d->state = DEVICE_OK;
	d->faults = 0;
	d->is_proved = false;
	return FARM_CANARY;
}

enum farm_verdict
farm_finish(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen, enum err_code fail,
    int64_t now_ns, struct farm_task **task_out)
{
	struct farm_device *d = farm_device_of(f, device);
	struct farm_task *t = held_by(f, device, key, gen);

	*task_out = NULL;
	farm_here(f, device);
	if (d && d->has_canary && d->canary_gen == gen)
		return finish_canary(d, f, fail, now_ns);
	if (!d || !t) {
		struct promise *p = promise_of(f, device, key, gen);

		if (p)
			*p = f->promises[--f->n_promises];
		f->counts.late++;
		return FARM_LATE;
	}
	if (fail != ERR_NONE && retry[fail].is_device)
		farm_device_fault(f, d, now_ns);
	else
		farm_device_success(d);
	*task_out = t;
	if (fail != ERR_NONE && retry[fail].attempts)
		return fail_task(f, t, fail);
	farm_end_lease(f, t);
	t->last_fail = fail;
	f->counts.done++;
	return fail == ERR_NONE ? FARM_DONE : FARM_FAILED;
}

struct farm_task *
farm_tick(struct farm *f, int64_t now_ns)
{
	for (uint32_t i = 0; i < f->n_promises;) {
		if (f->promises[i].deadline_ns <= now_ns)
			f->promises[i] = f->promises[--f->n_promises];
		else
			i++;
	}
	for (uint32_t i = 0; i < f->n_tasks; i++) {
		struct farm_task *t = f->tasks[i];
		struct farm_device *d;

		if (t->state != FARM_LEASED || t->deadline_ns > now_ns)
			continue;
		d = farm_device_of(f, t->device);
		f->counts.expired++;
		if (d)
			farm_device_fault(f, d, now_ns);
		if (fail_task(f, t, ERR_WORKERLOST) == FARM_FAILED)
			return t;
	}
	return NULL;
}

void
farm_late(struct farm *f, int64_t ns)
{
	for (uint32_t i = 0; i < f->n_promises; i++)
		f->promises[i].deadline_ns += ns;
	for (uint32_t i = 0; i < f->n_tasks; i++)
		f->tasks[i]->deadline_ns += ns;
}
