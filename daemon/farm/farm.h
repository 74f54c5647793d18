/* daemon/farm/farm.h: which device does which task: queue, leases, retries, quarantine.
 * A pure state machine: time comes in as an argument (any monotonic clock), nothing goes out
 * but return values and events.
 *
 * A lease is (task, generation).  Invariants:
 *  1. at most one live generation per task;
 *  2. a result with another generation never finishes the task;
 *  3. every task ends once: finished, failed for good, or dropped when nobody waits for it;
 *  4. a device gets tasks of its own environment only. */
#ifndef KORCH_FARM_H
#define KORCH_FARM_H

#include "../../kernels/base/base.h"
#include "../../proto/msg.h"

enum {
	FARM_BATCH = 64,         /* tasks a lease call gives at most */
	FARM_UNPROVED_BATCH = 4, /* to a device that has not yet finished any, or has just failed */
};
#define FARM_LEASE_NS ((int64_t)15 * 1000000000)
#define FARM_LEASE_MAX_NS ((int64_t)600 * 1000000000)
#define FARM_GRACE_NS ((int64_t)5 * 1000000000)
#define FARM_BACKOFF_NS ((int64_t)30 * 1000000000)
#define FARM_BACKOFF_MAX_NS ((int64_t)1800 * 1000000000)

enum farm_state { FARM_READY, FARM_LEASED };

struct farm_want {
	struct hash key; /* of all that decides the result */
	enum task_kind kind;
	int64_t env;       /* the environment it is for */
	int64_t priority;  /* larger first */
	int64_t expect_ns; /* about how long it takes */
};
struct farm_task {
	struct farm_want want;
	enum farm_state state;
	uint64_t gen;    /* of the live lease; 0: none */
	uint64_t device; /* that holds it, or held it last */
	int64_t deadline_ns;
	int64_t lease_ns;
	uint64_t seq;
	uint64_t *waiters; /* who wants it; the owner's numbers */
	uint32_t n_waiters, cap_waiters;
	uint32_t failures[ERR_COUNT];
	enum err_code last_fail;
	bool is_doubted; /* done, and not believed on one word: another device does it again, where there is
	                    one */
	void *data;      /* the owner's; given back by every end */
	struct farm_task *next_in_bucket;
	uint32_t at; /* in farm.tasks */
};
struct farm_counts {
	uint64_t grants, done, late, expired, retried, failed, adopted, revoked, merged, quarantined, again;
};
enum device_state { DEVICE_OK, DEVICE_GONE, DEVICE_DRAINING, DEVICE_QUARANTINED };
const char *device_state_name(enum device_state s);
struct farm_device {
	uint64_t id;
	int64_t env;
	enum device_state state;
	bool is_proved;  /* has finished a task since its last fault */
	bool has_canary; /* a canary is out */
	uint64_t canary_gen;
	uint32_t faults; /* in a row */
	uint32_t n_leases;
	uint64_t done, all_faults;
	int64_t backoff_ns, until_ns; /* quarantine */
};
struct farm;

/* Generations start behind `boot` << 32: no two lives of a daemon share one. */
struct farm *farm_new(uint64_t boot);
void farm_free(struct farm *f, void (*free_data)(void *data));
const struct farm_counts *farm_counts(const struct farm *f);

/* ---- devices ---- */
void farm_join(struct farm *f, uint64_t device, int64_t env);
/* The link has gone: its leases live on for a grace, unless it speaks again. */
void farm_gone(struct farm *f, uint64_t device, int64_t now_ns);
void farm_here(struct farm *f, uint64_t device);
/* It said goodbye: its leases end at once, at no one's charge. */
void farm_leave(struct farm *f, uint64_t device);
void farm_drain(struct farm *f, uint64_t device);
const struct farm_device *farm_device(const struct farm *f, uint64_t device); /* NULL: none */
/* Devices of an environment that can take work now or soon. */
uint32_t farm_able(const struct farm *f, int64_t env);

/* ---- tasks ---- */
/* A new task, or the one with that key (merged: *is_new false, `data` stays the caller's).
 * A task that was given up is forgotten; wanted again, it gets fresh attempts. */
struct farm_task *farm_add(
    struct farm *f, const struct farm_want *want, uint64_t waiter, void *data, int64_t now_ns, bool *is_new);
struct farm_task *farm_find(const struct farm *f, const struct hash *key); /* NULL: none */
/* Nobody waits on behalf of `waiter` any more: for one task, or all (key NULL).  Tasks without
 * waiters are dropped; those out at a device are revoked, which it hears when it next touches the lease: what
 * it has found out by then still counts.  free_data is called for the dropped. */
void farm_drop(struct farm *f, uint64_t waiter, const struct hash *key, void (*free_data)(void *data));
/* All tasks, in no order; adding or ending one spoils the walk. */
struct farm_task *farm_first(const struct farm *f);
struct farm_task *farm_after(const struct farm *f, const struct farm_task *t);
uint32_t farm_n_tasks(const struct farm *f, enum farm_state s);
uint32_t farm_n_waiting(const struct farm *f, int64_t env); /* ready ones of an environment */

/* ---- leases ---- */
struct farm_grant {
	struct farm_task *task; /* NULL: a canary */
	uint64_t gen;
	int64_t lease_ns;
};
uint32_t farm_lease(struct farm *f, uint64_t device, uint32_t max, int64_t now_ns, struct farm_grant *out);
/* Renews; false: the lease is not (or no longer) this device's. */
bool farm_touch(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen, int64_t now_ns);
/* A device that was there before us says what it still holds: adopted, now or when the task is
 * asked for.  false: revoked. */
bool farm_adopt(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen, int64_t now_ns);
/* What a device has of a task by that generation. */
enum farm_hold {
	FARM_HOLDS_NOT,
	FARM_HOLDS_LEASE,
	FARM_HOLDS_PROMISE, /* nobody asks for the task: yet, as it was adopted; or any more, which the device
	                       was not told */
	FARM_HOLDS_CANARY,
};
/* *task: of a lease, else NULL.  A result is on its way: the lease is renewed. */
enum farm_hold farm_holds(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen,
    int64_t now_ns, struct farm_task **task);
/* Done, and to be done once more before it counts: READY, at no one's charge.  false: not its lease. */
bool farm_again(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen);
/* Handed back unfinished, at no one's charge. */
void farm_release(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen);

enum farm_verdict {
	FARM_LATE,   /* old generation or unknown: evidence only */
	FARM_DONE,   /* the task is over (task_out: caller notifies its waiters, then farm_end) */
	FARM_FAILED, /* over, with this failure (same duty) */
	FARM_RETRY,  /* it will be tried again */
	FARM_CANARY, /* the canary's result was taken */
};
/* A result came.  fail: ERR_NONE, or why the task as a whole failed. */
enum farm_verdict farm_finish(struct farm *f, uint64_t device, const struct hash *key, uint64_t gen,
    enum err_code fail, int64_t now_ns, struct farm_task **task_out);
/* Removes a task that is over; returns its data. */
void *farm_end(struct farm *f, struct farm_task *t);
/* Lets deadlines pass.  Returns a task that has used up its attempts (same duty as
 * FARM_FAILED: its last_fail says why), or NULL when there is nothing more. */
struct farm_task *farm_tick(struct farm *f, int64_t now_ns);
/* The caller was held up for so long that it took no renewal: deadlines move on by it, before farm_tick. */
void farm_late(struct farm *f, int64_t ns);
/* Every device out of quarantine, to be proved by a canary first. */
void farm_kick(struct farm *f);

/* Aborts with the broken invariant (for tests). */
void farm_verify(const struct farm *f);

#endif
