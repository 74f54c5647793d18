/* daemon/farm/roster.c: the devices: who is there, who is trusted.
 *
 *   OK -> GONE         the link broke (farm_gone); back by any message (farm_here)
 *   OK -> QUARANTINED  three faults of the device in a row; back by a canary that passes,
 *                      tried after a back-off that doubles
 *   any -> DRAINING    asked to finish and leave; no way back
 * A device that has not proved itself since its last fault gets few tasks at a time, so that
 * a machine that fails fast cannot burn the queue. */
#include "farm_int.h"

#include <stdlib.h>

enum { FAULTS_TO_QUARANTINE = 3 };

const char *
device_state_name(enum device_state s)
{
	static const char *const name[] = {[DEVICE_OK] = "ok",
	    [DEVICE_GONE] = "gone",
	    [DEVICE_DRAINING] = "draining",
	    [DEVICE_QUARANTINED] = "quarantined"};

	return name[s];
}

struct farm_device *
farm_device_of(const struct farm *f, uint64_t id)
{
	for (uint32_t i = 0; i < f->n_devices; i++)
		if (f->devices[i].id == id)
			return &f->devices[i];
	return NULL;
}

const struct farm_device *
farm_device(const struct farm *f, uint64_t device)
{
	return farm_device_of(f, device);
}

void
farm_end_lease(struct farm *f, struct farm_task *t)
{
	struct farm_device *d;

	if (t->state != FARM_LEASED)
		return;
	d = farm_device_of(f, t->device);
	if (d)
		d->n_leases--;
	t->state = FARM_READY;
	t->gen = 0;
}

void
farm_join(struct farm *f, uint64_t device, int64_t env)
{
	if (farm_device_of(f, device))
		bug("device %llu joins twice", (unsigned long long)device);
	GROW_HEAP(f->devices, f->n_devices, f->cap_devices);
	f->devices[f->n_devices++] = (struct farm_device){.id = device, .env = env};
}

void
farm_gone(struct farm *f, uint64_t device, int64_t now_ns)
{
	struct farm_device *d = farm_device_of(f, device);

	if (!d)
		return;
	if (d->state == DEVICE_OK)
		d->state = DEVICE_GONE;
	for (uint32_t i = 0; i < f->n_tasks; i++) {
		struct farm_task *t = f->tasks[i];

		if (t->state == FARM_LEASED && t->device == device)
			t->deadline_ns = MIN_OF(t->deadline_ns, now_ns + FARM_GRACE_NS);
	}
}

void
farm_here(struct farm *f, uint64_t device)
{
	struct farm_device *d = farm_device_of(f, device);

	if (d && d->state == DEVICE_GONE)
		d->state = DEVICE_OK;
}

void
farm_leave(struct farm *f, uint64_t device)
{
	struct farm_device *d = farm_device_of(f, device);

	if (!d)
		return;
	for (uint32_t i = 0; i < f->n_tasks; i++)
		if (f->tasks[i]->state == FARM_LEASED && f->tasks[i]->device == device)
			farm_end_lease(f, f->tasks[i]);
	for (uint32_t i = 0; i < f->n_promises;) {
		if (f->promises[i].device == device)
			f->promises[i] = f->promises[--f->n_promises];
		else
			i++;
	}
	*d = f->devices[--f->n_devices];
}

void
farm_drain(struct farm *f, uint64_t device)
{
	struct farm_device *d = farm_device_of(f, device);

	if (d)
		d->state = DEVICE_DRAINING;
}

uint32_t
farm_able(const struct farm *f, int64_t env)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_devices; i++)
		n += f->devices[i].env == env &&
		    (f->devices[i].state == DEVICE_OK || f->devices[i].state == DEVICE_QUARANTINED);
	return n;
}

void
farm_device_fault(struct farm *f, struct farm_device *d, int64_t now_ns)
{
	d->faults++;
	d->all_faults++;
	d->is_proved = false;
	if (d->faults < FAULTS_TO_QUARANTINE || d->state == DEVICE_DRAINING ||
	    (d->state == DEVICE_QUARANTINED && !d->has_canary))
		return; /* what was under way when it was locked out does not count twice */
	d->backoff_ns = d->backoff_ns ? MIN_OF(2 * d->backoff_ns, FARM_BACKOFF_MAX_NS) : FARM_BACKOFF_NS;
	d->until_ns = now_ns + d->backoff_ns;
	if (d->state != DEVICE_QUARANTINED)
		f->counts.quarantined++;
	d->state = DEVICE_QUARANTINED;
	d->has_canary = false;
}

void
farm_device_success(struct farm_device *d)
{
	d->faults = 0;
	d->is_proved = true;
	d->done++;
	d->backoff_ns = 0;
}

void
farm_kick(struct farm *f)
{
	for (uint32_t i = 0; i < f->n_devices; i++)
		if (f->devices[i].state == DEVICE_QUARANTINED)
			f->devices[i].until_ns = INT64_MIN;
}

void
farm_verify(const struct farm *f)
{
	uint32_t leases = 0, counted = 0;

	for (uint32_t i = 0; i < f->n_tasks; i++) {
		const struct farm_task *t = f->tasks[i];
		const struct farm_device *d;

		if (t->at != i || farm_find(f, &t->want.key) != t)
			bug("task %u is not where the tables say", i);
		if (t->n_waiters == 0)
			bug("task %u has nobody waiting", i);
		if ((t->state == FARM_LEASED) != (t->gen != 0))
			bug("task %u: state and generation disagree", i);
		if (t->state != FARM_LEASED)
			continue;
		leases++;
		d = farm_device(f, t->device);
		if (!d || d->env != t->want.env)
			bug("task %u is at a device that is gone or of another environment", i);
		for (uint32_t k = 0; k < i; k++)
			if (f->tasks[k]->gen == t->gen)
				bug("tasks %u and %u share generation %llu", i, k,
				    (unsigned long long)t->gen);
	}
	for (uint32_t i = 0; i < f->n_devices; i++)
		counted += f->devices[i].n_leases;
	if (leases != counted)
		bug("%u leases and %u counted at the devices", leases, counted);
}
